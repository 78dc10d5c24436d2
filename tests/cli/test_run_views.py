"""Views of attempts: a multi-line error keeps its lines."""

from dataclasses import replace
from typing import Any

from hourbell.cli.run.waiting import Story
from hourbell.cli.shared.views import run_lines
from hourbell.client import Run
from hourbell.client.reading import read

ERROR = 'Traceback (most recent call last):\n  File "jobs.py", line 7, in report\n    \x1b[31mfail()\nKeyError: 1'
LINES = ["Traceback (most recent call last):", '  File "jobs.py", line 7, in report', "    �[31mfail()", "KeyError: 1"]


def a_run(state: str = "failed", **attempt: Any) -> Run:
    tried = {"number": 1, "outcome": "failed", "finished_at": "2026-11-02T08:00:05Z"} | attempt
    return read(
        Run,
        {
            "id": "5b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e",
            "job_id": "6b0c7a52-6c1f-5b7e-9d43-0f1c2a3b4d5e",
            "state": state,
            "kind": "scheduled",
            "scheduled_at": "2026-11-02T08:00:00Z",
            "ready_at": "2026-11-02T08:00:35Z",
            "attempts": [tried],
        },
    )


def shown(run: Run) -> list[str]:
    lines = run_lines(run, "UTC")
    return lines[lines.index("") + 1 :]


def test_a_traceback_is_shown_line_by_line() -> None:
    lines = shown(a_run(error=ERROR, started_at="2026-11-02T08:00:01Z"))

    assert lines[1] == f"error:      {LINES[0]}"
    assert lines[2:5] == [f"            {line}" for line in LINES[1:]]


def test_an_attempt_without_a_start_time_is_shown_as_unknown() -> None:
    assert "started:    unknown" in shown(a_run(outcome="lost", error="the lease ran out"))


def test_a_late_success_of_a_failed_run_is_shown() -> None:
    run = replace(a_run(outcome="lost", error="the lease ran out", late_outcome="succeeded"), late_success=1)

    assert "late success:  attempt 1 succeeded; its answer came after its lease was lost" in run_lines(run, "UTC")
    assert shown(run)[:2] == ["attempt 1:     lost", "late outcome:  succeeded"]


def test_waiting_prints_a_traceback_line_by_line() -> None:
    first, *others = Story("UTC").news(a_run("retrying", error=ERROR))

    assert first == "attempt 1 failed; tried again at 2026-11-02 08:00:35 UTC"
    assert others == [f"  {line}" for line in LINES]


def test_waiting_prints_a_short_error_in_one_line() -> None:
    assert Story("UTC").news(a_run(error="HTTP 501")) == ["attempt 1 failed: HTTP 501", "failed"]
