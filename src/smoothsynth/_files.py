"""Write a folder whole or not at all.

A folder is prepared beside its place, as .NAME.xxxxxxxx.partial, and moved there in one step. Whoever
prepares it holds a lock on it, which the system takes back when the process ends, however it ends: what a killed
process left is known by its free lock, and the next writer of the same folder clears it away.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from smoothsynth.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator


# Without POSIX locks, what a killed process left stays until somebody removes it.
_LOCKS = os.name == "posix"
if _LOCKS:
    import fcntl


_ATTEMPTS = 100


@contextlib.contextmanager
def write_whole(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a staging folder beside `path` that takes its place when the block ends without an error.

    The staging folder is made first, so that an output that cannot be written is found before anything
    is spent. An existing release is replaced only with `force`, and only once the new one is complete.
    """
    target = Path(path)
    with contextlib.ExitStack() as held:
        try:
            if target.name and target.parent.is_dir():
                _clear_leftovers(target)
            _check_target(target, force=force)
            target.parent.mkdir(parents=True, exist_ok=True)
            staging = _staging_folder(target, held)
        except OSError as error:
            raise ReleaseError(f"Cannot write beside {target}: {error.strerror}. Choose another folder.") from error
        except ValueError:
            raise ReleaseError(f"{str(target)!r} cannot be the name of a folder. Choose another name.") from None
        try:
            yield staging
            _sync(staging)
            staging.chmod(0o755)
            _replace(staging, target, held, force=force)
        except OSError as error:
            raise ReleaseError(
                f"The release could not be written to {target}: {error.strerror or error}. What it spent is spent: a "
                "release in memory can be written elsewhere, and a command that is run again spends again."
            ) from error


def why_not_new(path: Path) -> str:
    """Say why a new file cannot be put at a place, by trying beside it; return nothing if it can."""
    try:
        if path.is_symlink():
            return f"{path} is a symbolic link; it is not followed. Name the file itself."
        if path.exists():
            return f"{path} exists already; it is not replaced. Choose another name."
        return why_not_beside(path)
    except (OSError, ValueError):
        return f"{str(path)!r} cannot be the name of a file. Choose another name."


def why_not_beside(path: Path) -> str:
    """Say why nothing can be prepared beside a file, or return nothing."""
    try:
        str(path).encode()
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    except OSError as error:
        return f"Nothing can be written beside {path}: {error.strerror}. Choose another folder."
    except ValueError:
        return f"{str(path)!r} cannot be the name of a file. Choose another name."
    os.close(handle)
    Path(name).unlink()
    return ""


def _check_target(target: Path, *, force: bool) -> None:
    if target.name in ("", ".."):
        raise ReleaseError(f"{str(target)!r} cannot be a release folder. Name a new folder.")
    str(target).encode()  # a name that no receipt or ledger could hold is a ValueError
    if target.is_symlink():
        raise ReleaseError(
            f"{target} is a symbolic link. A release takes its place in one step, which a link cannot: name the folder "
            "itself."
        )
    if _is_held(target):
        raise ReleaseError(
            f"{target} cannot be moved or replaced, so no release can take its place. Name a new folder."
        )
    if target.exists() and not target.is_dir():
        raise ReleaseError(f"{target} is a file, not a folder. Choose another name.")
    if not target.is_dir() or not any(target.iterdir()):
        return
    if not force:
        raise ReleaseError(f"{target} exists already. Choose another folder, or replace it with force=True (--force).")
    if not (target / "receipt.json").is_file():
        raise ReleaseError(f"{target} holds something that is not a release; it is not replaced, even by force.")


def _is_held(target: Path) -> bool:
    """Say whether an existing folder is a disk of its own, or somebody else's in a folder like /tmp."""
    if not target.exists() or os.name != "posix":
        return False
    parent, own = target.parent.stat(), os.geteuid()
    return target.is_mount() or bool(
        parent.st_mode & stat.S_ISVTX and own not in (0, parent.st_uid, target.stat().st_uid)
    )


def _staging_folder(target: Path, held: contextlib.ExitStack) -> Path:
    for _ in range(_ATTEMPTS):
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
        held.callback(shutil.rmtree, staging, ignore_errors=True)
        # Between the two lines above, another writer may take the folder for a leftover and remove it.
        if not _LOCKS or _lock(staging, held):
            return staging
    raise ReleaseError(f"Cannot prepare a folder beside {target}: something removes it again and again.")


def _lock(folder: Path, held: contextlib.ExitStack) -> bool:
    """Lock a folder until `held` is closed, unless it is gone or somebody else has it."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    held.callback(os.close, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), folder.stat())
    except OSError:
        return False


def _clear_leftovers(target: Path) -> None:
    """Remove what killed writers of the same folder left; put a release back that was being replaced."""
    name = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.(partial|old)")
    for leftover in sorted(target.parent.iterdir()) if _LOCKS else ():
        if not name.fullmatch(leftover.name):
            continue
        with contextlib.ExitStack() as held:
            if not _lock(leftover, held):
                continue
            if leftover.suffix == ".old" and not target.exists():
                leftover.rename(target)
            else:
                shutil.rmtree(leftover, ignore_errors=True)


def _sync(folder: Path) -> None:
    for file in folder.iterdir():
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where folders can be opened."""
    if not _LOCKS:
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace(staging: Path, target: Path, held: contextlib.ExitStack, *, force: bool) -> None:
    _check_target(target, force=force)
    old = staging.with_suffix(".old")
    if target.is_dir():
        if _LOCKS and not _lock(target, held):
            raise ReleaseError(f"{target} is being replaced by another process. Try again.")
        target.rename(old)
    try:
        staging.rename(target)
    except OSError:
        if old.is_dir():
            old.rename(target)
        raise
    sync_folder(target.parent)
    if old.is_dir():
        # The name .old stands for a whole release; what is half removed must not have it.
        with contextlib.suppress(OSError):
            shutil.rmtree(old.rename(staging), ignore_errors=True)
