"""A job that a program defines and somebody else owns: the program's own is left out until that is solved."""

from dataclasses import dataclass

_CODE = "code:"


@dataclass(frozen=True, slots=True)
class JobConflict:
    """`owner` and `program` are owners as people read them: `api`, `file:billing`, `code:shop`."""

    job: str
    owner: str
    program: str

    @property
    def command(self) -> str:
        """The command that hands the job to the program."""
        return f"hourbell job delete {self.job} --take-over"

    @property
    def hint(self) -> str:
        """What solves it, in one sentence."""
        if self.owner.startswith(_CODE):
            return (
                f"{self.program} takes it over when no live node defines it as {self.owner} any more; "
                f"to let {self.program} make it anew now: {self.command}"
            )
        return f"give one of them another name, or let {self.program} make it anew: {self.command}"
