-- The statements of users' changes that are specific to SQLite.

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

-- name: owned_jobs
select * from hourbell_jobs
where managed_by = :managed_by and managed_by <> 'api' and source = :source and deleted_at is null
order by name

-- name: undefined_jobs
select j.*
from hourbell_jobs j
where j.managed_by = 'code' and j.managed_by <> 'api' and j.source = :source and j.deleted_at is null
  and not exists (
      select 1 from hourbell_nodes n, json_each(n.jobs) as defined
      where n.beat_at > :beat_after and n.source = :source and defined.value = j.name)
order by j.name

-- name: abandoned_jobs
-- The given jobs of programs that no program of their source with a heartbeat since then defines.
select j.id
from hourbell_jobs j
where j.id in (select unhex(value) from json_each(:ids)) and j.managed_by = 'code'
  and not exists (
      select 1 from hourbell_nodes n, json_each(n.jobs) as defined
      where n.beat_at > :heard_since and n.source = j.source and defined.value = j.name)

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
      where n.beat_at > :heard_since
        and (served.value = found.lane
             or (substr(served.value, -1) = '*'
                 and substr(found.lane, 1, length(served.value) - 1) = substr(served.value, 1, length(served.value) - 1))))

-- name: note_imported
insert into hourbell_imports (id, job_id, started_at) select :import_id, unhex(value), :now from json_each(:job_ids)
where true
on conflict do nothing

-- name: cancel_waiting_run
update hourbell_runs set state = 'cancelled', finished_at = :now
where id = :id and state in ('pending', 'retrying')
returning job_id

-- name: is_extended
select 1 from hourbell_audit_chain where position >= :position

-- name: append_links
insert into hourbell_audit_chain (position, audit_id, chained_at, hash, key_id, seal)
values (:position, :audit_id, :chained_at, :hash, :key_id, :seal)

-- name: oldest_waiting
-- Of each job the oldest run that waits and was never begun.
select r.job_id, r.id as run_id, r.scheduled_at
from json_each(:ids) as j
join hourbell_runs r on r.id = (
    select w.id
    from hourbell_runs w indexed by hourbell_runs_waiting
    where w.job_id = unhex(j.value) and w.state in ('pending', 'retrying') and w.attempt = 0
      and w.kind in ('scheduled', 'manual') and w.ready_at <= :now
    order by w.scheduled_at, w.id
    limit 1)

-- name: late_jobs
-- Jobs with runs that wait past their `late_after`: looked for among the oldest of each lane, about `rows` in all.
with recursive found as (
    select min(lane) as lane from hourbell_runs where state in ('pending', 'retrying')
    union all
    select (select min(r.lane) from hourbell_runs r where r.state in ('pending', 'retrying') and r.lane > found.lane)
    from found
    where found.lane is not null
), ranks (rank) as (
    values (0), (1), (2), (3)
)
select r.job_id, count(*) as runs, min(r.scheduled_at) as oldest_at, min(j.catch_up) as catch_up
from found
cross join ranks
cross join json_each((
    select json_group_array(w.rowid)
    from (select w.rowid
          from hourbell_runs w indexed by hourbell_runs_line
          where w.state in ('pending', 'retrying') and w.lane = found.lane and w.rank = ranks.rank
            and w.ready_at <= :now
          order by w.ready_at
          limit (select max(20, :rows / count(*)) from found)) as w)) as oldest
cross join hourbell_runs r on r.rowid = oldest.value
join hourbell_jobs j on j.id = r.job_id
where r.attempt = 0 and r.kind in ('scheduled', 'manual') and r.scheduled_at + j.late_after <= :now
  and j.managed_by <> 'system'
group by r.job_id
limit :limit

-- name: waiting_jobs
-- A page of the jobs with runs that wait, each with the scheduled time of a run that is late, or null. A job's runs are
-- looked at from the oldest on, and if none of so many is late, from the newest on that may be.
with recursive waiting (job_id, number) as (
    select (select min(r.job_id) from hourbell_runs r indexed by hourbell_runs_waiting
            where r.state in ('pending', 'retrying') and r.job_id > :after), 1
    union all
    select (select min(r.job_id) from hourbell_runs r indexed by hourbell_runs_waiting
            where r.state in ('pending', 'retrying') and r.job_id > waiting.job_id),
           waiting.number + 1
    from waiting
    where waiting.job_id is not null and waiting.number < :limit
)
select w.job_id, j.catch_up,
       case when j.managed_by <> 'system' then coalesce(
           (select o.scheduled_at
            from (select r.scheduled_at, r.attempt, r.kind, r.ready_at from hourbell_runs r indexed by hourbell_runs_waiting
                  where r.job_id = w.job_id and r.state in ('pending', 'retrying')
                    and r.scheduled_at <= :now - j.late_after
                  order by r.scheduled_at, r.id
                  limit :rows) as o
            where o.attempt = 0 and o.kind in ('scheduled', 'manual') and o.ready_at <= :now
            limit 1),
           (select n.scheduled_at
            from (select r.scheduled_at, r.attempt, r.kind, r.ready_at from hourbell_runs r indexed by hourbell_runs_waiting
                  where r.job_id = w.job_id and r.state in ('pending', 'retrying')
                    and r.scheduled_at <= :now - j.late_after
                  order by r.scheduled_at desc, r.id desc
                  limit :rows) as n
            where n.attempt = 0 and n.kind in ('scheduled', 'manual') and n.ready_at <= :now
            limit 1)) end as late_at
from waiting w
cross join hourbell_jobs j on j.id = w.job_id
where w.job_id is not null
order by w.job_id

-- name: begun_of_jobs
-- Runs that have begun and not ended; of those between attempts, among the oldest that wait.
select r.job_id, r.id as run_id, r.started_at
from hourbell_runs r
where r.job_id in (select unhex(value) from json_each(:ids)) and r.state = 'running' and r.started_at is not null
union all
select w.job_id, w.id, w.started_at
from json_each(:ids) as j
join hourbell_runs w on w.rowid in (
    select r.rowid
    from hourbell_runs r indexed by hourbell_runs_waiting
    where r.job_id = unhex(j.value) and r.state in ('pending', 'retrying')
    order by r.scheduled_at, r.id
    limit :rows)
where w.state = 'retrying' and w.started_at is not null

-- name: recovery_skips
select coalesce(sum(count), 0) as skipped
from (
    select count from hourbell_skips indexed by hourbell_skips_lost
    where reason in ('missed', 'overlap', 'window', 'tzdata')  -- as the index says
      and reason in ('missed', 'window') and last_at >= :since
      and last_at - last_at % 3600000000 >= :since - :since % 3600000000
    limit :limit
)
