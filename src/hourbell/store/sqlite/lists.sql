-- The statements behind what people may look at. Parameters are named, and numbered when a statement is made. Those of
-- pages are put together: a frame, a walk (where rows come from, in which order, past which place) and conditions. The
-- columns that lists share are fragments too; they leave values of over `max_bytes` in the database.
-- A condition that repeats the predicate of a partial index is there so that the index can be used.

-- name: job_columns
-- What lists read of a job: of a long target only its short members, and no long payload.
j.id, j.deleted_name, j.paused_note, j.paused_by, j.paused_until, j.version, j.has_changes, j.cursor_at, j.next_at,
j.plan_at, j.error, j.created_at, j.updated_at, j.deleted_at, {listed_fields},
case when octet_length(j.target) <= {max_bytes} then j.target end as target,
case when octet_length(j.target) > {max_bytes}
     then json_remove(j.target, '$.body', '$.headers', '$.args', '$.kwargs', '$.options') end as short_target,
case when octet_length(j.payload) <= {max_bytes} then j.payload end as payload, j.payload is not null as has_payload

-- name: run_columns
-- What lists read of a run: no long payload and no long result.
r.id, r.job_id, r.job_version, r.kind, r.scheduled_at, r.local_at, r.ready_at, r.expires_at, r.state, r.reason, r.lane,
r.exclusive, r.attempt, r.failures, r.crashes, r.lease_owner, r.lease_until, r.replay_of, r.planned_at, r.started_at,
r.finished_at, r.cleared_at,
case when octet_length(r.payload) <= {max_bytes} then r.payload end as payload, r.payload is not null as has_payload,
case when octet_length(r.result) <= {max_bytes} then r.result end as result, r.result is not null as has_result

-- name: run_definition
-- A long one is read by `long_definitions`, once for all runs of a page that have it.
(select case when octet_length(v.definition) <= {max_bytes} then v.definition end from hourbell_job_versions v
 where v.job_id = r.job_id and v.version = r.job_version) as definition

-- name: definition_columns
-- What lists read of a version's definition: of a long target only its short members, and no long payload.
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

-- name: jobs_page
with page as materialized (
    select {job_columns} from {from} where {where} order by {order} limit :limit
)
select j.*, coalesce(u.id, s.last_run_id) as last_run_id,
       coalesce(u.started_at, l.started_at, s.last_run_at) as last_run_at,
       coalesce(u.state, l.state, s.last_state) as last_state,
       s.last_error, s.last_success_at, s.succeeded, s.failed, s.cancelled, s.pruned_until,
       j.enabled and j.error is null and j.next_at is null and j.plan_at is null and j.cursor_at is not null
       and not (exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state = 'running')
                or exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state in ('pending', 'retrying'))) as is_done
from page j
left join hourbell_job_stats s on s.job_id = j.id
left join hourbell_runs l on l.id = s.last_run_id
left join hourbell_runs u on u.rowid = (
    select r.rowid from hourbell_runs r indexed by hourbell_runs_running
    where r.job_id = j.id and r.state = 'running' and r.started_at >= coalesce(l.started_at, r.started_at)
    order by r.started_at desc limit 1)
order by {sort}

-- name: jobs_by_name
hourbell_jobs j

-- name: jobs_by_name_order
j.name

-- name: jobs_by_name_after
j.name > :after_key

-- name: jobs_by_tag
hourbell_job_tags t join hourbell_jobs j on j.id = t.job_id

-- name: jobs_by_tag_order
t.name

-- name: jobs_by_tag_after
t.name > :after_key

-- name: jobs_by_next
hourbell_jobs j

-- name: jobs_by_next_order
j.plan_at, j.id

-- name: jobs_by_next_after
(j.plan_at, j.id) > (:after_key, :after_id)

-- name: jobs_by_id
hourbell_jobs j

-- name: jobs_by_id_order
j.id

-- name: jobs_by_id_after
j.id > :after_id

-- name: jobs_by_result
hourbell_job_stats l join hourbell_jobs j on j.id = l.job_id

-- name: jobs_by_result_order
l.job_id

-- name: jobs_by_result_after
l.job_id > :after_id

-- name: job_is_there
j.deleted_at is null

-- name: job_is_not_deleted
j.deleted_at is null

-- name: job_prefix
j.name >= :prefix and j.name < :prefix_end

-- name: job_tag_prefix
t.name >= :prefix and t.name < :prefix_end

-- name: job_tag
t.tag = :tag

-- name: job_has_tag
exists (select 1 from hourbell_job_tags t where t.tag = :tag and t.name = j.name and t.job_id = j.id)

-- name: job_is_active
j.enabled and j.error is null
    and (j.next_at is not null or j.plan_at is not null or j.cursor_at is null
         or exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state = 'running')
         or exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state in ('pending', 'retrying')))

-- name: job_is_done
j.enabled and j.error is null and j.next_at is null and j.plan_at is null and j.cursor_at is not null
    and not (exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state = 'running')
         or exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state in ('pending', 'retrying')))

-- name: job_is_paused
not j.enabled

-- name: job_is_in_error
j.error is not null

-- name: job_is_http
json_extract(j.target, '$.type') = :target

-- name: job_target
json_extract(j.target, '$.type') = :target and json_extract(j.target, '$.type') <> 'http'

-- name: job_is_of_api
j.managed_by = :managed_by

-- name: job_managed_by
j.managed_by = :managed_by and j.managed_by <> 'api'

-- name: job_source
j.source = :source

-- name: job_subject
j.subject = :subject and j.subject <> ''

-- name: job_result
l.last_state = :last_result

-- name: job_has_result
exists (select 1 from hourbell_job_stats l where l.job_id = j.id and l.last_state = :last_result)

-- name: job_will_fire
j.plan_at is not null and j.enabled and j.error is null and j.next_at is not null

-- name: job_next_before
j.next_at < :next_before and j.plan_at <= :plan_before

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

-- name: job_by_id
select j.*, coalesce(u.id, s.last_run_id) as last_run_id,
       coalesce(u.started_at, l.started_at, s.last_run_at) as last_run_at,
       coalesce(u.state, l.state, s.last_state) as last_state,
       s.last_error, s.last_success_at, s.succeeded, s.failed, s.cancelled, s.pruned_until,
       j.enabled and j.error is null and j.next_at is null and j.plan_at is null and j.cursor_at is not null
       and not (exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state = 'running')
                or exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state in ('pending', 'retrying'))) as is_done
from hourbell_jobs j
left join hourbell_job_stats s on s.job_id = j.id
left join hourbell_runs l on l.id = s.last_run_id
left join hourbell_runs u on u.rowid = (
    select r.rowid from hourbell_runs r indexed by hourbell_runs_running
    where r.job_id = j.id and r.state = 'running' and r.started_at >= coalesce(l.started_at, r.started_at)
    order by r.started_at desc limit 1)
where j.id = :ref

-- name: job_by_name
select j.*, coalesce(u.id, s.last_run_id) as last_run_id,
       coalesce(u.started_at, l.started_at, s.last_run_at) as last_run_at,
       coalesce(u.state, l.state, s.last_state) as last_state,
       s.last_error, s.last_success_at, s.succeeded, s.failed, s.cancelled, s.pruned_until,
       j.enabled and j.error is null and j.next_at is null and j.plan_at is null and j.cursor_at is not null
       and not (exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state = 'running')
                or exists (select 1 from hourbell_runs r where r.job_id = j.id and r.state in ('pending', 'retrying'))) as is_done
from hourbell_jobs j
left join hourbell_job_stats s on s.job_id = j.id
left join hourbell_runs l on l.id = s.last_run_id
left join hourbell_runs u on u.rowid = (
    select r.rowid from hourbell_runs r indexed by hourbell_runs_running
    where r.job_id = j.id and r.state = 'running' and r.started_at >= coalesce(l.started_at, r.started_at)
    order by r.started_at desc limit 1)
where j.name = :ref and j.deleted_at is null

-- name: runs_page
with page as materialized (
    select {run_columns}, r.rowid as place from {from} where {where} order by {order} limit :limit
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

-- name: runs_by_schedule
hourbell_runs r

-- name: runs_by_schedule_order
r.scheduled_at, r.id

-- name: runs_by_schedule_after
(r.scheduled_at, r.id) > (:after_key, :after_id)

-- name: runs_by_expiry
hourbell_runs r

-- name: runs_by_expiry_order
r.expires_at, place

-- name: runs_by_expiry_after
-- A place is looked up by both columns only if each is compared by a collation. Where the run it names is pruned
-- meanwhile, those of its instant come once more.
(r.expires_at, r.rowid)
    > (:after_key, coalesce((select last.rowid from hourbell_runs last where last.id = :after_id), 0) collate binary)

-- name: runs_by_end
hourbell_runs r

-- name: runs_by_end_order
r.finished_at desc, r.id desc

-- name: runs_by_end_after
(r.finished_at, r.id) < (:after_key, :after_id)

-- name: runs_of_job
hourbell_runs r

-- name: runs_of_job_order
r.scheduled_at desc, r.id desc

-- name: runs_of_job_after
(r.scheduled_at, r.id) < (:after_key, :after_id)

-- name: runs_of_subject
-- Only jobs whose newest run is among the newest can have runs on the page: each job is asked for one run, and these for
-- as many as the page holds.
(select n.job_id
 from (select (select r.rowid from hourbell_runs r where r.job_id = j.id and {where}
               order by r.scheduled_at desc, r.id desc limit 1) as newest
       from hourbell_jobs j where j.subject = :subject and j.subject <> '') found
 cross join hourbell_runs n on n.rowid = found.newest
 order by n.scheduled_at desc, n.id desc limit :limit) c
cross join hourbell_runs r on r.rowid in (select r.rowid from hourbell_runs r where r.job_id = c.job_id and {where}
                                         order by r.scheduled_at desc, r.id desc limit :limit)

-- name: runs_of_subject_order
r.scheduled_at desc, r.id desc

-- name: runs_of_subject_after
(r.scheduled_at, r.id) < (:after_key, :after_id)

-- name: runs_running
r.state = 'running'

-- name: runs_waiting
r.state in ('pending', 'retrying')

-- name: runs_pending
r.state in ('pending', 'retrying') and r.state = 'pending'

-- name: runs_pending_of_job
r.state in ('pending', 'retrying') and r.state = 'pending'

-- name: runs_retrying_of_job
r.state in ('pending', 'retrying') and r.state = 'retrying'

-- name: runs_retrying
r.state = 'retrying'

-- name: runs_ended
r.finished_at is not null

-- name: runs_failed
r.state = 'failed' and r.cleared_at is null

-- name: runs_cancelled
r.state = 'cancelled'

-- name: runs_unsuccessful
r.state in ('failed', 'cancelled')

-- name: runs_all
1

-- name: run_job
r.job_id = :job_id

-- name: run_subject
exists (select 1 from hourbell_jobs j where j.id = r.job_id and j.subject = :subject)

-- name: run_state
r.state = :state

-- name: run_ended_since
r.finished_at >= :since

-- name: run_ended_until
r.finished_at < :until

-- name: run_scheduled_since
r.scheduled_at >= :since

-- name: run_scheduled_until
r.scheduled_at < :until

-- name: run_of_job_since
coalesce(r.finished_at, r.scheduled_at) >= :since

-- name: run_of_job_until
coalesce(r.finished_at, r.scheduled_at) < :until

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

-- name: attempts
select a.number, a.node, a.started_at, a.finished_at, a.outcome, a.status_code, a.error, a.excerpt, a.phases,
       a.late_outcome, n.log
from hourbell_attempts a
left join hourbell_run_notes n on n.run_id = a.run_id and n.attempt = a.number
where a.run_id = :run_id
order by a.number

-- name: late_runs
-- Backfills and replays repeat the past on purpose and are never late. The index holds what began more than ten seconds
-- late; a job may ask for less, which is looked for among the newest.
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
    select {run_columns}, r.rowid as place from hourbell_runs r
    where r.state in ('pending', 'retrying') and r.ready_at < :ready_before and r.planned_at < :ready_before
      and (r.attempt = 0 or not :untried)
      and (r.expires_at, r.rowid)
          > (:after_key, coalesce((select last.rowid from hourbell_runs last where last.id = :after_id), 0) collate binary)
    order by r.expires_at, place
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
order by r.expires_at, r.place

-- name: skips
select id, first_at, last_at, count, reason
from hourbell_skips
where job_id = :job_id
order by last_at desc, id desc
limit :limit

-- name: skips_before
select id, first_at, last_at, count, reason
from hourbell_skips
where job_id = :job_id and last_at <= :last_at and (last_at, id) < (:last_at, :id)
order by last_at desc, id desc
limit :limit

-- name: versions
select v.version, v.changed_at, v.changed_by, {definition_columns}
from hourbell_job_versions v
where v.job_id = :job_id and v.version < :before
order by v.version desc
limit :limit

-- name: version
select version, definition, changed_at, changed_by
from hourbell_job_versions
where job_id = :job_id and version = :version

-- name: version_at
select version, definition, changed_at, changed_by
from hourbell_job_versions
where job_id = :job_id and changed_at < :at  -- what is due at the moment of a change is the old version's
order by version desc
limit 1

-- name: change_at
-- The version that was valid then, if plain SQL replaced it and it is not planned up to there yet.
select *
from hourbell_job_changes
where job_id = :job_id and changed_at >= :at and updated_at < :at
order by id
limit 1

-- name: run_at
select r.*,
       (select coalesce(j.deleted_name, j.name) from hourbell_jobs j where j.id = r.job_id) as job_name,
       (select v.definition from hourbell_job_versions v
        where v.job_id = r.job_id and v.version = r.job_version) as definition,
       (select a.error from hourbell_attempts a where a.run_id = r.id and a.number = r.attempt) as error,
       exists (select 1 from hourbell_cancels c where c.run_id = r.id) as is_cancel_requested,
       n.fraction as progress_fraction, n.message as progress_message, n.updated_at as progress_at
from hourbell_runs r
left join hourbell_run_notes n on r.state = 'running' and n.run_id = r.id and n.attempt = r.attempt
where r.job_id = :job_id and r.scheduled_at = :at and r.kind in ('scheduled', 'backfill')

-- name: replays_at
select id, replay_of
from hourbell_runs
where job_id = :job_id and scheduled_at = :at and kind = 'replay'
order by planned_at, id

-- name: skips_at
select id, first_at, last_at, count, reason
from hourbell_skips
where job_id = :job_id and last_at >= :at and first_at <= :at
order by last_at, id

-- name: ended
select state, case when kind in ('scheduled', 'manual') then scheduled_at else ready_at end as due_at, started_at,
       finished_at
from hourbell_runs
where job_id = :job_id and scheduled_at >= :since and finished_at is not null
order by scheduled_at desc, id desc
limit :limit

-- name: with_run
select r.scheduled_at as at
from json_each(:instants) as wanted
join hourbell_runs r on r.job_id = :job_id and r.scheduled_at = wanted.value and r.kind in ('scheduled', 'backfill')

-- name: without_skip
select wanted.value as at
from json_each(:instants) as wanted
where not exists (select 1 from hourbell_skips s
                  where s.job_id = :job_id and s.last_at >= wanted.value and s.first_at <= wanted.value)

-- name: overview
select (select count(*) from hourbell_jobs where deleted_at is null) as jobs,
       (select count(*) from hourbell_jobs where not enabled and deleted_at is null) as paused,
       (select count(*) from hourbell_jobs where error is not null and deleted_at is null) as in_error,
       (select count(*) from hourbell_runs where state in ('pending', 'retrying')) as waiting,
       (select count(*) from hourbell_runs where state = 'running') as running,
       (select count(*) from hourbell_runs where state = 'failed' and cleared_at is null) as dead_letters

-- name: ended_since
select state, count(*) as count
from (select state from hourbell_runs
      where finished_at is not null and finished_at >= :since
      order by finished_at desc, id desc
      limit :limit) as ended
group by state

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

-- name: nodes
select n.id, n.host, n.started_at, n.beat_at, n.lanes, n.tzdata, coalesce(h.running, 0) as running
from hourbell_nodes n
left join (select lease_owner, count(*) as running from hourbell_runs where state = 'running' group by lease_owner) as h
    on h.lease_owner = n.id
where n.beat_at >= :beat_after
order by n.started_at, n.id

-- name: job_conflicts
-- Jobs that the program of a live node defines and somebody else owns.
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

-- name: audit
select {audit_columns}
from hourbell_audit a
where id < :before
order by id desc
limit :limit

-- name: audit_of_subject
select {audit_columns}
from hourbell_audit a
where subject = :subject and id < :before
order by id desc
limit :limit

-- name: audit_entry
select id, at, actor, action, subject, before, after, token_id, ip, request_id,
       (select c.position from hourbell_audit_chain c where c.audit_id = a.id) as chain_position,
       (select c.hash from hourbell_audit_chain c where c.audit_id = a.id) as chain_hash
from hourbell_audit a
where id = :id

-- name: newest_audit
select coalesce(max(id), 0) as newest from hourbell_audit

-- name: changed_jobs
select job_id, version from hourbell_job_versions where changed_at > :since order by changed_at limit :limit

-- name: deletions
select action, subject from hourbell_audit
where id > :audit_id and action in ('job.delete', 'job.prune')
order by id
limit :limit

-- name: begun_runs
select id, job_id, state from hourbell_runs where state = 'running' and started_at > :since limit :limit

-- name: noted_runs
select r.id, r.job_id, r.state, n.updated_at as noted_at
from hourbell_run_notes n
join hourbell_runs r on r.id = n.run_id
where n.updated_at > :since and r.state = 'running'
order by n.updated_at
limit :limit

-- name: ended_runs
select id, job_id, state from hourbell_runs
where finished_at is not null and finished_at > :since
order by finished_at, id
limit :limit
