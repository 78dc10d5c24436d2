"""SQLite through apsw: one file for the processes of one host, or memory for simulation."""
