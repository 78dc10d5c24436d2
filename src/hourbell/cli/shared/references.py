"""Resolution of the references `env:NAME` and `file:/path` in a jobs file. No error message shows a value."""

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

MAX_SOURCE_BYTES = 65_536


def resolver(folder: Path, environment: Mapping[str, str] = os.environ) -> Callable[[str], str]:
    """Return a cached function that resolves a reference, or raises a ValueError that says what to do.

    Paths are relative to the folder. One line feed at the end of a file, as editors leave it, is not part of the
    secret.
    """

    @cache
    def resolve(reference: str) -> str:
        kind, _, name = reference.partition(":")
        value = _variable(name, environment) if kind == "env" else _content(name, folder)
        if not value:
            raise ValueError(f"{reference} is empty; put the secret into it")
        return value

    return resolve


def lenient(resolve: Callable[[str], str], report: Callable[[str], None]) -> Callable[[str], str | None]:
    """Wrap a resolver so that it returns None for an unresolvable reference and reports it once through `report`."""

    @cache
    def found(reference: str) -> str | None:
        try:
            return resolve(reference)
        except ValueError as error:
            report(f"{str(error).partition(';')[0]}; it is left out of the comparison")
            return None

    return found


def _variable(name: str, environment: Mapping[str, str]) -> str:
    if not name:
        raise ValueError("env: names no variable; write env:NAME")
    if name not in environment:
        raise ValueError(f"env:{name} is not set; set the variable {name} where you apply the file")
    return environment[name]


def _content(name: str, folder: Path) -> str:
    if not name:
        raise ValueError("file: names no file; write file:/path")
    try:
        with (folder / name).open("rb") as file:
            data = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"file:{name} cannot be read: {error.strerror}; put the secret there") from None
    except ValueError:  # the path contains a zero byte
        raise ValueError("file: is not a valid path; write file:/path") from None
    if len(data) > MAX_SOURCE_BYTES:
        raise ValueError(
            f"file:{name} is longer than {MAX_SOURCE_BYTES} bytes; name a file that holds the secret alone"
        )
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ValueError(f"file:{name} is not UTF-8; name a file that holds the secret as text") from None
