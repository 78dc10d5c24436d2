-- Times at which no node ran, or the database was out of reach. Outages of one kind never overlap.
create table hourbell_outages (
    of text not null check (of in ('nodes', 'database')),
    started_at integer not null,
    ended_at integer not null,
    found_by blob not null,
    primary key (started_at, of),
    check (ended_at > started_at)
) strict, without rowid;
