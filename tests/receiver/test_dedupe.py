"""Each run once, in the receiver's own transaction, on the standard library's SQLite."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from hourbell.receiver import CREATE_TABLE, forget, once

Connect = Callable[..., sqlite3.Connection]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    opened: list[sqlite3.Connection] = []

    def another(**options: object) -> sqlite3.Connection:
        opened.append(sqlite3.connect(tmp_path / "receiver.db", check_same_thread=False, **options))  # type: ignore[call-overload]
        return opened[-1]

    with another() as first:
        first.execute(CREATE_TABLE)
        first.execute("create table work (id text)")
    yield another
    for each in opened:
        each.close()


def test_a_run_is_new_the_first_time_only(connect: Connect) -> None:
    connection = connect()

    with connection:
        assert once(connection, "a")
        assert not once(connection, "a")
        assert once(connection, "b")
    assert not once(connect(), "a")


def test_after_a_rollback_a_run_is_new_again(connect: Connect) -> None:
    connection = connect()
    assert once(connection, "a")
    connection.execute("insert into work values ('a')")
    connection.rollback()

    assert once(connection, "a")
    assert connection.execute("select count(*) from work").fetchone() == (0,)


def test_a_second_delivery_cannot_pass_the_first(connect: Connect) -> None:
    first, second = connect(), connect(timeout=0)
    assert once(first, "a")

    with pytest.raises(sqlite3.OperationalError, match="locked"):
        once(second, "a")
    first.rollback()
    assert once(second, "a")


@pytest.mark.parametrize("first_commits", [True, False])
def test_a_second_delivery_waits_for_the_end_of_the_first(connect: Connect, first_commits: bool) -> None:
    first, second = connect(), connect(timeout=30)
    assert once(first, "a")

    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(once, second, "a")
        first.commit() if first_commits else first.rollback()
        assert waiting.result() is not first_commits


def test_one_of_many_concurrent_deliveries_does_the_work(connect: Connect) -> None:
    def deliver(_: int) -> None:
        connection = connect(timeout=30)
        with connection:
            if once(connection, "a"):
                connection.execute("insert into work values ('a')")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(deliver, range(24)))
    assert connect().execute("select id from work").fetchall() == [("a",)]


def test_without_a_transaction_nothing_is_written(connect: Connect) -> None:
    connection = connect(isolation_level=None)

    with pytest.raises(RuntimeError, match="begin a transaction first"):
        once(connection, "a")
    connection.execute("begin")
    assert once(connection, "a")


def test_a_class_of_ones_own_is_still_sqlite(connect: Connect) -> None:
    class Mine(sqlite3.Connection):
        pass

    assert once(connect(factory=Mine), "a")


def test_old_ids_are_forgotten(connect: Connect) -> None:
    connection = connect()
    connection.execute("insert into hourbell_received values ('old', datetime('now', '-31 days'))")
    connection.execute("insert into hourbell_received values ('young', datetime('now', '-29 days'))")
    once(connection, "new")

    assert forget(connection, timedelta(days=30)) == 1
    left = connection.execute("select id from hourbell_received order by 1").fetchall()
    assert left == [("new",), ("young",)]


@pytest.mark.parametrize("age", [timedelta(0), -timedelta(days=1)])
def test_an_age_of_nothing_is_refused(connect: Connect, age: timedelta) -> None:
    with pytest.raises(ValueError, match="older than some time"):
        forget(connect(), age)


def test_the_table_is_made_once(connect: Connect) -> None:
    connection = connect()
    once(connection, "a")

    connection.execute(CREATE_TABLE)
    assert not once(connection, "a")
