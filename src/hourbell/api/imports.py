"""The route that imports jobs: NDJSON in, one result line for each line out.

Results are spooled to a file until the whole request has arrived: many clients read nothing before they have sent
everything, so sending results earlier would deadlock.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from hourbell.api import render, shapes
from hourbell.api.access import CallerDep, authenticator_of, check_again
from hourbell.api.documented import responses
from hourbell.api.jobs import DropSecrets, DryRun, TakeOver
from hourbell.api.json_body import announced_bytes
from hourbell.api.problems import Problem
from hourbell.api.users import ControlDep, Editor
from hourbell.control.imports import MAX_LINE_BYTES, LineResult, Owner
from hourbell.control.values import Imported, StoreUnavailable

router = APIRouter()

NDJSON = "application/x-ndjson"
MAX_LINES = 2_000_000
_TOO_LARGE = "import_too_large"
_encode = json.JSONEncoder(ensure_ascii=False).encode  # reused: `json.dumps` would create an encoder for each line
_IN_MEMORY = 1024 * 1024
_PART = 64 * 1024
_BODY = {
    "requestBody": {
        "required": True,
        "content": {NDJSON: {"schema": {"type": "string", "description": "A job on each line."}}},
    }
}
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One result per line, in order.",
        "content": {NDJSON: {"schema": {"$ref": f"#/components/schemas/{shapes.ImportLine.__name__}"}}},
    }
}


@dataclass(frozen=True, slots=True)
class ImportParameters:
    """Query parameters of an import: the owner of the jobs, and the treatment of other jobs."""

    managed_by: Annotated[Literal["api", "file"], Query(description="The owner of the jobs.")] = "api"
    source: Annotated[
        str, Query(max_length=200, description="The source of the jobs, such as a file or a program.")
    ] = ""
    prune: Annotated[bool, Query(description="Delete jobs of this owner and source that are not in the import.")] = (
        False
    )
    take_over: TakeOver = False
    drop_secrets: DropSecrets = False
    dry_run: DryRun = False

    def owner(self) -> Owner:
        return Owner(self.managed_by, self.source, self.prune, self.take_over, self.drop_secrets)


@router.post("/import", summary="Import jobs", responses={**responses(None, 413, 415), **_ANSWER}, openapi_extra=_BODY)
async def import_jobs(
    request: Request,
    control: ControlDep,
    caller: CallerDep,
    user: Editor,
    given: Annotated[ImportParameters, Depends()],
) -> Response:
    """Create jobs that are new and change jobs that differ, by name; suitable for 1,000,000 jobs.

    A refused line does not affect the others. Jobs of another owner are refused unless you set `take_over`. A paused
    job stays paused.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in (NDJSON, "application/ndjson"):
        raise Problem(415, "unsupported_media_type", f"Send one job per line, with the header Content-Type: {NDJSON}.")
    if given.prune and given.managed_by == "api" and not given.source:
        raise Problem(
            400, "prune_needs_source", "Pruning needs a source, so that it deletes only jobs that came from it."
        )
    limit = authenticator_of(request).import_bytes
    if (announced := announced_bytes(request)) is not None and announced > limit:
        raise _TooLarge.of_bytes(limit).problem()
    imports, name = authenticator_of(request).imports, caller.limited_as
    if (refused := imports.begin(name)) is not None:
        raise refused
    results = control.imports.run(_lines(request, limit), given.owner(), user, dry_run=given.dry_run)
    spool = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - it is read and closed while the response is sent
    try:
        await _spool(results, spool)
    except BaseException:
        spool.close()
        raise
    finally:
        imports.end(name)
    return StreamingResponse(_parts(spool), media_type=NDJSON)


class _TooLarge(Exception):
    """An import over its limit of bytes or lines; the message names the limit."""

    @classmethod
    def of_bytes(cls, limit: int) -> "_TooLarge":
        return cls(
            f"an import may have at most {limit:,} bytes (HOURBELL_IMPORT_MAX_MIB); send the rest in another import"
        )

    def problem(self) -> Problem:
        message = str(self)
        return Problem(413, _TOO_LARGE, f"{message[0].upper()}{message[1:]}.", headers={"Connection": "close"})


async def _lines(request: Request, max_bytes: int) -> AsyncIterator[tuple[int, bytes]]:
    """Yield the non-blank lines of a body as they arrive, with their line numbers.

    A line that is too long is truncated, and so refused as incomplete JSON.

    Raises _TooLarge after `max_bytes` or MAX_LINES, and a Problem if the caller's access ends before the body does.
    """
    rest, size, before = b"", 0, 0  # an incomplete line, and the bytes and lines read before it
    async for part in request.stream():
        await check_again(request)
        size += len(part)
        if size > max_bytes:
            raise _TooLarge.of_bytes(max_bytes)
        *whole, rest = (rest + part).split(b"\n")
        if before + len(whole) > MAX_LINES:
            raise _TooLarge(f"an import may have at most {MAX_LINES:,} lines; send the rest in another import")
        for number, line in enumerate(whole, before + 1):
            if line and not line.isspace():
                yield number, line[: MAX_LINE_BYTES + 1]
        before += len(whole)
        rest = rest[: MAX_LINE_BYTES + 1]
    if rest and not rest.isspace():
        yield before + 1, rest


async def _spool(results: AsyncIterator[list[LineResult]], spool: IO[bytes]) -> None:
    """Write results to the spool. An error after the first result becomes the last line: earlier results stand."""
    try:
        async for batch in results:
            spool.write(b"".join(_line(result) for result in batch))
    except StoreUnavailable:
        if not spool.tell():
            raise
        message = "the database is unreachable; lines with a result are stored, import the rest again"
        spool.write(_line(LineResult(None, None, Imported.REFUSED, code="database_unavailable", message=message)))
    except _TooLarge as error:
        if not spool.tell():
            raise error.problem() from None
        message = f"{error}; lines with a result are stored"
        spool.write(_line(LineResult(None, None, Imported.REFUSED, code=_TOO_LARGE, message=message)))
    except Problem as problem:
        if not spool.tell():
            raise
        message = "your access ended during the import; lines with a result are stored"
        spool.write(_line(LineResult(None, None, Imported.REFUSED, code=problem.code, message=message)))


async def _parts(spool: IO[bytes]) -> AsyncIterator[bytes]:
    with spool:
        spool.seek(0)
        while part := spool.read(_PART):
            yield part


def _line(result: LineResult) -> bytes:
    body: render.Json = {"line": result.line, "name": result.name, "result": str(result.result)}
    if result.job_id is not None:
        body |= {"id": str(result.job_id), "version": result.version}
    if result.code is not None:
        body |= {"code": result.code, "message": result.message}
    if result.errors:
        body["errors"] = [
            {"pointer": error.pointer, "message": error.message, "hint": error.hint} for error in result.errors
        ]
    return _encode(body).encode() + b"\n"
