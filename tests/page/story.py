"""Two days in the life of ten jobs, written by the real engine under a virtual clock: the data of the screenshots.

They end on a Sunday on which the clocks of Europe went forward. A receiver fails since noon, the nodes were down for
48 minutes, one job is too slow for its schedule and loses runs, one waits for its next attempt, and one is paused with
a note.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw

from hourbell.store.control.actor import Actor
from hourbell.testing import Rehearsal
from hourbell.testing.inline import answer_of
from tests.page.story_app import scheduler

END = datetime(2026, 3, 29, 12, 27, tzinfo=UTC)  # no run is in progress, and none is due for three minutes
OUTAGE = (END - timedelta(hours=9, minutes=39), END - timedelta(hours=8, minutes=51))
BILLING = "https://billing.example/exports"
UNAVAILABLE = '{"error": "upstream connect error or disconnect before headers", "retry_after": 60}'
_PAUSED_AT = END - timedelta(hours=3, minutes=12)
_DAYS = 2


def _http(path: str, **options: object) -> dict[str, object]:
    return {"type": "http", "url": f"https://shop.example/{path}", **options}


def _task(name: str) -> dict[str, object]:
    return {"type": "task", "name": f"shop.{name}", "timeout": "2h"}


JOBS: tuple[dict[str, object], ...] = (
    {
        "name": "invoice-export",
        "schedule": "*/15 * * * *",
        "target": {
            "type": "http",
            "url": BILLING,
            "headers": {"Content-Type": "application/json", "X-Tenant": "shop-eu"},
            "timeout": "1m",
        },
        "payload": {"format": "ubl", "since": "previous_success"},
        "retry": {"attempts": 2, "backoff": ["30s"]},
        "catch_up": "none",
        "tags": ["billing"],
        "description": "Sends new invoices to the billing provider.",
    },
    {
        "name": "warehouse-sync",
        "schedule": "*/10 * * * *",
        "target": _task("warehouse_sync"),
        "overlap": "skip",
        "tags": ["stock"],
    },
    {
        "name": "nightly-report",
        "schedule": "45 22 * * *",
        "timezone": "America/New_York",
        "target": _task("nightly_report"),
        "late_after": "5m",
        "tags": ["reports"],
    },
    {
        "name": "customer-birthdays",
        "schedule": "5 * * * *",
        "target": _http("customers/birthdays"),
        "tags": ["mail"],
        "catch_up": "none",
    },
    {"name": "db-backup", "schedule": "10 3-21/6 * * *", "target": _task("db_backup"), "tags": ["ops"]},
    {
        "name": "search-reindex",
        "schedule": "30 2 * * *",
        "timezone": "Europe/Paris",
        "target": _task("search_reindex"),
        "tags": ["ops"],
    },
    {"name": "cache-warmup", "schedule": "35 * * * *", "target": _http("cache/warm"), "tags": ["ops"]},
    {
        "name": "payroll-run",
        "schedule": "0 17 L * *",
        "timezone": "Europe/Berlin",
        "target": _http("payroll/run", timeout="1m"),
        "retry": "none",
        "tags": ["billing"],
        "description": "Asks the payroll service to pay all salaries of the month.",
    },
    {
        "name": "mail-digest",
        "schedule": "0 7-21/2 * * *",
        "timezone": "Europe/Berlin",
        "target": _http("mail/digest"),
        "tags": ["mail"],
    },
    {"name": "cleanup-sessions", "schedule": "20 */2 * * *", "target": _http("sessions/cleanup"), "tags": ["ops"]},
)
_TAKES = {
    "cache/warm": "26s",
    "customers/birthdays": "12s",
    "mail/digest": "28s",
    "sessions/cleanup": "9s",
}


def write_story(path: Path, days: float = _DAYS) -> None:
    """Write a database whose last `days` days end at END."""
    with Rehearsal() as story:
        story.at(END - timedelta(days=days))
        story.load(scheduler)
        for job in JOBS:
            story.add(**job)
        story.answer(BILLING, body='{"accepted": 42}', takes="21s")
        for place, seconds in _TAKES.items():
            story.answer(f"https://shop.example/{place}", body='{"ok": true}', takes=seconds)
        story.answer("https://shop.example/cache/warm", error="connection reset by peer", times=1)
        story.answer("https://shop.example/cache/warm", body='{"ok": true}', takes="26s")
        story.outage(*OUTAGE)
        story.advance_to(_PAUSED_AT)
        paused = story._jobs.id_of("mail-digest")
        by, until = Actor("ops", _PAUSED_AT), END + timedelta(hours=3, minutes=33)
        answer_of(story._control.pause_job(paused, by, note="database maintenance", until=until, cancel_waiting=False))
        story.advance_to(END - timedelta(hours=2, minutes=20))
        story.answer(BILLING, status=503, body=UNAVAILABLE, headers={"Content-Type": "application/json"}, takes="1s")
        story.advance_to(END - timedelta(minutes=10))
        cleanup = "https://shop.example/sessions/cleanup"
        story.answer(cleanup, status=502, body="<h1>502 Bad Gateway</h1>", headers={"Content-Type": "text/html"})
        story.advance_to(END)
        _save(story._service.database.path, path)


def _save(memory: str, path: Path) -> None:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    source, copy = apsw.Connection(memory, flags=flags), apsw.Connection(str(path))
    with copy.backup("main", source, "main") as backup:
        backup.step()
    source.close()
    copy.close()
