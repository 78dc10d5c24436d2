"""Files with secrets: created for their owner only, and refused while every user of the machine may open them.

Group access is the operator's choice: with 0440 or 0640 a service reads a file that root owns.
"""

import os
import shlex
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PRIVATE_MODE = 0o600
_OTHERS = stat.S_IROTH | stat.S_IWOTH
_MOUNTED = (
    "mount it with mode 0440 (in Kubernetes, defaultMode: 0440 on the volume of the secret and fsGroup in the "
    "securityContext of the pod)"
)


def create_private(path: str) -> None:
    """Create an empty file with mode 0600, whatever the umask, unless it exists; a dangling symlink gets its target.

    Where the system allows it, no descriptor is opened: closing one would drop every lock that this process has on the
    file. A failure is reported by the next attempt to open the file.
    """
    real_path = os.path.realpath(path)
    try:
        os.mknod(real_path, PRIVATE_MODE)
    except FileExistsError:
        pass
    except OSError:  # macOS keeps mknod for root
        with suppress(OSError):
            os.close(os.open(real_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE))


def read_with_mode(path: Path) -> tuple[str, int]:
    """Read a file, together with the mode of exactly the file that was read (a symlink's target)."""
    with path.open(encoding="utf-8") as file:
        return file.read(), os.fstat(file.fileno()).st_mode


def exposure(path: Path, mode: int) -> str | None:
    """Describe a mode that lets every user read or change a file, and the fix; None for a safe mode."""
    if not stat.S_ISREG(mode) or not mode & _OTHERS:
        return None
    mend = _MOUNTED if _is_mounted(path) else f"run: {close_command([path])}"
    return f"every user of this machine may open it (mode {stat.S_IMODE(mode):04o}); {mend}"


def exposed_files(paths: Iterable[Path]) -> list[Path]:
    """Return the existing files that every user of this machine may read or change."""
    return [path for path in paths if _mode_of(path) & _OTHERS]


def close_command(paths: Iterable[Path]) -> str:
    """Return the command that restricts files to their owner and group."""
    return shlex.join(["chmod", "o-rwx", *map(str, paths)])


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _is_mounted(path: Path) -> bool:
    """Return True if the mode comes from a mount where chmod fails: a read-only file system or a Kubernetes secret.

    Kubernetes puts the files of a volume into a folder with a name such as `..2026_11_18_09_00_00.1`.
    """
    if any(part.startswith("..") and len(part) > len("..") for part in Path(os.path.realpath(path)).parts):
        return True
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False
