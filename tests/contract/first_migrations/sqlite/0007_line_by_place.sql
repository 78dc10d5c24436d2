-- Runs of one instant are taken in the order they were written, which is the order of the table: taken by their ids,
-- which are random, each would be on a page of its own.
drop index hourbell_runs_line;
create index hourbell_runs_line on hourbell_runs (lane, rank, ready_at) where state in ('pending', 'retrying');
