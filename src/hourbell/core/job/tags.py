"""Validation of tags. A request body, a jobs file and a row written by SQL follow the same rule."""

from collections.abc import Iterator

from hourbell.core.values.field_errors import FieldError, shown
from hourbell.core.values.strict_json import text_problem

MAX_TAGS, MAX_TAG_CHARACTERS = 50, 100


def tag_errors(tags: object) -> Iterator[FieldError]:
    """Report all errors in the tags of a job."""
    if not isinstance(tags, list) or len(tags) > MAX_TAGS:
        yield FieldError("/tags", f"tags is not a list of at most {MAX_TAGS} texts")
        return
    for position, tag in enumerate(tags):
        if not isinstance(tag, str) or not 1 <= len(tag) <= MAX_TAG_CHARACTERS or not tag.isprintable() or "," in tag:
            hint = f"write 1 to {MAX_TAG_CHARACTERS} printable characters without a comma"
            yield FieldError(f"/tags/{position}", f"{shown(tag)} cannot be a tag", hint)
        elif tag in tags[:position]:
            yield FieldError(f"/tags/{position}", f"the tag {shown(tag)} is given twice", "leave it out")


def readable_tags(tags: object) -> tuple[str, ...]:
    """Return the valid texts among stored tags, which SQL may have set to anything."""
    if not isinstance(tags, (list, tuple)):
        return ()
    return tuple(tag for tag in tags if isinstance(tag, str) and text_problem(tag) is None)
