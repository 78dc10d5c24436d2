-- The statements behind what users may change that this database has in a form of its own.

-- name: insert_jobs
insert into hourbell.jobs (
    id, name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry,
    delivery, max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, lane, managed_by, source,
    version, saved_version, cursor_at, next_at, plan_at, created_at, updated_at)
select n.id, n.name, n.description, n.schedule, n.timezone, n.dst, n.target::jsonb, n.payload::jsonb, n.catch_up,
       n.catch_up_window, n.overlap, n.retry::jsonb, n.delivery, n.max_age, n.late_after, n.priority, n.jitter,
       n.starts_at, n.ends_at, n.enabled, n.tags::text[], n.lane, n.managed_by, n.source,
       1, 1, n.cursor_at, n.next_at, n.plan_at, $28, $28
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
            $10::interval[], $11::text[], $12::text[], $13::text[], $14::interval[], $15::interval[], $16::text[],
            $17::interval[], $18::timestamptz[], $19::timestamptz[], $20::bool[], $21::text[], $22::text[], $23::text[],
            $24::text[], $25::timestamptz[], $26::timestamptz[], $27::timestamptz[])
    as n(id, name, description, schedule, timezone, dst, target, payload, catch_up, catch_up_window, overlap, retry,
         delivery, max_age, late_after, priority, jitter, starts_at, ends_at, enabled, tags, lane, managed_by, source,
         cursor_at, next_at, plan_at)
on conflict (id) do nothing
returning id

-- name: update_job
update hourbell.jobs
set name = $2, description = $3, schedule = $4, timezone = $5, dst = $6, target = $7, payload = $8, catch_up = $9,
    catch_up_window = $10, overlap = $11, retry = $12, delivery = $13, max_age = $14, late_after = $15, priority = $16,
    jitter = $17, starts_at = $18, ends_at = $19, enabled = $20, tags = $21, lane = $22, managed_by = $23,
    source = $24, cursor_at = greatest(cursor_at, $25), next_at = $26, plan_at = $27, updated_at = $28, version = $29,
    saved_version = $29, error = null, paused_note = $30, paused_by = $31, paused_until = $32
where id = $1

-- name: update_job_under_its_name
-- As above without the name: an update that lists a key column would wait for every open transaction that refers to the
-- row, such as one that has triggered the job.
update hourbell.jobs
set description = $3, schedule = $4, timezone = $5, dst = $6, target = $7, payload = $8, catch_up = $9,
    catch_up_window = $10, overlap = $11, retry = $12, delivery = $13, max_age = $14, late_after = $15, priority = $16,
    jitter = $17, starts_at = $18, ends_at = $19, enabled = $20, tags = $21, lane = $22, managed_by = $23,
    source = $24, cursor_at = greatest(cursor_at, $25), next_at = $26, plan_at = $27, updated_at = $28, version = $29,
    saved_version = $29, error = null, paused_note = $30, paused_by = $31, paused_until = $32
where id = $1 and name = $2

-- name: lock_jobs_of_bundle
-- Of certain names, and of an owner other than the API: in one statement, so that they are locked in one order.
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
-- Of these jobs of programs, those that no program of their source defines whose node was heard of since then.
select j.id
from hourbell.jobs j
where j.id = any(:ids::uuid[]) and j.managed_by = 'code'
  and not exists (select 1 from hourbell.nodes n where n.beat_at > :heard_since and n.source = j.source and j.name = any(n.jobs))

-- name: unserved_lanes
-- Few lanes have runs that wait, so lanes are looked at one by one.
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
