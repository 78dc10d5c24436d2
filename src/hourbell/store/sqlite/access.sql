-- The statements behind tokens, keys of requests and the key of sessions.

-- name: insert_token
insert into hourbell_tokens (id, name, digest, role, created_at, expires_at, last_used_at, revoked_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: token_by_digest
select id, name, role, created_at, expires_at, last_used_at, revoked_at from hourbell_tokens where digest = ?1

-- name: token_by_id
select id, name, role, created_at, expires_at, last_used_at, revoked_at from hourbell_tokens where id = ?1

-- name: tokens
select id, name, role, created_at, expires_at, last_used_at, revoked_at
from hourbell_tokens
order by created_at desc, id desc

-- name: is_open
-- A token that has expired keeps the server closed, and so does one that was revoked, until somebody opens it.
select not exists (select 1 from hourbell_tokens where revoked_at is null)
       and (not exists (select 1 from hourbell_tokens) or exists (select 1 from hourbell_meta where key = ?1)) as is_open

-- name: count_valid_tokens
select count(*) as valid from hourbell_tokens where revoked_at is null and (expires_at is null or expires_at > ?1)

-- name: revoke_expired_tokens
update hourbell_tokens set revoked_at = ?1 where revoked_at is null and expires_at <= ?1

-- name: forget_meta
delete from hourbell_meta where key = ?1

-- name: revoke_token
update hourbell_tokens set revoked_at = ?2 where id = ?1 and revoked_at is null
returning id, name, role, created_at, expires_at, last_used_at, revoked_at

-- name: touch_token
update hourbell_tokens set last_used_at = ?2 where id = ?1 and (last_used_at is null or last_used_at < ?2)

-- name: kept
select fingerprint, answer from hourbell_idempotency where key = ?1

-- name: keep_answer
update hourbell_idempotency set answer = ?2 where key = ?1 and answer is null

-- name: forget_kept
delete from hourbell_idempotency
where key in (select key from hourbell_idempotency where created_at < ?1 order by created_at limit ?2)
returning key

-- name: set_meta_once
insert into hourbell_meta (key, value) values (?1, ?2) on conflict (key) do nothing

-- name: meta
select value from hourbell_meta where key = ?1
