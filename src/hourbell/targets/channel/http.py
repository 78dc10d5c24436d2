"""Common parts of channels that send JSON by HTTP: reading of their fields, and the request."""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from hourbell.core.alerts.channel import ParsedChannel
from hourbell.core.run.settle import Failed, Outcome
from hourbell.core.values.field_errors import FieldError, RequestError, shown, unknown_fields
from hourbell.core.values.url import Url, parse_url
from hourbell.targets.channel.base import Delivery, Json
from hourbell.targets.http.transport import Response

_MAX_FIELD_CHARACTERS = 500


class Fields:
    """The fields of a configuration. Errors are collected, and `parsed` raises them all at once.

    Secrets in `kept` are stored already, and may be absent.
    """

    def __init__(self, config: Json, known: Collection[str], kept: Collection[str] = ()) -> None:
        names = ("type", *known)
        self._config = config
        self._kept = kept
        self._errors = list(unknown_fields("", config, names, names))

    def url(self, name: str = "url", default: str | None = None) -> Url | None:
        if name in self._kept and name not in self._config:
            return None
        try:
            return parse_url(self._config.get(name, default))
        except ValueError as error:
            self.reject(name, str(error))
            return None

    def text(self, name: str, hint: str, *, required: bool = True, is_valid: Callable[[str], bool] = bool) -> str:
        """Return a text that can stand in a header; empty if it is missing. No error repeats it."""
        value = self._config.get(name)
        if value is None and (name in self._kept or not required):
            return ""
        if isinstance(value, str) and _is_plain(value) and is_valid(value):
            return value
        self.reject(name, "it is missing" if value is None else "it is not valid", hint)
        return ""

    def number(self, name: str, default: int, least: int, most: int) -> int:
        value = self._config.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.reject(name, f"it is {shown(value)}", f"write a number from {least} to {most}")
            return default
        return value

    def get(self, name: str) -> object:
        return self._config.get(name)

    def reject(self, name: str, message: str, hint: str | None = None) -> None:
        self._errors.append(FieldError(f"/{name}", f"{name}: {message}", hint))

    def parsed(self, kind: str, config: Json, secrets: Mapping[str, str], url: Url | None) -> ParsedChannel:
        """Return the channel, or raise a RequestError."""
        if self._errors:
            raise RequestError(self._errors)
        given = {name: text for name, text in secrets.items() if text}
        return ParsedChannel(kind, {"type": kind} | dict(config), given, None if url is None else url.origin)


async def post_json(
    transport: Delivery,
    url: str,
    body: Any,
    secrets: Mapping[str, str],
    headers: Mapping[str, str] | None = None,
    *,
    judge: Callable[[Response], Outcome | None] = lambda _: None,
) -> Outcome:
    """Send a JSON body. Secrets are masked in what is stored of the response; of a secret URL, its path alone, too."""
    target = parse_url(url)
    hidden = [*secrets.values()]
    if url in hidden:
        hidden += [target.path, target.path.rpartition("/")[2]]
    return await transport.post(target, json_bytes(body), headers or {}, hidden=tuple(hidden), judge=judge)


def json_bytes(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def missing(*names: str) -> Failed:
    """Return the failure of a channel whose secret is not there, or bound to another address."""
    text = f"the channel has no {' and no '.join(names)}; create it again"
    return Failed(text, retryable=False, begun=False)


def bearer(secrets: Mapping[str, str]) -> dict[str, str]:
    return {"Authorization": f"Bearer {secrets['token']}"} if "token" in secrets else {}


def _is_plain(text: str) -> bool:
    return 0 < len(text) <= _MAX_FIELD_CHARACTERS and text.isascii() and text.isprintable() and " " not in text
