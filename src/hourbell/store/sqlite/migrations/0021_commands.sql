-- The seals of commands: that a version of a job, with exactly its target, was defined through Hourbell. A node runs no
-- command without one, so that the right to write these tables is not the right to run programs.
create table hourbell_command_seals (
    job_id blob not null references hourbell_jobs (id) on delete cascade,
    version integer not null,
    seal text not null,
    sealed_at integer not null,
    primary key (job_id, version)
) strict, without rowid;
