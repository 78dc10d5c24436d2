-- How far retention has taken a job's instants: of one up to here that has no run, nobody knows whether it had one.
alter table hourbell.job_stats add column pruned_until timestamptz;

-- Of what went before this was noted only the number is known: it is older than what is kept.
update hourbell.job_stats s
set pruned_until = coalesce(
        (select r.scheduled_at - interval '1 microsecond'
         from hourbell.runs r
         where r.job_id = s.job_id and r.kind = 'scheduled'
         order by r.scheduled_at
         limit 1),
        j.cursor_at)
from hourbell.jobs j
where j.id = s.job_id
  and s.succeeded + s.failed + s.cancelled
      > (select count(*) from hourbell.runs r where r.job_id = s.job_id and r.finished_at is not null);
