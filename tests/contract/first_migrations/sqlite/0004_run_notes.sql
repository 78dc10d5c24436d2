-- What a task says while it works: log lines and progress, a row for each attempt that said anything. It goes with its
-- run.
create table hourbell_run_notes (
    run_id blob not null,
    attempt integer not null,
    fraction real check (fraction between 0 and 1),
    message text not null default '',
    log text not null default '[]' check (json_valid(log)),
    updated_at integer not null,
    primary key (run_id, attempt)
) strict, without rowid;

create index hourbell_run_notes_updated on hourbell_run_notes (updated_at);

create trigger hourbell_runs_deleted after delete on hourbell_runs for each row
begin
    delete from hourbell_run_notes where run_id = old.id;
end;
