-- The statements behind the secrets of jobs.

-- name: lock_job
select id from hourbell.jobs where id = $1 and deleted_at is null for no key update

-- name: end_secrets
update hourbell.secrets
set valid_until = least(valid_until, $3)
where job_id = $1 and field = $2

-- name: insert_secret
insert into hourbell.secrets (id, job_id, field, key_id, sealed, created_at) values ($1, $2, $3, $4, $5, $6)

-- name: list_secrets
select s.id, s.job_id, s.field, s.key_id, s.created_at, s.valid_until
from hourbell.secrets s
where s.job_id = any($1::uuid[]) and (s.valid_until is null or s.valid_until > $2)
order by s.job_id, s.field, s.created_at desc, s.id

-- name: secrets_of_jobs
select s.id, s.job_id, s.field, s.key_id, s.sealed
from hourbell.secrets s
where s.job_id = any($1::uuid[]) and (s.valid_until is null or s.valid_until > $2)
order by s.job_id, s.field, s.created_at desc, s.id

-- name: sealed_otherwise
select id, job_id, field, key_id, sealed
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
