"""Panels of a figure with both axes in logarithms: lines through what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.figures.svg import INK, text


@dataclass(frozen=True)
class Panel:
    """A panel at a place, from a power of ten to another along each axis."""

    left: int
    top: int
    width: int
    height: int
    across: tuple[int, int]
    up: tuple[int, int]

    def place(self, x, y):
        """Return the place of a point."""
        along, above = (
            (np.log10(value) - low) / (high - low) for value, (low, high) in ((x, self.across), (y, self.up))
        )
        return self.left + along * self.width, self.top + (1.0 - above) * self.height

    def axes(self, words):
        """Yield a line for each power of ten, and the words of the axis below."""
        for power in range(self.up[0], self.up[1] + 1):
            _, y = self.place(1.0, 10.0**power)
            ends = f'x1="{self.left}" y1="{y:.1f}" x2="{self.left + self.width}" y2="{y:.1f}"'
            yield f'<line {ends} stroke="{INK}" stroke-opacity="0.25"/>'
            yield text(self.left - 6, y + 4, f"{10.0**power:,g}", anchor="end", size=12)
        below = self.top + self.height
        for power in range(self.across[0], self.across[1] + 1):
            x, _ = self.place(10.0**power, 1.0)
            yield text(x, below + 20, f"{10**power:,}" if power < 7 else f"10^{power}", anchor="middle", size=12)
        yield text(self.left + self.width / 2, below + 40, words, anchor="middle", size=12)

    def line(self, points, colour, *, beside="", dash="none"):
        """Yield a line through points, and words beside its end."""
        places = [self.place(*point) for point in points]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        shape = f'stroke="{colour}" stroke-width="2.2" stroke-dasharray="{dash}"'
        yield f'<polyline points="{joined}" fill="none" {shape}/>'
        if beside:
            yield text(places[-1][0] + 4, places[-1][1] + 4, beside, size=11, colour=colour)


def powers(values):
    """Return the powers of ten that values lie between."""
    lowest = math.floor(np.log10(min(values)))
    return lowest, max(math.ceil(np.log10(max(values))), lowest + 1)
