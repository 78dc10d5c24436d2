-- The dead letters, newest first.
create index hourbell_runs_failed on hourbell_runs (finished_at, id) where state = 'failed';
