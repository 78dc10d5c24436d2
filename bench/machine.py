"""The machine of a benchmark: versions and the processor, never the host's name."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def describe_run(packages: tuple[str, ...]) -> dict[str, Any]:
    """Return the versions of Python, of the packages and of the machine."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {package: _version_of(package) for package in packages},
        "machine": {"cpu": _cpu_model(), "cores": _usable_cores(), "system": platform.system()},
    }


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
