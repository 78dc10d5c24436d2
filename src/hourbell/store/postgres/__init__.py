"""PostgreSQL, over asyncpg with hand-written SQL."""
