"""Charts of the page as SVG text: drawn here, so that a reader sees them without a script, in any theme and on paper."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.schema.date import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_GOLDEN = 0.6180339887498949
_WIDTH, _BOTTOM = 300.0, 104.0
_MISSING = 65535
# In seconds.
DAY = 86_400
# Shades of a correlation, from white to the full colour.
_SHADES = 10


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """A column beside another: some rows as whole numbers from 0 to 65,534 along the axis, 65,535 if they are not on it."""

    name: str
    ticks: tuple[tuple[float, str], ...]
    points: NDArray[np.uint16]

    @classmethod
    def of_numbers(cls, name: str, values: Array, ends: tuple[float, float], kind: str) -> Axis:
        """Place numbers or days between the ends of what is shown."""
        place = _scaler(*ends, 0.0, _MISSING - 1.0)
        with np.errstate(invalid="ignore"):
            shown = (values >= ends[0]) & (values <= ends[1])
        points = np.where(shown, np.rint(place(np.where(shown, values, ends[0]))), _MISSING).astype("<u2")
        return cls(name, tuple((float(np.rint(place(at))), text) for at, text in ticks(*ends, 5, kind)), points)

    @classmethod
    def of_levels(cls, name: str, codes: NDArray[np.int64], texts: Sequence[str]) -> Axis:
        """Place the rows of a level beside each other, -1 being none."""
        beside = (np.arange(len(codes)) * _GOLDEN) % 1.0 * 0.7 + 0.15
        unit = (_MISSING - 1.0) / len(texts)
        points = np.where(codes >= 0, np.rint((codes + beside) * unit), _MISSING).astype("<u2")
        return cls(name, tuple((float(np.rint((k + 0.5) * unit)), text) for k, text in enumerate(texts)), points)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the page."""
        points = base64.b64encode(self.points.tobytes()).decode("ascii")
        return {"name": self.name, "ticks": [list(tick) for tick in self.ticks], "points": points}


def picture(inner: str, *, width: float, height: float, label: str, attributes: str = "") -> str:
    """Wrap the parts of a chart; a reader who does not see it hears its label."""
    size = f'viewBox="0 0 {_short(width)} {_short(height)}"'
    return f'<svg {size} role="img" aria-label="{escape(label)}"{attributes}>{inner}</svg>'


def column_chart(edges: Array, bars: Array, curve: Array, *, kind: str, label: str, real: Array | None = None) -> str:
    """Draw one column: bars of the synthetic rows, and the smooth curve (places, values, lows, highs) in its band."""
    x = _scaler(edges[0], edges[-1], 2.0, _WIDTH - 2.0)
    places, values, lows, highs = curve
    # A spike must not flatten the curve, nor a wide band its line.
    most = max([*values, *(() if real is None else real)], default=math.inf)
    top = max([*np.minimum(bars, 2.5 * most), *np.minimum(highs, 2.0 * most)]) * 1.04 or 1.0
    y = _scaler(0.0, top, _BOTTOM, 4.0)

    def inside(values: Array) -> Array:
        return np.clip(y(np.maximum(values, 0.0)), 2.0, _BOTTOM)

    parts = [_bars(x(edges), inside(bars))]
    if len(places):
        outline = [*zip(x(places), inside(highs), strict=True), *zip(x(places[::-1]), inside(lows[::-1]), strict=True)]
        parts.append(f'<path class="band" fill-opacity="0.75" d="{_path(outline)}Z"/>')
        parts.append(f'<path class="line" d="{_path(zip(x(places), inside(values), strict=True))}"/>')
    if real is not None and len(places):
        parts.append(f'<path class="real-line" d="{_path(zip(x(places), inside(real), strict=True))}"/>')
    parts.append(_axis(x, ticks(edges[0], edges[-1], 4, kind), y=_BOTTOM, high=_WIDTH - 2.0))
    return picture("".join(parts), width=_WIDTH, height=132, label=label)


def _bars(edges: Array, tops: Array) -> str:
    steps = "".join(
        f"M{_short(left)} {_short(_BOTTOM)}V{_short(top)}H{_short(max(right - 0.8, left + 0.5))}V{_short(_BOTTOM)}Z"
        for left, right, top in zip(edges[:-1], edges[1:], tops, strict=True)
    )
    return f'<path class="bars" d="{steps}"/>'


def levels_chart(
    levels: Sequence[tuple[str, float, float, float]], *, label: str, real: Sequence[float] | Array | None = None
) -> str:
    """Draw a bar for each level, (its text, share, low, high), with the interval as a line; true shares for an owner."""
    line, start, end = 19.0, 118.0, _WIDTH - 44.0
    x = _scaler(0.0, max([1e-9, *(share for _, share, _, _ in levels)]), start, end)
    parts = []
    for k, (text, share, low, high) in enumerate(levels):
        y, middle = k * line, _short((k + 0.5) * line)
        parts.append(
            f'<text x="{start - 6:g}" y="{y + 13:g}" font-size="11" text-anchor="end">{escape(cut(text, 18))}</text>'
        )
        parts.append(
            f'<rect class="level" x="{start:g}" y="{y + 4:g}" width="{_short(max(0.5, x(share) - start))}" height="11"/>'
        )
        ends = (_short(float(np.clip(x(value), start, end + 6.0))) for value in (low, high))
        parts.append('<line class="here" x1="{}" x2="{}" y1="{}" y2="{}"/>'.format(*ends, middle, middle))
        parts.append(f'<text x="{_WIDTH:g}" y="{y + 13:g}" font-size="11" text-anchor="end">{100 * share:.2g} %</text>')
        if real is not None:
            at = _short(min(x(float(real[k])), end + 6.0))
            parts.append(f'<line class="real-line" x1="{at}" x2="{at}" y1="{y + 1:g}" y2="{y + line - 1:g}"/>')
    return picture("".join(parts), width=_WIDTH, height=len(levels) * line + 4.0, label=label)


def interval_chart(
    ends: tuple[float, float, float], reach: tuple[float, float], *, label: str, truth: float | None
) -> str:
    """Draw an interval on a line, with the value as a dot; the true value too on an owner's page."""
    value, low, high = ends
    x = _scaler(min(reach[0], low), max(reach[1], high), 8.0, 232.0)
    parts = [
        '<line class="gridline" x1="0" x2="240" y1="11" y2="11"/>',
        f'<rect class="band" x="{_short(x(low))}" y="6" width="{_short(max(1.0, x(high) - x(low)))}" height="10" rx="2"/>',
        f'<circle class="dot" cx="{_short(x(value))}" cy="11" r="5"/>',
    ]
    if truth is not None:
        parts.append(f'<path class="real-dot" d="M{_short(x(truth))} 5l4 6l-4 6l-4-6Z"/>')
    return picture("".join(parts), width=240, height=22, label=label)


def shares_chart(shares: Sequence[float]) -> str:
    """Draw the shares of the budget as one bar."""
    starts = np.concatenate([[0.0], np.cumsum(shares)]) * 720.0
    parts = [
        f'<rect class="share-{k % 4}" x="{_short(start)}" y="4" width="{_short(max(0.0, share * 720.0 - 2.0))}" height="22"/>'
        for k, (start, share) in enumerate(zip(starts, shares, strict=False))
    ]
    words = ", ".join(f"{100 * share:.3g} %" for share in shares)
    label = f"Shares of the budget, in the order of the table: {words}"
    return picture("".join(parts), width=720, height=34, label=label, attributes=' preserveAspectRatio="none"')


def matrix_chart(values: Array, visible: NDArray[np.bool_], names: Sequence[str], *, label: str) -> str:
    """Draw correlations as cells of a square, those that do not stand above their noise in grey.

    The cells of one shade are one path: a hundred columns have ten thousand cells.
    """
    size = len(values)
    cell = 12.0 if size > 24 else 24.0
    margin = 130.0
    found: dict[str, list[str]] = {}
    for i in range(size):
        for j in range(size):
            found.setdefault(_shade(values[i, j], seen=bool(visible[i, j]), own=i == j), []).append(
                f"M{j} {i}h.96v.96h-.96z"
            )
    paths = "".join(f'<path {kind} d="{"".join(cells)}"/>' for kind, cells in sorted(found.items()))
    texts = "".join(
        f'<text x="{margin - 6:g}" y="{(i + 0.5) * cell + 4:g}" font-size="11" text-anchor="end">'
        f"{escape(cut(name, 20))}</text>"
        for i, name in enumerate(names)
    )
    inner = f'{texts}<g transform="translate({margin:g} 0) scale({cell:g})">{paths}</g>'
    width = margin + size * cell
    facts = f' id="matrix" data-margin="{margin:g}" data-width="{_short(width)}"'
    return picture(inner, width=width, height=size * cell, label=label, attributes=facts)


def _shade(value: float, *, seen: bool, own: bool) -> str:
    if own or not seen:
        return 'class="key-own"' if own else 'class="key-muted"'
    opacity = math.ceil(min(1.0, abs(value)) * _SHADES) / _SHADES
    return f'class="{"key" if value >= 0 else "key-negative"}" fill-opacity="{opacity:g}"'


def scatter_chart(first: Axis, second: Axis) -> str:
    """Draw the rows of two columns; the page's script draws other pairs in the same way."""
    # Left of the axis: the name, then ticks as wide as a day.
    left, right, top, bottom = 96.0, 552.0, 10.0, 436.0
    x, y = _scaler(0.0, _MISSING - 1, left, right), _scaler(0.0, _MISSING - 1, bottom, top)
    seen = (first.points < _MISSING) & (second.points < _MISSING)
    places = zip(x(first.points[seen]), y(second.points[seen]), strict=True)
    parts = [
        f'<line class="gridline" x1="{left:g}" x2="{right:g}" y1="{_short(y(at))}" y2="{_short(y(at))}"/>'
        f'<text x="{left - 7:g}" y="{_short(y(at) + 4)}" font-size="12" text-anchor="end">{escape(cut(text, 10))}</text>'
        for at, text in second.ticks
    ]
    parts.append(f'<path class="dots" d="{"".join(f"M{_short(a)} {_short(b)}h0" for a, b in places)}"/>')
    parts.append(_axis(x, first.ticks, y=bottom, high=right, low=left, size=12))
    for name, place in ((first.name, 'x="324" y="476"'), (second.name, 'transform="translate(12 223) rotate(-90)"')):
        parts.append(f'<text class="name" {place} font-size="13" text-anchor="middle">{escape(cut(name))}</text>')
    label = f"Scatter of {first.name} and {second.name} in the synthetic rows"
    return picture("".join(parts), width=560, height=484, label=label)


def ticks(low: float, high: float, count: int, kind: str = "number") -> list[tuple[float, str]]:
    """Return round numbers between two ends with their texts; of dates the ends and the middle."""
    if kind in ("date", "datetime"):
        # Within a day the time tells moments apart.
        part = slice(11, 19) if kind == "datetime" and high - low < DAY else slice(10)
        return [(at, moment_text(at, kind)[part]) for at in (low, low / 2 + high / 2, high)]
    raw = high / count - low / count
    if not raw > 0.0:
        return [(low, f"{low:.4g}")]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((m * power for m in (1.0, 2.0, 2.5, 5.0) if m * power >= raw), 10.0 * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(k * step, _number(k * step)) for k in range(first, last + 1)]


def moment_text(value: float, kind: str) -> str:
    """Write a number of days or seconds since 1970 in ISO 8601."""
    return nearest(value, kind).isoformat()


def cut(name: str, most: int = 42) -> str:
    """Return a name of at most so many letters."""
    return name if len(name) <= most else f"{name[: most - 1]}\u2026"


def _number(value: float) -> str:
    return f"{value:,.10g}" if 1e-4 <= abs(value) < 1e7 or value == 0.0 else f"{value:.4g}".replace("e+", "e")


def _axis(
    x: Callable[..., Any],
    places: Iterable[tuple[float, str]],
    *,
    y: float,
    high: float,
    low: float = 2.0,
    size: int = 11,
) -> str:
    parts = [f'<line class="axis" x1="{low:g}" x2="{high:g}" y1="{y:g}" y2="{y:g}"/>']
    for at, text in places:
        place = float(x(at))
        parts.append(f'<line class="axis" x1="{_short(place)}" x2="{_short(place)}" y1="{y:g}" y2="{y + 4:g}"/>')
        near, where = ("start", low) if place < low + 14 else ("end", high) if place > high - 14 else ("middle", place)
        parts.append(
            f'<text x="{_short(where)}" y="{y + 5 + size:g}" font-size="{size}" text-anchor="{near}">{escape(text)}</text>'
        )
    return "".join(parts)


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_short(x)} {_short(y)}" for x, y in points)


def _scaler(start: float, end: float, low: float, high: float) -> Callable[..., Any]:
    # Halves first: end - start may overflow.
    span = end / 2.0 - start / 2.0 or 1.0
    return lambda value: low + ((np.asarray(value) / 2.0 - start / 2.0) / span) * (high - low)


def _short(value: float) -> str:
    """Write a place on the screen to a tenth of a pixel."""
    return f"{float(value):.1f}".removesuffix(".0")
