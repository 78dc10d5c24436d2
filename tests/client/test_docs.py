"""The examples of docs/client.md work against a real server."""

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
NAMES = re.compile(r"^\| (`jobs`|`runs`|`tokens`|the client itself) \| (.*) \|$", re.MULTILINE)


def test_the_examples_of_the_page_run(
    live_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOURBELL_URL", live_url)
    blocks = re.findall(r"^```(pycon|python)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    known: dict[str, Any] = {"__name__": "example"}
    complaints: list[str] = []
    runner = doctest.DocTestRunner()
    for language, block in blocks:
        if language == "python":
            exec(compile(block, PAGE.name, "exec"), known)
        else:
            test = doctest.DocTestParser().get_doctest(block, known, PAGE.name, str(PAGE), 0)
            runner.run(test, out=complaints.append, clear_globs=False)
            known.update(test.globs)

    assert not complaints, "\n".join(complaints)
    assert len(blocks) > 5
    assert re.search(r"^daily-report 20.*\n20.* cancelled$", capsys.readouterr().out, re.MULTILINE)


def test_the_page_names_every_exported_name() -> None:
    from hourbell.client import AsyncClient
    from hourbell.client.jobs import Jobs
    from hourbell.client.runs import Runs
    from hourbell.client.tokens import Tokens

    shown = [set(re.findall(r"`(\w+)`", names)) for _, names in NAMES.findall(PAGE.read_text())]
    there = [
        {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}
        for kind in (Jobs, Runs, Tokens, AsyncClient)
    ]
    assert shown == [*there[:3], there[3] - {"close"}]
