-- Steps of incidents that wait for the end of quiet hours, when the first message was planned, and messages about several
-- incidents.

alter table hourbell.incidents add column quiet_until timestamptz;
alter table hourbell.incidents add column announced_at timestamptz;
update hourbell.incidents set announced_at = opened_at where notified_at is not null and state <> 'resolved';

create index incidents_quiet on hourbell.incidents (quiet_until) where quiet_until is not null;

-- The end of an incident may wait for the end of quiet hours, too: then that alone changes afterwards, once.
drop trigger incidents_ended on hourbell.incidents;

create trigger incidents_ended before update on hourbell.incidents for each row
when (old.state = 'acknowledged' and new.state = 'open'
      or old.state = 'resolved' and not (old.quiet_until is not null and new.quiet_until is null
         and (old.state, old.error, old.opened_at, old.resolved_at, old.resolved_by)
             is not distinct from (new.state, new.error, new.opened_at, new.resolved_at, new.resolved_by)))
execute function hourbell.refuse_incident_change();

-- The error of each job of an incident, so that another job's error is no new one.
alter table hourbell.incident_jobs add column fingerprint text not null default '';

-- One message may be about several incidents.
alter table hourbell.notifications drop constraint notifications_pkey;
create unique index notifications_once on hourbell.notifications (run_id, coalesce(incident_id, run_id));
