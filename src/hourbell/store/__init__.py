"""The database tables on SQLite and PostgreSQL, behind one protocol of domain verbs."""
