-- What control needs: lists that stay quick at any size, dead letters that somebody has dealt with, and who asked.
-- Every list has an index in its own order. Those on jobs hold few rows: planning writes each that a job is in.

create index hourbell_jobs_paused on hourbell_jobs (name) where not enabled and deleted_at is null;
create index hourbell_jobs_in_error on hourbell_jobs (name) where error is not null and deleted_at is null;
create index hourbell_jobs_not_http on hourbell_jobs (json_extract(target, '$.type'), name)
    where json_extract(target, '$.type') <> 'http' and deleted_at is null;
create index hourbell_jobs_owned on hourbell_jobs (managed_by, source, name)
    where managed_by <> 'api' and deleted_at is null;
create index hourbell_job_stats_last on hourbell_job_stats (last_state, job_id);
create index hourbell_job_versions_changed on hourbell_job_versions (changed_at);

-- The jobs of a tag by name. Triggers keep it, so that it is right for rows made by plain SQL too.
create table hourbell_job_tags (
    tag text not null,
    name text not null,
    job_id blob not null references hourbell_jobs (id) on delete cascade,
    primary key (tag, name, job_id)
) strict, without rowid;

create index hourbell_job_tags_of_job on hourbell_job_tags (job_id);

create trigger hourbell_jobs_tagged after insert on hourbell_jobs for each row
when new.tags <> '[]' and new.deleted_at is null
begin
    insert or ignore into hourbell_job_tags (tag, name, job_id)
    select value, new.name, new.id from json_each(new.tags) where type = 'text';
end;

create trigger hourbell_jobs_retagged after update of name, tags, deleted_at on hourbell_jobs for each row
when (old.tags <> '[]' or new.tags <> '[]')
    and (old.name, old.tags, old.deleted_at) is not (new.name, new.tags, new.deleted_at)
begin
    delete from hourbell_job_tags where job_id = new.id;
    insert or ignore into hourbell_job_tags (tag, name, job_id)
    select value, new.name, new.id from json_each(new.tags) where type = 'text' and new.deleted_at is null;
end;

insert or ignore into hourbell_job_tags (tag, name, job_id)
select value, j.name, j.id from hourbell_jobs j, json_each(j.tags) where type = 'text' and j.deleted_at is null;

-- A dead letter that was replayed or discarded is cleared. It is the one thing that may be noted of a run that ended.
alter table hourbell_runs add column cleared_at integer;

drop trigger hourbell_runs_moves;
create trigger hourbell_runs_moves before update on hourbell_runs for each row
when (old.state in ('succeeded', 'failed', 'cancelled')
      and not (old.state = 'failed' and old.cleared_at is null and new.cleared_at is not null
               and (old.id, old.job_id, old.job_version, old.kind, old.scheduled_at, old.local_at, old.ready_at,
                    old.expires_at, old.state, old.reason, old.rank, old.lane, old.exclusive, old.at_most_once,
                    old.attempt, old.failures, old.crashes, old.begun_attempt, old.lease_owner, old.lease_until,
                    old.payload, old.replay_of, old.result, old.planned_at, old.started_at, old.finished_at)
                   is (new.id, new.job_id, new.job_version, new.kind, new.scheduled_at, new.local_at, new.ready_at,
                       new.expires_at, new.state, new.reason, new.rank, new.lane, new.exclusive, new.at_most_once,
                       new.attempt, new.failures, new.crashes, new.begun_attempt, new.lease_owner, new.lease_until,
                       new.payload, new.replay_of, new.result, new.planned_at, new.started_at, new.finished_at)))
    or (old.state <> new.state and not (
        (old.state = 'pending' and new.state in ('running', 'failed', 'cancelled'))
        or (old.state = 'running' and new.state in ('pending', 'retrying', 'succeeded', 'failed', 'cancelled'))
        or (old.state = 'retrying' and new.state in ('running', 'failed', 'cancelled'))
    ))
begin
    select raise(abort, 'a run cannot make this move, and one that ended never changes; to run it again, replay it');
end;

drop index hourbell_runs_failed;
create index hourbell_runs_failed on hourbell_runs (finished_at, id) where state = 'failed' and cleared_at is null;
create index hourbell_runs_cancelled on hourbell_runs (finished_at, id) where state = 'cancelled';
create index hourbell_runs_retrying on hourbell_runs (expires_at, id) where state = 'retrying';
create index hourbell_runs_unsuccessful_of_job on hourbell_runs (job_id, scheduled_at, id)
    where state in ('failed', 'cancelled');
drop index hourbell_runs_expiry;
create index hourbell_runs_expiry on hourbell_runs (expires_at, id) where state in ('pending', 'retrying');

alter table hourbell_audit add column token_id blob;
alter table hourbell_audit add column ip text;
alter table hourbell_audit add column request_id text;

create index hourbell_audit_of_subject on hourbell_audit (subject, id);
create index hourbell_idempotency_age on hourbell_idempotency (created_at);

-- The jobs that an import which will prune has seen so far.
create table hourbell_imports (
    id blob not null,
    job_id blob not null,
    started_at integer not null,
    primary key (id, job_id)
) strict, without rowid;
