-- Plain SQL is accounted for exactly. Whenever a statement that is not Hourbell's own changes a job, a trigger keeps what
-- the job was until then, and the moment. The planner plans each earlier version up to its change, then the next one.
-- Hourbell's own statements account for the old version themselves; they are known by writing the next version as saved.
-- `insert or replace` removes a row without any trigger: what it was until then is not kept, and `hourbell doctor` tells.

alter table hourbell_jobs add column has_changes integer not null default 0;
alter table hourbell_jobs add column deleted_name text;

create table hourbell_job_changes (
    id integer primary key autoincrement,
    job_id blob not null references hourbell_jobs (id) on delete cascade,
    changed_at integer not null,
    name text not null,
    description text not null,
    schedule text not null,
    timezone text not null,
    dst text not null,
    target text not null,
    payload text,
    catch_up text not null,
    catch_up_window integer,
    overlap text not null,
    retry text not null,
    delivery text not null,
    max_age integer not null,
    late_after integer not null,
    priority text not null,
    jitter integer not null,
    starts_at integer,
    ends_at integer,
    enabled integer not null,
    tags text not null,
    managed_by text not null,
    source text not null,
    paused_until integer,
    error text,
    version integer not null,
    saved_version integer not null,
    updated_at integer not null
) strict;

create index hourbell_job_changes_of_job on hourbell_job_changes (job_id, id);

drop trigger hourbell_jobs_changed;

-- Every name is there once, so that `on conflict (name)` needs no more words; a deleted job gives its name free.
drop index hourbell_jobs_name;
update hourbell_jobs set deleted_name = name, name = 'deleted-' || lower(hex(id)) where deleted_at is not null;
create unique index hourbell_jobs_name on hourbell_jobs (name);

create trigger hourbell_jobs_deleted after update of deleted_at on hourbell_jobs for each row
when (old.deleted_at is null) <> (new.deleted_at is null)
begin
    update hourbell_jobs
    set deleted_name = case when new.deleted_at is not null then new.name end,
        name = case when new.deleted_at is not null then 'deleted-' || lower(hex(new.id))
                    else coalesce(new.deleted_name, new.name) end
    where id = new.id;
end;

create trigger hourbell_jobs_changed after update of
    name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry, delivery,
    max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source, version
on hourbell_jobs for each row
when not (new.version = old.version + 1 and new.saved_version = new.version) and old.deleted_at is null
    and (new.version < old.version
         or (old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
             old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
             old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source)
         is not
            (new.name, new.description, new.schedule, new.timezone, new.dst, new.target, new.payload, new.catch_up,
             new.catch_up_window, new.overlap, new.retry, new.delivery, new.max_age, new.late_after, new.priority,
             new.jitter, new.starts_at, new.ends_at, new.enabled, new.tags, new.managed_by, new.source))
begin
    insert into hourbell_job_changes (
        job_id, changed_at,
        name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry,
        delivery, max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source,
        paused_until, error, version, saved_version, updated_at)
    values (
        old.id, cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000,
        old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
        old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
        old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source, old.paused_until,
        old.error, old.version, old.saved_version, old.updated_at);
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

-- A new row is accounted for from its insert on; one that comes with a saved version and a cursor is Hourbell's own, or was
-- restored, and stays as it is. `hourbell.sql` asks for a minute
-- earlier where a time is just over.
create trigger hourbell_jobs_noted after insert on hourbell_jobs for each row
when new.saved_version <> new.version or new.cursor_at is null
begin
    update hourbell_jobs
    set cursor_at = case
            when new.cursor_at between cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000 - 120000000
                and cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000
            then new.cursor_at
            else cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000 end,
        version = max(new.version, 1 + coalesce(
            (select max(v.version) from hourbell_job_versions v where v.job_id = new.id), 0)),
        saved_version = 0,
        has_changes = 0,
        next_at = null,
        plan_at = cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000,
        updated_at = cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000,
        error = null
    where id = new.id;
end;
