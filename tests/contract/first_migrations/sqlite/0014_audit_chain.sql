-- The audit is append-only, and its rows are chained by hashes. A loop chains committed rows afterwards, in the order in
-- which it finds them, so that no writer waits for another. `hourbell_audit_unchained` holds the rows that wait for it.

create table hourbell_audit_chain (
    position integer primary key check (position > 0),
    audit_id integer unique,  -- null: a checkpoint, which only seals what is before it
    chained_at integer not null,
    hash text not null,
    key_id text,
    seal text
) strict;

create table hourbell_audit_unchained (
    audit_id integer primary key
) strict;

create trigger hourbell_audit_queued after insert on hourbell_audit for each row
begin
    insert or ignore into hourbell_audit_unchained (audit_id) values (new.id);
end;

create trigger hourbell_audit_updated before update on hourbell_audit for each row
begin
    select raise(abort, 'the table hourbell_audit is append-only: a change of the past would break the audit chain');
end;

create trigger hourbell_audit_deleted before delete on hourbell_audit for each row
begin
    select raise(abort, 'the table hourbell_audit is append-only: a change of the past would break the audit chain');
end;

-- `insert or replace` removes the row it replaces without any other trigger.
create trigger hourbell_audit_replaced before insert on hourbell_audit for each row
when exists (select 1 from hourbell_audit where id = new.id)
begin
    select raise(abort, 'the table hourbell_audit is append-only: a change of the past would break the audit chain');
end;

create trigger hourbell_audit_chain_updated before update on hourbell_audit_chain for each row
begin
    select raise(abort, 'the table hourbell_audit_chain is append-only: its links are never changed');
end;

create trigger hourbell_audit_chain_deleted before delete on hourbell_audit_chain for each row
begin
    select raise(abort, 'the table hourbell_audit_chain is append-only: its links are never removed');
end;

create trigger hourbell_audit_chain_replaced before insert on hourbell_audit_chain for each row
when exists (select 1 from hourbell_audit_chain where position = new.position or audit_id = new.audit_id)
begin
    select raise(abort, 'the table hourbell_audit_chain is append-only: its links are never replaced');
end;

insert into hourbell_audit_unchained (audit_id) select id from hourbell_audit;
