"""Runs by the beginning or end of their ids: the only match, or an error that lists the matches."""

from uuid import UUID

import pytest

from hourbell.cli.run.ids import only_run, read_part
from hourbell.client import Run
from hourbell.client.reading import read

FIRST, SECOND = "5b0c7a52-6c1f-8b7e-9d43-0f1c2a3b4d5e", "5b0c7a52-7000-8b7e-9d43-0f1c2a3b4d5f"


def run(id: str) -> Run:  # noqa: A002
    raw = {"job_id": FIRST, "kind": "manual", "scheduled_at": "2026-01-01T00:00:00Z", "job_name": "report"}
    return read(Run, {**raw, "id": id, "state": "failed"})


def test_a_prefix_selects_the_only_run_that_begins_with_it() -> None:
    assert only_run([run(FIRST), run(SECOND), run(FIRST)], "5b0c7a52-6") == UUID(FIRST)


def test_a_suffix_selects_the_only_run_that_ends_with_it() -> None:
    assert only_run([run(FIRST), run(SECOND), run(FIRST)], "3b4d5f") == UUID(SECOND)


def test_an_ambiguous_prefix_is_refused_with_the_matching_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        only_run([run(FIRST), run(SECOND)], "5b0c7a")
    said = capsys.readouterr().err

    assert ended.value.code == 2
    assert "2 ids of runs begin or end with 5b0c7a; write more of one's end" in said
    assert f"  {SECOND}  report, failed\n" in said


def test_an_id_may_be_complete_or_a_part() -> None:
    assert read_part(FIRST) == UUID(FIRST)
    assert read_part("5B0C7A52-6c") == "5b0c7a52-6c"
    assert read_part("9D43-0f1c2a3b4d5e") == "9d43-0f1c2a3b4d5e"
    assert read_part("2a3b4d5e") == "2a3b4d5e"


@pytest.mark.parametrize(
    "text", ["5b0c7", "5b0c7-", "hourbell", "5b0c7a52--", f"{FIRST}f", "xxxxxx", "-9d43-", "6c1f-8b7e"]
)
def test_text_that_matches_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="first or last 6 characters"):
        read_part(text)
