-- The engine's statements. A batch is bound as arrays, so no statement is repeated per row. Values that rows of a batch
-- share are sent once, and each row has an index into them. Waiting runs are selected in two ways, "pending or
-- retrying" by lane and "neither running nor ended" by job or expiry: each has its own indexes.

-- name: sample_time
select clock_timestamp()

-- name: wake
select pg_notify('hourbell', $1)

-- name: due_jobs
-- The fields of the definition that planning needs are one text, equal for jobs that are alike; durations and times in
-- it are microseconds.
select due.*, waiting.runs as waiting, waiting.scheduled + running.scheduled as unfinished
from (
    select j.id, j.name, j.version, j.cursor_at, j.next_at, j.plan_at,
           j.saved_version <> j.version or not j.enabled or j.lane = '' or j.has_changes as is_needed_whole,
           json_build_array(
               j.schedule, j.timezone, j.dst, j.catch_up, (extract(epoch from j.catch_up_window) * 1000000)::bigint,
               j.overlap, j.delivery, (extract(epoch from j.max_age) * 1000000)::bigint,
               (extract(epoch from j.late_after) * 1000000)::bigint, j.priority,
               (extract(epoch from j.jitter) * 1000000)::bigint, (extract(epoch from j.starts_at) * 1000000)::bigint,
               (extract(epoch from j.ends_at) * 1000000)::bigint, j.lane)::text as rules
    from hourbell.jobs j
    where j.plan_at <= $1 and j.deleted_at is null
    order by j.plan_at, j.id
    limit $2
    for no key update skip locked
) as due
cross join lateral (
    select count(*) as runs, count(*) filter (where r.kind = 'scheduled') as scheduled
    from hourbell.runs r
    where r.job_id = due.id and r.state not in ('running', 'succeeded', 'failed', 'cancelled')
) as waiting
cross join lateral (
    select count(*) filter (where r.kind = 'scheduled') as scheduled
    from hourbell.runs r
    where r.job_id = due.id and r.state = 'running'
) as running
order by due.plan_at, due.id

-- name: whole_jobs
select * from hourbell.jobs where id = any($1::uuid[])

-- name: oldest_changes
-- For each job, its oldest change by plain SQL.
select c.*
from unnest($1::uuid[]) as j(id)
cross join lateral (select * from hourbell.job_changes where job_id = j.id order by id limit 1) as c

-- name: unfinished_of_jobs
select j.id, waiting.runs as waiting, waiting.scheduled + running.scheduled as unfinished
from unnest($1::uuid[]) as j(id)
cross join lateral (
    select count(*) as runs, count(*) filter (where r.kind = 'scheduled') as scheduled
    from hourbell.runs r
    where r.job_id = j.id and r.state not in ('running', 'succeeded', 'failed', 'cancelled')
) as waiting
cross join lateral (
    select count(*) filter (where r.kind = 'scheduled') as scheduled
    from hourbell.runs r
    where r.job_id = j.id and r.state = 'running'
) as running

-- name: newest_of_jobs
select j.id, greatest(
    (select r.scheduled_at from hourbell.runs r
     where r.job_id = j.id and r.kind = 'scheduled' order by r.scheduled_at desc limit 1),
    (select max(s.last_at) from hourbell.skips s where s.job_id = j.id)) as newest_at
from unnest($1::uuid[]) as j(id)

-- name: insert_skips
with given as (
    select * from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::bigint[], $5::text[], $6::timestamptz[])
        with ordinality as g(job_id, first_at, last_at, count, reason, follows, position)
), extended as (
    update hourbell.skips s
    set last_at = g.last_at, count = s.count + g.count
    from given g
    join hourbell.jobs j on j.id = g.job_id
    where s.job_id = g.job_id and s.job_id = any($1::uuid[]) and s.reason = g.reason and s.last_at = g.follows
      and s.last_at > j.updated_at  -- of this version: another had other instants
    returning g.position
)
insert into hourbell.skips (job_id, first_at, last_at, count, reason)
select job_id, first_at, last_at, count, reason
from given
where position not in (select position from extended)
order by position

-- name: save_plans
-- Inserts runs that do not exist yet and updates the cursors of their jobs. It also sends the hint that there are runs
-- and, if requested, returns when the next of the other jobs is due, which saves a round trip each. Those jobs are
-- looked up by key: in an array parameter, each of its ids would be compared. For a join over the shared values the
-- planner would expect few rows, and compare all ids for each.
with made as (
    insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane,
                               exclusive, at_most_once, payload, planned_at)
    select n.id, n.job_id, g.job_version, g.kind, g.scheduled_at, g.local_at, g.ready_at, g.expires_at, g.rank, g.lane,
           g.exclusive, g.at_most_once, g.payload::jsonb, $15
    from unnest($1::uuid[], $2::uuid[], $3::int[]) as n(id, job_id, position)
    join unnest($4::int[], $5::text[], $6::timestamptz[], $7::timestamp[], $8::timestamptz[], $9::timestamptz[],
                $10::smallint[], $11::text[], $12::bool[], $13::bool[], $14::text[])
        with ordinality as g(job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane, exclusive,
                             at_most_once, payload, position)
        on g.position = n.position
    on conflict do nothing
    returning lane
), saved as (
    update hourbell.jobs j
    set cursor_at = greatest(j.cursor_at, ($18::timestamptz[])[n.position]),
        next_at = ($19::timestamptz[])[n.position],
        plan_at = ($20::timestamptz[])[n.position],
        error = ($21::text[])[n.position],
        lane = ($22::text[])[n.position],
        saved_version = j.version
    from unnest($16::uuid[], $17::int[]) as n(id, position)
    where j.id = n.id and j.id = any($16::uuid[])
), counted as (
    select lane, count(*) as runs from made group by lane
)
select (select json_object_agg(lane, runs)::text from counted) as lanes,
       case when exists (select 1 from counted) then pg_notify('hourbell', 'runs') end,
       case when $23 then (
           select o.plan_at from hourbell.jobs o
           where o.plan_at is not null and o.deleted_at is null and o.id not in (select unnest($16::uuid[]))
           order by o.plan_at limit 1
       ) end as next_plan_at

-- name: save_superseded
-- The cursors of jobs in a version that plain SQL replaced; its change is deleted when nothing of it is left to plan.
with given as (
    select * from unnest($1::bigint[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::bool[])
        as g(change_id, job_id, cursor_at, plan_at, is_done)
), done as (
    delete from hourbell.job_changes c using given g where c.id = g.change_id and g.is_done
)
update hourbell.jobs j
set cursor_at = greatest(j.cursor_at, g.cursor_at),
    plan_at = g.plan_at,
    has_changes = not g.is_done
        or exists (select 1 from hourbell.job_changes c where c.job_id = j.id and c.id <> g.change_id)
from given g
where j.id = g.job_id and j.id = any($2::uuid[])

-- name: set_change_errors
with given as (
    select * from unnest($1::bigint[], $2::uuid[], $3::text[]) as g(change_id, job_id, error)
), noted as (
    update hourbell.job_changes c set error = g.error from given g where c.id = g.change_id
)
update hourbell.jobs j set plan_at = $4 from given g where j.id = g.job_id

-- name: end_pauses
update hourbell.jobs
set enabled = true, version = version + 1, saved_version = version + 1, paused_note = null, paused_by = null,
    paused_until = null
where id = any($1::uuid[])

-- name: insert_versions
insert into hourbell.job_versions (job_id, version, definition, changed_at, changed_by)
select g.job_id, g.version, g.definition::jsonb, g.changed_at, $5
from unnest($1::uuid[], $2::int[], $3::text[], $4::timestamptz[]) as g(job_id, version, definition, changed_at)
on conflict do nothing

-- name: audit_unasked
-- `before` of an audit row is the newest version that was stored by then.
insert into hourbell.audit (at, actor, action, subject, before, after)
select $6, g.actor,
       case when g.actor = 'engine' then 'job.resume' when b.definition is null then 'job.create' else 'job.edit' end,
       g.subject, b.definition, g.definition::jsonb
from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[])
     as g(job_id, version, definition, actor, subject)
left join lateral (
    select v.definition from hourbell.job_versions v
    where v.job_id = g.job_id and v.version < g.version
    order by v.version desc
    limit 1
) b on true

-- name: cancel_waiting_of_jobs
with ended as (
    update hourbell.runs
    set state = 'cancelled', finished_at = $2
    where job_id = any($1::uuid[]) and state not in ('running', 'succeeded', 'failed', 'cancelled')
      and ($3 or kind = 'scheduled')
      and not (id = any($4::uuid[]))
    returning job_id
)
insert into hourbell.job_stats (job_id, cancelled)
select job_id, count(*) from ended group by job_id order by job_id
on conflict (job_id) do update set cancelled = hourbell.job_stats.cancelled + excluded.cancelled

-- name: ask_running_of_jobs_to_stop
insert into hourbell.cancels (run_id, requested_at)
select id, $2 from hourbell.runs where job_id = any($1::uuid[]) and state = 'running'
on conflict do nothing

-- name: next_plan_at
select plan_at from hourbell.jobs where plan_at is not null and deleted_at is null order by plan_at limit 1

-- name: set_job_errors
update hourbell.jobs j set error = g.error, plan_at = null, next_at = null
from unnest($1::uuid[], $2::text[]) as g(id, error)
where j.id = g.id and j.id = any($1::uuid[])

-- name: lanes
with recursive lanes as (
    (select lane from hourbell.runs where state in ('pending', 'retrying') order by lane limit 1)
    union all
    select (select r.lane from hourbell.runs r
            where r.state in ('pending', 'retrying') and r.lane > l.lane order by r.lane limit 1)
    from lanes l
    where l.lane is not null
)
select l.lane, first.ready_at
from lanes l
cross join lateral (
    select min(head.ready_at) as ready_at
    from generate_series(0, 3) as p(rank)
    cross join lateral (
        select r.ready_at from hourbell.runs r
        where r.state in ('pending', 'retrying') and r.lane = l.lane and r.rank = p.rank
        order by r.ready_at limit 1
    ) as head
) as first
where l.lane is not null and first.ready_at is not null

-- name: claim
-- Locked rows stay in place, and are found again by their ctid instead of the key. A null start means that this is the
-- first attempt. The state is tested again where it is written, as an expression: otherwise an index of waiting runs
-- may look cheaper than the ctids.
with demands as (
    select * from unnest($1::text[], $2::int[], $3::int[]) as w(lane, free, oldest)
), taken as materialized (
    select picked.row_id
    from demands w
    cross join lateral (
        select c.row_id
        from (
            select line.*, row_number() over (order by line.ready_at, line.id) as by_age
            from generate_series(0, 3) as p(rank)
            cross join lateral (
                select r.ctid as row_id, r.id, r.rank, r.ready_at
                from hourbell.runs r
                where r.lane = w.lane and r.rank = p.rank and r.state in ('pending', 'retrying')
                  and r.ready_at <= $4 and r.crashes < $7
                  and (not r.exclusive
                       or not exists (select 1 from hourbell.runs o where o.job_id = r.job_id and o.state = 'running')
                          and not exists (
                              select 1 from hourbell.runs o
                              where o.job_id = r.job_id
                                and o.state not in ('running', 'succeeded', 'failed', 'cancelled')
                                and (o.scheduled_at, o.id) < (r.scheduled_at, r.id)))
                order by r.ready_at, r.id
                limit w.free
                for no key update skip locked
            ) as line
        ) as c
        order by c.by_age > w.oldest, c.rank, c.ready_at, c.id
        limit w.free
    ) as picked
), claimed as (
    update hourbell.runs r
    set state = 'running', attempt = r.attempt + 1, lease_owner = $5, lease_until = $6,
        started_at = coalesce(r.started_at, $4)
    where r.ctid = any(array(select row_id from taken)) and r.state || '' in ('pending', 'retrying')
    returning r.id, r.job_id, r.job_version, r.kind, r.scheduled_at, r.ready_at, r.expires_at, r.lane, r.attempt,
              r.failures, r.crashes, r.started_at, r.at_most_once, r.payload, r.rank
)
select id, job_id, job_version, kind, scheduled_at, ready_at, expires_at, lane, attempt, failures, crashes,
       nullif(started_at, $4) as started_at, at_most_once, payload::text
from claimed
order by rank, ready_at, id

-- name: claim_suspect
with locked as (
    select r.id
    from hourbell.runs r
    where r.lane = any($1::text[]) and r.state in ('pending', 'retrying') and r.ready_at <= $2
      and r.crashes >= 2 and r.crashes >= $5
      and (not r.exclusive
           or not exists (select 1 from hourbell.runs o where o.job_id = r.job_id and o.state = 'running')
              and not exists (
                  select 1 from hourbell.runs o
                  where o.job_id = r.job_id and o.state not in ('running', 'succeeded', 'failed', 'cancelled')
                    and (o.scheduled_at, o.id) < (r.scheduled_at, r.id)))
    order by r.ready_at, r.id
    limit 1
    for no key update skip locked
)
update hourbell.runs r
set state = 'running', attempt = r.attempt + 1, lease_owner = $3, lease_until = $4
where r.id = any(array(select id from locked)) and r.state || '' in ('pending', 'retrying')
returning r.id, r.job_id, r.job_version, r.kind, r.scheduled_at, r.ready_at, r.expires_at, r.lane, r.attempt, r.failures,
          r.crashes, r.started_at, r.at_most_once, r.payload::text

-- name: definitions
-- The limit makes each a look-up by key, whatever the table statistics say.
select g.job_id, g.version, v.definition::text
from unnest($1::uuid[], $2::int[]) as g(job_id, version)
cross join lateral (
    select definition from hourbell.job_versions where job_id = g.job_id and version = g.version limit 1
) as v

-- name: secrets_of_jobs
select id, job_id, field, key_id, sealed, origin, valid_until
from hourbell.secrets
where job_id = any($1::uuid[]) and (valid_until is null or valid_until > $2)
order by job_id, field, created_at desc, id

-- name: command_seal
select seal from hourbell.command_seals where job_id = $1 and version = $2

-- name: last_success
select scheduled_at
from hourbell.runs
where job_id = $1 and scheduled_at < $2 and state = 'succeeded'
order by scheduled_at desc
limit 1

-- name: begin
-- The state is compared as an expression: otherwise all running runs may look cheaper than one key.
update hourbell.runs
set begun_attempt = attempt
where id = $1 and attempt = $2 and state || '' = 'running' and begun_attempt is distinct from attempt
returning id

-- name: settle
-- The state is compared through a column: as a constant it would make every partial index on unfinished runs a
-- candidate, and before the table is analysed a whole such index looks cheaper than a thousand keys. A returned row
-- means that something was written, and says what only if that is not all. A run's start, which the claim set, becomes
-- that of its first attempt; whether there was an earlier one is not tested by `exists`, for which the whole table
-- might be hashed.
with given as materialized (
    select g.*, 'running' as held
    from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::timestamptz[], $6::int[], $7::int[],
                         $8::text[], $9::timestamptz[], $10::bool[], $11::uuid[], $12::timestamptz[], $13::text[],
                         $14::text[], $15::int[], $16::text[], $17::text[])
        as g(run_id, attempt, state, reason, ready_at, failures, crashes, result, at, has_attempt, node, begun_at,
             outcome, error, status_code, excerpt, phases)
), changed as (
    update hourbell.runs r
    set state = g.state, reason = g.reason, ready_at = coalesce(g.ready_at, r.ready_at), failures = g.failures,
        crashes = g.crashes, result = g.result::jsonb, lease_owner = null, lease_until = null,
        started_at = case
            when g.state = 'pending' then null
            when g.begun_at is null then r.started_at
            when g.attempt = 1 or (select 1 from hourbell.attempts a where a.run_id = g.run_id limit 1) is null
                then g.begun_at
            else r.started_at end,
        finished_at = case when g.state in ('succeeded', 'failed', 'cancelled') then g.at end
    from given g
    where r.id = g.run_id and r.id = any($1::uuid[]) and r.attempt = g.attempt and r.state = g.held
    returning r.id, r.attempt, r.job_id, r.state, g.at, g.error
), tried as (
    insert into hourbell.attempts (run_id, number, node, started_at, finished_at, outcome, status_code, error, excerpt,
                                   phases)
    select g.run_id, g.attempt, g.node, g.begun_at, g.at, g.outcome, g.status_code, g.error, g.excerpt, g.phases::jsonb
    from given g
    join changed c on c.id = g.run_id and c.attempt = g.attempt
    where g.has_attempt
    on conflict do nothing
), counted as (
    insert into hourbell.job_stats (job_id, last_run_id, last_run_at, last_state, last_error, last_success_at,
                                    succeeded, failed, cancelled, streak, first_failed_at, failed_run_id, alert_at)
    select job_id,
           (array_agg(id order by at desc))[1],
           max(at),
           (array_agg(state order by at desc) filter (where state <> 'retrying'))[1],
           (array_agg(error order by at desc) filter (where state in ('failed', 'retrying')))[1],
           max(at) filter (where state = 'succeeded'),
           count(*) filter (where state = 'succeeded'),
           count(*) filter (where state = 'failed'),
           count(*) filter (where state = 'cancelled'),
           count(*) filter (where is_last_word),
           min(at) filter (where is_last_word),
           (array_agg(id order by at desc) filter (where state = 'failed'))[1],
           max(at) filter (where state = 'failed')
    from (
        select c.*, c.state = 'failed' and c.at > coalesce(
                   max(c.at) filter (where c.state = 'succeeded') over (partition by c.job_id), '-infinity')
                   as is_last_word  -- no success of the batch came after this failure
        from changed c
    ) as c
    where state in ('succeeded', 'failed', 'cancelled') or (state = 'retrying' and error is not null)
    group by job_id
    order by job_id
    on conflict (job_id) do update
    set last_run_id = excluded.last_run_id,
        last_run_at = excluded.last_run_at,
        last_state = coalesce(excluded.last_state, hourbell.job_stats.last_state),
        last_error = coalesce(excluded.last_error, hourbell.job_stats.last_error),
        last_success_at = coalesce(excluded.last_success_at, hourbell.job_stats.last_success_at),
        succeeded = hourbell.job_stats.succeeded + excluded.succeeded,
        failed = hourbell.job_stats.failed + excluded.failed,
        cancelled = hourbell.job_stats.cancelled + excluded.cancelled,
        streak = case when excluded.succeeded > 0 then excluded.streak
                      else hourbell.job_stats.streak + excluded.streak end,
        first_failed_at = case when excluded.succeeded > 0 then excluded.first_failed_at
                               else coalesce(hourbell.job_stats.first_failed_at, excluded.first_failed_at) end,
        failed_run_id = coalesce(excluded.failed_run_id, hourbell.job_stats.failed_run_id),
        alert_at = case when excluded.failed > 0 or (excluded.succeeded > 0 and hourbell.job_stats.streak > 0)
                        then excluded.last_run_at else hourbell.job_stats.alert_at end
)
select case when count(*) < cardinality($1) then array_agg(id) end as runs,
       case when count(*) < cardinality($1) then array_agg(attempt) end as attempts
from changed
having count(*) > 0

-- name: settle_succeeded
-- The same for successful runs, which nearly all are: shared values are sent once, and an attempt that already exists,
-- which only another writer can have written, is an error: not checking for it is cheaper.
with given as materialized (
    select g.*, 'running' as held
    from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::int[], $7::text[],
                $8::text[])
        as g(run_id, attempt, begun_at, at, result, status_code, excerpt, phases)
), changed as (
    update hourbell.runs r
    set state = 'succeeded', result = g.result::jsonb, lease_owner = null, lease_until = null, finished_at = g.at,
        started_at = case
            when g.begun_at is null then r.started_at
            when g.attempt = 1 or (select 1 from hourbell.attempts a where a.run_id = g.run_id limit 1) is null
                then g.begun_at
            else r.started_at end
    from given g
    where r.id = g.run_id and r.id = any($1::uuid[]) and r.attempt = g.attempt and r.state = g.held
    returning r.id, r.job_id, g.attempt, g.begun_at, g.at, g.status_code, g.excerpt, g.phases
), tried as (
    insert into hourbell.attempts (run_id, number, node, started_at, finished_at, outcome, status_code, excerpt, phases)
    select id, attempt, $9, begun_at, at, 'succeeded', status_code, excerpt, phases::jsonb from changed
), counted as (
    insert into hourbell.job_stats as s (job_id, last_run_id, last_run_at, last_state, last_success_at, succeeded)
    select job_id, (array_agg(id order by at desc))[1], max(at), 'succeeded', max(at), count(*)
    from changed
    group by job_id
    order by job_id
    on conflict (job_id) do update
    set last_run_id = excluded.last_run_id,
        last_run_at = excluded.last_run_at,
        last_state = excluded.last_state,
        last_success_at = excluded.last_success_at,
        succeeded = s.succeeded + excluded.succeeded,
        streak = 0,
        first_failed_at = null,
        alert_at = case when s.streak > 0 then excluded.last_run_at else s.alert_at end  -- else no index is touched
)
select case when count(*) < cardinality($1) then array_agg(id) end as runs,
       case when count(*) < cardinality($1) then array_agg(attempt) end as attempts
from changed
having count(*) > 0

-- name: late_outcomes
with given as (
    select * from unnest($1::uuid[], $2::int[], $3::uuid[], $4::text[]) as g(run_id, attempt, node, outcome)
), noted as (
    update hourbell.attempts a
    set late_outcome = g.outcome
    from given g
    where a.run_id = g.run_id and a.run_id = any($1::uuid[]) and a.number = g.attempt and a.outcome = 'lost'
)
select g.run_id, g.attempt
from given g
left join hourbell.attempts a on a.run_id = g.run_id and a.number = g.attempt and a.run_id = any($1::uuid[])
left join hourbell.runs r on r.id = g.run_id and r.id = any($1::uuid[])
where (a.node = g.node and a.outcome = g.outcome)
   or (g.node is null and a.run_id is null and r.attempt = g.attempt and r.state <> 'running')

-- name: expired_leases
select r.id, r.job_id, r.job_version, r.kind, r.scheduled_at, r.ready_at, r.expires_at, r.state, r.lane, r.attempt,
       r.failures, r.crashes, r.started_at, r.at_most_once, r.begun_attempt, r.payload::text, r.lease_owner
from hourbell.runs r
where r.state = 'running' and r.lease_until < $1
limit $2
for no key update skip locked

-- name: deaths
-- Earlier attempts whose nodes died: without a late outcome, and without a heartbeat of the node since.
select a.run_id, count(*) as deaths
from hourbell.attempts a
left join hourbell.nodes n on n.id = a.node
where a.run_id = any($1::uuid[]) and a.outcome = 'lost' and a.late_outcome is null
  and (n.beat_at is null or n.beat_at <= a.finished_at)
group by a.run_id

-- name: expire
with dead as (
    select r.id
    from hourbell.runs r
    where r.state not in ('running', 'succeeded', 'failed', 'cancelled') and r.expires_at <= $1
      and not exists (
          select 1 from hourbell.nodes n, unnest(n.lanes) as served
          where n.beat_at > $2
            and (served = r.lane or (right(served, 1) = '*' and starts_with(r.lane, left(served, -1)))))
    order by r.expires_at
    limit $3
    for no key update skip locked
), ended as (
    update hourbell.runs
    set state = 'failed', reason = 'expired', finished_at = $1
    where id = any(array(select id from dead))
    returning id, job_id
), counted as (
    insert into hourbell.job_stats (job_id, last_run_id, last_run_at, last_state, last_error, failed, streak,
                                    first_failed_at, failed_run_id, alert_at)
    select job_id, (array_agg(id))[1], $1, 'failed', 'older than its max_age', count(*), count(*), $1,
           (array_agg(id))[1], $1
    from ended
    group by job_id
    order by job_id
    on conflict (job_id) do update
    set last_run_id = excluded.last_run_id, last_run_at = excluded.last_run_at, last_state = 'failed', last_error = excluded.last_error,
        failed = hourbell.job_stats.failed + excluded.failed,
        streak = hourbell.job_stats.streak + excluded.streak,
        first_failed_at = coalesce(hourbell.job_stats.first_failed_at, excluded.first_failed_at),
        failed_run_id = excluded.failed_run_id,
        alert_at = excluded.alert_at
)
select id from ended

-- name: beat
insert into hourbell.nodes (id, host, started_at, beat_at, lanes, tzdata)
values ($1, $2, $3, $4, $5, $6)
on conflict (id) do update set beat_at = excluded.beat_at, lanes = excluded.lanes

-- name: renew
-- "is true" makes the planner look up each pair. As a join, pairs would be compared with each other, because a generic
-- plan expects ten of them.
with mine as (
    select r.id
    from hourbell.runs r
    where r.id = any($1::uuid[]) and r.lease_owner = $4
      and ((r.id, r.attempt) in (select g.run_id, g.attempt from unnest($1::uuid[], $2::int[]) as g(run_id, attempt)))
          is true
    order by r.id
    for no key update
)
update hourbell.runs r
set lease_until = greatest(r.lease_until, $3)
where r.id = any(array(select id from mine)) and r.lease_owner = $4
returning r.id, r.attempt

-- name: unheld
select r.id, r.job_id, r.job_version, r.kind, r.scheduled_at, r.ready_at, r.expires_at, r.state, r.lane, r.attempt,
       r.failures, r.crashes, r.started_at, r.at_most_once, r.begun_attempt, r.payload::text
from hourbell.runs r
where r.state = 'running' and r.lease_owner = $1
  and ((r.id, r.attempt) in (select g.run_id, g.attempt from unnest($2::uuid[], $3::int[]) as g(run_id, attempt)))
      is not true
  and (r.at_most_once and r.begun_attempt = r.attempt) is not true
order by r.id
for no key update skip locked

-- name: cancels_of
select run_id from hourbell.cancels where run_id = any($1::uuid[])

-- name: retire
with gone as (delete from hourbell.nodes where id = $1 returning beat_at)
insert into hourbell.meta (key, value)
select 'last_beat', (extract(epoch from beat_at) * 1000000)::bigint::text from gone
on conflict (key) do update set value = greatest(hourbell.meta.value::bigint, excluded.value::bigint)::text

-- name: last_beat
select max(beat_at)
from (select beat_at from hourbell.nodes
      union all
      select timestamptz 'epoch' + value::bigint * interval '1 microsecond' from hourbell.meta where key = 'last_beat'
     ) as beats

-- name: lock_outages
lock table hourbell.outages in share row exclusive mode

-- name: overlapping_outages
select of, started_at, ended_at, found_by from hourbell.outages where of = $1 and started_at <= $3 and ended_at >= $2

-- name: delete_outages
delete from hourbell.outages where of = $1 and started_at <= $3 and ended_at >= $2

-- name: insert_outage
insert into hourbell.outages (of, started_at, ended_at, found_by) values ($1, $2, $3, $4)

-- name: forget_outages
delete from hourbell.outages where ended_at < $1

-- name: prune_candidates
select r.id, r.job_id, r.finished_at,
       j.id is null or j.deleted_at is not null
       or (ltrim(j.schedule) like 'at %' and j.next_at is null and j.plan_at is null and j.cursor_at is not null
           and j.enabled and j.error is null)
       or (select count(*) from (
               select 1 from hourbell.runs n
               where n.job_id = r.job_id and (n.scheduled_at, n.id) > (r.scheduled_at, r.id) limit $4) as newer) >= $4
       as goes
from hourbell.runs r
left join hourbell.jobs j on j.id = r.job_id
where r.finished_at < $1 and (r.finished_at, r.id) > ($2, $3)
order by r.finished_at, r.id
limit $5

-- name: write_notes
insert into hourbell.run_notes as known (run_id, attempt, fraction, message, log, updated_at)
select r.id, n.attempt, n.fraction, n.message, n.log::jsonb, n.updated_at
from unnest($1::uuid[], $2::integer[], $3::double precision[], $4::text[], $5::text[], $6::timestamptz[])
     as n(run_id, attempt, fraction, message, log, updated_at)
join hourbell.runs r on r.id = n.run_id
on conflict (run_id, attempt) do update
set fraction = excluded.fraction, message = excluded.message, log = excluded.log, updated_at = excluded.updated_at
where known.updated_at <= excluded.updated_at

-- name: mark_pruned
-- By job, in the same order as settlements update statistics, so that two writers cannot deadlock.
insert into hourbell.job_stats as s (job_id, pruned_until)
select g.job_id, g.newest
from (select job_id, max(scheduled_at) as newest
      from hourbell.runs
      where id = any($1::uuid[]) and kind in ('scheduled', 'backfill')
      group by job_id) as g
where exists (select 1 from hourbell.jobs j where j.id = g.job_id offset 0)
order by g.job_id
on conflict (job_id) do update set pruned_until = greatest(s.pruned_until, excluded.pruned_until)

-- name: delete_attempts
delete from hourbell.attempts where run_id = any($1::uuid[])

-- name: delete_cancels
delete from hourbell.cancels where run_id = any($1::uuid[])

-- name: delete_runs
delete from hourbell.runs where id = any($1::uuid[]) and finished_at is not null

-- name: lock_finished_jobs
select j.id
from hourbell.jobs j
where j.id = any($1::uuid[])
  and (j.deleted_at is not null
       or (ltrim(j.schedule) like 'at %' and j.next_at is null and j.plan_at is null and j.cursor_at is not null
           and j.enabled and j.error is null))
for update skip locked

-- name: delete_finished_jobs
delete from hourbell.jobs j
where j.id = any($1::uuid[]) and not exists (select 1 from hourbell.runs r where r.job_id = j.id)

-- name: forget_nodes
delete from hourbell.nodes where beat_at < $1

-- name: backlog
select count(*) as waiting, min(ready_at) as oldest
from (select greatest(ready_at, planned_at) as ready_at
      from hourbell.runs where state in ('pending', 'retrying') and ready_at <= $1 limit 100000) as line

-- name: served_lanes
select distinct served from hourbell.nodes n, unnest(n.lanes) as served where n.beat_at > $1

-- name: tzdata_version
insert into hourbell.meta (key, value) values ('tzdata', $1)
on conflict (key) do update set value = greatest(hourbell.meta.value, excluded.value)
returning value, (select value from hourbell.meta where key = 'planned_by_tzdata') as planned_by

-- name: jobs_to_refresh
select * from hourbell.jobs
where id > $1 and deleted_at is null and enabled and cursor_at is not null and error is null and not has_changes
order by id
limit $2
for no key update

-- name: newest_local_times
select j.id, newest.local_at
from unnest($1::uuid[]) as j(id)
cross join lateral (
    select r.local_at from hourbell.runs r
    where r.job_id = j.id and r.kind = 'scheduled'
    order by r.scheduled_at desc limit 1
) as newest

-- name: set_planned_by_tzdata
insert into hourbell.meta (key, value) values ('planned_by_tzdata', $1)
on conflict (key) do update set value = greatest(hourbell.meta.value, excluded.value)
