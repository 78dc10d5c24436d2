-- Plain SQL is accounted for exactly. Whenever a statement that is not Hourbell's own changes a job, a trigger keeps what
-- the job was until then, and the moment. The planner plans each earlier version up to its change, then the next one.
-- Hourbell's own statements account for the old version themselves; they are known by writing the next version as saved.

alter table hourbell.jobs add column has_changes boolean not null default false;
alter table hourbell.jobs add column deleted_name text;

create table hourbell.job_changes (
    id bigint generated always as identity primary key,
    job_id uuid not null references hourbell.jobs (id) on delete cascade,
    changed_at timestamptz not null,
    name text not null,
    description text not null,
    schedule text not null,
    timezone text not null,
    dst text not null,
    target jsonb not null,
    payload jsonb,
    catch_up text not null,
    catch_up_window interval,
    overlap text not null,
    retry jsonb not null,
    delivery text not null,
    max_age interval not null,
    late_after interval not null,
    priority text not null,
    jitter interval not null,
    starts_at timestamptz,
    ends_at timestamptz,
    enabled boolean not null,
    tags text[] not null,
    managed_by text not null,
    source text not null,
    paused_until timestamptz,
    error text,
    version integer not null,
    saved_version integer not null,
    updated_at timestamptz not null
);

create index job_changes_of_job on hourbell.job_changes (job_id, id);

drop trigger jobs_changed on hourbell.jobs;

-- Other logins may have the right to change jobs, and no right to this table.
create or replace function hourbell.note_change() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    moment timestamptz := clock_timestamp();
begin
    insert into hourbell.job_changes (
        job_id, changed_at,
        name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry,
        delivery, max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source,
        paused_until, error, version, saved_version, updated_at)
    values (
        old.id, moment,
        old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
        old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
        old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source, old.paused_until,
        old.error, old.version, old.saved_version, old.updated_at);
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

-- A new row is accounted for from its insert on; one that comes with a saved version and a cursor is Hourbell's own, or was
-- restored, and stays as it is. `hourbell.sql` asks for a minute
-- earlier where a time is just over.
create function hourbell.note_insert() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    moment timestamptz := clock_timestamp();
begin
    if new.cursor_at is null or new.cursor_at not between moment - interval '2 minutes' and moment then
        new.cursor_at := moment;
    end if;
    new.version := greatest(
        new.version, 1 + coalesce((select max(v.version) from hourbell.job_versions v where v.job_id = new.id), 0));
    new.saved_version := 0;
    new.has_changes := false;
    new.next_at := null;
    new.plan_at := moment;
    new.updated_at := moment;
    new.error := null;
    return new;
end $$;

-- Every name is there once, so that `on conflict (name)` needs no more words; a deleted job gives its name free.
drop index hourbell.jobs_name;
update hourbell.jobs set deleted_name = name, name = 'deleted-' || id where deleted_at is not null;
create unique index jobs_name on hourbell.jobs (name collate "C");

create function hourbell.move_name() returns trigger language plpgsql as $$
begin
    if new.deleted_at is not null then
        new.deleted_name := new.name;
        new.name := 'deleted-' || new.id;
    else
        new.name := coalesce(new.deleted_name, new.name);
        new.deleted_name := null;
    end if;
    return new;
end $$;

create trigger jobs_deleted before update of deleted_at on hourbell.jobs for each row
when ((old.deleted_at is null) <> (new.deleted_at is null)) execute function hourbell.move_name();

create trigger jobs_changed before update of
    name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry, delivery,
    max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source, version
on hourbell.jobs for each row
when (not (new.version = old.version + 1 and new.saved_version = new.version) and old.deleted_at is null and (
    new.version < old.version
    or (old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
       old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
       old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source)
    is distinct from
       (new.name, new.description, new.schedule, new.timezone, new.dst, new.target, new.payload, new.catch_up,
       new.catch_up_window, new.overlap, new.retry, new.delivery, new.max_age, new.late_after, new.priority,
       new.jitter, new.starts_at, new.ends_at, new.enabled, new.tags, new.managed_by, new.source)))
execute function hourbell.note_change();

create trigger jobs_noted before insert on hourbell.jobs for each row
when (new.saved_version <> new.version or new.cursor_at is null)
execute function hourbell.note_insert();
