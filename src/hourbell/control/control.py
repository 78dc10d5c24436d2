"""All operations of users in one object, for the API."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from hourbell.control.access import Access
from hourbell.control.alerts import Alerts
from hourbell.control.applying import Applying
from hourbell.control.backfill import Backfills
from hourbell.control.changes import Watch
from hourbell.control.demo import Demo
from hourbell.control.history import History
from hourbell.control.imports import Imports
from hourbell.control.job_bulk import JobBulk
from hourbell.control.jobs import Jobs
from hourbell.control.ledger import Ledger
from hourbell.control.run_counts import RunCounts
from hourbell.control.runs import Runs
from hourbell.control.secrets import Secrets
from hourbell.control.timeline import Timelines


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    alerts: Alerts
    jobs: Jobs
    runs: Runs
    history: History
    ledger: Ledger
    timelines: Timelines
    backfills: Backfills
    applying: Applying
    imports: Imports
    job_bulk: JobBulk
    demo: Demo
    secrets: Secrets
    access: Access
    watch: Watch
    run_counts: RunCounts
    now: Callable[[], datetime]
