"""Choose the server to connect to, and check whether a session there can write.

A server refuses writes as a standby, or because of `default_transaction_read_only`, which is set for the server, the
database or the role. Reads still work there, so read-only callers would never notice. A new connection is therefore
tested before use, and an open one is closed as soon as the server reports the change or refuses a write.
"""

import os
import re
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from hourbell.store.errors import StoreReadOnly

_HOST = re.compile(r"(\[[^\]]+\]|/.*|[^:]*)(?::(\d+))?", re.ASCII)
# After these errors the next host is tried; a refused login is the same everywhere.
_NEXT_HOST = (OSError, asyncpg.PostgresConnectionError, asyncpg.exceptions.CannotConnectNowError)
_PROBE = "select current_setting('transaction_read_only') = 'on', pg_catalog.pg_is_in_recovery()"
_STANDBY = "the server is a standby"
_BY_SETTING = "default_transaction_read_only is on"
_ADVICE = {
    _STANDBY: "name the primary in the database URL, or all hosts: postgresql://user@one,two/database",
    _BY_SETTING: "turn it off for the server, the database and the role",
}


def hosts_of(url: str) -> list[tuple[str, int | None]]:
    """Return the hosts in a URL, in order; empty if the environment decides."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    named = parts.netloc.rpartition("@")[2]
    ports = [] if named else [int(port) for port in query.get("port", "").split(",") if port]
    hosts = []
    for position, text in enumerate(filter(None, (named or query.get("host", "")).split(","))):
        found = _HOST.fullmatch(text)
        host, port = (found[1], found[2]) if found else (text, None)
        if ports:
            port = ports[min(position, len(ports) - 1)]
        hosts.append((unquote(host.strip("[]")) if named else host.strip("[]"), int(port) if port else None))
    return hosts


async def connect(url: str, *, timeout: float, writes: bool = True, **options: Any) -> asyncpg.Connection:
    """Connect to the first host that accepts writes, with a share of the time for each.

    If `target_session_attrs` is set in the URL or the environment, it decides instead. With `writes` false, a read-only
    host is accepted if there is no other.
    """
    hosts = hosts_of(url)
    if len(hosts) < 2:
        return await asyncpg.connect(url, timeout=timeout, **options)
    options["timeout"] = timeout / len(hosts)
    is_chosen = "target_session_attrs" in parse_qs(urlsplit(url).query) or "PGTARGETSESSIONATTRS" in os.environ
    try:
        return await _first_of(hosts, url, **options, target_session_attrs=None if is_chosen else "read-write")
    except StoreReadOnly:
        if writes:
            raise
        return await _first_of(hosts, url, **options, target_session_attrs="any")


async def _first_of(hosts: list[tuple[str, int | None]], url: str, **options: Any) -> asyncpg.Connection:
    """Connect to the hosts in turn.

    asyncpg has one time limit for all of them: a first host that never answers would use it up.
    """
    unreachable: list[Exception] = []
    for host, port in hosts:
        try:
            return await asyncpg.connect(url, host=host, port=port, **options)
        except asyncpg.TargetServerAttributeNotMatched:
            continue
        except _NEXT_HOST as error:
            unreachable.append(error)
    read_only = len(hosts) - len(unreachable)
    if read_only == 0:
        raise unreachable[0]
    why = f"no host accepts writes: {_are(read_only)} read-only"
    why += f", {_are(len(unreachable))} unreachable" if unreachable else ""
    raise StoreReadOnly(why, f"promote a standby, or start the primary; {_BY_SETTING} also makes a host read-only")


def _are(count: int) -> str:
    return f"{count} is" if count == 1 else f"{count} are"


async def why_read_only(connection: Any) -> str | None:
    """Ask the server why it refuses writes; None if it accepts them."""
    is_read_only, is_standby = await connection.fetchrow(_PROBE)
    if not is_read_only:
        return None
    return _STANDBY if is_standby else _BY_SETTING


async def check_writable(connection: Any) -> None:
    """Raise StoreReadOnly if the server refuses writes."""
    why = await why_read_only(connection)
    if why is not None:
        raise StoreReadOnly(why, _ADVICE[why])


def reports_read_only(connection: Any) -> bool:
    """Return True if the server's last response reported that it refuses writes. No round trip is made; before release
    14 a server does not report this.
    """
    try:
        settings = connection.get_settings()
    except asyncpg.InterfaceError:  # the connection is closed
        return False
    return "on" in (
        getattr(settings, "in_hot_standby", "off"),
        getattr(settings, "default_transaction_read_only", "off"),
    )
