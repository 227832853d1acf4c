"""Exact sums as text that says PRIVATE on every line and that only one key can open.

    k, nonce = HKDF-SHA256(X25519(e, recipient), salt = E + recipient)      e a new key for each envelope, E its public part
    body     = ChaCha20-Poly1305(k, nonce, sums; associated data = all lines above the body)
    signature = Ed25519(sender, all lines above the signature)

So what an envelope says of itself (study, round, site, rows) cannot be changed without being noticed, nor can the
sender. Sums have one width, so the length tells nothing but how many there are.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import FederatedError
from smoothsynth.private.sealed import SUM_BYTES, SealedSums
from smoothsynth.private.sites.keys import halves, library, signed_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smoothsynth.private.sites.keys import Key
    from smoothsynth.queries.bases import Feature

_WARNING = "PRIVATE: exact sums of rows. Not for release. Only whom it is sealed for can open it."
_FORMAT = "smoothsynth-sealed-1"
_INFO = b"smoothsynth sealed sums 1"
_WIDTH = 76
_KEY_BYTES, _NONCE_BYTES = 32, 12
_LINE = re.compile(r"PRIVATE ([a-z]+) (\S[^\n]*)")
_COUNT_BYTES = 8


@dataclass(frozen=True, slots=True, repr=False)
class Envelope:
    """A sealed text taken apart: what it says of itself, and what only the recipient can read."""

    header: Mapping[str, str]
    head: bytes
    body: bytes
    signed: bytes
    signature: bytes

    def is_from(self, public: str) -> bool:
        """Say whether the owner of a public key sealed it, and nothing was changed since."""
        return signed_by(public, self.signature, self.signed)

    def open(self, key: Key) -> Opened:
        """Open it with the key that it was sealed for."""
        ephemeral = self.header["ephemeral"]
        try:
            cipher, nonce = _cipher(key.agree(_decoded(ephemeral)), ephemeral, key.public)
            return Opened(cipher.decrypt(nonce, self.body, self.head))
        except library()["refused"]:
            pass
        raise FederatedError("This was sealed for another key, or is damaged. Name the key that it was sealed for.")


class Opened:
    """The content of an envelope: public facts, and sums that stay sealed. It shows nothing."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __repr__(self) -> str:
        return "<opened envelope>"

    @property
    def document(self) -> bytes:
        """The facts that travelled with the sums."""
        return self._content[_COUNT_BYTES : self._start]

    @property
    def _start(self) -> int:
        return _COUNT_BYTES + int.from_bytes(self._content[:_COUNT_BYTES], "little")

    def sums(self, features: Sequence[Sequence[Feature]]) -> list[SealedSums]:
        """Return the sums of these features, in the order in which they were sealed."""
        if len(self._content) - self._start != SUM_BYTES * sum(map(len, features)):
            raise FederatedError(
                "An envelope must hold one sum for each feature that was asked for; this one does not."
            )
        found, at = [], self._start
        for some in features:
            end = at + SUM_BYTES * len(some)
            found.append(SealedSums.unpacked(some, self._content[at:end]))
            at = end
        return found


def seal(
    sums: Sequence[SealedSums], header: Mapping[str, str], *, recipient: str, sender: Key, document: bytes = b""
) -> str:
    """Encrypt sums, and facts about them, to a public key, and sign all of it."""
    parts = library()
    ephemeral = parts["x25519"].X25519PrivateKey.generate()
    there = parts["x25519"].X25519PublicKey.from_public_bytes(halves(recipient)[1])
    known = {**header, "ephemeral": _encoded(ephemeral.public_key().public_bytes_raw())}
    head = "\n".join([_WARNING, f"PRIVATE format {_FORMAT}", *(f"PRIVATE {k} {v}" for k, v in known.items()), ""])
    cipher, nonce = _cipher(ephemeral.exchange(there), known["ephemeral"], recipient)
    # In one expression: no name of any frame holds the exact sums.
    body = cipher.encrypt(
        nonce,
        len(document).to_bytes(_COUNT_BYTES, "little") + document + b"".join(s.packed() for s in sums),
        head.encode(),
    )
    text = _encoded(body)
    lines = [f"PRIVATE   {text[i : i + _WIDTH]}" for i in range(0, len(text), _WIDTH)]
    signed = head + "\n".join([*lines, ""])
    return signed + f"PRIVATE signature {_encoded(sender.sign(signed.encode()))}\n"


def taken_apart(text: str) -> Envelope:
    """Read an envelope without opening it; nothing that it says is to be believed before `is_from`."""
    # Mail programs end lines in their own way.
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    body = [line for line in lines if line.startswith("PRIVATE   ")]
    above = lines[1 : lines.index(body[0])] if body else []
    said = [_LINE.fullmatch(line) for line in [*above, lines[-1]]]
    header = {found[1]: found[2] for found in said if found}
    if lines[0] != _WARNING or None in said or len(header) != len(said) or len(lines) != 1 + len(said) + len(body):
        raise FederatedError("This is not a whole file of sealed sums. Ask for it again, and have it sent as a file.")
    if header.pop("format", "") != _FORMAT or not {"ephemeral", "signature"} <= set(header):
        raise FederatedError(
            "This file of sealed sums has another format. Use the same version of smoothsynth everywhere."
        )
    head = "\n".join([_WARNING, *above, ""]).encode()
    signed = "\n".join([*lines[:-1], ""]).encode()
    signature = _decoded(header.pop("signature"))
    return Envelope(header, head, _decoded("".join(line[10:] for line in body)), signed, signature)


def fingerprint_of(sums: SealedSums) -> str:
    """Return a digest of sums, to be kept inside an envelope: rows that are added twice are known by it."""
    return hashlib.sha256(sums.packed()).hexdigest()


def keyed_digest(sums: SealedSums, key: Key) -> str:
    """Return a digest of sums that only the owner of a key can compute: whoever guesses sums cannot try them on it."""
    return key.digest(sums.packed())


def _cipher(shared: bytes, ephemeral: str, recipient: str) -> tuple[Any, bytes]:
    parts = library()
    salt = _decoded(ephemeral) + halves(recipient)[1]
    raw = parts["derive"](salt, _INFO, _KEY_BYTES + _NONCE_BYTES).derive(shared)
    return parts["cipher"](raw[:_KEY_BYTES]), raw[_KEY_BYTES:]


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise FederatedError("A file of sealed sums is damaged: a line of it is not as it was written.") from None
