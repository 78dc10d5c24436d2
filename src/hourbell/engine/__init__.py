"""The engine's loops: planner, runner, settler, heartbeat, reaper, janitor and audit chain.

There is no leader election, and no queue outside the database that could lose runs.
"""
