-- What is cleaned up, and the function that does it. It may be run again.

create schema if not exists metadata;

create table if not exists metadata.some_temp_table (
    id bigint generated always as identity primary key,
    note text not null,
    created_at timestamptz not null default now()
);

-- A function for Hourbell returns {success, message, details?}. Here it runs with the rights of its owner, so its
-- search_path is fixed and not everybody may call it.
create or replace function public.run_daily_cleanup(days integer default 30)
returns jsonb
language plpgsql
security definer
set search_path = metadata, public, pg_temp
as $$
declare
    v_deleted integer;
    v_context text;
begin
    delete from some_temp_table where created_at < now() - make_interval(days => run_daily_cleanup.days);
    get diagnostics v_deleted = row_count;

    return jsonb_build_object(
        'success', true,
        'message', format('Deleted %s old records', v_deleted),
        'details', jsonb_build_object('deleted_count', v_deleted)
    );
exception when others then
    get stacked diagnostics v_context = pg_exception_context;
    return jsonb_build_object(
        'success', false,
        'message', sqlerrm,
        'details', jsonb_build_object('sqlstate', sqlstate, 'context', v_context)
    );
end;
$$;

revoke execute on function public.run_daily_cleanup(integer) from public;
