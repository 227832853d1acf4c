"""From measured errors to fitted slopes: error ~ constant * n^-slope.

The public table on which the rates are measured: rough at every scale, so that no mechanism is lucky.

Each row is one of
    1/10   the corner (1, .., 1): a bound, where clipped values gather
    1/10   one point inside, off every grid
    4/10   columns independent, each of the singular law below
    4/10   all columns equal, of that law

The law of theta = arccos x is a mixture of Riesz products  prod_i (1 + cos(3^i q theta)),  q = 1, 2, 4, 5, 7. Its
Chebyshev moments do not tend to 0, so moments up to a degree say nothing of those above: what a mechanism leaves
unmeasured shows as an error of the size that the theorems allow. (A few points alone would not do: weights that are
not negative find them from a few moments.) Angles are whole multiples of a step, which makes the moments exact.

The plot: one panel for each d and K, error against n on logarithmic axes, as one self-contained SVG.
"""

from __future__ import annotations

import functools
import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.queries.bases import CosineGrid, chebyshev

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


# An error above this share of what is reached without any data says nothing about a rate.
SATURATED = 2.0 / 3.0
_FEWEST_SIZES = 3


@dataclass(frozen=True, slots=True)
class RatePoint:
    """The mean error of one mechanism at one n, d and K, over rounds of noise on one table."""

    dimensions: int
    order: int
    mechanism: str
    rows: int
    degrees: int
    nodes: int
    rounds: int
    error: float
    deviation: float
    without_data: float
    seconds: float

    @property
    def saturated(self) -> bool:
        """Whether the error is so near to that of equal weights, without any data, that it cannot show a rate."""
        return self.error > SATURATED * self.without_data


@dataclass(frozen=True, slots=True)
class RateSlope:
    """The slope fitted to the points of one mechanism at one d and K, beside the exponent of its theorem."""

    dimensions: int
    order: int
    mechanism: str
    budget: str
    measure: str
    theory: float
    slope: float
    standard_error: float
    sizes: int
    smallest: int
    largest: int
    last_error: float


def fit_slope(rows: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """Fit  log error = c - slope log n  by least squares; return the slope and its standard error.

    The standard error is that of the residuals, so it holds the scatter of the noise and the bend of the curve. Both are
    NaN for fewer than three sizes.
    """
    if len(rows) < _FEWEST_SIZES:
        return math.nan, math.nan
    x, y = np.log(np.asarray(rows, dtype=np.float64)), np.log(np.asarray(errors, dtype=np.float64))
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    rest = y - y.mean() - slope * x
    return -slope, math.sqrt(float(rest @ rest) / (len(x) - 2) / float(x @ x))


def slope_of(points: Sequence[RatePoint], *, budget: str, measure: str, theory: float) -> RateSlope:
    """Fit the slope of one mechanism at one d and K over the sizes that are not saturated."""
    used = [p for p in points if not p.saturated]
    slope, standard_error = fit_slope([p.rows for p in used], [p.error for p in used])
    return RateSlope(
        dimensions=points[0].dimensions,
        order=points[0].order,
        mechanism=points[0].mechanism,
        budget=budget,
        measure=measure,
        theory=theory,
        slope=slope,
        standard_error=standard_error,
        sizes=len(used),
        smallest=min((p.rows for p in used), default=0),
        largest=max((p.rows for p in used), default=0),
        last_error=points[-1].error,
    )


STEPS = 2**20
_BATCH = 4096
_LOWEST = (1, 2, 4, 5, 7)
_INSIDE = int(0.3819660113 * STEPS)


@dataclass(frozen=True, slots=True, eq=False)
class StudyTable:
    """Rows as whole angles: column i of a row is cos(pi (angle_i + 1/2) / STEPS)."""

    angles: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.angles)

    @property
    def dimensions(self) -> int:
        """The number of columns."""
        return int(self.angles.shape[1])

    @property
    def points(self) -> Array:
        """The rows as points of the cube."""
        points: Array = np.cos(np.pi / STEPS * (self.angles + 0.5))
        return points

    def moments(self, degrees: int) -> Array:
        """Return the mean over rows of every product of T_0 .. T_{degrees-1}, one axis for each column."""
        if self.dimensions == 1:
            counts = np.bincount(self.angles[:, 0], minlength=STEPS)
            return CosineGrid(degrees, STEPS, 1).moments(counts / self.rows)
        total = np.zeros((degrees,) * self.dimensions)
        points = self.points
        for first in range(0, self.rows, _BATCH):
            table = chebyshev(points[first : first + _BATCH], degrees - 1)
            total += _product_sums([np.ascontiguousarray(table[:, i]) for i in range(self.dimensions)])
        return total / self.rows


def draw_table(rows: int, dimensions: int, *, generator: np.random.Generator) -> StudyTable:
    """Draw independent rows of the law above."""
    angles = np.searchsorted(_law(), generator.random((rows, dimensions)))
    kind = generator.random(rows)
    angles[kind < 0.6] = angles[kind < 0.6, :1]
    angles[kind < 0.2] = _INSIDE
    angles[kind < 0.1] = 0
    return StudyTable(angles)


def _product_sums(factors: list[Array]) -> Array:
    """Sum the products of one row of each of two or more factors over their last axis, for all combinations."""
    first, *others = factors
    if len(others) == 1:
        product: Array = np.dot(first, others[0].T)
        return product
    return np.stack([_product_sums([row * others[0], *others[1:]]) for row in first])


@functools.lru_cache(maxsize=1)
def _law() -> Array:
    """Return the cumulative law of the angle, without its last entry, which is 1."""
    theta = np.pi / STEPS * (np.arange(STEPS) + 0.5)
    density = np.zeros(STEPS)
    for lowest in _LOWEST:
        product = np.ones(STEPS)
        frequency = lowest
        # Up to a frequency with 16 steps a wave, so that the sums over steps are those of the waves.
        while frequency < STEPS / 16:
            product *= 1.0 + np.cos(frequency * theta)
            frequency *= 3
        density += product / product.sum()
    cumulative: Array = np.cumsum(density / density.sum())[:-1]
    return cumulative


_WIDTH, _HEIGHT = 330, 270
_LEFT, _TOP, _RIGHT, _BOTTOM = 52, 30, 14, 34
_HEAD = 96
# Colours that stay apart for the colour-blind (Okabe and Ito), and a shape each.
_COLOURS = ("#0072B2", "#56B4E9", "#E69F00", "#D55E00")
_STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#222}.t{font-size:15px;font-weight:600}.p{font-size:12px;font-weight:600}"
    ".n{fill:#666}.g{stroke:#ddd;stroke-width:1}.f{fill:none;stroke:#888}"
)


def draw_rates(slopes: Sequence[RateSlope], points: Sequence[RatePoint]) -> str:
    """Draw every d and K; solid lines are measured, dashed ones have the slope of the theory."""
    names = list(dict.fromkeys(line.mechanism for line in slopes))
    rows = sorted({line.dimensions for line in slopes})
    orders = {d: sorted({line.order for line in slopes if line.dimensions == d}) for d in rows}
    width, height = _WIDTH * max(map(len, orders.values())) + 20, _HEAD + _HEIGHT * len(rows) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        "<title>Error against the number of rows</title>",
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
        '<text class="t" x="16" y="24">Largest error over K-smooth queries against the number of rows</text>',
        '<text class="n" x="16" y="42">Solid: measured. Dashed: the slope of the theory, through the last point. '
        "In each panel: fitted slope (theory).</text>",
        *_legend(names),
    ]
    for row, d in enumerate(rows):
        for column, K in enumerate(orders[d]):
            here = [line for line in slopes if (line.dimensions, line.order) == (d, K)]
            own = [p for p in points if (p.dimensions, p.order) == (d, K)]
            frame = _Frame.around(own, x=10 + column * _WIDTH, y=_HEAD + row * _HEIGHT)
            parts += frame.panel(here, own, names)
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True, slots=True)
class _Frame:
    """One panel: where it lies, and the powers of ten that its axes reach from and to."""

    x: float
    y: float
    powers: tuple[int, int]
    errors: tuple[int, int]

    @classmethod
    def around(cls, points: Sequence[RatePoint], *, x: float, y: float) -> _Frame:
        rows = [math.log10(p.rows) for p in points]
        errors = [math.log10(p.error) for p in points]
        low, high = math.floor(min(errors)), math.ceil(max(errors))
        return cls(x, y, (math.floor(min(rows)), math.ceil(max(rows))), (low, max(high, low + 1)))

    def place(self, rows: float, error: float) -> tuple[float, float]:
        """Return where a pair of logarithms lies."""
        (a, b), (c, d) = self.powers, self.errors
        across = (rows - a) / max(1, b - a) * (_WIDTH - _LEFT - _RIGHT)
        down = (d - error) / (d - c) * (_HEIGHT - _TOP - _BOTTOM)
        return self.x + _LEFT + across, self.y + _TOP + down

    def panel(self, slopes: Sequence[RateSlope], points: Sequence[RatePoint], names: Sequence[str]) -> list[str]:
        """Draw axes, lines and slopes."""
        parts = self._axes(f"d = {slopes[0].dimensions}, K = {slopes[0].order}")
        for rank, line in enumerate(slopes):
            number = names.index(line.mechanism)
            own = [(math.log10(p.rows), math.log10(p.error)) for p in points if p.mechanism == line.mechanism]
            parts += self._curve(own, number=number, theory=line.theory)
            x, y = self.place(self.powers[0], self.errors[0])
            fitted = "-" if math.isnan(line.slope) else f"{line.slope:.2f}"
            label = fitted if math.isnan(line.theory) else f"{fitted} ({line.theory:.2f})"
            below = y - 8 - 14 * (len(slopes) - 1 - rank)
            parts.append(f'<text x="{x + 8:.1f}" y="{below:.1f}" style="fill:{_COLOURS[number]}">{label}</text>')
        return parts

    def _axes(self, title: str) -> list[str]:
        left, top = self.place(self.powers[0], self.errors[1])
        right, bottom = self.place(self.powers[1], self.errors[0])
        parts = [f'<text class="p" x="{left:.1f}" y="{top - 9:.1f}">{html.escape(title)}</text>']
        for power in range(self.powers[0], self.powers[1] + 1):
            x, _ = self.place(power, self.errors[0])
            parts.append(f'<line class="g" x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}"/>')
            parts.append(_power(x, bottom + 16, power, anchor="middle"))
        for power in range(self.errors[0], self.errors[1] + 1):
            _, y = self.place(self.powers[0], power)
            parts.append(f'<line class="g" x1="{left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}"/>')
            parts.append(_power(left - 6, y + 4, power, anchor="end"))
        frame = f'x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}"'
        return [*parts, f'<rect class="f" {frame}/>']

    def _curve(self, own: Sequence[tuple[float, float]], *, number: int, theory: float) -> list[str]:
        colour = _COLOURS[number]
        places = [self.place(*pair) for pair in own]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>']
        parts += [_mark(x, y, number) for x, y in places]
        if math.isnan(theory):
            return parts
        rows, error = own[-1]
        # The dashed line goes back to the first size, or to where it leaves the panel.
        start = max(own[0][0], rows - (self.errors[1] - error) / theory)
        (x1, y1), (x2, y2) = self.place(start, error + theory * (rows - start)), places[-1]
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        return [*parts, f'<line {ends} stroke="{colour}" stroke-width="1" stroke-dasharray="4 4" opacity="0.75"/>']


def _legend(names: Sequence[str]) -> list[str]:
    parts, x = [], 20.0
    for number, name in enumerate(names):
        parts.append(_mark(x, 64, number))
        parts.append(f'<text x="{x + 10:.0f}" y="68">{html.escape(name)}</text>')
        x += 30 + 6.6 * len(name)
    return parts


def _mark(x: float, y: float, number: int) -> str:
    shapes = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2"',
        f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6"',
        f'<path d="M{x:.1f} {y - 4:.1f}l4 7h-8z"',
        f'<path d="M{x:.1f} {y - 4.5:.1f}l4.5 4.5l-4.5 4.5l-4.5 -4.5z"',
    )
    return f'{shapes[number]} fill="{_COLOURS[number]}"/>'


def _power(x: float, y: float, power: int, *, anchor: str) -> str:
    raised = f'<tspan dy="-4" font-size="8">{power}</tspan>'
    return f'<text class="n" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">10{raised}</text>'
