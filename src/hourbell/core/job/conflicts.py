"""Ownership conflicts: a program defines a job that has another owner, and its definition is ignored until resolved."""

from dataclasses import dataclass

_CODE = "code:"


@dataclass(frozen=True, slots=True)
class JobConflict:
    """A conflict. `owner` and `program` are owners as users see them: `api`, `file:billing`, `code:shop`."""

    job: str
    owner: str
    program: str

    @property
    def command(self) -> str:
        """The command that gives the job to the program."""
        return f"hourbell job delete {self.job} --take-over"

    @property
    def hint(self) -> str:
        """The resolution, in one sentence."""
        if self.owner.startswith(_CODE):
            return (
                f"{self.program} takes it over when no live node defines it as {self.owner} any more; "
                f"to let {self.program} create it again now: {self.command}"
            )
        return f"give one of them another name, or let {self.program} create it again: {self.command}"
