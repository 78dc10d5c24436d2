-- Jobs that lost scheduled times lately, by the hour (UTC) of each last one: from each job straight to the next.
create index hourbell_skips_lost on hourbell_skips (last_at - last_at % 3600000000, job_id)
    where reason in ('missed', 'overlap', 'window', 'tzdata');
