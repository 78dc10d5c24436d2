-- The statements for the audit chain. A page is bounded in rows and in bytes: a row is read if those before it in the
-- page are small.

-- name: chain_head
select c.position, c.audit_id, c.chained_at, c.hash, c.key_id, c.seal
from hourbell.audit_chain c
order by c.position desc
limit 1

-- name: chain_page
with sized as (
    select c.position, coalesce(octet_length(a.before::text), 0) + coalesce(octet_length(a.after::text), 0) as size
    from hourbell.audit_chain c
    left join hourbell.audit a on a.id = c.audit_id
    where c.position > :after
    order by c.position
    limit :max_rows
), summed as (
    select position, sum(size) over (order by position) - size as bytes_before from sized
)
select c.position, c.audit_id, c.chained_at, c.hash, c.key_id, c.seal,
       a.id, a.at, a.actor, a.action, a.subject, a.before::text as before, a.after::text as after,
       replace(a.token_id::text, '-', '') as token, a.ip, a.request_id
from summed s
join hourbell.audit_chain c on c.position = s.position
left join hourbell.audit a on a.id = c.audit_id
where s.bytes_before < :max_bytes
order by c.position

-- name: unchained
with sized as (
    select a.id, coalesce(octet_length(a.before::text), 0) + coalesce(octet_length(a.after::text), 0) as size
    from hourbell.audit_unchained u
    join hourbell.audit a on a.id = u.audit_id
    where not exists (select 1 from hourbell.audit_chain c where c.audit_id = u.audit_id)
    order by a.id
    limit :max_rows
), summed as (
    select id, sum(size) over (order by id) - size as bytes_before from sized
)
select a.id, a.at, a.actor, a.action, a.subject, a.before::text as before, a.after::text as after,
       replace(a.token_id::text, '-', '') as token, a.ip, a.request_id
from summed s
join hourbell.audit a on a.id = s.id
where s.bytes_before < :max_bytes
order by a.id

-- name: strays
select s.audit_id, s.at
from (
    select a.id as audit_id, a.at
    from hourbell.audit a
    where a.id > :after_id
      and not exists (select 1 from hourbell.audit_chain c where c.audit_id = a.id)
      and not exists (select 1 from hourbell.audit_unchained u where u.audit_id = a.id)
    union all
    select u.audit_id, null
    from hourbell.audit_unchained u
    where u.audit_id > :after_id
      and not exists (select 1 from hourbell.audit_chain c where c.audit_id = u.audit_id)
      and not exists (select 1 from hourbell.audit a where a.id = u.audit_id)
) s
order by s.audit_id
limit :limit

-- name: count_unchained
select count(*) as total, min(a.at) as oldest_at
from hourbell.audit_unchained u
join hourbell.audit a on a.id = u.audit_id
where not exists (select 1 from hourbell.audit_chain c where c.audit_id = u.audit_id)

-- name: highest_audit_id
select coalesce(max(id), 0) as id from hourbell.audit

-- name: dequeue_links
delete from hourbell.audit_unchained where audit_id = any(:audit_ids::bigint[])
