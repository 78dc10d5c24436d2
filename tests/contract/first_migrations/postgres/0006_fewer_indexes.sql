-- A change of a run is written to every index the run is in, so that a run that waits, one that is running and one that
-- ended are in as few as can be.

-- One run for each instant, ever. The runs somebody asked for are told apart by a null, which equals no other, so that
-- the same index also lists the runs of a job by age.
drop index hourbell.runs_once;
create unique index runs_once on hourbell.runs
    (job_id, scheduled_at, (case when kind in ('scheduled', 'backfill') then true end));
drop index hourbell.runs_of_job;

create index runs_waiting on hourbell.runs (job_id, scheduled_at, id) where state in ('pending', 'retrying');
drop index hourbell.runs_unfinished;

-- No more of them than there are slots: whoever looks for leases that ran out looks at all.
create index runs_running on hourbell.runs (job_id, lease_until) where state = 'running';
drop index hourbell.runs_leases;
