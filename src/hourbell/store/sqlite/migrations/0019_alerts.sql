-- Alerts: policies, channels, incidents, and what tells the watchers where to look.

alter table hourbell_jobs add column alert_policy text not null default '' check (length(alert_policy) <= 60);
alter table hourbell_job_changes add column alert_policy text not null default '';

drop trigger hourbell_jobs_changed;

create trigger hourbell_jobs_changed after update of
    name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry, delivery,
    max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source, subject,
    alert_policy, version
on hourbell_jobs for each row
when not (new.version = old.version + 1 and new.saved_version = new.version) and old.deleted_at is null
    and (new.version < old.version
         or (old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
             old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
             old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source,
             old.subject, old.alert_policy)
         is not
            (new.name, new.description, new.schedule, new.timezone, new.dst, new.target, new.payload, new.catch_up,
             new.catch_up_window, new.overlap, new.retry, new.delivery, new.max_age, new.late_after, new.priority,
             new.jitter, new.starts_at, new.ends_at, new.enabled, new.tags, new.managed_by, new.source,
             new.subject, new.alert_policy))
begin
    insert into hourbell_job_changes (
        job_id, changed_at,
        name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry,
        delivery, max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source,
        subject, alert_policy, paused_until, error, version, saved_version, updated_at)
    values (
        old.id, cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000,
        old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
        old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
        old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source, old.subject,
        old.alert_policy, old.paused_until, old.error, old.version, old.saved_version, old.updated_at);
    update hourbell_jobs
    set version = max(new.version, old.version + 1),
        saved_version = 0,
        has_changes = 1,
        updated_at = cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000,
        plan_at = min(coalesce(old.plan_at, cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000),
                      cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000),
        error = null,
        paused_note = case when new.enabled then null else paused_note end,
        paused_by = case when new.enabled then null else paused_by end,
        paused_until = case when new.enabled then null else paused_until end,
        next_at = case
            when old.error is null
                and (old.schedule, old.timezone, old.dst, old.catch_up, old.enabled, old.starts_at, old.ends_at)
                    is (new.schedule, new.timezone, new.dst, new.catch_up, new.enabled, new.starts_at, new.ends_at)
            then next_at end
    where id = new.id;
end;

-- A job of Hourbell's own is managed by `system`. SQLite has no statement that changes a check; this is the way that its
-- documentation describes (https://sqlite.org/lang_altertable.html, section 7). The schema is read again at once.
pragma writable_schema = on;
update sqlite_schema
set sql = replace(sql, 'managed_by in (''api'', ''code'', ''sql'', ''file'')',
                       'managed_by in (''api'', ''code'', ''sql'', ''file'', ''system'')')
where type = 'table' and name = 'hourbell_jobs';
pragma writable_schema = reset;

-- The runs that failed since the last success: how many, since when, and the last one. `alert_at` is set while a watcher
-- has not seen the last change of that. A success of a job that did not fail changes none of the four.
alter table hourbell_job_stats add column streak integer not null default 0;
alter table hourbell_job_stats add column first_failed_at integer;
alter table hourbell_job_stats add column failed_run_id blob;
alter table hourbell_job_stats add column alert_at integer;

create index hourbell_job_stats_alerts on hourbell_job_stats (alert_at) where alert_at is not null;

-- Scheduled times that got no run, for the watchers, who delete what they have seen. Rows are only added, so that nobody
-- waits for anybody.
create table hourbell_alert_signals (
    id integer primary key autoincrement,
    job_id blob not null,
    reason text not null,
    missed_at integer not null,
    count integer not null
) strict;

create trigger hourbell_skips_signalled after insert on hourbell_skips for each row
when new.reason in ('missed', 'window', 'overlap')
begin
    insert into hourbell_alert_signals (job_id, reason, missed_at, count)
    values (new.job_id, new.reason, new.last_at, new.count);
end;

create trigger hourbell_skips_extended after update of count on hourbell_skips for each row
when new.reason in ('missed', 'window', 'overlap') and new.count > old.count
begin
    insert into hourbell_alert_signals (job_id, reason, missed_at, count)
    values (new.job_id, new.reason, new.last_at, new.count - old.count);
end;

create table hourbell_alert_policies (
    name text not null primary key,
    definition text not null check (json_valid(definition)),
    updated_at integer not null,
    updated_by text not null
) strict, without rowid;

-- Secrets of a channel are those of its system job, whose runs are its notifications.
create table hourbell_channels (
    name text not null primary key,
    type text not null,
    config text not null check (json_valid(config)),
    origin text,
    job_id blob not null references hourbell_jobs (id) on delete cascade,
    created_at integer not null,
    updated_at integer not null,
    updated_by text not null
) strict, without rowid;

create unique index hourbell_channels_of_job on hourbell_channels (job_id);

create table hourbell_incidents (
    id blob not null primary key check (length(id) = 16),
    key text not null,
    kind text not null,
    state text not null check (state in ('open', 'acknowledged', 'resolved')),
    policy text not null,
    opened_at integer not null,
    last_at integer not null,
    version integer not null default 1,
    job_id blob,
    run_id blob,
    lane text,
    error text not null default '',
    fingerprint text not null default '',
    count integer not null default 1,
    group_size integer not null default 1,
    steps integer not null default 0,
    escalated integer not null default 0,
    opened_before integer not null default 0,
    notified_at integer,
    next_at integer,
    acknowledged_at integer,
    acknowledged_by text,
    muted_until integer,
    resolved_at integer,
    resolved_by text
) strict;

-- While an incident is unresolved, there is no other one with its key.
create unique index hourbell_incidents_unresolved on hourbell_incidents (key) where state <> 'resolved';
create index hourbell_incidents_due on hourbell_incidents (next_at) where next_at is not null;
create index hourbell_incidents_of_key on hourbell_incidents (key, opened_at);
create index hourbell_incidents_of_job on hourbell_incidents (job_id, opened_at, id) where job_id is not null;
create index hourbell_incidents_opened on hourbell_incidents (opened_at, id);
create index hourbell_incidents_resolved on hourbell_incidents (resolved_at) where resolved_at is not null;

create trigger hourbell_incidents_ended before update on hourbell_incidents for each row
when old.state = 'resolved' or (old.state = 'acknowledged' and new.state = 'open')
begin
    select raise(abort, 'an incident that was resolved never changes, and an acknowledged one is not opened again');
end;

-- The jobs of an incident that concerns all jobs of a host; `healed_at` is when one of them was well again.
create table hourbell_incident_jobs (
    incident_id blob not null references hourbell_incidents (id) on delete cascade,
    job_id blob not null,
    joined_at integer not null,
    healed_at integer,
    primary key (incident_id, job_id)
) strict, without rowid;

create index hourbell_incident_jobs_of_job on hourbell_incident_jobs (job_id) where healed_at is null;

-- Which run tells what. The run itself says whether it was delivered.
create table hourbell_notifications (
    run_id blob not null primary key,
    incident_id blob references hourbell_incidents (id) on delete cascade,
    channel text not null,
    event text not null,
    step integer not null,
    planned_at integer not null
) strict, without rowid;

create index hourbell_notifications_of_incident on hourbell_notifications (incident_id, step);
