"""Webhooks drained by two processes, round after round, and their requests counted. It needs the benchmark's parts.

A round that does not match keeps the logs of the nodes, every request and the rows of runs and attempts; the error says
where.
"""

import os

from bench.limits.databases import Database, HookJob, Postgres, Sqlite
from bench.limits.webhook_parts import Setup, Sizes, delivered, open_setup, serving

from hourbell.sealing import KeyRing
from tests.faults.verdict import Setting, Verdict
from tests.server import server_url

ROUNDS = 10
HOOKS = 4_000  # in each round
LEAD = 0.5  # seconds until the runs of a round are ready
SCHEMES = ("http", "https")
SIZES = {"hooks": HOOKS, "jobs": 200, "ports": 4, "slots": 800, "nodes": 2}


def soak(setting: Setting) -> Verdict:
    verdict = Verdict("soak", setting.backend)
    rounds = setting.sized(ROUNDS, least=2)
    repeated = 0
    with open_setup(Sizes(**SIZES, rounds=rounds)) as setup:
        database = _database(setting, setup)
        try:
            with serving(database, setup) as nodes:
                for number in range(rounds):
                    delivered(nodes, database, SCHEMES[number % len(SCHEMES)], setup, HOOKS, lead=LEAD)
                    repeated += len(setup.repeats())
                    setup.receiver.ask("forget")
            retried = sum(row["attempt"] != "1" for row in database.rows("runs", ("attempt",)))
            received = setup.received()
        finally:
            database.drop()
    verdict.equal("requests", rounds * HOOKS, received)
    verdict.equal("attempts that came more than once", 0, repeated)
    verdict.equal("runs that needed a second attempt", 0, retried)
    return verdict


def _database(setting: Setting, setup: Setup) -> Database:
    """A database with as many jobs for each port and scheme."""
    database: Database = Sqlite(setup.folder) if setting.backend == "sqlite" else Postgres(server_url(), None)
    keys = KeyRing([setup.key], os.urandom)
    urls = [url for scheme in SCHEMES for url in setup.urls(scheme)]
    database.add_jobs([HookJob.of(f"job-{number}", urls[number % len(urls)], keys) for number in range(SIZES["jobs"])])
    return database
