"""A parser of PostgreSQL sessions for a proxy: it recognizes the store verb that is about to be committed.

The statements of `engine.sql` in a transaction identify its verb; what a client calls them is learnt from its
Parse messages. A client that sends its next request before the last is answered would not be followed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hourbell.store.postgres.planning import SQL

BIND, COMPLETE, ERROR, PARSE, QUERY, READY = b"B", b"C", b"E", b"P", b"Q", b"Z"
_OPENING = frozenset({80877102, 80877103, 80877104})  # asks to cancel, for TLS, for GSS: a start-up message may follow
_STATEMENTS = {text: name for name, text in SQL.items()}
_VERBS = {
    "due_jobs": "plan",
    "claim": "claim",
    "claim_suspect": "claim",
    "expired_leases": "reap",
    "settle": "settle",
    "settle_succeeded": "settle",
}
_WRITES = frozenset({"save_plans", "claim", "claim_suspect", "settle", "settle_succeeded"})


class Message(NamedTuple):
    kind: bytes  # empty for those that open a connection
    body: bytes
    whole: bytes  # as it came


class Messages:
    """Cuts one direction of a session into messages, however the bytes arrive."""

    def __init__(self, *, opens: bool) -> None:
        self._opens = opens  # whether an opening message, which has no kind, comes first
        self._left = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Return the messages that are complete."""
        self._left += data
        while (message := self._first()) is not None:
            self._left = self._left[len(message.whole) :]
            if self._opens and int.from_bytes(message.body[:4]) not in _OPENING:
                self._opens = False
            yield message

    def _first(self) -> Message | None:
        kind = 0 if self._opens else 1
        if len(self._left) < kind + 4:
            return None
        end = kind + int.from_bytes(self._left[kind : kind + 4])
        if len(self._left) < end:
            return None
        return Message(self._left[:kind], self._left[kind + 4 : end], self._left[:end])


class Committed(NamedTuple):
    """A transaction that the server has committed and whose answer is on its way."""

    verb: str
    rows: int  # runs it inserted, claimed or settled


@dataclass(slots=True)
class Conversation:
    """The state of a session."""

    _names: dict[bytes, str] = field(default_factory=dict)  # the client's name of a statement: ours
    _statement: str = ""
    _is_open: bool = False  # in a transaction that ends with COMMIT
    _verb: str | None = None
    _rows: int = 0
    _has_failed: bool = False
    is_committing: bool = False  # the next answer, up to READY, is the end of a transaction

    def asked(self, message: Message) -> None:
        """Parse bytes of the client."""
        if message.kind == PARSE:
            name, text = message.body.split(b"\0")[:2]
            self._names[name] = _STATEMENTS.get(text.decode(), "")
        elif message.kind == BIND:
            self._statement = self._names.get(message.body.split(b"\0")[1], "")
            self._verb = self._verb or _VERBS.get(self._statement)
            self.is_committing = not self._is_open
        elif message.kind == QUERY:
            self._statement = ""
            self.is_committing = self._is_open and message.body.upper().startswith(b"COMMIT")

    def answered(self, message: Message) -> Committed | None:
        """Parse bytes of the server; return a transaction once its commit is answered."""
        if message.kind == ERROR:
            self._has_failed = True
        elif message.kind == COMPLETE:
            self._complete(message.body.rstrip(b"\0").decode())
        elif message.kind == READY:
            return self._ready(is_idle=message.body == b"I")
        return None

    def _complete(self, tag: str) -> None:
        if tag == "ROLLBACK":
            self._has_failed = True  # that is how a COMMIT of what failed before is answered
        if self._statement in _WRITES and (count := re.search(r" (\d+)$", tag)):
            self._rows += int(count[1])

    def _ready(self, *, is_idle: bool) -> Committed | None:
        has_committed = self.is_committing and not self._has_failed
        self._is_open, self.is_committing, self._has_failed, self._statement = not is_idle, False, False, ""
        if not is_idle:
            return None
        verb, rows = self._verb, self._rows
        self._verb, self._rows = None, 0
        return Committed(verb, rows) if verb is not None and has_committed else None
