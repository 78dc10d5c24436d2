"""Stored errors: where the exception was raised in the task, as Python prints it."""

import asyncio

import pytest

import hourbell
from hourbell.core.run.settle import Failed
from hourbell.store.errors import StoreUnavailable
from hourbell.targets.task_run import MAX_ERROR_CHARACTERS, Run
from tests.targets.task import functions
from tests.targets.task.steps import Attempt

pytestmark = pytest.mark.anyio


def files_in(error: str) -> set[str]:
    lines = [line.strip() for line in error.splitlines()]
    return {line.split('"')[1].rpartition("/")[2] for line in lines if line.startswith("File ")}


async def fail_async(_: Run) -> None:
    raise KeyError("gone")


@pytest.mark.parametrize(
    ("function", "isolate"), [(fail_async, False), (functions.fail, False), (functions.fail, True)]
)
async def test_an_error_begins_with_the_frame_of_the_function(function: object, isolate: bool) -> None:
    first, second, *_, last = (await Attempt(function, isolate=isolate).error()).splitlines()  # type: ignore[arg-type]

    assert (first, last) == ("Traceback (most recent call last):", "KeyError: 'gone'")
    assert second.endswith(("in fail", "in fail_async"))


async def test_a_function_that_cannot_be_called_so_has_no_frames() -> None:
    error = await Attempt(fail_async, {"days": 3}).error()

    assert error == "TypeError: fail_async() got an unexpected keyword argument 'days'"


async def test_frames_between_the_function_and_its_error_are_left_out() -> None:
    async def function(run: Run) -> None:
        async with asyncio.timeout(0.01), run.transaction():
            await asyncio.Event().wait()

    error = await Attempt(function).error()

    assert files_in(error) <= {"test_errors.py", "locks.py"}
    assert error.endswith("\nTimeoutError")


async def test_the_cause_of_an_exception_is_in_the_error() -> None:
    async def function(_: Run) -> None:
        try:
            raise KeyError("gone")
        except KeyError as error:
            raise ValueError("no such order") from error

    error = await Attempt(function).error()

    assert error.index("KeyError: 'gone'") < error.index("direct cause") < error.index("ValueError: no such order")
    assert files_in(error) == {"test_errors.py"}


async def test_the_errors_of_an_exception_group_are_listed_without_our_frames() -> None:
    async def function(run: Run) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail_async(run))

    error = await Attempt(function).error()

    assert "KeyError: 'gone'" in error
    assert files_in(error) <= {"test_errors.py", "taskgroups.py"}


@pytest.mark.parametrize("kind", [StoreUnavailable, hourbell.Superseded])
async def test_an_error_with_advice_is_stored_without_frames(kind: type[Exception]) -> None:
    async def function(_: Run) -> None:
        raise kind("do the slow part before")

    assert await Attempt(function).make() == Failed("do the slow part before")


class Panic(BaseException):
    """Some libraries raise exceptions that are not meant to be caught."""


def panic(_: Run) -> None:
    raise Panic("no more")


async def panic_async(_: Run) -> None:
    raise Panic("no more")


def interrupt(_: Run) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("function", "error"),
    [(panic, "Panic: no more"), (panic_async, "Panic: no more"), (interrupt, "KeyboardInterrupt")],
)
async def test_whatever_a_function_raises_fails_its_attempt_alone(function: object, error: str) -> None:
    assert (await Attempt(function).error()).endswith(error)  # type: ignore[arg-type]


async def test_only_the_beginning_of_a_long_message_is_kept() -> None:
    async def function(_: Run) -> None:
        raise ValueError("boom " * 100_000)

    error = await Attempt(function).error()
    *_, last = error.splitlines()

    assert error.startswith("Traceback (most recent call last):")
    assert last.startswith("ValueError: boom boom")
    assert last.endswith(" … (500,012 characters)")
    assert len(error) <= MAX_ERROR_CHARACTERS
