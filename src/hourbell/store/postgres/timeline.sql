-- The statements of the time line and of attention, on PostgreSQL. Each looks up rows by key, for every job that it is
-- given: `offset 0` keeps a subquery from being joined with a whole table. Where several indexes might do, a range or an
-- order leaves only the right one.

-- name: lost_hour
date_trunc('hour', k.last_at at time zone 'UTC')

-- name: jobs_by_ids
unnest(:ids::uuid[]) as given (id) cross join lateral (select * from hourbell.jobs j where j.id = given.id offset 0) j

-- name: jobs_by_ids_and_next
unnest(:ids::uuid[]) as given (id) cross join lateral (select * from hourbell.jobs j where j.id = given.id offset 0) j

-- name: job_is_failing
exists (select 1 from hourbell.job_stats l where l.job_id = j.id and l.last_state = 'failed' offset 0)

-- name: job_is_losing
exists (select 1 from hourbell.skips k where k.job_id = j.id and k.last_at >= :lost_since and {was_lost} offset 0)

-- name: jobs_of_result
select l.job_id
from hourbell.job_stats l
cross join lateral (select j.deleted_at from hourbell.jobs j where j.id = l.job_id offset 0) j
where l.last_state >= :result and l.last_state <= :result and j.deleted_at is null
order by l.last_state, l.job_id
limit :limit

-- name: losing_jobs
-- The jobs that lost times since then: hour by hour, from each job of the index straight to the next, as far as `steps`
-- go. The last row has the number of steps.
with recursive found (hour, job_id, step) as (
    select :hour::timestamp, null::uuid, 0
    union all
    select case when n.job_id is null then f.hour + interval '1 hour' else f.hour end, n.job_id, f.step + 1
    from found f
    left join lateral (
        select k.job_id from hourbell.skips k
        where {is_lost} and {lost_hour} >= f.hour and {lost_hour} <= f.hour
          and k.job_id > coalesce(f.job_id, '00000000-0000-0000-0000-000000000000')
        order by {lost_hour}, k.job_id limit 1
    ) n on true
    where f.hour <= :last_hour and f.step < :steps
), losing as (
    select distinct f.job_id
    from found f
    where f.job_id is not null
      and (f.hour > :hour or exists (select 1 from hourbell.skips k
                                     where k.job_id = f.job_id and k.last_at >= :since and {was_lost} offset 0))
)
(select l.job_id, 0 as steps
 from losing l
 cross join lateral (select j.deleted_at from hourbell.jobs j where j.id = l.job_id offset 0) j
 where j.deleted_at is null
 limit :limit)
union all
select null, max(step) from found

-- name: retrying_jobs
-- The jobs with a run that waits for its next attempt or is in it: of each, the run whose attempt comes first.
with retried as materialized (
    (select r.job_id, r.id, r.attempt, r.ready_at, false as is_running from hourbell.runs r
     where r.state = 'retrying' order by r.expires_at, r.id limit :total)
    union all
    (select r.job_id, r.id, r.attempt, r.ready_at, true from hourbell.runs r
     where r.state = 'running' and r.failures > 0 limit :total)
)
select distinct on (o.job_id) o.job_id, o.id as run_id, o.attempt, o.ready_at, o.is_running
from retried o
cross join lateral (select j.deleted_at, j.managed_by from hourbell.jobs j where j.id = o.job_id offset 0) j
where j.deleted_at is null and j.managed_by <> 'system'
order by o.job_id, o.ready_at
limit :limit

-- name: retry_errors
select w.id as run_id, left(a.error, {error_length}) as error
from unnest(:run_ids::uuid[]) as w (id)
cross join lateral (
    select a.error from hourbell.attempts a where a.run_id = w.id order by a.number desc limit 1
) a

-- name: due_jobs
select j.id as job_id
from hourbell.jobs j
where j.deleted_at is null and j.plan_at is not null and j.enabled and j.error is null
  and j.next_at is not null and j.next_at < :next_before and j.plan_at <= :plan_before
order by j.plan_at, j.id
limit :limit

-- name: late_jobs
-- Of each lane and rank the oldest runs that wait; of these the jobs with one that waits past their late_after.
with recursive lanes as (
    (select r.lane from hourbell.runs r where r.state in ('pending', 'retrying') order by r.lane limit 1)
    union all
    select (select r.lane from hourbell.runs r
            where r.state in ('pending', 'retrying') and r.lane > l.lane order by r.lane limit 1)
    from lanes l where l.lane is not null
), waiting as materialized (
    select r.job_id, r.scheduled_at
    from (select lane from lanes where lane is not null limit :lanes) l
    cross join generate_series(0, 3) as p(rank)
    cross join lateral (
        select r.job_id, r.scheduled_at, r.state, r.kind from hourbell.runs r
        where r.state in ('pending', 'retrying') and r.lane = l.lane and r.rank = p.rank and r.ready_at <= :now
        order by r.ready_at limit :window
    ) r
    where r.state = 'pending' and r.kind in ('scheduled', 'manual')
    limit :total
), oldest as materialized (
    select job_id, min(scheduled_at) as due_at from waiting group by job_id
)
select o.job_id, o.due_at
from oldest o
cross join lateral (select j.late_after, j.deleted_at from hourbell.jobs j where j.id = o.job_id offset 0) j
where j.deleted_at is null and :now - o.due_at > j.late_after
order by o.job_id
limit :limit

-- name: ready_heads
-- Of each lane and rank the oldest run that may begin.
with recursive lanes as (
    (select r.lane from hourbell.runs r where r.state in ('pending', 'retrying') order by r.lane limit 1)
    union all
    select (select r.lane from hourbell.runs r
            where r.state in ('pending', 'retrying') and r.lane > l.lane order by r.lane limit 1)
    from lanes l where l.lane is not null
)
select l.lane, min(r.ready_at) as ready_at
from (select lane from lanes where lane is not null limit :lanes) l
cross join generate_series(0, 3) as p(rank)
cross join lateral (
    select r.ready_at
    from (select r.ready_at, r.exclusive, r.job_id, r.scheduled_at, r.id from hourbell.runs r
          where r.state in ('pending', 'retrying') and r.lane = l.lane and r.rank = p.rank and r.ready_at <= :now
          order by r.ready_at limit :window) r
    where not r.exclusive
        or not exists (select 1 from hourbell.runs o where o.job_id = r.job_id and o.state = 'running' offset 0)
           and not exists (
               select 1 from hourbell.runs o
               where o.job_id = r.job_id and o.state not in ('running', 'succeeded', 'failed', 'cancelled')
                 and (o.scheduled_at, o.id) < (r.scheduled_at, r.id) offset 0)
    limit 1
) r
group by l.lane

-- name: job_facts
-- A streak is how many runs failed since the last success, as far as the newest runs go. The durations are those of the
-- newest runs, a few of them that succeeded.
select w.id as job_id, s.last_state, s.last_error,
       case when s.last_state = 'failed' then
           (select count(*) from (
                select 1 from hourbell.runs r
                where r.job_id = w.id and r.state in ('failed', 'cancelled') and r.state = 'failed'
                  and r.scheduled_at > coalesce(
                      (select r.scheduled_at
                       from (select r.scheduled_at, r.state from hourbell.runs r
                             where r.job_id = w.id order by r.scheduled_at desc limit :failures) r
                       where r.state = 'succeeded' limit 1), '-infinity')
                order by r.scheduled_at desc limit :failures) f) end as streak,
       array(select r.finished_at - r.started_at
             from (select r.state, r.started_at, r.finished_at from hourbell.runs r
                   where r.job_id = w.id order by r.scheduled_at desc limit :window) r
             where r.state = 'succeeded' and r.started_at is not null
             limit :limit) as durations,
       (select v.changed_at from hourbell.job_versions v
        where v.job_id = w.id and not w.is_enabled and v.version > coalesce(
            (select e.version from hourbell.job_versions e
             where e.job_id = w.id and e.definition -> 'enabled' = 'true'
             order by e.version desc limit 1), 0)
        order by v.version limit 1) as paused_at
from unnest(:job_ids::uuid[], :enabled::boolean[]) as w (id, is_enabled)
left join lateral (select * from hourbell.job_stats s where s.job_id = w.id offset 0) s on true

-- name: lost_times
select w.id as job_id, k.reason, sum(k.count)::bigint as count
from unnest(:job_ids::uuid[]) as w (id)
cross join lateral (
    select k.reason, k.count from hourbell.skips k
    where k.job_id = w.id and k.last_at >= :lost_since and {was_lost}
    order by k.last_at desc limit :limit
) k
group by w.id, k.reason

-- name: timeline_runs
select r.id, w.id as job_id, r.job_version, r.kind, r.state, r.reason, r.scheduled_at, r.ready_at, r.started_at, r.finished_at, r.attempt,
       case when r.state in ('failed', 'retrying') then
           (select left(a.error, {error_length}) from hourbell.attempts a
            where a.run_id = r.id and a.number = r.attempt) end as error
from unnest(:job_ids::uuid[]) as w (id)
cross join lateral (
    select r.id, r.job_version, r.kind, r.state, r.reason, r.scheduled_at, r.ready_at, r.started_at, r.finished_at, r.attempt
    from hourbell.runs r
    where r.job_id = w.id and r.scheduled_at >= :since and r.scheduled_at < :until
    order by r.scheduled_at limit :limit
) r

-- name: timeline_skips
select w.id as job_id, k.first_at, k.last_at, k.count, k.reason
from unnest(:job_ids::uuid[]) as w (id)
cross join lateral (
    select k.first_at, k.last_at, k.count, k.reason from hourbell.skips k
    where k.job_id = w.id and k.last_at >= :since and k.first_at < :until
    order by k.last_at limit :limit
) k

-- name: timeline_buckets
-- The runs of each job by bucket, at most `limit` of each.
select w.id as job_id, b.at as bucket_at, r.state, r.is_late, count(*) as count
from unnest(:job_ids::uuid[], :late_after::interval[]) as w (id, late_after)
cross join unnest(:starts::timestamptz[], :ends::timestamptz[]) as b (at, ends_at)
cross join lateral (
    select r.state, r.kind in ('scheduled', 'manual') and r.started_at - r.scheduled_at > w.late_after as is_late
    from hourbell.runs r
    where r.job_id = w.id and r.scheduled_at >= greatest(b.at, :since) and r.scheduled_at < b.ends_at
    order by r.scheduled_at limit :limit
) r
group by w.id, b.at, r.state, r.is_late
