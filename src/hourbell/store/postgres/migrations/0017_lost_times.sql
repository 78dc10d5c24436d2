-- Jobs that lost scheduled times lately, by the hour (UTC) of each last one: from each job straight to the next.
create index skips_lost on hourbell.skips (date_trunc('hour', last_at at time zone 'UTC'), job_id)
    where reason in ('missed', 'overlap', 'window', 'tzdata');
