"""Which pairs of columns to measure: those that the model has most wrong, found by noisy maxima.

How wrong a pair is, its score, is the Euclidean length of what its four products of waves differ by from those that a model
expects. A replaced row moves the four by at most 2 in length, so no score moves by more (docs/proofs/noisy-maxima.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.accounting import charges
from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import LATTICE, coordinate_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Feature


# The four products of the waves of two columns, and how far one row moves them in length, in units of the lattice.
PRODUCTS = 4
_MOST_MOVED = 2 * LATTICE
# The floor of each of four sums adds less than 1 to its move, less than 2 in length; that of the root less than 1.
_FLOORS = 3


@dataclass(frozen=True, slots=True, eq=False)
class PairSelection:
    """How many pairs are chosen, at what cost, and what is expected of all: mean products of waves, in steps of the lattice.

    `expected` has a line and a column for each wave of the transformation. It is made of released numbers, once those are
    known.
    """

    count: int
    multiplier: float
    rows_per_person: int = 1
    expected: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 1:
            raise PlanError("The number of pairs to choose must be a whole number of at least 1.")
        if self.expected is None:
            return
        expected = np.array(self.expected, dtype=np.int64)
        if expected.ndim != 2 or expected.shape[0] != expected.shape[1] or np.abs(expected).max(initial=0) > LATTICE:
            raise PlanError(f"What is expected of waves must be a square of whole numbers within {LATTICE:,}.")
        expected.setflags(write=False)
        object.__setattr__(self, "expected", expected)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PairSelection):
            return NotImplemented
        same = (self.expected is None) is (other.expected is None)
        return same and self._facts == other._facts and np.array_equal(_listed(self), _listed(other))

    def __hash__(self) -> int:
        return hash(self._facts)

    @property
    def _facts(self) -> tuple[int, float, int]:
        return self.count, self.multiplier, self.rows_per_person

    def check(self, features: Sequence[Feature], *, waves: int) -> None:
        """Refuse features other than the four products of the waves of two columns, pair after pair, or too few pairs."""
        used = [[coordinate_of(wave) for wave, _ in feature.terms[0]] for feature in features]
        fours = [used[start : start + PRODUCTS] for start in range(0, len(used), PRODUCTS)]
        together = all(len(four) == PRODUCTS and all(pair == four[0] for pair in four) for four in fours)
        if not together or len(fours) < self.count or any(len(pair) != 2 for pair in used):
            raise PlanError(f"{self.count} pairs are chosen among as many or more, each four products in a row.")
        if self.expected is not None and len(self.expected) != waves:
            raise PlanError("What is expected must be of the waves that the view sees.")

    @property
    def sensitivity(self) -> int:
        """The most that one person can move a score."""
        return _MOST_MOVED * self.rows_per_person + _FLOORS

    def charge(self) -> charges.Charge:
        """Say what choosing costs."""
        return charges.Charge(
            purpose=f"which {self.count} pairs of columns the model has most wrong",
            mechanism=charges.MAXIMA,
            norm="linf",
            sensitivity=float(self.sensitivity),
            scale=charges.maxima_scale(self.sensitivity, self.multiplier, count=self.count),
            coordinates=self.count,
            epsilon=None,
            multiplier=self.multiplier,
        )

    def scores(self, sums: Sequence[int], features: Sequence[Feature], rows: int) -> list[int]:
        """Return floor |Z - n e| of each pair of columns, its four products in a row: Z the sums, e what is expected."""
        if self.expected is None:
            raise PlanError("Pairs can be chosen once it is known what is expected of them.")
        waves = np.array([[wave for wave, _ in feature.terms[0]] for feature in features])
        means = self.expected[waves[:, 0], waves[:, 1]].tolist()
        squares = [(total - rows * mean) ** 2 for total, mean in zip(sums, means, strict=True)]
        return [math.isqrt(sum(squares[start : start + PRODUCTS])) for start in range(0, len(squares), PRODUCTS)]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for moments.json."""
        expected = None if self.expected is None else self.expected.tolist()
        return {"count": self.count, "multiplier": self.multiplier, "expected": expected}

    @classmethod
    def from_dict(cls, facts: dict[str, Any], *, rows_per_person: int) -> PairSelection:
        """Read what `as_dict` wrote."""
        expected = None if facts["expected"] is None else np.array(facts["expected"], dtype=np.int64)
        return cls(facts["count"], facts["multiplier"], rows_per_person, expected)


def _listed(choice: PairSelection) -> NDArray[np.int64]:
    return np.zeros((0, 0), dtype=np.int64) if choice.expected is None else choice.expected
