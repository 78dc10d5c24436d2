-- The whole schema. Instants and durations are integer microseconds, instants since 1970 in UTC; ids are UUIDs
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
    deleted_at integer,
    has_changes integer not null default 0,
    deleted_name text
) strict;

-- Every name is there once, so that `on conflict (name)` needs no more words; a deleted job gives its name free.
create unique index hourbell_jobs_name on hourbell_jobs (name);
create index hourbell_jobs_plan_at on hourbell_jobs (plan_at, id)
    where plan_at is not null and deleted_at is null;
-- Every list has an index in its own order. Those on jobs hold few rows: planning writes each that a job is in.
create index hourbell_jobs_paused on hourbell_jobs (name) where not enabled and deleted_at is null;
create index hourbell_jobs_in_error on hourbell_jobs (name) where error is not null and deleted_at is null;
create index hourbell_jobs_not_http on hourbell_jobs (json_extract(target, '$.type'), name)
    where json_extract(target, '$.type') <> 'http' and deleted_at is null;
create index hourbell_jobs_owned on hourbell_jobs (managed_by, source, name)
    where managed_by <> 'api' and deleted_at is null;
-- Enabled jobs that never fire again.
create index hourbell_jobs_done on hourbell_jobs (name)
    where enabled and error is null and next_at is null and plan_at is null and cursor_at is not null
      and deleted_at is null;

create table hourbell_job_versions (
    job_id blob not null references hourbell_jobs (id) on delete cascade,
    version integer not null,
    definition text not null check (json_valid(definition)),
    changed_at integer not null,
    changed_by text not null,
    primary key (job_id, version)
) strict, without rowid;

create index hourbell_job_versions_changed on hourbell_job_versions (changed_at);

-- Plain SQL is accounted for exactly. Whenever a statement that is not Hourbell's own changes a job, a trigger keeps what
-- the job was until then, and the moment. The planner plans each earlier version up to its change, then the next one.
-- Hourbell's own statements account for the old version themselves; they are known by writing the next version as saved.
-- `insert or replace` removes a row without any trigger: what it was until then is not kept, and `hourbell doctor` tells.
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

-- The jobs of a tag by name. Triggers keep it, so that it is right for rows made by plain SQL too.
create table hourbell_job_tags (
    tag text not null,
    name text not null,
    job_id blob not null references hourbell_jobs (id) on delete cascade,
    primary key (tag, name, job_id)
) strict, without rowid;

create index hourbell_job_tags_of_job on hourbell_job_tags (job_id);

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
    finished_at integer,
    cleared_at integer  -- when a dead letter was replayed or discarded
) strict;

-- One run for each instant, ever. The runs somebody asked for are told apart by their ids, so that the same index also
-- lists the runs of a job by age.
create unique index hourbell_runs_once on hourbell_runs
    (job_id, scheduled_at, (case when kind in ('scheduled', 'backfill') then x'' else id end));
-- A change of a run is written to every index the run is in, so that a run that waits, one that is running and one that
-- ended are in as few as can be.
-- Ready runs of a lane, by rank and age. Runs of one instant are taken in the order they were written, which is the order
-- of the table: taken by their ids, which are random, each would be on a page of its own. The same holds for expiry.
create index hourbell_runs_line on hourbell_runs (lane, rank, ready_at) where state in ('pending', 'retrying');
-- Runs under which nodes died: few, and looked for often.
create index hourbell_runs_suspects on hourbell_runs (lane, ready_at, id)
    where state in ('pending', 'retrying') and crashes >= 2;
create index hourbell_runs_waiting on hourbell_runs (job_id, scheduled_at, id) where state in ('pending', 'retrying');
create unique index hourbell_runs_exclusive on hourbell_runs (job_id) where state = 'running' and exclusive;
-- No more of them than there are slots: whoever looks for leases that ran out looks at all.
create index hourbell_runs_running on hourbell_runs (job_id, lease_until) where state = 'running';
create index hourbell_runs_expiry on hourbell_runs (expires_at) where state in ('pending', 'retrying');
create index hourbell_runs_retrying on hourbell_runs (expires_at) where state = 'retrying';
create index hourbell_runs_ended on hourbell_runs (finished_at, id) where finished_at is not null;
create index hourbell_runs_failed on hourbell_runs (finished_at, id) where state = 'failed' and cleared_at is null;
create index hourbell_runs_cancelled on hourbell_runs (finished_at, id) where state = 'cancelled';
create index hourbell_runs_unsuccessful_of_job on hourbell_runs (job_id, scheduled_at, id)
    where state in ('failed', 'cancelled');
-- Ended runs that began more than ten seconds late, worst last. Backfills and replays repeat the past on purpose.
create index hourbell_runs_late on hourbell_runs (started_at - scheduled_at)
    where finished_at is not null and kind in ('scheduled', 'manual') and started_at - scheduled_at > 10000000;

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

-- What a task says while it works: log lines and progress, a row for each attempt that said anything. It goes with its
-- run.
create table hourbell_run_notes (
    run_id blob not null,
    attempt integer not null,
    fraction real check (fraction between 0 and 1),
    message text not null default '',
    log text not null default '[]' check (json_valid(log)),
    updated_at integer not null,
    primary key (run_id, attempt)
) strict, without rowid;

create index hourbell_run_notes_updated on hourbell_run_notes (updated_at);

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
    cancelled integer not null default 0,
    pruned_until integer  -- of a scheduled time up to here without a run, nobody knows whether it had one
) strict, without rowid;

create index hourbell_job_stats_last on hourbell_job_stats (last_state, job_id);

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
    tzdata text not null,
    source text,  -- of the program in the node, with the names of the jobs that it defines
    jobs text not null default '[]'
) strict, without rowid;

create table hourbell_secrets (
    id blob not null primary key,
    job_id blob not null references hourbell_jobs (id) on delete cascade,
    field text not null,
    key_id text not null,
    sealed blob not null,
    valid_until integer,
    created_at integer not null,
    origin text  -- where a secret header may be sent; one without is not sent
) strict;

create index hourbell_secrets_of_job on hourbell_secrets (job_id);

create table hourbell_idempotency (
    key text not null primary key,
    fingerprint blob not null,
    answer text check (answer is null or json_valid(answer)),
    created_at integer not null
) strict;

create index hourbell_idempotency_age on hourbell_idempotency (created_at);

-- The jobs that an import which will prune has seen so far.
create table hourbell_imports (
    id blob not null,
    job_id blob not null,
    started_at integer not null,
    primary key (id, job_id)
) strict, without rowid;

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

-- Sessions that were ended before they expired: their cookies are refused until then.
create table hourbell_ended_sessions (
    id blob not null primary key,
    expires_at integer not null
) strict;

create index hourbell_ended_sessions_by_expiry on hourbell_ended_sessions (expires_at);

create table hourbell_audit (
    id integer primary key autoincrement,
    at integer not null,
    actor text not null,
    action text not null,
    subject text not null,
    before text,
    after text,
    token_id blob,
    ip text,
    request_id text
) strict;

create index hourbell_audit_of_subject on hourbell_audit (subject, id);

-- The audit is append-only, and its rows are chained by hashes. A loop chains committed rows afterwards, in the order in
-- which it finds them, so that no writer waits for another. `hourbell_audit_unchained` holds the rows that wait for it.

create table hourbell_audit_chain (
    position integer primary key check (position > 0),
    audit_id integer unique,  -- null: a checkpoint, which only seals what is before it
    chained_at integer not null,
    hash text not null,
    key_id text,
    seal text
) strict;

create table hourbell_audit_unchained (
    audit_id integer primary key
) strict;

-- Ends never change, and only the moves of core/run/states.py happen. A dead letter that was replayed or discarded is cleared:
-- that is the one thing that may be noted of a run that ended. A trigger that names the columns of both rows has them all
-- read at every change; these two need the state alone.
create trigger hourbell_runs_moves before update of
    id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, state, reason, rank, lane, exclusive,
    at_most_once, attempt, failures, crashes, begun_attempt, lease_owner, lease_until, payload, replay_of, result,
    planned_at, started_at, finished_at
on hourbell_runs for each row
when not (
    (old.state = 'pending' and new.state in ('pending', 'running', 'failed', 'cancelled'))
    or (old.state = 'running')
    or (old.state = 'retrying' and new.state in ('retrying', 'running', 'failed', 'cancelled'))
)
begin
    select raise(abort, 'a run cannot make this move, and one that ended never changes; to run it again, replay it');
end;

create trigger hourbell_runs_cleared before update of cleared_at on hourbell_runs for each row
when not (old.state = 'failed' and old.cleared_at is null and new.cleared_at is not null)
begin
    select raise(abort, 'a run cannot make this move, and one that ended never changes; to run it again, replay it');
end;

-- The attempt of a run that is running never changes: whoever wants the run must wait until its holder has settled it, or
-- until the reaper has taken an expired lease. Only claims write this column, so that nothing else pays for the trigger.
create trigger hourbell_runs_one_claim before update of attempt on hourbell_runs for each row
when old.state = 'running' and new.attempt is not old.attempt
begin
    select raise(abort, 'a run that is running cannot be claimed: its lease is settled or reaped first');
end;

create trigger hourbell_runs_deleted after delete on hourbell_runs for each row
begin
    delete from hourbell_run_notes where run_id = old.id;
end;

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

create trigger hourbell_audit_queued after insert on hourbell_audit for each row
begin
    insert or ignore into hourbell_audit_unchained (audit_id) values (new.id);
end;

create trigger hourbell_audit_updated before update on hourbell_audit for each row
begin
    select raise(abort, 'the table hourbell_audit is append-only: a change of the past would break the audit chain');
end;

create trigger hourbell_audit_deleted before delete on hourbell_audit for each row
begin
    select raise(abort, 'the table hourbell_audit is append-only: a change of the past would break the audit chain');
end;

-- `insert or replace` removes the row it replaces without any other trigger.
create trigger hourbell_audit_replaced before insert on hourbell_audit for each row
when exists (select 1 from hourbell_audit where id = new.id)
begin
    select raise(abort, 'the table hourbell_audit is append-only: a change of the past would break the audit chain');
end;

create trigger hourbell_audit_chain_updated before update on hourbell_audit_chain for each row
begin
    select raise(abort, 'the table hourbell_audit_chain is append-only: its links are never changed');
end;

create trigger hourbell_audit_chain_deleted before delete on hourbell_audit_chain for each row
begin
    select raise(abort, 'the table hourbell_audit_chain is append-only: its links are never removed');
end;

create trigger hourbell_audit_chain_replaced before insert on hourbell_audit_chain for each row
when exists (select 1 from hourbell_audit_chain where position = new.position or audit_id = new.audit_id)
begin
    select raise(abort, 'the table hourbell_audit_chain is append-only: its links are never replaced');
end;

-- The janitor writes `prunes` into meta for as long as its own transaction lasts.
create trigger hourbell_jobs_delete before delete on hourbell_jobs for each row
when not exists (select 1 from hourbell_meta where key = 'prunes')
begin
    select raise(abort, 'jobs are not deleted by SQL, their history would go with them; set enabled = 0, or delete it by the API or the command line');
end;

-- The last run is the one that began last, also while it is under way; its success is that of the last run to end.
create view hourbell_job_status as
select j.name,
       j.enabled,
       coalesce(
           (select max(r.started_at) from hourbell_runs r
            where r.job_id = j.id and r.state = 'running' and r.started_at >= coalesce(l.started_at, r.started_at)),
           l.started_at, s.last_run_at) as last_run_at,
       s.last_state = 'succeeded' as last_run_success,
       coalesce(s.succeeded + s.failed + s.cancelled, 0) as total_runs,
       round(100.0 * s.succeeded / nullif(s.succeeded + s.failed, 0), 1) as success_rate_percent,
       j.next_at
from hourbell_jobs j
left join hourbell_job_stats s on s.job_id = j.id
left join hourbell_runs l on l.id = s.last_run_id
where j.deleted_at is null;
