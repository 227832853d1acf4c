"""Entries that are only ever added, in one SQLite file: durable when `add` has been committed, or refused.

    digest_k = SHA-256(digest_{k-1}, entry k),    the file also holds the number of entries and the last digest

SQLite's own check does not see a changed value; the chain does. A file that is damaged, foreign or newer is
refused and left as it is. Rollback journal with synchronous = EXTRA: when COMMIT returns, the entries and
the removal of the journal are on the disk, and everything is in one file (sqlite.org/pragma.html#pragma_synchronous).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import stat
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


APPLICATION = 0x736D6C67  # "smlg", in the header of the file
# Format 1 knew no division of a total: software that reads no other must not write to such a ledger.
FORMAT = 2
_FORMATS = (1, FORMAT)
BUSY_SECONDS = 30.0

_TABLES = {
    "entry": "CREATE TABLE entry (number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, "
    "label TEXT NOT NULL, document TEXT NOT NULL, digest TEXT NOT NULL)",
    "head": "CREATE TABLE head (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), entries INTEGER NOT NULL, "
    "digest TEXT NOT NULL)",
}
_START = "0" * 64
_LONGEST_LABEL = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger: when, of what kind, for which release, and its fields."""

    number: int
    time: str
    kind: str
    label: str
    document: Mapping[str, Any]


class Book:
    """The entries of an open file; what is added is durable once the block of `opened` ends without an error."""

    __slots__ = ("_connection", "_digest", "_entries")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._entries, self._digest = _read_chain(connection)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, in order."""
        return tuple(self._entries)

    def add(self, kind: str, document: Mapping[str, Any], *, label: str = "") -> None:
        """Add an entry."""
        number, time = len(self._entries) + 1, datetime.now(timezone.utc).isoformat(timespec="seconds")
        label = label.encode("utf-8", "replace").decode("utf-8")[:_LONGEST_LABEL]
        text = json.dumps(document, sort_keys=True, allow_nan=False)
        fields = (number, time, kind, label, text)
        self._digest = _next_digest(self._digest, fields)
        self._connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", (*fields, self._digest))
        self._connection.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?)", (number, self._digest))
        self._entries.append(Entry(number, time, kind, label, json.loads(text)))


def create(path: Path, kind: str, document: Mapping[str, Any]) -> None:
    """Make a new file with one entry, readable and writable by its owner only; an existing one is refused."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:
        raise LedgerError(f"{path} exists already; it is not replaced. Choose another name.") from None
    except OSError as error:
        raise LedgerError(f"The ledger {path} cannot be made: {error.strerror}.") from None
    os.close(handle)
    try:
        with _in_words(path), _transaction(path, write=True) as connection:
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            for statement in _TABLES.values():
                connection.execute(statement)
            connection.execute("INSERT INTO head VALUES (1, 0, ?)", (_START,))
            Book(connection).add(kind, document)
    except BaseException:
        # Nothing can have been charged to a file that was never whole.
        path.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def opened(path: Path, *, write: bool = False) -> Iterator[Book]:
    """Check the whole file and yield its entries; with `write`, nobody else can write until the block ends."""
    _check_file(path)
    with _in_words(path), _transaction(path, write=write) as connection:
        _check_header(connection, path)
        if write:
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise _damaged(path)
        try:
            book = Book(connection)
        except (KeyError, TypeError, ValueError, RecursionError):
            raise _damaged(path) from None
        yield book


@contextlib.contextmanager
def _transaction(path: Path, *, write: bool) -> Iterator[sqlite3.Connection]:
    # One connection for one transaction: nothing is left open across a fork or between threads.
    address = f"{Path(path).absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    with contextlib.closing(connection):
        for setting in ("synchronous = EXTRA", "fullfsync = ON", "trusted_schema = OFF", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {setting}")
        # The write lock is taken before reading, so that two processes cannot both see the last epsilon.
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        yield connection
        connection.execute("COMMIT")


def _check_file(path: Path) -> None:
    try:
        found = path.stat()
    except FileNotFoundError:
        raise LedgerError(
            f"There is no ledger {path}. Make one in a terminal: smoothsynth ledger set {path} --epsilon E"
        ) from None
    except OSError as error:
        raise LedgerError(f"The ledger {path} cannot be read: {error.strerror}.") from None
    if not stat.S_ISREG(found.st_mode):
        raise LedgerError(f"A ledger must be a file; {path} is something else.")
    if os.name == "posix" and found.st_mode & 0o077:
        raise LedgerError(
            f"A ledger must belong to its owner only; {path} has mode {stat.S_IMODE(found.st_mode):04o}. "
            f"Make sure that nobody has changed it, then: chmod 600 {path}"
        )


def _check_header(connection: sqlite3.Connection, path: Path) -> None:
    if _pragma(connection, "application_id") != APPLICATION:
        raise LedgerError(f"{path} is not a ledger of smoothsynth, or its beginning is damaged; it is left as it is.")
    found = _pragma(connection, "user_version")
    if isinstance(found, int) and found > FORMAT:
        raise LedgerError(
            f"The ledger {path} has format {found}; this version reads format {FORMAT}. Update smoothsynth."
        )
    tables = dict(connection.execute("SELECT name, sql FROM sqlite_master"))
    # Another journal mode, a trigger or a view is the work of another tool: what it means cannot be known.
    if found not in _FORMATS or tables != _TABLES or _pragma(connection, "journal_mode") != "delete":
        raise _damaged(path)


def _read_chain(connection: sqlite3.Connection) -> tuple[list[Entry], str]:
    """Read all entries and follow their digests; ValueError where they do not agree."""
    entries, digest = [], _START
    lines = connection.execute("SELECT number, time, kind, label, document, digest FROM entry ORDER BY number")
    for position, (number, time, kind, label, text, recorded) in enumerate(lines, start=1):
        digest = _next_digest(digest, (number, time, kind, label, text))
        if recorded != digest or number != position:
            raise ValueError("an entry is not what was written")
        entries.append(Entry(number, time, kind, label, json.loads(text)))
    if connection.execute("SELECT entries, digest FROM head").fetchall() != [(len(entries), digest)]:
        raise ValueError("entries are missing")
    return entries, digest


def _next_digest(digest: str, fields: tuple[object, ...]) -> str:
    return hashlib.sha256(json.dumps([digest, *fields]).encode()).hexdigest()


def _pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _damaged(path: Path) -> LedgerError:
    return LedgerError(
        f"The ledger {path} is damaged: it is not as smoothsynth wrote it. It is not repaired, because what was spent "
        "would have to be guessed. Put back a copy that has every release made since, or publish nothing more."
    )


@contextlib.contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise LedgerError(
            f"The ledger {path} cannot be used: {error}. No noise was drawn for what it did not record. "
            "Make sure that its folder can be written and has space, and that no other process keeps it locked."
        ) from None
    except sqlite3.Error:
        raise _damaged(path) from None
