"""The settings, each from a flag, the environment, `hourbell.toml` or its default.

An error is one line that names the setting. Passwords appear in no message and no `repr`.
"""

import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from hourbell.core.access.variable_names import PREFIX, UnknownVariable, nearly, unknown_variables
from hourbell.core.job.command import DEFAULT_LABEL, LABEL, USER_NAME
from hourbell.core.values.mail import MailServer, parse_mail_address, parse_mail_server
from hourbell.core.values.networks import Network, parse_networks, parse_ports
from hourbell.core.values.public_path import OWN_PATHS, parse_public_path
from hourbell.core.values.readers import InvalidValue, read_duration
from hourbell.core.values.url import parse_url
from hourbell.private_files import exposure, read_with_mode
from hourbell.sealing import parse_keys

FILE = "hourbell.toml"
DEFAULT = "default"
_YES, _NO = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]*)):(\d{1,5})", re.ASCII)
_HOST = re.compile(r"(?:\[[^\[\]]+\]|[^\[\]:]*)(?::(\d{0,5}))?", re.ASCII)
_PORT = re.compile(r"\d{0,5}(?:[/,?#]|$)", re.ASCII)
_PASSWORD = re.compile(r"(password=)(?:'[^']*'|[^&\s]*)", re.IGNORECASE)
_POSTGRESQL = ("postgresql://", "postgres://")
_NEXT_DATABASE = re.compile(r",\s*(?=[^,=/@]+=postgres)")
# Read by the command line, the client and programs; not settings of a node.
_OTHER_VARIABLES = ("HOURBELL_URL", "HOURBELL_TOKEN", "HOURBELL_TOKEN_FILE", "HOURBELL_START", "HOURBELL_SCHEDULER")


class SettingsError(Exception):
    """A setting is invalid. The message is one line for users."""

    exit_code = 2


class DatabaseUrlError(SettingsError):
    """The database URL is invalid."""

    exit_code = 1


class Address(NamedTuple):
    """A listen address. An empty host means all interfaces."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Database:
    """The database to use; its text form is safe to show."""

    kind: Literal["sqlite", "postgresql"]
    location: str = field(repr=False)  # the absolute path of the file, or the URL as asyncpg takes it

    def __str__(self) -> str:
        return self.location if self.kind == "sqlite" else masked(self.location)


def parse_database_url(url: str) -> Database:
    """Parse a database URL; a ValueError shows the expected form."""
    if not url.isprintable() or " " in url:
        raise ValueError("a URL has no spaces in it; percent-encode them")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("its host cannot be read; percent-encode what is special in the password") from None
    if url.startswith("sqlite:"):
        return Database("sqlite", _file_of(parts, url))
    if url.startswith(_POSTGRESQL):
        _check_postgresql(parts)
        return Database("postgresql", url)
    raise ValueError("write postgresql://user:password@host/database or sqlite:///file.db")


def servers_of(url: str) -> list[tuple[str, int]]:
    """Return the hosts and ports in a database or broker URL; empty for a file or a socket."""
    parts = urlsplit(url)
    usual = {"redis": 6379, "rediss": 6379}.get(parts.scheme, 5432)
    found = []
    for host in parts.netloc.rpartition("@")[2].split(","):
        match = _HOST.fullmatch(host)
        name = host.removesuffix(f":{match[1]}") if match and match[1] is not None else host
        if name and match:
            found.append((unquote(name), int(match[1] or usual)))
    query = parse_qs(parts.query)
    ports = [int(port) for port in ",".join(query.get("port", [])).split(",") if port.isdecimal()]
    for index, name in enumerate(filter(None, ",".join(query.get("host", [])).split(","))):
        port = ports[min(index, len(ports) - 1)] if ports else usual
        found.append(("127.0.0.1" if name.startswith("/") else name, port))
    if not found and url.startswith(_POSTGRESQL):
        found.append(("127.0.0.1", ports[0] if ports else usual))  # a socket of this machine, or the value of PGHOST
    return found


def masked(url: str) -> str:
    """Return a URL without its password, even if it is malformed."""
    scheme, mark, rest = url.partition("://")
    name, colon, tail = rest.partition(":")
    at = tail.rfind("@")
    if at >= 0:
        tail = f"***{tail[at:]}"
    elif _PORT.match(tail) is None and not set(name) & set("/?#["):
        tail = "***"  # the host is missing
    return _PASSWORD.sub(r"\1***", f"{scheme}{mark}{name}{colon}{tail if colon else ''}")


def _file_of(parts: SplitResult, url: str) -> str:
    path = unquote(parts.path)[1:]
    if not url.startswith("sqlite:///") or not path or path.endswith("/") or "\0" in path:
        raise ValueError("write sqlite:///file.db, or sqlite:////folder/file.db for an absolute path")
    if parts.query or parts.fragment:
        raise ValueError("a SQLite URL has nothing after the file; write ? as %3F and # as %23")
    if path == ":memory:":
        raise ValueError("a database in memory would forget its runs; write sqlite:///file.db")
    return str(Path(path).absolute())


def _check_postgresql(parts: SplitResult) -> None:
    """Refuse values that asyncpg would reject only when it connects."""
    if parts.netloc.count("@") > 1 or parts.fragment:
        raise ValueError("percent-encode @ (%40), # (%23), / (%2F), : (%3A) and ? (%3F) in user and password")
    hosts = parts.netloc.rpartition("@")[2].split(",")
    try:
        query = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
    except ValueError:
        raise ValueError("after the ? come name=value pairs, with & between them") from None
    found = [_HOST.fullmatch(host) for host in hosts]
    ports = [(match and match[1]) or "" for match in found] + ",".join(query.get("port", [])).split(",")
    if None in found or not all(port == "" or (port.isdecimal() and 1 <= int(port) <= 65_535) for port in ports):
        raise ValueError("write the host as host or host:port; percent-encode what is special in the password")


def _database_url(text: str) -> str:
    parse_database_url(text)
    return text


def _address(text: str) -> Address:
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[3]) > 65_535:
        raise ValueError("write host:port, as in 127.0.0.1:8080, or :8080 for all interfaces")
    return Address(found[1] or found[2], int(found[3]))


def _duration(least: int) -> Callable[[str], timedelta]:
    def read(text: str) -> timedelta:
        try:
            return read_duration(text, timedelta(seconds=least))
        except InvalidValue:
            raise ValueError(f"write a duration of {least}s or more, as in 90s, 15m, 2h30m or 1d") from None

    return read


def _number(least: int, limit: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if re.fullmatch(r"\d{1,9}", text, re.ASCII) is None or not least <= int(text) <= limit:
            raise ValueError(f"write a number from {least} to {limit}")
        return int(text)

    return read


def _names(pattern: re.Pattern[str], form: str) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        names = [name.strip() for name in text.split(",")]
        if not all(map(pattern.fullmatch, names)):
            raise ValueError(f"write {form}")
        return tuple(dict.fromkeys(names))

    return read


def _switch(text: str) -> bool:
    if text.lower() not in _YES | _NO:
        raise ValueError("write 1 or 0, true or false")
    return text.lower() in _YES


def _databases(text: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, (part.strip(" ,") for part in _NEXT_DATABASE.split(text))):
        name, mark, url = part.partition("=")
        if not mark or re.fullmatch(r"[A-Za-z0-9_-]{1,63}", name.strip(), re.ASCII) is None or name.strip() == DEFAULT:
            raise ValueError("write name=postgresql://user:password@host/database, with commas between several")
        if parse_database_url(url.strip()).kind != "postgresql":
            raise ValueError("only PostgreSQL has functions to call; write name=postgresql://…")
        found[name.strip()] = url.strip()
    return MappingProxyType(found)


def _postgresql_url(text: str) -> str:
    if parse_database_url(text).kind != "postgresql":
        raise ValueError("write postgresql://user:password@host/database")
    return text


def _signatures(text: str) -> tuple[str, ...]:
    """Parse functions such as app.cleanup(integer, text), separated by commas or semicolons."""
    found = re.findall(r"[^,;()]+\([^()]*\)", text)
    if re.sub(r"[,;\s]", "", text) != re.sub(r"[,;\s]", "", "".join(found)):
        raise ValueError("write functions with their types, as in app.cleanup(integer, text), app.report()")
    return tuple(each.strip() for each in found)


def _keys(text: str) -> str:
    parse_keys(text)
    return text


def _public_path(text: str) -> str:
    path = parse_public_path(text)
    if path and path.split("/")[1] in OWN_PATHS:
        raise ValueError(f"the server itself uses {', '.join(f'/{each}' for each in OWN_PATHS)}; write another path")
    return path


def _contact(text: str) -> str:
    if not text.isascii() or not text.isprintable() or len(text) > 200 or set("()") & set(text):
        raise ValueError("write an address or URL of at most 200 ASCII characters")
    return text


def _ping_url(text: str) -> str:
    return str(parse_url(text))


def _smtp_url(text: str) -> str:
    parse_mail_server(text)
    return text


def _redis_url(text: str) -> str:
    hint = "write redis://:password@host:6379/0, or rediss://… for TLS"
    if not text.isprintable() or " " in text:
        raise ValueError(f"a URL has no spaces in it; {hint}")
    try:
        parts = urlsplit(text)
        is_server = bool(parts.hostname) and parts.port != 0 and parts.netloc.count("@") < 2
    except ValueError:
        is_server = False
    else:
        is_server = is_server and parts.scheme in ("redis", "rediss") and not parts.fragment
        is_server = is_server and re.fullmatch(r"(/[0-9]{0,9})?", parts.path, re.ASCII) is not None
    if not is_server:
        raise ValueError(f"{hint}; percent-encode what is special in the password")
    return text


def _public_url(text: str) -> str:
    return str(parse_url(text)).rstrip("/") if text else ""


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"write {', '.join(choices[:-1])} or {choices[-1]}")
        return text.lower()

    return read


def _log_format() -> str:
    return "console" if sys.stderr.isatty() else "json"


_LOOPBACK = Address("127.0.0.1", 8080)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting, validated. docs/settings.md explains each."""

    database_url: str = field(default="sqlite:///hourbell.db", repr=False)
    require_database: bool = False
    http_addr: Address = _LOOPBACK
    api_rate: int = 200
    trusted_proxies: tuple[Network, ...] = ()
    public_path: str = ""
    http_connections: int = 1_000
    http_connections_per_address: int = 200
    http_header_timeout: timedelta = timedelta(seconds=10)
    http_body_timeout: timedelta = timedelta(seconds=30)
    event_streams: int = 50
    trigger_rate: int = 100
    import_max_mib: int = 1_024
    tick_interval: timedelta = timedelta(seconds=30)
    lease: timedelta = timedelta(seconds=60)
    reap_interval: timedelta = timedelta(seconds=5)
    drain_timeout: timedelta = timedelta(seconds=30)
    slots: int = 1_000
    lane_slots: int = 100
    sync_threads: int = 32
    sql_connections: int = 10
    commands: bool = False
    labels: tuple[str, ...] = (DEFAULT_LABEL,)
    command_slots: int = 10
    command_users: tuple[str, ...] = ()
    poison_after: int = 3
    allow_networks: tuple[Network, ...] = ()
    deny_networks: tuple[Network, ...] = ()
    allow_ports: frozenset[int] = frozenset()
    ca_file: Path | None = None
    contact: str = ""
    public_url: str = ""
    smtp_url: str | None = field(default=None, repr=False)
    smtp_from: str = ""
    ping_url: str | None = field(default=None, repr=False)
    ping_interval: timedelta = timedelta(seconds=60)
    secret_key: str | None = field(default=None, repr=False)
    secret_key_file: Path | None = None
    allow_functions: tuple[str, ...] = ()
    sql_database_url: str | None = field(default=None, repr=False)
    sql_databases: Mapping[str, str] = field(default_factory=dict, repr=False)
    retention: timedelta = timedelta(days=30)
    keep_runs: int = 20
    reconcile_enabled: bool = True
    reconcile_interval: timedelta = timedelta(minutes=5)
    reconcile_threshold: timedelta = timedelta(minutes=10)
    reconcile_batch_size: int = 100
    redis_url: str | None = field(default=None, repr=False)
    analytics_retention: timedelta = timedelta(days=90)
    metrics_job_names: bool = False
    log_format: str = field(default_factory=_log_format)
    log_level: str = "info"
    origins: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Where each value came from: `--lease`, `HOURBELL_LEASE`, `hourbell.toml` or `default`."""
    unknown_variables: tuple[UnknownVariable, ...] = field(default=(), repr=False, compare=False)
    """Variables with our prefix that are not read."""

    @property
    def database(self) -> Database:
        return parse_database_url(self.database_url)

    @property
    def mail_server(self) -> MailServer | None:
        return None if self.smtp_url is None else parse_mail_server(self.smtp_url)

    @property
    def mail_sender(self) -> str:
        """Return the address that mail comes from: by default the login at the mail server."""
        return self.smtp_from or (self.mail_server.user if self.mail_server else "")

    @property
    def database_files(self) -> tuple[Path, ...]:
        """Return the files of a SQLite database, of which the last two exist while it is open; empty for PostgreSQL."""
        database = self.database
        names = ("", "-wal", "-shm") if database.kind == "sqlite" else ()
        return tuple(Path(f"{database.location}{name}") for name in names)


READERS: Mapping[str, Callable[[str], object]] = {
    "database_url": _database_url,
    "require_database": _switch,
    "http_addr": _address,
    "api_rate": _number(0, 1_000_000),
    "trusted_proxies": parse_networks,
    "public_path": _public_path,
    "http_connections": _number(1, 1_000_000),
    "http_connections_per_address": _number(0, 1_000_000),
    "http_header_timeout": _duration(1),
    "http_body_timeout": _duration(1),
    "event_streams": _number(1, 500),
    "trigger_rate": _number(0, 1_000_000),
    "import_max_mib": _number(1, 1_000_000),
    "tick_interval": _duration(1),
    "lease": _duration(1),
    "reap_interval": _duration(1),
    "drain_timeout": _duration(0),
    "slots": _number(1, 100_000),
    "lane_slots": _number(1, 100_000),
    "sync_threads": _number(1, 10_000),
    "sql_connections": _number(1, 1_000),
    "commands": _switch,
    "labels": _names(LABEL, "names of letters, digits, _, . and -, as in default,db1"),
    "command_slots": _number(1, 1_000),
    "command_users": _names(USER_NAME, "names of users of this machine, as in backup,www-data"),
    "poison_after": _number(1, 1_000),
    "allow_networks": parse_networks,
    "deny_networks": parse_networks,
    "allow_ports": parse_ports,
    "ca_file": Path,
    "contact": _contact,
    "public_url": _public_url,
    "smtp_url": _smtp_url,
    "smtp_from": parse_mail_address,
    "ping_url": _ping_url,
    "ping_interval": _duration(1),
    "secret_key": _keys,
    "secret_key_file": Path,
    "allow_functions": _signatures,
    "sql_database_url": _postgresql_url,
    "sql_databases": _databases,
    "retention": _duration(0),
    "keep_runs": _number(0, 1_000_000),
    "reconcile_enabled": _switch,
    "reconcile_interval": _duration(1),
    "reconcile_threshold": _duration(1),
    "reconcile_batch_size": _number(1, 100_000),
    "redis_url": _redis_url,
    "analytics_retention": _duration(86_400),
    "metrics_job_names": _switch,
    "log_format": _one_of("console", "json"),
    "log_level": _one_of("debug", "info", "warning", "error"),
}
SECRETS = frozenset({"database_url", "redis_url", "smtp_url", "sql_database_url"})  # shown masked
HIDDEN = frozenset({"ping_url", "secret_key", "sql_databases"})  # not shown at all
_WITHOUT_PREFIX = ("database_url", "http_addr", "tick_interval", "reconcile_", "redis_url")


def variables_of(name: str) -> tuple[str, ...]:
    """Return the environment variables that a setting is read from, in order of precedence."""
    plain = name.upper()
    return (PREFIX + plain, plain) if name.startswith(_WITHOUT_PREFIX) else (PREFIX + plain,)


def known_variables() -> frozenset[str]:
    """Return every environment variable that any part of Hourbell reads."""
    return frozenset(variable for name in READERS for variable in variables_of(name)).union(_OTHER_VARIABLES)


def load_settings(
    flags: Mapping[str, object] = MappingProxyType({}),
    *,
    arguments: Mapping[str, object] = MappingProxyType({}),
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    refuse_misspelled: bool = True,
) -> Settings:
    """Read every setting. A SettingsError names the first invalid one and where it was set.

    Flags come from the command line, and arguments from a program; None means not given. A variable whose name is
    nearly that of a setting is refused; other unknown ones are in `unknown_variables`.
    """
    environment = os.environ if environment is None else environment
    unknown = unknown_variables(environment, known_variables())
    if refuse_misspelled and (wrong := next((each for each in unknown if each.is_misspelled), None)) is not None:
        raise SettingsError(wrong.message)
    file = _read_file((folder or Path()) / FILE)
    values: dict[str, Any] = {}
    origins = {}
    for name in READERS:
        given = _find(name, flags, arguments, environment, file)
        origins[name] = DEFAULT if given is None else given[0]
        if given is not None:
            values[name] = _read(name, *given)
    settings = Settings(**values, origins=MappingProxyType(origins), unknown_variables=tuple(unknown))
    if settings.sql_database_url and settings.database.kind == "sqlite":
        raise SettingsError(
            f"{PREFIX}SQL_DATABASE_URL is another login to a PostgreSQL database, and the jobs are in SQLite; "
            f"name other databases by {PREFIX}SQL_DATABASES"
        )
    if settings.secret_key and settings.secret_key_file:
        raise SettingsError(f"{PREFIX}SECRET_KEY and {PREFIX}SECRET_KEY_FILE are both set; leave one of them out")
    if settings.mail_server is not None:
        try:
            parse_mail_address(settings.mail_sender)
        except ValueError as error:
            raise SettingsError(f"{PREFIX}SMTP_URL is set, and {PREFIX}SMTP_FROM is not; {error}") from None
    if settings.require_database and origins["database_url"] == DEFAULT:
        raise SettingsError(
            f"DATABASE_URL is not set, and {PREFIX}REQUIRE_DATABASE forbids the default; "
            "write postgresql://user:password@host/database or sqlite:///file.db"
        )
    return settings


def _find(
    name: str,
    flags: Mapping[str, object],
    arguments: Mapping[str, object],
    environment: Mapping[str, str],
    file: dict[str, Any],
) -> tuple[str, str] | None:
    """Return the first source of a value, and its text. An empty variable counts as not set."""
    if flags.get(name) is not None:
        return f"--{name.replace('_', '-')}", _text(flags[name])
    if arguments.get(name) is not None:
        return f"{name}=", _text(arguments[name])
    for variable in variables_of(name):
        if environment.get(variable):
            return variable, environment[variable]
    return (FILE, _text(file[name])) if name in file else None


def _read(name: str, origin: str, text: str) -> object:
    try:
        return READERS[name](text.strip())
    except ValueError as error:
        index = f"{name} in {FILE}" if origin == FILE else origin
        shown = "***" if name in HIDDEN else ascii(masked(text) if name in SECRETS else text)
        shown = shown if len(shown) <= 80 else f"{shown[:76]}…{shown[-1]}"
        raise (DatabaseUrlError if name == "database_url" else SettingsError)(f"{index} is {shown}; {error}") from None


def _text(value: object) -> str:
    """Return a value as text, as it would be written in the environment."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text, mode = read_with_mode(path)
        found = tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{FILE} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"{FILE} is not valid TOML: {' '.join(str(error).split())}") from None
    for name in found:
        if name not in READERS:
            meant = nearly(name[:100], READERS)
            hint = f"did you mean {meant}?" if meant else f"write one of {', '.join(READERS)}"
            raise SettingsError(f"{name[:40]!r} in {FILE} is not a setting; {hint}")
    secret = next((name for name, value in found.items() if _is_secret(name, _text(value))), None)
    if secret is not None and (why := exposure(path.absolute(), mode)) is not None:
        raise SettingsError(f"{FILE} holds a secret ({secret}), and {why}")
    return found


def _is_secret(name: str, text: str) -> bool:
    """Return True if a value must stay hidden: a key, or a URL with a password."""
    if name not in SECRETS | HIDDEN:
        return False
    return name == "secret_key" or any(masked(part) != part for part in _NEXT_DATABASE.split(text))
