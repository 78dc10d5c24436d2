-- What diagnostics need: finished jobs and late runs by an index, and the start of the last run.

-- Enabled jobs that never fire again.
create index hourbell_jobs_done on hourbell_jobs (name)
    where enabled and error is null and next_at is null and plan_at is null and cursor_at is not null
      and deleted_at is null;

-- Ended runs that began more than ten seconds late, worst last. Backfills and replays repeat the past on purpose.
create index hourbell_runs_late on hourbell_runs (started_at - scheduled_at)
    where finished_at is not null and kind in ('scheduled', 'manual') and started_at - scheduled_at > 10000000;

-- The last run is the one that began last, also while it is under way; its success is that of the last run to end.
drop view hourbell_job_status;
create view hourbell_job_status as
select j.name,
       j.enabled,
       coalesce(
           (select max(r.started_at) from hourbell_runs r
            where r.job_id = j.id and r.state = 'running' and r.started_at >= coalesce(l.started_at, r.started_at)),
           l.started_at, s.last_run_at) as last_run_at,
       s.last_state = 'succeeded' as last_run_success,
       coalesce(s.succeeded + s.failed + s.cancelled, 0) as total_runs,
       round(100.0 * s.succeeded / nullif(s.succeeded + s.failed, 0), 1) as success_rate_percent,
       j.next_at
from hourbell_jobs j
left join hourbell_job_stats s on s.job_id = j.id
left join hourbell_runs l on l.id = s.last_run_id
where j.deleted_at is null;
