"""Commands whose help starts with examples."""

from textwrap import dedent, indent

import click


class _WithExamples(click.Command):
    """A command that shows how it is used before it says what it takes."""

    def __init__(self, *args: object, examples: str = "", **settings: object) -> None:
        super().__init__(*args, **settings)  # type: ignore[arg-type]
        self.examples = dedent(examples).strip()

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            formatter.write("Examples:\n" + indent(self.examples, "  ") + "\n\n")
        super().format_help(ctx, formatter)


class ExampleCommand(_WithExamples):
    pass


class ExampleGroup(_WithExamples, click.Group):
    command_class = ExampleCommand
