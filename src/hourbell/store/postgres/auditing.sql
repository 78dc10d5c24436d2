-- The statements behind who asked for what: one row for each change, and each key once.

-- name: act_once
insert into hourbell.idempotency (key, fingerprint, created_at) values ($1, $2, $3) on conflict do nothing returning key

-- name: insert_audit
insert into hourbell.audit (at, actor, action, subject, before, after, token_id, ip, request_id)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
