"""SQL targets: calls of PostgreSQL functions, exactly once in Hourbell's own database, at least once in others."""
