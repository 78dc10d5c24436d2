"""The pytest plugin: the fixtures `hourbell` and `fires`. It imports Hourbell only when a test uses one."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hourbell.testing.rehearsal import Rehearsal


@pytest.fixture(name="hourbell")
def _hourbell() -> Iterator["Rehearsal"]:
    """A separate service for this test: the real engine, an in-memory database and a virtual clock."""
    from hourbell.testing.rehearsal import Rehearsal

    with Rehearsal() as rehearsal:
        yield rehearsal


@pytest.fixture(name="fires", scope="session")
def _fires() -> Callable[..., list[str]]:
    """Times of a schedule: fires("0 9 * * 1", between=("2026-11-01", "2026-11-30"), timezone="Europe/Paris")."""
    from hourbell.testing.firing import fires

    return fires
