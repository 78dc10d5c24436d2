-- Sessions that were ended before they expired: their cookies are refused until then.
create table hourbell_ended_sessions (
    id blob not null primary key,
    expires_at integer not null
) strict;

create index hourbell_ended_sessions_by_expiry on hourbell_ended_sessions (expires_at);
