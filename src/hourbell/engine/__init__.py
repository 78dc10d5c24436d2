"""The loops: planner, runner, settler, heartbeat, reaper, janitor, audit chain. No leader, no queue that could lose."""
