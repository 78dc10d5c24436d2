"""Messages that explain why a database file cannot be written, from SQLite's error and the file system's state."""

import os
import pwd
from pathlib import Path

import apsw

from hourbell.store.errors import StoreUnavailable, StoreUnwritable

LOG, INDEX = "-wal", "-shm"  # suffixes of the files beside a database file in WAL mode
_NO_ROOM = "the disk is full"
_LEAST_ROOM = 65_536  # bytes
_OF_THE_FILE = (apsw.CantOpenError, apsw.IOError, apsw.PermissionsError, apsw.ReadOnlyError)


def is_file(path: str) -> bool:
    """Return True if the path names a file, and not a database in memory."""
    return not path.startswith((":memory:", "file:"))


def unavailable(path: str, error: apsw.Error) -> StoreUnavailable:
    """Convert SQLite's error to an error of the store."""
    reason = _reason(path, error)
    return StoreUnavailable(f"{path}: {error}") if reason is None else StoreUnwritable(path, reason)


def _reason(path: str, error: apsw.Error) -> str | None:
    if isinstance(error, apsw.FullError):
        return _NO_ROOM
    if not is_file(path) or not isinstance(error, _OF_THE_FILE):
        return None
    if isinstance(error, apsw.ReadOnlyError):
        return why_unwritable(path) or f"SQLite says: {error}"
    return why_unwritable(path)


def why_unwritable(path: str) -> str | None:
    """Return what keeps this process from writing the database; None if no cause is found."""
    file = Path(path)
    for each in (file, Path(f"{path}{LOG}"), Path(f"{path}{INDEX}")):
        if each.exists() and not os.access(each, os.R_OK | os.W_OK):
            return _refused(f"write {each.name}", each)
    if file.parent.is_dir() and not os.access(file.parent, os.W_OK | os.X_OK):
        return _refused(f"write in the folder {file.parent}", file.parent)
    return _NO_ROOM if _room(file.parent) < _LEAST_ROOM else None


def _refused(what: str, path: Path) -> str:
    found = path.stat()
    mode = f"owner {_name_of(found.st_uid)}, mode {found.st_mode & 0o7777:04o}"
    disk = ", on a read-only file system" if os.statvfs(path).f_flag & os.ST_RDONLY else ""
    return f"user {_name_of(os.geteuid())} may not {what} ({mode}{disk})"


def _room(folder: Path) -> int:
    """Return how many bytes this process may still write on the disk of a folder."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return _LEAST_ROOM  # unknown
    return found.f_frsize * (found.f_bfree if os.geteuid() == 0 else found.f_bavail)


def _name_of(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)
