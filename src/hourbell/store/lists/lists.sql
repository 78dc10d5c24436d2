-- The statements for lists and single objects. Parameters are named, and numbered when a statement is built. The
-- statement of a page is composed: a frame, a walk (the table, the order and the position) and conditions. The columns
-- that lists share are fragments too; values of over `max_bytes` are not read.
-- A condition that repeats the predicate of a partial index is there so that the index can be used. Where the databases
-- need different queries, the fragment is in the `lists.sql` of each.

-- name: job_totals
coalesce(u.id, s.last_run_id) as last_run_id, coalesce(u.started_at, l.started_at, s.last_run_at) as last_run_at,
coalesce(u.state, l.state, s.last_state) as last_state,
s.last_error, s.last_success_at, s.succeeded, s.failed, s.cancelled, s.pruned_until,
{job_is_done} as is_done

-- name: jobs_page
with page as materialized (
    select {job_columns} from {from} where {where} order by {order} limit :limit
)
select j.*, {job_totals}
from page j
{job_joins}
order by {sort}

-- name: jobs_count
select count(*) as number from (select 1 as one from {from} where {where} order by {order} limit :limit) as found

-- name: job_by_id
select j.*, {job_totals}
from hourbell.jobs j
{job_joins}
where j.id = :ref

-- name: job_by_name
select j.*, {job_totals}
from hourbell.jobs j
{job_joins}
where j.name collate "C" = :ref and j.deleted_at is null

-- name: jobs_by_name
hourbell.jobs j

-- name: jobs_by_name_order
j.name collate "C"

-- name: jobs_by_name_after
j.name collate "C" > :after_key

-- name: jobs_by_tag_order
t.name

-- name: jobs_by_tag_after
t.name > :after_key

-- name: jobs_by_next
hourbell.jobs j

-- name: jobs_by_next_order
j.plan_at, j.id

-- name: jobs_by_next_after
(j.plan_at, j.id) > (:after_key, :after_id)

-- name: jobs_by_id
hourbell.jobs j

-- name: jobs_by_id_order
j.id

-- name: jobs_by_id_after
j.id > :after_id

-- name: job_is_there
j.deleted_at is null

-- name: job_prefix
j.name collate "C" >= :prefix and j.name collate "C" < :prefix_end

-- name: job_tag_prefix
t.name >= :prefix and t.name < :prefix_end

-- name: job_tag
t.tag = :tag

-- name: job_has_tag
exists (select 1 from hourbell.job_tags t where t.tag = :tag and t.name = j.name and t.job_id = j.id)

-- name: job_is_paused
not j.enabled

-- name: job_is_in_error
j.error is not null

-- name: job_is_of_api
j.managed_by = :managed_by

-- name: job_is_no_system_job
j.managed_by <> 'system'

-- name: run_is_no_notification
r.lane not like 'channel:%'

-- name: job_managed_by
j.managed_by = :managed_by and j.managed_by <> 'api'

-- name: job_source
j.source = :source

-- name: job_subject
j.subject = :subject and j.subject <> ''

-- name: job_has_result
exists (select 1 from hourbell.job_stats l where l.job_id = j.id and l.last_state = :last_result)

-- name: job_will_fire
j.plan_at is not null and j.enabled and j.error is null and j.next_at is not null

-- name: job_next_before
j.next_at < :next_before and j.plan_at <= :plan_before

-- name: runs_by_schedule
hourbell.runs r

-- name: runs_by_schedule_order
r.scheduled_at, r.id

-- name: runs_by_schedule_after
(r.scheduled_at, r.id) > (:after_key, :after_id)

-- name: runs_by_expiry
hourbell.runs r

-- name: runs_by_end
hourbell.runs r

-- name: runs_by_end_order
r.finished_at desc, r.id desc

-- name: runs_by_end_after
(r.finished_at, r.id) < (:after_key, :after_id)

-- name: runs_of_job
hourbell.runs r

-- name: runs_of_job_order
r.scheduled_at desc, r.id desc

-- name: runs_of_job_after
(r.scheduled_at, r.id) < (:after_key, :after_id)

-- name: runs_of_subject_order
r.scheduled_at desc, r.id desc

-- name: runs_of_subject_after
(r.scheduled_at, r.id) < (:after_key, :after_id)

-- name: runs_running
r.state = 'running'

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

-- name: run_job
r.job_id = :job_id

-- name: run_subject
exists (select 1 from hourbell.jobs j where j.id = r.job_id and j.subject = :subject)

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

-- name: attempts
select a.number, a.node, a.started_at, a.finished_at, a.outcome, a.status_code, a.error, a.excerpt, a.phases,
       a.late_outcome, n.log
from hourbell.attempts a
left join hourbell.run_notes n on n.run_id = a.run_id and n.attempt = a.number
where a.run_id = :run_id
order by a.number

-- name: skips
select id, first_at, last_at, count, reason
from hourbell.skips
where job_id = :job_id
order by last_at desc, id desc
limit :limit

-- name: skips_before
select id, first_at, last_at, count, reason
from hourbell.skips
where job_id = :job_id and last_at <= :last_at and (last_at, id) < (:last_at, :id)
order by last_at desc, id desc
limit :limit

-- name: versions
select v.version, v.changed_at, v.changed_by, {definition_columns}
from hourbell.job_versions v
where v.job_id = :job_id and v.version < :before
order by v.version desc
limit :limit

-- name: version
select version, definition, changed_at, changed_by
from hourbell.job_versions
where job_id = :job_id and version = :version

-- name: version_at
select version, definition, changed_at, changed_by
from hourbell.job_versions
where job_id = :job_id and changed_at < :at  -- times due at the moment of a change belong to the old version
order by version desc
limit 1

-- name: change_at
-- The version that was valid then, if plain SQL replaced it and planning has not reached that change yet.
select *
from hourbell.job_changes
where job_id = :job_id and changed_at >= :at and updated_at < :at
order by id
limit 1

-- name: run_at
select r.*,
       (select coalesce(j.deleted_name, j.name) from hourbell.jobs j where j.id = r.job_id) as job_name,
       (select v.definition from hourbell.job_versions v
        where v.job_id = r.job_id and v.version = r.job_version) as definition,
       (select a.error from hourbell.attempts a where a.run_id = r.id and a.number = r.attempt) as error,
       exists (select 1 from hourbell.cancels c where c.run_id = r.id) as is_cancel_requested,
       n.fraction as progress_fraction, n.message as progress_message, n.updated_at as progress_at
from hourbell.runs r
left join hourbell.run_notes n on r.state = 'running' and n.run_id = r.id and n.attempt = r.attempt
where r.job_id = :job_id and r.scheduled_at = :at and r.kind in ('scheduled', 'backfill')

-- name: replays_at
select id, replay_of
from hourbell.runs
where job_id = :job_id and scheduled_at = :at and kind = 'replay'
order by planned_at, id

-- name: skips_at
-- The skips of a job do not overlap, so the ones that contain a time are among the first that end at or after it.
select id, first_at, last_at, count, reason
from (
    select id, first_at, last_at, count, reason
    from hourbell.skips
    where job_id = :job_id and last_at >= :at
    order by last_at, id
    limit 100
) s
where first_at <= :at
order by last_at, id

-- name: ended
select state, case when kind in ('scheduled', 'manual') then scheduled_at else ready_at end as due_at, started_at,
       finished_at
from hourbell.runs
where job_id = :job_id and scheduled_at >= :since and finished_at is not null
order by scheduled_at desc, id desc
limit :limit

-- name: overview
-- System jobs, one for each channel and never enabled, and their runs are subtracted: few rows, each found by an index.
select (select count(*) from hourbell.jobs where deleted_at is null) - (select count(*) from hourbell.channels) as jobs,
       (select count(*) from hourbell.jobs where not enabled and deleted_at is null)
           - (select count(*) from hourbell.channels) as paused,
       (select count(*) from hourbell.jobs where error is not null and deleted_at is null) as in_error,
       (select count(*) from hourbell.runs where state in ('pending', 'retrying'))
           - (select count(*) from hourbell.channels c
              join hourbell.runs r on r.lane = 'channel:' || c.name and r.state in ('pending', 'retrying')) as waiting,
       (select count(*) from hourbell.runs where state = 'running')
           - (select count(*) from hourbell.channels c
              join hourbell.runs r on r.job_id = c.job_id and r.state = 'running') as running,
       (select count(*) from hourbell.runs where state = 'failed' and cleared_at is null)
           - (select count(*) from hourbell.channels c
              join hourbell.runs r on r.job_id = c.job_id and r.state = 'failed' and r.cleared_at is null)
           as dead_letters

-- name: ended_since
select state, count(*) as count
from (select state from hourbell.runs
      where finished_at is not null and finished_at >= :since
      order by finished_at desc, id desc
      limit :limit) as ended
group by state

-- name: nodes
select n.id, n.host, n.started_at, n.beat_at, n.lanes, n.tzdata, coalesce(h.running, 0) as running
from hourbell.nodes n
left join (select lease_owner, count(*) as running from hourbell.runs where state = 'running' group by lease_owner) as h
    on h.lease_owner = n.id
where n.beat_at >= :beat_after
order by n.started_at, n.id

-- name: tags
-- One step of the index for each tag, however many jobs have it.
with recursive found as (
    select min(t.tag) as tag from hourbell.job_tags t where t.tag > :after
    union all
    select (select min(t.tag) from hourbell.job_tags t where t.tag > f.tag) from found f where f.tag is not null
)
select tag from found where tag is not null limit :limit

-- name: outages
select of, started_at, ended_at, found_by
from hourbell.outages
where ended_at >= :since and started_at <= :until and (started_at, of) < (:before_at, :before_of)
order by started_at desc, of desc
limit :limit

-- name: outages_at
select of, started_at, ended_at, found_by
from hourbell.outages
where started_at <= :at and ended_at >= :at
order by started_at, of

-- name: audit
select {audit_columns}
from hourbell.audit a
where id < :before
order by id desc
limit :limit

-- name: audit_of_subject
select {audit_columns}
from hourbell.audit a
where subject = :subject and id < :before
order by id desc
limit :limit

-- name: audit_entry
select id, at, actor, action, subject, before, after, token_id, ip, request_id,
       (select c.position from hourbell.audit_chain c where c.audit_id = a.id) as chain_position,
       (select c.hash from hourbell.audit_chain c where c.audit_id = a.id) as chain_hash
from hourbell.audit a
where id = :id

-- name: newest_audit
select coalesce(max(id), 0) as newest from hourbell.audit

-- name: changed_jobs
select job_id, version from hourbell.job_versions where changed_at > :since order by changed_at limit :limit

-- name: deletions
select action, subject from hourbell.audit
where id > :audit_id and action in ('job.delete', 'job.prune')
order by id
limit :limit

-- name: begun_runs
select id, job_id, state from hourbell.runs where state = 'running' and started_at > :since limit :limit

-- name: noted_runs
select r.id, r.job_id, r.state, n.updated_at as noted_at
from hourbell.run_notes n
join hourbell.runs r on r.id = n.run_id
where n.updated_at > :since and r.state = 'running'
order by n.updated_at
limit :limit

-- name: ended_runs
select id, job_id, state from hourbell.runs
where finished_at is not null and finished_at > :since
order by finished_at, id
limit :limit

-- name: run_times
-- Runs of a job in a short form.
with page as materialized (
    select r.id, r.job_id, r.job_version, r.kind, r.state, r.reason, r.attempt, r.scheduled_at, r.local_at, r.ready_at,
           r.started_at, r.finished_at, r.replay_of
    from {from} where {where} order by {order} limit :limit
)
select r.*,
       (select substr(a.error, 1, 1000) from hourbell.attempts a where a.run_id = r.id and a.number = r.attempt) as error,
       (select a.status_code from hourbell.attempts a where a.run_id = r.id and a.number = r.attempt) as status_code
from page r
order by {sort}

-- name: newest_skip
-- The end of the newest skip that begins before a time, if it lasts longer. Skips overlap hardly ever.
select max(c.last_at) as last_at
from (select s.first_at, s.last_at from hourbell.skips s
      where s.job_id = :job_id and s.last_at >= :until
      order by s.last_at limit 20) c
where c.first_at < :until

-- name: skip_times
select id, job_id, first_at, last_at, count, reason
from hourbell.skips
where job_id = :job_id and last_at >= :since and last_at <= :last_at and (last_at, id) < (:last_at, :id)
  and first_at < :until
order by last_at desc, id desc
limit :limit

-- name: ended_times
select id, job_id, job_version, kind, state, attempt, scheduled_at, ready_at, started_at, finished_at
from hourbell.runs
where job_id = :job_id and finished_at is not null
order by scheduled_at desc, id desc
limit :limit

-- name: version_times
select version, changed_at from hourbell.job_versions where job_id = :job_id order by version desc limit :limit

-- name: failed_runs
with page as materialized (
    select r.id, r.job_id, r.lane, r.reason, r.attempt, r.scheduled_at, r.finished_at, r.cleared_at
    from {from} where {where} order by {order} limit :limit
)
select r.*,
       (select coalesce(j.deleted_name, j.name) from hourbell.jobs j where j.id = r.job_id) as job_name,
       (select substr(a.error, 1, 1000) from hourbell.attempts a where a.run_id = r.id and a.number = r.attempt) as error
from page r
order by {sort}

-- name: changed_incidents
-- Each of the three has an index of its own; those that are not resolved are few.
select id, state from hourbell.incidents where opened_at > :since
union
select id, state from hourbell.incidents where resolved_at > :since
union
select id, state from hourbell.incidents where state <> 'resolved' and acknowledged_at > :since
order by id
limit :limit
