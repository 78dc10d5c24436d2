"""`hourbell job`: define, change, run and inspect jobs."""
