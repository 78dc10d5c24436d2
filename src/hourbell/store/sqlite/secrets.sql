-- The statements behind the secrets of jobs.

-- name: lock_job
select id from hourbell_jobs where id = ? and deleted_at is null

-- name: end_secrets
update hourbell_secrets
set valid_until = min(coalesce(valid_until, ?3), ?3)
where job_id = ?1 and field = ?2

-- name: insert_secret
insert into hourbell_secrets (id, job_id, field, key_id, sealed, created_at) values (?, ?, ?, ?, ?, ?)

-- name: list_secrets
select id, job_id, field, key_id, created_at, valid_until
from hourbell_secrets
where job_id in (select unhex(value) from json_each(?1)) and (valid_until is null or valid_until > ?2)
order by job_id, field, created_at desc, id

-- name: secrets_of_jobs
select id, job_id, field, key_id, sealed
from hourbell_secrets
where job_id in (select unhex(value) from json_each(?1)) and (valid_until is null or valid_until > ?2)
order by job_id, field, created_at desc, id

-- name: sealed_otherwise
select id, job_id, field, key_id, sealed from hourbell_secrets where key_id <> ? order by id limit ?

-- name: reseal
update hourbell_secrets set key_id = ?2, sealed = ?3 where id = ?1

-- name: delete_ended
delete from hourbell_secrets where valid_until <= ?

-- name: meta
select value from hourbell_meta where key = ?

-- name: set_meta
insert into hourbell_meta (key, value) values (?1, ?2) on conflict (key) do update set value = excluded.value

-- name: set_meta_once
insert into hourbell_meta (key, value) values (?1, ?2) on conflict (key) do nothing

-- name: forget_unneeded
delete from hourbell_meta where key = ?1 and not exists (select 1 from hourbell_secrets)
