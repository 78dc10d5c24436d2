"""The view of a function on its run: settings and the payload, in each of the three ways functions are called."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hourbell.core.run.settle import Succeeded
from hourbell.store.base import LaneDemand
from hourbell.store.control.actor import Actor
from hourbell.store.postgres.function_connections import FunctionConnections
from tests.contract.steps import HOUR, MINUTE, plan_all
from tests.database import PostgresDatabase
from tests.targets.sql.steps import NOW, Node, function

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[3] / "docs" / "functions.md"
FACTS = function(
    """return jsonb_build_object('success', true, 'message', '', 'details', jsonb_build_array(
        current_setting('hourbell.run_id', true), current_setting('hourbell.job', true),
        current_setting('hourbell.scheduled_at', true)::timestamptz, current_setting('hourbell.trigger', true),
        current_setting('hourbell.attempt', true)));""",
    "public.facts()",
)
ECHO = """
create function public.{name}({parameters}) returns jsonb language sql as $$
select jsonb_build_object('success', true, 'message', '', 'details', {answer}) $$
"""


class Way:
    """A way to call functions: where they are made, which node calls them, and what the target says of it."""

    def __init__(self, node: Node, make: Callable[[str], Any], target: dict[str, object]) -> None:
        self.node, self.make, self.target = node, make, target

    async def details(self, name: str, **more: Any) -> Any:
        return (await self.node.succeed(name, **self.target, **more))["details"]


@pytest.fixture(params=["own database", "own login", "other database"])
async def way(request: pytest.FixtureRequest, postgres: PostgresDatabase, login: str) -> AsyncIterator[Way]:
    async with AsyncExitStack() as stack:
        if request.param == "other database":
            reports = await stack.enter_async_context(PostgresDatabase.made(migrated=False))
            others = {"reports": FunctionConnections(reports.url, size=2)}
            node = await stack.enter_async_context(Node.made(postgres, others=others))
            yield Way(node, reports.sql, {"database": "reports"})
        else:
            own = login if request.param == "own login" else None
            node = await stack.enter_async_context(Node.made(postgres, login=own))
            yield Way(node, postgres.sql, {})


async def test_a_function_reads_its_run_from_settings(way: Way) -> None:
    await way.make(FACTS)

    run_id, job, scheduled_at, trigger, attempt = await way.details("public.facts")

    row = await way.node.the_run()
    assert (run_id, job, trigger, attempt) == (str(row["id"]), "job-0", "manual", "1")
    assert scheduled_at == row["scheduled_at"].isoformat()


@pytest.mark.parametrize(("late", "trigger"), [(0 * HOUR, "schedule:0 0 1 1 *"), (HOUR, "catch_up:0 0 1 1 *")])
async def test_the_trigger_of_a_scheduled_run_names_its_schedule(way: Way, late: timedelta, trigger: str) -> None:
    await way.make(FACTS)
    node = way.node
    job = await node.add_job("public.facts", **way.target)
    await plan_all(node.engine, NOW)
    now = datetime(NOW.year + 1, 1, 1, tzinfo=UTC) + late
    await plan_all(node.engine, now)
    [run] = await node.engine.claim(node.id, now, now + HOUR, [LaneDemand(job.definition.lane, 1)])

    outcome, _ = await node.attempt(run, job.definition)

    assert isinstance(outcome, Succeeded)
    answer: Any = outcome.result
    assert answer["details"][3] == trigger


@pytest.mark.parametrize("kind", ["json", "jsonb"])
async def test_a_parameter_named_payload_gets_the_payload(way: Way, kind: str) -> None:
    await way.make(ECHO.format(name="echo", parameters=f"payload {kind}", answer="payload"))

    payload = {"days": [1, None, "x\u0301"], "deep": {"a": 1.5}}
    assert await way.details("public.echo", job={"payload": payload}) == payload


async def test_the_runs_own_payload_goes_before_the_jobs(way: Way) -> None:
    await way.make(ECHO.format(name="echo", parameters="payload jsonb", answer="payload"))
    node = way.node
    job = await node.add_job("public.echo", **way.target, job={"payload": {"of": "job"}})
    await node.control.trigger_job(job.id, job.id, Actor("somebody", NOW), {"of": "run"})
    [run] = await node.engine.claim(node.id, NOW, NOW + MINUTE, [LaneDemand(job.definition.lane, 1)])

    outcome, _ = await node.attempt(run, job.definition)

    assert outcome == Succeeded({"success": True, "message": "", "details": {"of": "run"}})


@pytest.mark.parametrize(
    ("parameters", "args", "payload", "arrives"),
    [
        ("days integer, payload jsonb", {"days": 3}, {"a": 1}, {"a": 1}),
        ("payload jsonb default '\"default\"'", {}, {"a": 1}, {"a": 1}),
        ("payload jsonb default '\"default\"'", {}, None, "default"),
        ("payload jsonb", {}, None, None),
        ("payload jsonb", {"payload": "of the args"}, {"a": 1}, "of the args"),
        ("payload jsonb", {"payload": None}, {"a": 1}, None),
        ("payload jsonb", {}, "a text", "a text"),
        ("payload jsonb", {}, [1, 2], [1, 2]),
    ],
)
async def test_args_go_before_the_payload_and_the_payload_before_a_default(
    way: Way, parameters: str, args: dict[str, object], payload: object, arrives: object
) -> None:
    await way.make(ECHO.format(name="echo", parameters=parameters, answer="payload"))

    assert await way.details("public.echo", args=args, job={"payload": payload}) == arrives


async def test_a_function_that_fits_without_the_payload_is_taken_first(way: Way) -> None:
    await way.make(ECHO.format(name="echo", parameters="", answer="'without'::text"))
    await way.make(ECHO.format(name="echo", parameters="payload jsonb", answer="payload"))

    assert await way.details("public.echo", job={"payload": {"a": 1}}) == "without"


async def test_a_payload_parameter_that_is_not_json_gets_no_payload(way: Way) -> None:
    await way.make(ECHO.format(name="echo", parameters="payload text", answer="payload"))

    failed = await way.node.fail("public.echo", **way.target, job={"payload": {"a": 1}})

    assert "no parameters fit the args given (none); there is public.echo(payload text)" in failed.error


async def test_a_payload_that_postgresql_cannot_hold_fails_for_good(way: Way) -> None:
    await way.make(ECHO.format(name="echo", parameters="payload jsonb", answer="payload"))
    run, definition = await way.node.claim("public.echo", **way.target)

    outcome, _ = await way.node.attempt(run._replace(payload="a\0b", has_payload=True), definition)

    assert "unsupported Unicode escape sequence" in getattr(outcome, "error", "")
    assert getattr(outcome, "retryable", None) is False


async def test_the_example_of_the_page_works(postgres: PostgresDatabase) -> None:
    [example] = re.findall(r"```sql\n(create function public.import_orders.*?)```", PAGE.read_text(), re.DOTALL)
    async with Node.made(postgres) as node:
        await postgres.sql(example)
        [job] = [job for job in (await node.control.get_job("import_orders"),) if job is not None]
        await node.control.trigger_job(job.id, job.id, Actor("somebody", NOW))
        [run] = await node.engine.claim(node.id, NOW, NOW + MINUTE, [LaneDemand("sql:default", 1)])

        outcome, _ = await node.attempt(run, job.definition)

    assert outcome == Succeeded({"success": True, "message": "import_orders"})
