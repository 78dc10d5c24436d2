-- The statements behind the secrets of jobs.

-- name: lock_job
select version from hourbell_jobs where id = ? and deleted_at is null

-- name: end_secrets
update hourbell_secrets
set valid_until = min(
    coalesce(valid_until, 9223372036854775807), case when origin is ?3 then ?4 else ?5 end
)
where job_id = ?1 and lower(field) = lower(?2)

-- name: leave_secrets
update hourbell_secrets
set valid_until = ?3
where job_id = ?1 and lower(field) in (select value from json_each(?2)) and valid_until is null

-- name: remove_secrets
delete from hourbell_secrets where job_id = ?1 and lower(field) = lower(?2)

-- name: insert_secret
insert into hourbell_secrets (id, job_id, field, key_id, sealed, origin, created_at) values (?, ?, ?, ?, ?, ?, ?)

-- name: list_secrets
select id, job_id, field, key_id, origin, created_at, valid_until
from hourbell_secrets
where job_id in (select unhex(value) from json_each(?1)) and (valid_until is null or valid_until > ?2)
order by job_id, field, created_at desc, id

-- name: secrets_of_jobs
select id, job_id, field, key_id, sealed, origin, valid_until
from hourbell_secrets
where job_id in (select unhex(value) from json_each(?1)) and (valid_until is null or valid_until > ?2)
order by job_id, field, created_at desc, id

-- name: current_headers
select job_id, field, origin, valid_until
from hourbell_secrets
where job_id in (select unhex(value) from json_each(?1)) and field like 'header:%' and valid_until is null

-- name: sealed_otherwise
select id, job_id, field, key_id, sealed, origin, valid_until
from hourbell_secrets
where key_id <> ?
order by id
limit ?

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
