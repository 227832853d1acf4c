"""An estimate: the answer on the synthetic rows, an interval for the private answer, and what the interval is made of.

Groups are estimates of the same question, one for the rows of each group.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from smoothsynth._display import escaped, page
from smoothsynth.errors import one_line
from smoothsynth.schema.date import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Estimate:
    """The answer to a question, with an interval that the private answer lies in with the stated confidence.

    `noise`, `unseen` and `sampling` are half widths of their own; `fit` is the known difference between the released
    moments and the synthetic rows, by which the interval is shifted. `unseen_is` says whether what no measured moment
    sees was bounded for every possible table or estimated. `kind` is "smooth", "envelopes" (a question with jumps,
    between two smooth ones) or "linearised" (arithmetic on averages). `scale` is "number", or "date" or "datetime": then
    value and ends are days or seconds since 1970.
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
    scale: str = "number"

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2.0

    def as_dict(self) -> dict[str, Any]:
        """Return plain values; of days and moments the value and the ends also in ISO 8601."""
        found = asdict(self)
        if found.pop("scale") == "number":
            return found
        return {**found, "scale": self.scale, **{f"{end}_{self.scale}": self.shown(found[end]) for end in _ENDS}}

    def shown(self, value: float, digits: int = 6) -> str:
        """Write the value or an end of the interval as a reader wants it."""
        if self.scale == "number":
            return f"{value:.{digits}g}"
        return str(nearest(value, self.scale))

    def in_words(self) -> str:
        """Say what the estimate means, for a reader."""
        level = f"{100.0 * self.confidence:g} %"
        main = (
            f"The synthetic rows say {self.shown(self.value, 4)}; the private rows say something between "
            f"{self.shown(self.low, 4)} and {self.shown(self.high, 4)}, with {level} confidence."
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
        interval = f"{self.shown(self.low)} to {self.shown(self.high)}, with {100.0 * self.confidence:g} % confidence"
        return page(self.shown(self.value), [("private answer", interval), ("in words", self.in_words())])

    def __repr__(self) -> str:
        value, low, high = map(self.shown, (self.value, self.low, self.high))
        return f"Estimate({value}, low={low}, high={high}, confidence={self.confidence:g})"


_ENDS = ("value", "low", "high")


@dataclass(frozen=True, slots=True, repr=False)
class Groups:
    """An estimate for each group: by its level, or by its levels if there are several columns.

    Each interval has the stated confidence by itself. Of groups in `empty` there is no synthetic row, and no answer.
    """

    columns: tuple[str, ...]
    estimates: Mapping[tuple[str, ...], Estimate]
    empty: tuple[tuple[str, ...], ...] = ()

    def __getitem__(self, levels: str | tuple[str, ...]) -> Estimate:
        return self.estimates[(levels,) if isinstance(levels, str) else levels]

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self.estimates.values())

    def __len__(self) -> int:
        return len(self.estimates)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: one entry for each group."""
        found = [
            {"group": dict(zip(self.columns, levels, strict=True)), **one.as_dict()}
            for levels, one in self.estimates.items()
        ]
        return {"group_by": list(self.columns), "groups": found, "empty": [list(levels) for levels in self.empty]}

    def in_words(self) -> str:
        """Say what the estimates mean, a line for each group."""
        lines = [f"{one_line(', '.join(levels))}: {one.in_words()}" for levels, one in self.estimates.items()]
        none = [f"{one_line(', '.join(levels))}: no synthetic row is in this group." for levels in self.empty]
        return "\n".join(lines + none)

    def rows(self) -> list[tuple[str, str, str]]:
        """Return for each group its levels, the answer and the interval, in words."""
        found = [
            (", ".join(levels), one.shown(one.value), f"{one.shown(one.low)} to {one.shown(one.high)}")
            for levels, one in self.estimates.items()
        ]
        return found + [(", ".join(levels), "", "no synthetic row") for levels in self.empty]

    def _repr_html_(self) -> str:
        rows = [tuple(map(escaped, row)) for row in self.rows()]
        return page(f"By {', '.join(self.columns)}", [], ("group", "synthetic rows", "private rows"), rows)

    def __repr__(self) -> str:
        return f"<Groups by {one_line(', '.join(self.columns))}: {len(self)} estimates, {len(self.empty)} empty>"

    def __str__(self) -> str:
        return "\n".join(one_line(f"{group}: {value}  ({interval})") for group, value, interval in self.rows())
