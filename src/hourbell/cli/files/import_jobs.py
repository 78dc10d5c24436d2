"""`hourbell import jobs`: send lines of JSON to the server and show the result of each."""

import itertools
import os
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

import click

from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.output import Output, View, output_options, plain
from hourbell.cli.shared.progress import Progress
from hourbell.cli.shared.remote import CONFLICT, FAILED, NOT_ALLOWED, USAGE, complain, confirm, server_options

if TYPE_CHECKING:
    from hourbell.client import Client, ImportResult

_EXIT_CODES = {"invalid_job": USAGE, "invalid_json": USAGE, "not_allowed": NOT_ALLOWED, "database_unavailable": FAILED}
_WORST_FIRST = (USAGE, NOT_ALLOWED, CONFLICT, FAILED)  # the exit code does not depend on the order of the lines
_RESULTS = ("created", "changed", "unchanged", "pruned", "refused")
_REFUSALS = ("refused", "not_pruned")
_FEW = 5


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell import jobs shop.ndjson --source shop --dry-run
    hourbell import jobs shop.ndjson --source shop --prune --yes
    hourbell job list --tag billing -o ndjson | hourbell import jobs - --server http://127.0.0.1:8080
    """,
)
@click.argument("file", type=click.File("rb"), metavar="FILE|-")
@click.option("--source", metavar="TEXT", help="The source of the jobs.")
@click.option("--managed-by", type=click.Choice(["api", "file"]), help="The owner of the jobs.  [default: api]")
@click.option("--prune", is_flag=True, help="Delete jobs of the same owner and source that are not in the file.")
@click.option("--take-over", is_flag=True, help="Also change jobs of these names that others own.")
@click.option("--drop-secrets", is_flag=True, help="Give up secret headers set for another origin than the new one.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation before jobs are deleted.")
@click.option("--dry-run", is_flag=True, help="Show what would be done without doing it.")
@output_options
@server_options
def jobs(
    client: "Client",
    file: IO[bytes],
    source: str | None,
    managed_by: str | None,
    prune: bool,
    take_over: bool,
    drop_secrets: bool,
    yes: bool,
    dry_run: bool,
    output: Output,
) -> None:
    """Create new jobs and change jobs that differ, by name, from JSON lines as the API writes them.

    A refused line does not affect the others and is reported with its number. The exit code is 2 if a line is invalid;
    else 4 if one is not allowed, and 5 if one conflicts with the existing jobs. Paused jobs stay paused.
    """
    if file.isatty():
        raise click.UsageError("Name a file, or pipe lines of JSON.")
    how = {"source": source or "", "managed_by": managed_by, "prune": prune}
    how |= {"take_over": take_over, "drop_secrets": drop_secrets}
    is_asked = prune and not dry_run and not yes
    with _readable_twice(file) if is_asked else file as lines:
        if is_asked:
            _confirm_pruning(_sent(client.jobs.preview_import, lines, "looking", **how))
            lines.seek(0)
        send = client.jobs.preview_import if dry_run else client.jobs.import_jobs
        _show(_sent(send, lines, "importing", **how), output, is_dry=dry_run)


def _sent(
    send: "Callable[..., Iterator[ImportResult]]", lines: IO[bytes], what: str, **how: Any
) -> "Iterator[ImportResult]":
    """Yield the results. The server answers after the last line, so progress measures the upload."""
    with Progress(what, _size(lines), "bytes") as progress:
        results = send(_counted(lines, progress), **how)
        first = list(itertools.islice(results, 1))
    yield from first
    yield from results


def _show(results: "Iterator[ImportResult]", output: Output, *, is_dry: bool) -> None:
    counts: Counter[str] = Counter()
    refusals: set[int] = set()
    view = View(
        ("LINE", "NAME", "RESULT", "VERSION"),
        lambda each: (each.line, each.name, each.result, each.version),
        lambda each: each.id or each.name,
        lambda each: each.name,
    )

    def passing() -> "Iterator[ImportResult]":
        for result in results:
            counts[result.result] += 1
            if result.result in _REFUSALS and result.code != "more":
                refusals.add(_EXIT_CODES.get(result.code or "", CONFLICT))
            if result.result in _REFUSALS:
                _print_result(result)
            if result.result not in _REFUSALS or output.format in ("json", "ndjson"):
                yield result

    if output.format == "ndjson" or output.is_quiet or output.format == "name":
        output.items(passing(), view, None)
    else:
        found = list(passing())
        output.items(found, view, {"items": [each.raw for each in found]})
    summary = ", ".join(f"{counts[result]:,} {result}" for result in _RESULTS if counts[result])
    click.echo(f"{'would be: ' if is_dry else ''}{summary or 'nothing was imported'}", err=True)
    sys.exit(next((code for code in _WORST_FIRST if code in refusals), 0))


def _print_result(result: "ImportResult") -> None:
    where = f"line {result.line}: " if result.line is not None else ""
    if not result.errors:
        complain(f"{where}{result.message or result.code or result.result}")
    for error in result.errors:
        hint = f"; {error.hint}" if error.hint else ""
        complain(f"{where}{error.pointer}: {error.message}{hint}")


def _confirm_pruning(results: "Iterator[ImportResult]") -> None:
    names = [plain(each.name) for each in results if each.result == "pruned"]
    if not names:
        return
    count = "1 job" if len(names) == 1 else f"{len(names)} jobs"
    click.echo(f"{count} would be deleted: {', '.join(names[:_FEW])}{', …' if len(names) > _FEW else ''}", err=True)
    confirm(f"delete {count}", yes=False)


def _readable_twice(file: IO[bytes]) -> IO[bytes]:
    """Return the file, or a temporary copy of a pipe, which is read for the preview and again for the import."""
    if file.seekable():
        return file
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    shutil.copyfileobj(file, copy)
    copy.seek(0)
    return copy


def _counted(lines: Iterable[bytes], progress: Progress) -> Iterator[bytes]:
    for line in lines:
        progress.add(len(line))
        yield line


def _size(file: IO[bytes]) -> int | None:
    """Return the number of bytes to read, or None if it is not a regular file."""
    try:
        found = os.fstat(file.fileno())
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
