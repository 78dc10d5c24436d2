"""Actions on several jobs in turn. A refused job does not stop the others; equal refusals are reported together."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hourbell.cli.shared.output import Output, View
from hourbell.cli.shared.remote import complain, exit_code, refusal

if TYPE_CHECKING:
    from hourbell.client import Client

MAX_LISTED_ITEMS = 20  # more items are counted instead of listed
_MAX_ALIKE_ITEMS, _FEW = 10, 3


class Chosen(NamedTuple):
    """A selected job: the reference to send to the server and the name to show."""

    ref: str
    name: str


class _Refused(NamedTuple):
    name: str
    messages: tuple[str, ...]


def act_on_each(
    client: "Client", jobs: Sequence[Chosen], act: Callable[[str], Any], done: str
) -> tuple[list[Any], int]:
    """Act on each job; return the results and the first refusal's exit code. `done` names the action in reports."""
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
    finally:  # also if the server became unreachable halfway
        _print_refused(refused, len(jobs), done)
    return made, status


def show_each(
    made: list[Any], output: Output, view: View, lines: Callable[[Any], list[str]], *, was_one: bool, done: str
) -> None:
    """Show one answer in full if one job was named, else a list. A long list is only counted for people."""
    if was_one and made:
        output.one(made[0], view, lines(made[0]))
    elif len(made) > MAX_LISTED_ITEMS and output.is_for_people:
        click.echo(f"{done} {len(made):,} jobs", err=True)
    elif made:
        output.items(made, view, {"items": [item.raw for item in made]})


def _print_refused(refused: Sequence[_Refused], of: int, done: str) -> None:
    alike: dict[tuple[str, ...], list[str]] = {}
    for each in refused:
        alike.setdefault(each.messages, []).append(each.name)
    for (what, *more), names in alike.items():
        if len(names) > _MAX_ALIKE_ITEMS:
            complain(f"{len(names):,} jobs ({', '.join(names[:_FEW])}, …): {what}", *more)
            continue
        for name in names:
            complain(what if of == 1 or f"'{name}'" in what else f"{name}: {what}", *more)
    if refused and of > 1:
        click.echo(f"{len(refused):,} of {of:,} were not {done}", err=True)
