-- Who manages an alert policy or a channel: the API, or the jobs file of a source, as it is with jobs.

alter table hourbell_alert_policies add column managed_by text not null default 'api';
alter table hourbell_alert_policies add column source text not null default '';

alter table hourbell_channels add column managed_by text not null default 'api';
alter table hourbell_channels add column source text not null default '';
