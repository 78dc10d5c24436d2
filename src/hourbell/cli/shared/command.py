"""Click command classes whose help starts with examples."""

import re
from textwrap import dedent, indent

import click

_AGO = re.compile(r"-\d", re.ASCII)


class _WithExamples(click.Command):
    """A command that prints its examples before the usage and the options."""

    def __init__(self, *args: object, examples: str = "", **settings: object) -> None:
        super().__init__(*args, **settings)  # type: ignore[arg-type]
        self.examples = dedent(examples).strip()

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            formatter.write("Examples:\n" + indent(self.examples, "  ") + "\n\n")
        super().format_help(ctx, formatter)


class ExampleCommand(_WithExamples):
    pass


class TimeCommand(ExampleCommand):
    """A command with a positional time. A value such as -2h gets a leading space and so is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {each}" if _AGO.match(each) else each for each in args])


class ExampleGroup(_WithExamples, click.Group):
    command_class = ExampleCommand
