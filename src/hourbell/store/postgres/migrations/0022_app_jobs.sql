-- A job that a program creates at run time is managed by `app`.
alter table hourbell.jobs drop constraint jobs_managed_by_check;
alter table hourbell.jobs add constraint jobs_managed_by_check
    check (managed_by in ('api', 'code', 'sql', 'file', 'system', 'app'));
