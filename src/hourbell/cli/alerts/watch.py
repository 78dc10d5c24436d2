"""`hourbell watch`: look at the nodes from outside, and tell somebody when none of them is ready."""

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hourbell import clock
from hourbell.cli.shared.command import ExampleCommand
from hourbell.cli.shared.references import resolver
from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.alerts.kinds import Event
from hourbell.core.alerts.outside import Notified, Silence, due_event, outside_message
from hourbell.core.run.settle import Failed, Outcome, Succeeded
from hourbell.core.values.field_errors import BodyError
from hourbell.core.values.readers import InvalidValue, read_duration
from hourbell.core.values.url import Url, parse_url
from hourbell.settings import SettingsError, load_settings

if TYPE_CHECKING:
    from hourbell.targets.channel.base import Channel
    from hourbell.targets.http.transport import Transport

NOT_READY, UNUSABLE = 1, 2
_PROBE_SECONDS = 10.0
_NEVER = "never"
_MAX_REASON_CHARACTERS = 300


class _Duration(click.ParamType[Any]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | None:
        if value is None or isinstance(value, timedelta):
            return value
        if value == _NEVER:
            return None
        try:
            return read_duration(value, timedelta(seconds=1))
        except InvalidValue:
            self.fail(f"{value!r} is not a duration; write one such as 30s, 2m or 4h", param, ctx)


@click.command(
    cls=ExampleCommand,
    examples="""
    hourbell watch --url http://one:8080 --url http://two:8080 --notify https://example.com/alerts
    hourbell watch --url http://one:8080 --notify ops@example.com
    hourbell watch --url http://one:8080 --notify '{"type": "slack", "url": "env:SLACK_URL"}'
    hourbell watch --url http://one:8080 --notify ops@example.com --once --state /var/lib/watch.json
    """,
)
@click.option("--url", "urls", multiple=True, required=True, metavar="URL", help="A node, or an address of several.")
@click.option(
    "--notify",
    "receivers",
    multiple=True,
    required=True,
    metavar="WHOM",
    help="A URL for a webhook, a mail address, or a channel as JSON, as docs/alerts.md has them.",
)
@click.option("--after", type=_Duration(), default="1m", show_default=True, help="Tell when no node was ready so long.")
@click.option("--interval", type=_Duration(), default="20s", show_default=True, help="How often to look.")
@click.option("--repeat", type=_Duration(), default="4h", show_default=True, help="Tell again; or never.")
@click.option("--once", is_flag=True, help="Look once and exit: 0 if a node is ready, 1 if none is. For cron.")
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file that remembers who was notified. Without it, --once notifies at every look.",
)
def command(
    urls: tuple[str, ...],
    receivers: tuple[str, ...],
    after: timedelta | None,
    interval: timedelta | None,
    repeat: timedelta | None,
    once: bool,
    state: Path | None,
) -> None:
    """Tell somebody when no node is ready, and when one is again. Run it on another machine.

    A node is ready if its /health/ready answers 200: it reaches the database, and plans and runs what is due. Mail
    needs HOURBELL_SMTP_URL and HOURBELL_SMTP_FROM.
    """
    from hourbell.wiring import build_outside

    if after is None or interval is None:
        raise click.UsageError("--after and --interval need a duration, as in 1m")
    try:
        transport, channels, user_agent = build_outside(load_settings())
    except SettingsError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    watch = OutsideWatch(
        tuple(_url(text) for text in urls),
        _receivers(receivers, channels),
        transport,
        user_agent,
        after=after,
        repeat=repeat,
        state=state,
    )
    if once and (state is None or watch.state_error):
        watch.after = timedelta(0)  # nothing remembers since when
    status = asyncio.run(_run(watch, interval, once=once))
    sys.exit(UNUSABLE if watch.state_error and status == 0 else status)


@dataclass(slots=True)
class Receiver:
    """Somebody to notify, and the last notification."""

    name: str
    channel: "Channel"
    parsed: ParsedChannel
    notified: Notified | None = None


@dataclass(slots=True)
class _Attempt:
    now: datetime

    async def begin(self) -> bool:
        return True


@dataclass(slots=True)
class OutsideWatch:
    urls: tuple[Url, ...]
    receivers: Sequence[Receiver]
    transport: "Transport"
    user_agent: str
    after: timedelta
    repeat: timedelta | None
    state: Path | None = None
    silence: Silence | None = field(default=None)
    state_error: bool = False  # the state cannot be read or written: this process alone remembers

    def __post_init__(self) -> None:
        if self.state is None:
            return
        try:
            if self.state.exists():
                self._load(self.state)
            self._write(self.state)
        except OSError as error:
            self._fail(self.state, f"it cannot be written: {error.strerror or error}")
        except (ValueError, KeyError, TypeError, AttributeError):
            self._fail(self.state, "it is not a state of `hourbell watch`")

    def _fail(self, path: Path, why: str) -> None:
        """Say once that nothing remembers who was notified; whoever is to be notified is so all the same."""
        if not self.state_error:
            advice = "everybody is notified, but with --once again at every look; name a file that can be"
            click.echo(f"error: the state {path} cannot be used: {why}; {advice}", err=True)
        self.state_error = True

    async def look(self) -> bool:
        """Ask every node and send what is due; return True if a node is ready."""
        found = await asyncio.gather(*map(self._problem, self.urls))
        now = clock.now()
        if None in found:
            self.silence = None
        else:
            why = "; ".join(f"{url.origin}: {problem}" for url, problem in zip(self.urls, found, strict=True))
            self.silence = Silence(self.silence.since if self.silence else now, why)
        for receiver in self.receivers:
            event = due_event(self.silence, receiver.notified, now, after=self.after, repeat=self.repeat)
            if event is not None:
                await self._notify(receiver, event, now)
        if self.state is not None and not self.state_error:
            self._save(self.state)
        return self.silence is None

    async def _notify(self, receiver: Receiver, event: Event, now: datetime) -> None:
        """Notify one receiver; what it does not accept is due again at the next look."""
        message = outside_message(event, self.silence, receiver.notified, receiver.name, now)
        outcome = await self._send(receiver, message, now)
        if not isinstance(outcome, Succeeded):
            error = outcome.error if isinstance(outcome, Failed) else "not sent"
            click.echo(f"{receiver.name} was not notified: {error}", err=True)
            return
        click.echo(f"{receiver.name} was notified: {event}")
        if event is Event.RESOLVED or self.silence is None:
            receiver.notified = None
        else:
            steps = receiver.notified.steps + 1 if receiver.notified else 1
            since = receiver.notified.silence.since if receiver.notified else self.silence.since
            receiver.notified = Notified(Silence(since, self.silence.why), now, steps)

    async def _send(self, receiver: Receiver, message: Any, now: datetime) -> Outcome:
        from hourbell.targets.channel.base import Delivery

        delivery = Delivery(_Attempt(now), self.transport, self.user_agent)
        return await receiver.channel.send(message, receiver.parsed.config, receiver.parsed.secrets, delivery)

    async def _problem(self, url: Url) -> str | None:
        """Return why a node is not ready; None if it is."""
        from hourbell.targets.http.transport import Request, TransportError

        probe = parse_url(f"{str(url).rstrip('/')}/health/ready")
        request = Request("GET", probe, {"User-Agent": self.user_agent}, b"", _PROBE_SECONDS)
        try:
            response = await self.transport.send(request, _Attempt(clock.now()).begin)
        except TransportError as error:
            return str(error)
        return None if response.status == 200 else f"HTTP {response.status}{_reasons(response.body)}"

    def _load(self, path: Path) -> None:
        value = json.loads(path.read_text("utf-8"))
        since = value["silence"]
        silence = None if since is None else Notified.from_json(since).silence
        notified = {name: Notified.from_json(each) for name, each in value["notified"].items()}
        self.silence = silence
        for receiver in self.receivers:
            receiver.notified = notified.get(receiver.name)

    def _save(self, path: Path) -> None:
        try:
            self._write(path)
        except OSError as error:
            self._fail(path, f"it cannot be written: {error.strerror or error}")

    def _write(self, path: Path) -> None:
        """Write the state next to the file, then replace it: a half-written state is never read."""
        silence = None if self.silence is None else Notified(self.silence, self.silence.since).to_json()
        notified = {receiver.name: receiver.notified.to_json() for receiver in self.receivers if receiver.notified}
        written = path.with_name(f"{path.name}.new")
        written.write_text(json.dumps({"silence": silence, "notified": notified}), "utf-8")
        written.replace(path)


async def _run(watch: OutsideWatch, interval: timedelta, *, once: bool) -> int:
    if once:
        return 0 if await watch.look() else NOT_READY
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    while not stop.is_set():
        await watch.look()
        try:
            async with asyncio.timeout(interval.total_seconds()):
                await stop.wait()
        except TimeoutError:
            pass
    return 0


def _url(text: str) -> Url:
    try:
        return parse_url(text)
    except ValueError as error:
        raise click.UsageError(f"--url {text[:80]!r}: {error}") from None


def _receivers(texts: Sequence[str], channels: dict[str, "Channel"]) -> list[Receiver]:
    """Parse all receivers; those with equal names get a number."""
    found = [_receiver(text, channels) for text in texts]
    for number, receiver in enumerate(found, 1):
        if sum(other.name == receiver.name for other in found) > 1:
            receiver.name = f"{receiver.name} {number}"
    return found


def _receiver(text: str, channels: dict[str, "Channel"]) -> Receiver:
    """Parse a receiver: a URL, a mail address, or a channel as JSON with references to secrets."""
    if text.startswith("{"):
        config, name = _config(text), ""
    elif "://" in text:
        config, name = {"type": "webhook", "url": text}, ""
    else:
        config, name = {"type": "email", "to": text}, text
    channel = channels.get(str(config.get("type")))
    if channel is None:
        raise click.UsageError(f"--notify: no such type of channel; write one of {', '.join(sorted(channels))}")
    try:
        parsed = channel.parse(config)
    except BodyError as error:
        raise click.UsageError("--notify: " + "; ".join(map(str, error.errors))) from None
    return Receiver(name or f"{parsed.type} {parsed.origin or ''}".strip(), channel, parsed)


def _config(text: str) -> dict[str, Any]:
    resolve = resolver(Path())
    try:
        found = json.loads(text)
        return {name: resolve(value) if _is_reference(value) else value for name, value in found.items()}
    except (ValueError, AttributeError) as error:
        raise click.UsageError(f"--notify: {error}") from None


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def _reasons(body: bytes) -> str:
    """Return the reasons that a node gives, if it gives any."""
    try:
        reasons = json.loads(body)["reasons"]
        return f" ({'; '.join(map(str, reasons))[:_MAX_REASON_CHARACTERS]})" if reasons else ""
    except (ValueError, KeyError, TypeError):
        return ""
