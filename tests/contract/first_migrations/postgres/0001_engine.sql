-- The tables of the engine. Instants are timestamptz; ids are UUIDs. Runs and attempts carry no foreign keys: they are
-- written thousands at a time and only by the engine, which keeps them together.

create table hourbell.meta (
    key text primary key,
    value text not null
);

create table hourbell.jobs (
    id uuid primary key default gen_random_uuid(),
    name text not null check (name ~ '^[A-Za-z0-9_-]{1,100}$'),
    description text not null default '',
    schedule text not null,
    timezone text not null default 'UTC',
    dst text not null default 'once' check (dst in ('once', 'wall', 'skip')),
    target jsonb not null check (jsonb_typeof(target) = 'object'),
    payload jsonb,
    catch_up text not null default 'latest' check (catch_up in ('latest', 'earliest', 'all', 'none')),
    catch_up_window interval check (catch_up_window between interval '0' and interval '36500 days'),
    overlap text not null default 'allow'
        check (overlap in ('allow', 'queue_all', 'queue_one', 'skip', 'cancel_running')),
    retry jsonb not null default '"default"',
    delivery text not null default 'at_least_once' check (delivery in ('at_least_once', 'at_most_once')),
    max_age interval not null default interval '24 hours'
        check (max_age between interval '0' and interval '36500 days'),
    late_after interval not null default interval '5 minutes'
        check (late_after between interval '0' and interval '36500 days'),
    priority text not null default 'normal' check (priority in ('low', 'normal', 'high')),
    jitter interval not null default interval '0' check (jitter between interval '0' and interval '36500 days'),
    starts_at timestamptz check (starts_at between '1900-01-01Z' and '9000-01-01Z'),
    ends_at timestamptz check (ends_at between '1900-01-01Z' and '9000-01-01Z'),
    enabled boolean not null default true,
    paused_note text,
    paused_by text,
    paused_until timestamptz,
    tags text[] not null default '{}',
    lane text not null default '',
    managed_by text not null default 'sql' check (managed_by in ('api', 'code', 'sql', 'file')),
    source text not null default '',
    version integer not null default 1,
    saved_version integer not null default 0,
    cursor_at timestamptz,
    next_at timestamptz,
    plan_at timestamptz default now(),
    error text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    deleted_at timestamptz
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

create unique index jobs_name on hourbell.jobs (name) where deleted_at is null;
create index jobs_plan_at on hourbell.jobs (plan_at, id) where plan_at is not null and deleted_at is null;

create table hourbell.job_versions (
    job_id uuid not null references hourbell.jobs (id) on delete cascade,
    version integer not null,
    definition jsonb not null,
    changed_at timestamptz not null,
    changed_by text not null,
    primary key (job_id, version)
);

create table hourbell.runs (
    id uuid primary key,
    job_id uuid not null,
    job_version integer not null,
    kind text not null check (kind in ('scheduled', 'manual', 'backfill', 'replay')),
    scheduled_at timestamptz not null,
    local_at timestamp not null,
    ready_at timestamptz not null,
    expires_at timestamptz not null,
    state text not null default 'pending'
        check (state in ('pending', 'running', 'retrying', 'succeeded', 'failed', 'cancelled')),
    reason text check (reason in ('permanent', 'exhausted', 'expired', 'poison', 'lost')),
    rank smallint not null,
    lane text not null,
    exclusive boolean not null default false,
    at_most_once boolean not null default false,
    attempt integer not null default 0,
    failures integer not null default 0,
    crashes integer not null default 0,
    begun_attempt integer,
    lease_owner uuid,
    lease_until timestamptz,
    payload jsonb,
    replay_of uuid,
    result jsonb,
    planned_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- One run for each instant, ever.
create unique index runs_once on hourbell.runs (job_id, scheduled_at) where kind in ('scheduled', 'backfill');
-- The line of a lane, by rank and age.
create index runs_line on hourbell.runs (lane, rank, ready_at, id) where state in ('pending', 'retrying');
-- Runs under which nodes died: few, and looked for often.
create index runs_suspects on hourbell.runs (lane, ready_at, id) where state in ('pending', 'retrying') and crashes >= 2;
create index runs_unfinished on hourbell.runs (job_id, scheduled_at, id)
    where state in ('pending', 'running', 'retrying');
create unique index runs_exclusive on hourbell.runs (job_id) where state = 'running' and exclusive;
create index runs_leases on hourbell.runs (lease_until) where state = 'running';
create index runs_expiry on hourbell.runs (expires_at) where state in ('pending', 'retrying');
create index runs_ended on hourbell.runs (finished_at, id) where finished_at is not null;
create index runs_of_job on hourbell.runs (job_id, scheduled_at, id);

create table hourbell.attempts (
    run_id uuid not null,
    number integer not null,
    node uuid,
    started_at timestamptz,
    finished_at timestamptz not null,
    outcome text not null,
    status_code integer,
    error text,
    excerpt text,
    phases jsonb,
    late_outcome text,
    primary key (run_id, number)
);

create table hourbell.skips (
    id bigint generated always as identity primary key,
    job_id uuid not null references hourbell.jobs (id) on delete cascade,
    first_at timestamptz not null,
    last_at timestamptz not null,
    count bigint not null check (count > 0),
    reason text not null check (reason in ('missed', 'overlap', 'paused', 'edited', 'window', 'tzdata'))
);

create index skips_of_job on hourbell.skips (job_id, last_at);

create table hourbell.job_stats (
    job_id uuid primary key references hourbell.jobs (id) on delete cascade,
    last_run_id uuid,
    last_run_at timestamptz,
    last_state text,
    last_error text,
    last_success_at timestamptz,
    succeeded bigint not null default 0,
    failed bigint not null default 0,
    cancelled bigint not null default 0
) with (fillfactor = 70);

create table hourbell.cancels (
    run_id uuid primary key,
    requested_at timestamptz not null
);

create table hourbell.nodes (
    id uuid primary key,
    host text not null,
    started_at timestamptz not null,
    beat_at timestamptz not null,
    lanes text[] not null,
    tzdata text not null
);

create table hourbell.secrets (
    id uuid primary key,
    job_id uuid not null references hourbell.jobs (id) on delete cascade,
    field text not null,
    key_id text not null,
    sealed bytea not null,
    valid_until timestamptz,
    created_at timestamptz not null
);

create table hourbell.idempotency (
    key text primary key,
    fingerprint bytea not null,
    answer jsonb,
    created_at timestamptz not null
);

create table hourbell.tokens (
    id uuid primary key,
    name text not null,
    digest bytea not null unique,
    role text not null check (role in ('viewer', 'operator', 'editor', 'admin')),
    created_at timestamptz not null,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz
);

create table hourbell.audit (
    id bigint generated always as identity primary key,
    at timestamptz not null,
    actor text not null,
    action text not null,
    subject text not null,
    before jsonb,
    after jsonb
);

-- Ends never change, and only the moves of core/states.py happen.
create function hourbell.refuse_move() returns trigger language plpgsql as $$
begin
    raise exception 'a run cannot go from % to %', old.state, new.state
        using errcode = 'check_violation', hint = 'to run it again, replay it';
end $$;

create trigger runs_moves before update on hourbell.runs for each row
when (
    old.state in ('succeeded', 'failed', 'cancelled')
    or (old.state is distinct from new.state and not (
        (old.state = 'pending' and new.state in ('running', 'failed', 'cancelled'))
        or (old.state = 'running' and new.state in ('pending', 'retrying', 'succeeded', 'failed', 'cancelled'))
        or (old.state = 'retrying' and new.state in ('running', 'failed', 'cancelled'))
    ))
) execute function hourbell.refuse_move();

-- A change by plain SQL is one that leaves the version as it was. It makes a new version, which the planner writes down.
-- What the job is planned from changed, or it was in error: it is adopted anew, from now on.
create function hourbell.note_change() returns trigger language plpgsql as $$
begin
    new.version := old.version + 1;
    new.updated_at := now();
    new.plan_at := now();
    if new.enabled then
        new.paused_note := null;
        new.paused_by := null;
        new.paused_until := null;
    end if;
    if old.error is not null
            or (old.schedule, old.timezone, old.dst, old.catch_up, old.enabled, old.starts_at, old.ends_at)
            is distinct from
            (new.schedule, new.timezone, new.dst, new.catch_up, new.enabled, new.starts_at, new.ends_at) then
        new.error := null;
        new.cursor_at := null;
        new.next_at := null;
    end if;
    return new;
end $$;

create trigger jobs_changed before update of
    name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry, delivery,
    max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source
on hourbell.jobs for each row
when (old.version = new.version and
    (old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
     old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
     old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source)
    is distinct from
    (new.name, new.description, new.schedule, new.timezone, new.dst, new.target, new.payload, new.catch_up,
     new.catch_up_window, new.overlap, new.retry, new.delivery, new.max_age, new.late_after, new.priority,
     new.jitter, new.starts_at, new.ends_at, new.enabled, new.tags, new.managed_by, new.source))
execute function hourbell.note_change();

create function hourbell.refuse_delete() returns trigger language plpgsql as $$
begin
    raise exception 'jobs are not deleted by SQL, their history would go with them'
        using hint = 'set enabled = false, or delete the job by the API or the command line';
end $$;

create trigger jobs_delete before delete on hourbell.jobs for each row
when (coalesce(current_setting('hourbell.prunes', true), '') <> 'on')
execute function hourbell.refuse_delete();

create function hourbell.announce_jobs() returns trigger language plpgsql as $$
begin
    perform pg_notify('hourbell', 'jobs');
    return null;
end $$;

create trigger jobs_inserted after insert on hourbell.jobs
for each statement execute function hourbell.announce_jobs();

create trigger jobs_updated after update of
    name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry, delivery,
    max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source
on hourbell.jobs for each statement execute function hourbell.announce_jobs();

create view hourbell.job_status as
select j.name,
       j.enabled,
       s.last_run_at,
       s.last_state = 'succeeded' as last_run_success,
       coalesce(s.succeeded + s.failed + s.cancelled, 0) as total_runs,
       round(100.0 * s.succeeded / nullif(s.succeeded + s.failed, 0), 1) as success_rate_percent,
       j.next_at
from hourbell.jobs j
left join hourbell.job_stats s on s.job_id = j.id
where j.deleted_at is null;

-- Runs a job now. The cursor does not move.
create function hourbell.trigger_job(job_name text) returns jsonb language plpgsql as $$
declare
    job hourbell.jobs;
    made uuid := gen_random_uuid();
begin
    select * into job from hourbell.jobs where name = job_name and deleted_at is null for key share;
    if not found then
        return jsonb_build_object('success', false, 'job_name', job_name, 'message', 'no such job');
    end if;
    if job.saved_version <> job.version or job.lane = '' then
        return jsonb_build_object('success', false, 'job_name', job_name,
                                  'message', 'not adopted yet: is a Hourbell node running?');
    end if;
    insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane,
                               exclusive, at_most_once, planned_at)
    values (made, job.id, job.version, 'manual', now(), now() at time zone 'UTC', now(), now() + job.max_age,
            case job.priority when 'high' then 0 when 'normal' then 1 else 2 end, job.lane,
            job.overlap <> 'allow', job.delivery = 'at_most_once', now());
    perform pg_notify('hourbell', 'runs');
    return jsonb_build_object('success', true, 'run_id', made, 'job_name', job_name);
end $$;
