"""Every promise of docs/proof.md is held by tests that `make test` runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "proof.md").read_text("utf-8")


def rows(section: str) -> dict[str, str]:
    """Return the rows of the table of promises in a section, by the name of the promise."""
    [text] = re.findall(rf"^## {section}\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    [table] = re.findall(r"^\| promise \|.*\n\| --- .*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return dict(re.findall(r"^\| ([^|]+) \|(.*)\|$", table, re.MULTILINE))


def test_every_promise_has_its_tests() -> None:
    assert list(rows("In make test")) == list(rows("The promises"))


@pytest.mark.parametrize("promise", rows("In make test"))
def test_its_tests_are_there_and_run_in_make_test(promise: str) -> None:
    named = re.findall(r"`(tests/\S+?)`", rows("In make test")[promise])
    texts = [(ROOT / name).read_text("utf-8") for name in named]

    assert named
    assert not any(re.search(r"^pytestmark = .*(full|sweep)", text, re.MULTILINE) for text in texts)
