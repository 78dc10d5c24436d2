-- The job. Run it again after a change: what is the same stays as it is, and a new schedule counts from now on.

insert into hourbell.jobs (name, target, schedule, timezone, description)
values (
    'daily_cleanup',
    '{"type": "sql", "function": "public.run_daily_cleanup", "args": {"days": 30}, "timeout": "30s"}',
    '0 3 * * *',           -- 3 AM daily
    'America/New_York',    -- Eastern time
    'Clean up temporary records older than 30 days'
)
on conflict (name) do update
set target = excluded.target,
    schedule = excluded.schedule,
    timezone = excluded.timezone,
    description = excluded.description;
