-- Who or what a job is for, as a text by which jobs and runs are listed.

alter table hourbell.jobs add column subject text not null default '' check (length(subject) <= 200);
alter table hourbell.job_changes add column subject text not null default '';

-- Deleted jobs are in it too: their runs are listed until retention takes them.
create index jobs_subject on hourbell.jobs (subject, name collate "C") where subject <> '';

create or replace function hourbell.note_change() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    moment timestamptz := clock_timestamp();
begin
    insert into hourbell.job_changes (
        job_id, changed_at,
        name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry,
        delivery, max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source,
        subject, paused_until, error, version, saved_version, updated_at)
    values (
        old.id, moment,
        old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
        old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
        old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source, old.subject,
        old.paused_until, old.error, old.version, old.saved_version, old.updated_at);
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
    version
on hourbell.jobs for each row
when (not (new.version = old.version + 1 and new.saved_version = new.version) and old.deleted_at is null and (
    new.version < old.version
    or (old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
       old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
       old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source, old.subject)
    is distinct from
       (new.name, new.description, new.schedule, new.timezone, new.dst, new.target, new.payload, new.catch_up,
       new.catch_up_window, new.overlap, new.retry, new.delivery, new.max_age, new.late_after, new.priority,
       new.jitter, new.starts_at, new.ends_at, new.enabled, new.tags, new.managed_by, new.source, new.subject)))
execute function hourbell.note_change();

drop trigger jobs_updated on hourbell.jobs;

create trigger jobs_updated after update of
    name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry, delivery,
    max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source, subject
on hourbell.jobs for each statement execute function hourbell.announce_jobs();
