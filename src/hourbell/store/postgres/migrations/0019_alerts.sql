-- Alerts: policies, channels, incidents, and what tells the watchers where to look.

alter table hourbell.jobs add column alert_policy text not null default '' check (length(alert_policy) <= 60);
alter table hourbell.job_changes add column alert_policy text not null default '';

create or replace function hourbell.note_change() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    moment timestamptz := clock_timestamp();
begin
    insert into hourbell.job_changes (
        job_id, changed_at,
        name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry,
        delivery, max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source,
        subject, alert_policy, paused_until, error, version, saved_version, updated_at)
    values (
        old.id, moment,
        old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
        old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
        old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source, old.subject,
        old.alert_policy, old.paused_until, old.error, old.version, old.saved_version, old.updated_at);
    new.version := greatest(new.version, old.version + 1);
    new.saved_version := 0;
    new.has_changes := true;
    new.updated_at := moment;
    new.plan_at := least(old.plan_at, moment);
    new.error := null;
    if new.enabled then
        new.paused_note := null;
        new.paused_by := null;
        new.paused_until := null;
    end if;
    if old.error is not null
            or (old.schedule, old.timezone, old.dst, old.catch_up, old.enabled, old.starts_at, old.ends_at)
            is distinct from
            (new.schedule, new.timezone, new.dst, new.catch_up, new.enabled, new.starts_at, new.ends_at) then
        new.next_at := null;
    end if;
    return new;
end $$;

drop trigger jobs_changed on hourbell.jobs;

create trigger jobs_changed before update of
    name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry, delivery,
    max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source, subject,
    alert_policy, version
on hourbell.jobs for each row
when (not (new.version = old.version + 1 and new.saved_version = new.version) and old.deleted_at is null and (
    new.version < old.version
    or (old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
       old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
       old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source, old.subject, old.alert_policy)
    is distinct from
       (new.name, new.description, new.schedule, new.timezone, new.dst, new.target, new.payload, new.catch_up,
       new.catch_up_window, new.overlap, new.retry, new.delivery, new.max_age, new.late_after, new.priority,
       new.jitter, new.starts_at, new.ends_at, new.enabled, new.tags, new.managed_by, new.source, new.subject, new.alert_policy)))
execute function hourbell.note_change();

drop trigger jobs_updated on hourbell.jobs;

create trigger jobs_updated after update of
    name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry, delivery,
    max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source, subject,
    alert_policy
on hourbell.jobs for each statement execute function hourbell.announce_jobs();

-- A job of Hourbell's own is managed by `system`.
alter table hourbell.jobs drop constraint jobs_managed_by_check;
alter table hourbell.jobs add constraint jobs_managed_by_check
    check (managed_by in ('api', 'code', 'sql', 'file', 'system'));

-- The runs that failed since the last success: how many, since when, and the last one. `alert_at` is set while a watcher
-- has not seen the last change of that. A success of a job that did not fail changes none of the four.
alter table hourbell.job_stats add column streak integer not null default 0;
alter table hourbell.job_stats add column first_failed_at timestamptz;
alter table hourbell.job_stats add column failed_run_id uuid;
alter table hourbell.job_stats add column alert_at timestamptz;

create index job_stats_alerts on hourbell.job_stats (alert_at) where alert_at is not null;

-- The settlement of a function's own login keeps the same.
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
                                             last_success_at, succeeded, failed, cancelled, streak, first_failed_at,
                                             failed_run_id, alert_at)
        values (job, settle_run.run_id, settle_run.at, settle_run.state,
                case when settle_run.state = 'failed' then settle_run.error end,
                case when settle_run.state = 'succeeded' then settle_run.at end,
                (settle_run.state = 'succeeded')::integer, (settle_run.state = 'failed')::integer,
                (settle_run.state = 'cancelled')::integer, (settle_run.state = 'failed')::integer,
                case when settle_run.state = 'failed' then settle_run.at end,
                case when settle_run.state = 'failed' then settle_run.run_id end,
                case when settle_run.state = 'failed' then settle_run.at end)
        on conflict (job_id) do update
        set last_run_id = excluded.last_run_id,
            last_run_at = excluded.last_run_at,
            last_state = excluded.last_state,
            last_error = coalesce(excluded.last_error, s.last_error),
            last_success_at = coalesce(excluded.last_success_at, s.last_success_at),
            succeeded = s.succeeded + excluded.succeeded,
            failed = s.failed + excluded.failed,
            cancelled = s.cancelled + excluded.cancelled,
            streak = case when excluded.succeeded > 0 then 0 else s.streak + excluded.streak end,
            first_failed_at = case when excluded.succeeded > 0 then null
                                   else coalesce(s.first_failed_at, excluded.first_failed_at) end,
            failed_run_id = coalesce(excluded.failed_run_id, s.failed_run_id),
            alert_at = case when excluded.failed > 0 or (excluded.succeeded > 0 and s.streak > 0)
                            then excluded.last_run_at else s.alert_at end;
    elsif state = 'retrying' and error is not null then
        insert into hourbell.job_stats as s (job_id, last_run_id, last_run_at, last_error)
        values (job, settle_run.run_id, settle_run.at, settle_run.error)
        on conflict (job_id) do update
        set last_run_id = excluded.last_run_id, last_run_at = excluded.last_run_at, last_error = excluded.last_error;
    end if;
    return true;
end $$;

-- Scheduled times that got no run, for the watchers, who delete what they have seen. Rows are only added, so that nobody
-- waits for anybody.
create table hourbell.alert_signals (
    id bigint generated always as identity primary key,
    job_id uuid not null,
    reason text not null,
    missed_at timestamptz not null,
    count bigint not null
);

-- Whoever may insert skips need not have any right on the signals.
create function hourbell.signal_skip() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into hourbell.alert_signals (job_id, reason, missed_at, count)
    values (new.job_id, new.reason, new.last_at, new.count - case when tg_op = 'UPDATE' then old.count else 0 end);
    return null;
end $$;

revoke all on function hourbell.signal_skip() from public;

create trigger skips_signalled after insert on hourbell.skips for each row
when (new.reason in ('missed', 'window', 'overlap')) execute function hourbell.signal_skip();

create trigger skips_extended after update of count on hourbell.skips for each row
when (new.reason in ('missed', 'window', 'overlap') and new.count > old.count) execute function hourbell.signal_skip();

create table hourbell.alert_policies (
    name text collate "C" primary key,
    definition jsonb not null,
    updated_at timestamptz not null,
    updated_by text not null
);

-- Secrets of a channel are those of its system job, whose runs are its notifications.
create table hourbell.channels (
    name text collate "C" primary key,
    type text not null,
    config jsonb not null,
    origin text,
    job_id uuid not null references hourbell.jobs (id) on delete cascade,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    updated_by text not null
);

create unique index channels_of_job on hourbell.channels (job_id);

create table hourbell.incidents (
    id uuid primary key,
    key text not null,
    kind text not null,
    state text not null check (state in ('open', 'acknowledged', 'resolved')),
    policy text not null,
    opened_at timestamptz not null,
    last_at timestamptz not null,
    version integer not null default 1,
    job_id uuid,
    run_id uuid,
    lane text,
    error text not null default '',
    fingerprint text not null default '',
    count integer not null default 1,
    group_size integer not null default 1,
    steps integer not null default 0,
    escalated integer not null default 0,
    opened_before integer not null default 0,
    notified_at timestamptz,
    next_at timestamptz,
    acknowledged_at timestamptz,
    acknowledged_by text,
    muted_until timestamptz,
    resolved_at timestamptz,
    resolved_by text
);

-- While an incident is unresolved, there is no other one with its key.
create unique index incidents_unresolved on hourbell.incidents (key) where state <> 'resolved';
create index incidents_due on hourbell.incidents (next_at) where next_at is not null;
create index incidents_of_key on hourbell.incidents (key, opened_at);
create index incidents_of_job on hourbell.incidents (job_id, opened_at, id) where job_id is not null;
create index incidents_opened on hourbell.incidents (opened_at, id);
create index incidents_resolved on hourbell.incidents (resolved_at) where resolved_at is not null;

create function hourbell.refuse_incident_change() returns trigger language plpgsql as $$
begin
    raise exception 'an incident that was resolved never changes, and an acknowledged one is not opened again'
        using errcode = 'check_violation';
end $$;

create trigger incidents_ended before update on hourbell.incidents for each row
when (old.state = 'resolved' or (old.state = 'acknowledged' and new.state = 'open'))
execute function hourbell.refuse_incident_change();

-- The jobs of an incident that concerns all jobs of a host; `healed_at` is when one of them was well again.
create table hourbell.incident_jobs (
    incident_id uuid not null references hourbell.incidents (id) on delete cascade,
    job_id uuid not null,
    joined_at timestamptz not null,
    healed_at timestamptz,
    primary key (incident_id, job_id)
);

create index incident_jobs_of_job on hourbell.incident_jobs (job_id) where healed_at is null;

-- Which run tells what. The run itself says whether it was delivered.
create table hourbell.notifications (
    run_id uuid primary key,
    incident_id uuid references hourbell.incidents (id) on delete cascade,
    channel text not null,
    event text not null,
    step integer not null,
    planned_at timestamptz not null
);

create index notifications_of_incident on hourbell.notifications (incident_id, step);
