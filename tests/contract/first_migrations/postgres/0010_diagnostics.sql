-- What diagnostics need: finished jobs and late runs by an index, the start of the last run, and errors of runs that are
-- retried.

-- Enabled jobs that never fire again.
create index jobs_done on hourbell.jobs (name collate "C")
    where enabled and error is null and next_at is null and plan_at is null and cursor_at is not null
      and deleted_at is null;

-- Ended runs that began more than ten seconds late, worst last. Backfills and replays repeat the past on purpose.
create index runs_late on hourbell.runs ((started_at - scheduled_at))
    where finished_at is not null and kind in ('scheduled', 'manual')
      and started_at - scheduled_at > interval '10 seconds';

-- The last run is the one that began last, also while it is under way; its success is that of the last run to end.
create or replace view hourbell.job_status as
select j.name,
       j.enabled,
       coalesce(
           (select max(r.started_at) from hourbell.runs r
            where r.job_id = j.id and r.state = 'running' and r.started_at >= coalesce(l.started_at, '-infinity')),
           l.started_at, s.last_run_at) as last_run_at,
       s.last_state = 'succeeded' as last_run_success,
       coalesce(s.succeeded + s.failed + s.cancelled, 0) as total_runs,
       round(100.0 * s.succeeded / nullif(s.succeeded + s.failed, 0), 1) as success_rate_percent,
       j.next_at
from hourbell.jobs j
left join hourbell.job_stats s on s.job_id = j.id
left join hourbell.runs l on l.id = s.last_run_id
where j.deleted_at is null;

-- As before; the error of an attempt is the job's last error also while its run is retried, and a run's start, which the
-- claim set, becomes that of its first attempt.
create or replace function hourbell.settle_run(
    nonce bytea, run_id uuid, attempt integer, state text, reason text, ready_at timestamptz, failures integer,
    crashes integer, result text, at timestamptz, has_attempt boolean, node uuid, begun_at timestamptz, outcome text,
    error text, status_code integer, excerpt text, phases text
) returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    job uuid;
begin
    delete from hourbell.function_calls c
    where c.run_id = settle_run.run_id and c.attempt = settle_run.attempt
      and c.nonce_digest = pg_catalog.sha256(settle_run.nonce);
    if not found then
        return false;
    end if;
    if state in ('pending', 'retrying')
            and exists (select 1 from hourbell.cancels c where c.run_id = settle_run.run_id) then
        state := 'cancelled';
        reason := null;
        ready_at := null;
    end if;
    update hourbell.runs r
    set state = settle_run.state, reason = settle_run.reason,
        ready_at = coalesce(settle_run.ready_at, r.ready_at), failures = settle_run.failures,
        crashes = settle_run.crashes, result = settle_run.result::jsonb, lease_owner = null, lease_until = null,
        started_at = case
            when settle_run.state = 'pending' then null
            when settle_run.has_attempt and (settle_run.attempt = 1 or not exists (
                select 1 from hourbell.attempts a where a.run_id = settle_run.run_id)) then settle_run.begun_at
            else r.started_at end,
        finished_at = case when settle_run.state in ('succeeded', 'failed', 'cancelled') then settle_run.at end
    where r.id = settle_run.run_id and r.attempt = settle_run.attempt and r.state = 'running'
    returning r.job_id into job;
    if not found then
        return false;
    end if;
    if has_attempt then
        insert into hourbell.attempts (run_id, number, node, started_at, finished_at, outcome, status_code, error,
                                       excerpt, phases)
        values (settle_run.run_id, settle_run.attempt, settle_run.node, settle_run.begun_at, settle_run.at,
                settle_run.outcome, settle_run.status_code, settle_run.error, settle_run.excerpt,
                settle_run.phases::jsonb)
        on conflict do nothing;
    end if;
    if state in ('succeeded', 'failed', 'cancelled') then
        insert into hourbell.job_stats as s (job_id, last_run_id, last_run_at, last_state, last_error,
                                             last_success_at, succeeded, failed, cancelled)
        values (job, settle_run.run_id, settle_run.at, settle_run.state,
                case when settle_run.state = 'failed' then settle_run.error end,
                case when settle_run.state = 'succeeded' then settle_run.at end,
                (settle_run.state = 'succeeded')::integer, (settle_run.state = 'failed')::integer,
                (settle_run.state = 'cancelled')::integer)
        on conflict (job_id) do update
        set last_run_id = excluded.last_run_id,
            last_run_at = excluded.last_run_at,
            last_state = excluded.last_state,
            last_error = coalesce(excluded.last_error, s.last_error),
            last_success_at = coalesce(excluded.last_success_at, s.last_success_at),
            succeeded = s.succeeded + excluded.succeeded,
            failed = s.failed + excluded.failed,
            cancelled = s.cancelled + excluded.cancelled;
    elsif state = 'retrying' and error is not null then
        insert into hourbell.job_stats as s (job_id, last_run_id, last_run_at, last_error)
        values (job, settle_run.run_id, settle_run.at, settle_run.error)
        on conflict (job_id) do update
        set last_run_id = excluded.last_run_id, last_run_at = excluded.last_run_at, last_error = excluded.last_error;
    end if;
    return true;
end $$;


-- Runs a job now, as before; the local time of the run is that of the job's zone, or UTC where PostgreSQL has no such zone.
create or replace function hourbell.trigger_job(job_name text) returns jsonb language plpgsql as $$
declare
    job hourbell.jobs;
    made uuid := gen_random_uuid();
    local_time timestamp;
begin
    select * into job from hourbell.jobs where name collate "C" = job_name and deleted_at is null for key share;
    if not found then
        return jsonb_build_object('success', false, 'job_name', job_name, 'message', 'no such job');
    end if;
    if job.error is not null then
        return jsonb_build_object('success', false, 'job_name', job_name, 'message', job.error);
    end if;
    if job.saved_version <> job.version or job.lane = '' then
        return jsonb_build_object('success', false, 'job_name', job_name,
                                  'message', 'not adopted yet: try again in a second, and see that a Hourbell node is running');
    end if;
    begin
        local_time := now() at time zone job.timezone;
    exception when invalid_parameter_value then
        local_time := now() at time zone 'UTC';
    end;
    insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane,
                               exclusive, at_most_once, planned_at)
    values (made, job.id, job.version, 'manual', now(), local_time, now(), now() + job.max_age,
            case job.priority when 'high' then 0 when 'normal' then 1 else 2 end, job.lane,
            job.overlap <> 'allow', job.delivery = 'at_most_once', now());
    insert into hourbell.audit (at, actor, action, subject, after)
    values (now(), 'sql', 'job.trigger', job.id::text, jsonb_build_object('run', made));
    perform pg_notify('hourbell', 'runs');
    return jsonb_build_object('success', true, 'run_id', made, 'job_name', job_name);
end $$;
