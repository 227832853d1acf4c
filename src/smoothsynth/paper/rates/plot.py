"""The plot: one panel for each d and K, error against n on logarithmic axes, as one self-contained SVG."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.paper.rates.slopes import RatePoint, RateSlope

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
            label = f"{fitted} ({line.theory:.2f})"
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
