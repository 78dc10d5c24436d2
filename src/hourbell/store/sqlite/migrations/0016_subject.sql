-- Who or what a job is for, as a text by which jobs and runs are listed.

alter table hourbell_jobs add column subject text not null default '' check (length(subject) <= 200);
alter table hourbell_job_changes add column subject text not null default '';

-- Deleted jobs are in it too: their runs are listed until retention takes them.
create index hourbell_jobs_subject on hourbell_jobs (subject, name) where subject <> '';

drop trigger hourbell_jobs_changed;

create trigger hourbell_jobs_changed after update of
    name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry, delivery,
    max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source, subject,
    version
on hourbell_jobs for each row
when not (new.version = old.version + 1 and new.saved_version = new.version) and old.deleted_at is null
    and (new.version < old.version
         or (old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
             old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
             old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source,
             old.subject)
         is not
            (new.name, new.description, new.schedule, new.timezone, new.dst, new.target, new.payload, new.catch_up,
             new.catch_up_window, new.overlap, new.retry, new.delivery, new.max_age, new.late_after, new.priority,
             new.jitter, new.starts_at, new.ends_at, new.enabled, new.tags, new.managed_by, new.source,
             new.subject))
begin
    insert into hourbell_job_changes (
        job_id, changed_at,
        name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry,
        delivery, max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source,
        subject, paused_until, error, version, saved_version, updated_at)
    values (
        old.id, cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000,
        old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
        old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
        old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source, old.subject,
        old.paused_until, old.error, old.version, old.saved_version, old.updated_at);
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
