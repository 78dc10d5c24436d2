"""Import: many jobs in one go, in bounded memory, each told apart by its name and answered by a line of its own."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from hourbell.control.rules import Rules
from hourbell.control.user import NotAllowed, User
from hourbell.core.job_body import BodyError, Fault, parse_job
from hourbell.core.roles import Role
from hourbell.core.strict_json import NotJson, parse_json
from hourbell.core.target import parse_target
from hourbell.store.base import ControlStore, Imported, ImportResult, JobEntry

AT_ONCE = 1_000
LONGEST_LINE = 1_048_576
OWNERS = ("api", "code", "file")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose jobs an import brings. With `prune`, those of the owner that it does not bring are deleted."""

    managed_by: str = "api"
    source: str = ""
    prune: bool = False


@dataclass(frozen=True, slots=True)
class LineResult:
    """What became of one line, counted from 1; None for a job that was pruned."""

    line: int | None
    name: str | None
    result: str
    job_id: UUID | None = None
    version: int | None = None
    code: str | None = None
    message: str | None = None
    faults: tuple[Fault, ...] = ()


class Imports:
    def __init__(
        self, store: ControlStore, *, rules: Rules, now: Callable[[], datetime], new_id: Callable[[], UUID]
    ) -> None:
        self._store = store
        self._rules = rules
        self._now = now
        self._new_id = new_id

    async def run(
        self, lines: AsyncIterator[bytes], owner: Owner, user: User, *, dry_run: bool = False
    ) -> AsyncIterator[list[LineResult]]:
        """Import lines of JSON; the results, a thousand at a time, each batch after it is committed.

        A line that is refused keeps none of the others. Jobs are pruned only if no line was refused.
        """
        user.must_be(Role.EDITOR, "to import jobs")
        import_id = self._new_id() if owner.prune else None
        number, refused = 0, False
        batch: list[tuple[int, bytes]] = []
        async for line in lines:
            number += 1
            if line.strip():
                batch.append((number, line))
            if len(batch) == AT_ONCE:
                results = await self._write(batch, owner, user, import_id, dry_run=dry_run)
                refused = refused or any(each.result == Imported.REFUSED for each in results)
                yield results
                batch = []
        if batch:
            results = await self._write(batch, owner, user, import_id, dry_run=dry_run)
            refused = refused or any(each.result == Imported.REFUSED for each in results)
            yield results
        if import_id is not None:
            async for pruned in self._prune(import_id, owner, user, refused=refused, dry_run=dry_run):
                yield pruned

    async def _prune(
        self, import_id: UUID, owner: Owner, user: User, *, refused: bool, dry_run: bool
    ) -> AsyncIterator[list[LineResult]]:
        if refused:
            message = "no job was pruned, because lines were refused; mend them and import again"
            yield [LineResult(None, None, "not_pruned", code="lines_refused", message=message)]
            return
        names = [""] * AT_ONCE
        while len(names) == AT_ONCE:
            names = await self._store.prune_jobs(
                import_id,
                owner.managed_by,
                owner.source,
                self._now(),
                user.name,
                limit=AT_ONCE,
                dry_run=dry_run,
                request=replace(user.request, key=None),
            )
            yield [LineResult(None, name, "pruned") for name in names]
            if dry_run:
                return

    async def _write(
        self, batch: list[tuple[int, bytes]], owner: Owner, user: User, import_id: UUID | None, *, dry_run: bool
    ) -> list[LineResult]:
        results: list[LineResult] = []
        entries: list[JobEntry] = []
        numbers: list[int] = []
        for number, line in batch:
            read = self._read(number, line, owner, user)
            if isinstance(read, LineResult):
                results.append(read)
            else:
                entries.append(read)
                numbers.append(number)
        written = await self._store.import_jobs(
            entries,
            self._now(),
            user.name,
            import_id=import_id,
            dry_run=dry_run,
            request=replace(user.request, key=None),
        )
        results += [_result(number, each) for number, each in zip(numbers, written, strict=True)]
        return sorted(results, key=lambda result: result.line or 0)

    def _read(self, number: int, line: bytes, owner: Owner, user: User) -> JobEntry | LineResult:
        try:
            parsed = parse_job(parse_json(line))
            call = parse_target(parsed.definition.target)
            user.may_define(call)
            faults = self._rules.check(call)
            if parsed.secret is not None:
                hint = "import the job without, then POST …/rotate-secret"
                faults.append(Fault("/target/secret", "secrets are not imported", hint))
            if faults:
                raise BodyError(faults)
        except BodyError as error:
            return _refused(number, "invalid_job", str(error), tuple(error.faults))
        except NotJson as error:
            return _refused(number, "invalid_json", str(error))
        except NotAllowed as error:
            return _refused(number, "not_allowed", str(error))
        definition = replace(parsed.definition, managed_by=owner.managed_by, source=owner.source)
        return JobEntry(definition, self._new_id())


def _refused(line: int, code: str, message: str, faults: tuple[Fault, ...] = ()) -> LineResult:
    return LineResult(line, None, Imported.REFUSED, code=code, message=message, faults=faults)


def _result(line: int, result: ImportResult) -> LineResult:
    return LineResult(line, result.name, result.result, result.job_id, result.version, result.code, result.message)
