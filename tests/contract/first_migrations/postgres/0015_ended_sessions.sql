-- Sessions that were ended before they expired: their cookies are refused until then.
create table hourbell.ended_sessions (
    id uuid primary key,
    expires_at timestamptz not null
);

create index ended_sessions_by_expiry on hourbell.ended_sessions (expires_at);
