-- The statements for the secrets of jobs.

-- name: end_secrets
-- Secrets of another origin stay until no run that uses them is waiting. None stays valid for longer than before.
update hourbell.secrets
set valid_until = case when origin is not distinct from :origin then :old_until::timestamptz
                       else :waiting_until::timestamptz end
where job_id = :job_id and lower(field) = lower(:field)
  and (valid_until is null
       or valid_until > case when origin is not distinct from :origin then :old_until::timestamptz
                             else :waiting_until::timestamptz end)

-- name: leave_secrets
update hourbell.secrets
set valid_until = :until
where job_id = :job_id and lower(field) = any(:fields::text[]) and valid_until is null

-- name: remove_secrets
delete from hourbell.secrets where job_id = :job_id and lower(field) = lower(:field)

-- name: delete_secrets
delete from hourbell.secrets where job_id = any(:job_ids::uuid[])

-- name: insert_secret
insert into hourbell.secrets (id, job_id, field, key_id, sealed, origin, created_at)
values (:id, :job_id, :field, :key_id, :sealed, :origin, :now)

-- name: list_secrets
select id, job_id, field, key_id, origin, created_at, valid_until
from hourbell.secrets
where job_id = any(:job_ids::uuid[]) and (valid_until is null or valid_until > :now)
order by job_id, field, created_at desc, id

-- name: secrets_of_jobs
select id, job_id, field, key_id, sealed, origin, valid_until
from hourbell.secrets
where job_id = any(:job_ids::uuid[]) and (valid_until is null or valid_until > :now)
order by job_id, field, created_at desc, id

-- name: current_headers
select job_id, field, origin, valid_until
from hourbell.secrets
where job_id = any(:job_ids::uuid[]) and field like 'header:%' and valid_until is null

-- name: sealed_otherwise
select id, job_id, field, key_id, sealed, origin, valid_until
from hourbell.secrets
where key_id <> :newest
order by id
limit :limit
for no key update

-- name: reseal
update hourbell.secrets set key_id = :key_id, sealed = :sealed where id = :id

-- name: delete_ended
delete from hourbell.secrets where valid_until <= :now

-- name: forget_unneeded
delete from hourbell.meta where key = :key and not exists (select 1 from hourbell.secrets)
