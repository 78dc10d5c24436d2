"""A PostgreSQL database for a peer, asked in plain SQL; what is written stays hidden until it is released."""

import asyncio
from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from bench.limits.processes import cpu_of_family


class PeerDatabase:
    def __init__(self, server: str, postmaster: int | None) -> None:
        self._server = server
        self._postmaster = postmaster
        self._name = f"peer_bench_{token_hex(4)}"
        self._loop = asyncio.Runner()
        self._on_server(f"create database {self._name}")
        self.url = urlunsplit(urlsplit(server)._replace(path=f"/{self._name}"))
        self._connection = self._loop.run(asyncpg.connect(self.url, command_timeout=3_600))
        self._open: Any = None

    def hold(self, write: Callable[[Any], Awaitable[object]]) -> None:
        """Write in a transaction that is not committed yet."""
        self.ask("vacuum analyze")
        self.ask("checkpoint")
        self._open = self._connection.transaction()
        self._loop.run(self._open.start())
        self._loop.run(_awaited(write(self._connection)))

    def release(self) -> None:
        self._loop.run(self._open.commit())

    def run(self, write: Callable[[Any], Awaitable[object]]) -> None:
        self._loop.run(_awaited(write(self._connection)))

    def ask(self, statement: str) -> list[Any]:
        return list(self._loop.run(self._connection.fetch(statement)))

    def cpu(self) -> float | None:
        return None if self._postmaster is None else cpu_of_family(self._postmaster)

    def drop(self) -> None:
        self._loop.run(self._connection.close(timeout=20))
        self._on_server(f"drop database {self._name} with (force)")
        self._loop.close()

    def _on_server(self, statement: str) -> None:
        async def ask() -> None:
            connection = await asyncpg.connect(self._server)
            await connection.execute(statement)
            await connection.close()

        self._loop.run(ask())


async def _awaited(what: Awaitable[object]) -> object:
    return await what
