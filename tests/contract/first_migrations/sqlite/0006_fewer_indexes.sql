-- A change of a run is written to every index the run is in, so that a run that waits, one that is running and one that
-- ended are in as few as can be.
create index hourbell_runs_waiting on hourbell_runs (job_id, scheduled_at, id) where state in ('pending', 'retrying');
drop index hourbell_runs_unfinished;

-- No more of them than there are slots: whoever looks for leases that ran out looks at all.
create index hourbell_runs_running on hourbell_runs (job_id, lease_until) where state = 'running';
drop index hourbell_runs_leases;

-- A trigger that names the columns of both rows has them all read at every change. These two need the state alone.
drop trigger hourbell_runs_moves;
create trigger hourbell_runs_moves before update of
    id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, state, reason, rank, lane, exclusive,
    at_most_once, attempt, failures, crashes, begun_attempt, lease_owner, lease_until, payload, replay_of, result,
    planned_at, started_at, finished_at
on hourbell_runs for each row
when not (
    (old.state = 'pending' and new.state in ('pending', 'running', 'failed', 'cancelled'))
    or (old.state = 'running')
    or (old.state = 'retrying' and new.state in ('retrying', 'running', 'failed', 'cancelled'))
)
begin
    select raise(abort, 'a run cannot make this move, and one that ended never changes; to run it again, replay it');
end;

create trigger hourbell_runs_cleared before update of cleared_at on hourbell_runs for each row
when not (old.state = 'failed' and old.cleared_at is null and new.cleared_at is not null)
begin
    select raise(abort, 'a run cannot make this move, and one that ended never changes; to run it again, replay it');
end;
