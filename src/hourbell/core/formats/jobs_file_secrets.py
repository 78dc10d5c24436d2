"""Secret references of a jobs file (`env:NAME`, `file:/path`): resolved values leave the job and are never shown."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

from hourbell.core.job.target import check_header
from hourbell.core.values.field_errors import FieldError, pointer_to

# Resolves env:NAME or file:/path to its value. None omits it; a ValueError says why it cannot be resolved.
Resolve = Callable[[str], str | None]
REFERENCES = ("env:", "file:")
LITERAL = "literal:"  # marks a header's value that would otherwise be read as a reference
_SECRET_HEADERS = frozenset(("authorization", "proxy-authorization", "cookie", "x-api-key"))


def plain_secrets(target: object) -> Iterator[str]:
    """Warn about secrets in plain text in a target, and say how to write a reference. Values are not shown."""
    if not isinstance(target, dict):
        return
    if isinstance(secret := target.get("secret"), str) and secret.startswith("whsec_"):
        yield 'the secret is in plain text in the file; write secret = "env:NAME" or "file:/path"'
    headers = target.get("headers")
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if not isinstance(value, str) or is_reference(value):
            continue
        better = f'write {name} = "env:NAME" or "file:/path"'
        if "${" in value:
            yield f"the header {name} is sent as it stands, with ${{…}} in it; {better}"
        elif name.lower() in _SECRET_HEADERS:
            yield f"the header {name} is in plain text in the file; {better}"


class Secrets:
    """Resolver of a job's references. Only an http target has any: for its secret and its headers."""

    def __init__(self, resolve: Resolve, errors: list[FieldError]) -> None:
        self._resolve = resolve
        self._errors = errors
        self.references: dict[str, str] = {}
        self.headers: dict[str, str] = {}

    def taken_out(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body with its secret resolved, and without the headers that are references."""
        target = body.get("target")
        if not isinstance(target, dict) or target.get("type") != "http":
            return dict(body)
        made = dict(target)
        if is_reference(secret := made.get("secret")):
            made["secret"] = self._value("/target/secret", secret)
            if made["secret"] is None:
                del made["secret"]
        if isinstance(headers := made.get("headers"), dict):
            made["headers"] = self._plain_headers(headers)
            if headers and not made["headers"]:
                del made["headers"]
        return {**body, "target": made}

    def _plain_headers(self, headers: Mapping[str, Any]) -> dict[str, Any]:
        kept = {
            name: value.removeprefix(LITERAL) if isinstance(value, str) else value
            for name, value in headers.items()
            if not is_reference(value)
        }
        seen = {name.lower() for name in kept}
        for name, reference in headers.items():
            if name in kept:
                continue
            pointer = pointer_to("target", "headers", name)
            value = self._value(pointer, reference)
            wrong = f"{name} is given twice" if name.lower() in seen else None
            if value is not None:
                wrong = wrong or check_header(name, value)
                self.headers[name] = value.strip()
            if wrong is not None:
                self._errors.append(FieldError(pointer, wrong))
            seen.add(name.lower())
        return kept

    def _value(self, pointer: str, reference: str) -> str | None:
        self.references[pointer] = reference
        try:
            return self._resolve(reference)
        except ValueError as error:
            self._errors.append(FieldError(pointer, str(error)))
            return None


def is_reference(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.startswith(REFERENCES)
