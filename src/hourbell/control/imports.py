"""Import of many jobs in bounded memory. Jobs are identified by name, and each line gets its own result.

The next batch is read while the current one is written, so at most two batches are in memory.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from hourbell.control.calculations import calculate_much
from hourbell.control.rules import Rules
from hourbell.control.secret_headers import without_secret_headers
from hourbell.control.user import NotAllowed, User
from hourbell.core.access.roles import Role
from hourbell.core.job.body import parse_job
from hourbell.core.values.field_errors import BodyError, FieldError
from hourbell.core.values.strict_json import MAX_VALUES, NotJson, parse_json
from hourbell.store.control.bundles import Imported, ImportResult, JobEntry
from hourbell.store.control.store import ControlStore
from hourbell.store.errors import Conflict

AT_ONCE = 250  # jobs per transaction: on SQLite a due run waits for one or two transactions
_PRUNED_AT_ONCE = 1_000
_MAX_LARGE_BYTES = 256 * 1024  # of large lines: the engine waits while a batch is written
MAX_LINE_BYTES = 1_048_576
_LINES_A_TURN = 20  # yield to the event loop after so many: a few milliseconds
_LARGE_BYTES = 8 * 1024  # a line of this size takes as long as many small ones


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of the imported jobs, and options of the import.

    `prune` deletes jobs of the owner that are not imported. `take_over` makes it the owner of imported jobs that others
    own. `drop_secrets` removes the secret headers of jobs whose origin changes.
    """

    managed_by: str = "api"
    source: str = ""
    prune: bool = False
    take_over: bool = False
    drop_secrets: bool = False


@dataclass(frozen=True, slots=True)
class LineResult:
    """The result of one line. Lines count from 1; `line` is None for a pruned job."""

    line: int | None
    name: str | None
    result: str
    job_id: UUID | None = None
    version: int | None = None
    code: str | None = None
    message: str | None = None
    errors: tuple[FieldError, ...] = ()


Batch = list[tuple[int, JobEntry | LineResult]]
"""Line numbers, each with its parsed job or the refusal."""


class Imports:
    def __init__(
        self, store: ControlStore, *, rules: Rules, now: Callable[[], datetime], new_id: Callable[[], UUID]
    ) -> None:
        self._store = store
        self._rules = rules
        self._now = now
        self._new_id = new_id
        self._reading, self._writing = (
            asyncio.Lock(),
            asyncio.Lock(),
        )  # concurrent imports take turns, per line and per batch

    async def run(
        self, lines: AsyncIterator[tuple[int, bytes]], owner: Owner, user: User, *, dry_run: bool = False
    ) -> AsyncIterator[list[LineResult]]:
        """Import numbered lines of JSON; yield results in batches of at most `AT_ONCE`, each after its commit.

        A refused line does not affect the others. Jobs are pruned only if no line was refused.
        """
        user.must_be(Role.EDITOR, "to import jobs")
        import_id = self._new_id() if owner.prune else None
        refused, is_empty = False, True
        async for results in self._written(self._batches(lines, owner, user), owner, user, import_id, dry_run=dry_run):
            refused = refused or any(each.result == Imported.REFUSED for each in results)
            is_empty = False
            yield results
        if import_id is not None and is_empty:
            message = "no job was pruned, because none was imported: an empty file would delete every job of its source"
            yield [LineResult(None, None, "not_pruned", code="nothing_imported", message=message)]
        elif import_id is not None:
            async for pruned in self._prune(import_id, owner, user, refused=refused, dry_run=dry_run):
                yield pruned

    async def _batches(self, lines: AsyncIterator[tuple[int, bytes]], owner: Owner, user: User) -> AsyncIterator[Batch]:
        """Parse the lines into batches of bounded size, yielding to the event loop in between."""
        batch: Batch = []
        size = 0
        async for number, line in lines:
            if len(batch) % _LINES_A_TURN == 0:
                async with self._reading:
                    await asyncio.sleep(0)
            if len(line) <= _LARGE_BYTES:
                read = self._read(number, line, owner, user)
            else:
                read = await calculate_much(self._read, number, line, owner, user)
                size += len(line)
            batch.append((number, read))
            if len(batch) == AT_ONCE or size >= _MAX_LARGE_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    async def _written(
        self, batches: AsyncIterator[Batch], owner: Owner, user: User, import_id: UUID | None, *, dry_run: bool
    ) -> AsyncIterator[list[LineResult]]:
        """Write the batches in order, each while the next one is read."""
        writing: asyncio.Task[list[LineResult]] | None = None
        try:
            async for batch in batches:
                results = None if writing is None else await writing
                writing = asyncio.create_task(self._write(batch, owner, user, import_id, dry_run=dry_run))
                if results is not None:
                    yield results
            if writing is not None:
                yield await writing
        finally:
            if writing is not None:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

    async def _prune(
        self, import_id: UUID, owner: Owner, user: User, *, refused: bool, dry_run: bool
    ) -> AsyncIterator[list[LineResult]]:
        if refused:
            message = "no job was pruned, because lines were refused; correct them and import again"
            yield [LineResult(None, None, "not_pruned", code="lines_refused", message=message)]
            return
        names = [""] * _PRUNED_AT_ONCE
        while len(names) == _PRUNED_AT_ONCE:
            try:
                names = await self._store.prune_jobs(
                    import_id,
                    owner.managed_by,
                    owner.source,
                    user.actor(self._now()).without_key(),
                    limit=_PRUNED_AT_ONCE,
                    may_change=user.may_change,
                    dry_run=dry_run,
                )
            except Conflict as conflict:
                yield [LineResult(None, None, "not_pruned", code=conflict.code, message=str(conflict))]
                return
            yield [LineResult(None, name, "pruned") for name in names]
            if dry_run:
                if len(names) == _PRUNED_AT_ONCE:
                    message = f"there may be more: a dry run names the first {_PRUNED_AT_ONCE:,}"
                    yield [LineResult(None, None, "not_pruned", code="more", message=message)]
                return

    async def _write(
        self, batch: Batch, owner: Owner, user: User, import_id: UUID | None, *, dry_run: bool
    ) -> list[LineResult]:
        results: list[LineResult] = []
        entries: list[JobEntry] = []
        numbers: list[int] = []
        for number, read in batch:
            if isinstance(read, LineResult):
                results.append(read)
            else:
                entries.append(read)
                numbers.append(number)
        async with self._writing:
            written = await self._store.import_jobs(
                entries,
                user.actor(self._now()).without_key(),
                rights=user.rights(drop_secrets=owner.drop_secrets),
                take_over=owner.take_over,
                import_id=import_id,
                dry_run=dry_run,
            )
        results += [_result(number, each, dry_run=dry_run) for number, each in zip(numbers, written, strict=True)]
        return sorted(results, key=lambda result: result.line or 0)

    def _read(self, number: int, line: bytes, owner: Owner, user: User) -> JobEntry | LineResult:
        try:
            body, headers = without_secret_headers(parse_json(line, max_values=MAX_VALUES))
            parsed = parse_job(body)
            user.may_define(parsed.call)
            errors = self._rules.check(parsed.call)
            if parsed.secret is not None:
                hint = "import the job without, then POST …/rotate-secret"
                errors.append(FieldError("/target/secret", "secrets are not imported", hint))
            if headers:
                hint = "apply the job, or PATCH it after the import"
                errors.append(FieldError("/secret_headers", "secrets are not imported", hint))
            if errors:
                raise BodyError(errors)
        except BodyError as error:
            return _refused(number, "invalid_job", str(error), error.errors)
        except NotJson as error:
            return _refused(number, "invalid_json", str(error))
        except NotAllowed as error:
            return _refused(number, "not_allowed", str(error))
        definition = parsed.definition
        if (definition.managed_by, definition.source) != (owner.managed_by, owner.source):
            definition = replace(definition, managed_by=owner.managed_by, source=owner.source)
        return JobEntry(definition, self._new_id())


def _refused(
    line: int, code: str, message: str, errors: tuple[FieldError, ...] = (), *, name: str | None = None
) -> LineResult:
    return LineResult(line, name, Imported.REFUSED, code=code, message=message, errors=errors)


def _result(line: int, result: ImportResult, *, dry_run: bool) -> LineResult:
    is_made = not (dry_run and result.result is Imported.CREATED)
    return LineResult(
        line,
        result.name,
        result.result,
        result.job_id if is_made else None,
        result.version if is_made else None,
        result.code,
        result.message,
        result.errors,
    )
