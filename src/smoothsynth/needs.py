"""What a target error needs: the smallest epsilon, or the fewest rows, whose plan keeps the noise below it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import PlanError
from smoothsynth.plan import plan
from smoothsynth.queries.measurement import MOST_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from smoothsynth.plan import Plan
    from smoothsynth.schema import Schema


def needed_epsilon(schema: Schema, rows: int, target: float, **choices: Any) -> float | None:
    """Return the smallest epsilon at which the noise of every typical query is at most `target`; None beyond 100."""
    return _smallest(lambda epsilon: plan(schema, rows, epsilon=epsilon, **choices), target, low=1e-3, high=100.0)


def needed_rows(schema: Schema, target: float, **choices: Any) -> int | None:
    """Return the smallest number of rows at which the noise of every typical query is at most `target`."""
    least = int(choices.get("rows_per_person", 1))
    found = _smallest(lambda rows: plan(schema, int(rows), **choices), target, low=max(2, least), high=MOST_ROWS)
    return None if found is None else int(found) + 1


def _smallest(make: Callable[[float], Plan], target: float, *, low: float, high: float) -> float | None:
    """Bisect on a logarithmic scale for the least value whose plan keeps the noise of typical queries below."""
    if not (isinstance(target, (int, float)) and 0.0 < target < 1.0):
        raise PlanError(f"A target error must be a number between 0 and 1, not {target!r}.")

    def reached(value: float) -> bool:
        made = make(value)
        # Where private bounds would not be found, nothing is reached.
        found = made.discovery is None or made.discovery.needed <= made.rows
        return found and max(f.noise for f in made.forecast()) <= target

    if not reached(high):
        return None
    while high > low * 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
