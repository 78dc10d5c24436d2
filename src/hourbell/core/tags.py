"""Tags: what may be one. The rule is the same for a body, a jobs file and a row that somebody wrote by SQL."""

from collections.abc import Iterator

from hourbell.core.body_reader import Fault, shown
from hourbell.core.strict_json import text_fault

MOST_TAGS, LONGEST_TAG = 50, 100


def tag_faults(tags: object) -> Iterator[Fault]:
    """Everything that is wrong with the tags of a job."""
    if not isinstance(tags, list) or len(tags) > MOST_TAGS:
        yield Fault("/tags", f"tags is not a list of at most {MOST_TAGS} texts")
        return
    for place, tag in enumerate(tags):
        if not isinstance(tag, str) or not 1 <= len(tag) <= LONGEST_TAG or not tag.isprintable() or "," in tag:
            hint = f"write 1 to {LONGEST_TAG} printable characters without a comma"
            yield Fault(f"/tags/{place}", f"{shown(tag)} cannot be a tag", hint)
        elif tag in tags[:place]:
            yield Fault(f"/tags/{place}", f"the tag {shown(tag)} is there already", "leave it out")


def readable_tags(tags: object) -> tuple[str, ...]:
    """The texts among what is kept as tags, whatever that is: what is no text cannot be shown as one."""
    if not isinstance(tags, (list, tuple)):
        return ()
    return tuple(tag for tag in tags if isinstance(tag, str) and text_fault(tag) is None)
