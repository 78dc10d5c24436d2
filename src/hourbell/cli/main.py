"""The `hourbell` command: the table of subcommands, and the exit codes that all of them share.

A command's module is imported only when the command is called or completed, so that `hourbell --help` stays fast.
"""

import os
import sys
from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple

import click

from hourbell import __version__
from hourbell.cli.shared.command import ExampleGroup

INTERRUPTED = 130


class Entry(NamedTuple):
    module: str
    summary: str


COMMANDS = {
    "access": Entry("hourbell.cli.local.access", "Allow calls without a token again, after the last one ended."),
    "alert-policy": Entry("hourbell.cli.alerts.policy", "Manage alert policies: when to alert, and whom."),
    "analytics": Entry("hourbell.cli.server.analytics", "Count ended runs by day, as Redis has them."),
    "apply": Entry("hourbell.cli.files.apply", "Apply a jobs file atomically."),
    "audit": Entry("hourbell.cli.server.audit", "List changes with their author; verify the audit chain."),
    "channel": Entry("hourbell.cli.alerts.channel", "Manage alert channels: create, test, list, delete."),
    "completion": Entry("hourbell.cli.local.completion", "Print the completion script for bash, zsh or fish."),
    "config": Entry("hourbell.cli.local.config", "Show every setting and its source. Needs no server."),
    "cron": Entry("hourbell.cli.local.cron", "Explain a schedule and list its times. Needs no server."),
    "db": Entry("hourbell.cli.local.db", "Manage the database: migrate, prune, show the schema."),
    "diff": Entry("hourbell.cli.files.diff", "Show what applying a jobs file would change."),
    "doctor": Entry("hourbell.cli.local.doctor", "Check a database or deployment for problems, and show repairs."),
    "events": Entry("hourbell.cli.server.events", "Stream changes of jobs and runs."),
    "explain": Entry("hourbell.cli.server.explain", "Explain a scheduled time of a job."),
    "export": Entry("hourbell.cli.files.export", "Export jobs as a jobs file."),
    "forecast": Entry("hourbell.cli.server.forecast", "Forecast the number of runs per time bucket."),
    "import": Entry("hourbell.cli.files.import_", "Import many jobs, or convert a crontab to a jobs file."),
    "incident": Entry("hourbell.cli.alerts.incident", "List, acknowledge, mute and resolve incidents."),
    "job": Entry("hourbell.cli.job.command", "Manage jobs: create, list, change, pause, run, delete."),
    "nodes": Entry("hourbell.cli.server.nodes", "List nodes."),
    "outages": Entry("hourbell.cli.server.outages", "List times at which no node ran, or the database was away."),
    "run": Entry("hourbell.cli.run.command", "Manage runs: list, watch, replay, cancel, discard."),
    "secret": Entry("hourbell.cli.local.secret", "Manage secrets of webhooks: create, rotate, set, list, remove."),
    "serve": Entry("hourbell.cli.local.serve", "Start a node: planner, runner and a small HTTP server."),
    "status": Entry("hourbell.cli.server.status", "Show server health, load and your identity."),
    "token": Entry("hourbell.cli.local.token", "Manage API tokens: create, list, revoke."),
    "top": Entry("hourbell.cli.server.top", "Live dashboard, refreshed every two seconds."),
    "watch": Entry("hourbell.cli.alerts.watch", "Tell somebody when no node is ready; runs on another machine."),
}


class LazyGroup(ExampleGroup):
    """A group that looks up its commands in the table above and imports each one on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name].module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            close = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"No such command {args[0][:40]!r}." + (f" Did you mean {close[0]!r}?" if close else ""))
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    examples="""
    hourbell serve
    hourbell job create report --schedule '0 9 * * 1-5' --timezone Europe/Paris --url https://example.com/report
    hourbell job trigger report --wait
    hourbell run list --state failed --since 24h
    hourbell cron explain '30 2 * * *' --timezone America/New_York
    """,
    epilog='Completion of commands, jobs and runs: eval "$(hourbell completion bash)"; zsh and fish likewise.',
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="hourbell", message="%(prog)s %(version)s")
@click.pass_context
def hourbell(context: click.Context) -> None:
    """Cron you can trust."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        context.color = False


def main() -> None:
    """Run the command line. Exit codes: 0 ok, 1 failed, 2 usage, 130 interrupted; others in `docs/cli.md`."""
    try:
        status = hourbell.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader closed the pipe, as in `hourbell … | head`. Redirecting stdout stops Python from failing again when
        # it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)
