"""Checks of a deployment: access, listening address, keys, files, database roles and limits.

To add a check, write a function from a Deployment to defects, add it to CHECKS, and add its kind to the catalog.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from hourbell.core.doctor import catalog
from hourbell.core.doctor.findings import Defect
from hourbell.core.values.readers import show_duration

SHORTEST_RETENTION = timedelta(days=1)
MAX_RETENTION = timedelta(days=730)
SPARE_DESCRIPTORS = 500  # for connections of the API and the database, and for files


@dataclass(frozen=True, slots=True)
class AccessFacts:
    """Access facts that are read from the database."""

    is_open: bool  # callers on the server's machine need no token
    valid_tokens: int
    own_function_jobs: int  # jobs that call SQL functions in Hourbell's own database
    superuser: str | None = None  # the role of this login, if it is a superuser


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Settings, files and limits as this process sees them, with the access facts if the database can be read."""

    http_addr: str
    is_loopback: bool
    has_trusted_proxies: bool
    exposed_files: tuple[str, ...] = ()  # files of the database that every user can open
    close_command: str = ""  # shell command that makes them private
    has_key: bool = True
    key_exposure: str | None = None  # why the key file is not private, and what to do
    unencrypted: tuple[str, ...] = ()  # settings that connect to a remote database without TLS, with the hosts
    has_function_login: bool = True
    retention: timedelta = timedelta(days=30)
    slots: int = 1_000
    descriptors: int | None = None  # maximum number for this process; None if unlimited
    access: AccessFacts | None = None


def check_deployment(deployment: Deployment) -> Iterator[Defect]:
    for check in CHECKS:
        yield from check(deployment)


def check_tokens(deployment: Deployment) -> Iterator[Defect]:
    access = deployment.access
    if access is not None and access.is_open:
        yield Defect(catalog.ACCESS_OPEN, f"the server at {deployment.http_addr} asks for no token")
    elif access is not None and not access.valid_tokens:
        yield Defect(catalog.TOKEN_MISSING, "every token was revoked or has expired")


def check_listening(deployment: Deployment) -> Iterator[Defect]:
    if not deployment.is_loopback and not deployment.has_trusted_proxies:
        yield Defect(catalog.HTTP_UNENCRYPTED, f"HTTP_ADDR is {deployment.http_addr}, and no proxy is trusted")


def check_files(deployment: Deployment) -> Iterator[Defect]:
    for path in deployment.exposed_files:
        yield Defect(catalog.DATABASE_EXPOSED, f"{path}; run: {deployment.close_command}")


def check_key(deployment: Deployment) -> Iterator[Defect]:
    if deployment.key_exposure is not None:
        yield Defect(catalog.KEY_EXPOSED, deployment.key_exposure)
    if not deployment.has_key:
        yield Defect(catalog.KEY_MISSING, "neither HOURBELL_SECRET_KEY nor a key file is there")


def check_encryption(deployment: Deployment) -> Iterator[Defect]:
    for each in deployment.unencrypted:
        yield Defect(catalog.DATABASE_UNENCRYPTED, each)


def check_roles(deployment: Deployment) -> Iterator[Defect]:
    access = deployment.access
    if access is not None and access.superuser is not None:
        yield Defect(catalog.ROLE_SUPERUSER, f"role {access.superuser}")
    if access is not None and access.own_function_jobs and not deployment.has_function_login:
        yield Defect(catalog.FUNCTION_LOGIN_MISSING, f"jobs that call functions: {access.own_function_jobs}")


def check_retention(deployment: Deployment) -> Iterator[Defect]:
    if not SHORTEST_RETENTION <= deployment.retention <= MAX_RETENTION:
        yield Defect(catalog.RETENTION_UNUSUAL, f"HOURBELL_RETENTION is {show_duration(deployment.retention)}")


def check_descriptors(deployment: Deployment) -> Iterator[Defect]:
    limit, needed = deployment.descriptors, deployment.slots + SPARE_DESCRIPTORS
    if limit is not None and limit < needed:
        yield Defect(catalog.DESCRIPTORS_FEW, f"the limit is {limit}, and {deployment.slots} slots need {needed}")


CHECKS: tuple[Callable[[Deployment], Iterator[Defect]], ...] = (
    check_tokens,
    check_listening,
    check_key,
    check_files,
    check_encryption,
    check_roles,
    check_retention,
    check_descriptors,
)
