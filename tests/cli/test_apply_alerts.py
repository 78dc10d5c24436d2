"""`hourbell apply`, `diff` and `export` with channels and alert policies, against a real node."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hourbell.core.access.signing import new_secret
from hourbell.core.formats.jobs_file import FORMATS, Format
from tests.cli.live import Live, live

SECRET = new_secret(bytes(range(32)))
GIVEN = {"OPS_SECRET": SECRET, "SLACK_URL": "https://hooks.slack.com/services/xyzzy"}
FILE = """\
source = "SOURCE"

[channels.SOURCE-ops]
type = "webhook"
url = "https://example.com/alerts"
secret = "env:OPS_SECRET"

[channels.SOURCE-chat]
type = "slack"
url = "env:SLACK_URL"

[alert_policies.SOURCE]
notify = ["SOURCE-ops"]
repeat = "4h"

[[alert_policies.SOURCE.escalate]]
after = "30m"
notify = ["SOURCE-chat"]

[[job]]
name = "SOURCE-report"
schedule = "@yearly"
target = { type = "task", name = "t" }
alert_policy = "SOURCE"
"""
CREATED = """\
+ create channel SOURCE-ops
+ create channel SOURCE-chat
+ create alert policy SOURCE
+ create SOURCE-report
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("node")) as made:
        yield made


def file_of(folder: Path, source: str, text: str = FILE) -> str:
    path = folder / "jobs.toml"
    path.write_text(text.replace("SOURCE", source))
    return str(path)


def apply(node: Live, *arguments: str) -> str:
    done = node.run("apply", *arguments, **GIVEN)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_file_is_applied_with_its_channels_and_a_second_apply_changes_nothing(node: Live, tmp_path: Path) -> None:
    file = file_of(tmp_path, "plan")
    lines = apply(node, "-f", file).splitlines(keepends=True)

    assert "".join(line for line in lines if line.startswith("+")) == CREATED.replace("SOURCE", "plan")
    assert lines[-2:] == [
        "4 to create, 0 to change, 0 to delete, 0 unchanged\n",
        "4 created, 0 changed, 0 deleted, 0 unchanged\n",
    ]
    assert apply(node, "-f", file) == "nothing to change\n"
    assert node.json("channel", "get", "plan-chat")["origin"] == "https://hooks.slack.com:443"


def test_changes_of_policies_and_secrets_are_shown_without_the_secrets(node: Live, tmp_path: Path) -> None:
    apply(node, "-f", file_of(tmp_path, "field"))
    changed = FILE.replace("env:OPS_SECRET", "file:other").replace('"4h"', '"8h"')
    (tmp_path / "other").write_text(new_secret(bytes(range(1, 33))))

    shown = apply(node, "-f", file_of(tmp_path, "field", changed))
    assert shown == (
        "~ change channel field-ops\n    secret: (hidden) → (hidden, another)\n"
        '~ change alert policy field\n    repeat: "4h" → "8h"\n'
        "0 to create, 2 to change, 0 to delete, 2 unchanged\n0 created, 2 changed, 0 deleted, 2 unchanged\n"
    )


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_has_channels_and_policies_and_applying_it_changes_nothing(
    node: Live,
    tmp_path: Path,
    format: Format,  # noqa: A002
) -> None:
    source = f"export-{format}"
    apply(node, "-f", file_of(tmp_path, source))
    text = node.ok("export", "--source", source, "--format", format)

    assert "xyzzy" not in text
    assert SECRET not in text
    again = node.run("apply", "-f", "-", "--prune", given=text)
    assert again.exit_code == 0, again.output
    assert again.stdout == (
        f"= keep channel {source}-chat\n    note: its url is not in the file, and stays\nnothing to change\n"
    )
    if format == "toml":
        assert f'# {source}-chat: url = "env:NAME"\n# {source}-ops: secret = "env:NAME"\n' in text
        assert text.endswith(
            f'[channels.{source}-chat]\ntype = "slack"\n\n'
            f'[channels.{source}-ops]\ntype = "webhook"\nurl = "https://example.com/alerts"\n\n'
            f'[alert_policies.{source}]\nnotify = ["{source}-ops"]\nrepeat = "4h"\n'
            f'escalate = [{{ after = "30m", notify = ["{source}-chat"] }}]\n\n'
            f'[[job]]\nname = "{source}-report"\nschedule = "@yearly"\n'
            f'target = {{ type = "task", name = "t" }}\nalert_policy = "{source}"\n'
        )


def test_an_export_by_tag_has_jobs_alone(node: Live, tmp_path: Path) -> None:
    apply(node, "-f", file_of(tmp_path, "tagged", FILE + 'tags = ["tagged"]\n'))

    text = node.ok("export", "--tag", "tagged")
    assert ("[[job]]" in text, "[channels" in text, "[alert_policies" in text) == (True, False, False)


def test_a_diff_needs_no_secrets(node: Live, tmp_path: Path) -> None:
    file = file_of(tmp_path, "diff")
    planned = node.run("diff", "-f", file)

    assert planned.exit_code == 1
    assert (
        "+ create channel diff-chat\n    note: its url is not known here; it is needed to apply this\n"
        in planned.stdout
    )
    assert "env:SLACK_URL is not set; it is left out of the comparison" in planned.stderr
    refused = node.run("apply", "-f", file)
    assert refused.exit_code == 2
    assert "line 10, channel diff-chat" not in refused.stdout
    assert "line 8, channel diff-chat: /url: env:SLACK_URL is not set" in refused.stderr
    apply(node, "-f", file)
    same = node.run("diff", "-f", file)
    assert (same.exit_code, same.stdout) == (0, "nothing to change\n")


def test_errors_of_the_server_name_the_line_of_the_channel(node: Live, tmp_path: Path) -> None:
    wrong = FILE.replace("https://example.com/alerts", "ftp://example.com").replace('type = "slack"', 'type = "ntfy"')
    refused = node.run("apply", "-f", file_of(tmp_path, "wrong", wrong), **GIVEN)

    assert refused.exit_code == 2
    assert "line 3, channel wrong-ops: /url: url: a URL begins with https:// or http://" in refused.stderr
    assert "line 8, channel wrong-chat: /topic: topic: it is missing" in refused.stderr
    assert "xyzzy" not in refused.output

    unknown = FILE.replace('notify = ["SOURCE-ops"]', 'notify = ["nobody"]')
    refused = node.run("apply", "-f", file_of(tmp_path, "wrong", unknown), **GIVEN)
    assert (
        "line 12, alert policy wrong: there is no channel nobody; create it first, or in the same file"
        in refused.stderr
    )


def test_pruning_asks_and_deletes_what_the_file_no_longer_has(node: Live, tmp_path: Path) -> None:
    apply(node, "-f", file_of(tmp_path, "prune"))
    left = FILE[: FILE.index("[channels.SOURCE-chat]")] + FILE[FILE.index("[[job]]") :].replace(
        'alert_policy = "SOURCE"\n', ""
    )
    file = file_of(tmp_path, "prune", left)

    asked = node.run("apply", "-f", file, "--prune", **GIVEN)
    assert "whether to delete 1 channel, 1 alert policy" in asked.stderr
    done = apply(node, "-f", file, "--prune", "--yes")
    assert re.findall(r"^- .*", done, re.MULTILINE) == ["- delete channel prune-chat", "- delete alert policy prune"]
    assert node.run("channel", "get", "prune-chat").exit_code != 0


def test_commands_change_what_a_file_manages_only_by_taking_it_over(node: Live, tmp_path: Path) -> None:
    apply(node, "-f", file_of(tmp_path, "owned"))
    commands = [
        ("alert-policy", "delete", "owned", "--yes"),
        ("channel", "create", "owned-ops", "--type", "webhook", "--url", "https://example.com"),
        ("channel", "delete", "owned-chat", "--yes"),
    ]
    for command in commands:
        refused = node.run(*command)
        assert refused.exit_code != 0
        assert "belongs to file:owned" in refused.stderr
        assert "--take-over" in refused.stderr
        assert node.run(*command, "--take-over").exit_code == 0


def test_a_webhook_without_a_secret_gets_one_that_is_shown_once(node: Live, tmp_path: Path) -> None:
    file = file_of(tmp_path, "made", FILE.replace('secret = "env:OPS_SECRET"\n', ""))

    assert re.search(
        r"^secret of the channel made-ops: whsec_\S+  \(it is not shown again\)$", apply(node, "-f", file), re.M
    )
    assert apply(node, "-f", file) == "nothing to change\n"
