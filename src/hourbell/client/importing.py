"""Import of jobs: a stream of lines to the server, and a stream of results back."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hourbell.answers.jobs import ImportResult
from hourbell.client.api_client import API, ApiClient, encoded, text_of
from hourbell.client.batches import line_batches
from hourbell.client.errors import ClientError, UnexpectedAnswer, parse_json
from hourbell.client.http_session import Request
from hourbell.client.reading import read

Line = Mapping[str, Any] | str | bytes
Source = Iterable[Line] | AsyncIterable[Line]

_NDJSON = {"Content-Type": "application/x-ndjson"}
_LINES, _BYTES = 500, 64 * 1024  # max of a part that is sent at once
_QUIET = 600.0  # seconds; the server answers after the last line


class _Lines:
    """The request body, read from the source; `failure` is the error that the source raised."""

    def __init__(self, source: Source) -> None:
        if isinstance(source, (str, bytes, Mapping)):
            raise TypeError("Give the jobs as a list or another iterable, or an open file with one on each line.")
        self._source = source
        self.has_begun = False
        self.failure: Exception | None = None

    async def parts(self) -> AsyncIterator[bytes]:
        self.has_begun = True
        try:
            if isinstance(self._source, AsyncIterable):
                async for line in self._source:
                    yield _written(line)
            else:
                # In a thread, because it may block: a pipe, or a generator that calls this client.
                lines = iter(self._source)
                while part := await asyncio.to_thread(_next_part, lines):
                    yield part
        except Exception as error:
            self.failure = error
            raise


async def import_batches(
    api: ApiClient, source: Source, query: Mapping[str, object]
) -> AsyncGenerator[Sequence[ImportResult], None]:
    """Yield results in the order of the lines. The call is retried only until the source is first read."""
    lines, retries = _Lines(source), api.retries
    began, tries = retries.elapsed(), 0
    while True:
        tries += 1
        request = Request(
            "POST", f"{API}/jobs/import", text_of(query), _NDJSON, body=lines.parts(), quiet_seconds=_QUIET
        )
        try:
            async with api.session.stream(request) as parts:
                async for batch in line_batches(parts):
                    yield [_result(line) for line in batch]
            return
        except ClientError as error:
            if lines.failure is not None:
                raise lines.failure from None
            wait = None
            if error.may_pass and not lines.has_begun:
                wait = retries.wait_after(tries, retries.elapsed() - began, error.retry_after)
            if wait is None:
                error.is_in_doubt = lines.has_begun
                raise
        await retries.pause(wait)


def _next_part(lines: Iterator[Line]) -> bytes:
    part, size = [], 0
    for line in lines:
        part.append(_written(line))
        size += len(part[-1])
        if len(part) >= _LINES or size >= _BYTES:
            break
    return b"".join(part)


def _written(line: Line) -> bytes:
    if isinstance(line, Mapping):
        return encoded(line) + b"\n"
    text = line.encode() if isinstance(line, str) else line
    return text.rstrip(b"\r\n") + b"\n"


def _result(line: bytes) -> ImportResult:
    try:
        return read(ImportResult, parse_json(line))
    except ValueError:
        raise UnexpectedAnswer("The server answered the import with a line that is not JSON.") from None
