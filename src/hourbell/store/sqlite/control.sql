-- The statements behind what users may change that this database has in a form of its own.

-- name: insert_jobs
insert into hourbell_jobs (
    id, name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry,
    delivery, max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, lane, managed_by, source,
    version, saved_version, cursor_at, next_at, plan_at, created_at, updated_at)
select unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13,
       value ->> 14, value ->> 15, value ->> 16, value ->> 17, value ->> 18, value ->> 19, value ->> 20,
       value ->> 21, value ->> 22, value ->> 23, 1, 1, value ->> 24, value ->> 25, value ->> 26, ?2, ?2
from json_each(?1)
where true
on conflict (id) do nothing
returning id

-- name: update_job
update hourbell_jobs
set name = ?2, description = ?3, schedule = ?4, timezone = ?5, dst = ?6, target = ?7, payload = ?8, catch_up = ?9,
    catch_up_window = ?10, overlap = ?11, retry = ?12, delivery = ?13, max_age = ?14, late_after = ?15, priority = ?16,
    jitter = ?17, starts_at = ?18, ends_at = ?19, enabled = ?20, tags = ?21, lane = ?22, managed_by = ?23,
    source = ?24, cursor_at = coalesce(max(cursor_at, ?25), cursor_at, ?25), next_at = ?26, plan_at = ?27,
    updated_at = ?28, version = ?29, saved_version = ?29, error = null, paused_note = ?30, paused_by = ?31,
    paused_until = ?32
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
-- Of these jobs of programs, those that no program of their source defines whose node was heard of since then.
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
