"""Declarations of jobs in a program, and errors raised where they are written."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from hourbell import Scheduler
from hourbell.core.run.policies import CatchUp, Overlap


async def greet(run: object, name: str = "you") -> str:
    return f"{run} {name}"


def silent() -> None: ...


def generator(run: object) -> Any:
    yield run


def test_a_job_calls_its_function_by_its_dotted_name() -> None:
    scheduler = Scheduler(source="shop")
    scheduler.job("0 9 * * *", timezone="Europe/Paris", args={"name": "Ada"}, timeout=timedelta(seconds=5))(greet)

    job = scheduler.jobs["greet"]
    target = {"type": "task", "name": f"{__name__}.greet", "args": {"name": "Ada"}, "timeout": "5s"}
    assert (job.target, job.lane, job.managed_by, job.source) == (target, f"task:{__name__}.greet", "code", "shop")
    assert list(scheduler.tasks) == [f"{__name__}.greet"]


def test_a_payload_is_as_long_as_its_utf_8() -> None:
    payload = ["é" * 524_286]  # 1 MiB with quotes and brackets; twice as much where each is escaped
    scheduler = Scheduler()
    scheduler.register("greet", "@daily", greet, payload=payload)

    assert scheduler.jobs["greet"].payload == payload


def test_policies_have_the_defaults_of_the_schedule() -> None:
    scheduler = Scheduler()
    scheduler.job("@daily", name="daily", overlap="skip", late_after="1m")(greet)
    scheduler.job("yearly 02-29 09:00", name="birthday")(greet)

    assert (scheduler.jobs["daily"].catch_up, scheduler.jobs["birthday"].catch_up) == (CatchUp.LATEST, CatchUp.ALL)
    assert (scheduler.jobs["daily"].overlap, scheduler.jobs["daily"].late_after) == (Overlap.SKIP, timedelta(minutes=1))


@pytest.mark.parametrize(
    ("settings", "function", "says"),
    [
        ({"schedule": "61 * * * *"}, greet, "invalid schedule: minute field, column 1: 61 is outside 0-59"),
        ({"name": "has space"}, greet, "name: 'has space' cannot be a job's name; write letters, digits, _ and -"),
        ({"timeout": 0}, greet, "timeout is 0, which is not a duration from 1s to 36500d; write a text such as 90s"),
        ({"timeout": "5 s"}, greet, "timeout is '5 s'"),
        ({"max_age": "soon"}, greet, "max_age is 'soon'"),
        ({"overlap": "never"}, greet, "write one of allow, queue_all, queue_one, skip, cancel_running"),
        ({"retry": 3}, greet, "retry is 3; write one of default, fixed, exponential, none, or your own"),
        (
            {"retry": {"attempts": 0, "backoff": ["1s"]}},
            greet,
            "retry.attempts: attempts is 0; write a whole",
        ),
        ({"tags": ["x" * 1_000]}, greet, "tags.0: "),
        (
            {"starts_at": datetime(2026, 1, 1)},  # noqa: DTZ001
            greet,
            "starts_at is datetime.datetime(2026, 1, 1, 0, 0); write",
        ),
        ({"jitter": "-1s"}, greet, "jitter is '-1s'"),
        ({"payload": {1, 2}}, greet, "the payload of 'greet' must be JSON"),
        (
            {"payload": "x" * 1_048_575},
            greet,
            "the payload of 'greet' has 1,048,577 bytes of JSON, and at most 1,048,576",
        ),
        ({"args": {"name": object()}}, greet, "the args of 'greet' must be JSON"),
        ({"args": {"nobody": 1}}, greet, "got an unexpected keyword argument 'nobody'"),
        ({"args": ["Ada"]}, greet, "the args of 'greet' must be keyword arguments, not list; write args={'days': 30}"),
        ({"max_instances": 1}, greet, "there is no option max_instances; write overlap='skip'"),
        ({"hour": 9, "minute": 0}, greet, "there is no option hour or minute; write the schedule as text, as in '0 9"),
        ({"minutes": 15}, greet, "or 'every 15m'"),
        ({"misfire_grace_time": 60}, greet, "write catch_up='none' with late_after='1s', or catch_up_window="),
        ({"coalesce": True}, greet, "catch_up='latest'"),
        ({"id": "a", "kwargs": {}}, greet, "there is no option id; write name=, and no option kwargs; write args="),
        ({"timezon": "UTC"}, greet, "there is no option timezon; did you mean timezone?"),
        ({"xyz": 1}, greet, "there is no option xyz; there are alert_policy, args, catch_up, "),
        ({}, "greet", "'greet' is not a function; pass the function itself"),
        ({"name": "greet"}, 7, "7 is not a function"),
        ({}, partial(greet, name="Ada"), "has no name of its own; write scheduler.task(it, name='reports.send') first"),
        ({}, silent, "its first parameter is the run"),
        ({}, generator, "is a generator"),
    ],
)
def test_an_invalid_option_is_refused_at_its_declaration(
    settings: dict[str, Any], function: Callable[..., Any], says: str
) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is what matters
        Scheduler().job(**{"schedule": "* * * * *", **settings})(function)

    assert says in str(refused.value)


def test_a_call_with_its_parts_in_another_order_says_so() -> None:
    with pytest.raises(ValueError, match="a job's name comes first"):
        Scheduler().register(greet, "@daily", "greet")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"write @scheduler\.task\(name='greet'\)"):
        Scheduler().task("greet")  # type: ignore[call-overload]


def test_a_callable_without_a_name_can_be_given_one() -> None:
    scheduler = Scheduler()
    called = scheduler.task(partial(greet, name="Ada"), name="greet.ada")
    scheduler.register("daily", "@daily", called, description="")

    assert scheduler.jobs["daily"].target["name"] == "greet.ada"


def test_a_decorator_without_a_schedule_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="needs a schedule"):
        Scheduler().job(greet)  # type: ignore[arg-type]


def test_a_name_taken_twice_is_refused() -> None:
    scheduler = Scheduler()
    scheduler.job("@daily")(greet)

    with pytest.raises(ValueError, match="a job named 'greet' is registered already"):
        scheduler.job("@hourly")(greet)


def test_an_error_that_names_its_option_is_reported_once() -> None:
    with pytest.raises(ValueError, match=r"^retry is 3; write one of"):
        Scheduler().job("@daily", retry=3)(greet)
