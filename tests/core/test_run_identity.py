"""Ids and jitter are pure functions of the job and the instant: the same today, after a restore, on every node."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.run.run import is_scheduled_run_id, jitter_of, manual_run_id, scheduled_run_id
from tests.core.schedule.strategies import examples

JOB = UUID("6f7c1f4e-2f0a-4d8e-9d6f-3f6a7b8c9d0e")
T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND, MILLISECOND, MINUTE = timedelta(microseconds=1), timedelta(milliseconds=1), timedelta(minutes=1)
PARIS = timezone(timedelta(hours=1))

instants = st.timedeltas(timedelta(days=-20_000), timedelta(days=60_000)).map(lambda since: T0 + since)
durations = st.timedeltas(MICROSECOND, timedelta(days=366))


def test_an_id_never_changes() -> None:
    assert scheduled_run_id(JOB, T0) == UUID("019cadc6-9a80-80ae-b195-457a4f674264")
    assert manual_run_id(JOB, "order-7") == UUID("30e2805a-b099-57a9-b61a-5a1404b3501d")


@examples(300)
@given(st.uuids(), st.uuids(), instants, st.timedeltas(MILLISECOND, timedelta(days=10_000)))
def test_ids_are_in_the_order_of_their_instants(job: UUID, other: UUID, at: datetime, step: timedelta) -> None:
    earlier, later = scheduled_run_id(job, at), scheduled_run_id(other, at + step)

    assert earlier.bytes < later.bytes or at < EPOCH <= at + step  # they begin with an unsigned number
    assert (earlier.version, earlier.variant) == (8, RFC_4122)
    assert (later.version, later.variant) == (8, RFC_4122)


def test_an_id_in_the_old_form_is_recognized() -> None:
    former = UUID("60aeb195-457a-5f67-8264-eea9355d79bb")

    assert is_scheduled_run_id(former, JOB, T0)
    assert is_scheduled_run_id(scheduled_run_id(JOB, T0), JOB, T0)
    assert not is_scheduled_run_id(former, JOB, T0 + MICROSECOND)
    assert not is_scheduled_run_id(former, UUID(int=1), T0)


def test_an_id_belongs_to_one_job_and_one_instant() -> None:
    ids = {scheduled_run_id(job, T0 + step * MICROSECOND) for job in (JOB, UUID(int=1)) for step in range(100)}

    assert len(ids) == 200


def test_an_idempotency_key_is_never_mistaken_for_an_instant() -> None:
    microseconds = str(int(T0.timestamp()) * 1_000_000)

    assert manual_run_id(JOB, microseconds) != scheduled_run_id(JOB, T0)
    assert manual_run_id(JOB, "a") != manual_run_id(JOB, "b")


@pytest.mark.parametrize("of", [scheduled_run_id, lambda job, at: jitter_of(job, at, MINUTE)], ids=["id", "jitter"])
def test_the_zone_an_instant_is_written_in_does_not_matter(of: object) -> None:
    assert callable(of)
    assert of(JOB, T0) == of(JOB, T0.astimezone(PARIS))


@examples(300)
@given(st.uuids(), instants, durations)
def test_jitter_is_stable_and_below_its_limit(job: UUID, at: datetime, limit: timedelta) -> None:
    jitter = jitter_of(job, at, limit)

    assert timedelta(0) <= jitter < limit
    assert jitter_of(job, at, limit) == jitter


def test_no_jitter_is_no_jitter() -> None:
    assert jitter_of(JOB, T0, timedelta(0)) == timedelta(0)


def test_jitter_spreads_evenly() -> None:
    quarters = [jitter_of(UUID(int=job), T0, 4 * MINUTE) // MINUTE for job in range(4_000)]

    assert all(900 < quarters.count(quarter) < 1_100 for quarter in range(4))
