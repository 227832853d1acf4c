"""Single files, written whole or not at all; private ones readable by their owner only."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from smoothsynth.errors import StudyError
from smoothsynth.folder import sync_folder, why_not_beside, why_not_new

MOST_BYTES = 256 * 2**20


def write_new(path: str | Path, text: str, *, private: bool, replace: bool = False) -> None:
    """Put a file in its place in one step, once it is on the disk; an existing one stays unless `replace`."""
    path = Path(path)
    try:
        handle, staging = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    except OSError as error:
        raise StudyError(f"Nothing can be written beside {path}: {error.strerror}. Choose another folder.") from None
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
        raise StudyError(f"{path} exists already; it is not replaced. Choose another name.") from None
    except OSError as error:
        raise StudyError(f"{path} cannot be written: {error.strerror}.") from None
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
        raise StudyError(problem)


def check_replaceable(path: str | Path) -> None:
    """Find out that a file cannot be replaced before anything is spent on what shall be in it."""
    if Path(path).is_symlink():
        raise StudyError(f"{path} is a symbolic link, which would be replaced by a file. Name the file itself.")
    if problem := why_not_beside(Path(path)):
        raise StudyError(problem)


def read_text(path: str | Path) -> str:
    """Read a text file of a sensible size."""
    path = Path(path)
    try:
        if not path.is_file():
            raise StudyError(f"There is no file {path}.")
        if path.stat().st_size > MOST_BYTES:
            raise StudyError(f"{path} is too large to be a file of smoothsynth.")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        problem = f"{path} is not a text file of smoothsynth."
    except (OSError, ValueError) as error:
        problem = f"{path} cannot be read: {getattr(error, 'strerror', 'it is not a path')}."
    raise StudyError(problem)
