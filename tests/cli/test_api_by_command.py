"""Everything that the API offers can be done by a command."""

import json
import shlex
from pathlib import Path

import click
import pytest

from hourbell.cli.main import hourbell

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
COMMANDS = {
    "apply_jobs": "apply",
    "import_jobs": "import jobs --source --managed-by --prune --dry-run",
    "list_jobs": "job list --tag --state --target --managed-by --source --subject --last --attention --next-before"
    " --sort",
    "create_job": "job create --run-on-create --dry-run",
    "get_job": "job get",
    "replace_job": "job create --replace --dry-run",
    "patch_job": "job edit --name --take-over --drop-backlog --dry-run",
    "delete_job": "job delete --take-over --purge",
    "pause_job": "job pause --note --until --cancel-waiting",
    "resume_job": "job resume --catch-up",
    "trigger_job": "job trigger --payload --key",
    "backfill_job": "job backfill --from --to --per-minute --dry-run",
    "rotate_secret": "job rotate-secret --keep-old",
    "list_upcoming": "job upcoming --number --after",
    "list_runs_of_job": "run list --job",
    "list_times": "job times --since --until --fate --number",
    "list_days": "job days --from --until",
    "get_series": "job series --number",
    "get_stats": "job stats --since",
    "list_skips": "job skips",
    "list_versions": "job versions",
    "get_version": "job versions --version",
    "list_runs": "run list --state --job --subject --since --until",
    "list_late": "run late --number",
    "list_stuck": "run stuck --number",
    "list_orphans": "run orphans --number",
    "replay_runs": "run replay --state --job --since --until --fingerprint --per-minute --dry-run",
    "cancel_runs": "run cancel --state --job --since --until --dry-run",
    "discard_runs": "run discard --state --job --since --until --fingerprint --dry-run",
    "list_groups": "run groups --job --since --until --number",
    "get_run": "run get",
    "get_run_log": "run logs --follow --attempt",
    "replay_run": "run replay",
    "cancel_run": "run cancel",
    "discard_run": "run discard",
    "preview_schedule": "cron explain --timezone --dst --name --after --number",
    "explain_instant": "explain",
    "get_forecast": "forecast --from --bucket --number",
    "get_overview": "status --since",
    "get_analytics": "analytics --days",
    "list_nodes": "nodes",
    "list_outages": "outages --since --until",
    "list_audit": "audit --subject",
    "get_audit_entry": "audit --entry",
    "list_tokens": "token list",
    "create_token": "token create --role --expires",
    "revoke_token": "token revoke",
    "list_channels": "channel list",
    "get_channel": "channel get",
    "put_channel": "channel create --type --url --set --take-over",
    "patch_channel": "channel edit --url --set --unset --take-over",
    "delete_channel": "channel delete --force --take-over",
    "test_channel": "channel test --timeout",
    "list_alert_policies": "alert-policy list",
    "get_alert_policy": "alert-policy get",
    "put_alert_policy": "alert-policy set --on --after --notify --repeat --quiet-hours --take-over",
    "delete_alert_policy": "alert-policy delete --force --take-over",
    "list_incidents": "incident list --state --job --number",
    "get_incident": "incident get",
    "acknowledge_incident": "incident ack",
    "mute_incident": "incident mute --until",
    "resolve_incident": "incident resolve",
    "listen": "events",
    "get_session": "status",
    "get_health": "status",
    "get_health_ready": "status",
}
# Pages in a browser, and what collects metrics.
FOR_OTHERS = {
    *("bulk_jobs", "convert_jobs", "create_demo", "create_session"),
    *("delete_demo", "delete_session", "get_metrics", "get_timeline", "list_tags"),
}


def operations() -> set[str]:
    paths = json.loads(DOCUMENT.read_text())["paths"].values()
    found = {operation["operationId"] for path in paths for operation in path.values() if "operationId" in operation}
    return {name for name in found if not name.startswith("schedules_")}  # the same by another path


def test_every_api_operation_has_a_cli_command() -> None:
    assert operations() == COMMANDS.keys() | FOR_OTHERS


@pytest.mark.parametrize(("operation", "written"), COMMANDS.items())
def test_the_command_exists_and_has_the_parameters_of_the_operation(operation: str, written: str) -> None:
    del operation
    found: click.Command = hourbell
    words = shlex.split(written)
    options = {word for word in words if word.startswith("-")}
    for word in words[: len(words) - len(options)]:
        assert isinstance(found, click.Group)
        step = found.get_command(click.Context(found), word)
        assert step is not None, word
        found = step

    assert options <= {option for parameter in found.params for option in parameter.opts}
