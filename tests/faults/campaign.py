"""The scenarios by name, and how one of them is run. To add one, write its module and a line in `SCENARIOS`."""

import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from hourbell.clock import elapsed
from tests.faults.scenarios import (
    alerts,
    blocked,
    clocks,
    connections,
    copies,
    database_crashes,
    disk_full,
    edits,
    frozen,
    functions,
    hostile_answers,
    isolation,
    kills,
    older_backup,
    outages,
    partitions,
    read_only,
    returned_standby,
    rolling,
    silence,
    soak,
    swallowed_commits,
    webhooks,
)
from tests.faults.verdict import Backend, Scenario, Setting, Verdict

BOTH: tuple[Backend, ...] = ("postgres", "sqlite")


@dataclass(frozen=True, slots=True)
class Entry:
    run: Scenario
    backends: tuple[Backend, ...] = BOTH


SCENARIOS: dict[str, Entry] = {
    "kills": Entry(kills.run),
    "frozen": Entry(frozen.run),
    "rolling": Entry(rolling.run),
    "clocks": Entry(clocks.run, ("postgres",)),
    "blocked": Entry(blocked.run, ("postgres",)),
    "edits": Entry(edits.run),
    "disk_full": Entry(disk_full.run, ("sqlite",)),
    "copies": Entry(copies.run, ("sqlite",)),
    "database_crashes": Entry(database_crashes.run, ("postgres",)),
    "outages": Entry(outages.run, ("postgres",)),
    "read_only": Entry(read_only.run, ("postgres",)),
    "returned_standby": Entry(returned_standby.run, ("postgres",)),
    "partitions": Entry(partitions.run, ("postgres",)),
    "swallowed_commits": Entry(swallowed_commits.run, ("postgres",)),
    "older_backup": Entry(older_backup.run, ("postgres",)),
    "connections": Entry(connections.run, ("postgres",)),
    "webhooks": Entry(webhooks.run),
    "isolation": Entry(isolation.run, ("postgres",)),
    "hostile_answers": Entry(hostile_answers.run, ("sqlite",)),
    "functions": Entry(functions.run, ("postgres",)),
    "alerts": Entry(alerts.run),
    "silence": Entry(silence.run),
    "soak": Entry(soak.run),
}


def chosen(only: Sequence[str] = (), backend: Backend | None = None) -> list[tuple[str, Backend]]:
    """Every scenario on every database it is for, or those asked for."""
    return [
        (name, each)
        for name, entry in SCENARIOS.items()
        for each in entry.backends
        if (not only or name in only) and backend in (None, each)
    ]


async def run_one(name: str, backend: Backend, *, seed: int, scale: float) -> Verdict:
    """Run one scenario in a folder of its own. One that breaks off has broken a promise, too."""
    began_at = elapsed()
    with tempfile.TemporaryDirectory(prefix=f"hourbell-{name}-") as folder:
        setting = Setting(backend, Path(folder), Random(f"{seed}:{name}:{backend}"), scale)
        try:
            verdict = await SCENARIOS[name].run(setting)
        except Exception as error:
            verdict = Verdict(name, backend)
            verdict.equal("the scenario came to its end", "yes", f"no: {type(error).__name__}")
            verdict.figures["error"] = traceback.format_exc()[-8_000:]
    verdict.seconds = elapsed() - began_at
    return verdict


def table(verdicts: Sequence[Verdict]) -> str:
    """Every promise of every verdict, one to a line."""
    rows = [("scenario", "database", "promise", "wanted", "seen", "ok")]
    for verdict in verdicts:
        for check in verdict.checks:
            holds = "yes" if check.holds else "NO"
            rows.append((verdict.scenario, verdict.backend, check.promise, check.wanted, check.seen, holds))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
