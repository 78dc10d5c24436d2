"""The loops: planner, runner, settler, heartbeat, reaper and janitor. No leader, no queue that could lose anything."""
