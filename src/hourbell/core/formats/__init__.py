"""Files that hold jobs: the jobs file and the crontab."""
