-- Who manages an alert policy or a channel: the API, or the jobs file of a source, as it is with jobs.

alter table hourbell.alert_policies
    add column managed_by text not null default 'api',
    add column source text not null default '';

alter table hourbell.channels
    add column managed_by text not null default 'api',
    add column source text not null default '';
