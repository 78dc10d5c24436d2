"""Secrets at rest: sealed with AES-256-GCM and bound to their row, so that one copied to another row cannot be opened.

Values sent to a receiver are also bound to the receiver's origin: a row whose origin was changed cannot be opened.

A key ring holds the keys of the settings, newest first: it seals with the first and opens with the key that a secret
names. Plain secrets are wrapped, so that neither a log line nor a traceback shows one.

Commands are not secret, but a node runs only those that were defined through Hourbell: `CommandSeals` signs them.
"""

import base64
import contextlib
import hashlib
import hmac
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from uuid import UUID

from hourbell.core.job.command import CommandCall, text_to_seal

KEY_BYTES = 32
_NONCE_BYTES = 12


class CannotOpen(Exception):
    """The key is not in the ring, or the secret was not sealed for this row."""


class Plain:
    """A secret in plain text, which no repr shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Plain(***)"


@dataclass(frozen=True, slots=True)
class Sealed:
    """A stored secret of a job. Only the key ring can open it, and only for the same row.

    `origin` is where it may be sent; None if it is never sent, and for headers from before they were bound.
    `valid_until` is None for the current secret of its field.
    """

    id: UUID
    job_id: UUID
    field: str
    key_id: str
    sealed: bytes
    origin: str | None = None
    valid_until: datetime | None = None

    def associated_data(self) -> bytes:
        bound = () if self.origin is None else (self.origin,)
        return "|".join(("secrets", str(self.id), str(self.job_id), self.field, *bound, self.key_id)).encode()


class KeyRing:
    """Seals and opens secrets. `random_bytes` creates the nonce of each sealed secret."""

    def __init__(self, keys: Sequence[bytes], random_bytes: Callable[[int], bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"a key ring needs keys of {KEY_BYTES} bytes")
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # programs that only define jobs do without

        self._ciphers = {key_id(key): AESGCM(key) for key in keys}
        self._first = keys[0]
        self._keys = {key_id(key): key for key in keys}
        self._newest = key_id(keys[0])
        self._random_bytes = random_bytes

    @property
    def newest(self) -> str:
        """The id of the sealing key."""
        return self._newest

    def derive(self, purpose: str) -> bytes:
        """Derive a key for another purpose, from which the newest key cannot be computed."""
        return _derived(self._first, purpose)

    def derive_each(self, purpose: str) -> dict[str, bytes]:
        """Derive a key for another purpose from every key of the ring; return them by key id."""
        return {each: _derived(key, purpose) for each, key in self._keys.items()}

    def seal(self, plain: Plain, secret_id: UUID, job_id: UUID, field: str, origin: str | None = None) -> Sealed:
        empty = Sealed(secret_id, job_id, field, self._newest, b"", origin)
        nonce = self._random_bytes(_NONCE_BYTES)
        text = self._ciphers[self._newest].encrypt(nonce, plain.reveal().encode(), empty.associated_data())
        return replace(empty, sealed=nonce + text)

    def open(self, sealed: Sealed) -> Plain:
        cipher = self._ciphers.get(sealed.key_id)
        if cipher is None:
            raise CannotOpen(f"no key {sealed.key_id} in HOURBELL_SECRET_KEY; add the one that sealed it")
        from cryptography.exceptions import InvalidTag

        nonce, text = sealed.sealed[:_NONCE_BYTES], sealed.sealed[_NONCE_BYTES:]
        try:
            return Plain(cipher.decrypt(nonce, text, sealed.associated_data()).decode())
        except (InvalidTag, ValueError):
            raise CannotOpen("it was changed, or sealed for another row") from None


class CommandSeals:
    """Seals commands, each bound to a job and a version, and verifies seals with every key of the ring.

    `keys` are derived from those of the key ring; `newest` is the id of the one that seals.
    """

    def __init__(self, keys: Mapping[str, bytes], newest: str) -> None:
        self._keys = keys
        self.newest = newest

    @classmethod
    def of(cls, ring: KeyRing) -> "CommandSeals":
        return cls(ring.derive_each("command seal"), ring.newest)

    def seal(self, job_id: UUID, version: int, call: CommandCall) -> str:
        return f"{self.newest}:{self._signature(self.newest, job_id, version, call)}"

    def verify(self, seal: str | None, job_id: UUID, version: int, call: CommandCall) -> bool:
        """Return True if the seal was made with one of the keys, for this job, version and command."""
        key_id, _, signature = (seal or "").partition(":")
        if key_id not in self._keys or not signature.isascii():
            return False
        return hmac.compare_digest(signature, self._signature(key_id, job_id, version, call))

    def _signature(self, key_id: str, job_id: UUID, version: int, call: CommandCall) -> str:
        return hmac.digest(self._keys[key_id], text_to_seal(job_id, version, call), "sha256").hex()


def _derived(key: bytes, purpose: str) -> bytes:
    return hmac.digest(key, f"hourbell {purpose}".encode(), "sha256")


def key_id(key: bytes) -> str:
    """Return the id of a key, which reveals nothing about it."""
    return hashlib.sha256(b"hourbell key id" + key).hexdigest()[:16]


def make_key_file(path: Path, random_bytes: Callable[[int], bytes]) -> None:
    """Create a file with a new key that only its owner may read. If several processes do so, the first one wins."""
    draft = path.with_name(f"{path.name}.{random_bytes(4).hex()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(base64.b64encode(random_bytes(KEY_BYTES)).decode() + "\n")
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)  # atomic: the whole file or none
    draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # a secret must not outlive the key that sealed it
    os.close(folder)


def parse_keys(text: str) -> tuple[bytes, ...]:
    """Parse keys from the settings: base64 of 32 bytes each, separated by commas, the newest first."""
    keys = []
    for part in text.split(","):
        try:
            key = base64.b64decode(part.strip(), validate=True)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise ValueError("write base64 of 32 random bytes, as `openssl rand -base64 32` makes; several with commas")
        keys.append(key)
    return tuple(keys)
