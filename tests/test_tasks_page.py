"""The examples of docs/tasks.md work: they form one program, and every job of it succeeds."""

import re
from pathlib import Path

import pytest

from hourbell.client import Client
from tests.faults.process import Server

pytestmark = pytest.mark.full

PAGE = Path(__file__).parents[1] / "docs" / "tasks.md"
RESULTS = {
    "nightly_report": {"days": 30, "is_repeated": False},
    "copy_orders": {"after": ":00:00+00:00"},
    "clean_up": 3,
    "send_letters": 3,
    "crunch": 332_833_500,
    "charge": {"charged": 990},
}


def test_every_job_of_the_page_succeeds(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "app.py").write_text("\n".join(blocks))
    with (
        Server(tmp_path, "--app", "app:scheduler") as server,
        Client(server.wait_until_serving().url) as client,
    ):
        runs = {name: client.jobs.trigger(name).run_id for name in RESULTS}
        ended = {name: client.runs.wait(run_id, timeout=60) for name, run_id in runs.items()}

    assert {name: run.state for name, run in ended.items()} == dict.fromkeys(RESULTS, "succeeded")
    results = {name: run.result for name, run in ended.items()}
    results["nightly_report"].pop("until")
    results["copy_orders"] = {"after": results["copy_orders"]["after"][-len(":00:00+00:00") :]}
    assert results == RESULTS
    assert [line.text for line in ended["clean_up"].attempts[0].log] == [
        f"{table}: nothing to do" for table in ("orders", "sessions", "carts")
    ]
