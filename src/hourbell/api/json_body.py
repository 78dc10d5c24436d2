"""JSON bodies: of one media type, at most 1 MiB, and read in one way only. What is too large is not read to its end."""

from starlette.requests import Request

from hourbell.api.problems import Problem
from hourbell.core.strict_json import parse_json

MOST_BYTES = 1024 * 1024
MOST_BYTES_OF = {"/jobs/apply": 8 * MOST_BYTES, "/schedules/apply": 8 * MOST_BYTES}  # by how the path ends
_LONGEST_LENGTH = 19
_MEDIA_TYPES = ("application/json", "application/merge-patch+json")


async def json_body(request: Request) -> object:
    """The value a request brings; a Problem if it brings none."""
    body = await read_body(request)
    _check_media_type(request)
    return parse_json(body)


async def optional_json_body(request: Request) -> object:
    """The value a request brings, or an empty object if the body is empty, with or without JSON's media type."""
    if await read_body(request):
        return await json_body(request)
    if "content-type" in request.headers:
        _check_media_type(request)
    return {}


async def read_body(request: Request, *, most: int | None = None) -> bytes:
    """The bytes of a body, however often they are asked for, counted while they come."""
    if not hasattr(request, "_body"):
        most = most or _most_of(request)
        announced = _announced(request)
        if announced is not None and announced > most:
            raise _too_large(most, announced)
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise _too_large(most, announced)
        request._body = bytes(body)  # where Starlette looks for a body that was read
    return await request.body()


def _most_of(request: Request) -> int:
    ends = (most for end, most in MOST_BYTES_OF.items() if request.url.path.endswith(end))
    return next(ends, MOST_BYTES)


def _announced(request: Request) -> int | None:
    text = request.headers.get("content-length", "")
    return int(text) if text.isdecimal() and len(text) < _LONGEST_LENGTH else None


def _too_large(most: int, announced: int | None) -> Problem:
    """A client still sends while it is answered: if the connection were closed at once, it would not see the answer.

    So the server throws away the rest, as it does unless told otherwise, where the rest is known to be short.
    """
    is_short = announced is not None and announced <= 8 * most
    headers = {} if is_short else {"Connection": "close"}
    return Problem(413, "body_too_large", f"A body has at most {most:,} bytes; send less.", headers=headers)


def _check_media_type(request: Request) -> None:
    given = request.headers.getlist("content-type")
    media_type, _, parameters = ",".join(given).partition(";")
    charset = parameters.replace(" ", "").replace('"', "").lower()
    if media_type.strip().lower() not in _MEDIA_TYPES or charset not in ("", "charset=utf-8"):
        raise Problem(
            415,
            "unsupported_media_type",
            "Send JSON in UTF-8 with the header Content-Type: application/json.",
            headers={"Accept-Post": "application/json"},
        )
