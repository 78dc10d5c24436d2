"""A secret header goes to the origin it was set for, and to no other."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from hourbell.core.job.definition import Definition
from hourbell.core.job.secret_headers import WrongOrigin, header_name, headers_for, headers_left_behind, show_origin

GOOD, NEW = "https://good.example:443", "https://new.example:443"
LATER = datetime(2026, 3, 3, tzinfo=UTC)


@dataclass(frozen=True)
class Secret:
    field: str
    origin: str | None
    valid_until: datetime | None = None


def to(url: str) -> Definition:
    return Definition("job", "@daily", {"type": "http", "url": url})


CURRENT = Secret("header:Authorization", GOOD)
REPLACED = Secret("header:authorization", GOOD, LATER)
UNBOUND = Secret("header:X-Key", None)
SIGNING = Secret("signing", None)
TASK = Definition("job", "@daily", {"type": "task", "name": "send"})
WRONG = Definition("job", "@daily", {"type": "http", "url": "ftp://good.example"})


@pytest.mark.parametrize(
    ("origin", "secrets", "sent"),
    [
        (GOOD, [], []),
        (GOOD, [SIGNING], []),
        (GOOD, [SIGNING, CURRENT], [CURRENT]),
        (GOOD, [Secret("header:Authorization", NEW), REPLACED], [REPLACED]),
        (GOOD, [CURRENT, REPLACED], [CURRENT]),
        (NEW, [REPLACED], []),
        (NEW, [Secret("header:Authorization", NEW), REPLACED], [Secret("header:Authorization", NEW)]),
    ],
)
def test_secrets_are_sent_to_their_origin_only(origin: str, secrets: list[Secret], sent: list[Secret]) -> None:
    assert headers_for(origin, secrets) == sent


@pytest.mark.parametrize(
    ("origin", "secrets", "message"),
    [
        (
            NEW,
            [CURRENT],
            "the header Authorization was set for https://good.example; set it again for https://new.example",
        ),
        (GOOD, [CURRENT, UNBOUND], "the header X-Key was set before secrets were bound to an origin"),
        ("http://good.example:80", [CURRENT], "set it again for http://good.example"),
        ("https://good.example:8443", [CURRENT], "set it again for https://good.example:8443"),
    ],
)
def test_nothing_is_sent_where_a_header_would_be_missing(origin: str, secrets: list[Secret], message: str) -> None:
    with pytest.raises(WrongOrigin, match=message):
        headers_for(origin, secrets)


@pytest.mark.parametrize(
    ("before", "after", "secrets", "left"),
    [
        (to("https://good.example/a"), to("https://GOOD.example:443/b"), [CURRENT], set()),
        (to("https://good.example/a"), to("https://new.example/a"), [CURRENT, SIGNING, REPLACED], {"authorization"}),
        (to("https://good.example/a"), to("https://new.example/a"), [SIGNING, REPLACED], set()),
        (to("https://good.example/a"), to("http://good.example/a"), [CURRENT, UNBOUND], {"authorization", "x-key"}),
        (to("https://good.example/a"), TASK, [CURRENT], set()),
        (TASK, to("https://new.example/a"), [CURRENT], {"authorization"}),
        (TASK, to("https://good.example/a"), [CURRENT], set()),
        (WRONG, to("https://new.example/a"), [CURRENT], {"authorization"}),
        (to("https://good.example/a"), to("https://good.example/b"), [UNBOUND], set()),
    ],
)
def test_headers_that_a_change_leaves_behind_are_named(
    before: Definition, after: Definition, secrets: list[Secret], left: set[str]
) -> None:
    assert headers_left_behind(before, after, secrets) == left


def test_an_origin_is_shown_as_people_write_it() -> None:
    assert show_origin("https://[2001:db8::1]:443") == "https://[2001:db8::1]"
    assert (header_name("header:X-Key"), header_name("signing")) == ("x-key", None)
