-- The statements of a function's transaction.

-- name: step_back
-- What the function left in force ends here, so that nothing of it meets the settlement. From here to the commit it is
-- one answer: whoever does not give it is gone, and keeps the run's row from everybody else.
reset session authorization;
set local search_path = pg_catalog, pg_temp;
set local statement_timeout = '30s';
set local lock_timeout = '0';
set local idle_in_transaction_session_timeout = '5s'

-- name: limit_rest
set local transaction_timeout = '30s'

-- name: note_call
insert into hourbell.function_calls (run_id, attempt, nonce_digest)
select r.id, r.attempt, $3
from hourbell.runs r
where r.id = $1 and r.attempt = $2 and r.state = 'running'
on conflict (run_id) do update
set attempt = excluded.attempt, nonce_digest = excluded.nonce_digest
where hourbell.function_calls.attempt <= excluded.attempt

-- name: forget_call
delete from hourbell.function_calls where run_id = $1 and attempt = $2

-- name: settle_run
select hourbell.settle_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)

-- name: which_database
select pg_catalog.current_database() || ' ' || (select system_identifier from pg_catalog.pg_control_system())

-- name: may_settle
select pg_catalog.has_schema_privilege('hourbell', 'usage')
   and exists (
       select 1 from pg_catalog.pg_proc p
       where p.pronamespace = (select oid from pg_catalog.pg_namespace where nspname = 'hourbell')
         and p.proname = 'settle_run' and pg_catalog.has_function_privilege(p.oid, 'execute'))
