"""Write a folder whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from smoothsynth.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def write_whole(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a staging folder beside `path` that takes its place when the block ends without an error.

    The staging folder is made first, so that an output that cannot be written is found before anything
    is spent. An existing release is replaced only with `force`, and only once the new one is complete.
    """
    target = Path(path)
    _check_target(target, force=force)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    except OSError as error:
        raise ReleaseError(f"Cannot write beside {target}: {error.strerror}. Choose another folder.") from error
    try:
        yield staging
        _sync(staging)
        staging.chmod(0o755)
        _replace(staging, target, force=force)
    except OSError as error:
        raise ReleaseError(f"The release could not be written to {target}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _check_target(target: Path, *, force: bool) -> None:
    if not target.name:
        raise ReleaseError(f"{str(target)!r} cannot be a release folder. Name a new folder.")
    if target.exists() and not target.is_dir():
        raise ReleaseError(f"{target} is a file, not a folder. Choose another name.")
    if not target.is_dir() or not any(target.iterdir()):
        return
    if not force:
        raise ReleaseError(f"{target} exists already. Choose another folder, or replace it with --force.")
    if not (target / "receipt.json").is_file():
        raise ReleaseError(f"{target} holds something that is not a release; it is not replaced, even by force.")


def _sync(folder: Path) -> None:
    for file in folder.iterdir():
        with file.open("rb") as handle:
            os.fsync(handle.fileno())


def _replace(staging: Path, target: Path, *, force: bool) -> None:
    _check_target(target, force=force)
    old = staging.with_suffix(".old")
    if target.is_dir():
        target.rename(old)
    try:
        staging.rename(target)
    except OSError:
        if old.is_dir():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
