"""Spikes that no measured moment shows: what a mean would change by if rows next to each other in a column had one value.

A window of the test rows, next to each other in one column, is replaced by the few at one of its ends:

    change of the mean of f  =  share of the window  (mean of f at the end - mean of f in the window)

Where all measured moments change little, private rows may be like that, however smooth the synthetic ones are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.answer.evidence import Evidence

    Array = NDArray[np.float64]


# Windows are halves and thirds of the rows, and an end is this part of a window.
WINDOWS, ENDS = (2, 3), 20
# One row in so many, on either side, is where no row is expected, and in no window.
BEYOND = 200


def spike_changes(evidence: Evidence, columns: Sequence[int]) -> Array:
    """Return the changes of weights of test rows, (changes, rows), for each window of each coordinate that is a number."""
    rows, roles = evidence.rows, evidence.release.schema.roles
    found = [
        change
        for c in columns
        if roles[c] == "value"
        for window, end in _windows(rows[:, c], np.flatnonzero(_there(evidence, c)))
        for change in [_change(len(rows), window, end)]
    ]
    return np.array(found) if found else np.zeros((0, len(rows)))


def _windows(column: Array, there: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield rows that are next to each other in a column, with those at one end of them."""
    # The page may hold no more than single precision: rows that are equal there are in their own order here too.
    order = there[np.argsort(column[there].astype(np.float32), kind="stable")]
    beyond = len(order) // BEYOND
    order = order[beyond : len(order) - beyond]
    for parts in WINDOWS:
        for k in range(parts):
            window = order[len(order) * k // parts : len(order) * (k + 1) // parts]
            few = max(1, len(window) // ENDS)
            if len(window) > few:
                yield window, window[:few]
                yield window, window[-few:]


def _change(count: int, window: NDArray[np.intp], end: NDArray[np.intp]) -> Array:
    change = np.zeros(count)
    change[window] = -1.0
    change[end] += len(window) / len(end)
    return change / count


def _there(evidence: Evidence, coordinate: int) -> NDArray[np.bool_]:
    """Return where a column has a value; what it has elsewhere is a place holder."""
    schema = evidence.release.schema
    own = schema.coordinates_of(schema.owners[coordinate][0])
    missing = [c for c in range(own.start, own.stop) if schema.roles[c] == "missing"]
    return np.all(evidence.rows[:, missing] < 0.5, axis=1)
