"""Files that processes leave behind, even those killed while writing."""

from pathlib import Path

from tests.faults.receiver import read_lines

FACTS = "5b0c7a52-6c1f-8b7e-9d43-0f1c2a3b4d5e 6f7c1f4e-2f0a-4d8e-9d6f-3f6a7b8c9d0e 2026-03-02T09:00:00+00:00 1 1 node-1"


def test_an_incomplete_line_is_skipped_and_the_next_one_is_read(tmp_path: Path) -> None:
    whole, other = f"begun {FACTS} 10.5\n", f"ended {FACTS} 11.5\n"
    received = tmp_path / "received"
    received.write_text(whole + whole[:40] + other + whole[:-1] + other + whole[:70])

    assert [(line.what, line.at) for line in read_lines(received)] == [
        ("begun", 10.5),
        ("ended", 11.5),
        ("ended", 11.5),
    ]
    assert read_lines(received, len(whole)) == read_lines(received)[1:]
