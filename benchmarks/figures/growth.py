"""Draw time and memory of releases as tables grow, as `python -m benchmarks releases --growth --record growth` kept them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.figures.panels import Panel, powers
from benchmarks.figures.svg import document, text
from benchmarks.results import FOLDER, read

OUTPUT = Path(__file__).parents[2] / "docs" / "images" / "growth.svg"
LINES = {"seconds": "#1f883d", "of which passes": "#0969da", "MB": "#bc7b00"}
WIDE, HIGH, TOP = 250, 230, 70


def main() -> None:
    """Read the results and write the figure."""
    path = FOLDER / "growth.json"
    if not path.is_file():
        raise SystemExit(f"There is no {path}: `python -m benchmarks releases --growth --record growth` writes it.")
    OUTPUT.write_text(drawn(read(path)["tables"]), encoding="utf-8")
    print(f"Wrote {OUTPUT}")


def drawn(tables) -> str:
    """Return a panel for each table: seconds, those of the passes, and megabytes, against what grows."""
    parts = [text(60, 24, "Time and memory of a whole release as a table grows", size=15, weight=600)]
    for i, table in enumerate(tables):
        parts += _panel(60 + i * (WIDE + 100), table["title"].split(":")[0], table["head"], table["rows"])
    for i, (name, colour) in enumerate(LINES.items()):
        parts.append(text(60 + 190 * i, TOP + HIGH + 72, name, colour=colour, weight=600))
    label = "Seconds and megabytes of a release against the number of rows, of columns and of levels"
    return document(parts, width=60 + len(tables) * (WIDE + 100), height=TOP + HIGH + 90, label=label)


def _panel(left, title, head, rows):
    found = {name: [float(row[head.index(name)].replace(",", "")) for row in rows] for name in (head[0], *LINES)}
    sizes = found.pop(head[0])
    # Passes of a tenth of a second are not drawn below that.
    found = {name: [max(value, 0.1) for value in values] for name, values in found.items()}
    panel = Panel(left, TOP, WIDE, HIGH, powers(sizes), powers([value for own in found.values() for value in own]))
    yield text(left, 52, title, size=14, weight=600)
    yield from panel.axes(head[0])
    for name, values in found.items():
        # Where nearly all seconds are those of the passes, one number stands beside both lines.
        alone = name != "of which passes" or values[-1] < 0.8 * found["seconds"][-1]
        yield from panel.line(zip(sizes, values, strict=True), LINES[name], beside=f"{values[-1]:.3g}" if alone else "")
