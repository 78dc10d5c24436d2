"""Facts about a deployment, seen from inside the process, for `hourbell doctor --production`."""

import os
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from hourbell.core.doctor.deployment import AccessFacts, Deployment
from hourbell.private_files import close_command, exposed_files, exposure
from hourbell.settings import Address, Settings, servers_of, variables_of

_ENCRYPTED = ("require", "verify-ca", "verify-full")


def describe_deployment(
    settings: Settings, access: AccessFacts | None, environment: Mapping[str, str] = os.environ
) -> Deployment:
    """Collect the facts about the environment of a node with these settings. The limits are those of this process."""
    exposed = exposed_files(settings.database_files)
    key = key_file(settings)
    return Deployment(
        http_addr=str(settings.http_addr),
        is_loopback=settings.http_addr.is_loopback,
        has_trusted_proxies=bool(settings.trusted_proxies),
        exposed_files=tuple(map(str, exposed)),
        close_command=close_command(exposed),
        has_key=settings.secret_key is not None or (key is not None and key.exists()),
        key_exposure=None if key is None else _key_exposure(key),
        unencrypted=tuple(_unencrypted(settings, environment)),
        has_function_login=_has_function_login(settings, environment),
        retention=settings.retention,
        slots=settings.slots,
        descriptors=_descriptors(),
        access=access,
    )


def key_file(settings: Settings) -> Path | None:
    """Return the file of the secret key: from the settings, or on SQLite the one beside the database."""
    if settings.secret_key is not None:
        return None
    if settings.secret_key_file is not None:
        return settings.secret_key_file
    return Path(f"{settings.database.location}.key") if settings.database.kind == "sqlite" else None


def _key_exposure(path: Path) -> str | None:
    try:
        why = exposure(path.absolute(), path.stat().st_mode)
    except OSError:
        return None
    return None if why is None else f"{path}: {why}"


def _has_function_login(settings: Settings, environment: Mapping[str, str]) -> bool:
    """Return True if functions run under another login than Hourbell's own."""
    if settings.sql_database_url is None:
        return False
    return _user_of(settings.sql_database_url, environment) != _user_of(settings.database_url, environment)


def _user_of(url: str, environment: Mapping[str, str]) -> str:
    parts = urlsplit(url)
    named = parse_qs(parts.query).get("user")
    return named[-1] if named else unquote(parts.username or environment.get("PGUSER", ""))


def _unencrypted(settings: Settings, environment: Mapping[str, str]) -> Iterator[str]:
    urls = {variables_of("database_url")[-1]: settings.database_url}
    if settings.sql_database_url is not None:
        urls[variables_of("sql_database_url")[-1]] = settings.sql_database_url
    urls |= {f"{variables_of('sql_databases')[-1]} ({name})": url for name, url in settings.sql_databases.items()}
    for name, url in urls.items():
        if url.startswith("postgres") and not _is_encrypted(url, environment):
            hosts = sorted({host for host, port in servers_of(url) if not Address(host.strip("[]"), port).is_loopback})
            if hosts:
                yield f"{name} leads to {', '.join(hosts)}"


def _is_encrypted(url: str, environment: Mapping[str, str]) -> bool:
    modes = parse_qs(urlsplit(url).query).get("sslmode") or [environment.get("PGSSLMODE", "")]
    return modes[-1] in _ENCRYPTED


def _descriptors() -> int | None:
    """Return the descriptor limit of this process; a server raises it to that when it starts."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if limit == resource.RLIM_INFINITY else limit
