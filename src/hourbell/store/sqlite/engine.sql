-- The engine's statements. A batch is one JSON array of rows with hexadecimal ids, so that no statement is repeated for
-- each row. Only one transaction writes at a time, so rows need no locks and no second check. `indexed by` stands where
-- SQLite would otherwise scan the whole history of a job.

-- name: due_jobs
-- All rows in one value, as in `line`, with the ids for further reads. The parts of the definition that planning needs
-- are one text, which is equal for jobs with equal rules.
select count(*) as count,
       json_group_array(json_array(
           hex(id), name, version, cursor_at, next_at, plan_at, is_needed_whole, rules)) as jobs,
       json_group_array(hex(id)) as ids,
       json_group_array(hex(id)) filter (where is_needed_whole) as whole,
       json_group_array(hex(id)) filter (where cursor_at is null) as unadopted
from (
    select id, name, version, cursor_at, next_at, plan_at,
           saved_version <> version or not enabled or lane = '' or has_changes as is_needed_whole,
           '' || json_array(schedule, timezone, dst, catch_up, catch_up_window, overlap, delivery, max_age, late_after,
                            priority, jitter, starts_at, ends_at, lane) as rules
    from hourbell_jobs
    where plan_at <= ?1 and deleted_at is null and (plan_at, id) > (?3, ?4)
    order by plan_at, id
    limit ?2
)

-- name: whole_jobs
select * from hourbell_jobs where id in (select unhex(value) from json_each(?))

-- name: oldest_changes
-- The oldest change that plain SQL made to each job.
select * from hourbell_job_changes
where id in (
    select (select c.id from hourbell_job_changes c where c.job_id = unhex(g.value) order by c.id limit 1)
    from json_each(?) as g)

-- name: unfinished_of_jobs
select job_id as id,
       sum(state <> 'running') as waiting,
       sum(kind = 'scheduled') as unfinished
from (
    select job_id, state, kind
    from hourbell_runs indexed by hourbell_runs_waiting
    where job_id in (select unhex(value) from json_each(?1)) and state in ('pending', 'retrying')
    union all
    select job_id, state, kind
    from hourbell_runs indexed by hourbell_runs_running
    where job_id in (select unhex(value) from json_each(?1)) and state = 'running'
)
group by job_id

-- name: newest_of_jobs
select job_id as id, max(at) as newest_at
from (
    select unhex(value) as job_id,
           (select r.scheduled_at from hourbell_runs r
            where r.job_id = unhex(value) and r.kind = 'scheduled' order by r.scheduled_at desc limit 1) as at
    from json_each(?1)
    union all
    select unhex(value), (select max(s.last_at) from hourbell_skips s where s.job_id = unhex(value))
    from json_each(?1)
)
group by job_id

-- name: insert_runs
insert into hourbell_runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane,
                           exclusive, at_most_once, payload, planned_at)
select unhex(substr(value, 1, 32)), unhex(substr(value, 33)), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
from json_each(?1)
where true
on conflict do nothing

-- name: extend_skip
update hourbell_skips
set last_at = ?3, count = count + ?4
where job_id = ?1 and reason = ?5 and last_at = ?6
  and last_at > (select updated_at from hourbell_jobs where id = ?1)  -- of this version: another had other instants

-- name: insert_skip
insert into hourbell_skips (job_id, first_at, last_at, count, reason) values (?1, ?2, ?3, ?4, ?5)

-- name: save_cursors
-- Each id is followed by the version, plan time and cursor that the job was planned from. With `if_unchanged`, jobs
-- that have other values by now, or are deleted, are not updated.
update hourbell_jobs as j
set cursor_at = coalesce(max(j.cursor_at, ?2), j.cursor_at, ?2),
    next_at = ?3,
    plan_at = ?4,
    error = ?5,
    lane = ?6,
    saved_version = j.version
from (select unhex(substr(value, 1, 32)) as job_id, substr(value, 33) as planned_by from json_each(?1)) as g
where j.id = g.job_id
  and (not ?7 or g.planned_by = j.version || ' ' || j.plan_at || ' ' || ifnull(j.cursor_at, '') and j.deleted_at is null)

-- name: save_superseded
update hourbell_jobs
set cursor_at = coalesce(max(cursor_at, ?2), cursor_at, ?2),
    plan_at = ?3,
    has_changes = exists (select 1 from hourbell_job_changes c where c.job_id = ?1)
where id = ?1

-- name: delete_change
delete from hourbell_job_changes where id = ?

-- name: set_change_error
update hourbell_job_changes set error = ?2 where id = ?1

-- name: end_pauses
update hourbell_jobs
set enabled = 1, version = version + 1, saved_version = version + 1, paused_note = null, paused_by = null,
    paused_until = null
where id in (select unhex(value) from json_each(?))

-- name: insert_versions
insert into hourbell_job_versions (job_id, version, definition, changed_at, changed_by)
select unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, ?2
from json_each(?1)
where true
on conflict do nothing

-- name: audit_unasked
-- `before` is the newest stored version that precedes the change.
insert into hourbell_audit (at, actor, action, subject, before, after)
select ?2, actor, case when actor = 'engine' then 'job.resume' when before is null then 'job.create' else 'job.edit' end,
       subject, before, after
from (
    select value ->> 2 as after, value ->> 3 as actor, value ->> 4 as subject,
           (select v.definition from hourbell_job_versions v
            where v.job_id = unhex(value ->> 0) and v.version < value ->> 1
            order by v.version desc
            limit 1) as before
    from json_each(?1)
)

-- name: cancel_waiting_of_jobs
update hourbell_runs indexed by hourbell_runs_waiting
set state = 'cancelled', finished_at = ?2
where job_id in (select unhex(value) from json_each(?1)) and state in ('pending', 'retrying')
  and (?3 or kind = 'scheduled')
  and id not in (select unhex(value) from json_each(?4))
returning job_id

-- name: ask_running_of_jobs_to_stop
insert into hourbell_cancels (run_id, requested_at)
select id, ?2
from hourbell_runs indexed by hourbell_runs_running
where job_id in (select unhex(value) from json_each(?1)) and state = 'running'
on conflict do nothing

-- name: next_plan_at
select plan_at from hourbell_jobs where plan_at is not null and deleted_at is null order by plan_at limit 1

-- name: set_job_errors
update hourbell_jobs as j
set error = g.error, plan_at = null, next_at = null
from (select unhex(value ->> 0) as job_id, value ->> 1 as error from json_each(?)) as g
where j.id = g.job_id

-- name: lanes
with recursive found as (
    select min(lane) as lane from hourbell_runs where state in ('pending', 'retrying')
    union all
    select (select min(r.lane) from hourbell_runs r where r.state in ('pending', 'retrying') and r.lane > found.lane)
    from found
    where found.lane is not null
), ranks (rank) as (
    values (0), (1), (2), (3)
)
select found.lane,
       min((select min(r.ready_at) from hourbell_runs r
            where r.state in ('pending', 'retrying') and r.lane = found.lane and r.rank = ranks.rank)) as ready_at
from found
cross join ranks
where found.lane is not null
group by found.lane

-- name: ready_runs
-- All rows in one value, because each fetched row takes the interpreter lock, which other threads need. `row_id` is the
-- rowid, by which a claim finds the run again.
select count(*) as count, json_group_array(json_array(
    hex(id), hex(job_id), job_version, kind, scheduled_at, ready_at, expires_at, lane, attempt + 1, failures, crashes,
    started_at, at_most_once, payload, rank, row_id)) as runs,
    json_group_array(row_id) as row_ids
from (
select r.*, rowid as row_id from hourbell_runs as r
where lane = ?1 and rank = ?2 and state in ('pending', 'retrying') and ready_at <= ?3 and crashes < ?5
  and (not exclusive
       or not exists (select 1 from hourbell_runs o where o.job_id = r.job_id and o.state = 'running')
          and not exists (
              select 1 from hourbell_runs o
              where o.job_id = r.job_id and o.state in ('pending', 'retrying')
                and (o.scheduled_at, o.id) < (r.scheduled_at, r.id)))
order by ready_at, rowid
limit ?4)

-- name: suspect
select count(*) as count, json_group_array(json_array(
    hex(id), hex(job_id), job_version, kind, scheduled_at, ready_at, expires_at, lane, attempt + 1, failures, crashes,
    started_at, at_most_once, payload, rank, row_id)) as runs,
    json_group_array(row_id) as row_ids
from (
select r.*, rowid as row_id from hourbell_runs as r
where lane in (select value from json_each(?1)) and state in ('pending', 'retrying') and crashes >= 2
  and crashes >= ?3 and ready_at <= ?2
  and (not exclusive
       or not exists (select 1 from hourbell_runs o where o.job_id = r.job_id and o.state = 'running')
          and not exists (
              select 1 from hourbell_runs o
              where o.job_id = r.job_id and o.state in ('pending', 'retrying')
                and (o.scheduled_at, o.id) < (r.scheduled_at, r.id)))
order by ready_at, id
limit 1)

-- name: claim
-- Runs are found by the rowids that the statements above return. The plus prevents the use of an index of waiting runs.
update hourbell_runs
set state = 'running', attempt = attempt + 1, lease_owner = ?2, lease_until = ?3, started_at = coalesce(started_at, ?4)
where rowid in (select value from json_each(?1)) and +state in ('pending', 'retrying')

-- name: definitions
select v.job_id, v.version, v.definition
from json_each(?) as g
join hourbell_job_versions v on v.job_id = unhex(g.value ->> 0) and v.version = g.value ->> 1

-- name: secrets_of_jobs
select id, job_id, field, key_id, sealed, origin, valid_until
from hourbell_secrets
where job_id in (select unhex(value) from json_each(?1)) and (valid_until is null or valid_until > ?2)
order by job_id, field, created_at desc, id

-- name: command_seal
select seal from hourbell_command_seals where job_id = ? and version = ?

-- name: last_success
select scheduled_at
from hourbell_runs
where job_id = ? and scheduled_at < ? and state = 'succeeded'
order by scheduled_at desc
limit 1

-- name: begin
update hourbell_runs
set begun_attempt = attempt
where id = ? and attempt = ? and state = 'running' and begun_attempt is not attempt
returning id

-- name: settle
-- The start of the first attempt replaces the run's start, which the claim set.
update hourbell_runs as r
set state = g.state, reason = g.reason, ready_at = coalesce(g.ready_at, r.ready_at), failures = g.failures,
    crashes = g.crashes, result = g.result, lease_owner = null, lease_until = null,
    started_at = case
        when g.state = 'pending' then null
        when g.begun_at is null then r.started_at
        when g.attempt = 1 or not exists (select 1 from hourbell_attempts a where a.run_id = g.run_id) then g.begun_at
        else r.started_at end,
    finished_at = case when g.state in ('succeeded', 'failed', 'cancelled') then g.at end
from (
    select unhex(value ->> 0) as run_id, value ->> 1 as attempt, value ->> 2 as state, value ->> 3 as reason,
           value ->> 4 as ready_at, value ->> 5 as failures, value ->> 6 as crashes, value ->> 7 as result,
           value ->> 8 as at, value ->> 11 as begun_at
    from json_each(?)
) as g
where r.id = g.run_id and r.attempt = g.attempt and r.state = 'running'
returning id, attempt

-- name: settle_succeeded
update hourbell_runs as r
set state = 'succeeded', result = g.result, lease_owner = null, lease_until = null, finished_at = g.at,
    started_at = case
        when g.begun_at is null then r.started_at
        when g.attempt = 1 or not exists (select 1 from hourbell_attempts a where a.run_id = g.run_id) then g.begun_at
        else r.started_at end
from (
    select unhex(value ->> 0) as run_id, value ->> 1 as attempt, value ->> 2 as begun_at, value ->> 3 as at,
           value ->> 4 as result
    from json_each(?)
) as g
where r.id = g.run_id and r.attempt = g.attempt and r.state = 'running'

-- name: insert_successful_attempts
insert into hourbell_attempts (run_id, number, node, started_at, finished_at, outcome, status_code, excerpt, phases)
select unhex(value ->> 0), value ->> 1, ?2, value ->> 2, value ->> 3, 'succeeded', value ->> 5, value ->> 6, value ->> 7
from json_each(?1)
where true
on conflict do nothing

-- name: insert_attempts
insert into hourbell_attempts (run_id, number, node, started_at, finished_at, outcome, error, status_code, excerpt,
                               phases)
select unhex(value ->> 0), value ->> 1, unhex(value ->> 10), value ->> 11, value ->> 8, value ->> 12, value ->> 13,
       value ->> 14, value ->> 15, value ->> 16
from json_each(?)
where value ->> 9
on conflict do nothing

-- name: count_ended
-- A tally without failures ends after the counts. A success of a job that did not fail touches no index.
insert into hourbell_job_stats (job_id, last_run_id, last_run_at, last_state, last_error, last_success_at, succeeded,
                                failed, cancelled, streak, first_failed_at, failed_run_id, alert_at)
select unhex(value ->> 0), unhex(value ->> 1), value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       value ->> 7, value ->> 8, coalesce(value ->> 9, 0), value ->> 10, unhex(value ->> 11),
       case when value ->> 7 > 0 then value ->> 2 end
from json_each(?)
where true
on conflict (job_id) do update
set last_run_id = coalesce(excluded.last_run_id, last_run_id),
    last_run_at = coalesce(excluded.last_run_at, last_run_at),
    last_state = coalesce(excluded.last_state, last_state),
    last_error = coalesce(excluded.last_error, last_error),
    last_success_at = coalesce(excluded.last_success_at, last_success_at),
    succeeded = succeeded + excluded.succeeded,
    failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled,
    streak = case when excluded.succeeded > 0 then excluded.streak else streak + excluded.streak end,
    first_failed_at = case when excluded.succeeded > 0 then excluded.first_failed_at
                           else coalesce(first_failed_at, excluded.first_failed_at) end,
    failed_run_id = coalesce(excluded.failed_run_id, failed_run_id),
    alert_at = case when excluded.failed > 0 or (excluded.succeeded > 0 and streak > 0) then excluded.last_run_at
                    else alert_at end

-- name: note_late_outcomes
update hourbell_attempts as a
set late_outcome = g.outcome
from (
    select unhex(value ->> 0) as run_id, value ->> 1 as attempt, value ->> 3 as outcome from json_each(?)
) as g
where a.run_id = g.run_id and a.number = g.attempt and a.outcome = 'lost'

-- name: late_outcomes
select g.run_id, g.attempt
from (
    select unhex(value ->> 0) as run_id, value ->> 1 as attempt, unhex(value ->> 2) as node, value ->> 3 as outcome
    from json_each(?)
) as g
left join hourbell_attempts a on a.run_id = g.run_id and a.number = g.attempt
left join hourbell_runs r on r.id = g.run_id
where (a.node = g.node and a.outcome = g.outcome)
   or (g.node is null and a.run_id is null and r.attempt = g.attempt and r.state <> 'running')

-- name: expired_leases
select id, job_id, job_version, kind, scheduled_at, ready_at, expires_at, state, lane, attempt, failures, crashes,
       started_at, at_most_once, begun_attempt, payload, lease_owner
from hourbell_runs
where state = 'running' and lease_until < ?
limit ?

-- name: deaths
-- Earlier attempts that were lost with their nodes: no late outcome, and no heartbeat of the node since.
select a.run_id, count(*) as deaths
from hourbell_attempts a
left join hourbell_nodes n on n.id = a.node
where a.run_id in (select unhex(value) from json_each(?)) and a.outcome = 'lost' and a.late_outcome is null
  and (n.beat_at is null or n.beat_at <= a.finished_at)
group by a.run_id

-- name: too_old
select r.id, r.job_id
from hourbell_runs r
where r.state in ('pending', 'retrying') and r.expires_at <= ?1
  and not exists (
      select 1 from hourbell_nodes n, json_each(n.lanes) as served
      where n.beat_at > ?2
        and (served.value = r.lane
             or (substr(served.value, -1) = '*'
                 and substr(r.lane, 1, length(served.value) - 1) = substr(served.value, 1, length(served.value) - 1))))
order by r.expires_at
limit ?3

-- name: expire
update hourbell_runs
set state = 'failed', reason = 'expired', finished_at = ?2
where id in (select unhex(value) from json_each(?1))

-- name: beat
insert into hourbell_nodes (id, host, started_at, beat_at, lanes, tzdata)
values (?, ?, ?, ?, ?, ?)
on conflict (id) do update set beat_at = excluded.beat_at, lanes = excluded.lanes

-- name: renew
update hourbell_runs as r
set lease_until = max(r.lease_until, ?2)
from (select unhex(value ->> 0) as run_id, value ->> 1 as attempt from json_each(?1)) as g
where r.id = g.run_id and r.attempt = g.attempt and r.state = 'running' and r.lease_owner = ?3
returning id, attempt

-- name: unheld
select id, job_id, job_version, kind, scheduled_at, ready_at, expires_at, state, lane, attempt, failures, crashes,
       started_at, at_most_once, begun_attempt, payload
from hourbell_runs
where state = 'running' and lease_owner = ?1
  and (id, attempt) not in (select unhex(value ->> 0), value ->> 1 from json_each(?2))
  and not (at_most_once and begun_attempt is attempt)

-- name: cancels_of
select run_id from hourbell_cancels where run_id in (select unhex(value) from json_each(?))

-- name: keep_last_beat
insert into hourbell_meta (key, value)
select 'last_beat', beat_at from hourbell_nodes where id = ?
on conflict (key) do update set value = max(cast(value as integer), cast(excluded.value as integer))

-- name: retire
delete from hourbell_nodes where id = ?

-- name: last_beat
select max(beat_at) as beat_at
from (select beat_at from hourbell_nodes
      union all
      select cast(value as integer) from hourbell_meta where key = 'last_beat')

-- name: overlapping_outages
select of, started_at, ended_at, found_by from hourbell_outages where of = ?1 and started_at <= ?3 and ended_at >= ?2

-- name: delete_outages
delete from hourbell_outages where of = ?1 and started_at <= ?3 and ended_at >= ?2

-- name: insert_outage
insert into hourbell_outages (of, started_at, ended_at, found_by) values (?, ?, ?, ?)

-- name: forget_outages
delete from hourbell_outages where ended_at < ?

-- name: prune_candidates
select r.id, r.job_id, r.finished_at,
       j.id is null or j.deleted_at is not null
       or (ltrim(j.schedule) like 'at %' and j.next_at is null and j.plan_at is null and j.cursor_at is not null
           and j.enabled and j.error is null)
       or (select count(*) from (
               select 1 from hourbell_runs n
               where n.job_id = r.job_id and n.scheduled_at >= r.scheduled_at
                 and (n.scheduled_at > r.scheduled_at or n.id > r.id)
               limit ?4)) >= ?4
       as goes
from hourbell_runs r
left join hourbell_jobs j on j.id = r.job_id
where r.finished_at < ?1 and (r.finished_at, r.id) > (?2, ?3)
order by r.finished_at, r.id
limit ?5

-- name: begin_pruning
insert into hourbell_meta (key, value) values ('prunes', 'on')

-- name: write_notes
insert into hourbell_run_notes (run_id, attempt, fraction, message, log, updated_at)
select r.id, n.value ->> 1, n.value ->> 2, n.value ->> 3, n.value ->> 4, n.value ->> 5
from json_each(?) as n
join hourbell_runs r on r.id = unhex(n.value ->> 0)
where true
on conflict (run_id, attempt) do update
set fraction = excluded.fraction, message = excluded.message, log = excluded.log, updated_at = excluded.updated_at
where hourbell_run_notes.updated_at <= excluded.updated_at

-- name: mark_pruned
insert into hourbell_job_stats (job_id, pruned_until)
select r.job_id, max(r.scheduled_at)
from hourbell_runs r
join hourbell_jobs j on j.id = r.job_id
where r.id in (select unhex(value) from json_each(?)) and r.kind in ('scheduled', 'backfill')
group by r.job_id
on conflict (job_id) do update
set pruned_until = max(coalesce(pruned_until, excluded.pruned_until), excluded.pruned_until)

-- name: delete_attempts
delete from hourbell_attempts where run_id in (select unhex(value) from json_each(?))

-- name: delete_cancels
delete from hourbell_cancels where run_id in (select unhex(value) from json_each(?))

-- name: delete_runs
delete from hourbell_runs where id in (select unhex(value) from json_each(?)) and finished_at is not null

-- name: delete_finished_jobs
delete from hourbell_jobs as j
where j.id in (select unhex(value) from json_each(?))
  and (j.deleted_at is not null
       or (ltrim(j.schedule) like 'at %' and j.next_at is null and j.plan_at is null and j.cursor_at is not null
           and j.enabled and j.error is null))
  and not exists (select 1 from hourbell_runs r where r.job_id = j.id)

-- name: end_pruning
delete from hourbell_meta where key = 'prunes'

-- name: forget_nodes
delete from hourbell_nodes where beat_at < ?

-- name: backlog
select count(*) as waiting, min(ready_at) as oldest_at
from (
    select max(ready_at, planned_at) as ready_at from hourbell_runs indexed by hourbell_runs_line
    where state in ('pending', 'retrying') and ready_at <= ? limit 100000
)

-- name: served_lanes
select distinct served.value as served
from hourbell_nodes n, json_each(n.lanes) as served
where n.beat_at > ?

-- name: tzdata_version
insert into hourbell_meta (key, value) values ('tzdata', ?)
on conflict (key) do update set value = max(value, excluded.value)
returning value

-- name: planned_by_tzdata
select value from hourbell_meta where key = 'planned_by_tzdata'

-- name: jobs_to_refresh
select *
from hourbell_jobs
where id > ? and deleted_at is null and enabled and cursor_at is not null and error is null and not has_changes
order by id
limit ?

-- name: newest_local_times
select unhex(given.value) as id,
       (select r.local_at from hourbell_runs r
        where r.job_id = unhex(given.value) and r.kind = 'scheduled'
        order by r.scheduled_at desc limit 1) as local_at
from json_each(?) as given

-- name: set_planned_by_tzdata
insert into hourbell_meta (key, value) values ('planned_by_tzdata', ?)
on conflict (key) do update set value = max(value, excluded.value)
