-- The statements for tokens, page sessions, idempotency keys and the audit.

-- name: insert_token
insert into hourbell.tokens (id, name, digest, role, created_at, expires_at, last_used_at, revoked_at)
values (:id, :name, :digest, :role, :created_at, :expires_at, :last_used_at, :revoked_at)

-- name: token_by_digest
select id, name, role, created_at, expires_at, last_used_at, revoked_at from hourbell.tokens where digest = :digest

-- name: token_by_id
select id, name, role, created_at, expires_at, last_used_at, revoked_at from hourbell.tokens where id = :id

-- name: tokens
select id, name, role, created_at, expires_at, last_used_at, revoked_at
from hourbell.tokens
order by created_at desc, id desc

-- name: is_open
-- Expired and revoked tokens keep the server closed, until somebody opens access.
select not exists (select 1 from hourbell.tokens where revoked_at is null)
       and (not exists (select 1 from hourbell.tokens) or exists (select 1 from hourbell.meta where key = :key)) as is_open

-- name: count_valid_tokens
select count(*) as valid from hourbell.tokens where revoked_at is null and (expires_at is null or expires_at > :now)

-- name: revoke_expired_tokens
update hourbell.tokens set revoked_at = :now where revoked_at is null and expires_at <= :now

-- name: revoke_token
update hourbell.tokens set revoked_at = :now where id = :id and revoked_at is null
returning id, name, role, created_at, expires_at, last_used_at, revoked_at

-- name: touch_token
update hourbell.tokens set last_used_at = :at where id = :id and (last_used_at is null or last_used_at < :at)

-- name: valid_digests
select digest from hourbell.tokens
where revoked_at is null and (expires_at is null or expires_at > :now)
order by created_at desc, id
limit :limit

-- name: end_session
insert into hourbell.ended_sessions (id, expires_at) values (:id, :expires_at) on conflict (id) do nothing
returning id

-- name: ended_session
select id from hourbell.ended_sessions where id = :id

-- name: forget_sessions
delete from hourbell.ended_sessions
where id in (select id from hourbell.ended_sessions where expires_at <= :now order by expires_at limit :limit)
returning id

-- name: act_once
insert into hourbell.idempotency (key, fingerprint, created_at) values (:key, :fingerprint, :now)
on conflict do nothing
returning key

-- name: idempotency_record
select fingerprint, answer from hourbell.idempotency where key = :key

-- name: keep_answer
update hourbell.idempotency set answer = :answer where key = :key and answer is null

-- name: forget_keys
delete from hourbell.idempotency
where key in (select key from hourbell.idempotency where created_at < :before order by created_at limit :limit)
returning key

-- name: insert_audit
insert into hourbell.audit (at, actor, action, subject, before, after, token_id, ip, request_id)
values (:at, :actor, :action, :subject, :before, :after, :token_id, :ip, :request_id)

-- name: meta
select value from hourbell.meta where key = :key

-- name: set_meta
insert into hourbell.meta (key, value) values (:key, :value) on conflict (key) do update set value = excluded.value

-- name: set_meta_once
insert into hourbell.meta (key, value) values (:key, :value) on conflict (key) do nothing

-- name: forget_meta
delete from hourbell.meta where key = :key
