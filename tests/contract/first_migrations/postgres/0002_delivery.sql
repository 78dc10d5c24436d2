-- What deliveries need: secrets are read for each of them, and functions may settle themselves under another login.

create index secrets_of_job on hourbell.secrets (job_id);

-- The dead letters, newest first.
create index runs_failed on hourbell.runs (finished_at, id) where state = 'failed';

-- The call of a function that may settle its run, known by the digest of a nonce which only the calling node has.
-- A row goes with the settlement, is overwritten by the run's next attempt, and goes with the run at last.
create table hourbell.function_calls (
    run_id uuid primary key,
    attempt integer not null,
    nonce_digest bytea not null
);

-- A statement's trigger: a foreign key would cost every update of a run.
create function hourbell.forget_calls() returns trigger language plpgsql as $$
begin
    delete from hourbell.function_calls c using gone where c.run_id = gone.id;
    return null;
end $$;

create trigger runs_deleted after delete on hourbell.runs referencing old table as gone
for each statement execute function hourbell.forget_calls();

-- Settles one run for a login that has no right to the tables, as the engine's own statement `settle` does: the two
-- write the same. False, with nothing to keep, if the nonce is not the attempt's or the attempt is no longer the run's.
--
-- A login for functions is made so, by somebody who may:
--
--     create role hourbell_functions login password '…';
--     grant usage on schema hourbell to hourbell_functions;
--     grant execute on function hourbell.settle_run to hourbell_functions;
--
-- and everybody may execute functions unless that is taken away, in every schema with functions to protect:
--
--     revoke execute on all functions in schema public from public;
--     alter default privileges revoke execute on functions from public;
--     grant execute on function public.run_daily_cleanup(integer) to hourbell_functions;
create function hourbell.settle_run(
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
        started_at = case when settle_run.state <> 'pending' then r.started_at end,
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
    end if;
    return true;
end $$;

revoke all on function hourbell.settle_run from public;

-- Runs a job now, as before; of a job that cannot run it says why.
create or replace function hourbell.trigger_job(job_name text) returns jsonb language plpgsql as $$
declare
    job hourbell.jobs;
    made uuid := gen_random_uuid();
begin
    select * into job from hourbell.jobs where name = job_name and deleted_at is null for key share;
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
    insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane,
                               exclusive, at_most_once, planned_at)
    values (made, job.id, job.version, 'manual', now(), now() at time zone 'UTC', now(), now() + job.max_age,
            case job.priority when 'high' then 0 when 'normal' then 1 else 2 end, job.lane,
            job.overlap <> 'allow', job.delivery = 'at_most_once', now());
    perform pg_notify('hourbell', 'runs');
    return jsonb_build_object('success', true, 'run_id', made, 'job_name', job_name);
end $$;
