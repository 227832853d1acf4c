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

NOTE = """\
A study on a public synthetic table: seeded floating-point noise, which protects nobody, at the scales
that the stated budgets truly need. The error is the largest over all K-smooth queries, the dual norm of
the class: exact for d = 1, K = 1; within a factor K for d = 1; that of an equivalent class of splines
for d > 1. No random queries are used. The fitted weights are scored; the draw of rows is left out.
Slopes are fitted over the sizes whose error is below two thirds of what is reached without any data;
s.e. is the standard error of a straight line in log-log."""
_COLUMNS = ("mechanism", "budget", "theory", "slope", "s.e.", "fitted over n", "last error")
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
        rows = _aligned([_COLUMNS, *(_cells(line) for line in self.table)])
        lines = ["  " + rows[0]]
        titles = [f"d = {line.dimensions}, K = {line.order} ({line.measure})" for line in self.table]
        for before, title, row in zip(["", *titles], titles, rows[1:], strict=False):
            lines += [*([title] if title != before else []), "  " + row]
        lines += ["", "Degree-weighted noise against Algorithm 1, difference of slopes:"]
        for d, K, gain, error in self.gains():
            found = (
                "one of them is saturated, or has too few sizes"
                if math.isnan(gain)
                else f"{gain:+.2f} (s.e. {error:.2f})"
            )
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
    reach = "-" if math.isnan(line.slope) else f"{line.smallest:,} to {line.largest:,}"
    slope, error = _number(line.slope), _number(line.standard_error)
    return line.mechanism, line.budget, _number(line.theory), slope, error, reach, f"{line.last_error:.1e}"


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
