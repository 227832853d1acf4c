"""What the study found: as values, as text, and as files."""

from __future__ import annotations

import csv
import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsynth.paper.rates.plot import draw_rates
from smoothsynth.paper.rates.slopes import RatePoint, RateSlope

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NOTE = (
    "A study on a public synthetic table: seeded floating-point noise, which protects nobody, at the scales that the stated\n"
    "budgets truly need. The error is the largest over all K-smooth queries (the dual norm of the class): exact for d = 1,\n"
    "K = 1, within a factor K for d = 1, and that of an equivalent class of splines for d > 1. No random queries are used.\n"
    "The fitted weights are scored; the draw of rows is left out. Slopes are fitted over sizes whose error is below two\n"
    "thirds of what is reached without any data; the standard error is that of a straight line in log-log."
)
_COLUMNS = (
    "d",
    "K",
    "mechanism",
    "budget",
    "theory",
    "slope",
    "s.e.",
    "sizes",
    "n from",
    "n to",
    "last error",
    "measure",
)
PAPER, OURS = "Algorithm 1", "degree-weighted noise"


@dataclass(frozen=True, slots=True)
class RatesReport:
    """Fitted slopes beside the theory's, and the measured points they come from."""

    table: tuple[RateSlope, ...]
    points: tuple[RatePoint, ...]
    seconds: float

    def slope(self, dimensions: int, order: int, mechanism: str) -> RateSlope:
        """Return the line of the table for one mechanism at one d and K."""
        key = (dimensions, order, mechanism)
        return next(line for line in self.table if (line.dimensions, line.order, line.mechanism) == key)

    def gains(self) -> list[tuple[int, int, float, float]]:
        """Return d, K, and how much steeper degree-weighted noise is than Algorithm 1, with its standard error."""
        found = []
        for line in self.table:
            if line.mechanism == OURS:
                other = self.slope(line.dimensions, line.order, PAPER)
                error = math.hypot(line.standard_error, other.standard_error)
                found.append((line.dimensions, line.order, line.slope - other.slope, error))
        return found

    def text(self) -> str:
        """Return the table as plain text."""
        lines = _aligned([_COLUMNS, *(_cells(line) for line in self.table)])
        lines += ["", "Degree-weighted noise against Algorithm 1, difference of slopes:"]
        for d, K, gain, error in self.gains():
            found = "Algorithm 1 is saturated" if math.isnan(gain) else f"{gain:+.2f} (s.e. {error:.2f})"
            lines.append(f"  d = {d}, K = {K}: {found}")
        return "\n".join([*lines, "", NOTE])

    def write(self, output: Path) -> tuple[Path, ...]:
        """Write rates.csv (every measured point), slopes.csv (the table) and rates.svg (the plot) into a folder."""
        output.mkdir(parents=True, exist_ok=True)
        points, slopes, plot = output / "rates.csv", output / "slopes.csv", output / "rates.svg"
        _write_csv(points, RatePoint, self.points)
        _write_csv(slopes, RateSlope, self.table)
        plot.write_text(draw_rates(self.table, self.points), encoding="utf-8")
        return points, slopes, plot


def _cells(line: RateSlope) -> tuple[str, ...]:
    return (
        str(line.dimensions),
        str(line.order),
        line.mechanism,
        line.budget,
        f"{line.theory:.2f}",
        _number(line.slope),
        _number(line.standard_error),
        str(line.sizes),
        f"{line.smallest:,}",
        f"{line.largest:,}",
        f"{line.last_error:.2e}",
        line.measure,
    )


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _write_csv(path: Path, kind: type[RatePoint] | type[RateSlope], rows: Sequence[RatePoint | RateSlope]) -> None:
    names = [field.name for field in dataclasses.fields(kind)]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([getattr(row, name) for name in names] for row in rows)
