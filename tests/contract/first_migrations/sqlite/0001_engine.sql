-- The tables of the engine. Instants and durations are integer microseconds, instants since 1970 in UTC; ids are UUIDs
-- as 16 bytes: as text they would make every index twice as large and planning half as fast. Read one with hex(id).
-- JSON is text. Only syntax that SQLite has had since 3.37 is used, so that older tools can open the file too.

create table hourbell_meta (
    key text not null primary key,
    value text not null
) strict, without rowid;

create table hourbell_jobs (
    id blob not null primary key default (randomblob(16)) check (length(id) = 16),
    name text not null check (length(name) between 1 and 100 and name not glob '*[^A-Za-z0-9_-]*'),
    description text not null default '',
    schedule text not null,
    timezone text not null default 'UTC',
    dst text not null default 'once' check (dst in ('once', 'wall', 'skip')),
    target text not null check (json_valid(target) and json_type(target) = 'object'),
    payload text check (payload is null or json_valid(payload)),
    catch_up text not null default 'latest' check (catch_up in ('latest', 'earliest', 'all', 'none')),
    catch_up_window integer check (catch_up_window between 0 and 3153600000000000),
    overlap text not null default 'allow'
        check (overlap in ('allow', 'queue_all', 'queue_one', 'skip', 'cancel_running')),
    retry text not null default '"default"' check (json_valid(retry)),
    delivery text not null default 'at_least_once' check (delivery in ('at_least_once', 'at_most_once')),
    max_age integer not null default 86400000000 check (max_age between 0 and 3153600000000000),
    late_after integer not null default 300000000 check (late_after between 0 and 3153600000000000),
    priority text not null default 'normal' check (priority in ('low', 'normal', 'high')),
    jitter integer not null default 0 check (jitter between 0 and 3153600000000000),
    starts_at integer check (starts_at between -2208988800000000 and 221845392000000000),
    ends_at integer check (ends_at between -2208988800000000 and 221845392000000000),
    enabled integer not null default 1 check (enabled in (0, 1)),
    paused_note text,
    paused_by text,
    paused_until integer check (paused_until between -2208988800000000 and 221845392000000000),
    tags text not null default '[]' check (json_valid(tags) and json_type(tags) = 'array'),
    lane text not null default '',
    managed_by text not null default 'sql' check (managed_by in ('api', 'code', 'sql', 'file')),
    source text not null default '',
    version integer not null default 1,
    saved_version integer not null default 0,
    cursor_at integer,
    next_at integer,
    plan_at integer default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000)
        check (plan_at between -2208988800000000 and 221845392000000000),
    error text,
    created_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000),
    updated_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000),
    deleted_at integer
) strict;

create unique index hourbell_jobs_name on hourbell_jobs (name) where deleted_at is null;
create index hourbell_jobs_plan_at on hourbell_jobs (plan_at, id)
    where plan_at is not null and deleted_at is null;

create table hourbell_job_versions (
    job_id blob not null references hourbell_jobs (id) on delete cascade,
    version integer not null,
    definition text not null check (json_valid(definition)),
    changed_at integer not null,
    changed_by text not null,
    primary key (job_id, version)
) strict, without rowid;

create table hourbell_runs (
    id blob not null primary key check (length(id) = 16),
    job_id blob not null check (length(job_id) = 16),
    job_version integer not null,
    kind text not null check (kind in ('scheduled', 'manual', 'backfill', 'replay')),
    scheduled_at integer not null,
    local_at integer not null,
    ready_at integer not null,
    expires_at integer not null,
    state text not null default 'pending'
        check (state in ('pending', 'running', 'retrying', 'succeeded', 'failed', 'cancelled')),
    reason text check (reason in ('permanent', 'exhausted', 'expired', 'poison', 'lost')),
    rank integer not null,
    lane text not null,
    exclusive integer not null default 0 check (exclusive in (0, 1)),
    at_most_once integer not null default 0 check (at_most_once in (0, 1)),
    attempt integer not null default 0,
    failures integer not null default 0,
    crashes integer not null default 0,
    begun_attempt integer,
    lease_owner blob,
    lease_until integer,
    payload text check (payload is null or json_valid(payload)),
    replay_of blob,
    result text check (result is null or json_valid(result)),
    planned_at integer not null,
    started_at integer,
    finished_at integer
) strict;

-- One run for each instant, ever. The runs somebody asked for are told apart by their ids, so that the same index also
-- lists the runs of a job by age.
create unique index hourbell_runs_once on hourbell_runs
    (job_id, scheduled_at, (case when kind in ('scheduled', 'backfill') then x'' else id end));
-- The line of a lane, by rank and age.
create index hourbell_runs_line on hourbell_runs (lane, rank, ready_at, id) where state in ('pending', 'retrying');
-- Runs under which nodes died: few, and looked for often.
create index hourbell_runs_suspects on hourbell_runs (lane, ready_at, id)
    where state in ('pending', 'retrying') and crashes >= 2;
create index hourbell_runs_unfinished on hourbell_runs (job_id, scheduled_at, id)
    where state in ('pending', 'running', 'retrying');
create unique index hourbell_runs_exclusive on hourbell_runs (job_id) where state = 'running' and exclusive;
create index hourbell_runs_leases on hourbell_runs (lease_until) where state = 'running';
create index hourbell_runs_expiry on hourbell_runs (expires_at) where state in ('pending', 'retrying');
create index hourbell_runs_ended on hourbell_runs (finished_at, id) where finished_at is not null;

create table hourbell_attempts (
    run_id blob not null,
    number integer not null,
    node blob,
    started_at integer,
    finished_at integer not null,
    outcome text not null,
    status_code integer,
    error text,
    excerpt text,
    phases text check (phases is null or json_valid(phases)),
    late_outcome text,
    primary key (run_id, number)
) strict, without rowid;

create table hourbell_skips (
    id integer primary key autoincrement,
    job_id blob not null references hourbell_jobs (id) on delete cascade,
    first_at integer not null,
    last_at integer not null,
    count integer not null check (count > 0),
    reason text not null check (reason in ('missed', 'overlap', 'paused', 'edited', 'window', 'tzdata'))
) strict;

create index hourbell_skips_of_job on hourbell_skips (job_id, last_at);

create table hourbell_job_stats (
    job_id blob not null primary key references hourbell_jobs (id) on delete cascade,
    last_run_id blob,
    last_run_at integer,
    last_state text,
    last_error text,
    last_success_at integer,
    succeeded integer not null default 0,
    failed integer not null default 0,
    cancelled integer not null default 0
) strict, without rowid;

create table hourbell_cancels (
    run_id blob not null primary key,
    requested_at integer not null
) strict, without rowid;

create table hourbell_nodes (
    id blob not null primary key,
    host text not null,
    started_at integer not null,
    beat_at integer not null,
    lanes text not null check (json_valid(lanes) and json_type(lanes) = 'array'),
    tzdata text not null
) strict, without rowid;

create table hourbell_secrets (
    id blob not null primary key,
    job_id blob not null references hourbell_jobs (id) on delete cascade,
    field text not null,
    key_id text not null,
    sealed blob not null,
    valid_until integer,
    created_at integer not null
) strict;

create index hourbell_secrets_of_job on hourbell_secrets (job_id);

create table hourbell_idempotency (
    key text not null primary key,
    fingerprint blob not null,
    answer text check (answer is null or json_valid(answer)),
    created_at integer not null
) strict;

create table hourbell_tokens (
    id blob not null primary key,
    name text not null,
    digest blob not null unique,
    role text not null check (role in ('viewer', 'operator', 'editor', 'admin')),
    created_at integer not null,
    expires_at integer,
    last_used_at integer,
    revoked_at integer
) strict;

create table hourbell_audit (
    id integer primary key autoincrement,
    at integer not null,
    actor text not null,
    action text not null,
    subject text not null,
    before text,
    after text
) strict;

-- Ends never change, and only the moves of core/states.py happen.
create trigger hourbell_runs_moves before update on hourbell_runs for each row
when old.state in ('succeeded', 'failed', 'cancelled')
    or (old.state <> new.state and not (
        (old.state = 'pending' and new.state in ('running', 'failed', 'cancelled'))
        or (old.state = 'running' and new.state in ('pending', 'retrying', 'succeeded', 'failed', 'cancelled'))
        or (old.state = 'retrying' and new.state in ('running', 'failed', 'cancelled'))
    ))
begin
    select raise(abort, 'a run cannot make this move, and one that ended never changes; to run it again, replay it');
end;

-- A change by plain SQL is one that leaves the version as it was. It makes a new version, which the planner writes down.
-- What the job is planned from changed, or it was in error: it is adopted anew, from now on.
create trigger hourbell_jobs_changed after update of
    name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry, delivery,
    max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, managed_by, source
on hourbell_jobs for each row
when old.version = new.version and
    (old.name, old.description, old.schedule, old.timezone, old.dst, old.target, old.payload, old.catch_up,
     old.catch_up_window, old.overlap, old.retry, old.delivery, old.max_age, old.late_after, old.priority,
     old.jitter, old.starts_at, old.ends_at, old.enabled, old.tags, old.managed_by, old.source)
    is not
    (new.name, new.description, new.schedule, new.timezone, new.dst, new.target, new.payload, new.catch_up,
     new.catch_up_window, new.overlap, new.retry, new.delivery, new.max_age, new.late_after, new.priority,
     new.jitter, new.starts_at, new.ends_at, new.enabled, new.tags, new.managed_by, new.source)
begin
    update hourbell_jobs
    set version = old.version + 1,
        updated_at = cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000,
        plan_at = cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000
    where id = new.id;
    update hourbell_jobs
    set paused_note = null, paused_by = null, paused_until = null
    where id = new.id and new.enabled;
    update hourbell_jobs
    set error = null, cursor_at = null, next_at = null
    where id = new.id
      and (old.error is not null
           or (old.schedule, old.timezone, old.dst, old.catch_up, old.enabled, old.starts_at, old.ends_at)
              is not (new.schedule, new.timezone, new.dst, new.catch_up, new.enabled, new.starts_at, new.ends_at));
end;

-- The janitor writes `prunes` into meta for as long as its own transaction lasts.
create trigger hourbell_jobs_delete before delete on hourbell_jobs for each row
when not exists (select 1 from hourbell_meta where key = 'prunes')
begin
    select raise(abort, 'jobs are not deleted by SQL, their history would go with them; set enabled = 0, or delete it by the API or the command line');
end;

create view hourbell_job_status as
select j.name,
       j.enabled,
       s.last_run_at,
       s.last_state = 'succeeded' as last_run_success,
       coalesce(s.succeeded + s.failed + s.cancelled, 0) as total_runs,
       round(100.0 * s.succeeded / nullif(s.succeeded + s.failed, 0), 1) as success_rate_percent,
       j.next_at
from hourbell_jobs j
left join hourbell_job_stats s on s.job_id = j.id
where j.deleted_at is null;
