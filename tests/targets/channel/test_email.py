"""The email channel against a real SMTP server: TLS, login, refusals, and what a person reads."""

import asyncio
import email
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from hourbell.core.alerts.message import Message
from hourbell.core.run.settle import Failed, Outcome, Succeeded, Unstarted
from hourbell.core.values.field_errors import BodyError
from hourbell.core.values.mail import MailServer, parse_mail_server
from hourbell.targets.channel import email as module
from hourbell.targets.channel.email import EmailChannel
from hourbell.targets.http.dial import tls_context
from tests.targets.channel.steps import MESSAGE, deliver
from tests.targets.http.certificates import Authority
from tests.targets.http.transports import FakeEgressPolicy, make_transport

pytestmark = pytest.mark.anyio
HTTP = make_transport("http", FakeEgressPolicy())  # mail does not use it
SENDER = "hourbell@example.com"
TO = {"type": "email", "to": ["ops@example.com", "night@example.com"]}


@dataclass
class Mailbox:
    """An SMTP server's handler that keeps what it accepts; `answers` replaces its answer to RCPT or DATA."""

    mails: list[tuple[str, tuple[str, ...], EmailMessage]] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    was_tls: list[bool] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802 (the name is aiosmtpd's)
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        del server, session, options
        if address in self.answers:
            return self.answers[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        del server
        if "DATA" in self.answers:
            return self.answers["DATA"]
        content = envelope.content
        assert isinstance(content, bytes)
        parsed = email.message_from_bytes(content, _class=EmailMessage, policy=default)
        self.was_tls.append(session.ssl is not None)
        self.mails.append((envelope.mail_from or "", tuple(envelope.rcpt_tos), parsed))
        return "250 accepted"


def check_login(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    del server, session, envelope, mechanism
    return AuthResult(success=(data.login, data.password) == (b"hourbell", b"p%ssw:rd"), handled=False)


@asynccontextmanager
async def mail_server(mailbox: Mailbox, **options: Any) -> AsyncIterator[int]:
    """Serve a mailbox on a free port."""
    tls = options.pop("tls", None)
    loop = asyncio.get_running_loop()
    connections: list[SMTP] = []

    def connect() -> SMTP:
        connections.append(SMTP(mailbox, loop=loop, **options))
        return connections[-1]

    server = await loop.create_server(connect, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
    for each in connections:
        if each.transport is not None:
            each.transport.abort()
    await asyncio.sleep(0.01)  # until their handlers have ended


async def send(server: MailServer | None, tls: ssl.SSLContext | None = None, message: Message = MESSAGE) -> Outcome:
    channel = EmailChannel(server, SENDER, tls or tls_context(protocol=None))
    return await deliver(channel, TO, HTTP, message)


def plain(port: int) -> MailServer:
    return parse_mail_server(f"smtp://127.0.0.1:{port}?tls=none")


async def test_a_message_arrives_as_text_and_html() -> None:
    mailbox = Mailbox()
    async with mail_server(mailbox) as port:
        outcome = await send(plain(port))

    assert isinstance(outcome, Succeeded)
    [(sender, recipients, mail)] = mailbox.mails
    assert (sender, recipients) == (SENDER, ("ops@example.com", "night@example.com"))
    assert mail["Subject"] == "nightly-report failed"
    assert mail["To"] == "ops@example.com, night@example.com"
    assert mail["Auto-Submitted"] == "auto-generated"
    text, html = (mail.get_body([kind]) for kind in ("plain", "html"))
    assert text is not None
    assert html is not None
    for part in (text.get_content(), html.get_content()):
        assert "nightly-report" in part
        assert "At 03:00" in part
        assert "HTTP 503" in part
        assert "https://hourbell.example/incidents/1" in part
        assert "hourbell incident ack" in part


async def test_every_attempt_has_the_same_message_id_and_an_incident_is_one_thread() -> None:
    mailbox = Mailbox()
    later = replace(MESSAGE, id="another")
    async with mail_server(mailbox) as port:
        for message in (MESSAGE, MESSAGE, later):
            await send(plain(port), message=message)

    first, again, other = (mail for _, _, mail in mailbox.mails)
    assert first["Message-ID"] == again["Message-ID"] != other["Message-ID"]
    assert first["References"] == other["References"]


async def test_hostile_texts_become_no_header_and_no_markup() -> None:
    assert MESSAGE.job is not None
    evil = "x\r\nBcc: victim@example.com\r\n\r\n<script>alert(1)</script>\n.\r\nRCPT TO:<victim@example.com>"
    mailbox = Mailbox()
    async with mail_server(mailbox) as port:
        await send(plain(port), message=replace(MESSAGE, job=replace(MESSAGE.job, name=evil, description="é" * 2_000)))

    [(_, recipients, mail)] = mailbox.mails
    assert recipients == ("ops@example.com", "night@example.com")
    assert mail["Bcc"] is None
    html = mail.get_body(["html"])
    assert html is not None
    assert "<script>" not in html.get_content()


async def test_starttls_and_login_come_before_the_message(tmp_path: Path) -> None:
    mailbox, authority = Mailbox(), Authority(tmp_path)
    options = {"tls_context": authority.server("localhost"), "require_starttls": True}
    login = {"authenticator": check_login, "auth_required": True}
    async with mail_server(mailbox, **options, **login) as port:
        tls = tls_context(authority.ca_file, protocol=None)
        outcome = await send(parse_mail_server(f"smtp://hourbell:p%25ssw%3Ard@localhost:{port}"), tls)
        wrong = await send(parse_mail_server(f"smtp://hourbell:s3cret@localhost:{port}"), tls)
        distrusted = await send(parse_mail_server(f"smtp://hourbell:s3cret@localhost:{port}"))

    assert isinstance(outcome, Succeeded)
    assert mailbox.was_tls == [True]
    assert isinstance(wrong, Failed)
    assert wrong.retryable  # the settings can be corrected meanwhile
    assert "refused the login: 535" in wrong.error
    assert "s3cret" not in wrong.error
    assert isinstance(distrusted, Failed)
    assert "certificate is not valid" in distrusted.error


async def test_tls_from_the_start(tmp_path: Path) -> None:
    mailbox, authority = Mailbox(), Authority(tmp_path)
    async with mail_server(mailbox, tls=authority.server("localhost")) as port:
        outcome = await send(
            parse_mail_server(f"smtps://localhost:{port}"), tls_context(authority.ca_file, protocol=None)
        )

    assert isinstance(outcome, Succeeded)
    assert len(mailbox.mails) == 1


async def test_a_server_without_starttls_gets_no_message() -> None:
    mailbox = Mailbox()
    async with mail_server(mailbox) as port:
        outcome = await send(parse_mail_server(f"smtp://127.0.0.1:{port}"))

    assert isinstance(outcome, Failed)
    assert outcome.error.endswith("for a server without TLS in your own network, add ?tls=none to HOURBELL_SMTP_URL")
    assert mailbox.mails == []


@pytest.mark.parametrize(
    ("answers", "is_retryable", "said"),
    [
        ({"DATA": "451 try later"}, True, "451 try later"),
        ({"DATA": "554 this is spam"}, False, "554 this is spam"),
        ({"ops@example.com": "550 unknown", "night@example.com": "550 unknown"}, False, "550 unknown"),
        ({"ops@example.com": "550 unknown", "night@example.com": "451 greylisted"}, True, "451 greylisted"),
    ],
)
async def test_a_refusal_is_permanent_only_if_its_code_says_so(
    answers: dict[str, str], *, is_retryable: bool, said: str
) -> None:
    async with mail_server(Mailbox(answers=answers)) as port:
        outcome = await send(plain(port))

    assert isinstance(outcome, Failed)
    assert (outcome.retryable, said in outcome.error) == (is_retryable, True)


async def test_a_refused_recipient_is_named_and_the_others_get_the_message() -> None:
    mailbox = Mailbox(answers={"ops@example.com": "550 no such user"})
    async with mail_server(mailbox) as port:
        outcome = await send(plain(port))

    assert isinstance(outcome, Succeeded)
    assert outcome.result == {
        "message": "127.0.0.1 accepted it for 1 of 2; it refused ops@example.com (550 no such user)"
    }
    assert [recipients for _, recipients, _ in mailbox.mails] == [("night@example.com",)]


@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_server_that_is_away_or_mute_is_tried_again(monkeypatch: pytest.MonkeyPatch, is_tls: bool) -> None:
    monkeypatch.setattr(module, "ATTEMPT_SECONDS", 0.3)
    ended = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = await reader.read()
        assert bool(sent) is is_tls  # without TLS, nothing is sent before the greeting
        writer.close()
        ended.set()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        mute = await send(parse_mail_server(f"smtps://127.0.0.1:{port}") if is_tls else plain(port))
        await asyncio.wait_for(ended.wait(), module.STEP_SECONDS / 3)  # its thread ends with the attempt
    away = await send(plain(port))

    for outcome in (mute, away):
        assert isinstance(outcome, Failed)
        assert outcome.retryable
    assert "did not take the message within 0.3 s" in mute.error  # type: ignore[union-attr]


async def test_nothing_is_sent_once_the_lease_is_lost() -> None:
    mailbox = Mailbox()

    async def begin() -> bool:
        return False

    async with mail_server(mailbox) as port:
        channel = EmailChannel(plain(port), SENDER, tls_context(protocol=None))
        outcome = await deliver(channel, TO, HTTP, begin=begin)

    assert outcome == Unstarted()
    assert mailbox.mails == []


def test_all_errors_of_a_definition_are_reported_at_once() -> None:
    channel = EmailChannel(None, "", tls_context(protocol=None))

    with pytest.raises(BodyError) as caught:
        channel.parse({"type": "email", "to": ["ops@example.com", "x y@z", "a@b\r\nBcc: c@d"], "cc": []})

    pointers = [error.pointer for error in caught.value.errors]
    assert sorted(pointers) == ["/cc", "/to", "/to", "/type"]


def test_addresses_may_be_a_text_with_commas() -> None:
    channel = EmailChannel(parse_mail_server("smtps://localhost"), SENDER, tls_context(protocol=None))

    assert channel.parse({"type": "email", "to": "a@example.com, b@example.com"}).config["to"] == [
        "a@example.com",
        "b@example.com",
    ]
