-- The whole schema. Instants are timestamptz; ids are UUIDs. Runs and attempts carry no foreign keys: they are
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
    deleted_at timestamptz,
    has_changes boolean not null default false,
    deleted_name text
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- PostgreSQL has instants that no other calendar has: year 20000, infinity. One of them in a job that SQL wrote would keep
-- whoever reads it from reading the jobs beside it.
alter table hourbell.jobs add constraint jobs_instants_are_between_1900_and_9000 check (
    coalesce(paused_until, 'epoch') between '1900-01-01Z' and '9000-01-01Z'
    and coalesce(cursor_at, 'epoch') between '1900-01-01Z' and '9000-01-01Z'
    and coalesce(next_at, 'epoch') between '1900-01-01Z' and '9000-01-01Z'
    and coalesce(plan_at, 'epoch') between '1900-01-01Z' and '9000-01-01Z'
    and created_at between '1900-01-01Z' and '9000-01-01Z'
    and updated_at between '1900-01-01Z' and '9000-01-01Z'
    and coalesce(deleted_at, 'epoch') between '1900-01-01Z' and '9000-01-01Z'
);

-- Every name is there once, so that `on conflict (name)` needs no more words; a deleted job gives its name free. Names are
-- sorted and searched by their bytes, whatever the database's own order is.
create unique index jobs_name on hourbell.jobs (name collate "C");
create index jobs_plan_at on hourbell.jobs (plan_at, id) where plan_at is not null and deleted_at is null;
-- Every list has an index in its own order. Those on jobs hold few rows: planning writes each that a job is in.
create index jobs_paused on hourbell.jobs (name collate "C") where not enabled and deleted_at is null;
create index jobs_in_error on hourbell.jobs (name collate "C") where error is not null and deleted_at is null;
create index jobs_not_http on hourbell.jobs ((target ->> 'type'), name collate "C")
    where target ->> 'type' <> 'http' and deleted_at is null;
create index jobs_owned on hourbell.jobs (managed_by, source, name collate "C")
    where managed_by <> 'api' and deleted_at is null;
-- Enabled jobs that never fire again.
create index jobs_done on hourbell.jobs (name collate "C")
    where enabled and error is null and next_at is null and plan_at is null and cursor_at is not null
      and deleted_at is null;

create table hourbell.job_versions (
    job_id uuid not null references hourbell.jobs (id) on delete cascade,
    version integer not null,
    definition jsonb not null,
    changed_at timestamptz not null,
    changed_by text not null,
    primary key (job_id, version)
);

create index job_versions_changed on hourbell.job_versions (changed_at);

-- Plain SQL is accounted for exactly. Whenever a statement that is not Hourbell's own changes a job, a trigger keeps what
-- the job was until then, and the moment. The planner plans each earlier version up to its change, then the next one.
-- Hourbell's own statements account for the old version themselves; they are known by writing the next version as saved.
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

-- The jobs of a tag by name. Triggers keep it, so that it is right for rows made by plain SQL too.
create table hourbell.job_tags (
    tag text collate "C" not null,
    name text collate "C" not null,
    job_id uuid not null references hourbell.jobs (id) on delete cascade,
    primary key (tag, name, job_id)
);

create index job_tags_of_job on hourbell.job_tags (job_id);

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
    finished_at timestamptz,
    cleared_at timestamptz  -- when a dead letter was replayed or discarded
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- A change of a run is written to every index the run is in, so that a run that waits, one that is running and one that
-- ended are in as few as can be.

-- One run for each instant, ever. The runs somebody asked for are told apart by a null, which equals no other, so that
-- the same index also lists the runs of a job by age.
create unique index runs_once on hourbell.runs
    (job_id, scheduled_at, (case when kind in ('scheduled', 'backfill') then true end));
-- Ready runs of a lane, by rank and age.
create index runs_line on hourbell.runs (lane, rank, ready_at, id) where state in ('pending', 'retrying');
-- Runs under which nodes died: few, and looked for often.
create index runs_suspects on hourbell.runs (lane, ready_at, id) where state in ('pending', 'retrying') and crashes >= 2;
-- While nothing waits, which is most of the time, PostgreSQL takes the indexes of waiting runs for equally empty, and any
-- of them for as good as the right one. When a burst comes, the wrong one is read from end to end for each run. So only
-- one of them can answer a question:
-- - Who asks by lane says "pending or retrying", as before; who asks by job or by expiry says "neither running nor
--   ended", from which PostgreSQL does not conclude the condition of runs_line.
-- - The other two also say of their first column that it is there. That is always so, but PostgreSQL concludes it only
--   from a statement that compares this column.
create index runs_waiting on hourbell.runs (job_id, scheduled_at, id)
    where state not in ('running', 'succeeded', 'failed', 'cancelled') and job_id is not null;
create index runs_expiry on hourbell.runs (expires_at, id)
    where state not in ('running', 'succeeded', 'failed', 'cancelled') and expires_at is not null;
create index runs_retrying on hourbell.runs (expires_at, id) where state = 'retrying';
create unique index runs_exclusive on hourbell.runs (job_id) where state = 'running' and exclusive;
-- No more of them than there are slots: whoever looks for leases that ran out looks at all.
create index runs_running on hourbell.runs (job_id, lease_until) where state = 'running';
create index runs_ended on hourbell.runs (finished_at, id) where finished_at is not null;
create index runs_failed on hourbell.runs (finished_at, id) where state = 'failed' and cleared_at is null;
create index runs_cancelled on hourbell.runs (finished_at, id) where state = 'cancelled';
create index runs_unsuccessful_of_job on hourbell.runs (job_id, scheduled_at, id)
    where state in ('failed', 'cancelled');
-- Ended runs that began more than ten seconds late, worst last. Backfills and replays repeat the past on purpose.
create index runs_late on hourbell.runs ((started_at - scheduled_at))
    where finished_at is not null and kind in ('scheduled', 'manual')
      and started_at - scheduled_at > interval '10 seconds';

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

-- What a task says while it works: log lines and progress, a row for each attempt that said anything. It goes with its
-- run, by the trigger that nonces go by: a foreign key would cost every update of a run.
create table hourbell.run_notes (
    run_id uuid not null,
    attempt integer not null,
    fraction double precision check (fraction between 0 and 1),
    message text not null default '',
    log jsonb not null default '[]' check (jsonb_typeof(log) = 'array'),
    updated_at timestamptz not null,
    primary key (run_id, attempt)
);

create index run_notes_updated on hourbell.run_notes (updated_at);

-- The call of a function that may settle its run, known by the digest of a nonce which only the calling node has.
-- A row goes with the settlement, is overwritten by the run's next attempt, and goes with the run at last.
create table hourbell.function_calls (
    run_id uuid primary key,
    attempt integer not null,
    nonce_digest bytea not null
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
    cancelled bigint not null default 0,
    pruned_until timestamptz  -- of a scheduled time up to here without a run, nobody knows whether it had one
) with (fillfactor = 70);

create index job_stats_last on hourbell.job_stats (last_state, job_id);

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
    tzdata text not null,
    source text,  -- of the program in the node, with the names of the jobs that it defines
    jobs text[] not null default '{}'
);

create table hourbell.secrets (
    id uuid primary key,
    job_id uuid not null references hourbell.jobs (id) on delete cascade,
    field text not null,
    key_id text not null,
    sealed bytea not null,
    valid_until timestamptz,
    created_at timestamptz not null,
    origin text  -- where a secret header may be sent; one without is not sent
);

create index secrets_of_job on hourbell.secrets (job_id);

create table hourbell.idempotency (
    key text primary key,
    fingerprint bytea not null,
    answer jsonb,
    created_at timestamptz not null
);

create index idempotency_age on hourbell.idempotency (created_at);

-- The jobs that an import which will prune has seen so far.
create table hourbell.imports (
    id uuid not null,
    job_id uuid not null,
    started_at timestamptz not null,
    primary key (id, job_id)
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

-- Sessions that were ended before they expired: their cookies are refused until then.
create table hourbell.ended_sessions (
    id uuid primary key,
    expires_at timestamptz not null
);

create index ended_sessions_by_expiry on hourbell.ended_sessions (expires_at);

create table hourbell.audit (
    id bigint generated always as identity primary key,
    at timestamptz not null,
    actor text not null,
    action text not null,
    subject text not null,
    before jsonb,
    after jsonb,
    token_id uuid,
    ip text,
    request_id text
);

create index audit_of_subject on hourbell.audit (subject, id);
-- A time that no other calendar has would keep everybody from reading the rows beside it.
alter table hourbell.audit add constraint audit_at_is_between_1900_and_9000
    check (at between '1900-01-01Z' and '9000-01-01Z');

-- The audit is append-only, and its rows are chained by hashes. A loop chains committed rows afterwards, in the order in
-- which it finds them, so that no writer waits for another. `audit_unchained` holds the rows that wait for it.

create table hourbell.audit_chain (
    position bigint primary key check (position > 0),
    audit_id bigint unique,  -- null: a checkpoint, which only seals what is before it
    chained_at timestamptz not null,
    hash text not null,
    key_id text,
    seal text
);

create table hourbell.audit_unchained (
    audit_id bigint primary key
);

-- Ends never change, and only the moves of core/run/states.py happen. A dead letter that was replayed or discarded is cleared:
-- that is the one thing that may be noted of a run that ended.
create function hourbell.refuse_move() returns trigger language plpgsql as $$
begin
    if old.state = 'failed' and old.cleared_at is null and new.cleared_at is not null
            and to_jsonb(old) - 'cleared_at' = to_jsonb(new) - 'cleared_at' then
        return new;
    end if;
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

-- The attempt of a run that is running never changes: whoever wants the run must wait until its holder has settled it, or
-- until the reaper has taken an expired lease. Only claims write this column, so that nothing else pays for the trigger.
create function hourbell.refuse_second_claim() returns trigger language plpgsql as $$
begin
    raise exception 'a run that is running cannot be claimed: its lease is settled or reaped first'
        using errcode = 'check_violation',
              detail = format('run %s, attempt %s of node %s until %s', old.id, old.attempt, old.lease_owner, old.lease_until);
end $$;

create trigger runs_one_claim before update of attempt on hourbell.runs for each row
when (old.state = 'running' and new.attempt is distinct from old.attempt)
execute function hourbell.refuse_second_claim();

-- A statement's trigger: a foreign key would cost every update of a run.
create function hourbell.forget_calls() returns trigger language plpgsql as $$
begin
    delete from hourbell.function_calls c using gone where c.run_id = gone.id;
    delete from hourbell.run_notes n using gone where n.run_id = gone.id;
    return null;
end $$;

create trigger runs_deleted after delete on hourbell.runs referencing old table as gone
for each statement execute function hourbell.forget_calls();

-- Other logins may have the right to change jobs, and no right to this table.
create function hourbell.note_change() returns trigger language plpgsql
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

-- Whoever may insert into the audit need not have any right on the queue.
create function hourbell.queue_audit() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into hourbell.audit_unchained (audit_id) values (new.id) on conflict do nothing;
    return null;
end $$;

-- Nobody else may make it the trigger of a table of their own.
revoke all on function hourbell.queue_audit() from public;

create function hourbell.refuse_audit_change() returns trigger language plpgsql as $$
begin
    raise exception 'the table %.% is append-only: % is refused', tg_table_schema, tg_table_name, tg_op
        using errcode = 'restrict_violation', hint = 'a change of the past would break the audit chain';
end $$;

create trigger audit_queued after insert on hourbell.audit for each row execute function hourbell.queue_audit();

create trigger audit_append_only before update or delete or truncate on hourbell.audit
for each statement execute function hourbell.refuse_audit_change();

create trigger audit_chain_append_only before update or delete or truncate on hourbell.audit_chain
for each statement execute function hourbell.refuse_audit_change();

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

-- The last run is the one that began last, also while it is under way; its success is that of the last run to end.
create view hourbell.job_status as
select j.name,
       j.enabled,
       coalesce(
           (select max(r.started_at) from hourbell.runs r
            where r.job_id = j.id and r.state = 'running' and r.started_at >= coalesce(l.started_at, '-infinity')),
           l.started_at, s.last_run_at) as last_run_at,
       s.last_state = 'succeeded' as last_run_success,
       coalesce(s.succeeded + s.failed + s.cancelled, 0) as total_runs,
       round(100.0 * s.succeeded / nullif(s.succeeded + s.failed, 0), 1) as success_rate_percent,
       j.next_at
from hourbell.jobs j
left join hourbell.job_stats s on s.job_id = j.id
left join hourbell.runs l on l.id = s.last_run_id
where j.deleted_at is null;

-- Settles one run for a login that has no right to the tables, as the engine's own statement `settle` does: the two
-- write the same. False, with nothing to keep, if the nonce is not the attempt's or the attempt is no longer the run's.
--
-- A login for functions is made so, by somebody who may:
--
--     create role hourbell_functions login password '…';
--     grant usage on schema hourbell to hourbell_functions;
--     grant execute on function hourbell.settle_run to hourbell_functions;
--
-- and everybody may execute functions unless that is taken away, in every schema with functions to protect:
--
--     revoke execute on all functions in schema public from public;
--     alter default privileges revoke execute on functions from public;
--     grant execute on function public.run_daily_cleanup(integer) to hourbell_functions;
create function hourbell.settle_run(
    nonce bytea, run_id uuid, attempt integer, state text, reason text, ready_at timestamptz, failures integer,
    crashes integer, result text, at timestamptz, has_attempt boolean, node uuid, begun_at timestamptz, outcome text,
    error text, status_code integer, excerpt text, phases text
) returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    job uuid;
begin
    delete from hourbell.function_calls c
    where c.run_id = settle_run.run_id and c.attempt = settle_run.attempt
      and c.nonce_digest = pg_catalog.sha256(settle_run.nonce);
    if not found then
        return false;
    end if;
    if state in ('pending', 'retrying')
            and exists (select 1 from hourbell.cancels c where c.run_id = settle_run.run_id) then
        state := 'cancelled';
        reason := null;
        ready_at := null;
    end if;
    update hourbell.runs r
    set state = settle_run.state, reason = settle_run.reason,
        ready_at = coalesce(settle_run.ready_at, r.ready_at), failures = settle_run.failures,
        crashes = settle_run.crashes, result = settle_run.result::jsonb, lease_owner = null, lease_until = null,
        started_at = case
            when settle_run.state = 'pending' then null
            when settle_run.has_attempt and (settle_run.attempt = 1 or not exists (
                select 1 from hourbell.attempts a where a.run_id = settle_run.run_id)) then settle_run.begun_at
            else r.started_at end,
        finished_at = case when settle_run.state in ('succeeded', 'failed', 'cancelled') then settle_run.at end
    where r.id = settle_run.run_id and r.attempt = settle_run.attempt and r.state = 'running'
    returning r.job_id into job;
    if not found then
        return false;
    end if;
    if has_attempt then
        insert into hourbell.attempts (run_id, number, node, started_at, finished_at, outcome, status_code, error,
                                       excerpt, phases)
        values (settle_run.run_id, settle_run.attempt, settle_run.node, settle_run.begun_at, settle_run.at,
                settle_run.outcome, settle_run.status_code, settle_run.error, settle_run.excerpt,
                settle_run.phases::jsonb)
        on conflict do nothing;
    end if;
    if state in ('succeeded', 'failed', 'cancelled') then
        insert into hourbell.job_stats as s (job_id, last_run_id, last_run_at, last_state, last_error,
                                             last_success_at, succeeded, failed, cancelled)
        values (job, settle_run.run_id, settle_run.at, settle_run.state,
                case when settle_run.state = 'failed' then settle_run.error end,
                case when settle_run.state = 'succeeded' then settle_run.at end,
                (settle_run.state = 'succeeded')::integer, (settle_run.state = 'failed')::integer,
                (settle_run.state = 'cancelled')::integer)
        on conflict (job_id) do update
        set last_run_id = excluded.last_run_id,
            last_run_at = excluded.last_run_at,
            last_state = excluded.last_state,
            last_error = coalesce(excluded.last_error, s.last_error),
            last_success_at = coalesce(excluded.last_success_at, s.last_success_at),
            succeeded = s.succeeded + excluded.succeeded,
            failed = s.failed + excluded.failed,
            cancelled = s.cancelled + excluded.cancelled;
    elsif state = 'retrying' and error is not null then
        insert into hourbell.job_stats as s (job_id, last_run_id, last_run_at, last_error)
        values (job, settle_run.run_id, settle_run.at, settle_run.error)
        on conflict (job_id) do update
        set last_run_id = excluded.last_run_id, last_run_at = excluded.last_run_at, last_error = excluded.last_error;
    end if;
    return true;
end $$;

revoke all on function hourbell.settle_run from public;

-- Runs a job now. The cursor does not move. The local time of the run is that of the job's zone, or UTC where PostgreSQL has
-- no such zone.
create function hourbell.trigger_job(job_name text) returns jsonb language plpgsql as $$
declare
    job hourbell.jobs;
    made uuid := gen_random_uuid();
    local_time timestamp;
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
    begin
        local_time := now() at time zone job.timezone;
    exception when invalid_parameter_value then
        local_time := now() at time zone 'UTC';
    end;
    insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane,
                               exclusive, at_most_once, planned_at)
    values (made, job.id, job.version, 'manual', now(), local_time, now(), now() + job.max_age,
            case job.priority when 'high' then 0 when 'normal' then 1 else 2 end, job.lane,
            job.overlap <> 'allow', job.delivery = 'at_most_once', now());
    insert into hourbell.audit (at, actor, action, subject, after)
    values (now(), 'sql', 'job.trigger', job.id::text, jsonb_build_object('run', made));
    perform pg_notify('hourbell', 'runs');
    return jsonb_build_object('success', true, 'run_id', made, 'job_name', job_name);
end $$;
