"""Selection of jobs for an action: by name, or by a filter after confirmation of their count."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from hourbell.cli.job.bulk import Chosen
from hourbell.cli.shared.output import plain
from hourbell.cli.shared.parameters import JOB
from hourbell.cli.shared.remote import confirm

if TYPE_CHECKING:
    from hourbell.client import Client, Job

Function = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Selection:
    names: tuple[str, ...]
    tag: str | None
    is_all: bool
    yes: bool

    def jobs(
        self, client: "Client", verb: str, is_meant: "Callable[[Job], bool]" = lambda _: True
    ) -> tuple[Chosen, ...]:
        """Return the named jobs, or those that match the filter and `is_meant`, after confirmation."""
        if self.names:
            return tuple(Chosen(name, name) for name in self.names)
        return self.confirmed([job for job in self.listed(client) if is_meant(job)], verb)

    def listed(self, client: "Client") -> "Iterable[Job]":
        """List all jobs that match the filter."""
        return client.jobs.list(tag=self.tag)

    def confirmed(self, found: "Sequence[Job]", verb: str) -> tuple[Chosen, ...]:
        """Show the count and the first names, ask for confirmation, and return the jobs."""
        if not found:
            click.echo(f"there is no job to {verb}", err=True)
            return ()
        which = f" tagged {self.tag}" if self.tag else ""
        few = ", ".join(plain(job.name) for job in found[:5])
        more = ", …" if len(found) > 5 else ""
        count = "1 job" if len(found) == 1 else f"{len(found):,} jobs"
        click.echo(f"{count}{which}: {few}{more}", err=True)
        confirm(f"{verb} {count}", yes=self.yes)
        return tuple(Chosen(str(job.id), job.name) for job in found)


def selection_options(function: Function) -> Function:
    """Add the names, `--tag`, `--all` and `--yes`, passed to the function as one `selection`."""

    @click.argument("jobs", nargs=-1, type=JOB, metavar="[JOB]…")
    @click.option("--tag", metavar="TAG", help="All jobs with this tag, instead of names.")
    @click.option("--all", "is_all", is_flag=True, help="All jobs, instead of names.")
    @click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
    @functools.wraps(function)
    def call(*args: Any, jobs: tuple[str, ...], tag: str | None, is_all: bool, yes: bool, **given: Any) -> None:
        if (bool(jobs), tag is not None, is_all).count(True) != 1:
            raise click.UsageError("Name jobs, or choose them by --tag or --all.")
        function(*args, selection=Selection(jobs, tag, is_all, yes), **given)

    return call
