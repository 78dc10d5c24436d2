-- name: end_stalled_sessions
-- The sessions are those of this database that have our names and whose role this one may act for; what another role does
-- cannot be seen. COPY waits for its data in the same way, and is left alone. The sessions are chosen before any is ended.
with stalled as materialized (
    select a.pid, extract(epoch from clock_timestamp() - a.state_change)::float8 as seconds
    from pg_catalog.pg_stat_activity a
    where a.datname = current_database() and a.application_name in ('hourbell', 'hourbell functions')
      and a.state = 'active' and a.wait_event = 'ClientRead' and a.state_change < clock_timestamp() - $1::interval
      and a.query not ilike 'copy %' and a.pid <> pg_backend_pid() and pg_catalog.pg_has_role(a.usesysid, 'usage')
)
select pid, seconds from stalled where pg_catalog.pg_terminate_backend(pid)
