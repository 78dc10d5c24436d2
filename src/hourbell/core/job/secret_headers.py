"""The rule of secret headers: a value goes to the origin it was set for, and to no other.

An origin is scheme, host and port, as `Url.origin` writes it. Signing secrets never leave the process, so they belong
to their job only. Stores, control and the http target all decide by the functions here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from hourbell.core.job.definition import Definition
from hourbell.core.job.target import HttpCall, TargetError, parse_target
from hourbell.core.values.url import parse_url

SIGNING = "signing"  # the fields of a job's secrets: what signs its requests,
HEADER = "header:"  # and headers that are sent with them, by name


class SecretField(Protocol):
    """A secret of a job, sealed or not. Without `valid_until` it is the current one of its field."""

    @property
    def field(self) -> str: ...

    @property
    def origin(self) -> str | None: ...

    @property
    def valid_until(self) -> datetime | None: ...


S = TypeVar("S", bound=SecretField)


class WrongOrigin(Exception):
    """A secret header of the job was set for another origin, so nothing may be sent."""


@dataclass(frozen=True, slots=True)
class OriginChange:
    """How a caller may change the origin of a job that has secret headers, and what becomes of them.

    `given` are the names of headers whose new values come with the change; `drop` gives up the others.
    """

    is_admin: bool = False
    drop: bool = False
    given: frozenset[str] = frozenset()


def header_name(field: str) -> str | None:
    """The header that a field of a secret stands for, in lower case; None if it stands for none."""
    return field.removeprefix(HEADER).lower() if field.startswith(HEADER) else None


def origin_of(definition: Definition) -> str | None:
    """Where the requests of a job go; None if it sends none, or its target cannot be read."""
    try:
        call = parse_target(definition.target)
    except TargetError:
        return None
    return call.url.origin if isinstance(call, HttpCall) else None


def headers_for(origin: str, secrets: Iterable[S]) -> list[S]:
    """The secret headers to send to an origin. `secrets` are those of the job that are valid, the newest first.

    Raise WrongOrigin if the job has a current header that was not set for this origin.
    """
    chosen: dict[str, S] = {}
    missing: dict[str, S] = {}
    for secret in secrets:
        name = header_name(secret.field)
        if name is None:
            continue
        if secret.origin == origin:
            chosen.setdefault(name, secret)
        elif secret.valid_until is None:
            missing[name] = secret
    for name, secret in missing.items():
        if name not in chosen:
            raise WrongOrigin(_elsewhere(secret, origin))
    return list(chosen.values())


def headers_left_behind(before: Definition, after: Definition, secrets: Iterable[SecretField]) -> frozenset[str]:
    """The names of the current secret headers that were not set for the origin to which a job is about to go.

    `secrets` are those of the job. Nothing is left behind by a change that keeps the origin.
    """
    new = origin_of(after)
    if new is None or new == origin_of(before):
        return frozenset()
    current = [each for each in secrets if each.valid_until is None]
    names = {header_name(each.field) for each in current} - {header_name(e.field) for e in current if e.origin == new}
    return frozenset(name for name in names if name is not None)


def show_origin(origin: str | None) -> str:
    """An origin as people write it: without the port of its scheme."""
    return "no origin" if origin is None else str(parse_url(origin)).removesuffix("/")


def _elsewhere(secret: SecretField, origin: str) -> str:
    name = secret.field.removeprefix(HEADER)
    if secret.origin is None:
        was = f"the header {name} was set before secrets were bound to an origin"
    else:
        was = f"the header {name} was set for {show_origin(secret.origin)}"
    return f"{was}; set it again for {show_origin(origin)}"
