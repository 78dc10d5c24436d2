-- The statements of the time line and of attention, on SQLite. A list of ids is JSON; `cross join` keeps it first.

-- name: lost_hour
k.last_at - k.last_at % 3600000000

-- name: jobs_by_ids
json_each(:ids) as given cross join hourbell_jobs j on j.id = unhex(given.value)

-- name: jobs_by_ids_and_next
json_each(:ids) as given cross join hourbell_jobs j on j.id = unhex(given.value)

-- name: job_is_failing
exists (select 1 from hourbell_job_stats l where l.job_id = j.id and l.last_state = 'failed')

-- name: job_is_losing
exists (select 1 from hourbell_skips k where k.job_id = j.id and k.last_at >= :lost_since and {was_lost})

-- name: jobs_of_result
select l.job_id
from hourbell_job_stats l
cross join hourbell_jobs j on j.id = l.job_id
where l.last_state = :result and j.deleted_at is null
order by l.job_id
limit :limit

-- name: losing_jobs
-- The jobs that lost times since then: hour by hour, from each job of the index straight to the next, as far as `steps`
-- go. The last row has the number of steps.
with recursive found (hour, job_id, step) as (
    select :hour - 3600000000, null, 0
    union all
    select f.hour + (f.job_id is null) * 3600000000,
           (select min(k.job_id) from hourbell_skips k indexed by hourbell_skips_lost
            where {is_lost} and {lost_hour} = f.hour + (f.job_id is null) * 3600000000
              and k.job_id > coalesce(f.job_id, x'')),
           f.step + 1
    from found f
    where f.hour <= :last_hour and f.step < :steps
), losing as (
    select distinct f.job_id
    from found f
    where f.job_id is not null
      and (f.hour > :hour or exists (select 1 from hourbell_skips k
                                     where k.job_id = f.job_id and k.last_at >= :since and {was_lost}))
)
select * from (
    select l.job_id, 0 as steps
    from losing l
    cross join hourbell_jobs j on j.id = l.job_id
    where j.deleted_at is null
    limit :limit)
union all
select null, max(step) from found

-- name: retrying_jobs
-- The jobs with a run that waits for its next attempt or is in it: of each, the run whose attempt comes first.
with retried as materialized (
    select * from (
        select r.job_id, r.id, r.attempt, r.ready_at, 0 as is_running
        from hourbell_runs r indexed by hourbell_runs_retrying
        where r.state = 'retrying' order by r.expires_at limit :total)
    union all
    select * from (
        select r.job_id, r.id, r.attempt, r.ready_at, 1
        from hourbell_runs r indexed by hourbell_runs_running
        where r.state = 'running' and r.failures > 0 limit :total)
)
select o.job_id, o.id as run_id, o.attempt, min(o.ready_at) as ready_at, o.is_running
from retried o
cross join hourbell_jobs j on j.id = o.job_id
where j.deleted_at is null and j.managed_by <> 'system'
group by o.job_id
limit :limit

-- name: retry_errors
select a.run_id, substr(a.error, 1, {error_length}) as error
from (select unhex(value) as id from json_each(:run_ids)) w
cross join hourbell_attempts a on a.run_id = w.id and a.number = (
    select max(n.number) from hourbell_attempts n where n.run_id = w.id)

-- name: due_jobs
select j.id as job_id
from hourbell_jobs j
where j.deleted_at is null and j.plan_at is not null and j.enabled and j.error is null
  and j.next_at is not null and j.next_at < :next_before and j.plan_at <= :plan_before
order by j.plan_at, j.id
limit :limit

-- name: late_jobs
-- Of each lane and rank the oldest runs that wait; of these the jobs with one that waits past their late_after.
with lanes as (
    select min(lane) as lane from hourbell_runs where state in ('pending', 'retrying')
    union all
    select (select min(r.lane) from hourbell_runs r where r.state in ('pending', 'retrying') and r.lane > lanes.lane)
    from lanes where lanes.lane is not null
), ranks (rank) as (
    values (0), (1), (2), (3)
), waiting as materialized (
    select r.job_id, r.scheduled_at
    from (select lane from lanes where lane is not null limit :lanes) l
    cross join ranks p
    cross join hourbell_runs r on r.rowid in (
        select w.rowid from hourbell_runs w
        where w.state in ('pending', 'retrying') and w.lane = l.lane and w.rank = p.rank and w.ready_at <= :now
        order by w.ready_at limit :window)
    where r.state = 'pending' and r.kind in ('scheduled', 'manual')
    limit :total
), oldest as materialized (
    select job_id, min(scheduled_at) as due_at from waiting group by job_id
)
select o.job_id, o.due_at
from oldest o
cross join hourbell_jobs j on j.id = o.job_id
where j.deleted_at is null and :now - o.due_at > j.late_after
order by o.job_id
limit :limit

-- name: ready_heads
-- Of each lane and rank the oldest run that may begin.
with lanes as (
    select min(lane) as lane from hourbell_runs where state in ('pending', 'retrying')
    union all
    select (select min(r.lane) from hourbell_runs r where r.state in ('pending', 'retrying') and r.lane > lanes.lane)
    from lanes where lanes.lane is not null
), ranks (rank) as (
    values (0), (1), (2), (3)
)
select l.lane, min((
    select r.ready_at
    from (select r.ready_at, r.exclusive, r.job_id, r.scheduled_at, r.id from hourbell_runs r
          where r.state in ('pending', 'retrying') and r.lane = l.lane and r.rank = p.rank and r.ready_at <= :now
          order by r.ready_at limit :window) r
    where not r.exclusive
        or not exists (select 1 from hourbell_runs o where o.job_id = r.job_id and o.state = 'running')
           and not exists (
               select 1 from hourbell_runs o
               where o.job_id = r.job_id and o.state in ('pending', 'retrying')
                 and (o.scheduled_at, o.id) < (r.scheduled_at, r.id))
    limit 1)) as ready_at
from (select lane from lanes where lane is not null limit :lanes) l
cross join ranks p
group by l.lane

-- name: job_facts
-- A streak is how many runs failed since the last success, as far as the newest runs go. The durations are those of the
-- newest runs, a few of them that succeeded.
select w.id as job_id, s.last_state, s.last_error,
       case when s.last_state = 'failed' then
           (select count(*) from (
                select 1 from hourbell_runs r
                where r.job_id = w.id and r.state in ('failed', 'cancelled') and r.state = 'failed'
                  and r.scheduled_at > coalesce(
                      (select n.scheduled_at
                       from (select m.scheduled_at, m.state from hourbell_runs m
                             where m.job_id = w.id order by m.scheduled_at desc limit :failures) n
                       where n.state = 'succeeded' limit 1), -9223372036854775808)
                order by r.scheduled_at desc limit :failures)) end as streak,
       (select json_group_array(d.duration) from (
            select n.finished_at - n.started_at as duration
            from (select m.state, m.started_at, m.finished_at from hourbell_runs m
                  where m.job_id = w.id order by m.scheduled_at desc limit :window) n
            where n.state = 'succeeded' and n.started_at is not null
            limit :limit) d) as durations,
       (select v.changed_at from hourbell_job_versions v
        where v.job_id = w.id and not w.is_enabled and v.version > coalesce(
            (select e.version from hourbell_job_versions e
             where e.job_id = w.id and e.definition ->> 'enabled'
             order by e.version desc limit 1), 0)
        order by v.version limit 1) as paused_at
from (select unhex(given.value) as id, :enabled ->> given.key as is_enabled from json_each(:job_ids) as given) w
left join hourbell_job_stats s on s.job_id = w.id

-- name: lost_times
select w.id as job_id, k.reason, sum(k.count) as count
from (select unhex(value) as id from json_each(:job_ids)) w
cross join hourbell_skips k on k.id in (
    select n.id from hourbell_skips n
    where n.job_id = w.id and n.last_at >= :lost_since and n.reason || '' in ('missed', 'overlap', 'window', 'tzdata')
    order by n.last_at desc limit :limit)
group by w.id, k.reason

-- name: timeline_runs
select r.id, r.job_id, r.job_version, r.kind, r.state, r.reason, r.scheduled_at, r.ready_at, r.started_at, r.finished_at, r.attempt,
       case when r.state in ('failed', 'retrying') then
           (select substr(a.error, 1, {error_length}) from hourbell_attempts a
            where a.run_id = r.id and a.number = r.attempt) end as error
from (select unhex(value) as id from json_each(:job_ids)) w
cross join hourbell_runs r on r.rowid in (
    select n.rowid from hourbell_runs n
    where n.job_id = w.id and n.scheduled_at >= :since and n.scheduled_at < :until
    order by n.scheduled_at limit :limit)

-- name: timeline_skips
select k.job_id, k.first_at, k.last_at, k.count, k.reason
from (select unhex(value) as id from json_each(:job_ids)) w
cross join hourbell_skips k on k.id in (
    select n.id from hourbell_skips n
    where n.job_id = w.id and n.last_at >= :since and n.first_at < :until
    order by n.last_at limit :limit)

-- name: timeline_buckets
-- The runs of each job by bucket, at most `limit` of each.
select r.job_id, b.at as bucket_at, r.state,
       r.kind in ('scheduled', 'manual') and r.started_at - r.scheduled_at > w.late_after as is_late, count(*) as count
from (select unhex(given.value) as id, :late_after ->> given.key as late_after from json_each(:job_ids) as given) w
cross join (select given.value as at, :ends ->> given.key as ends_at from json_each(:starts) as given) b
cross join hourbell_runs r on r.rowid in (
    select n.rowid from hourbell_runs n
    where n.job_id = w.id and n.scheduled_at >= max(b.at, :since) and n.scheduled_at < b.ends_at
    order by n.scheduled_at limit :limit)
group by r.job_id, b.at, r.state, is_late
