"""Generated ids: new each time, and in the order of their time."""

from datetime import UTC, datetime, timedelta
from uuid import RFC_4122

from hourbell.core.values.ids import timed_id
from hourbell.ids import new_id


def test_new_ids_are_of_version_7_and_begin_with_the_time() -> None:
    before = datetime.now(UTC)
    ids = {new_id() for _ in range(1_000)}
    after = datetime.now(UTC)

    assert len(ids) == 1_000
    assert {(each.version, each.variant) for each in ids} == {(7, RFC_4122)}
    times = [datetime.fromtimestamp((each.int >> 80) / 1_000, UTC) for each in ids]
    assert before - timedelta(milliseconds=1) <= min(times) <= max(times) <= after


def test_an_id_keeps_all_bits_that_its_version_leaves_it() -> None:
    assert str(timed_id(0xFFFF_FFFF_FFFF, b"\xff" * 20, version=7)) == "ffffffff-ffff-7fff-bfff-ffffffffffff"
    assert str(timed_id(0, bytes(10), version=8)) == "00000000-0000-8000-8000-000000000000"
    assert len({timed_id(0, (1 << bit).to_bytes(10, "big"), version=7) for bit in range(80)}) == 74 + 1
