"""Keys of a study, and new files that hold them.

Single files, written whole or not at all; private ones readable by their owner only.

Keys: one file to sign with (Ed25519, RFC 8032) and to open sealed sums with (X25519, RFC 7748), and its public part.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from smoothsynth._files import sync_folder, why_not_beside, why_not_new
from smoothsynth.errors import FederatedError

if TYPE_CHECKING:
    from collections.abc import Mapping


MOST_BYTES = 256 * 2**20


def write_new(path: str | Path, text: str, *, private: bool, replace: bool = False) -> None:
    """Put a file in its place in one step, once it is on the disk; an existing one stays unless `replace`."""
    path = Path(path)
    try:
        handle, staging = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    except OSError as error:
        raise FederatedError(
            f"Nothing can be written beside {path}: {error.strerror}. Choose another folder."
        ) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(staging).chmod(0o600 if private else 0o644)
        if replace:
            Path(staging).replace(path)
        else:
            _place(Path(staging), path)
        sync_folder(path.parent)
    except FileExistsError:
        raise FederatedError(f"{path} exists already; it is not replaced. Choose another name.") from None
    except OSError as error:
        raise FederatedError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        with contextlib.suppress(OSError):
            Path(staging).unlink(missing_ok=True)


def _place(staging: Path, path: Path) -> None:
    """Give a file its name if that is free: a renaming alone would replace what somebody else has just written."""
    try:
        os.link(staging, path)
    except FileExistsError:
        raise
    except OSError:
        # No links on this kind of disk (a memory stick, say): take the name first.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        staging.replace(path)


def check_new(path: str | Path) -> None:
    """Find out that a file cannot be written before anything is spent on it."""
    if problem := why_not_new(Path(path)):
        raise FederatedError(problem)


def check_replaceable(path: str | Path) -> None:
    """Find out that a file cannot be replaced before anything is spent on what shall be in it."""
    if Path(path).is_symlink():
        raise FederatedError(f"{path} is a symbolic link, which would be replaced by a file. Name the file itself.")
    if problem := why_not_beside(Path(path)):
        raise FederatedError(problem)


def read_text(path: str | Path) -> str:
    """Read a text file of a sensible size."""
    path = Path(path)
    try:
        if not path.is_file():
            raise FederatedError(f"There is no file {path}.")
        if path.stat().st_size > MOST_BYTES:
            raise FederatedError(f"{path} is too large to be a file of smoothsynth.")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        problem = f"{path} is not a text file of smoothsynth."
    except (OSError, ValueError) as error:
        problem = f"{path} cannot be read: {getattr(error, 'strerror', 'it is not a path')}."
    raise FederatedError(problem)


_PUBLIC = "smoothsynth-public-1:"
_WARNING = "PRIVATE: this key signs and opens sealed sums in your name. Never send it; send the .pub file beside it."
_MAKE = "Make one with ss.federated.make_key, or in a terminal: smoothsynth federated key FILE"
_DIGEST_INFO = b"smoothsynth digest of answered sums 1"
_HALF = 32


class Key:
    """A private key. It shows nothing and cannot be copied."""

    __slots__ = ("_opening", "_signing", "public")

    def __init__(self, signing: Any, opening: Any) -> None:
        self._signing, self._opening = signing, opening
        self.public = _PUBLIC + _text(signing.public_key().public_bytes_raw() + opening.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        return "<private key>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("A private key cannot be copied or pickled.")

    def sign(self, message: bytes) -> bytes:
        """Sign with Ed25519."""
        return self._signing.sign(message)

    def digest(self, message: bytes) -> str:
        """Return HMAC-SHA256 under a secret of this key's own, in hexadecimal."""
        secret = library()["derive"](b"", _DIGEST_INFO, _HALF).derive(self._opening.private_bytes_raw())
        return hmac.new(secret, message, hashlib.sha256).hexdigest()

    def agree(self, other: bytes) -> bytes:
        """Return the secret shared with the owner of another X25519 key."""
        return self._opening.exchange(library()["x25519"].X25519PublicKey.from_public_bytes(other))


def library() -> Mapping[str, Any]:
    """Return the parts of the cryptography library that are used; it is an extra, since most tables stay in one place."""
    try:
        from cryptography.exceptions import InvalidSignature, InvalidTag
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError:
        raise FederatedError(
            "Sealed sums need the cryptography library. Install it with: pip install 'smoothsynth[federated]'"
        ) from None
    return {
        "ed25519": ed25519,
        "x25519": x25519,
        "cipher": ChaCha20Poly1305,
        "derive": lambda salt, info, size: HKDF(hashes.SHA256(), size, salt, info),
        "refused": (InvalidSignature, InvalidTag, ValueError),
    }


def make_key(path: str | Path) -> str:
    """Make a key file that only its owner can read, and beside it the .pub file for everybody else; return its text."""
    path, parts = Path(path), library()
    public_path = _public_path(path)
    if public_path.exists():
        raise FederatedError(f"{public_path} exists already. A key is made once; choose another name for a second one.")
    key = Key(parts["ed25519"].Ed25519PrivateKey.generate(), parts["x25519"].X25519PrivateKey.generate())
    halves = (key._signing.private_bytes_raw(), key._opening.private_bytes_raw())
    write_new(path, f"{_WARNING}\nPRIVATE {_text(b''.join(halves))}\n", private=True)
    write_new(public_path, key.public + "\n", private=False)
    return key.public


def read_key(path: str | Path) -> Key:
    """Read a key file, if only its owner can."""
    path, parts = Path(path), library()
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        raise FederatedError(f"There is no key {path}. {_MAKE}") from None
    except (OSError, ValueError):
        raise FederatedError(f"{path} cannot be read as a key. {_MAKE}") from None
    if os.name == "posix" and mode & 0o077:
        raise FederatedError(
            f"A key must be readable by its owner only; {path} has mode {stat.S_IMODE(mode):04o}. If nobody else can "
            f"have read it: chmod 600 {path}. Else make a new one."
        )
    lines = text.splitlines()
    raw = _raw(lines[1].removeprefix("PRIVATE ")) if len(lines) == 2 and lines[0] == _WARNING else b""
    if len(raw) != 2 * _HALF:
        raise FederatedError(f"{path} is not a key of smoothsynth. (The .pub file is for others; name the key itself.)")
    return Key(
        parts["ed25519"].Ed25519PrivateKey.from_private_bytes(raw[:_HALF]),
        parts["x25519"].X25519PrivateKey.from_private_bytes(raw[_HALF:]),
    )


def read_public(key: str | Path) -> str:
    """Return a public key that is given as its text or as the path of a .pub file."""
    text = str(key)
    if not text.startswith(_PUBLIC):
        try:
            text = Path(key).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            raise FederatedError(
                f"{text:.80} is not a public key: it must be the .pub file that is made with a key, or its text."
            ) from None
    check_agreeable(text)
    return text


def check_agreeable(public: str) -> None:
    """Refuse a public key with which everybody agrees on the same secret (a point of low order, RFC 7748 section 6.1)."""
    x25519 = library()["x25519"]
    try:
        x25519.X25519PrivateKey.generate().exchange(x25519.X25519PublicKey.from_public_bytes(halves(public)[1]))
    except ValueError:
        raise FederatedError(
            f"This public key protects nothing: whatever is sealed for it, anybody can open. Its owner needs another. {_MAKE}"
        ) from None


def halves(public: str) -> tuple[bytes, bytes]:
    """Return the Ed25519 and the X25519 part of a public key."""
    raw = _raw(public.removeprefix(_PUBLIC)) if public.startswith(_PUBLIC) else b""
    if len(raw) != 2 * _HALF:
        raise FederatedError(
            "A public key must be the text of a .pub file, whole; this is something else (never send the private key)."
        )
    return raw[:_HALF], raw[_HALF:]


def signed_by(public: str, signature: bytes, message: bytes) -> bool:
    """Say whether the owner of a public key signed the message."""
    parts = library()
    try:
        parts["ed25519"].Ed25519PublicKey.from_public_bytes(halves(public)[0]).verify(signature, message)
    except parts["refused"]:
        return False
    return True


def fingerprint(public: str) -> str:
    """Return a short form of a public key, to be compared by telephone."""
    found = hashlib.sha256(public.encode()).hexdigest()[:24]
    return " ".join(found[i : i + 4] for i in range(0, len(found), 4))


def _public_path(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".key") + ".pub")


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _raw(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
