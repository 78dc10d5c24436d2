"""An action on one job after another. One that is refused keeps no other out; what is refused alike is summed up."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hourbell.cli.shared.output import Output, View
from hourbell.cli.shared.remote import complain, exit_code, refusal

if TYPE_CHECKING:
    from hourbell.client import Client

LONGEST_LIST = 20  # of what was done; more is counted
_MOST_ALIKE, _FEW = 10, 3


class Chosen(NamedTuple):
    """A job that is meant: what the server is asked for, and what people call it."""

    ref: str
    name: str


class _Refused(NamedTuple):
    name: str
    words: tuple[str, ...]


def act_on_each(
    client: "Client", jobs: Sequence[Chosen], act: Callable[[str], Any], done: str
) -> tuple[list[Any], int]:
    """What came of each, and the exit code: that of the first refusal. `done` is what happened to the others."""
    from hourbell.client import ApiError

    made: list[Any] = []
    refused: list[_Refused] = []
    status = 0
    try:
        for job in jobs:
            try:
                made.append(act(job.ref))
            except ApiError as error:
                refused.append(_Refused(job.name, refusal(error, client, job=job.ref)))
                status = status or exit_code(error)
    finally:  # also if the server is gone in the middle of it
        _tell(refused, len(jobs), done)
    return made, status


def show_each(
    made: list[Any], output: Output, view: View, lines: Callable[[Any], list[str]], *, was_one: bool, done: str
) -> None:
    """One answer as it is if one job was named, and else all as a list; for people, a long one is only counted."""
    if was_one and made:
        output.one(made[0], view, lines(made[0]))
    elif len(made) > LONGEST_LIST and output.is_for_people:
        click.echo(f"{done} {len(made):,} jobs", err=True)
    elif made:
        output.items(made, view, {"items": [item.raw for item in made]})


def _tell(refused: Sequence[_Refused], of: int, done: str) -> None:
    alike: dict[tuple[str, ...], list[str]] = {}
    for each in refused:
        alike.setdefault(each.words, []).append(each.name)
    for (what, *more), names in alike.items():
        if len(names) > _MOST_ALIKE:
            complain(f"{len(names):,} jobs ({', '.join(names[:_FEW])}, …): {what}", *more)
            continue
        for name in names:
            complain(what if of == 1 or f"'{name}'" in what else f"{name}: {what}", *more)
    if refused and of > 1:
        click.echo(f"{len(refused):,} of {of:,} were not {done}", err=True)
