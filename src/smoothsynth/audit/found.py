"""The cases of what is found before anything else: levels that occur often, and counts between bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.accounting.charges import Budget
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.audit import likelihood, low_bits
from smoothsynth.audit.case import Case
from smoothsynth.audit.claim import claim_of
from smoothsynth.audit.mechanisms import Remembering
from smoothsynth.discovery.levels import LevelsMeasurement
from smoothsynth.discovery.search import Search
from smoothsynth.private.measure import measure, measure_levels
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import term_feature
from smoothsynth.queries.measurement import Measurement
from smoothsynth.schema import Category, Number, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.audit.case import Looks

EPSILON = 2.0
# So large that a few thousand trials see how often a value of one row is shown.
LEVELS_DELTA = 0.05


def found_cases() -> list[Case]:
    """Return the levels of a category of which one row has a value of its own, and counts of a row that moves far."""
    return [
        levels_case(["rare", "often", "often", "often"], ["often"] * 4),
        levels_case(["one", "two", "two"], ["one", "one", "two"]),
        bounds_case([1.5, 300.0, 300.0], [-7e9, 300.0, 300.0], share=0.1),
    ]


def levels_case(first: Sequence[str], second: Sequence[str], *, share: float = 1.0) -> Case:
    """Show the frequent values of two neighbouring columns; what is not shown counts 0."""
    import pyarrow as pa

    measurement = LevelsMeasurement("x", EPSILON, LEVELS_DELTA)
    schema, budget = Schema({"x": Category("private")}), Budget(EPSILON, LEVELS_DELTA)
    opened = tuple(open_table(pa.table({"x": list(values)}), schema) for values in (first, second))
    texts = sorted({*first, *second})

    def draw(side: int, count: int) -> Looks:
        numbers = np.zeros((count, len(texts)))
        for trial in range(count):
            (noisy,) = measure_levels(opened[side], [measurement], ledger=Ledger(budget))
            shown = dict(noisy.counts)
            numbers[trial] = [shown.get(text, 0) for text in texts]
        return {"numbers": np.column_stack([numbers @ np.linspace(1.0, -1.0, len(texts)), numbers])}

    claim = claim_of([measurement.charge()], delta=LEVELS_DELTA)
    words = f"{', '.join(first)} / {', '.join(second)}"
    return Case("levels of a category", words, claim, None, draw, share)


def bounds_case(first: Sequence[float], second: Sequence[float], *, share: float = 1.0) -> Case:
    """Count the values of two neighbouring columns between powers of two."""
    import pyarrow as pa

    schema = Schema({"x": Number("private", "private")})
    search, any_count = Search.of(schema), (term_feature((0, 1)),)
    noise = Measurement("counts between powers of two", any_count, "discrete laplace", epsilon=EPSILON)
    measurement, engine = search.measurement(noise), Remembering()
    tables = [open_table(pa.table({"x": list(values)}), schema).seen_as(search.schema) for values in (first, second)]
    edges = search.columns[0].intervals.edges
    centres = [_counts(values, edges) * float(measurement.weights[0]) for values in (first, second)]
    charge = measurement.charge()

    def draw(side: int, count: int) -> Looks:
        made = [
            measure(tables[side], measurement, engine=engine, ledger=Ledger(Budget(EPSILON))).integers
            for _ in range(count)
        ]
        numbers = np.array(made)
        moved = np.flatnonzero(centres[0] != centres[1])
        return {
            "numbers": np.column_stack([likelihood.losses(numbers, *centres, charge=charge), numbers[:, moved]]),
            "low bits": low_bits.codes(numbers[:, moved]),
        }

    claim = claim_of([charge], delta=0.0)
    reach = likelihood.distance(*centres, charge=charge)
    return Case(
        "discrete laplace: counts between powers of two", f"{first[0]:g} / {second[0]:g}", claim, reach, draw, share
    )


def _counts(values: Sequence[float], edges: Sequence[float]) -> NDArray[np.float64]:
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1).astype(np.float64)
