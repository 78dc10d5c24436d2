-- What a task says while it works: log lines and progress, a row for each attempt that said anything. It goes with its
-- run, by the trigger that nonces go by: a foreign key would cost every update of a run.
create table hourbell.run_notes (
    run_id uuid not null,
    attempt integer not null,
    fraction double precision check (fraction between 0 and 1),
    message text not null default '',
    log jsonb not null default '[]' check (jsonb_typeof(log) = 'array'),
    updated_at timestamptz not null,
    primary key (run_id, attempt)
);

create index run_notes_updated on hourbell.run_notes (updated_at);

create or replace function hourbell.forget_calls() returns trigger language plpgsql as $$
begin
    delete from hourbell.function_calls c using gone where c.run_id = gone.id;
    delete from hourbell.run_notes n using gone where n.run_id = gone.id;
    return null;
end $$;
