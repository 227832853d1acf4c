"""An estimate: the answer on the synthetic rows, an interval for the private answer, and what the interval is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from smoothsynth._display import page


@dataclass(frozen=True, slots=True)
class Estimate:
    """The answer to a question, with an interval that the private answer lies in with the stated confidence.

    `noise`, `unseen` and `sampling` are half widths of their own; `fit` is the known difference between the released
    moments and the synthetic rows, by which the interval is shifted. `unseen_is` says whether what no measured moment
    sees was bounded for every possible table or estimated. `kind` is "smooth", "envelopes" (a question with jumps,
    between two smooth ones) or "linearised" (arithmetic on averages).
    """

    value: float
    low: float
    high: float
    confidence: float
    noise: float
    fit: float
    unseen: float
    sampling: float
    unseen_is: str
    kind: str = "smooth"
    note: str = ""

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2.0

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    def in_words(self) -> str:
        """Say what the estimate means, for a reader."""
        level = f"{100.0 * self.confidence:g} %"
        main = (
            f"The synthetic rows say {self.value:.4g}; the private rows say something between {self.low:.4g} and "
            f"{self.high:.4g}, with {level} confidence."
        )
        return " ".join(part for part in (main, self._source(), self.note) if part)

    def _source(self) -> str:
        if self.kind == "envelopes":
            return "The question has jumps, so it was put between two smooth ones and the interval holds for both."
        if self.unseen_is == "bounded":
            return "This follows from the noise alone: nothing about the table was assumed."
        parts = {"the noise": self.noise, "what no measured moment sees (estimated)": self.unseen}
        return f"Most of the width comes from {max(parts, key=lambda name: parts[name])}."

    def _repr_html_(self) -> str:
        interval = f"{self.low:.6g} to {self.high:.6g}, with {100.0 * self.confidence:g} % confidence"
        return page(f"{self.value:.6g}", [("private answer", interval), ("in words", self.in_words())])

    def __repr__(self) -> str:
        return f"Estimate({self.value:.6g}, low={self.low:.6g}, high={self.high:.6g}, confidence={self.confidence:g})"
