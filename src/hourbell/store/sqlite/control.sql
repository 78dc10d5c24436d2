-- The statements behind what users may change.

-- name: insert_jobs
insert into hourbell_jobs (
    id, cursor_at, next_at, plan_at, version, saved_version, created_at, updated_at, {job_fields})
select unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, 1, 1, ?2, ?2, {fields_of_json}
from json_each(?1)
where true
on conflict (id) do nothing
returning id

-- name: update_job
update hourbell_jobs
set cursor_at = coalesce(max(cursor_at, ?2), cursor_at, ?2), next_at = ?3, plan_at = ?4, updated_at = ?5, version = ?6,
    saved_version = ?6, error = null, paused_note = ?7, paused_by = ?8, paused_until = ?9, {assigned_fields}
where id = ?1

-- name: queue_changes
-- What jobs are until now, as the trigger keeps it for a change by plain SQL.
insert into hourbell_job_changes (
    job_id, changed_at, paused_until, error, version, saved_version, updated_at, {kept_fields})
select id, ?2, paused_until, error, version, saved_version, updated_at, {kept_fields}
from hourbell_jobs
where id in (select unhex(value) from json_each(?1))

-- name: job_by_id
select * from hourbell_jobs where id = ? and deleted_at is null

-- name: job_by_name
select * from hourbell_jobs where name = ? and deleted_at is null

-- name: jobs_by_name
select * from hourbell_jobs where name in (select value from json_each(?)) and deleted_at is null

-- name: unseen_jobs
select j.*
from hourbell_jobs j
where j.managed_by = ?1 and j.source = ?2 and j.deleted_at is null
  and not exists (select 1 from hourbell_imports i where i.id = ?3 and i.job_id = j.id)
order by j.name
limit ?4

-- name: unseen_owned_jobs
-- The same of owners other than the API, as the index over their jobs says it.
select j.*
from hourbell_jobs j
where j.managed_by = ?1 and j.managed_by <> 'api' and j.source = ?2 and j.deleted_at is null
  and not exists (select 1 from hourbell_imports i where i.id = ?3 and i.job_id = j.id)
order by j.name
limit ?4

-- name: owned_jobs
select * from hourbell_jobs
where managed_by = ?1 and managed_by <> 'api' and source = ?2 and deleted_at is null
order by name

-- name: note_pauses
update hourbell_jobs set paused_by = ?2 where id in (select unhex(value) from json_each(?1))

-- name: note_program
update hourbell_nodes set source = ?2, jobs = ?3 where id = ?1

-- name: undefined_jobs
select j.*
from hourbell_jobs j
where j.managed_by = 'code' and j.managed_by <> 'api' and j.source = ?1 and j.deleted_at is null
  and not exists (
      select 1 from hourbell_nodes n, json_each(n.jobs) as defined
      where n.beat_at > ?2 and n.source = ?1 and defined.value = j.name)
order by j.name

-- name: abandoned_jobs
-- Of these jobs of programs, those that no program of their source defines whose node was heard of since then.
select j.id
from hourbell_jobs j
where j.id in (select unhex(value) from json_each(?1)) and j.managed_by = 'code'
  and not exists (
      select 1 from hourbell_nodes n, json_each(n.jobs) as defined
      where n.beat_at > ?2 and n.source = j.source and defined.value = j.name)

-- name: unserved_lanes
with recursive found as (
    select min(lane) as lane from hourbell_runs where state in ('pending', 'retrying')
    union all
    select (select min(r.lane) from hourbell_runs r where r.state in ('pending', 'retrying') and r.lane > found.lane)
    from found
    where found.lane is not null
)
select found.lane
from found
where substr(found.lane, 1, 5) = 'task:'
  and not exists (
      select 1 from hourbell_nodes n, json_each(n.lanes) as served
      where n.beat_at > ?1
        and (served.value = found.lane
             or (substr(served.value, -1) = '*'
                 and substr(found.lane, 1, length(served.value) - 1) = substr(served.value, 1, length(served.value) - 1))))

-- name: move_unserved_runs
update hourbell_runs as r
set job_version = j.version, lane = j.lane, exclusive = j.overlap <> 'allow', at_most_once = j.delivery = 'at_most_once'
from hourbell_jobs j
where r.lane in (select value from json_each(?2)) and r.state in ('pending', 'retrying')
  and j.id = r.job_id and j.managed_by = 'code' and j.source = ?1 and j.deleted_at is null
  and j.lane <> r.lane and j.saved_version = j.version
  and not exists (
      select 1 from hourbell_job_versions v
      where v.job_id = j.id and v.version between r.job_version and j.version
        and (v.definition ->> 'schedule', v.definition ->> 'timezone', v.definition ->> 'dst')
            is not (j.schedule, j.timezone, j.dst))
returning job_id

-- name: note_imported
insert into hourbell_imports (id, job_id, started_at) select ?1, unhex(value), ?3 from json_each(?2)
where true
on conflict do nothing

-- name: forget_imports
delete from hourbell_imports where id = ?1 or started_at < ?2

-- name: mark_deleted
update hourbell_jobs
set deleted_at = ?2, plan_at = null, updated_at = ?2
where id in (select unhex(value) from json_each(?1))

-- name: lock_any_job
-- Also a deleted one.
select name, deleted_at from hourbell_jobs where id = ?

-- name: running_of_job
select count(*) as count from hourbell_runs where job_id = ? and state = 'running'

-- name: some_runs_of_job
select id from hourbell_runs where job_id = ?1 order by scheduled_at limit ?2

-- name: delete_job
-- What else there is of it goes with it, by the tables' own rules.
delete from hourbell_jobs where id = ?

-- name: run_by_id
select id, job_id, job_version, kind, scheduled_at, ready_at, expires_at, state, lane, attempt, failures, crashes,
       started_at, at_most_once, begun_attempt, payload
from hourbell_runs where id = ?

-- name: run_state
select state, cleared_at from hourbell_runs where id = ?

-- name: planned_instants
select scheduled_at from hourbell_runs
where job_id = ?1 and kind in ('scheduled', 'backfill') and scheduled_at in (select value from json_each(?2))

-- name: pruned_until
select pruned_until from hourbell_job_stats where job_id = ?

-- name: cancel_waiting_run
update hourbell_runs set state = 'cancelled', finished_at = ?2
where id = ?1 and state in ('pending', 'retrying')
returning job_id

-- name: ask_to_stop
insert into hourbell_cancels (run_id, requested_at)
select id, ?2 from hourbell_runs where id = ?1 and state = 'running'
on conflict do nothing
returning run_id

-- name: clear_run
update hourbell_runs set cleared_at = ?2 where id = ?1 and state = 'failed' and cleared_at is null

-- name: failed_runs
select r.id, r.job_id, coalesce(j.deleted_name, j.name) as job_name, r.scheduled_at, r.finished_at, r.reason, r.attempt, a.error
from hourbell_runs r
left join hourbell_jobs j on j.id = r.job_id
left join hourbell_attempts a on a.run_id = r.id and a.number = r.attempt
where r.state = 'failed' and r.cleared_at is null and (r.finished_at, r.id) < (?2, ?3)
order by r.finished_at desc, r.id desc
limit ?1

-- name: run_to_replay
select r.job_id, r.state, r.scheduled_at, r.local_at,
       coalesce(r.payload, v.definition -> 'payload') as payload
from hourbell_runs r
left join hourbell_job_versions v on v.job_id = r.job_id and v.version = r.job_version
where r.id = ?1

-- name: insert_replay
insert into hourbell_runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane, exclusive,
                     at_most_once, planned_at, payload, replay_of)
values (?1, ?2, ?3, 'replay', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?14, ?12, ?13)
on conflict do nothing
returning id

-- name: delete_secrets
delete from hourbell_secrets where job_id in (select unhex(value) from json_each(?))
