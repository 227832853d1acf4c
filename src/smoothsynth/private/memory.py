"""How much memory a pass over the rows may take, and how many rows and threads that is.

    memory  =  what Python, numpy and Arrow take themselves (BASE)
             + threads x (pages of the file, one or two for each column  +  a batch of rows  +  the buffers of the sums)

The size of the table is not in it.
"""

from __future__ import annotations

import re

from smoothsynth.errors import PlanError

DEFAULT = 2**30
BASE = 200 * 2**20
LEAST = 256 * 2**20
# Arrow writes pages of a megabyte, and holds one as it is in the file, one unpacked and a dictionary.
_PAGES = 5 * 2**19
# A cell as Arrow decodes it, as it hands it over, and once more if some values are missing.
_CELL = 24
_MOST_CELLS, _MOST_ROWS, _FEWEST_ROWS = 3 * 2**20, 2**17, 2**11

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?\s*", re.IGNORECASE)


def parse(memory: str | int | None) -> int:
    """Return a number of bytes from 512MB, 2 GB, 1.5GiB or a number; None is the default of one GiB."""
    if memory is None:
        return DEFAULT
    found = _SIZE.fullmatch(str(memory))
    size = int(float(found[1]) * _UNITS[(found[2] or "").upper()]) if found and not isinstance(memory, bool) else 0
    if size < LEAST:
        raise PlanError(
            f"memory must be a size such as 512MB or 2GB, and at least {LEAST // 2**20} MiB, most of which Python and Arrow "
            f"take themselves; it is {memory!r:.40}."
        )
    return size


def room(memory: str | int | None) -> int:
    """Return the bytes that are left for rows."""
    return parse(memory) - BASE


def share(memory: str | int | None, *, columns: int, held: int, threads: int) -> tuple[int, int]:
    """Return how many threads may run, at most `threads`, and how many rows each may hold at once.

    `held` is what a thread takes besides, in bytes. At least one thread and a few thousand rows are needed.
    """
    left, rows = room(memory), _MOST_ROWS
    while rows > _FEWEST_ROWS and rows * columns > _MOST_CELLS:
        rows //= 2
    fixed = columns * _PAGES + held
    while rows > _FEWEST_ROWS and fixed + rows * columns * _CELL > left:
        rows //= 2
    return max(1, min(threads, left // (fixed + rows * columns * _CELL))), rows
