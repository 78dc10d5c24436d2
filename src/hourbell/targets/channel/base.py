"""The channel interface: a configuration is parsed once, and a message is sent once per attempt.

To add a type of channel: a module here with a class that has these members, its instance in `build_channels`
(`wiring.py`), tests against a real receiver in `tests/targets/channel/`, and a section in `docs/alerts.md`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.alerts.message import Message
from hourbell.core.run.settle import Answer, Failed, Outcome, Unstarted
from hourbell.core.values.url import Url
from hourbell.targets.http.outcome import outcome_of
from hourbell.targets.http.transport import NotBegun, Refused, Request, Response, Transport, TransportError

TIMEOUT_SECONDS = 20.0
SIGNING = "signing"  # a secret of this name never leaves the process; it is bound to no origin

Json = Mapping[str, Any]


class Channel(Protocol):
    """A type of channel."""

    type: str  # as in `{"type": "webhook", …}`

    @property
    def is_usable(self) -> bool:
        """True if this process has the settings that the type needs."""

    def parse(self, config: Json, kept: Collection[str] = ()) -> ParsedChannel:
        """Check a configuration, with its secrets in the clear; raise a RequestError with all errors at once.

        Secrets named in `kept` are stored already: they need not be given, and are not in the result then. Pointers
        begin at the configuration: `/url`. No error repeats a value that may be secret.
        """

    async def send(self, message: Message, config: Json, secrets: Mapping[str, str], transport: "Delivery") -> Outcome:
        """Send a message once, and return what came of it. It never retries.

        `config` and `secrets` are those of the ParsedChannel. The message's id is the same on every attempt: where the
        receiver knows keys for deduplication, send it as one. What is not text of ours is escaped for the format.
        """


class Attempt(Protocol):
    """The attempt that a message is part of: a run's call, or one of `hourbell watch`."""

    now: datetime

    async def begin(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt's way out of the process.

    `begin` must be awaited right before the first byte leaves; if it returns False, send nothing and return
    `Unstarted()`. `post` does so itself.
    """

    attempt: Attempt
    http: Transport
    user_agent: str

    @property
    def now(self) -> datetime:
        return self.attempt.now

    async def begin(self) -> bool:
        return await self.attempt.begin()

    async def post(
        self,
        url: Url,
        body: bytes,
        headers: Mapping[str, str],
        *,
        hidden: tuple[str, ...] = (),
        method: str = "POST",
        judge: Callable[[Response], Outcome | None] = lambda _: None,
    ) -> Outcome:
        """Send one HTTP request to an allowed address; return its outcome by status code, as for a webhook.

        `judge` may return another outcome, for receivers that report errors with status 200. The texts in `hidden` are
        masked in what is stored of the response.
        """
        sent = {"User-Agent": self.user_agent, "Content-Type": "application/json"} | dict(headers)
        request = Request(method, url, sent, body, TIMEOUT_SECONDS)
        try:
            response = await self.http.send(request, self.begin)
        except NotBegun:
            return Unstarted()
        except Refused as refused:
            return Failed(str(refused), retryable=not url.is_address, begun=False)
        except TransportError as error:
            return Failed(str(error), begun=error.begun, answer=Answer(phases=error.phases))
        return judge(response) or _without_pause(outcome_of(response, self.now, hidden=hidden))


def _without_pause(outcome: Outcome) -> Outcome:
    """Return the outcome without its wish to pause the job: the job of a channel is not a schedule."""
    if isinstance(outcome, Failed) and outcome.pauses_job is not None:
        return Failed("HTTP 410 Gone", retryable=False, answer=outcome.answer)
    return outcome
