"""A line to a PostgreSQL server that can be cut and mended."""

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit


class Proxy:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        folder = parse_qs(parts.query).get("host")
        self._socket = f"{folder[0]}/.s.PGSQL.{parts.port or 5432}" if folder else None
        self._address = parts.hostname or "localhost", parts.port or 5432
        self._parts = parts
        self._port = 0
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        who, _, _ = self._parts.netloc.rpartition("@")
        return self._parts._replace(netloc=f"{who}@127.0.0.1:{self._port}", query="").geturl()

    async def __aenter__(self) -> Self:
        await self.mend()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cut()

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for line in list(self._lines):
            line.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = asyncio.open_unix_connection(self._socket) if self._socket else asyncio.open_connection(*self._address)
        far_reader, far_writer = await there
        self._lines |= {writer, far_writer}
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))
        self._lines -= {writer, far_writer}

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()
