"""The pytest plugin: the fixtures `hourbell` and `fires`. It loads nothing of Hourbell before a test asks for one."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hourbell.testing.rehearsal import Rehearsal


@pytest.fixture(name="hourbell")
def _hourbell() -> Iterator["Rehearsal"]:
    """A service of its own for this test: the real engine, a database in memory, and a clock that jumps."""
    from hourbell.testing.rehearsal import Rehearsal

    with Rehearsal() as rehearsal:
        yield rehearsal


@pytest.fixture(name="fires", scope="session")
def _fires() -> Callable[..., list[str]]:
    """When a schedule fires: fires("0 9 * * 1", between=("2026-11-01", "2026-11-30"), timezone="Europe/Paris")."""
    from hourbell.testing.firing import fires

    return fires
