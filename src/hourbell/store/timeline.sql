-- The parts of the time line's statements that both databases read alike.

-- name: is_lost
k.reason in ('missed', 'overlap', 'window', 'tzdata')

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

-- name: job_is_enabled
j.enabled

-- name: job_is_not_failing
not {job_is_failing}

-- name: job_is_not_losing
not {job_is_losing}

-- name: job_is_not_late
not (j.id = any(:late_ids::uuid[]))

-- name: oldest_due_job
select plan_at from hourbell.jobs where plan_at is not null and deleted_at is null order by plan_at limit 1
