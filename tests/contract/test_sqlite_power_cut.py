"""Every acknowledged commit survives a power cut, and the file is intact.

A file system of our own, below SQLite, remembers what was written since the last sync of each file. A power cut keeps
what was synced, and of the rest any part: some writes whole, some torn, some not at all.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from uuid import uuid4

import apsw
import pytest

from hourbell.store.sqlite.connection import Patience, Session
from hourbell.store.sqlite.database_file import DatabaseFile
from hourbell.store.sqlite.migrate import migrate
from hourbell.store.sqlite.writer import WriterThread

pytestmark = pytest.mark.anyio

COMMITS = 60
SECTOR = 512  # bytes that a disk writes whole or not at all
_Write = tuple[int, bytes | None]  # where, and what; None cuts the file off there
_State = tuple[bytes, tuple[_Write, ...]]  # what was synced of a file, and what was written since


class Disk(apsw.VFS):
    """Keeps what it is given in real files, and knows how much of it a power cut would leave."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self._synced: dict[str, bytearray] = {}
        self._unsynced: dict[str, list[_Write]] = {}

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "DiskFile":  # noqa: N802
        return DiskFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._synced.pop(Path(filename).name, None)
        self._unsynced.pop(Path(filename).name, None)

    def write(self, name: str, offset: int, data: bytes | None) -> None:
        self._unsynced.setdefault(name, []).append((offset, data))

    def sync(self, name: str) -> None:
        content = self._synced.setdefault(name, bytearray())
        for offset, data in self._unsynced.pop(name, ()):
            _apply(content, offset, data)

    def state(self) -> dict[str, _State]:
        """The disk at this moment."""
        names = self._synced.keys() | self._unsynced.keys()
        return {name: (bytes(self._synced.get(name, b"")), tuple(self._unsynced.get(name, ()))) for name in names}


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._name = Path(str(name.filename() if isinstance(name, apsw.URIFilename) else name)).name

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._disk.write(self._name, offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        super().xTruncate(size)
        self._disk.write(self._name, size, None)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._disk.sync(self._name)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def left_after(state: _State, random: Random) -> bytes:
    """Simulate a power cut: each write since the last sync is kept, lost or torn."""
    synced, unsynced = state
    content = bytearray(synced)
    for offset, data in unsynced:
        kept = random.choice(("all", "none", "part"))
        if kept == "all" or (data is None and kept == "part"):
            _apply(content, offset, data)
        elif kept == "part" and data is not None:
            _apply(content, offset, data[: random.randrange(0, len(data) + 1, SECTOR)])
    return bytes(content)


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk(f"disk-{uuid4().hex}")
    yield made
    made.unregister()


def add(number: int) -> Callable[[Session], None]:
    def insert(session: Session) -> None:
        session.execute("insert into hourbell_meta (key, value) values (?, ?)", f"commit {number}", "x" * 500)

    return insert


def copy_log(file: DatabaseFile) -> None:
    """Copy the log into the file as a node does now and then, on a connection of its own."""
    connection, _ = file.open(Patience(Random(0)))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    connection.close()


async def committed_in(folder: Path, state: dict[str, _State], random: Random) -> set[str]:
    """Return the commits found after a power cut, opening the file as the product does. It must not be corrupt."""
    folder.mkdir()
    for name, each in state.items():
        (folder / name).write_bytes(left_after(each, random))
    runner = WriterThread(str(folder / "hourbell.db"))
    try:
        whole = await runner.read(lambda session: session.fetch("pragma integrity_check"))
        rows = await runner.read(
            lambda session: session.fetch("select key from hourbell_meta where key like 'commit %'")
        )
    finally:
        await runner.close()
    assert [row["integrity_check"] for row in whole] == ["ok"]
    return {row["key"] for row in rows}


async def test_a_power_cut_takes_nothing_that_was_acknowledged(tmp_path: Path, disk: Disk) -> None:
    random = Random(7)
    folder = tmp_path / "live"
    folder.mkdir()
    file = DatabaseFile(str(folder / "hourbell.db"), vfs=disk.name)
    runner = WriterThread(file)
    moments: list[tuple[int, dict[str, _State]]] = []
    try:
        await migrate(runner)
        for number in range(COMMITS):
            await runner.write(add(number))
            moments.append((number + 1, disk.state()))
            if number % 20 == 10:
                copy_log(file)
                moments.append((number + 1, disk.state()))
    finally:
        await runner.close()

    for index, (acknowledged, state) in enumerate(moments):
        found = await committed_in(tmp_path / f"cut-{index}", state, random)
        assert found == {f"commit {number}" for number in range(acknowledged)}


async def test_a_power_cut_within_a_commit_leaves_all_of_it_or_nothing(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(11)
    folder = tmp_path / "live"
    folder.mkdir()
    runner = WriterThread(DatabaseFile(str(folder / "hourbell.db"), vfs=disk.name))
    await migrate(runner)
    acknowledged = 0
    moments: list[tuple[int, dict[str, _State]]] = []
    write = disk.write

    def write_and_check(name: str, offset: int, data: bytes | None) -> None:
        write(name, offset, data)
        if random.random() < 0.3:
            moments.append((acknowledged, disk.state()))

    monkeypatch.setattr(disk, "write", write_and_check)
    for number in range(COMMITS // 3):
        await runner.write(add(number))
        acknowledged += 1
    monkeypatch.undo()
    await runner.close()

    assert len(moments) > COMMITS // 6
    for index, (before, state) in enumerate(moments):
        found = await committed_in(tmp_path / f"cut-{index}", state, random)
        sure = {f"commit {number}" for number in range(before)}
        assert sure <= found <= sure | {f"commit {before}"}
