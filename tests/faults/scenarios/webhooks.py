"""Signed webhooks from three processes, one of them killed with -9 again and again, and new secrets in the middle.

Whatever a receiver gets twice is the same to the last byte and was cut short the first time, and what may happen at
most once reaches it at most once.
"""

import asyncio
import base64
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

from hourbell.clock import elapsed
from hourbell.core.job.definition import Definition
from hourbell.core.job.target import lane_of
from hourbell.core.run.policies import CatchUp, Delivery, RetryPolicy
from hourbell.sealing import KEY_BYTES, KeyRing
from hourbell.store.control.actor import Actor
from tests.database import Database
from tests.faults.accounts import Row
from tests.faults.books import Books, check_books, none_of, percentile
from tests.faults.databases import come_to_rest, database_for, url_of
from tests.faults.fleet import LEASE, REAP, START, Fleet, Member, until
from tests.faults.hooks import Hooks, Request, deliveries
from tests.faults.scenarios.kills import NODES, PAUSE
from tests.faults.signatures import Signatures
from tests.faults.verdict import Setting, Verdict

KILLS = 10
JOBS = {Delivery.AT_LEAST_ONCE: 100, Delivery.AT_MOST_ONCE: 40}
HELD = {Delivery.AT_LEAST_ONCE: 0.15, Delivery.AT_MOST_ONCE: 0.5}  # seconds until the receiver answers
KEEP_OLD = LEASE + 2.0  # seconds for which an old secret signs too
RETRY = RetryPolicy(20, (timedelta(0),))
BY = "campaign"


async def run(setting: Setting) -> Verdict:
    verdict = Verdict("webhooks", setting.backend)
    kills = setting.sized(KILLS, least=3)
    key = os.urandom(KEY_BYTES)
    async with database_for(setting.backend) as database:
        signatures = Signatures(database, KeyRing([key], os.urandom))
        environment = {"HOURBELL_SECRET_KEY": base64.b64encode(key).decode()}
        with Hooks(setting.folder) as hooks, Fleet(setting.folder, url_of(database), **environment) as fleet:
            names = await _make_jobs(database, setting, hooks)
            for name in names:
                await signatures.create(name)
            await fleet.start_all(NODES)
            for number in range(kills):
                await asyncio.sleep(setting.random.uniform(*PAUSE))
                await until(lambda: all(member.is_serving for member in fleet.running), START, "all of them serve")
                running = fleet.running if number % 2 else await _delivering(fleet, hooks)
                fleet.kill(setting.random.choice(running))
                fleet.start()
                signatures.check(hooks.requests())
                if number == kills // 3:
                    for name in names:
                        await signatures.rotate(name, KEEP_OLD)
            await asyncio.sleep(max(0.0, signatures.settled_at + 1 - elapsed()))
            await come_to_rest(database, 3 * LEASE + REAP + 10)
            exits = await fleet.stop_all()
            requests = hooks.requests()
        signatures.check(requests)
        books = await Books.read(database, fleet)
    ids = {job["name"]: job["id"] for job in books.jobs}
    books = replace(books, lines=deliveries(requests, ids))
    verdict.at_least("kills", kills, sum(cut.kind == "kill" for cut in fleet.cuts))
    check_books(verdict, _of_delivery(books, Delivery.AT_LEAST_ONCE))
    verdict.equal("instants skipped", 0, books.skipped)
    _check_requests(verdict, requests, books)
    recoveries = books.recoveries()
    verdict.at_least("attempts cut by a kill and recovered", kills // 4, len(recoveries))  # kills strike at random
    _check_at_most_once(verdict, _of_delivery(books, Delivery.AT_MOST_ONCE), requests)
    _check_signatures(verdict, signatures)
    verdict.equal("processes that did not stop in order at the end", 0, sum(code != 0 for code in exits))
    verdict.figures |= {
        "cut attempts": len(recoveries),
        "recovery p50": round(percentile(recoveries, 50), 2),
        "recovery p99": round(percentile(recoveries, 99), 2),
    }
    return verdict


async def _make_jobs(database: Database, setting: Setting, hooks: Hooks) -> list[str]:
    """Jobs of both kinds that fire every second; their names."""
    control, now = database.control(), await database.engine().sample_time()
    made = []
    for delivery, number in JOBS.items():
        target = {"type": "http", "url": hooks.url(after=HELD[delivery])}
        for each in range(setting.sized(number, least=number // 2)):
            definition = Definition(
                f"{delivery}-{each:03}",
                "* * * * * *",
                target,
                payload={"customer": f"Zoë {each}", "amounts": [each, each / 7]},
                lane=lane_of(target),
                catch_up=CatchUp.ALL,
                retry=RETRY,
                delivery=delivery,
                jitter=timedelta(seconds=1),
            )
            await control.create_job(definition, uuid4(), Actor(BY, now))
            made.append(definition.name)
    return made


async def _delivering(fleet: Fleet, hooks: Hooks) -> list[Member]:
    """Processes in the middle of what may happen only once; a random process may have sent nothing yet."""
    end = elapsed() + START
    while True:
        fresh = elapsed() - HELD[Delivery.AT_MOST_ONCE] / 2
        senders = {
            each.member for each in hooks.requests() if each.at > fresh and each.job.startswith(Delivery.AT_MOST_ONCE)
        }
        if found := [member for member in fleet.running if member.name in senders]:
            return found
        assert elapsed() < end, "nothing is delivered"
        await asyncio.sleep(0.05)


def _of_delivery(books: Books, delivery: Delivery) -> Books:
    """Return the accounting of the jobs that are delivered in this way."""
    jobs = {job["id"] for job in books.jobs if job["delivery"] == delivery}
    runs = [run for run in books.runs if run["job_id"] in jobs]
    ids = {run["id"] for run in runs}
    return replace(
        books,
        jobs=[job for job in books.jobs if job["id"] in jobs],
        runs=runs,
        skips=[skip for skip in books.skips if skip["job_id"] in jobs],
        attempts={key: row for key, row in books.attempts.items() if key[0] in ids},
        lines=[line for line in books.lines if line.job_id in jobs],
    )


def _check_requests(verdict: Verdict, requests: Sequence[Request], books: Books) -> None:
    none_of(verdict, "runs whose requests are not the same to the last byte", _changed(requests))
    none_of(verdict, "requests by a process that did not hold the run", _strangers(requests, books))
    verdict.figures["requests"] = len(requests)


def _changed(requests: Sequence[Request]) -> list[object]:
    """Instants whose requests carry several ids or bodies."""
    of_instant = defaultdict(set)
    for request in requests:
        headers = request.headers
        of_instant[request.job, request.scheduled_at].add((headers["webhook-id"], request.body))
        of_instant[request.job, request.scheduled_at].add((headers["idempotency-key"], request.body))
    return [instant for instant, kinds in of_instant.items() if len(kinds) > 1]


def _strangers(requests: Sequence[Request], books: Books) -> list[Request]:
    held_by = {key: books.members.get(row["node"]) for key, row in books.attempts.items()}
    return [request for request in requests if held_by.get(request.key) != request.member]


def _check_at_most_once(verdict: Verdict, books: Books, requests: Sequence[Request]) -> None:
    received = defaultdict(list)
    for request in requests:
        received[request.run_id].append(request)
    none_of(verdict, "at most once: instants without exactly one place", books.misplaced())
    none_of(verdict, "at most once: requests without a claimed attempt", books.unclaimed())
    none_of(verdict, "at most once: ids received twice", [run for run in books.runs if len(received[run["id"]]) > 1])
    none_of(verdict, "at most once: runs that neither succeeded nor were given up", _wrong_ends(books.runs, received))
    lost = sum(run["reason"] == "lost" for run in books.runs)
    verdict.at_least("at most once: runs given up because they may have happened", 1, lost)
    verdict.figures |= {"at most once: runs": len(books.runs), "at most once: given up": lost}


def _wrong_ends(runs: Sequence[Row], received: Mapping[UUID, Sequence[Request]]) -> list[Row]:
    """Runs that succeeded although no request was answered, and those that failed but for a death in the middle."""
    answered = {run_id for run_id, requests in received.items() if any(each.status == 200 for each in requests)}
    return [
        run
        for run in runs
        if (run["state"], run["reason"]) != ("failed", "lost")
        and (run["state"] != "succeeded" or run["id"] not in answered)
    ]


def _check_signatures(verdict: Verdict, signatures: Signatures) -> None:
    none_of(verdict, "requests that do not verify as they must", signatures.faults)
    for which, reported in (((0,), "the old secret"), ((0, 1), "both"), ((1,), "the new one")):
        verdict.at_least(f"requests that verify with {reported}", 1, signatures.verified[which])
    verdict.figures["requests by the secrets they verify with"] = {
        "+".join(map(str, which)): number for which, number in sorted(signatures.verified.items())
    }
