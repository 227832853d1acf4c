"""Whether constraints can hold within the bounds: a small mixed-integer program, and a point far inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

# Columns of more whole numbers than this are taken for continuous: rounding will find a whole point near by.
_MOST_WHOLE = 1_000_000
_OPTIONS = {"output_flag": False, "parallel": "off", "random_seed": 0, "time_limit": 20.0}


def point_inside(
    spans: Sequence[tuple[float, float]],
    whole: Sequence[bool],
    relations: Sequence[tuple[Sequence[float], bool, float]],
) -> Array | None:
    """Return a point far inside  lower <= x <= upper,  c.x <= b  (or = b), whole where asked; None if there is none.

        maximise s   subject to   c.x + s |c|.h <= b,   lower + s h <= x <= upper - s h,   0 <= s <= 1

    with h half the span of a column. A column is whole or a number of half spans from its middle.
    """
    import highspy

    solver = highspy.Highs()
    for name, value in _OPTIONS.items():
        solver.setOptionValue(name, value)
    halves = [(high / 2 - low / 2) for low, high in spans]
    centres = [low / 2 + high / 2 for low, high in spans]
    counted = [bool(w) and 2 * half <= _MOST_WHOLE for w, half in zip(whole, halves, strict=True)]
    # x = base + unit v
    units = [1.0 if c else half for c, half in zip(counted, halves, strict=True)]
    bases = [low if c else middle for c, (low, _), middle in zip(counted, spans, centres, strict=True)]
    for c, half in zip(counted, halves, strict=True):
        solver.addVar(0.0 if c else -1.0, 2 * half if c else 1.0)
    slack = len(spans)
    solver.addVar(0.0, 1.0)
    solver.changeColCost(slack, -1.0)
    for i, c in enumerate(counted):
        if c:
            solver.changeColIntegrality(i, highspy.HighsVarType.kInteger)
        reach = halves[i] / units[i]
        _row(solver, [(i, 1.0), (slack, -reach)], 0.0 if c else -1.0, highspy.kHighsInf)
        _row(solver, [(i, 1.0), (slack, reach)], -highspy.kHighsInf, 2 * halves[i] if c else 1.0)
    for factors, equal, bound in relations:
        norm = sum(abs(f) * h for f, h in zip(factors, halves, strict=True))
        rest = (bound - sum(f * b for f, b in zip(factors, bases, strict=True))) / norm
        terms = [(i, f * units[i] / norm) for i, f in enumerate(factors) if f]
        _row(solver, terms if equal else [*terms, (slack, 1.0)], rest if equal else -highspy.kHighsInf, rest)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    found = np.array(solver.getSolution().col_value[: len(spans)])
    return np.asarray(np.array(bases) + np.array(units) * found)


def _row(solver, terms: Sequence[tuple[int, float]], low: float, high: float) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    places = np.array([i for i, _ in terms], dtype=np.int32)
    solver.addRow(low, high, len(terms), places, np.array([f for _, f in terms], dtype=np.float64))
