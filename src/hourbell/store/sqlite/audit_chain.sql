-- The statements behind the audit chain. A page of rows is bounded in number and in bytes: a row is read if those before
-- it in the page are small.

-- name: head
select c.position, c.audit_id, c.chained_at, c.hash, c.key_id, c.seal
from hourbell_audit_chain c
order by c.position desc
limit 1

-- name: page
with sized as (
    select c.position, coalesce(length(a.before), 0) + coalesce(length(a.after), 0) as size
    from hourbell_audit_chain c
    left join hourbell_audit a on a.id = c.audit_id
    where c.position > ?1
    order by c.position
    limit ?2
), summed as (
    select position, sum(size) over (order by position) - size as bytes_before from sized
)
select c.position, c.audit_id, c.chained_at, c.hash, c.key_id, c.seal,
       a.id, a.at, a.actor, a.action, a.subject, a.before, a.after,
       case when a.token_id is not null then lower(hex(a.token_id)) end as token, a.ip, a.request_id
from summed s
join hourbell_audit_chain c on c.position = s.position
left join hourbell_audit a on a.id = c.audit_id
where s.bytes_before < ?3
order by c.position

-- name: waiting
with sized as (
    select a.id, coalesce(length(a.before), 0) + coalesce(length(a.after), 0) as size
    from hourbell_audit_unchained u
    join hourbell_audit a on a.id = u.audit_id
    where not exists (select 1 from hourbell_audit_chain c where c.audit_id = u.audit_id)
    order by a.id
    limit ?1
), summed as (
    select id, sum(size) over (order by id) - size as bytes_before from sized
)
select a.id, a.at, a.actor, a.action, a.subject, a.before, a.after,
       case when a.token_id is not null then lower(hex(a.token_id)) end as token, a.ip, a.request_id
from summed s
join hourbell_audit a on a.id = s.id
where s.bytes_before < ?2
order by a.id

-- name: strays
select s.audit_id, s.at
from (
    select a.id as audit_id, a.at
    from hourbell_audit a
    where a.id > ?1
      and not exists (select 1 from hourbell_audit_chain c where c.audit_id = a.id)
      and not exists (select 1 from hourbell_audit_unchained u where u.audit_id = a.id)
    union all
    select u.audit_id, null
    from hourbell_audit_unchained u
    where u.audit_id > ?1
      and not exists (select 1 from hourbell_audit_chain c where c.audit_id = u.audit_id)
      and not exists (select 1 from hourbell_audit a where a.id = u.audit_id)
) s
order by s.audit_id
limit ?2

-- name: count_waiting
select count(*) as total, min(a.at) as oldest_at
from hourbell_audit_unchained u
join hourbell_audit a on a.id = u.audit_id
where not exists (select 1 from hourbell_audit_chain c where c.audit_id = u.audit_id)

-- name: highest_id
select coalesce(max(id), 0) as id from hourbell_audit

-- name: is_extended
select 1 from hourbell_audit_chain where position >= ?1

-- name: append
insert into hourbell_audit_chain (position, audit_id, chained_at, hash, key_id, seal) values (?, ?, ?, ?, ?, ?)

-- name: dequeue
delete from hourbell_audit_unchained where audit_id in (select value from json_each(?))
