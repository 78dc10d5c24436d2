-- name: trigger
-- Runs the job now, beside its schedule: {"success": true, "run_id": "…", "job_name": "daily_cleanup"}.
select hourbell.trigger_job('daily_cleanup');

-- name: status
select name, enabled, last_run_at, last_run_success, total_runs, success_rate_percent, next_at
from hourbell.job_status
order by name;

-- name: recent_runs
select r.scheduled_at as scheduled_for,
       r.started_at,
       r.finished_at as completed_at,
       r.state = 'succeeded' as success,
       r.result ->> 'message' as message,
       r.result -> 'details' as details,
       case
           when r.kind <> 'scheduled' then r.kind
           when r.planned_at > r.scheduled_at + j.late_after then 'catchup'
           else 'scheduler'
       end as triggered_by
from hourbell.runs r
join hourbell.jobs j on j.id = r.job_id
where j.name = 'daily_cleanup'
order by r.started_at desc nulls first
limit 10;

-- name: queue
-- What waits or runs at this moment.
select r.id, j.name, r.state, r.attempt, r.ready_at, r.planned_at
from hourbell.runs r
join hourbell.jobs j on j.id = r.job_id
where r.state in ('pending', 'running', 'retrying')
order by r.planned_at desc;

-- name: seven_days
-- How long the last attempt of each run took, and how many runs ended well.
select j.name,
       count(*) as total_runs,
       avg(extract(epoch from a.finished_at - a.started_at) * 1000) as avg_duration_ms,
       max(extract(epoch from a.finished_at - a.started_at) * 1000) as max_duration_ms,
       round(100.0 * count(*) filter (where r.state = 'succeeded') / count(*), 1) as success_rate_percent
from hourbell.runs r
join hourbell.jobs j on j.id = r.job_id
join hourbell.attempts a on a.run_id = r.id and a.number = r.attempt
where r.state in ('succeeded', 'failed') and r.finished_at > now() - interval '7 days'
group by j.name
order by j.name;
