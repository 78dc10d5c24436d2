"""A URL called again and again, for real: retried until the receiver is there, signed, and each call done once."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.examples.processes import EXAMPLES, Receiver, free_port, run, until
from tests.faults.process import Server

FOLDER = EXAMPLES / "webhook"
SECONDS = 2  # instead of five minutes
SCHEDULE = ("--schedule", f"*/{SECONDS} * * * * *", "--waits", ",".join(["1s"] * 60))


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    """The example followed up to the point where calls arrive. The receiver is the last to start."""
    port = free_port()
    run(tmp_path, FOLDER / "register.py", f"http://127.0.0.1:{port}/", *SCHEDULE)
    secret = run(tmp_path, "-m", "hourbell", "secret", "create", "five-minutes")
    with Server(tmp_path) as server:
        server.wait_for("attempt_failed")
        with Receiver(tmp_path, FOLDER / "receiver.py", port, HOOK_SECRET=secret.strip()) as started:
            until(lambda: started.log.count("five-minutes of") >= 3, 60)
            yield started


def lines(receiver: Receiver) -> list[tuple[str, int]]:
    """The calls that were printed: the instant and the attempt."""
    return [(at, int(attempt)) for at, attempt in re.findall(r"five-minutes of (\S+), attempt (\d+)", receiver.log)]


def test_calls_are_retried_until_the_receiver_is_there_and_then_come_on_time(
    receiver: Receiver, tmp_path: Path
) -> None:
    until(lambda: {attempt > 1 for _, attempt in lines(receiver)} == {True, False}, 30, lambda: receiver.log)

    calls = lines(receiver)
    assert len({at for at, _ in calls}) == len(calls)
    assert all(int(at[17:19]) % SECONDS == 0 for at, _ in calls)
    with closing(sqlite3.connect(tmp_path / "received.db")) as received:
        kept = [at for (at,) in received.execute("select scheduled_at from calls where says = 'hello'")]
    assert kept[: len(calls)] == [at for at, _ in calls]


def test_a_request_that_is_not_signed_is_refused_and_does_nothing(receiver: Receiver, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{receiver.port}/"
    forged = {"job": "five-minutes", "scheduled_at": "forged", "payload": {"says": "hello"}}
    headers = {"webhook-id": "1", "webhook-timestamp": "1772355601", "webhook-signature": "v1,AAAA"}

    unsigned = httpx.post(url, json=forged, trust_env=False)
    wrong = httpx.post(url, json=forged, headers=headers, trust_env=False)

    assert (unsigned.status_code, unsigned.json()["reason"]) == (400, "missing_header")
    assert (wrong.status_code, wrong.json()["reason"]) == (401, "wrong_signature")
    assert "forged" not in receiver.log
    with closing(sqlite3.connect(tmp_path / "received.db")) as received:
        assert received.execute("select count(*) from calls where scheduled_at = 'forged'").fetchone() == (0,)


def test_registering_again_changes_the_job(tmp_path: Path) -> None:
    made = run(tmp_path, FOLDER / "register.py", "http://127.0.0.1:1/", "--schedule", "0 0 1 1 *")
    changed = run(tmp_path, FOLDER / "register.py", "http://127.0.0.1:1/", "--schedule", "0 0 1 2 *")

    assert re.fullmatch(r"five-minutes fires next at \d{4}-01-01 00:00:00\+00:00\n", made)
    assert re.fullmatch(r"five-minutes fires next at \d{4}-02-01 00:00:00\+00:00\n", changed)
