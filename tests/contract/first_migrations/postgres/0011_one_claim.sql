-- The attempt of a run that is running never changes: whoever wants the run must wait until its holder has settled it, or
-- until the reaper has taken an expired lease. Only claims write this column, so that nothing else pays for the trigger.
create function hourbell.refuse_second_claim() returns trigger language plpgsql as $$
begin
    raise exception 'a run that is running cannot be claimed: its lease is settled or reaped first'
        using errcode = 'check_violation',
              detail = format('run %s, attempt %s of node %s until %s', old.id, old.attempt, old.lease_owner, old.lease_until);
end $$;

create trigger runs_one_claim before update of attempt on hourbell.runs for each row
when (old.state = 'running' and new.attempt is distinct from old.attempt)
execute function hourbell.refuse_second_claim();
