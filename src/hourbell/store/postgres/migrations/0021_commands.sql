-- The seals of commands: that a version of a job, with exactly its target, was defined through Hourbell. A node runs no
-- command without one, so that the right to write these tables is not the right to run programs.
create table hourbell.command_seals (
    job_id uuid not null references hourbell.jobs (id) on delete cascade,
    version integer not null,
    seal text not null,
    sealed_at timestamptz not null,
    primary key (job_id, version)
);
