-- The doctor's reads. Columns are in the order of the fields of the facts.

-- name: sample_time
select cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000

-- name: has_migrations
select 1 from sqlite_schema where name = 'hourbell_migrations'

-- name: applied
select number, checksum from hourbell_migrations

-- name: objects
select type, name from sqlite_schema where type in ('table', 'index', 'trigger') and name like 'hourbell@_%' escape '@'

-- name: nodes
select id, host, started_at, beat_at, lanes, tzdata from hourbell_nodes order by beat_at desc limit 10000

-- name: meta
select key, value from hourbell_meta where key in ('tzdata', 'planned_by_tzdata')

-- name: secrets_elsewhere
select j.name, s.field, s.origin, j.lane
from hourbell_secrets s
join hourbell_jobs j on j.id = s.job_id
where s.field like 'header:%' and s.valid_until is null and s.origin is not j.lane
  and j.deleted_at is null and j.lane like 'http%'
order by j.name, s.field
limit 10000

-- name: unknown_policies
-- Alert policies that jobs name and that do not exist, with the first of the jobs and their number.
select j.alert_policy, min(j.name), count(*)
from hourbell_jobs j
where j.alert_policy not in ('', 'default', 'none') and j.deleted_at is null
  and not exists (select 1 from hourbell_alert_policies p where p.name = j.alert_policy)
group by j.alert_policy
order by j.alert_policy
limit 10000

-- name: alert_policies
select name, definition from hourbell_alert_policies order by name limit 10000

-- name: channel_names
select name from hourbell_channels order by name limit 10000

-- name: lanes
-- A run cannot be claimed before it is planned, and an exclusive run not before the previous run has ended. An end in the
-- future is from before the clock stepped back, and delays nothing.
select lane, count(*), min(ready_at)
from (
    select r.lane,
           max(r.ready_at, r.planned_at, case when r.exclusive then coalesce((
               select s.last_run_at from hourbell_job_stats s where s.job_id = r.job_id and s.last_run_at <= ?1
           ), 0) else 0 end) as ready_at
    from hourbell_runs r
    where r.state in ('pending', 'retrying') and r.ready_at <= ?1
      and (not r.exclusive
           or not exists (select 1 from hourbell_runs o where o.job_id = r.job_id and o.state = 'running')
              and not exists (
                  select 1 from hourbell_runs o
                  where o.job_id = r.job_id and o.state in ('pending', 'retrying')
                    and (o.scheduled_at, o.id) < (r.scheduled_at, r.id)))
    limit 100000
)
group by lane
order by lane

-- name: expired
select id, job_id, lease_until from hourbell_runs
where state = 'running' and lease_until < ?
order by lease_until
limit 10000

-- name: overlapping
select id, job_id, lease_until
from hourbell_runs
where state = 'running' and exclusive and job_id in (
    select job_id from hourbell_runs where state = 'running' and exclusive group by job_id having count(*) > 1 limit 100)
order by job_id, id

-- name: runs
select r.rowid, r.id, r.job_id, coalesce(j.deleted_name, j.name), r.kind, r.scheduled_at, r.state, r.reason, r.attempt,
       coalesce((select max(a.number) from hourbell_attempts a where a.run_id = r.id), 0),
       r.lease_owner is not null, r.lease_until is not null, r.finished_at is not null,
       exists (select 1 from hourbell_job_versions v where v.job_id = r.job_id and v.version = r.job_version)
from hourbell_runs r
left join hourbell_jobs j on j.id = r.job_id
where r.rowid > ?
order by r.rowid
limit ?

-- name: weights
select j.id,
       (select count(*) from (select 1 from hourbell_runs r where r.job_id = j.id limit ?3))
       + (select count(*) from (select 1 from hourbell_skips s where s.job_id = j.id limit ?3))
from hourbell_jobs j
where j.id > ?1 and j.deleted_at is null
order by j.id
limit ?2

-- name: jobs
select j.*, v.changed_at as adopted_at, v.changed_by as adopted_by,
       (select max(o.changed_at) from hourbell_job_versions o where o.job_id = j.id and o.version < j.version)
           as earlier_at,
       not exists (select 1 from hourbell_job_versions o
                   where o.job_id = j.id and o.version > 1 and o.changed_by in ('engine', 'sql')) as is_by_users,
       coalesce(s.succeeded + s.failed + s.cancelled, 0) as ended_ever
from hourbell_jobs j
left join hourbell_job_versions v on v.job_id = j.id and v.version = j.version
left join hourbell_job_stats s on s.job_id = j.id
where j.id in (select unhex(value) from json_each(?)) and j.deleted_at is null
order by j.id

-- name: newest_runs
select r.job_id, r.scheduled_at, r.local_at, r.job_version, r.kind, r.planned_at, r.finished_at
from json_each(?1) as g
join hourbell_runs r on r.job_id = unhex(g.value)
order by r.job_id, r.scheduled_at desc, r.id desc
limit ?2

-- name: newest_skips
select s.job_id, s.first_at, s.last_at, s.count, s.reason
from json_each(?1) as g
join hourbell_skips s on s.job_id = unhex(g.value)
order by s.job_id, s.last_at desc, s.id desc
limit ?2
