"""The tables, on SQLite and on PostgreSQL, behind one protocol in domain verbs."""
