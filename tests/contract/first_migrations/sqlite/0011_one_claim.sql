-- The attempt of a run that is running never changes: whoever wants the run must wait until its holder has settled it, or
-- until the reaper has taken an expired lease. Only claims write this column, so that nothing else pays for the trigger.
create trigger hourbell_runs_one_claim before update of attempt on hourbell_runs for each row
when old.state = 'running' and new.attempt is not old.attempt
begin
    select raise(abort, 'a run that is running cannot be claimed: its lease is settled or reaped first');
end;
