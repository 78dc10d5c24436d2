-- The statements behind alerts: what watchers read, incidents and their messages, policies and channels.

-- name: take_alerts
update hourbell.job_stats
set alert_at = null
where job_id in (
    select job_id from hourbell.job_stats
    where alert_at is not null
    order by alert_at
    limit :limit
    for no key update skip locked)
returning job_id

-- name: take_signals
delete from hourbell.alert_signals
where id in (select id from hourbell.alert_signals order by id limit :limit for update skip locked)
returning job_id, reason, missed_at, count

-- name: alert_work
-- Whether there is anything to take, so that an idle watcher writes nothing.
select exists (select 1 from hourbell.job_stats where alert_at is not null)
       or exists (select 1 from hourbell.alert_signals)
       or exists (select 1 from hourbell.incidents where next_at is not null and next_at <= :now)
       or exists (select 1 from hourbell.incidents where quiet_until is not null and quiet_until <= :now) as is_due

-- name: due_incidents
select i.id, i.kind, i.key,
       coalesce((select m.job_id from hourbell.incident_jobs m
                 where m.incident_id = i.id and m.healed_at is null limit 1), i.job_id) as job_id
from hourbell.incidents i
where i.next_at is not null and i.next_at <= :now
order by i.next_at
limit :limit

-- name: unresolved_incidents
-- The jobs of incidents that are not over, page by page. An incident of a host is watched by one of its jobs at a time.
select i.id,
       coalesce((select m.job_id from hourbell.incident_jobs m
                 where m.incident_id = i.id and m.healed_at is null limit 1), i.job_id) as job_id
from hourbell.incidents i
where i.state <> 'resolved' and i.job_id is not null and i.id > :after
order by i.id
limit :limit

-- name: job_facts
select j.id, coalesce(j.deleted_name, j.name) as name, j.alert_policy, j.enabled and j.deleted_at is null as is_active,
       j.deleted_at is not null as is_deleted, j.managed_by, j.lane, j.late_after, j.next_at, j.created_at,
       j.updated_at, j.schedule, j.timezone, j.dst, j.description, j.tags, j.subject,
       s.streak, s.first_failed_at, s.failed_run_id, s.last_error, s.last_success_at, f.attempt as failed_attempt,
       f.finished_at as failed_at
from hourbell.jobs j
left join hourbell.job_stats s on s.job_id = j.id
left join hourbell.runs f on f.id = s.failed_run_id
where j.id = any(:ids::uuid[])
order by j.id

-- name: recent_failures
select count(*) as count
from (select r.state from hourbell.runs r
      where r.job_id = :job_id and r.state in ('succeeded', 'failed')
      order by r.scheduled_at desc
      limit :runs) as recent
where recent.state = 'failed'

-- name: recent_overlaps
select (select coalesce(sum(s.count), 0) from hourbell.skips s
        where s.job_id = :job_id and s.last_at >= :since and s.reason = 'overlap') as lost,
       (select max(s.last_at) from hourbell.skips s
        where s.job_id = :job_id and s.last_at >= :since and s.reason = 'overlap') as lost_at,
       (select count(*) from hourbell.runs r
        where r.job_id = :job_id and r.scheduled_at >= :since and r.kind = 'scheduled') as planned

-- name: slow_runs
-- Runs that began before then: those that are running, and of those between attempts the ones planned first.
select slow.job_id
from (select r.job_id, r.started_at from hourbell.runs r where r.state = 'running'
      union all
      select waiting.job_id, waiting.started_at
      from (select r.job_id, r.started_at from hourbell.runs r
            where r.state = 'retrying' order by r.expires_at limit :rows) as waiting) as slow
where slow.started_at <= :before
limit :limit

-- name: paused_jobs
select j.id as job_id
from hourbell.jobs j
where not j.enabled and j.deleted_at is null and j.updated_at <= :before and j.managed_by <> 'system'
limit :limit

-- name: jobs_without_success
-- A page of all jobs: the last id that was looked at is in `after_id`.
select page.id as job_id, page.is_old
from (select j.id, j.enabled and coalesce(s.last_success_at, j.created_at) <= :before as is_old
      from hourbell.jobs j
      left join hourbell.job_stats s on s.job_id = j.id
      where j.id > :after and j.deleted_at is null
      order by j.id
      limit :limit) as page
order by page.id

-- name: active_jobs
select count(*) as count from hourbell.jobs where plan_at is not null and deleted_at is null

-- name: earliest_plan_at
select plan_at from hourbell.jobs where plan_at is not null and deleted_at is null order by plan_at limit 1

-- name: last_outage
select started_at, ended_at from hourbell.outages where ended_at > :since order by ended_at desc limit 1

-- name: recovery_runs
-- Ended runs since then, as far as they are counted.
select state, count(*) as count
from (
    select state, lane from hourbell.runs where finished_at >= :since order by finished_at limit :limit
) as r
where lane not like 'channel:%'
group by state

-- name: watched_nodes
select id, host, started_at, beat_at, lanes from hourbell.nodes

-- name: incidents_of_jobs
-- Unresolved ones: their own, and those of their hosts while they are not healed.
select i.*, i.job_id as of_job_id
from hourbell.incidents i
where i.job_id = any(:ids::uuid[]) and i.state <> 'resolved'
  and not exists (select 1 from hourbell.incident_jobs m where m.incident_id = i.id)
union all
select i.*, m.job_id as of_job_id
from hourbell.incident_jobs m
join hourbell.incidents i on i.id = m.incident_id
where m.job_id = any(:ids::uuid[]) and m.healed_at is null and i.state <> 'resolved'

-- name: lock_incidents
select i.* from hourbell.incidents i
where i.key = any(:keys::text[]) and i.state <> 'resolved'
order by i.key
for no key update

-- name: unresolved_of_kinds
select id from hourbell.incidents where kind = any(:kinds::text[]) and state <> 'resolved' limit 1

-- name: lock_incidents_of_kinds
select i.* from hourbell.incidents i
where i.kind = any(:kinds::text[]) and i.state <> 'resolved'
order by i.key
for no key update

-- name: unresolved_key
select id from hourbell.incidents where key = :key and state <> 'resolved'

-- name: lock_incident
select i.* from hourbell.incidents i where i.id = :id for no key update

-- name: quiet_is_over
select 1 as is_over from hourbell.incidents where quiet_until is not null and quiet_until <= :now limit 1

-- name: lock_quiet_incidents
-- Incidents that wait for the end of quiet hours, which has come; also resolved ones, whose end was not notified yet.
select i.* from hourbell.incidents i
where i.quiet_until is not null and i.quiet_until <= :now
order by i.key, i.id
limit :limit
for no key update

-- name: past_incidents
-- Of each key how many incidents were opened since then, notified, and not resolved by hand; and the last end by hand.
select key,
       count(case when opened_at >= :since and notified_at is not null and resolved_by is null then 1 end) as openings,
       max(case when resolved_by is not null then resolved_at end) as closed_at
from hourbell.incidents
where key = any(:keys::text[])
group by key

-- name: notified_channels
-- The channels that have got a message of these incidents. It does not count if its channel was deleted since and made
-- again, or corrected after the message had failed.
select distinct n.incident_id, n.channel
from hourbell.notifications n
join hourbell.channels c on c.name = n.channel
left join hourbell.runs r on r.id = n.run_id
where n.incident_id = any(:ids::uuid[]) and n.planned_at >= c.created_at
  and (r.id is null or r.state <> 'failed' or r.finished_at >= c.updated_at)

-- name: insert_incident
insert into hourbell.incidents (
    id, key, kind, state, policy, opened_at, last_at, version, job_id, run_id, lane, error, fingerprint, count,
    group_size, steps, escalated, opened_before, announced_at, notified_at, quiet_until, next_at, acknowledged_at,
    acknowledged_by, muted_until, resolved_at, resolved_by)
values (
    :id, :key, :kind, :state, :policy, :opened_at, :last_at, :version, :job_id, :run_id, :lane, :error, :fingerprint,
    :count, :group_size, :steps, :escalated, :opened_before, :announced_at, :notified_at, :quiet_until, :next_at,
    :acknowledged_at, :acknowledged_by, :muted_until, :resolved_at, :resolved_by)
on conflict do nothing
returning id

-- name: update_incident
update hourbell.incidents
set state = :state, policy = :policy, last_at = :last_at, version = version + 1, run_id = :run_id, error = :error,
    fingerprint = :fingerprint, count = :count, group_size = :group_size, steps = :steps, escalated = :escalated,
    announced_at = :announced_at, notified_at = :notified_at, quiet_until = :quiet_until, next_at = :next_at,
    acknowledged_at = :acknowledged_at, acknowledged_by = :acknowledged_by, muted_until = :muted_until,
    resolved_at = :resolved_at, resolved_by = :resolved_by
where id = :id and version = :version and state <> 'resolved'
returning id

-- name: tell_resolved
update hourbell.incidents
set quiet_until = null, version = version + 1
where id = :id and version = :version and state = 'resolved' and quiet_until is not null
returning id

-- name: join_incident
insert into hourbell.incident_jobs (incident_id, job_id, joined_at, fingerprint)
values (:incident_id, :job_id, :now, :fingerprint)
on conflict (incident_id, job_id) do update set healed_at = null, fingerprint = excluded.fingerprint

-- name: move_members
insert into hourbell.incident_jobs (incident_id, job_id, joined_at, fingerprint)
select :new_id::uuid, m.job_id, :now::timestamptz, m.fingerprint
from hourbell.incident_jobs m
where m.incident_id = :old_id and m.healed_at is null
on conflict do nothing

-- name: member_fingerprints
select distinct fingerprint from hourbell.incident_jobs where incident_id = :incident_id

-- name: heal_jobs
update hourbell.incident_jobs
set healed_at = :now
where incident_id = :incident_id and job_id = any(:job_ids::uuid[]) and healed_at is null

-- name: count_members
select count(*) as members, count(case when healed_at is null then 1 end) as troubled
from hourbell.incident_jobs
where incident_id = :incident_id

-- name: member_names
select coalesce(j.deleted_name, j.name) as name
from hourbell.incident_jobs m
join hourbell.jobs j on j.id = m.job_id
where m.incident_id = :incident_id
order by j.name
limit :limit

-- name: insert_notification
insert into hourbell.notifications (run_id, incident_id, channel, event, step, planned_at)
values (:run_id, :incident_id, :channel, :event, :step, :planned_at)
on conflict do nothing
returning run_id

-- name: summary_of_run
select r.id, r.state, r.reason, r.scheduled_at, r.attempt, r.finished_at,
       (select a.error from hourbell.attempts a where a.run_id = r.id order by a.number desc limit 1) as error
from hourbell.runs r
where r.id = :id

-- name: alert_policies
select name, definition::text as definition, managed_by, source, updated_at, updated_by
from hourbell.alert_policies order by name

-- name: lock_alert_policies
select name, definition::text as definition, managed_by, source, updated_at, updated_by
from hourbell.alert_policies order by name for update

-- name: jobs_of_policies
-- Some of the jobs that name these policies, without the jobs of these names.
select j.alert_policy, j.name
from hourbell.jobs j
where j.alert_policy = any(:policies::text[]) and j.deleted_at is null and not (j.name = any(:names::text[]))
order by j.name
limit :limit

-- name: policy_names
select name from hourbell.alert_policies order by name

-- name: lock_policy_names
select name from hourbell.alert_policies where name = any(:names::text[]) order by name for key share

-- name: jobs_of_policy
-- How many jobs name it, and the first of them.
select j.name, count(*) over () as jobs
from hourbell.jobs j
where j.alert_policy = :name and j.deleted_at is null
order by j.name
limit :limit

-- name: lock_alert_policy
select name, definition::text as definition, managed_by, source, updated_at, updated_by
from hourbell.alert_policies where name = :name for update

-- name: insert_alert_policy
insert into hourbell.alert_policies (name, definition, managed_by, source, updated_at, updated_by)
values (:name, :definition::jsonb, :managed_by, :source, :now, :by)
on conflict do nothing
returning name

-- name: put_alert_policy
update hourbell.alert_policies
set definition = :definition::jsonb, managed_by = :managed_by, source = :source, updated_at = :now, updated_by = :by
where name = :name
returning name

-- name: delete_alert_policy
delete from hourbell.alert_policies where name = :name

-- name: channels
select name, type, config::text as config, origin, job_id, managed_by, source, created_at, updated_at, updated_by
from hourbell.channels order by name

-- name: lock_channels
select name, type, config::text as config, origin, job_id, managed_by, source, created_at, updated_at, updated_by
from hourbell.channels order by name for update

-- name: channel
select name, type, config::text as config, origin, job_id, managed_by, source, created_at, updated_at, updated_by
from hourbell.channels where name = :name

-- name: lock_channel
select name, type, config::text as config, origin, job_id, managed_by, source, created_at, updated_at, updated_by
from hourbell.channels where name = :name for update

-- name: put_channel
insert into hourbell.channels (
    name, type, config, origin, job_id, managed_by, source, created_at, updated_at, updated_by)
values (:name, :type, :config::jsonb, :origin, :job_id, :managed_by, :source, :now, :now, :by)
on conflict (name) do update
set type = excluded.type, config = excluded.config, origin = excluded.origin, managed_by = excluded.managed_by,
    source = excluded.source, updated_at = excluded.updated_at, updated_by = excluded.updated_by

-- name: delete_channel
delete from hourbell.channels where name = :name

-- name: failing_channels
-- Notifications that wait after failures, and whether the last one that ended failed. A failure to tell only that
-- channels fail counts for neither, so that channels that fail cannot open incidents about each other in turn.
select c.name, c.job_id, s.last_error,
       (select min(r.planned_at) from hourbell.runs r
        where r.lane = 'channel:' || c.name and r.state in ('pending', 'retrying') and r.failures >= :failures
          and not exists (
              select 1 from hourbell.notifications n
              join hourbell.incidents i on i.id = n.incident_id
              where n.run_id = r.id and i.kind = 'channel_failed'
                and not exists (
                    select 1 from hourbell.notifications o
                    join hourbell.incidents u on u.id = o.incident_id
                    where o.run_id = r.id and u.kind <> 'channel_failed'))) as waiting_at,
       s.streak > 0 and not exists (
           select 1 from hourbell.notifications n
           join hourbell.incidents i on i.id = n.incident_id
           where n.run_id = s.failed_run_id and i.kind = 'channel_failed'
             and not exists (
                 select 1 from hourbell.notifications o
                 join hourbell.incidents u on u.id = o.incident_id
                 where o.run_id = s.failed_run_id and u.kind <> 'channel_failed')) as has_failed,
       s.first_failed_at, s.failed_run_id
from hourbell.channels c
left join hourbell.job_stats s on s.job_id = c.job_id

-- name: notifications_of_incident
select n.run_id, n.channel, n.event, n.step, n.planned_at, r.state, r.attempt, r.finished_at,
       (select a.error from hourbell.attempts a where a.run_id = n.run_id order by a.number desc limit 1) as error
from hourbell.notifications n
left join hourbell.runs r on r.id = n.run_id
where n.incident_id = :incident_id
order by n.step, n.channel

-- name: incident
select i.*, (select coalesce(j.deleted_name, j.name) from hourbell.jobs j where j.id = i.job_id) as job_name
from hourbell.incidents i
where i.id = :id

-- name: incidents_page
select i.*, (select coalesce(j.deleted_name, j.name) from hourbell.jobs j where j.id = i.job_id) as job_name
from hourbell.incidents i
where i.state = any(:states::text[]) and (i.opened_at, i.id) < (:after_at::timestamptz, :after_id::uuid)
order by i.opened_at desc, i.id desc
limit :limit

-- name: incidents_of_job_page
select i.*, (select coalesce(j.deleted_name, j.name) from hourbell.jobs j where j.id = i.job_id) as job_name
from hourbell.incidents i
where i.job_id = :job_id and i.state = any(:states::text[])
  and (i.opened_at, i.id) < (:after_at::timestamptz, :after_id::uuid)
order by i.opened_at desc, i.id desc
limit :limit

-- name: count_open_incidents
select state, count(*) as count from hourbell.incidents where state <> 'resolved' group by state

-- name: old_incidents
select id from hourbell.incidents where resolved_at < :before order by resolved_at limit :limit

-- name: forget_incidents
delete from hourbell.incidents where id = any(:ids::uuid[]) returning id

-- name: take_turn
insert into hourbell.meta (key, value) values (:name, :now)
on conflict (key) do update set value = excluded.value where hourbell.meta.value <= :before

-- name: last_turn
select value from hourbell.meta where key = :name
