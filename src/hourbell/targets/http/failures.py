"""Error messages for attempts without a response, one sentence each.

A message is made only from network errors, TLS errors and the receiver's address: never from the request, its headers
or its path, which may contain secrets, and never from an exception's text.
"""

import errno
import ssl
from collections.abc import Sequence

from hourbell.targets.http.addresses import Address
from hourbell.targets.http.phases import Phase
from hourbell.targets.http.transport import MAX_HEADER_BYTES, MAX_HEADERS

CLOSED = "the connection was closed before an answer came"
RESET = "the connection was reset before an answer came"
UNASKED = "the receiver sent data before the request"
NOT_HTTP = "the answer is not HTTP"
SWITCHED = "the answer switches to another protocol, which was not asked for"
TOO_LONG = f"the answer's headers are longer than {MAX_HEADER_BYTES // 1024} KiB"
TOO_MANY = f"the answer has more than {MAX_HEADERS} headers"
UNSENDABLE = "the request has a method or a header that HTTP cannot carry"
STOPPED = "this node is stopping and sends nothing more"

_CONNECTING = {
    errno.ECONNREFUSED: "connection refused by {endpoint}",
    errno.ECONNRESET: "connection reset by {endpoint}",
    errno.ENETUNREACH: "there is no route to {endpoint}",
    errno.EHOSTUNREACH: "there is no route to {endpoint}",
    errno.EADDRNOTAVAIL: "there is no route to {endpoint}",
    errno.EAFNOSUPPORT: "there is no route to {endpoint}",
    errno.EACCES: "this machine does not allow connections to {endpoint}",
    errno.EPERM: "this machine does not allow connections to {endpoint}",
    errno.EMFILE: "this machine has too many open files to connect to {endpoint}",
    errno.ENFILE: "this machine has too many open files to connect to {endpoint}",
}

# https://docs.openssl.org/master/man3/X509_STORE_CTX_get_error/
_CERTIFICATE = {
    9: "the certificate is not valid yet",
    10: "the certificate has expired",
    18: "the certificate is not trusted (self-signed)",
    19: "the certificate is not trusted (self-signed authority)",
    20: "the certificate is not trusted (unknown authority)",
    21: "the certificate is not trusted (unknown authority)",
    23: "the certificate has been revoked",
    62: "the certificate is for another name",
    64: "the certificate is for another address",
}

_HANDSHAKE = {
    "WRONG_VERSION_NUMBER": "the receiver does not speak TLS on this port",
    "HTTP_REQUEST": "the receiver does not speak TLS on this port",
    "PACKET_LENGTH_TOO_LONG": "the receiver does not speak TLS on this port",
    "RECORD_LAYER_FAILURE": "the receiver does not speak TLS on this port",
    "UNSUPPORTED_PROTOCOL": "the receiver speaks no TLS from version 1.2 on",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the receiver speaks no TLS from version 1.2 on",
}

_DEADLINE: dict[Phase | None, str] = {
    "dns": "the name was not looked up within {seconds:g} s",
    "connect": "no connection within {seconds:g} s",
    "tls": "the TLS handshake did not end within {seconds:g} s",
    "wait": "no answer within {seconds:g} s",
    None: "the {seconds:g} s of the attempt were over before the request was sent",
}


def of_connecting(error: OSError, address: Address, port: int) -> str:
    endpoint = f"{address} port {port}"
    if isinstance(error, TimeoutError):
        return f"no connection to {endpoint} in time"
    return _CONNECTING.get(error.errno or 0, "no connection to {endpoint}").format(endpoint=endpoint)


def joined(problems: Sequence[str]) -> str:
    """Join the errors of all addresses that were tried into one sentence."""
    if not problems:
        return "the name has no address"
    return "; ".join(problems[:3]) + ("; and so on for the other addresses" if len(problems) > 3 else "")


def of_handshake(error: OSError, seconds: float) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return _CERTIFICATE.get(error.verify_code, "the certificate is not trusted")
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | ConnectionResetError() | BrokenPipeError():
            return "the connection was closed during the TLS handshake"
        case ssl.SSLError():
            return _HANDSHAKE.get(error.reason, "the TLS handshake failed")
        case ConnectionAbortedError():  # asyncio raises it at the handshake timeout
            return f"the TLS handshake did not end within {seconds:g} s"
        case _:
            return "the TLS handshake failed"


def of_deadline(phase: Phase | None, seconds: float) -> str:
    return _DEADLINE[phase].format(seconds=seconds)
