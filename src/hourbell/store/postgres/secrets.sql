-- The statements behind the secrets of jobs.

-- name: lock_job
select version from hourbell.jobs where id = $1 and deleted_at is null for no key update

-- name: end_secrets
update hourbell.secrets
set valid_until = least(valid_until, case when origin is not distinct from $3 then $4::timestamptz else $5 end)
where job_id = $1 and lower(field) = lower($2)

-- name: leave_secrets
update hourbell.secrets
set valid_until = $3
where job_id = $1 and lower(field) = any($2::text[]) and valid_until is null

-- name: remove_secrets
delete from hourbell.secrets where job_id = $1 and lower(field) = lower($2)

-- name: insert_secret
insert into hourbell.secrets (id, job_id, field, key_id, sealed, origin, created_at)
values ($1, $2, $3, $4, $5, $6, $7)

-- name: list_secrets
select s.id, s.job_id, s.field, s.key_id, s.origin, s.created_at, s.valid_until
from hourbell.secrets s
where s.job_id = any($1::uuid[]) and (s.valid_until is null or s.valid_until > $2)
order by s.job_id, s.field, s.created_at desc, s.id

-- name: secrets_of_jobs
select s.id, s.job_id, s.field, s.key_id, s.sealed, s.origin, s.valid_until
from hourbell.secrets s
where s.job_id = any($1::uuid[]) and (s.valid_until is null or s.valid_until > $2)
order by s.job_id, s.field, s.created_at desc, s.id

-- name: current_headers
select job_id, field, origin, valid_until
from hourbell.secrets
where job_id = any($1::uuid[]) and field like 'header:%' and valid_until is null

-- name: sealed_otherwise
select id, job_id, field, key_id, sealed, origin, valid_until
from hourbell.secrets
where key_id <> $1
order by id
limit $2
for no key update

-- name: reseal
update hourbell.secrets set key_id = $2, sealed = $3 where id = $1

-- name: delete_ended
delete from hourbell.secrets where valid_until <= $1

-- name: meta
select value from hourbell.meta where key = $1

-- name: set_meta
insert into hourbell.meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value

-- name: set_meta_once
insert into hourbell.meta (key, value) values ($1, $2) on conflict (key) do nothing

-- name: forget_unneeded
delete from hourbell.meta where key = $1 and not exists (select 1 from hourbell.secrets)
