"""Behavior when the SQLite file is deleted, replaced or full, for each read and write of the store."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from hourbell.store.errors import StoreLost, StoreUnavailable, StoreUnwritable
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.database_file import DatabaseFile
from hourbell.store.sqlite.write_check import WriteCheck
from hourbell.store.sqlite.writer import InlineExecutor, WriterThread

pytestmark = pytest.mark.anyio


def count(session: Session) -> int:
    return int(session.fetch("select count(*) as rows from things")[0]["rows"])


def add(session: Session) -> None:
    session.execute("insert into things values (1)")


def make_table(session: Session) -> None:
    session.script("create table things (number integer)")


@asynccontextmanager
async def opened(file: DatabaseFile) -> AsyncIterator[WriterThread]:
    runner = WriterThread(file)
    try:
        await runner.write(make_table)
        yield runner
    finally:
        await runner.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hourbell.db"


def replace(path: Path) -> None:
    other = path.with_name("other.db")
    other.touch()
    other.replace(path)


GONE: dict[str, Callable[[Path], object]] = {
    "deleted": lambda path: path.unlink(),
    "moved": lambda path: path.rename(path.with_name("aside.db")),
    "replaced": replace,
    "log-deleted": lambda path: Path(f"{path}-wal").unlink(),
    "index-deleted": lambda path: Path(f"{path}-shm").unlink(),
}


@pytest.mark.parametrize("how", GONE)
async def test_the_first_write_after_it_is_not_acknowledged_nor_is_any_other(path: Path, how: str) -> None:
    reported: list[StoreLost] = []
    file = DatabaseFile(str(path), on_lost=reported.append)
    async with opened(file) as runner:
        await runner.write(add)
        GONE[how](path)
        for operation in (add, add, count):
            with pytest.raises(StoreLost, match="was replaced" if how == "replaced" else "was deleted or moved"):
                await (runner.read if operation is count else runner.write)(operation)

    assert len(reported) == 1
    assert how not in ("deleted", "moved") or not path.exists()  # no empty one was made in its place


async def test_another_connection_of_the_process_does_not_create_the_file_again(path: Path) -> None:
    file = DatabaseFile(str(path))
    async with opened(file):
        path.unlink()
        with pytest.raises(StoreUnavailable):
            await WriterThread(file).read(count)

    assert not path.exists()


async def test_a_file_that_was_replaced_while_no_connection_was_open_is_noticed(path: Path) -> None:
    file = DatabaseFile(str(path))
    async with opened(file) as runner:
        await runner.close()
        path.rename(path.with_name("aside.db"))
        path.touch()
        with pytest.raises(StoreLost, match="was replaced"):
            await runner.write(add)


async def test_a_replaced_file_does_not_inherit_the_log_of_the_one_before(path: Path) -> None:
    async with opened(DatabaseFile(str(path))) as runner:
        for _ in range(10):
            await runner.write(add)
        replace(path)
        with pytest.raises(StoreLost):
            await runner.write(add)
    with apsw.Connection(str(path)) as connection:
        tables = connection.execute("select name from sqlite_schema").fetchall()

    assert tables == []
    assert Path(f"{path}-wal.old").exists()


async def test_acknowledged_writes_survive_if_only_the_log_was_deleted(path: Path) -> None:
    async with opened(DatabaseFile(str(path))) as runner:
        await runner.write(add)
        Path(f"{path}-wal").unlink()
        with pytest.raises(StoreLost):
            await runner.write(add)
    async with _reopened(path) as again:
        assert await again.read(count) >= 1


async def test_the_file_is_the_same_after_every_connection_was_closed(path: Path) -> None:
    file = DatabaseFile(str(path))
    async with opened(file) as runner:
        for _ in range(3):
            await runner.close()  # the last connection takes the log with it
            await runner.write(add)

        assert await runner.read(count) == 3


async def test_a_database_in_memory_is_never_lost() -> None:
    runner = InlineExecutor()
    await runner.write(make_table)
    threaded = WriterThread(runner.path)
    await threaded.write(add)

    assert await runner.read(count) == 1
    await threaded.close()


async def test_no_empty_database_is_made_beside_the_log_of_another(path: Path) -> None:
    Path(f"{path}-wal").write_bytes(b"a log")
    with pytest.raises(StoreUnwritable, match=r"hourbell\.db-wal is there and hourbell\.db is not"):
        await WriterThread(str(path)).read(count)

    assert not path.exists()


class FullDisk(apsw.VFS):
    """A file system on which nothing more can be written while `is_full`."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.is_full = False

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "FullFile":  # noqa: N802
        return FullFile(self, name, flags)


class FullFile(apsw.VFSFile):
    def __init__(self, disk: FullDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        if self._disk.is_full:
            raise apsw.FullError("no space left on device")
        super().xWrite(data, offset)


async def test_a_full_disk_is_known_until_a_write_goes_well_again(path: Path) -> None:
    disk = FullDisk("full-disk")
    file = DatabaseFile(str(path), vfs="full-disk")
    async with opened(file) as runner:
        check = WriteCheck(file, runner)
        assert await check.error() is None
        disk.is_full = True
        with pytest.raises(StoreUnwritable, match="the disk is full"):
            await runner.write(add)
        error = await check.error()

        assert isinstance(error, StoreUnwritable)
        assert error.reason == "the disk is full"
        disk.is_full = False
        assert await check.error() is None
        await runner.write(add)
        assert await runner.read(count) == 1


async def test_a_commit_of_nothing_does_not_prove_that_the_disk_takes_writes(path: Path) -> None:
    disk = FullDisk("quiet-disk")
    file = DatabaseFile(str(path), vfs="quiet-disk")
    async with opened(file) as runner:
        disk.is_full = True
        with pytest.raises(StoreUnwritable):
            await runner.write(add)
        await runner.write(count)

        assert isinstance(await WriteCheck(file, runner).error(), StoreUnwritable)
        assert not file.was_written_within(60)


async def test_an_idle_database_is_asked_by_a_write_that_changes_nothing(path: Path) -> None:
    disk = FullDisk("idle-disk")
    async with opened(DatabaseFile(str(path), vfs="idle-disk")):
        file = DatabaseFile(str(path), vfs="idle-disk")  # as of another process, which has not written yet
        runner = WriterThread(file)
        check = WriteCheck(file, runner)
        disk.is_full = True

        assert isinstance(await check.error(), StoreUnwritable)
        disk.is_full = False
        assert await check.error() is None
        assert file.was_written_within(60)
        await runner.close()


@asynccontextmanager
async def _reopened(path: Path) -> AsyncIterator[WriterThread]:
    runner = WriterThread(str(path))
    try:
        yield runner
    finally:
        await runner.close()
