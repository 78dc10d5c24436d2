-- PostgreSQL has instants that no other calendar has: year 20000, infinity. One of them in a job that SQL wrote would keep
-- whoever reads it from reading the jobs beside it. Rows that are there already are not looked at.
alter table hourbell.jobs add constraint jobs_instants_are_between_1900_and_9000 check (
    coalesce(paused_until, 'epoch') between '1900-01-01Z' and '9000-01-01Z'
    and coalesce(cursor_at, 'epoch') between '1900-01-01Z' and '9000-01-01Z'
    and coalesce(next_at, 'epoch') between '1900-01-01Z' and '9000-01-01Z'
    and coalesce(plan_at, 'epoch') between '1900-01-01Z' and '9000-01-01Z'
    and created_at between '1900-01-01Z' and '9000-01-01Z'
    and updated_at between '1900-01-01Z' and '9000-01-01Z'
    and coalesce(deleted_at, 'epoch') between '1900-01-01Z' and '9000-01-01Z'
) not valid;
