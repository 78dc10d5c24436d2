-- What control needs: lists that stay quick at any size, dead letters that somebody has dealt with, and who asked.
-- Every list has an index in its own order. Those on jobs hold few rows: planning writes each that a job is in.

-- Names are sorted and searched by their bytes, whatever the database's own order is.
drop index hourbell.jobs_name;
create unique index jobs_name on hourbell.jobs (name collate "C") where deleted_at is null;
create index jobs_paused on hourbell.jobs (name collate "C") where not enabled and deleted_at is null;
create index jobs_in_error on hourbell.jobs (name collate "C") where error is not null and deleted_at is null;
create index jobs_not_http on hourbell.jobs ((target ->> 'type'), name collate "C")
    where target ->> 'type' <> 'http' and deleted_at is null;
create index jobs_owned on hourbell.jobs (managed_by, source, name collate "C")
    where managed_by <> 'api' and deleted_at is null;
create index job_stats_last on hourbell.job_stats (last_state, job_id);
create index job_versions_changed on hourbell.job_versions (changed_at);

-- The jobs of a tag by name. Triggers keep it, so that it is right for rows made by plain SQL too.
create table hourbell.job_tags (
    tag text collate "C" not null,
    name text collate "C" not null,
    job_id uuid not null references hourbell.jobs (id) on delete cascade,
    primary key (tag, name, job_id)
);

create index job_tags_of_job on hourbell.job_tags (job_id);

create function hourbell.note_tags() returns trigger language plpgsql as $$
begin
    if tg_op = 'UPDATE' then
        delete from hourbell.job_tags where job_id = new.id;
    end if;
    if new.deleted_at is null then
        insert into hourbell.job_tags (tag, name, job_id)
        select distinct tag, new.name, new.id from unnest(new.tags) as tag;
    end if;
    return null;
end $$;

create trigger jobs_tagged after insert on hourbell.jobs for each row
when (new.tags <> '{}') execute function hourbell.note_tags();

create trigger jobs_retagged after update of name, tags, deleted_at on hourbell.jobs for each row
when ((old.tags <> '{}' or new.tags <> '{}')
      and (old.name, old.tags, old.deleted_at) is distinct from (new.name, new.tags, new.deleted_at))
execute function hourbell.note_tags();

insert into hourbell.job_tags (tag, name, job_id)
select distinct tag, j.name, j.id from hourbell.jobs j, unnest(j.tags) as tag where j.deleted_at is null;

-- A dead letter that was replayed or discarded is cleared. It is the one thing that may be noted of a run that ended.
alter table hourbell.runs add column cleared_at timestamptz;

create or replace function hourbell.refuse_move() returns trigger language plpgsql as $$
begin
    if old.state = 'failed' and old.cleared_at is null and new.cleared_at is not null
            and to_jsonb(old) - 'cleared_at' = to_jsonb(new) - 'cleared_at' then
        return new;
    end if;
    raise exception 'a run cannot go from % to %', old.state, new.state
        using errcode = 'check_violation', hint = 'to run it again, replay it';
end $$;

drop index hourbell.runs_failed;
create index runs_failed on hourbell.runs (finished_at, id) where state = 'failed' and cleared_at is null;
create index runs_cancelled on hourbell.runs (finished_at, id) where state = 'cancelled';
create index runs_retrying on hourbell.runs (expires_at, id) where state = 'retrying';
create index runs_unsuccessful_of_job on hourbell.runs (job_id, scheduled_at, id)
    where state in ('failed', 'cancelled');
drop index hourbell.runs_expiry;
create index runs_expiry on hourbell.runs (expires_at, id) where state in ('pending', 'retrying');

alter table hourbell.audit
    add column token_id uuid,
    add column ip text,
    add column request_id text;

create index audit_of_subject on hourbell.audit (subject, id);
create index idempotency_age on hourbell.idempotency (created_at);

-- The jobs that an import which will prune has seen so far.
create table hourbell.imports (
    id uuid not null,
    job_id uuid not null,
    started_at timestamptz not null,
    primary key (id, job_id)
);

-- Runs a job now, as before; it looks for the name where names are indexed.
create or replace function hourbell.trigger_job(job_name text) returns jsonb language plpgsql as $$
declare
    job hourbell.jobs;
    made uuid := gen_random_uuid();
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
    insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane,
                               exclusive, at_most_once, planned_at)
    values (made, job.id, job.version, 'manual', now(), now() at time zone 'UTC', now(), now() + job.max_age,
            case job.priority when 'high' then 0 when 'normal' then 1 else 2 end, job.lane,
            job.overlap <> 'allow', job.delivery = 'at_most_once', now());
    insert into hourbell.audit (at, actor, action, subject, after)
    values (now(), 'sql', 'job.trigger', job.id::text, jsonb_build_object('run', made));
    perform pg_notify('hourbell', 'runs');
    return jsonb_build_object('success', true, 'run_id', made, 'job_name', job_name);
end $$;
