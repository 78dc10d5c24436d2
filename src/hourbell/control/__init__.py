"""Operations of users: the only entry point to jobs, runs and their secrets."""
