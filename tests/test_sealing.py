"""A sealed secret opens with its key in its own row, and nowhere else."""

import base64
import os
import stat
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from hourbell.sealing import CannotOpen, KeyRing, Plain, Sealed, make_key_file, parse_keys

OLD, NEW = b"o" * 32, b"n" * 32
JOB, SECRET = uuid4(), uuid4()


def ring(*keys: bytes) -> KeyRing:
    return KeyRing(keys, os.urandom)


def seal(*keys: bytes, text: str = "whsec_x") -> Sealed:
    return ring(*keys).seal(Plain(text), SECRET, JOB, "signing")


def test_a_sealed_secret_opens_again() -> None:
    assert ring(OLD).open(seal(OLD, text="grüße")).reveal() == "grüße"


def test_the_first_key_seals_and_every_key_opens() -> None:
    assert seal(NEW, OLD).key_id == ring(NEW).newest
    assert ring(NEW, OLD).open(seal(OLD)).reveal() == "whsec_x"


def test_two_seals_of_one_secret_differ() -> None:
    assert seal(OLD).sealed != seal(OLD).sealed


@pytest.mark.parametrize("moved", [{"id": uuid4()}, {"job_id": uuid4()}, {"field": "header:X"}])
def test_a_secret_moved_to_another_row_does_not_open(moved: dict[str, object]) -> None:
    with pytest.raises(CannotOpen, match="another row"):
        ring(OLD).open(replace(seal(OLD), **moved))


def test_a_changed_byte_is_noticed() -> None:
    secret = seal(OLD)
    for index in range(len(secret.sealed)):
        changed = bytearray(secret.sealed)
        changed[index] ^= 1
        with pytest.raises(CannotOpen):
            ring(OLD).open(replace(secret, sealed=bytes(changed)))


def test_a_missing_key_is_named_without_showing_it() -> None:
    with pytest.raises(CannotOpen, match="HOURBELL_SECRET_KEY") as caught:
        ring(NEW).open(seal(OLD))
    assert base64.b64encode(OLD).decode() not in str(caught.value)


def test_a_plain_secret_does_not_show_itself() -> None:
    assert "canary" not in f"{Plain('canary')!r} {Plain('canary')}"


@pytest.mark.parametrize("text", ["", "x", "AAAA", "not base64!", base64.b64encode(b"k" * 31).decode()])
def test_a_bad_key_is_refused_with_the_command_that_creates_one(text: str) -> None:
    with pytest.raises(ValueError, match="openssl rand -base64 32"):
        parse_keys(text)


def test_several_keys_are_separated_by_commas() -> None:
    text = ",".join(base64.b64encode(key).decode() for key in (NEW, OLD))
    assert parse_keys(f"{text}\n") == (NEW, OLD)


def test_a_key_file_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "hourbell.db.key"
    make_key_file(path, os.urandom)
    first = path.read_text()
    make_key_file(path, os.urandom)

    assert (first, len(parse_keys(first)), stat.S_IMODE(path.stat().st_mode)) == (path.read_text(), 1, 0o600)
    assert [each.name for each in tmp_path.iterdir()] == ["hourbell.db.key"]
