-- Steps of incidents that wait for the end of quiet hours, when the first message was planned, and messages about several
-- incidents.

alter table hourbell_incidents add column quiet_until integer;
alter table hourbell_incidents add column announced_at integer;
update hourbell_incidents set announced_at = opened_at where notified_at is not null and state <> 'resolved';

create index hourbell_incidents_quiet on hourbell_incidents (quiet_until) where quiet_until is not null;

-- The end of an incident may wait for the end of quiet hours, too: then that alone changes afterwards, once.
drop trigger hourbell_incidents_ended;

create trigger hourbell_incidents_ended before update on hourbell_incidents for each row
when old.state = 'acknowledged' and new.state = 'open'
    or old.state = 'resolved' and not (old.quiet_until is not null and new.quiet_until is null
        and (old.state, old.error, old.opened_at, old.resolved_at, old.resolved_by)
            is (new.state, new.error, new.opened_at, new.resolved_at, new.resolved_by))
begin
    select raise(abort, 'an incident that was resolved never changes, and an acknowledged one is not opened again');
end;

-- The error of each job of an incident, so that another job's error is no new one.
alter table hourbell_incident_jobs add column fingerprint text not null default '';

-- One message may be about several incidents. SQLite cannot drop a primary key, so the table is made again.
create temp table moved_notifications as select * from hourbell_notifications;
drop table hourbell_notifications;

create table hourbell_notifications (
    run_id blob not null,
    incident_id blob references hourbell_incidents (id) on delete cascade,
    channel text not null,
    event text not null,
    step integer not null,
    planned_at integer not null
) strict;

insert into hourbell_notifications (run_id, incident_id, channel, event, step, planned_at)
select run_id, incident_id, channel, event, step, planned_at from moved_notifications;
drop table moved_notifications;

create unique index hourbell_notifications_once on hourbell_notifications (run_id, coalesce(incident_id, run_id));
create index hourbell_notifications_of_incident on hourbell_notifications (incident_id, step);
