"""`hourbell completion`: print the script with which a shell completes commands, jobs and runs."""

import click
from click.shell_completion import get_completion_class

from hourbell.cli.shared.command import ExampleCommand

SHELLS = ("bash", "zsh", "fish")


@click.command(
    cls=ExampleCommand,
    examples="""
    eval "$(hourbell completion bash)"
    hourbell completion zsh >> ~/.zshrc
    hourbell completion fish > ~/.config/fish/completions/hourbell.fish
    """,
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a completion script: run it with eval now, or in the start-up file of your shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "hourbell", "_HOURBELL_COMPLETE").source(), nl=False)
