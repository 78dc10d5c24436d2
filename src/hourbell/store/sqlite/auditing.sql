-- The statements behind who asked for what: one row for each change, and each key once.

-- name: act_once
insert into hourbell_idempotency (key, fingerprint, created_at) values (?, ?, ?) on conflict do nothing returning key

-- name: insert_audit
insert into hourbell_audit (at, actor, action, subject, before, after, token_id, ip, request_id)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
