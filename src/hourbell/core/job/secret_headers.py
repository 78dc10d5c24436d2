"""The rule of secret headers: a value is sent only to the origin it was set for.

An origin is scheme, host and port, as `Url.origin` writes it. Signing secrets never leave the process, so they are
bound to their job only. Stores, the control layer and the http target all use the functions here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from hourbell.core.job.definition import Definition
from hourbell.core.job.target import HttpCall, TargetError, parse_target
from hourbell.core.values.url import parse_url

SIGNING = "signing"  # fields of a job's secrets: the one that signs its requests,
HEADER = "header:"  # and headers sent with them, by name


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
    """An attempt to send a secret header to an origin that it was not set for. Nothing is sent."""


@dataclass(frozen=True, slots=True)
class OriginChange:
    """Permission to change the origin of a job that has secret headers.

    `given` names the headers whose new values come with the change; `drop` removes the others.
    """

    is_admin: bool = False
    drop: bool = False
    given: frozenset[str] = frozenset()


def header_name(field: str) -> str | None:
    """Return the header name of a secret's field, in lower case; None if the field is no header."""
    return field.removeprefix(HEADER).lower() if field.startswith(HEADER) else None


def origin_of(definition: Definition) -> str | None:
    """Return the origin of a job's requests; None if it sends none, or its target is invalid."""
    try:
        call = parse_target(definition.target)
    except TargetError:
        return None
    return call.url.origin if isinstance(call, HttpCall) else None


def headers_for(origin: str, secrets: Iterable[S]) -> list[S]:
    """Return the secret headers to send to an origin. `secrets` are the job's valid ones, newest first.

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
    """Return the names of current secret headers that were not set for the new origin of a job.

    `secrets` are those of the job. The result is empty if the origin does not change.
    """
    new = origin_of(after)
    if new is None or new == origin_of(before):
        return frozenset()
    current = [each for each in secrets if each.valid_until is None]
    names = {header_name(each.field) for each in current} - {header_name(e.field) for e in current if e.origin == new}
    return frozenset(name for name in names if name is not None)


def show_origin(origin: str | None) -> str:
    """Format an origin for users: without the scheme's default port."""
    return "no origin" if origin is None else str(parse_url(origin)).removesuffix("/")


def _elsewhere(secret: SecretField, origin: str) -> str:
    name = secret.field.removeprefix(HEADER)
    if secret.origin is None:
        was = f"the header {name} was set before secrets were bound to an origin"
    else:
        was = f"the header {name} was set for {show_origin(secret.origin)}"
    return f"{was}; set it again for {show_origin(origin)}"
