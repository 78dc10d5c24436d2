"""Helpers that read the OpenAPI document, for tests of the whole API."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from hourbell.api.access import Authenticator
from hourbell.api.app import build_app
from hourbell.api.openapi import describe
from hourbell.metrics import Metrics

NOT_THERE = "00000000-0000-0000-0000-00000000dead"
CHANGES = ("post", "put", "patch", "delete")


@dataclass(frozen=True)
class Operation:
    name: str
    method: str
    path: str
    described: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path}"

    @property
    def body(self) -> dict[str, Any] | None:
        """The media types it takes, with their schemas."""
        found: dict[str, Any] | None = self.described.get("requestBody", {}).get("content")
        return found

    @property
    def requires_body(self) -> bool:
        return bool(self.described.get("requestBody", {}).get("required"))

    def at(self, **parts: str) -> str:
        """Return the path with its parameters filled in.

        Unless they are given, numbers are 1, and channels, policies and incidents do not exist.
        """
        return self.path.format_map({"version": "1", "entry": "1", "name": "nobody", "incident": NOT_THERE, **parts})


@cache
def document() -> dict[str, Any]:
    """Return the document of an app without a store."""
    nothing: Any = None
    authenticator = Authenticator(nothing, nothing, nothing, nothing, is_local=True)
    return describe(build_app(nothing, authenticator, nothing, Metrics(), version="test"))


def operations() -> list[Operation]:
    """Every operation, those under /schedules too."""
    return list(_operations())


def distinct_operations() -> list[Operation]:
    """The same without those under /schedules, which are the jobs' once more."""
    return [each for each in _operations() if "/schedules" not in each.path]


def _operations() -> Iterator[Operation]:
    for path, methods in document()["paths"].items():
        for method, described in methods.items():
            yield Operation(described["operationId"], method, path, described)
