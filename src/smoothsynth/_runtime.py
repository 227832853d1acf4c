"""The version of this software, and how many threads linear algebra takes.

The version of the software, as written into receipts.

Keep the matrix library of numpy to one thread, where its threads would fight with ours or only wait.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


try:
    VERSION = version("smoothsynth")
except PackageNotFoundError:  # running from a source tree that is not installed
    VERSION = "0.0.0+source"


_PREFIXES, _SUFFIXES = ("scipy_openblas", "openblas"), ("64_", "")
# The number of threads belongs to the process: the first to come lowers it, the last to leave restores it.
_lock = threading.Lock()
# Below this, starting and waiting for a second thread costs more than it saves, above all on a busy machine.
_WORTH_THREADS = 10_000_000
_inside: list[int] = []


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit matrix products to the calling thread. Where this is not possible, they are just slower."""
    get, set_ = _controls()
    with _lock:
        _inside.append(get() if not _inside else _inside[0])
        set_(1)
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            if not _inside:
                set_(before)


def one_thread_if_small(size: int) -> contextlib.AbstractContextManager[None]:
    """Limit matrix products of matrices of `size` entries to one thread where several would mostly wait."""
    return one_thread() if size < _WORTH_THREADS else contextlib.nullcontext()


@cache
def _controls() -> tuple[Callable[[], int], Callable[[int], Any]]:
    """Find the two functions in the OpenBLAS that comes inside numpy."""
    import numpy as np

    home = Path(np.__file__).parent
    folders = (home.parent / "numpy.libs", home / ".dylibs", home / ".libs")
    for path in (p for folder in folders if folder.is_dir() for p in folder.glob("*openblas*")):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                get = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
                set_ = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
                if get and set_:
                    return get, set_
    return (lambda: 1), (lambda _: None)
