-- Times at which no node ran, or the database was out of reach. Outages of one kind never overlap.
create table hourbell.outages (
    of text not null check (of in ('nodes', 'database')),
    started_at timestamptz not null,
    ended_at timestamptz not null,
    found_by uuid not null,
    primary key (started_at, of),
    check (ended_at > started_at)
);
