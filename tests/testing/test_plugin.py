"""The plugin as a user's project has it: loaded by pytest, in a process of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIGHT = """
import sys
import hourbell.testing.plugin
print([name for name in ("apsw", "aiohttp", "hourbell.engine", "hourbell.core") if name in sys.modules])
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *_plugin(), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def _plugin() -> list[str]:
    """The entry point says it, once Hourbell is installed with it; asked for twice, pytest refuses."""
    from importlib.metadata import entry_points

    is_installed = any(each.value == "hourbell.testing.plugin" for each in entry_points(group="pytest11"))
    return [] if is_installed else ["-p", "hourbell.testing.plugin"]


def page_of_tests() -> str:
    """The examples of the page, as one file in which they follow each other."""
    page = (ROOT / "docs" / "testing.md").read_text()
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))


def test_the_file_to_copy_and_the_examples_of_the_page_pass(tmp_path: Path) -> None:
    copied = (ROOT / "examples" / "test_schedules.py").read_text()
    (tmp_path / "test_schedules.py").write_text(copied)
    (tmp_path / "test_page.py").write_text(page_of_tests())
    count = sum(len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE)) for text in (copied, page_of_tests()))

    done = run_pytest(tmp_path, "test_schedules.py", "test_page.py")

    assert f"{count} passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.full
def test_two_processes_no_event_loop_plugin_and_a_fixture_of_the_same_name_will_do(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\n"
        "@pytest.fixture\n"
        "def fires():\n"
        "    return 'mine'\n\n"
        "@pytest.mark.parametrize('number', range(4))\n"
        "def test_it(hourbell, fires, number):\n"
        "    hourbell.add(name='hook', schedule='0 9 * * *', target={'type': 'http', 'url': 'https://example.com'})\n"
        "    hourbell.advance('1d')\n"
        "    assert (len(hourbell.webhooks), fires) == (1, 'mine')\n"
    )

    done = run_pytest(tmp_path, "-n", "2", "-p", "no:anyio", "test_one.py")

    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_loads_nothing_before_it_is_asked() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", ["ProgressRecord", "Rehearsal", "RunRecord", "WebhookRecord", "fires"])
def test_every_export_of_the_package_exists(name: str) -> None:
    import hourbell.testing

    assert getattr(hourbell.testing, name).__name__ == name
