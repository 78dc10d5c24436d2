"""Named SQL statements: how they are loaded, shared by both databases and filled with the columns of jobs."""
