"""Which tables to measure: those that the present rows have most wrong, found by noisy maxima.

How wrong rows are about a table, its score, is the sum over its cells of how far they are off, less what the noise of a
measurement would add to it. A replaced row moves a table by at most 2 in all, so no score moves by more
(docs/proofs/noisy-maxima.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.accounting import charges
from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.soft_tables import Cells


# How far one row moves a table, in units of a row.
_MOST_MOVED = 2


@dataclass(frozen=True, slots=True)
class TableSelection:
    """How many tables are chosen, at what cost: `epsilon`, or `multiplier` with a delta.

    `expected` is what the present rows have of all candidates, in units of the sums: made of released numbers, once those
    are known, and no part of what is stated.
    """

    count: int
    multiplier: float | None = None
    epsilon: float | None = None
    rows_per_person: int = 1
    expected: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 1:
            raise PlanError("The number of tables to choose must be a whole number of at least 1.")
        if (self.multiplier is None) is (self.epsilon is None):
            raise PlanError("Choosing tables takes an epsilon or a multiplier; not both.")

    def sensitivity(self, unit: int, *, rounded: int = 0) -> int:
        """Return the most that one person can move a score, of sums in which a row weighs `unit`, some of them `rounded`."""
        return _MOST_MOVED * unit * self.rows_per_person + rounded

    def charge(self, *, unit: int, order: int, rounded: int = 0) -> charges.Charge:
        """Say what choosing costs."""
        sensitivity = self.sensitivity(unit, rounded=rounded)
        if self.epsilon is None:
            mechanism, scale = (
                charges.MAXIMA,
                charges.maxima_scale(sensitivity, self.multiplier or 0.0, count=self.count),
            )
        else:
            mechanism, scale = (
                charges.PURE_MAXIMA,
                charges.pure_maxima_scale(sensitivity, self.epsilon, count=self.count),
            )
        return charges.Charge(
            purpose=CHOOSING.format(tables_in_words(self.count), WIDTHS[order]),
            mechanism=mechanism,
            norm="linf",
            sensitivity=float(sensitivity),
            scale=scale,
            coordinates=self.count,
            epsilon=self.epsilon,
            multiplier=self.multiplier,
        )

    def scores(self, sums: Sequence[int], features: Cells, *, allowance: float) -> list[int]:
        """Return floor(|Z - e|_1 - allowance cells) of each table: Z the sums, e what is expected."""
        if self.expected is None or len(self.expected) != len(sums):
            raise PlanError("Tables can be chosen once it is known what is expected of them.")
        # At most 2^30 rows of 2^16 each.
        gaps = np.abs(np.array(sums, dtype=np.int64) - self.expected)
        return [
            int(gaps[where].sum()) - math.ceil(allowance * (where.stop - where.start)) for _, where in features.places()
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for moments.json."""
        return {"count": self.count, "multiplier": self.multiplier, "epsilon": self.epsilon}

    @classmethod
    def from_dict(cls, facts: dict[str, Any], *, rows_per_person: int) -> TableSelection:
        """Read what `as_dict` wrote."""
        return cls(facts["count"], facts["multiplier"], facts["epsilon"], rows_per_person)


WIDTHS = {1: "single columns", 2: "two columns", 3: "three columns"}
CHOOSING = "which {} of {} the rows so far have most wrong"


def tables_in_words(count: int) -> str:
    """Return so many tables in words."""
    return "1 table" if count == 1 else f"{count} tables"
