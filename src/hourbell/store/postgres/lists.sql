-- The fragments of lists that differ on PostgreSQL. A subquery with `offset 0` is not flattened: rows of the page lead
-- to others by key, and whole tables are never joined. The planner underestimates null values; `job_is_not_deleted` and
-- `job_is_active` are written so that it expects most rows. It also expects every result to be common; `job_result` is
-- a range so that only the index by result has its order. Waiting runs are those "neither running nor ended": only the
-- list by expiry compares that, so that no other index is chosen.

-- name: job_columns
-- The columns of jobs in lists: only the short fields of a long target, and no long payload. A value whose stored size
-- exceeds `certain_bytes` is long as text too, and is not even fetched from its TOAST table.
j.id, j.deleted_name, j.paused_note, j.paused_by, j.paused_until, j.version, j.has_changes, j.cursor_at, j.next_at,
j.plan_at, j.error, j.created_at, j.updated_at, j.deleted_at, {listed_fields},
case when pg_column_size(j.target) <= {certain_bytes} and octet_length(j.target::text) <= {max_bytes} then j.target end as target,
case when not (pg_column_size(j.target) <= {certain_bytes} and octet_length(j.target::text) <= {max_bytes})
     then j.target - array['body', 'headers', 'args', 'kwargs', 'options'] end as short_target,
case when pg_column_size(j.payload) <= {certain_bytes} and octet_length(j.payload::text) <= {max_bytes} then j.payload end as payload,
j.payload is not null as has_payload

-- name: run_columns
-- The columns of runs in lists: no long payload and no long result.
r.id, r.job_id, r.job_version, r.kind, r.scheduled_at, r.local_at, r.ready_at, r.expires_at, r.state, r.reason, r.lane,
r.exclusive, r.attempt, r.failures, r.crashes, r.lease_owner, r.lease_until, r.replay_of, r.planned_at, r.started_at,
r.finished_at, r.cleared_at,
case when pg_column_size(r.payload) <= {certain_bytes} and octet_length(r.payload::text) <= {max_bytes} then r.payload end as payload,
r.payload is not null as has_payload,
case when pg_column_size(r.result) <= {certain_bytes} and octet_length(r.result::text) <= {max_bytes} then r.result end as result,
r.result is not null as has_result

-- name: run_definition
-- A long one is read by `long_definitions`, once for all runs of a page that have it.
(select case when octet_length(v.definition) <= {max_bytes} then v.definition end
 from (select v.definition::text from hourbell.job_versions v
       where v.job_id = r.job_id and v.version = r.job_version and pg_column_size(v.definition) <= {certain_bytes}
       offset 0) v) as definition

-- name: definition_columns
-- The definition of a version in lists: only the short fields of a long target, and no long payload.
case when pg_column_size(v.definition) <= {certain_bytes} and octet_length(v.definition::text) <= {max_bytes} then v.definition
     else v.definition
          - case when octet_length((v.definition -> 'payload')::text) > {max_bytes} then array['payload'] else '{}'::text[] end
          || case when octet_length((v.definition -> 'target')::text) > {max_bytes} then jsonb_build_object('target',
                  (v.definition -> 'target') - array['body', 'headers', 'args', 'kwargs', 'options']) else '{}'::jsonb end
     end as definition,
not (pg_column_size(v.definition) <= {certain_bytes} and octet_length(v.definition::text) <= {max_bytes})
    and octet_length((v.definition -> 'payload')::text) > {max_bytes} as lacks_payload,
not (pg_column_size(v.definition) <= {certain_bytes} and octet_length(v.definition::text) <= {max_bytes})
    and octet_length((v.definition -> 'target')::text) > {max_bytes} as lacks_target

-- name: long_definitions
select v.job_id, v.version, {definition_columns}
from unnest(:job_ids::uuid[], :versions::integer[]) as wanted (job_id, version)
join hourbell.job_versions v on v.job_id = wanted.job_id and v.version = wanted.version

-- name: job_joins
-- The sources of a job's totals: its statistics, its last run, and its running run.
left join lateral (select * from hourbell.job_stats s where s.job_id = j.id offset 0) s on true
left join lateral (select r.started_at, r.state from hourbell.runs r where r.id = s.last_run_id offset 0) l on true
left join lateral (
    select r.id, r.started_at, r.state from hourbell.runs r
    where r.job_id = j.id and r.state = 'running' and r.started_at >= coalesce(l.started_at, '-infinity')
    order by r.started_at desc limit 1
) u on true

-- name: jobs_by_tag
hourbell.job_tags t cross join lateral (select * from hourbell.jobs j where j.id = t.job_id offset 0) j

-- name: jobs_by_result
hourbell.job_stats l cross join lateral (select * from hourbell.jobs j where j.id = l.job_id offset 0) j

-- name: jobs_by_result_order
l.last_state, l.job_id

-- name: jobs_by_result_after
(l.last_state, l.job_id) > (:last_result, :after_id)

-- name: job_is_not_deleted
case when j.deleted_at is null then 1 else 0 end <> 0

-- name: job_is_active
j.enabled and case when j.error is null then 1 else 0 end <> 0
    and (j.next_at is not null or j.plan_at is not null or j.cursor_at is null
         or exists (select 1 from hourbell.runs r where r.job_id = j.id and r.state = 'running' offset 0)
         or exists (select 1 from hourbell.runs r where r.job_id = j.id
                    and r.state not in ('running', 'succeeded', 'failed', 'cancelled') offset 0))

-- name: job_is_done
j.enabled and j.error is null and j.next_at is null and j.plan_at is null and j.cursor_at is not null
    and not (exists (select 1 from hourbell.runs r where r.job_id = j.id and r.state = 'running' offset 0)
         or exists (select 1 from hourbell.runs r where r.job_id = j.id
                    and r.state not in ('running', 'succeeded', 'failed', 'cancelled') offset 0))

-- name: job_is_http
j.target ->> 'type' = :target

-- name: job_target
j.target ->> 'type' = :target and j.target ->> 'type' <> 'http'

-- name: job_result
l.last_state >= :last_result and l.last_state <= :last_result

-- name: sources
with recursive found as (
    (select j.source from hourbell.jobs j
     where j.managed_by = :managed_by and j.managed_by <> 'api' and j.deleted_at is null
     order by j.source limit 1)
    union all
    select (select j.source from hourbell.jobs j
            where j.managed_by = :managed_by and j.managed_by <> 'api' and j.deleted_at is null
              and j.source > f.source
            order by j.source limit 1)
    from found f where f.source is not null
)
select source from found where source is not null limit :limit

-- name: runs_of_subject
-- Only jobs whose newest run is among the newest can have runs on the page: each job is asked for one run, and those
-- for as many as the page holds.
(select j.id from hourbell.jobs j
 cross join lateral (select r.scheduled_at, r.id from hourbell.runs r where r.job_id = j.id and {where}
                     order by r.scheduled_at desc, r.id desc limit 1) newest
 where j.subject = :subject and j.subject <> ''
 order by newest.scheduled_at desc, newest.id desc limit :limit) j
cross join lateral (select * from hourbell.runs r where r.job_id = j.id and {where}
                    order by r.scheduled_at desc, r.id desc limit :limit) r

-- name: runs_page
with page as materialized (
    select {run_columns} from {from} where {where} order by {order} limit :limit
)
select r.*,
       (select coalesce(j.deleted_name, j.name) from hourbell.jobs j where j.id = r.job_id) as job_name,
       {run_definition},
       case when r.exclusive and r.state in ('pending', 'retrying') then coalesce(
           (select o.id from hourbell.runs o where o.job_id = r.job_id and o.state = 'running' limit 1),
           (select o.id from hourbell.runs o
            where o.job_id = r.job_id and o.state not in ('running', 'succeeded', 'failed', 'cancelled')
              and (o.scheduled_at, o.id) < (r.scheduled_at, r.id)
            order by o.scheduled_at, o.id limit 1)) end as blocked_by,
       exists (select 1 from hourbell.cancels c where c.run_id = r.id) as is_cancel_requested,
       n.fraction as progress_fraction, n.message as progress_message, n.updated_at as progress_at
from page r
left join hourbell.run_notes n on r.state = 'running' and n.run_id = r.id and n.attempt = r.attempt
order by {sort}

-- name: runs_by_expiry_order
r.expires_at, r.id

-- name: runs_by_expiry_after
(r.expires_at, r.id) > (:after_key, :after_id)

-- name: runs_waiting
r.state not in ('running', 'succeeded', 'failed', 'cancelled') and r.expires_at > '-infinity'

-- name: runs_pending
r.state not in ('retrying', 'running', 'succeeded', 'failed', 'cancelled') and r.expires_at > '-infinity'

-- name: runs_pending_of_job
r.state not in ('retrying', 'running', 'succeeded', 'failed', 'cancelled')

-- name: runs_retrying_of_job
r.state not in ('pending', 'running', 'succeeded', 'failed', 'cancelled')

-- name: runs_all
true

-- name: run
select r.*,
       (select coalesce(j.deleted_name, j.name) from hourbell.jobs j where j.id = r.job_id) as job_name,
       (select v.definition from hourbell.job_versions v
        where v.job_id = r.job_id and v.version = r.job_version) as definition,
       case when r.exclusive and r.state in ('pending', 'retrying') then coalesce(
           (select o.id from hourbell.runs o where o.job_id = r.job_id and o.state = 'running' limit 1),
           (select o.id from hourbell.runs o
            where o.job_id = r.job_id and o.state not in ('running', 'succeeded', 'failed', 'cancelled')
              and (o.scheduled_at, o.id) < (r.scheduled_at, r.id)
            order by o.scheduled_at, o.id limit 1)) end as blocked_by,
       exists (select 1 from hourbell.cancels c where c.run_id = r.id) as is_cancel_requested,
       n.fraction as progress_fraction, n.message as progress_message, n.updated_at as progress_at,
       n.log as progress_log
from hourbell.runs r
left join hourbell.run_notes n on r.state = 'running' and n.run_id = r.id and n.attempt = r.attempt
where r.id = :run_id

-- name: late_runs
-- Backfills and replays repeat the past on purpose and are never late. The index holds runs that started more than ten
-- seconds late; a job with a lower limit is searched among the newest.
with worst as materialized (
    select r.id, r.job_id, r.job_version, r.started_at - r.scheduled_at as lateness
    from hourbell.runs r
    where r.finished_at is not null and r.kind in ('scheduled', 'manual')
      and r.started_at - r.scheduled_at > interval '10 seconds'
    order by r.started_at - r.scheduled_at desc
    limit :window
), newest as materialized (
    select r.id, r.job_id, r.job_version, r.kind, r.started_at - r.scheduled_at as lateness
    from hourbell.runs r
    where r.finished_at is not null
    order by r.finished_at desc, r.id desc
    limit :window
), limits as materialized (
    -- Each version once: its definition may be long.
    select c.job_id, c.job_version,
           case when jsonb_typeof(v.definition -> 'late_after') = 'number'
                then (v.definition ->> 'late_after')::float8 * interval '1 second' end as allowed
    from (select job_id, job_version from worst union select job_id, job_version from newest) as c
    cross join lateral (select v.definition from hourbell.job_versions v
                        where v.job_id = c.job_id and v.version = c.job_version offset 0) v
), late as materialized (
    select c.id, c.lateness
    from (select id, job_id, job_version, lateness from worst
          union all
          select id, job_id, job_version, lateness from newest
          where kind in ('scheduled', 'manual') and lateness <= interval '10 seconds') as c
    join limits v on v.job_id = c.job_id and v.job_version = c.job_version
    where (c.lateness, c.id) < (:after_lateness, :after_id) and c.lateness > v.allowed
    order by c.lateness desc, c.id desc
    limit :limit
)
select {run_columns},
       (select coalesce(j.deleted_name, j.name) from hourbell.jobs j where j.id = r.job_id) as job_name,
       {run_definition},
       exists (select 1 from hourbell.cancels c where c.run_id = r.id) as is_cancel_requested
from late l
join hourbell.runs r on r.id = l.id
order by l.lateness desc, l.id desc

-- name: stuck_runs
with page as materialized (
    select {run_columns} from hourbell.runs r
    where r.state not in ('running', 'succeeded', 'failed', 'cancelled') and r.expires_at > '-infinity'
      and r.ready_at < :ready_before and r.planned_at < :ready_before
      and (r.attempt = 0 or not :untried) and (r.expires_at, r.id) > (:after_key, :after_id)
    order by r.expires_at, r.id
    limit :limit
)
select r.*,
       (select coalesce(j.deleted_name, j.name) from hourbell.jobs j where j.id = r.job_id) as job_name,
       {run_definition},
       case when r.exclusive and r.state in ('pending', 'retrying') then coalesce(
           (select o.id from hourbell.runs o where o.job_id = r.job_id and o.state = 'running' limit 1),
           (select o.id from hourbell.runs o
            where o.job_id = r.job_id and o.state not in ('running', 'succeeded', 'failed', 'cancelled')
              and (o.scheduled_at, o.id) < (r.scheduled_at, r.id)
            order by o.scheduled_at, o.id limit 1)) end as blocked_by,
       exists (select 1 from hourbell.cancels c where c.run_id = r.id) as is_cancel_requested
from page r
order by r.expires_at, r.id

-- name: with_run
select wanted.at
from unnest(:instants::timestamptz[]) as wanted(at)
where exists (select 1 from hourbell.runs r
              where r.job_id = :job_id and r.scheduled_at = wanted.at and r.kind in ('scheduled', 'backfill') offset 0)

-- name: without_skip
select wanted.at
from unnest(:instants::timestamptz[]) as wanted(at)
where not exists (select 1 from hourbell.skips s
                  where s.job_id = :job_id and s.last_at >= wanted.at and s.first_at <= wanted.at offset 0)

-- name: schedules
with groups as materialized (
    select min(name collate "C") as name, count(*) as jobs, sum(count(*)) over () as all_jobs
    from hourbell.jobs
    where deleted_at is null and enabled and error is null and next_at is not null
    group by schedule, timezone, dst, starts_at, ends_at, case when schedule like '%H%' then name end
    order by count(*) desc, min(name collate "C")
    limit :limit
)
select {job_columns}, g.jobs, g.all_jobs
from groups g
join hourbell.jobs j on j.name collate "C" = g.name and j.deleted_at is null
order by g.jobs desc, g.name

-- name: job_conflicts
-- Jobs that the program of a live node defines but that have another owner.
select distinct j.name, j.managed_by, j.source, n.source as program
from hourbell.nodes n
cross join lateral unnest(n.jobs) as defined(name)
join hourbell.jobs j on j.name = defined.name and j.deleted_at is null
where n.beat_at > :beat_after and n.source is not null and (j.managed_by <> 'code' or j.source <> n.source)
order by j.name, n.source
limit 100

-- name: audit_columns
id, at, actor, action, subject, token_id, ip, request_id,
(select c.position from hourbell.audit_chain c where c.audit_id = a.id) as chain_position,
(select c.hash from hourbell.audit_chain c where c.audit_id = a.id) as chain_hash,
case when pg_column_size(before) <= {certain_bytes} and octet_length(before::text) <= {max_bytes} then before end as before,
before is not null as has_before,
case when pg_column_size(after) <= {certain_bytes} and octet_length(after::text) <= {max_bytes} then after end as after,
after is not null as has_after

-- name: late_limits
select v.job_id, v.version,
       case when jsonb_typeof(v.definition -> 'late_after') = 'number'
            then (v.definition ->> 'late_after')::float8 end as late_after_seconds
from unnest(:job_ids::uuid[], :versions::integer[]) as wanted (job_id, version)
join hourbell.job_versions v on v.job_id = wanted.job_id and v.version = wanted.version

-- name: recent_runs
select r.*
from unnest(:job_ids::uuid[]) as wanted (job_id)
cross join lateral (
    select r.id, r.job_id, r.job_version, r.kind, r.state, r.attempt, r.scheduled_at, r.ready_at, r.started_at,
           r.finished_at
    from hourbell.runs r where r.job_id = wanted.job_id
    order by r.scheduled_at desc, r.id desc limit :limit) r

-- name: recent_skips
select s.*
from unnest(:job_ids::uuid[]) as wanted (job_id)
cross join lateral (
    select s.id, s.job_id, s.first_at, s.last_at, s.count, s.reason
    from hourbell.skips s where s.job_id = wanted.job_id
    order by s.last_at desc, s.id desc limit :limit) s

-- name: run_days
with page as materialized (
    select r.job_version, r.kind, r.state, r.scheduled_at, r.started_at from hourbell.runs r
    where r.job_id = :job_id and r.scheduled_at >= :since and r.scheduled_at < :until
    order by r.scheduled_at desc, r.id desc limit :limit
), limits as materialized (
    select v.version, case when jsonb_typeof(v.definition -> 'late_after') = 'number'
                then (v.definition ->> 'late_after')::float8 * interval '1 second' end as allowed
    from (select distinct job_version from page) as c
    join hourbell.job_versions v on v.job_id = :job_id and v.version = c.job_version
)
select floor(extract(epoch from p.scheduled_at + :offset::interval) / 86400)::integer as day, p.state,
       coalesce(p.kind in ('scheduled', 'manual') and p.started_at - p.scheduled_at > l.allowed, false) as late,
       count(*) as runs
from page p
left join limits l on l.version = p.job_version
group by 1, 2, 3

-- name: skip_days
with page as materialized (
    select id, first_at, last_at, count from hourbell.skips
    where job_id = :job_id and last_at >= :since and last_at < :until
    order by last_at desc, id desc limit :limit
), dated as materialized (
    select id, first_at, last_at, count, floor(extract(epoch from first_at + :offset::interval) / 86400)::integer as first_day, floor(extract(epoch from last_at + :offset::interval) / 86400)::integer as day from page
)
select day, first_day, min(first_at) as first_at, max(last_at) as last_at, sum(count)::bigint as count, count(*) as records
from dated
group by day, first_day, case when first_day = day then 0 else id end
