"""The full form: every server on both databases while its workers are killed, recycled and replaced all the time."""

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.servers.commands import KINDS
from tests.servers.ledger import Effect, Ledger, Planned
from tests.servers.process import WebServer, kill

pytestmark = [pytest.mark.anyio, pytest.mark.sweep]

TROUBLE = 40.0  # seconds


@pytest.mark.parametrize("ledger", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
async def test_no_instant_is_lost_or_run_twice_whatever_becomes_of_the_workers(
    tmp_path: Path, kind: str, ledger: Ledger
) -> None:
    chosen = KINDS[kind]
    with chosen.start(tmp_path, ledger.url, *chosen.recycling, tick_seconds=0.6) as server:
        await ledger.wait_for(2)

        done = await _trouble(server, Random(kind))

        until = await ledger.planned_until()
        await ledger.wait_for(5, since=until)
        await ledger.wait_until_settled(until)
        assert server.stop() == 0
        runs = await ledger.runs()
        print(_account(kind, runs, ledger.effects()), dict(done))
    await ledger.check(until)
    assert (runs[-1].instant - runs[0].instant).total_seconds() >= TROUBLE


async def _trouble(server: WebServer, random: Random) -> Counter[str]:
    """Kill a worker, use one up by requests, or replace all of them, at random times; return how often each.

    All are replaced twice only: gunicorn queues such signals, and workers that are replaced before they begin to work
    show nothing but that the others catch up.
    """
    done: Counter[str] = Counter()
    begun_at = time.monotonic()
    while (elapsed := time.monotonic() - begun_at) < TROUBLE:
        await asyncio.sleep(random.uniform(0.2, 2.5))
        if done["reload"] < elapsed // (TROUBLE / 3):
            done["reload"] += 1
            server.signal(signal.SIGHUP)
        elif random.random() < 0.6 and (workers := server.workers()):
            done["kill"] += 1
            kill(random.choice(workers))
        else:
            done["requests"] += 12
            for _ in range(12):
                await asyncio.to_thread(server.get, "/")
    return done


def _account(kind: str, runs: list[Planned], effects: list[Effect]) -> str:
    states, processes = Counter(run.state for run in runs), len({each.pid for each in effects})
    latest = max(each.late_seconds for each in effects)
    interrupted = sum(run.crashes for run in runs)
    return (
        f"{kind}: {len(runs)} instants {dict(states)}, {len(effects)} effects by {processes} processes, "
        f"{interrupted} interrupted, the latest {latest:.1f} s late;"
    )
