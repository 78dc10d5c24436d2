-- The statements for changes by users. Jobs are locked before their runs, and several jobs in the order of their names.

-- name: queue_changes
-- The jobs before their change, as the trigger stores them for a change by plain SQL.
insert into hourbell.job_changes (
    job_id, changed_at, paused_until, error, version, saved_version, updated_at, {kept_fields})
select id, :now, paused_until, error, version, saved_version, updated_at, {kept_fields}
from hourbell.jobs
where id = any(:ids::uuid[])

-- name: job_by_id
select * from hourbell.jobs where id = :id and deleted_at is null

-- name: job_by_name
select * from hourbell.jobs where name collate "C" = :name and deleted_at is null

-- name: lock_job
select * from hourbell.jobs where id = :id and deleted_at is null for no key update

-- name: lock_any_job
-- Also finds a deleted job.
select name, deleted_at from hourbell.jobs where id = :id for update

-- name: lock_jobs_by_name
select * from hourbell.jobs
where name collate "C" = any(:names::text[]) and deleted_at is null
order by name collate "C"
for no key update

-- name: lock_unseen_jobs
select j.*
from hourbell.jobs j
where j.managed_by = :managed_by and j.source = :source and j.deleted_at is null
  and not exists (select 1 from hourbell.imports i where i.id = :import_id and i.job_id = j.id)
order by j.name collate "C"
limit :limit
for no key update of j

-- name: lock_unseen_owned_jobs
-- The same for owners other than the API, written to match the index over their jobs.
select j.*
from hourbell.jobs j
where j.managed_by = :managed_by and j.managed_by <> 'api' and j.source = :source and j.deleted_at is null
  and not exists (select 1 from hourbell.imports i where i.id = :import_id and i.job_id = j.id)
order by j.name collate "C"
limit :limit
for no key update of j

-- name: seals_of_jobs
-- The seals of the current versions.
select s.job_id, s.version, s.seal
from hourbell.jobs j
join hourbell.command_seals s on s.job_id = j.id and s.version = j.version
where j.id = any(:job_ids::uuid[])

-- name: put_seal
insert into hourbell.command_seals (job_id, version, seal, sealed_at)
values (:job_id, :version, :seal, :now)
on conflict (job_id, version) do update set seal = excluded.seal, sealed_at = excluded.sealed_at

-- name: seals_by_other_keys
-- With the definition of the version; that of the version before for one that the planner will write after a pause.
select s.job_id, s.version, s.seal, v.definition::text as definition
from hourbell.command_seals s
join hourbell.job_versions v on v.job_id = s.job_id and v.version = (
    select max(w.version) from hourbell.job_versions w where w.job_id = s.job_id and w.version <= s.version)
where s.seal not like :newest || ':%' and (s.job_id, s.version) > (:after_id, :after_version)
order by s.job_id, s.version
limit :limit

-- name: note_pauses
update hourbell.jobs set paused_by = :paused_by where id = any(:ids::uuid[])

-- name: note_program
update hourbell.nodes set source = :source, jobs = :jobs where id = :id

-- name: move_unserved_runs
update hourbell.runs as r
set job_version = j.version, lane = j.lane, exclusive = j.overlap <> 'allow', at_most_once = j.delivery = 'at_most_once'
from hourbell.jobs j
where r.lane = any(:lanes::text[]) and r.state in ('pending', 'retrying')
  and j.id = r.job_id and j.managed_by = 'code' and j.source = :source and j.deleted_at is null
  and j.lane <> r.lane and j.saved_version = j.version
  and not exists (
      select 1 from hourbell.job_versions v
      where v.job_id = j.id and v.version between r.job_version and j.version
        and (v.definition ->> 'schedule', v.definition ->> 'timezone', v.definition ->> 'dst')
            is distinct from (j.schedule, j.timezone, j.dst))

-- name: forget_imports
delete from hourbell.imports where id = :id or started_at < :before

-- name: mark_deleted
update hourbell.jobs set deleted_at = :now, plan_at = null, updated_at = :now where id = any(:ids::uuid[])

-- name: delete_job
-- Foreign keys delete everything that belongs to it.
delete from hourbell.jobs where id = :id

-- name: running_of_job
select count(*) as count from hourbell.runs where job_id = :job_id and state = 'running'

-- name: some_runs_of_job
select id from hourbell.runs where job_id = :job_id order by scheduled_at limit :limit

-- name: run_by_id
select id, job_id, job_version, kind, scheduled_at, ready_at, expires_at, state, lane, attempt, failures, crashes,
       started_at, at_most_once, begun_attempt, payload::text
from hourbell.runs where id = :id

-- name: lock_run
select id, state, cleared_at from hourbell.runs where id = :id for no key update

-- name: planned_instants
select scheduled_at from hourbell.runs
where job_id = :job_id and kind in ('scheduled', 'backfill') and scheduled_at = any(:instants::timestamptz[])

-- name: pruned_until
select pruned_until from hourbell.job_stats where job_id = :job_id

-- name: ask_to_stop
insert into hourbell.cancels (run_id, requested_at)
select id, :now::timestamptz from hourbell.runs where id = :id and state = 'running'
on conflict do nothing
returning run_id

-- name: clear_run
update hourbell.runs set cleared_at = :now where id = :id and state = 'failed' and cleared_at is null

-- name: run_to_replay
select r.job_id, r.state, r.scheduled_at, r.local_at,
       coalesce(r.payload, v.definition -> 'payload')::text as payload
from hourbell.runs r
left join hourbell.job_versions v on v.job_id = r.job_id and v.version = r.job_version
where r.id = :id

-- name: insert_replay
insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane,
                           exclusive, at_most_once, planned_at, payload, replay_of)
values (:id, :job_id, :job_version, 'replay', :scheduled_at, :local_at, :ready_at, :expires_at, :rank, :lane,
        :exclusive, :at_most_once, :planned_at, :payload::jsonb, :replay_of)
on conflict do nothing
returning id
