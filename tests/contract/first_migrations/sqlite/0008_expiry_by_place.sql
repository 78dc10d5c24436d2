-- Runs that were written together expire together and are taken together: in the order of the table their entries are on
-- the same pages, in that of their ids, which are random, each is on one of its own.
drop index hourbell_runs_expiry;
create index hourbell_runs_expiry on hourbell_runs (expires_at) where state in ('pending', 'retrying');
drop index hourbell_runs_retrying;
create index hourbell_runs_retrying on hourbell_runs (expires_at) where state = 'retrying';
