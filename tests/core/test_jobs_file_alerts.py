"""The channels and alert policies of a jobs file: what is read, what is refused, and what an export writes."""

from datetime import timedelta
from typing import Any

import jsonschema_rs
import pytest

from hourbell.core.alerts.channel import SECRET_FIELDS
from hourbell.core.alerts.policy import FIELDS, AlertPolicy, parse_policy, policy_to_body
from hourbell.core.formats.jobs_file import FORMATS, Format, JobsFile, JobsFileError, read_jobs_file
from hourbell.core.formats.jobs_file_export import export_jobs
from hourbell.core.formats.jobs_file_format import format_of_text
from hourbell.core.formats.jobs_file_schema import jobs_file_schema
from hourbell.core.values.field_errors import RequestError
from hourbell.settings import load_settings
from hourbell.wiring import build_channels

WHOLE = """\
source = "billing"

[channels.ops]
type = "webhook"
url = "https://example.com/alerts"
secret = "env:OPS"

[channels."chat"]
type = "slack"
url = "file:/slack"

[alert_policies.reports]
on = ["failed"]
notify = ["ops"]

[[alert_policies.reports.escalate]]
after = "30m"
notify = ["chat"]

[[job]]
name = "report"
schedule = "@daily"
target = { type = "http", url = "https://example.com/report" }
alert_policy = "reports"
"""
FULL: dict[str, Any] = {
    "on": ["failed", "slow"],
    "after": 3,
    "rate": "3 of 10",
    "notify": [],
    "repeat": "4h",
    "escalate": [{"after": "30m", "notify": ["pager"]}],
    "resolve": False,
    "quiet_hours": {"from": "22:00", "until": "07:00", "timezone": "Europe/Berlin"},
    "group": "none",
    "slow_after": "10m",
    "no_success_for": "1d2h",
    "paused_for": "7d",
    "losing_share": 0.5,
}
SETTINGS = load_settings(environment={"HOURBELL_SMTP_URL": "smtp://localhost", "HOURBELL_SMTP_FROM": "a@b.example"})
CONFIGS: dict[str, dict[str, Any]] = {
    "ops": {"type": "webhook", "url": "https://example.com/alerts"},
    "mail": {"type": "email", "to": ["ops@example.com", "night@example.com"]},
    "bot": {"type": "telegram", "chat_id": "-100", "thread_id": None, "url": "https://api.telegram.org/"},
}


def resolve(reference: str) -> str | None:
    known = {"env:OPS": "xyzzy", "file:/slack": "https://hooks.slack.com/services/xyzzy"}
    if reference == "env:LATER":
        return None
    if reference not in known:
        raise ValueError(f"{reference} is not set; set it where you apply the file")
    return known[reference]


def read(text: str, format: Format = "toml") -> JobsFile:  # noqa: A002
    return read_jobs_file(text, format, resolve)


def errors_of(text: str, format: Format = "toml") -> list[str]:  # noqa: A002
    with pytest.raises(JobsFileError) as refused:
        read(text, format)
    return str(refused.value).splitlines()


def test_channels_and_policies_are_read_beside_jobs() -> None:
    file = read(WHOLE)

    ops, chat = file.channels
    assert (ops.name, ops.line, dict(ops.body)) == (
        "ops",
        3,
        {"type": "webhook", "url": "https://example.com/alerts", "secret": "xyzzy"},
    )
    assert (chat.line, chat.body["url"], chat.references) == (
        8,
        "https://hooks.slack.com/services/xyzzy",
        {"url": "file:/slack"},
    )
    [policy] = file.alert_policies
    assert (policy.name, policy.line, policy.policy.notify) == ("reports", 12, ("ops",))
    assert policy.policy.escalate[0].after == timedelta(minutes=30)
    assert [job.definition.alert_policy for job in file.jobs] == ["reports"]
    assert (file.warnings, file.source_label, file.is_empty) == ((), "billing", False)


def test_no_secret_of_a_channel_is_in_the_repr() -> None:
    assert "xyzzy" not in repr(read(WHOLE))


def test_a_reference_that_is_left_out_is_in_no_body() -> None:
    [channel] = read('[channels.ops]\ntype = "webhook"\nurl = "https://example.com/a"\nsecret = "env:LATER"\n').channels

    assert (channel.unresolved, "secret" in channel.body) == (("secret",), False)


def test_all_errors_are_reported_with_those_of_the_jobs() -> None:
    text = """\
[channels.ops]
type = "pigeon"

[channels."two words"]
type = "webhook"
url = "env:GONE"

[alert_policies.none]
on = ["failed"]

[alert_policies.reports]
on = ["slow", "never"]
notify = "ops"
repat = "4h"

[[job]]
name = "report"
schedule = "0 25 * * *"
target = { type = "task", name = "t" }
"""
    known = ", ".join(sorted(SECRET_FIELDS))
    assert errors_of(text) == [
        "line 16, job report: /schedule: hour field, column 3: 25 is outside 0-23",
        f"line 1, channel ops: /type: type is 'pigeon'; write one of {known}",
        "channel two words: /name: 'two words' cannot be the name of a channel; "
        "write letters, digits, _ and -, at most 60 of them",
        "channel two words: /url: env:GONE is not set; set it where you apply the file",
        "line 8, alert policy none: /name: none is the name for no alerts; take another name",
        "line 11, alert policy reports: /on/1: 'never' is nothing to alert on; write a list of failed, late, "
        "losing_runs, missed, no_success, paused_too_long, slow, unserved",
        "line 11, alert policy reports: /notify: notify is 'ops'; write names of channels, as in [\"ops\"], at most 20",
        "line 11, alert policy reports: /slow_after: `on` has slow, which needs slow_after; write one, as in 10m",
        "line 11, alert policy reports: /repat: 'repat' is not a field here; did you mean repeat?",
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("channels = 1", "/channels: channels is not a table; write [channels.NAME] above each"),
        ("[channels]\nops = 1", "/channels/ops: it is not a table; write [channels.NAME] above its fields"),
        (
            "alert_policies = []",
            "/alert_policies: alert_policies is not a table; write [alert_policies.NAME] above each",
        ),
        (
            "[channels.ops]\n",
            f"line 1, channel ops: /type: type is missing; write one of {', '.join(sorted(SECRET_FIELDS))}",
        ),
    ],
)
def test_channels_and_policies_that_are_no_tables_are_refused(text: str, error: str) -> None:
    assert errors_of(text) == [error]


def test_yaml_shows_the_lines_of_channels_and_policies() -> None:
    text = "channels:\n  ops:\n    type: pigeon\nalert_policies:\n  x: {after: 0}\n"

    assert [error.partition(":")[0] for error in errors_of(text, "yaml")] == [
        "line 2, channel ops",
        "line 5, alert policy x",
    ]


def test_a_header_in_a_text_shifts_no_line() -> None:
    text = (
        '[[job]]\nname = "a"\nschedule = "@daily"\ndescription = """\n[channels.ops]\n"""\n'
        'target = {type = "task", name = "t"}\n[channels.ops]\ntype = "pigeon"\n'
    )

    assert errors_of(text)[0].startswith("line 8, channel ops")


def test_a_secret_of_a_channel_in_the_file_is_a_warning_that_does_not_show_it() -> None:
    text = '[channels.chat]\ntype = "slack"\nurl = "https://hooks.slack.com/services/xyzzy"\n'

    assert read(text).warnings == (
        'line 1, channel chat: the url is in plain text in the file; write url = "env:NAME" or "file:/path"',
    )


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_reads_as_the_same_channels_and_policies(format: Format) -> None:  # noqa: A002
    policies = {"full": parse_policy(FULL), "default": AlertPolicy(), "quiet": AlertPolicy(notify=("ops",))}
    text = export_jobs([], format, source="billing", channels=CONFIGS, policies=policies)
    file = read(text, format)

    without_null = {name: {k: v for k, v in config.items() if v is not None} for name, config in CONFIGS.items()}
    assert {each.name: dict(each.body) for each in file.channels} == without_null
    assert {each.name: each.policy for each in file.alert_policies} == policies
    assert (file.source_label, format_of_text(text)) == ("billing", format)
    assert file.jobs == ()


def test_an_exported_policy_has_only_what_is_not_the_default() -> None:
    assert export_jobs([], channels=CONFIGS, policies={"x": AlertPolicy(after=2)}) == (
        '[channels.ops]\ntype = "webhook"\nurl = "https://example.com/alerts"\n\n'
        '[channels.mail]\ntype = "email"\nto = ["ops@example.com", "night@example.com"]\n\n'
        '[channels.bot]\ntype = "telegram"\nchat_id = "-100"\nurl = "https://api.telegram.org/"\n\n'
        "[alert_policies.x]\nafter = 2\n"
    )


def test_the_schema_takes_every_field_of_a_policy_and_no_other() -> None:
    def is_taken(policy: dict[str, Any]) -> bool:
        return bool(jsonschema_rs.is_valid(jobs_file_schema(), {"alert_policies": {"x": policy}}))

    assert sorted(FULL) == sorted(FIELDS)
    assert is_taken(FULL)
    assert parse_policy(FULL) == parse_policy(policy_to_body(parse_policy(FULL)))
    assert not is_taken({"repat": "4h"})
    assert not is_taken({"on": ["never"]})


def test_the_schema_takes_channels_of_known_types() -> None:
    def is_taken(channel: dict[str, Any]) -> bool:
        return bool(jsonschema_rs.is_valid(jobs_file_schema(), {"channels": {"ops": channel}}))

    assert is_taken({"type": "ntfy", "topic": "env:TOPIC", "priority": 5})
    assert not is_taken({"type": "pigeon"})
    assert not is_taken({"url": "https://example.com"})


def test_the_table_of_secret_fields_is_that_of_the_types() -> None:
    given = {
        "webhook": {"url": "https://example.com", "secret": "whsec_" + "a" * 43 + "="},
        "ntfy": {"topic": "a", "token": "b"},
        "telegram": {"token": "1:" + "a" * 30, "chat_id": "1"},
        "pagerduty": {"routing_key": "a" * 32},
        "alertmanager": {"url": "https://example.com", "token": "a"},
    }
    found = {}
    for channel in build_channels(SETTINGS):
        config = given.get(
            channel.type, {"to": ["a@b.example"]} if channel.type == "email" else {"url": "https://a.example"}
        )
        try:
            parsed = channel.parse({"type": channel.type, **config})
        except RequestError as refused:
            pytest.fail(f"{channel.type}: {refused}")
        found[channel.type] = tuple("secret" if name == "signing" else name for name in parsed.secrets)
    assert found == dict(SECRET_FIELDS)
