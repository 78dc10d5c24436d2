-- Jobs that lost scheduled times lately, by the day (UTC) of their last one: from each job of a day straight to the next.
create index hourbell_skips_lost on hourbell_skips (last_at - last_at % 86400000000, job_id)
    where reason in ('missed', 'overlap', 'window', 'tzdata');
