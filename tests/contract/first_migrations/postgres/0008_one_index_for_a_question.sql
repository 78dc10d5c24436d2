-- While nothing waits, which is most of the time, PostgreSQL takes the indexes of waiting runs for equally empty, and any
-- of them for as good as the right one. When a burst comes, the wrong one is read from end to end for each run. So only
-- one of them can answer a question:
-- - Who asks by lane says "pending or retrying", as before; who asks by job or by expiry says "neither running nor
--   ended", from which PostgreSQL does not conclude the condition of runs_line.
-- - The other two also say of their first column that it is there. That is always so, but PostgreSQL concludes it only
--   from a statement that compares this column.
drop index hourbell.runs_waiting;
create index runs_waiting on hourbell.runs (job_id, scheduled_at, id)
    where state not in ('running', 'succeeded', 'failed', 'cancelled') and job_id is not null;
drop index hourbell.runs_expiry;
create index runs_expiry on hourbell.runs (expires_at, id)
    where state not in ('running', 'succeeded', 'failed', 'cancelled') and expires_at is not null;
