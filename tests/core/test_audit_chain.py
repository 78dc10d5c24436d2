"""The audit chain as a rule: what a hash covers, what a seal vouches for, and which break each change makes."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from hourbell.core.access.audit_chain import (
    GENESIS,
    GRACE,
    LATE,
    AuditedChange,
    Break,
    ChainCheck,
    Link,
    SealKeys,
    extend_chain,
    link_hash,
)

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)
PLAIN = SealKeys()
OLD, NEW = SealKeys({"old": b"o" * 32}, "old"), SealKeys({"new": b"n" * 32, "old": b"o" * 32}, "new")
CHANGE = AuditedChange(
    7, T0, "ann", "job.edit", "job-1", '{"a": 1}', '{"a": 2, "b": [1.5, "é"]}', "0a", "192.0.2.1", "r-1"
)
Chain = list[tuple[Link, AuditedChange | None]]


def changes(*ids: int, at: datetime = T0) -> list[AuditedChange]:
    return [CHANGE._replace(id=each, at=at) for each in ids]


def chained(*ids: int, seals: SealKeys = PLAIN, now: datetime = T0, head: Link | None = None) -> Chain:
    rows = changes(*ids)
    return list(zip(extend_chain(head, rows, now, seals), rows, strict=True))


def breaks(chain: Chain, seals: SealKeys = PLAIN, *, now: datetime = T0) -> list[Break]:
    check = ChainCheck(seals)
    found = [each for link, change in chain for each in check.check(link, change)]
    return [*found, *check.finish(now)]


def kinds(chain: Chain, seals: SealKeys = PLAIN, *, now: datetime = T0) -> list[tuple[str, int | None]]:
    return [(each.kind, each.position) for each in breaks(chain, seals, now=now)]


def test_the_hash_of_a_row_never_changes() -> None:
    """Chains outlive releases: another format needs another name in the hashed text."""
    first = link_hash(GENESIS, 1, T0, CHANGE)

    assert first == "b4d46b0e7f082c76860c5d863bbfb75387678b1ad2598b8bf5b251ef085d0bb3"


def test_a_hash_does_not_depend_on_how_a_database_writes_json_and_times() -> None:
    other = CHANGE._replace(
        at=T0.astimezone(timezone(timedelta(hours=5))), before='{"a":1}', after='{"b": [1.50, "\\u00e9"],  "a": 2}'
    )

    assert link_hash(GENESIS, 1, T0, other) == link_hash(GENESIS, 1, T0, CHANGE)


@pytest.mark.parametrize("column", AuditedChange._fields)
def test_every_column_is_covered(column: str) -> None:
    others: dict[str, Any] = {"id": 8, "at": T0 + timedelta(microseconds=1), "before": None, "after": "not JSON {"}
    other = CHANGE._replace(**{column: others.get(column, "other")})

    assert link_hash(GENESIS, 1, T0, other) != link_hash(GENESIS, 1, T0, CHANGE)


def test_adjacent_columns_are_hashed_separately() -> None:
    one, two = (CHANGE._replace(actor=actor, action=action) for actor, action in (("a", "bc"), ("ab", "c")))

    assert link_hash(GENESIS, 1, T0, one) != link_hash(GENESIS, 1, T0, two)


def test_an_untouched_chain_has_no_break() -> None:
    chain = chained(1, 2, 3, seals=NEW)
    chain += chained(5, 4, seals=NEW, now=T0 + SECOND, head=chain[-1][0])

    assert [link.position for link, _ in chain] == [1, 2, 3, 4, 5]
    assert breaks(chain) == breaks(chain, NEW) == []


def test_a_changed_row_is_one_break_with_its_position() -> None:
    chain = chained(1, 2, 3)
    chain[1] = chain[1][0], changes(2)[0]._replace(actor="mallory")

    [found] = breaks(chain)
    assert (found.kind, found.position, found.audit_id, found.at) == ("row_changed", 2, 2, T0)


def test_a_row_with_a_recomputed_hash_does_not_fit_the_next() -> None:
    chain = chained(1, 2, 3)
    forged = changes(2)[0]._replace(actor="mallory")
    chain[1] = chain[1][0]._replace(hash=link_hash(chain[0][0].hash, 2, T0, forged)), forged

    assert kinds(chain) == [("row_changed", 3)]


def test_a_removed_row_is_found_by_its_link_and_a_removed_link_by_its_position() -> None:
    chain = chained(1, 2, 3, 4)

    assert kinds([chain[0], (chain[1][0], None), *chain[2:]]) == [("row_removed", 2)]
    assert kinds([chain[0], chain[3]]) == [("links_removed", 4)]
    assert kinds(chain[1:]) == [("links_removed", 2)]


def test_a_recomputed_chain_without_the_key_has_wrong_seals_or_none() -> None:
    chain = chained(1, 2, seals=NEW)
    forged = [each._replace(actor="mallory") for each in changes(1, 2)]
    anew = extend_chain(None, forged, T0, PLAIN)
    stolen = [link._replace(key_id=old.key_id, seal=old.seal) for link, (old, _) in zip(anew, chain, strict=True)]
    later = T0 + GRACE + SECOND

    assert kinds(list(zip(anew, forged, strict=True)), now=later) == []  # a plain hash says nothing
    assert kinds(list(zip(anew, forged, strict=True)), NEW, now=later) == [("unsealed", 1)]
    assert kinds(list(zip(stolen, forged, strict=True)), NEW, now=later) == [("seal_wrong", 1), ("seal_wrong", 2)]


def test_a_key_can_be_rotated_away() -> None:
    """A seal of the new key covers everything before it."""
    chain = chained(1, 2, seals=OLD)
    [checkpoint] = extend_chain(chain[-1][0], [], T0 + SECOND, NEW, is_start=True)
    only_new = SealKeys({"new": NEW.keys["new"]}, "new")
    later = T0 + GRACE + 2 * SECOND

    assert checkpoint.audit_id is None
    assert kinds(chain, only_new, now=later) == [("unsealed", 1)]
    assert kinds([*chain, (checkpoint, None)], only_new, now=later) == []


def test_a_checkpoint_is_written_only_where_it_is_needed() -> None:
    [[sealed, _]], [[plain, _]] = chained(1, seals=OLD), chained(1)

    assert extend_chain(None, [], T0, NEW, is_start=True) == []
    assert extend_chain(sealed, [], T0, NEW) == []  # nodes with different newest keys do not answer each other
    assert extend_chain(sealed, [], T0, OLD, is_start=True) == []
    assert extend_chain(plain, [], T0, PLAIN, is_start=True) == []
    assert [link.key_id for link in extend_chain(plain, [], T0, NEW)] == ["new"]


def test_a_row_that_became_visible_late_is_no_break() -> None:
    chain = chained(1, 3)
    chain += chained(2, now=T0 + LATE, head=chain[-1][0])

    assert kinds(chain) == []


def test_a_row_inserted_among_old_ones_is_a_break_in_the_chain() -> None:
    chain = chained(1, 3)
    chain += chained(4, now=T0 + LATE, head=chain[-1][0])
    chain += chained(2, now=T0 + LATE + SECOND, head=chain[-1][0])

    assert kinds(chain) == [("row_inserted", 4)]


def test_a_backlog_chained_in_order_is_late_but_no_break() -> None:
    chain = chained(*range(1, 6), now=T0 + 2 * LATE)
    check = ChainCheck(PLAIN)

    assert [each for link, change in chain for each in check.check(link, change)] == []
    assert (check.rows, check.chained_late) == (5, 5)


def test_text_without_a_canonical_form_is_hashed_as_it_is() -> None:
    texts = ["{", "{ ", "[" * 100_000, "1e9999999999999999999", "1e998", "1e999", '{"a": 1}', '{"a": 2, "a": 1}']
    rows = [CHANGE._replace(before=text) for text in texts]

    assert len({link_hash(GENESIS, 1, T0, row) for row in rows}) == len(texts)


def test_a_link_before_the_first_one_is_a_break() -> None:
    chain = chained(1, 2)
    forged = chain[0][0]._replace(position=-1, audit_id=9)

    assert kinds([(forged, changes(9)[0]), *chain]) == [("link_inserted", -1)]


def test_links_without_a_seal_do_not_hide_in_the_future() -> None:
    chain = chained(1, now=T0 + timedelta(days=999))

    assert kinds(chain, NEW) == [("unsealed", 1)]


def test_a_seal_that_is_no_hexadecimal_text_is_wrong() -> None:
    [[link, change]] = chained(1, seals=NEW)

    for seal in ("é", "", None):
        assert kinds([(link._replace(seal=seal), change)], NEW) == [("seal_wrong", 1)]
