"""Commands need a key: to define them, and on every node that runs them."""

from pathlib import Path

import pytest

from hourbell.control.rules import Rules
from hourbell.core.job.command import CommandCall
from hourbell.settings import SettingsError, load_settings
from hourbell.wiring import build_egress_policy, build_targets, open_stores


def test_without_a_key_a_command_is_refused_with_what_to_do() -> None:
    rules = Rules(forbids=lambda *_: None, has_keys=False)
    [error] = rules.check(CommandCall("true"))

    assert error.pointer == "/target/type"
    assert "set HOURBELL_SECRET_KEY" in error.text
    assert Rules(forbids=lambda *_: None).check(CommandCall("true")) == []


def test_a_node_without_a_key_does_not_start_with_commands(tmp_path: Path) -> None:
    environment = {"DATABASE_URL": f"sqlite:///{tmp_path}/h.db", "HOURBELL_COMMANDS": "1"}
    settings = load_settings(environment=environment, folder=tmp_path)

    with pytest.raises(SettingsError, match="set HOURBELL_SECRET_KEY"):
        build_targets(settings, open_stores(settings), {}, None, build_egress_policy(settings, port=1))
