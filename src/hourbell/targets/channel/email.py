"""The email channel: `{"type": "email", "to": ["ops@example.com"]}`. The mail server is in the settings.

A text with commas is a list, too.

The message has the same Message-ID on every attempt, so that mail systems can drop a repeat, and all messages of an
incident refer to the same thread.
"""

import asyncio
import smtplib
import socket
import ssl
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP

from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.alerts.message import Message
from hourbell.core.alerts.text import describe, html_text, plain_text
from hourbell.core.run.settle import Failed, Outcome, Succeeded, Unstarted
from hourbell.core.values.mail import MailServer, Security, parse_mail_address
from hourbell.targets.channel.base import Delivery, Json
from hourbell.targets.channel.http import Fields
from hourbell.targets.http.resolver import DaemonThreads

ATTEMPT_SECONDS = 30.0
STEP_SECONDS = 15.0  # for each answer of the server
MAX_ADDRESSES = 20
_GREETING = 220
_NO_SERVER = "this server has no HOURBELL_SMTP_URL"


class EmailChannel:
    """Sends by the mail server of the settings, from `sender`; without a server, no channel can be created."""

    type = "email"

    def __init__(self, server: MailServer | None, sender: str, tls: ssl.SSLContext) -> None:
        self._server = server
        self._sender = sender
        self._tls = tls

    @property
    def is_usable(self) -> bool:
        return self._server is not None

    def parse(self, config: Json, kept: Collection[str] = ()) -> ParsedChannel:
        fields = Fields(config, ("to",), kept)
        to, hint = config.get("to"), 'write ["ops@example.com"]'
        given = [each.strip() for each in to.split(",")] if isinstance(to, str) else to
        addresses: list[str] = []
        if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= MAX_ADDRESSES:
            fields.reject("to", f"it is no list of 1 to {MAX_ADDRESSES} addresses", hint)
        else:
            for each in given:
                try:
                    addresses.append(parse_mail_address(each if isinstance(each, str) else ""))
                except ValueError:
                    fields.reject("to", f"{str(each)[:80]!r} is not a mail address", hint)
        if self._server is None:
            fields.reject("type", f"email: {_NO_SERVER}", "set HOURBELL_SMTP_URL and HOURBELL_SMTP_FROM on every node")
        return fields.parsed(self.type, {"to": list(dict.fromkeys(addresses))}, {}, None)

    async def send(self, message: Message, config: Json, secrets: Mapping[str, str], transport: Delivery) -> Outcome:
        del secrets
        if self._server is None:
            return Failed("this node has no HOURBELL_SMTP_URL; set it on every node", begun=False)
        if not await transport.begin():
            return Unstarted()
        mail = _Mail(self._server, self._tls, self._sender, tuple(config["to"]), self.build(message, config["to"]))
        sending = asyncio.get_running_loop().run_in_executor(DaemonThreads(), mail.send)
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                return await sending
        except TimeoutError:
            return Failed(f"{self._server.host} did not take the message within {ATTEMPT_SECONDS:g} s")
        finally:
            mail.close()  # of an attempt that is over; it ends the thread

    def build(self, message: Message, to: list[str]) -> EmailMessage:
        """Build the mail of a message, as plain text and as HTML."""
        text, domain = describe(message), self._sender.rpartition("@")[2]
        mail = EmailMessage(SMTP)
        mail["Subject"] = text.title
        mail["From"] = f"Hourbell <{self._sender}>"
        mail["To"] = ", ".join(to)
        mail["Date"] = message.at
        mail["Message-ID"] = f"<{message.id}@{domain}>"
        if message.incident is not None:
            mail["References"] = f"<{message.incident.id}.incident@{domain}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(f"{text.title}\n\n{plain_text(text)}\n")
        mail.add_alternative(html_text(text), subtype="html")
        return mail


class _Session(smtplib.SMTP):
    """A session on a connection that is open already."""

    def __init__(self, host: str, sock: socket.socket) -> None:
        super().__init__(timeout=STEP_SECONDS)
        self._host = host  # the name that STARTTLS verifies
        self.sock = sock


@dataclass(slots=True)
class _Mail:
    """One attempt to hand a mail to the server; `send` runs in a thread, and `close` ends it from outside."""

    server: MailServer
    tls: ssl.SSLContext
    sender: str
    to: tuple[str, ...]
    mail: EmailMessage
    _smtp: smtplib.SMTP | None = None
    _sock: socket.socket | None = None
    _is_closed: bool = False

    def send(self) -> Outcome:
        try:
            smtp = self._connect()
            self._prepare(smtp)
            refused = smtp.send_message(self.mail, self.sender, list(self.to))
            self._quit(smtp)
        except smtplib.SMTPRecipientsRefused as error:
            return self._failed(f"it refused {_refused(error.recipients)}", _worst(error.recipients))
        except smtplib.SMTPAuthenticationError as error:
            # Not permanent: the settings can be corrected while the message waits.
            return self._failed(f"it refused the login: {error.smtp_code} {_text(error.smtp_error)}")
        except smtplib.SMTPConnectError as error:
            return self._failed(f"it takes no connection: {error.smtp_code} {_text(error.smtp_error)}")
        except smtplib.SMTPResponseException as error:
            return self._failed(f"it refused the message: {error.smtp_code} {_text(error.smtp_error)}", error.smtp_code)
        except smtplib.SMTPNotSupportedError as error:
            return self._failed(f"{error}".rstrip(".") + self._hint())
        except (smtplib.SMTPException, OSError) as error:
            return self._failed(_reason(error))
        finally:
            if self._smtp is not None:
                self._smtp.close()
        accepted = len(self.to) - len(refused)
        note = f"{self.server.host} accepted it for {accepted} of {len(self.to)}"
        return Succeeded({"message": f"{note}; it refused {_refused(refused)}" if refused else note})

    def close(self) -> None:
        """Break the connection, so that a thread that waits for the server ends."""
        self._is_closed = True
        for sock in (self._sock, None if self._smtp is None else self._smtp.sock):
            if sock is not None:
                with suppress(OSError):  # it may be closed already
                    sock.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> smtplib.SMTP:
        """Connect and wait for the greeting, on a connection that `close` knows before the server says anything."""
        self._sock = sock = socket.create_connection((self.server.host, self.server.port), STEP_SECONDS)
        if self.server.security is Security.TLS:
            self._sock = sock = self.tls.wrap_socket(
                sock, server_hostname=self.server.host, do_handshake_on_connect=False
            )
        self._smtp = smtp = _Session(self.server.host, sock)
        if self._is_closed:  # while it was connecting
            self.close()
        if isinstance(sock, ssl.SSLSocket):
            sock.do_handshake()
        code, greeting = smtp.getreply()
        if code != _GREETING:
            raise smtplib.SMTPConnectError(code, greeting)
        return smtp

    def _prepare(self, smtp: smtplib.SMTP) -> None:
        """Protect the connection and log in."""
        if self.server.security is Security.STARTTLS:
            smtp.starttls(context=self.tls)
        if self.server.user:
            smtp.login(self.server.user, self.server.password)

    def _quit(self, smtp: smtplib.SMTP) -> None:
        """Say goodbye. The message is accepted already, so whatever comes of this changes nothing."""
        with suppress(smtplib.SMTPException, OSError):
            smtp.quit()

    def _hint(self) -> str:
        if self.server.security is not Security.STARTTLS:
            return ""
        return "; for a server without TLS in your own network, add ?tls=none to HOURBELL_SMTP_URL"

    def _failed(self, why: str, code: int = 0) -> Failed:
        """Return the failure; a code of 500 or more is permanent."""
        text = f"{self.server.host}:{self.server.port}: {why}"
        if self.server.password:
            text = text.replace(self.server.password, "***")
        return Failed(text, retryable=code < 500)


def _refused(recipients: Mapping[str, tuple[int, bytes]]) -> str:
    return ", ".join(f"{address} ({code} {_text(why)})" for address, (code, why) in list(recipients.items())[:3])


def _worst(recipients: Mapping[str, tuple[int, bytes]]) -> int:
    """Return the lowest code: while one recipient may be accepted later, the message is tried again."""
    return min(code for code, _ in recipients.values())


def _text(answer: bytes | str) -> str:
    text = answer.decode("ascii", "replace") if isinstance(answer, bytes) else answer
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:300]


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return f"it did not answer within {STEP_SECONDS:g} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return _text(str(error)) or type(error).__name__
