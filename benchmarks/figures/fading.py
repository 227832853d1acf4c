"""Draw how fast the error of kernels fades as a table grows, from the results of `python -m benchmarks fading`."""

from __future__ import annotations

from pathlib import Path

from benchmarks.accuracy.fading import ERRORS, RESULTS, curve, read, slope
from benchmarks.accuracy.runs import BOOTSTRAP, OURS
from benchmarks.figures.panels import Panel, powers
from benchmarks.figures.svg import document, text

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
    limits = [powers([line["rows"] for line in lines])]
    limits.append(powers([line[error] for line in lines for error in ERRORS if line[error]]))
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
    panel = Panel(60 + i * (WIDE + 80), TOP, WIDE, HIGH, *limits)
    yield text(panel.left, 52, name, size=14, weight=600)
    yield from panel.axes("rows")
    for method in methods:
        for error, dash in DASHES.items():
            points = curve(lines, name, method, error)
            if points:
                steepness = slope(points)
                words = "" if steepness is None else f"{steepness:.2f}"
                yield from panel.line(points.items(), COLOURS[method], beside=words, dash=dash)
