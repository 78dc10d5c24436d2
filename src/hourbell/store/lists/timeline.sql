-- The parts of the time line's statements that both databases read alike.

-- name: is_lost
k.reason in ('missed', 'overlap', 'window', 'tzdata')

-- name: was_lost
-- The same where a job is given: in a form that `skips_lost`, which would be searched hour by hour, does not have.
k.reason || '' in ('missed', 'overlap', 'window', 'tzdata')

-- name: jobs_by_ids_order
j.name collate "C"

-- name: jobs_by_ids_after
j.name collate "C" > :after_key

-- name: jobs_by_ids_and_next_order
j.plan_at, j.id

-- name: jobs_by_ids_and_next_after
(j.plan_at, j.id) > (:after_key, :after_id)

-- name: job_names
j.name collate "C" = any(:names::text[])

-- name: job_is_late
j.id = any(:late_ids::uuid[])

-- name: job_is_retrying
j.id = any(:retrying_ids::uuid[])

-- name: job_is_due
-- In a form that no index has, as these jobs are listed by name.
case when j.plan_at <= :plan_before and j.next_at < :next_before and j.enabled and j.error is null then 1 else 0 end <> 0

-- name: job_is_enabled
j.enabled

-- name: job_is_not_failing
not {job_is_failing}

-- name: job_is_not_losing
not {job_is_losing}

-- name: job_is_not_retrying
not (j.id = any(:retrying_ids::uuid[]))

-- name: job_is_not_late
not (j.id = any(:late_ids::uuid[]))

-- name: oldest_due_job
select plan_at from hourbell.jobs where plan_at is not null and deleted_at is null order by plan_at limit 1
