-- The doctor's statements. Each is short, and none takes a lock that others wait for.

-- name: sample_time
select clock_timestamp()

-- name: applied
select number, checksum from hourbell.migrations

-- name: objects
select case c.relkind when 'i' then 'index' else 'table' end as kind, c.relname as name
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'hourbell' and c.relkind in ('r', 'i')
union all
select 'trigger', t.tgname
from pg_trigger t
join pg_class c on c.oid = t.tgrelid
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'hourbell' and not t.tgisinternal

-- name: invalid_indexes
select c.relname
from pg_index i
join pg_class c on c.oid = i.indexrelid
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'hourbell' and not (i.indisvalid and i.indisready)
order by c.relname

-- name: disabled_triggers
select c.relname, t.tgname
from pg_trigger t
join pg_class c on c.oid = t.tgrelid
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'hourbell' and not t.tgisinternal and t.tgenabled not in ('O', 'A')
order by t.tgname

-- name: settings
select name, setting from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit') order by name

-- name: nodes
select id, host, started_at, beat_at, lanes, tzdata from hourbell.nodes order by beat_at desc limit 10000

-- name: meta
select key, value from hourbell.meta where key in ('tzdata', 'planned_by_tzdata')

-- name: secrets_elsewhere
select j.name, s.field, s.origin, j.lane
from hourbell.secrets s
join hourbell.jobs j on j.id = s.job_id
where s.field like 'header:%' and s.valid_until is null and s.origin is distinct from j.lane
  and j.deleted_at is null and j.lane like 'http%'
order by j.name, s.field
limit 10000

-- name: unknown_policies
-- Alert policies that jobs name and that do not exist, with the first of the jobs and their number.
select j.alert_policy, min(j.name collate "C"), count(*)
from hourbell.jobs j
where j.alert_policy not in ('', 'default', 'none') and j.deleted_at is null
  and not exists (select 1 from hourbell.alert_policies p where p.name = j.alert_policy)
group by j.alert_policy
order by j.alert_policy
limit 10000

-- name: alert_policies
select name, definition::text from hourbell.alert_policies order by name limit 10000

-- name: channel_names
select name from hourbell.channels order by name limit 10000

-- name: lanes
-- A run could not be claimed before it was planned, nor, if it must not overlap, before the previous one ended. An end in
-- the future is from before the clock stepped back, and delays nothing.
select lane, count(*) as waiting, min(ready_at) as oldest
from (
    select r.lane,
           greatest(r.ready_at, r.planned_at, case when r.exclusive then (
               select s.last_run_at from hourbell.job_stats s where s.job_id = r.job_id and s.last_run_at <= $1
           ) end) as ready_at
    from hourbell.runs r
    where r.state in ('pending', 'retrying') and r.ready_at <= $1
      and (not r.exclusive
           or not exists (select 1 from hourbell.runs o where o.job_id = r.job_id and o.state = 'running')
              and not exists (
                  select 1 from hourbell.runs o
                  where o.job_id = r.job_id and o.state not in ('running', 'succeeded', 'failed', 'cancelled')
                    and (o.scheduled_at, o.id) < (r.scheduled_at, r.id)))
    limit 100000
) as line
group by lane
order by lane

-- name: expired
select id, job_id, lease_until from hourbell.runs
where state = 'running' and lease_until < $1
order by lease_until
limit 10000

-- name: overlapping
select id, job_id, lease_until
from hourbell.runs
where state = 'running' and exclusive and job_id in (
    select job_id from hourbell.runs where state = 'running' and exclusive group by job_id having count(*) > 1 limit 100)
order by job_id, id

-- name: runs
select r.id, r.job_id, coalesce(j.deleted_name, j.name), r.kind, r.scheduled_at, r.state, r.reason, r.attempt,
       coalesce((select max(a.number) from hourbell.attempts a where a.run_id = r.id), 0) as newest_attempt,
       r.lease_owner is not null, r.lease_until is not null, r.finished_at is not null,
       exists (select 1 from hourbell.job_versions v where v.job_id = r.job_id and v.version = r.job_version)
from (select * from hourbell.runs where id > $1 order by id limit $2) as r
left join hourbell.jobs j on j.id = r.job_id
order by r.id

-- name: weights
select j.id,
       (select count(*) from (select 1 from hourbell.runs r where r.job_id = j.id limit $3) as counted)
       + (select count(*) from (select 1 from hourbell.skips s where s.job_id = j.id limit $3) as counted) as weight
from hourbell.jobs j
where j.id > $1 and j.deleted_at is null
order by j.id
limit $2

-- name: jobs
select j.*, v.changed_at as adopted_at, v.changed_by as adopted_by, e.earlier_at, e.is_by_users,
       coalesce(s.succeeded + s.failed + s.cancelled, 0) as ended_ever
from hourbell.jobs j
left join hourbell.job_versions v on v.job_id = j.id and v.version = j.version
left join hourbell.job_stats s on s.job_id = j.id
cross join lateral (
    select max(o.changed_at) filter (where o.version < j.version) as earlier_at,
           coalesce(bool_and(o.changed_by not in ('engine', 'sql')) filter (where o.version > 1), true) as is_by_users
    from hourbell.job_versions o
    where o.job_id = j.id
) as e
where j.id = any($1::uuid[]) and j.deleted_at is null
order by j.id

-- name: newest_runs
select r.job_id, r.scheduled_at, r.local_at, r.job_version, r.kind, r.planned_at, r.finished_at
from unnest($1::uuid[]) as g(id)
cross join lateral (
    select * from hourbell.runs o where o.job_id = g.id order by o.scheduled_at desc, o.id desc limit $2
) as r

-- name: newest_skips
select s.job_id, s.first_at, s.last_at, s.count, s.reason
from unnest($1::uuid[]) as g(id)
cross join lateral (
    select * from hourbell.skips o where o.job_id = g.id order by o.last_at desc, o.id desc limit $2
) as s

-- name: jobs_of_lane
select count(*) from hourbell.jobs where lane = $1 and deleted_at is null

-- name: superuser
select rolname from pg_roles where rolname = current_user and rolsuper
