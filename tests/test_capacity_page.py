"""The queries and the retry times of docs/capacity.md hold."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from hourbell.core.run.policies import RETRY_PRESETS, RetryPolicy
from hourbell.core.run.settle import Failed
from hourbell.core.values.readers import show_duration
from tests.contract.steps import add_job, claim, finish, plan_all
from tests.core.values import HOUR, MINUTE, T0
from tests.database import PostgresDatabase

pytestmark = pytest.mark.anyio
PAGE = (Path(__file__).parents[1] / "docs" / "capacity.md").read_text("utf-8")
QUERIES = dict(re.findall(r"^```sql\n-- (\w+)[^\n]*\n(.*?);\n```", PAGE, re.MULTILINE | re.DOTALL))


def waits_of(policy: RetryPolicy) -> list[timedelta]:
    waits = (policy.wait_after(failures) for failures in range(1, policy.attempts + 1))
    return [wait for wait in waits if wait is not None]


def test_the_page_has_the_waits_of_every_preset() -> None:
    rows = ["| `retry` | attempts | waits | all waits |", "| --- | --- | --- | --- |"]
    for name, policy in RETRY_PRESETS.items():
        waits = waits_of(policy)
        shown = ", ".join(str(show_duration(wait)) for wait in waits) or "none"
        rows.append(f"| `{name}` | {policy.attempts} | {shown} | {show_duration(sum(waits, timedelta()))} |")

    assert "\n".join(rows) in PAGE


async def test_the_queries_find_what_they_say(postgres: PostgresDatabase) -> None:
    store, control = postgres.engine(), postgres.control()
    for name, lane in (("waits", "a"), ("broke", "b")):
        await add_job(control, name, lane=lane)
    await plan_all(store, T0 + MINUTE)
    [run] = await claim(store, lane="b")
    await finish(store, [run], Failed("no", retryable=False), T0 + HOUR)

    found = {name: [row["name"] for row in await postgres.connection.fetch(sql)] for name, sql in QUERIES.items()}

    assert found == {"stuck": ["waits"], "orphans": ["waits"], "late": ["broke"], "failed": ["broke"]}
