"""The doctor amid random trouble: whatever happens, a database that only Hourbell writes to shows no error."""

from random import Random

import pytest

from hourbell.core.doctor.findings import Finding
from hourbell.store.doctor import Expectations, examine
from hourbell.store.migrations import load_migrations
from hourbell.store.sqlite.doctor import SqliteDoctorStore
from tests.engine.nodes import DAY, LEASE, MINUTE, TZDATA, Cluster, virtually
from tests.engine.trouble import ACTS, CALM, Trouble

EXPECTED = Expectations(
    migrations=load_migrations("hourbell.store.sqlite"),
    tzdata=TZDATA,
    retention=30 * DAY,
    lease=LEASE,
    stuck_after=10 * MINUTE,
)


# True while nodes are frozen or dead, or time has just stepped.
STANDSTILL = {"job_overdue", "lease_expired", "job_unattended", "runs_unattended"}


async def errors(cluster: Cluster) -> list[Finding]:
    store = SqliteDoctorStore(cluster.database.path)
    examined = await examine(store, cluster.now(), EXPECTED)
    await store.close()
    assert (examined.jobs, examined.runs) == (len(cluster.made), len(await cluster.runs()))
    return [finding for finding in examined.findings if finding.is_error]


async def has_no_error(cluster: Cluster, seed: int) -> None:
    random = Random(seed)
    cluster.latency = random.choice([0, 0.001, 0.02])
    cluster.settings = cluster.settings.__class__(slots=random.choice([3, 10, 1_000]), poison_after=1_000)
    trouble = Trouble(cluster, random)
    cluster.script["*"] = trouble.deliver
    await cluster.start_many(3)
    await trouble.add_jobs()
    for _ in range(ACTS):
        await trouble.act()
        assert [found for found in await errors(cluster) if found.check.name not in STANDSTILL] == []
    await cluster.start()
    await cluster.advance(2.5 * LEASE + CALM)

    assert await errors(cluster) == []


@pytest.mark.parametrize("seed", [20, pytest.param(21, marks=pytest.mark.full)])
def test_a_database_in_trouble_shows_no_error(seed: int) -> None:
    virtually(has_no_error)(seed=seed)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(2_000, 2_100))
def test_a_database_in_trouble_shows_no_error_at_length(seed: int) -> None:
    virtually(has_no_error)(seed=seed)
