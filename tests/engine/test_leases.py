"""Timing of leases: how long they are trusted, and how long a node counts as alive."""

from datetime import timedelta

import pytest

from hourbell.engine.leases import Leases
from tests.engine.test_time import Elapsed

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(("duration", "live_for"), [(MINUTE / 2, MINUTE), (MINUTE, MINUTE), (5 * MINUTE, 5 * MINUTE)])
def test_a_node_counts_as_alive_for_its_lease_and_at_least_a_minute(duration: timedelta, live_for: timedelta) -> None:
    assert Leases(duration, Elapsed()).live_for == live_for


def test_a_lease_is_trusted_for_its_length_less_a_twelfth() -> None:
    elapsed = Elapsed(100.0)
    leases = Leases(MINUTE, elapsed)

    until = leases.trust_from_now()

    assert until == pytest.approx(155.0)
    elapsed.seconds = until - 0.001
    assert leases.is_trusted(until)
    elapsed.seconds = until
    assert not leases.is_trusted(until)


def test_nothing_is_claimed_before_the_first_renewal_and_past_the_last() -> None:
    elapsed = Elapsed(100.0)
    leases = Leases(MINUTE, elapsed)
    assert not leases.is_renewing

    leases.renewed(101.0)

    assert leases.is_renewing
    elapsed.seconds = 101.0
    assert not leases.is_renewing
