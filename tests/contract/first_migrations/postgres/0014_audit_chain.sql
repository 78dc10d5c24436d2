-- The audit is append-only, and its rows are chained by hashes. A loop chains committed rows afterwards, in the order in
-- which it finds them, so that no writer waits for another. `audit_unchained` holds the rows that wait for it.

create table hourbell.audit_chain (
    position bigint primary key check (position > 0),
    audit_id bigint unique,  -- null: a checkpoint, which only seals what is before it
    chained_at timestamptz not null,
    hash text not null,
    key_id text,
    seal text
);

create table hourbell.audit_unchained (
    audit_id bigint primary key
);

-- Whoever may insert into the audit need not have any right on the queue.
create function hourbell.queue_audit() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into hourbell.audit_unchained (audit_id) values (new.id) on conflict do nothing;
    return null;
end $$;

-- Nobody else may make it the trigger of a table of their own.
revoke all on function hourbell.queue_audit() from public;

create function hourbell.refuse_audit_change() returns trigger language plpgsql as $$
begin
    raise exception 'the table %.% is append-only: % is refused', tg_table_schema, tg_table_name, tg_op
        using errcode = 'restrict_violation', hint = 'a change of the past would break the audit chain';
end $$;

-- The trigger comes before the rows are queued: it locks the table, so that none is missed.
create trigger audit_queued after insert on hourbell.audit for each row execute function hourbell.queue_audit();

create trigger audit_append_only before update or delete or truncate on hourbell.audit
for each statement execute function hourbell.refuse_audit_change();

create trigger audit_chain_append_only before update or delete or truncate on hourbell.audit_chain
for each statement execute function hourbell.refuse_audit_change();

insert into hourbell.audit_unchained (audit_id) select id from hourbell.audit;

-- A time that no other calendar has would keep everybody from reading the rows beside it.
alter table hourbell.audit add constraint audit_at_is_between_1900_and_9000
    check (at between '1900-01-01Z' and '9000-01-01Z') not valid;
