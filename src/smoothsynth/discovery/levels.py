"""The levels of a category that nobody knows: the values that occur often, with noisy counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothsynth.accounting.charges import (
    STABLE,
    STABLE_GAUSSIAN,
    Charge,
    gaussian_sigma,
    laplace_scale,
    stable_threshold,
)
from smoothsynth.errors import PlanError, ReleaseError
from smoothsynth.schema.hierarchy import MOST_COORDINATES
from smoothsynth.schema.unresolved import with_levels

if TYPE_CHECKING:
    from smoothsynth.schema import Category

# One place is for `other`; a longer text is no level.
MOST_FOUND = MOST_COORDINATES - 1
LONGEST_LEVEL = 100
# Replacing a row takes one from the count of a value and gives one to another: in L1; in L2 the root of 2, rounded up.
SENSITIVITY = 2
LENGTH = 1.4142135623730951


@dataclass(frozen=True, slots=True)
class LevelsMeasurement:
    """The counts of the values of a column, those that stay below a threshold left out (docs/proofs/private-schema.md).

    Laplace noise takes an epsilon, Gaussian noise a multiplier.
    """

    column: str
    epsilon: float | None
    delta: float
    multiplier: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) is (self.multiplier is None):
            raise PlanError("Levels are counted with an epsilon (Laplace) or a multiplier (Gaussian), not both.")

    @property
    def threshold(self) -> int:
        """The noisy count from which on a value is shown."""
        return stable_threshold(self.scale, self.delta, gaussian=self.epsilon is None)

    @property
    def scale(self) -> float:
        """The parameter of the noise on each count."""
        if self.multiplier is not None:
            return gaussian_sigma(self.sensitivity, self.multiplier)
        return laplace_scale(self.sensitivity, self.epsilon or 0.0)

    @property
    def sensitivity(self) -> float:
        """The most that one row can move the counts: in L1 with an epsilon, in L2 with a multiplier."""
        return SENSITIVITY if self.multiplier is None else LENGTH

    @property
    def rows_per_person(self) -> int:
        """One: the proof is for single rows."""
        return 1

    def charge(self) -> Charge:
        """Say what the measurement costs."""
        return Charge(
            purpose=f"the levels of column {self.column!r}",
            mechanism=STABLE if self.multiplier is None else STABLE_GAUSSIAN,
            norm="l1" if self.multiplier is None else "l2",
            sensitivity=self.sensitivity,
            scale=self.scale,
            coordinates=MOST_FOUND,
            epsilon=self.epsilon,
            multiplier=self.multiplier,
            delta=self.delta,
        )


@dataclass(frozen=True, slots=True)
class NoisyLevels:
    """The values of a column that were shown, in the order of the alphabet, with their noisy counts."""

    measurement: LevelsMeasurement
    rows: int
    counts: tuple[tuple[str, int], ...]

    def closed(self, column: Category) -> Category:
        """Return the category with the levels that were found; where there are none, all cells count at `other`."""
        return with_levels(column, [text for text, _ in self.counts])

    @property
    def remark(self) -> str | None:
        """What readers should know of the levels, if nothing was found."""
        if self.counts:
            return None
        return (
            f"Column {self.measurement.column!r}: no value stands out of the noise, so all its cells are at `other`. Declare "
            "public levels for it, or take more rows, a larger epsilon or levels_share."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for moments.json."""
        m = self.measurement
        counts = [[text, count] for text, count in self.counts]
        cost = {"epsilon": m.epsilon} if m.multiplier is None else {"multiplier": m.multiplier}
        return {"column": m.column, **cost, "delta": m.delta, "rows": self.rows, "counts": counts}

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> NoisyLevels:
        """Read what `as_dict` wrote; counts that cannot have been shown are refused."""
        costs = (facts.get("epsilon"), float(facts["delta"]), facts.get("multiplier"))
        measurement = LevelsMeasurement(str(facts["column"]), *costs)
        made = cls(measurement, int(facts["rows"]), tuple((str(text), int(count)) for text, count in facts["counts"]))
        texts = [text for text, _ in made.counts]
        short = all(count >= measurement.threshold for _, count in made.counts)
        if texts != sorted(set(texts)) or not short or len(texts) > MOST_FOUND:
            raise ReleaseError(
                "Levels must be shown once each, in order, with counts from the threshold on; they are not."
            )
        return made
