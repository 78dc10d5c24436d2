-- The statements for changes by users that differ on this database.

-- name: insert_jobs
insert into hourbell.jobs (
    id, cursor_at, next_at, plan_at, version, saved_version, created_at, updated_at, {job_fields})
select n.id, n.cursor_at, n.next_at, n.plan_at, 1, 1, {after_fields}, {after_fields}, {fields_of_n}
from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], {arrays_of_fields})
    as n(id, cursor_at, next_at, plan_at, {job_fields})
on conflict (id) do nothing
returning id

-- name: update_job
update hourbell.jobs
set cursor_at = greatest(cursor_at, $2), next_at = $3, plan_at = $4, updated_at = $5, version = $6, saved_version = $6,
    error = null, paused_note = $7, paused_by = $8, paused_until = $9, {assigned_fields}
where id = $1

-- name: update_job_under_its_name
-- As above without the name: an update that lists a key column would wait for every open transaction that refers to the
-- row, such as one that triggered the job.
update hourbell.jobs
set cursor_at = greatest(cursor_at, $2), next_at = $3, plan_at = $4, updated_at = $5, version = $6, saved_version = $6,
    error = null, paused_note = $7, paused_by = $8, paused_until = $9, {assigned_fields_but_name}
where id = $1 and name = $10

-- name: lock_jobs_of_bundle
-- By name, and by an owner other than the API: in one statement, so that rows are locked in one order.
select * from hourbell.jobs
where deleted_at is null
  and (name collate "C" = any(:names::text[]) or (managed_by = :managed_by and managed_by <> 'api' and source = :source))
order by name collate "C"
for no key update

-- name: undefined_jobs
select j.*
from hourbell.jobs j
where j.managed_by = 'code' and j.managed_by <> 'api' and j.source = :source and j.deleted_at is null
  and not exists (select 1 from hourbell.nodes n where n.beat_at > :beat_after and n.source = :source and j.name = any(n.jobs))
order by j.name collate "C"

-- name: abandoned_jobs
-- Of these jobs of programs, those that no program of their source defines on a node with a heartbeat since then.
select j.id
from hourbell.jobs j
where j.id = any(:ids::uuid[]) and j.managed_by = 'code'
  and not exists (select 1 from hourbell.nodes n where n.beat_at > :heard_since and n.source = j.source and j.name = any(n.jobs))

-- name: unserved_lanes
-- Few lanes have waiting runs, so lanes are looked up one by one.
with recursive lanes as (
    (select lane from hourbell.runs where state in ('pending', 'retrying') order by lane limit 1)
    union all
    select (select r.lane from hourbell.runs r
            where r.state in ('pending', 'retrying') and r.lane > l.lane order by r.lane limit 1)
    from lanes l
    where l.lane is not null
)
select l.lane
from lanes l
where starts_with(l.lane, 'task:')
  and not exists (
      select 1 from hourbell.nodes n, unnest(n.lanes) as served
      where n.beat_at > :heard_since
        and (served = l.lane or (right(served, 1) = '*' and starts_with(l.lane, left(served, -1)))))

-- name: note_imported
insert into hourbell.imports (id, job_id, started_at) select :import_id, job_id, :now from unnest(:job_ids::uuid[]) as job_id
on conflict do nothing

-- name: cancel_waiting_run
with ended as (
    update hourbell.runs set state = 'cancelled', finished_at = :now
    where id = :id and state in ('pending', 'retrying') returning job_id
)
insert into hourbell.job_stats (job_id, cancelled) select job_id, 1 from ended
on conflict (job_id) do update set cancelled = hourbell.job_stats.cancelled + 1
returning job_id

-- name: append_links
insert into hourbell.audit_chain (position, audit_id, chained_at, hash, key_id, seal)
select *
from unnest(:position::bigint[], :audit_id::bigint[], :chained_at::timestamptz[], :hash::text[], :key_id::text[],
            :seal::text[])
on conflict do nothing
returning position

-- name: oldest_waiting
-- Of each job the oldest run that waits and was never begun.
select r.job_id, r.run_id, r.scheduled_at
from unnest(:ids::uuid[]) as j(id)
cross join lateral (
    select w.job_id, w.id as run_id, w.scheduled_at
    from hourbell.runs w
    where w.job_id = j.id and w.state not in ('running', 'succeeded', 'failed', 'cancelled') and w.attempt = 0
      and w.kind in ('scheduled', 'manual') and w.ready_at <= :now
    order by w.scheduled_at, w.id
    limit 1
) as r

-- name: late_jobs
-- Jobs with runs that wait past their `late_after`: looked for among the oldest of each lane, about `rows` in all.
with recursive lanes as (
    (select lane from hourbell.runs where state in ('pending', 'retrying') order by lane limit 1)
    union all
    select (select r.lane from hourbell.runs r
            where r.state in ('pending', 'retrying') and r.lane > l.lane order by r.lane limit 1)
    from lanes l
    where l.lane is not null
)
select r.job_id, count(*) as runs, min(r.scheduled_at) as oldest_at, min(j.catch_up) as catch_up
from lanes l
cross join generate_series(0, 3) as p(rank)
cross join lateral (
    select w.job_id, w.scheduled_at, w.attempt, w.kind
    from hourbell.runs w
    where w.state in ('pending', 'retrying') and w.lane = l.lane and w.rank = p.rank and w.ready_at <= :now
    order by w.ready_at
    limit (select greatest(20, :rows::bigint / count(*)) from lanes)
) as r
join hourbell.jobs j on j.id = r.job_id
where l.lane is not null and r.attempt = 0 and r.kind in ('scheduled', 'manual')
  and r.scheduled_at + j.late_after <= :now and j.managed_by <> 'system'
group by r.job_id
limit :limit

-- name: waiting_jobs
-- A page of the jobs with runs that wait, each with the scheduled time of a run that is late, or null. A job's runs are
-- looked at from the oldest on, and if none of so many is late, from the newest on that may be.
with recursive waiting as (
    (select r.job_id, 1 as number from hourbell.runs r
     where r.state not in ('running', 'succeeded', 'failed', 'cancelled') and r.job_id > :after order by r.job_id limit 1)
    union all
    select (select r.job_id from hourbell.runs r
            where r.state not in ('running', 'succeeded', 'failed', 'cancelled') and r.job_id > w.job_id
            order by r.job_id limit 1),
           w.number + 1
    from waiting w
    where w.job_id is not null and w.number < :limit
)
select w.job_id, j.catch_up,
       case when j.managed_by <> 'system' then coalesce(
           (select o.scheduled_at
            from (select r.scheduled_at, r.attempt, r.kind, r.ready_at from hourbell.runs r
                  where r.job_id = w.job_id and r.state not in ('running', 'succeeded', 'failed', 'cancelled')
                    and r.scheduled_at <= :now::timestamptz - j.late_after
                  order by r.scheduled_at, r.id
                  limit :rows) as o
            where o.attempt = 0 and o.kind in ('scheduled', 'manual') and o.ready_at <= :now
            limit 1),
           (select n.scheduled_at
            from (select r.scheduled_at, r.attempt, r.kind, r.ready_at from hourbell.runs r
                  where r.job_id = w.job_id and r.state not in ('running', 'succeeded', 'failed', 'cancelled')
                    and r.scheduled_at <= :now::timestamptz - j.late_after
                  order by r.scheduled_at desc, r.id desc
                  limit :rows) as n
            where n.attempt = 0 and n.kind in ('scheduled', 'manual') and n.ready_at <= :now
            limit 1)) end as late_at
from waiting w
join hourbell.jobs j on j.id = w.job_id
where w.job_id is not null
order by w.job_id

-- name: begun_of_jobs
-- Runs that have begun and not ended; of those between attempts, among the oldest that wait.
select r.job_id, r.id as run_id, r.started_at
from hourbell.runs r
where r.job_id = any(:ids::uuid[]) and r.state = 'running' and r.started_at is not null
union all
select w.job_id, w.id, w.started_at
from unnest(:ids::uuid[]) as j(id)
cross join lateral (
    select r.job_id, r.id, r.started_at, r.state
    from hourbell.runs r
    where r.job_id = j.id and r.state not in ('running', 'succeeded', 'failed', 'cancelled')
    order by r.scheduled_at, r.id
    limit :rows
) as w
where w.state = 'retrying' and w.started_at is not null

-- name: recovery_skips
select coalesce(sum(count), 0)::bigint as skipped
from (
    select count from hourbell.skips
    where reason in ('missed', 'window') and last_at >= :since
      and date_trunc('hour', last_at at time zone 'UTC') >= date_trunc('hour', :since::timestamptz at time zone 'UTC')
    limit :limit
) as s
