-- The statements behind what users may change.

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
-- row, such as one that has triggered the job.
update hourbell.jobs
set cursor_at = greatest(cursor_at, $2), next_at = $3, plan_at = $4, updated_at = $5, version = $6, saved_version = $6,
    error = null, paused_note = $7, paused_by = $8, paused_until = $9, {assigned_fields_but_name}
where id = $1 and name = $10

-- name: queue_changes
-- What jobs are until now, as the trigger keeps it for a change by plain SQL.
insert into hourbell.job_changes (
    job_id, changed_at, paused_until, error, version, saved_version, updated_at, {kept_fields})
select id, $2, paused_until, error, version, saved_version, updated_at, {kept_fields}
from hourbell.jobs
where id = any($1::uuid[])

-- name: job_by_id
select * from hourbell.jobs where id = $1 and deleted_at is null

-- name: job_by_name
select * from hourbell.jobs where name collate "C" = $1 and deleted_at is null

-- name: lock_job
select * from hourbell.jobs where id = $1 and deleted_at is null for no key update

-- name: lock_jobs_by_name
select * from hourbell.jobs
where name collate "C" = any($1::text[]) and deleted_at is null
order by name collate "C"
for no key update

-- name: lock_unseen_jobs
select j.*
from hourbell.jobs j
where j.managed_by = $1 and j.source = $2 and j.deleted_at is null
  and not exists (select 1 from hourbell.imports i where i.id = $3 and i.job_id = j.id)
order by j.name collate "C"
limit $4
for no key update of j

-- name: lock_unseen_owned_jobs
-- The same of owners other than the API, as the index over their jobs says it.
select j.*
from hourbell.jobs j
where j.managed_by = $1 and j.managed_by <> 'api' and j.source = $2 and j.deleted_at is null
  and not exists (select 1 from hourbell.imports i where i.id = $3 and i.job_id = j.id)
order by j.name collate "C"
limit $4
for no key update of j

-- name: lock_jobs_of_bundle
-- Of certain names, and of an owner other than the API: in one statement, so that they are locked in one order.
select * from hourbell.jobs
where deleted_at is null
  and (name collate "C" = any($1::text[]) or (managed_by = $2 and managed_by <> 'api' and source = $3))
order by name collate "C"
for no key update

-- name: note_pauses
update hourbell.jobs set paused_by = $2 where id = any($1::uuid[])

-- name: note_program
update hourbell.nodes set source = $2, jobs = $3 where id = $1

-- name: undefined_jobs
select j.*
from hourbell.jobs j
where j.managed_by = 'code' and j.managed_by <> 'api' and j.source = $1 and j.deleted_at is null
  and not exists (select 1 from hourbell.nodes n where n.beat_at > $2 and n.source = $1 and j.name = any(n.jobs))
order by j.name collate "C"

-- name: abandoned_jobs
-- Of these jobs of programs, those that no program of their source defines whose node was heard of since then.
select j.id
from hourbell.jobs j
where j.id = any($1::uuid[]) and j.managed_by = 'code'
  and not exists (select 1 from hourbell.nodes n where n.beat_at > $2 and n.source = j.source and j.name = any(n.jobs))

-- name: move_unserved_runs
-- Few lanes have runs that wait, and of these most are served: so lanes are looked at first, one by one.
with recursive lanes as (
    (select lane from hourbell.runs where state in ('pending', 'retrying') order by lane limit 1)
    union all
    select (select r.lane from hourbell.runs r
            where r.state in ('pending', 'retrying') and r.lane > l.lane order by r.lane limit 1)
    from lanes l
    where l.lane is not null
), unserved as materialized (
    select l.lane
    from lanes l
    where starts_with(l.lane, 'task:')
      and not exists (
          select 1 from hourbell.nodes n, unnest(n.lanes) as served
          where n.beat_at > $2
            and (served = l.lane or (right(served, 1) = '*' and starts_with(l.lane, left(served, -1)))))
), moved as (
    update hourbell.runs r
    set job_version = j.version, lane = j.lane, exclusive = j.overlap <> 'allow',
        at_most_once = j.delivery = 'at_most_once'
    from unserved u, hourbell.jobs j
    where r.lane = u.lane and r.state in ('pending', 'retrying')
      and j.id = r.job_id and j.managed_by = 'code' and j.source = $1 and j.deleted_at is null
      and j.lane <> r.lane and j.saved_version = j.version
      and not exists (
          select 1 from hourbell.job_versions v
          where v.job_id = j.id and v.version between r.job_version and j.version
            and (v.definition ->> 'schedule', v.definition ->> 'timezone', v.definition ->> 'dst')
                is distinct from (j.schedule, j.timezone, j.dst))
    returning r.id
)
select count(*) from moved

-- name: note_imported
insert into hourbell.imports (id, job_id, started_at) select $1, job_id, $3 from unnest($2::uuid[]) as job_id
on conflict do nothing

-- name: forget_imports
delete from hourbell.imports where id = $1 or started_at < $2

-- name: mark_deleted
update hourbell.jobs set deleted_at = $2, plan_at = null, updated_at = $2 where id = any($1::uuid[])

-- name: lock_any_job
-- Also a deleted one.
select name, deleted_at from hourbell.jobs where id = $1 for update

-- name: running_of_job
select count(*) from hourbell.runs where job_id = $1 and state = 'running'

-- name: some_runs_of_job
select id from hourbell.runs where job_id = $1 order by scheduled_at limit $2

-- name: delete_job
-- What else there is of it goes with it, by the tables' own rules.
delete from hourbell.jobs where id = $1

-- name: run_by_id
select id, job_id, job_version, kind, scheduled_at, ready_at, expires_at, state, lane, attempt, failures, crashes,
       started_at, at_most_once, begun_attempt, payload::text
from hourbell.runs where id = $1

-- name: lock_run
select id, state, cleared_at from hourbell.runs where id = $1 for no key update

-- name: planned_instants
select scheduled_at from hourbell.runs
where job_id = $1 and kind in ('scheduled', 'backfill') and scheduled_at = any($2::timestamptz[])

-- name: pruned_until
select pruned_until from hourbell.job_stats where job_id = $1

-- name: cancel_waiting_run
with ended as (
    update hourbell.runs set state = 'cancelled', finished_at = $2
    where id = $1 and state in ('pending', 'retrying') returning job_id
)
insert into hourbell.job_stats (job_id, cancelled) select job_id, 1 from ended
on conflict (job_id) do update set cancelled = hourbell.job_stats.cancelled + 1
returning job_id

-- name: ask_to_stop
insert into hourbell.cancels (run_id, requested_at) select id, $2 from hourbell.runs where id = $1 and state = 'running'
on conflict do nothing
returning run_id

-- name: clear_run
update hourbell.runs set cleared_at = $2 where id = $1 and state = 'failed' and cleared_at is null

-- name: failed_runs
select r.id, r.job_id, coalesce(j.deleted_name, j.name) as job_name, r.scheduled_at, r.finished_at, r.reason, r.attempt, a.error
from hourbell.runs r
left join hourbell.jobs j on j.id = r.job_id
left join hourbell.attempts a on a.run_id = r.id and a.number = r.attempt
where r.state = 'failed' and r.cleared_at is null and (r.finished_at, r.id) < ($2, $3)
order by r.finished_at desc, r.id desc
limit $1

-- name: run_to_replay
select r.job_id, r.state, r.scheduled_at, r.local_at,
       coalesce(r.payload, v.definition -> 'payload')::text as payload
from hourbell.runs r
left join hourbell.job_versions v on v.job_id = r.job_id and v.version = r.job_version
where r.id = $1

-- name: insert_replay
insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane, exclusive,
                     at_most_once, planned_at, payload, replay_of)
values ($1, $2, $3, 'replay', $4, $5, $6, $7, $8, $9, $10, $11, $14, $12::jsonb, $13)
on conflict do nothing
returning id

-- name: delete_secrets
delete from hourbell.secrets where job_id = any($1::uuid[])
