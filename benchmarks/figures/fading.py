"""Draw how fast the error of kernels fades as a table grows, from the results of `python -m benchmarks fading`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from benchmarks.accuracy.fading import ERRORS, RESULTS, curve, read, slope
from benchmarks.accuracy.runs import BOOTSTRAP, OURS
from benchmarks.figures.svg import INK, document, text

OUTPUT = Path(__file__).parents[2] / "docs" / "images" / "fading.svg"
COLOURS = {OURS: "#1f883d", "opendp-mst": "#bc7b00", "opendp-aim": "#bf3989", BOOTSTRAP: "#8b949e"}
DASHES = dict(zip(ERRORS, ("5 4", "none"), strict=True))
BUDGET = (1.0, 1e-6)
WIDE, HIGH, TOP = 250, 230, 70


def main() -> None:
    """Read the results and write the figure."""
    if not RESULTS.is_file():
        raise SystemExit(f"There is no {RESULTS}: `python -m benchmarks fading` writes it.")
    lines = [line for line in read(RESULTS) if (line["epsilon"], line["delta"]) == BUDGET]
    OUTPUT.write_text(drawn(lines), encoding="utf-8")
    print(f"Wrote {OUTPUT}")


def drawn(lines) -> str:
    """Return a panel for each table: error against rows, both in logarithms, a line for each method and kind of kernel."""
    names = list(dict.fromkeys(line["table"] for line in lines))
    found = {line["method"] for line in lines}
    methods = [method for method in COLOURS if method in found]
    limits = [_powers([line["rows"] for line in lines])]
    limits.append(_powers([line[error] for line in lines for error in ERRORS if line[error]]))
    parts = [part for i, name in enumerate(names) for part in _panel(i, name, lines, methods, limits)]
    for i, method in enumerate(methods):
        parts.append(text(60 + 190 * i, TOP + HIGH + 72, method, colour=COLOURS[method], weight=600))
    label = (
        "Mean relative error of kernels on two and three columns against the number of rows, in three made-up tables"
    )
    title = "Error of kernels as the table grows: two columns dashed, three solid; slopes beside"
    words = text(60, 24, title, size=15, weight=600)
    return document([words, *parts], width=60 + len(names) * (WIDE + 80), height=TOP + HIGH + 90, label=label)


def _panel(i, name, lines, methods, limits):
    left, (rows, errors) = 60 + i * (WIDE + 80), limits

    def place(n, e):
        return left + _share(n, rows) * WIDE, TOP + HIGH - _share(e, errors) * HIGH

    yield text(left, 52, name, size=14, weight=600)
    yield from _axes(left, rows, errors)
    for method in methods:
        for error, dash in DASHES.items():
            points = curve(lines, name, method, error)
            if points:
                yield from _line([place(n, e) for n, e in points.items()], slope(points), COLOURS[method], dash)


def _axes(left, rows, errors):
    for power in range(errors[0], errors[1] + 1):
        y = TOP + HIGH - _share(10.0**power, errors) * HIGH
        yield f'<line x1="{left}" y1="{y:.1f}" x2="{left + WIDE}" y2="{y:.1f}" stroke="{INK}" stroke-opacity="0.25"/>'
        yield text(left - 6, y + 4, f"{10.0**power:g}", anchor="end", size=12)
    for power in range(rows[0], rows[1] + 1):
        x = left + _share(10.0**power, rows) * WIDE
        yield text(x, TOP + HIGH + 20, f"{10**power:,}", anchor="middle", size=12)
    yield text(left + WIDE / 2, TOP + HIGH + 40, "rows", anchor="middle", size=12)


def _share(value, powers):
    """Return where a value is between two powers of ten, in logarithms."""
    return (np.log10(value) - powers[0]) / (powers[1] - powers[0])


def _powers(values):
    lowest = math.floor(np.log10(min(values)))
    return lowest, max(math.ceil(np.log10(max(values))), lowest + 1)


def _line(places, steepness, colour, dash):
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.2" stroke-dasharray="{dash}"/>'
    if steepness is not None:
        yield text(places[-1][0] + 4, places[-1][1] + 4, f"{steepness:.2f}", size=11, colour=colour)
