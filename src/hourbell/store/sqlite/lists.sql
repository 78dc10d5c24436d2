-- The list fragments that are specific to SQLite.

-- name: job_columns
-- Columns of a job in lists: only the short members of a long target, and no long payload.
j.id, j.deleted_name, j.paused_note, j.paused_by, j.paused_until, j.version, j.has_changes, j.cursor_at, j.next_at,
j.plan_at, j.error, j.created_at, j.updated_at, j.deleted_at, {listed_fields},
case when octet_length(j.target) <= {max_bytes} then j.target end as target,
case when octet_length(j.target) > {max_bytes}
     then json_remove(j.target, '$.body', '$.headers', '$.args', '$.kwargs', '$.options') end as short_target,
case when octet_length(j.payload) <= {max_bytes} then j.payload end as payload, j.payload is not null as has_payload

-- name: run_columns
-- Columns of a run in lists: no long payload and no long result.
r.id, r.job_id, r.job_version, r.kind, r.scheduled_at, r.local_at, r.ready_at, r.expires_at, r.state, r.reason, r.lane,
r.exclusive, r.attempt, r.failures, r.crashes, r.lease_owner, r.lease_until, r.replay_of, r.planned_at, r.started_at,
r.finished_at, r.cleared_at,
case when octet_length(r.payload) <= {max_bytes} then r.payload end as payload, r.payload is not null as has_payload,
case when octet_length(r.result) <= {max_bytes} then r.result end as result, r.result is not null as has_result

-- name: run_definition
-- `long_definitions` reads a long definition, once for all runs of a page that share it.
(select case when octet_length(v.definition) <= {max_bytes} then v.definition end from hourbell_job_versions v
 where v.job_id = r.job_id and v.version = r.job_version) as definition

-- name: definition_columns
-- Columns of a version's definition in lists: only the short members of a long target, and no long payload.
case when octet_length(v.definition) <= {max_bytes} then v.definition
     when octet_length(v.definition -> 'target') <= {max_bytes} then json_remove(v.definition,
          case when octet_length(v.definition -> 'payload') > {max_bytes} then '$.payload' else '$.none' end)
     else json_remove(v.definition,
          case when octet_length(v.definition -> 'payload') > {max_bytes} then '$.payload' else '$.none' end,
          '$.target.body', '$.target.headers', '$.target.args', '$.target.kwargs', '$.target.options') end as definition,
octet_length(v.definition) > {max_bytes} and octet_length(v.definition -> 'payload') > {max_bytes} as lacks_payload,
octet_length(v.definition) > {max_bytes} and octet_length(v.definition -> 'target') > {max_bytes} as lacks_target

-- name: long_definitions
select v.job_id, v.version, {definition_columns}
from json_each(:job_ids) as wanted
join hourbell_job_versions v on v.job_id = unhex(wanted.value) and v.version = :versions ->> wanted.key

-- name: job_joins
-- Sources of a job's totals: its statistics, its last run, and the newest running one that did not start earlier.
left join hourbell_job_stats s on s.job_id = j.id
left join hourbell_runs l on l.id = s.last_run_id
left join hourbell_runs u on u.rowid = (
    select r.rowid from hourbell_runs r indexed by hourbell_runs_running
    where r.job_id = j.id and r.state = 'running' and r.started_at >= coalesce(l.started_at, r.started_at)
    order by r.started_at desc limit 1)

-- name: jobs_by_tag
hourbell_job_tags t join hourbell_jobs j on j.id = t.job_id

-- name: jobs_by_result
hourbell_job_stats l join hourbell_jobs j on j.id = l.job_id

-- name: jobs_by_result_order
l.job_id

-- name: jobs_by_result_after
l.job_id > :after_id

-- name: job_is_not_deleted
j.deleted_at is null

-- name: job_is_active
j.enabled and j.error is null
    and (j.next_at is not null or j.plan_at is not null or j.cursor_at is null
         or exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state = 'running')
         or exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state in ('pending', 'retrying')))

-- name: job_is_done
j.enabled and j.error is null and j.next_at is null and j.plan_at is null and j.cursor_at is not null
    and not (exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state = 'running')
         or exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state in ('pending', 'retrying')))

-- name: job_is_http
json_extract(j.target, '$.type') = :target

-- name: job_target
json_extract(j.target, '$.type') = :target and json_extract(j.target, '$.type') <> 'http'

-- name: job_result
l.last_state = :last_result

-- name: sources
with recursive found as (
    select min(j.source) as source from hourbell_jobs j
    where j.managed_by = :managed_by and j.managed_by <> 'api' and j.deleted_at is null
    union all
    select (select j.source from hourbell_jobs j
            where j.managed_by = :managed_by and j.managed_by <> 'api' and j.deleted_at is null
              and j.source > f.source
            order by j.source limit 1)
    from found f where f.source is not null
)
select source from found where source is not null limit :limit

-- name: runs_of_subject
-- Only jobs whose newest run is among the newest can have runs on the page: read one run of each job, then up to a page
-- of runs of these jobs.
(select n.job_id
 from (select (select r.rowid from hourbell_runs r where r.job_id = j.id and {where}
               order by r.scheduled_at desc, r.id desc limit 1) as newest
       from hourbell_jobs j where j.subject = :subject and j.subject <> '') found
 cross join hourbell_runs n on n.rowid = found.newest
 order by n.scheduled_at desc, n.id desc limit :limit) c
cross join hourbell_runs r on r.rowid in (select r.rowid from hourbell_runs r where r.job_id = c.job_id and {where}
                                         order by r.scheduled_at desc, r.id desc limit :limit)

-- name: runs_page
with page as materialized (
    select {run_columns}, r.rowid as row_id from {from} where {where} order by {order} limit :limit
)
select r.*,
       (select coalesce(j.deleted_name, j.name) from hourbell_jobs j where j.id = r.job_id) as job_name,
       {run_definition},
       case when r.exclusive and r.state in ('pending', 'retrying') then coalesce(
           (select o.id from hourbell_runs o where o.job_id = r.job_id and o.state = 'running' limit 1),
           (select o.id from hourbell_runs o
            where o.job_id = r.job_id and o.state in ('pending', 'retrying')
              and (o.scheduled_at, o.id) < (r.scheduled_at, r.id)
            order by o.scheduled_at, o.id limit 1)) end as blocked_by,
       exists (select 1 from hourbell_cancels c where c.run_id = r.id) as is_cancel_requested,
       n.fraction as progress_fraction, n.message as progress_message, n.updated_at as progress_at
from page r
left join hourbell_run_notes n on r.state = 'running' and n.run_id = r.id and n.attempt = r.attempt
order by {sort}

-- name: runs_by_expiry_order
r.expires_at, row_id

-- name: runs_by_expiry_after
-- SQLite seeks by both columns only if both comparisons have a collation. If the run of the page cursor was pruned
-- meanwhile, runs with the same expiry are listed again.
(r.expires_at, r.rowid)
    > (:after_key, coalesce((select last.rowid from hourbell_runs last where last.id = :after_id), 0) collate binary)

-- name: runs_waiting
r.state in ('pending', 'retrying')

-- name: runs_pending
r.state in ('pending', 'retrying') and r.state = 'pending'

-- name: runs_pending_of_job
r.state in ('pending', 'retrying') and r.state = 'pending'

-- name: runs_retrying_of_job
r.state in ('pending', 'retrying') and r.state = 'retrying'

-- name: runs_all
1

-- name: run
select r.*,
       (select coalesce(j.deleted_name, j.name) from hourbell_jobs j where j.id = r.job_id) as job_name,
       (select v.definition from hourbell_job_versions v
        where v.job_id = r.job_id and v.version = r.job_version) as definition,
       case when r.exclusive and r.state in ('pending', 'retrying') then coalesce(
           (select o.id from hourbell_runs o where o.job_id = r.job_id and o.state = 'running' limit 1),
           (select o.id from hourbell_runs o
            where o.job_id = r.job_id and o.state in ('pending', 'retrying')
              and (o.scheduled_at, o.id) < (r.scheduled_at, r.id)
            order by o.scheduled_at, o.id limit 1)) end as blocked_by,
       exists (select 1 from hourbell_cancels c where c.run_id = r.id) as is_cancel_requested,
       n.fraction as progress_fraction, n.message as progress_message, n.updated_at as progress_at,
       n.log as progress_log
from hourbell_runs r
left join hourbell_run_notes n on r.state = 'running' and n.run_id = r.id and n.attempt = r.attempt
where r.id = :run_id

-- name: late_runs
-- Backfills and replays repeat the past on purpose and are never late. The index holds runs that started more than 10 s
-- late; for jobs with a lower limit, the newest runs are searched.
with worst as materialized (
    select r.id, r.job_id, r.job_version, r.started_at - r.scheduled_at as lateness
    from hourbell_runs r
    where r.finished_at is not null and r.kind in ('scheduled', 'manual')
      and r.started_at - r.scheduled_at > 10000000
    order by r.started_at - r.scheduled_at desc
    limit :window
), newest as materialized (
    select r.id, r.job_id, r.job_version, r.kind, r.started_at - r.scheduled_at as lateness
    from hourbell_runs r
    where r.finished_at is not null
    order by r.finished_at desc, r.id desc
    limit :window
), late as materialized (
    select c.id, c.lateness
    from (select id, job_id, job_version, lateness from worst
          union all
          select id, job_id, job_version, lateness from newest
          where kind in ('scheduled', 'manual') and lateness <= 10000000) as c
    join hourbell_job_versions v on v.job_id = c.job_id and v.version = c.job_version
    where (c.lateness, c.id) < (:after_lateness, :after_id)
      and c.lateness
          > case when json_type(v.definition, '$.late_after') in ('integer', 'real')
                 then json_extract(v.definition, '$.late_after') * 1000000 end
    order by c.lateness desc, c.id desc
    limit :limit
)
select {run_columns},
       (select coalesce(j.deleted_name, j.name) from hourbell_jobs j where j.id = r.job_id) as job_name,
       {run_definition},
       exists (select 1 from hourbell_cancels c where c.run_id = r.id) as is_cancel_requested
from late l
join hourbell_runs r on r.id = l.id
order by l.lateness desc, l.id desc

-- name: stuck_runs
with page as materialized (
    select {run_columns}, r.rowid as row_id from hourbell_runs r
    where r.state in ('pending', 'retrying') and r.ready_at < :ready_before and r.planned_at < :ready_before
      and (r.attempt = 0 or not :untried)
      and (r.expires_at, r.rowid)
          > (:after_key, coalesce((select last.rowid from hourbell_runs last where last.id = :after_id), 0) collate binary)
    order by r.expires_at, row_id
    limit :limit
)
select r.*,
       (select coalesce(j.deleted_name, j.name) from hourbell_jobs j where j.id = r.job_id) as job_name,
       {run_definition},
       case when r.exclusive and r.state in ('pending', 'retrying') then coalesce(
           (select o.id from hourbell_runs o where o.job_id = r.job_id and o.state = 'running' limit 1),
           (select o.id from hourbell_runs o
            where o.job_id = r.job_id and o.state in ('pending', 'retrying')
              and (o.scheduled_at, o.id) < (r.scheduled_at, r.id)
            order by o.scheduled_at, o.id limit 1)) end as blocked_by,
       exists (select 1 from hourbell_cancels c where c.run_id = r.id) as is_cancel_requested
from page r
order by r.expires_at, r.row_id

-- name: with_run
select r.scheduled_at as at
from json_each(:instants) as wanted
join hourbell_runs r on r.job_id = :job_id and r.scheduled_at = wanted.value and r.kind in ('scheduled', 'backfill')

-- name: without_skip
select wanted.value as at
from json_each(:instants) as wanted
where not exists (select 1 from hourbell_skips s
                  where s.job_id = :job_id and s.last_at >= wanted.value and s.first_at <= wanted.value)

-- name: schedules
with groups as materialized (
    select min(name) as name, count(*) as jobs, sum(count(*)) over () as all_jobs
    from hourbell_jobs
    where deleted_at is null and enabled and error is null and next_at is not null
    group by schedule, timezone, dst, starts_at, ends_at, case when instr(schedule, 'H') > 0 then name end
    order by count(*) desc, min(name)
    limit :limit
)
select {job_columns}, g.jobs, g.all_jobs
from groups g
join hourbell_jobs j on j.name = g.name and j.deleted_at is null
order by g.jobs desc, g.name

-- name: job_conflicts
-- Jobs that the program of a live node defines and that have another owner.
select distinct j.name, j.managed_by, j.source, n.source as program
from hourbell_nodes n
cross join json_each(n.jobs) as defined
join hourbell_jobs j on j.name = defined.value and j.deleted_at is null
where n.beat_at > :beat_after and n.source is not null and (j.managed_by <> 'code' or j.source <> n.source)
order by j.name, n.source
limit 100

-- name: audit_columns
id, at, actor, action, subject, token_id, ip, request_id,
(select c.position from hourbell_audit_chain c where c.audit_id = a.id) as chain_position,
(select c.hash from hourbell_audit_chain c where c.audit_id = a.id) as chain_hash,
case when octet_length(before) <= {max_bytes} then before end as before, before is not null as has_before,
case when octet_length(after) <= {max_bytes} then after end as after, after is not null as has_after

-- name: late_limits
select v.job_id, v.version,
       case when json_type(v.definition, '$.late_after') in ('integer', 'real')
            then json_extract(v.definition, '$.late_after') end as late_after_seconds
from json_each(:job_ids) as wanted
join hourbell_job_versions v on v.job_id = unhex(wanted.value) and v.version = :versions ->> wanted.key

-- name: recent_runs
select r.id, r.job_id, r.job_version, r.kind, r.state, r.attempt, r.scheduled_at, r.ready_at, r.started_at, r.finished_at
from json_each(:job_ids) as wanted
cross join hourbell_runs r on r.rowid in (
    select n.rowid from hourbell_runs n where n.job_id = unhex(wanted.value)
    order by n.scheduled_at desc, n.id desc limit :limit)

-- name: recent_skips
select s.id, s.job_id, s.first_at, s.last_at, s.count, s.reason
from json_each(:job_ids) as wanted
cross join hourbell_skips s on s.id in (
    select n.id from hourbell_skips n where n.job_id = unhex(wanted.value)
    order by n.last_at desc, n.id desc limit :limit)

-- name: run_days
with page as materialized (
    select r.job_version, r.kind, r.state, r.scheduled_at, r.started_at from hourbell_runs r
    where r.job_id = :job_id and r.scheduled_at >= :since and r.scheduled_at < :until
    order by r.scheduled_at desc, r.id desc limit :limit
), limits as materialized (
    select v.version, case when json_type(v.definition, '$.late_after') in ('integer', 'real')
                then json_extract(v.definition, '$.late_after') * 1000000 end as allowed
    from (select distinct job_version from page) as c
    join hourbell_job_versions v on v.job_id = :job_id and v.version = c.job_version
)
select (p.scheduled_at + :offset) / 86400000000 as day, p.state,
       coalesce(p.kind in ('scheduled', 'manual') and p.started_at - p.scheduled_at > l.allowed, 0) as late,
       count(*) as runs
from page p
left join limits l on l.version = p.job_version
group by 1, 2, 3

-- name: skip_days
with page as materialized (
    select id, first_at, last_at, count from hourbell_skips
    where job_id = :job_id and last_at >= :since and last_at < :until
    order by last_at desc, id desc limit :limit
), dated as materialized (
    select id, first_at, last_at, count, (first_at + :offset) / 86400000000 as first_day, (last_at + :offset) / 86400000000 as day from page
)
select day, first_day, min(first_at) as first_at, max(last_at) as last_at, sum(count) as count, count(*) as records
from dated
group by day, first_day, case when first_day = day then 0 else id end
