"""What applying a jobs file would change, decided from values: nothing of another owner, and never a pause.

No value of a header is in a plan, since it may be a secret: a reference stands for it, or a word.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hourbell.core.job import Definition
from hourbell.core.job_body import job_to_body, pointer_to
from hourbell.core.jobs_file import FileJob, JobsFile

HIDDEN, ANOTHER = "(hidden)", "(hidden, another)"


class Owner(NamedTuple):
    """Whose a job is: jobs of a file have `managed_by` file and the file's source label."""

    managed_by: str
    source: str = ""

    def __str__(self) -> str:
        return f"{self.managed_by}:{self.source}".removesuffix(":")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field, as in `schedule` or `target.url`, before and after as JSON; None where it is absent."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job that exists and is to be another: `job` has the definition to write, enabled or not as it is now."""

    job: FileJob
    before: Definition
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job of the file whose name belongs to another owner."""

    name: str
    owner: Owner
    line: int | None = None

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}, "
        return f"{place}job {self.name}: it belongs to {self.owner}; delete it there, or take another name"


@dataclass(frozen=True, slots=True)
class FilePlan:
    create: tuple[FileJob, ...] = ()
    change: tuple[JobChange, ...] = ()
    unchanged: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether applying it changes nothing."""
        return not (self.create or self.change or self.delete)


def plan_changes(current: Mapping[str, tuple[Definition, Owner]], wanted: JobsFile, *, prune: bool) -> FilePlan:
    """Compare a file with the jobs that there are. With `prune`, those of the file's source that it lacks go."""
    ours = Owner("file", wanted.source_label or "")
    create, change, unchanged, refused = [], [], [], []
    for job in wanted.jobs:
        name = job.definition.name
        if name not in current:
            create.append(_owned(job, job.definition, ours))
            continue
        before, owner = current[name]
        if owner != ours:
            refused.append(Refusal(name, owner, job.line))
            continue
        after = replace(job.definition, enabled=before.enabled)
        fields = tuple(_changes(before, after, job.references))
        if fields:
            change.append(JobChange(_owned(job, after, ours), before, fields))
        else:
            unchanged.append(name)
    kept = {job.definition.name for job in wanted.jobs}
    gone = sorted(name for name, (_, owner) in current.items() if owner == ours and name not in kept) if prune else []
    return FilePlan(tuple(create), tuple(change), tuple(unchanged), tuple(gone), tuple(refused))


def _owned(job: FileJob, definition: Definition, owner: Owner) -> FileJob:
    return replace(job, definition=replace(definition, managed_by=owner.managed_by, source=owner.source))


def _changes(before: Definition, after: Definition, references: Mapping[str, str]) -> Iterator[FieldChange]:
    old, new = job_to_body(before), job_to_body(after)
    for name in old:
        if name == "target" and old[name].get("type") == new[name].get("type"):
            yield from _target_changes(old[name], new[name], references)
        elif name == "target":
            yield FieldChange(name, _without_headers(old[name]), _without_headers(new[name]))
        elif not is_same_json(old[name], new[name]):
            yield FieldChange(name, old[name], new[name])


def _target_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], references: Mapping[str, str]
) -> Iterator[FieldChange]:
    for name in dict.fromkeys([*old, *new]):
        one, other = old.get(name), new.get(name)
        if (name in old) == (name in new) and is_same_json(one, other):
            continue
        if name == "headers" and isinstance(one or {}, Mapping) and isinstance(other or {}, Mapping):
            yield from _header_changes(one or {}, other or {}, references)
            if (one or {}) == (other or {}):
                yield FieldChange("target.headers", one, other)
        else:
            yield FieldChange(f"target.{name}", one, other)


def _header_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], references: Mapping[str, str]
) -> Iterator[FieldChange]:
    for name in dict.fromkeys([*old, *new]):
        if name in old and name in new and old[name] == new[name]:
            continue
        reference = references.get(pointer_to("target", "headers", name))
        after = reference or (ANOTHER if name in old else HIDDEN)
        yield FieldChange(f"target.headers.{name}", HIDDEN if name in old else None, after if name in new else None)


def _without_headers(target: Mapping[str, Any]) -> dict[str, Any]:
    """A target as it may be shown."""
    headers = target.get("headers")
    hidden = {"headers": dict.fromkeys(headers, HIDDEN)} if isinstance(headers, Mapping) else {}
    return {**target, **hidden}


def is_same_json(one: object, other: object) -> bool:
    """Whether values are the same JSON: to Python true is 1; to JSON 1.0 is 1, as databases may write it."""
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(is_same_json(one[key], other[key]) for key in one)
        case ((list() | tuple()), (list() | tuple())):
            return len(one) == len(other) and all(map(is_same_json, one, other))
        case _:
            return one == other
