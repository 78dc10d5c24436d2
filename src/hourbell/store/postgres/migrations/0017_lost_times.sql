-- Jobs that lost scheduled times lately, by the day (UTC) of their last one: from each job of a day straight to the next.
create index skips_lost on hourbell.skips (date_trunc('day', last_at at time zone 'UTC'), job_id)
    where reason in ('missed', 'overlap', 'window', 'tzdata');
