"""Draw which room of the package imports which (docs/images/house.svg), from the sources alone.

Rooms stand in the layers of tests/architecture/test_layers.py. An import that skips a layer passes between the rooms of it.
"""

from __future__ import annotations

from itertools import pairwise

from benchmarks.figures.imports import ROOT, House, read_house
from benchmarks.figures.layered import BOX, LEFT, Item, placed
from benchmarks.figures.svg import INK, document, text

OUTPUT = ROOT / "docs" / "images" / "house.svg"
TOP, HEIGHT, STEP = 26, 46, 96
FAINT, UP, PRIVATE = "#8b949e", "#8250df", "#b3541e"


def main() -> None:
    """Draw it and write it."""
    OUTPUT.write_text(drawn(read_house()), encoding="utf-8")
    print(f"Wrote {OUTPUT}")


def drawn(house: House) -> str:
    """Return the figure."""
    down = house.downward
    edges = [*down, *((b, a) for a, b in house.upward)]  # all from a higher layer to a lower one
    rows, paths = placed(house.layers, edges)
    tops = {item: TOP + (len(rows) - 1 - level) * STEP for level, row in enumerate(rows) for item in row}
    width = max(item.x + item.half for item in tops) + 24
    parts = [*map(_head, (INK, UP)), *(_band(level, tops[row[0]], width) for level, row in enumerate(rows))]
    for number, (edge, points) in enumerate(zip(edges, _points(paths, tops), strict=True)):
        up = number >= len(down)
        parts.append(_arrow(points[::-1] if up else points, up=up, late=up or edge in house.late))
    parts += [_room(item, top, house) for item, top in tops.items() if item.name]
    bottom = TOP + len(rows) * STEP
    label = "The rooms of the package in layers, and which imports which"
    return document([*parts, *_legend(bottom)], width=width, height=bottom + 66, label=label, between="\n")


def _band(level: int, top: int, width: int) -> str:
    band = f'<rect x="8" y="{top - 11}" width="{width - 16}" height="{HEIGHT + 22}" rx="8" fill="#f3f5f7"/>'
    return band + text(26, top + HEIGHT // 2 + 5, f"{level + 1}", anchor="middle", colour=FAINT)


def _room(item: Item, top: int, house: House) -> str:
    modules, lines = house.modules[item.name], house.lines[item.name]
    colour, fill = (PRIVATE, "#fff4ec") if item.name == "private" else (INK, "#fff")
    size = f"{modules} module{'s' * (modules > 1)}, {round(lines, -2 if lines >= 100 else -1):,} lines"
    return (
        f'<rect x="{item.x - BOX // 2}" y="{top}" width="{BOX}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="{colour}"/>'
        + text(item.x, top + 20, item.name, anchor="middle", size=15, weight=600, colour=colour)
        + text(item.x, top + 37, size, anchor="middle", size=11)
    )


def _points(paths: list[list[Item]], tops: dict[Item, int]) -> list[list[tuple[int, int]]]:
    """Return where each arrow leaves its room, passes layers and arrives; ends at a room stand side by side."""
    leaves, arrives = _ports(paths, first=True), _ports(paths, first=False)
    found = []
    for number, path in enumerate(paths):
        between = [(lane.x, y) for lane in path[1:-1] for y in (tops[lane] - 11, tops[lane] + HEIGHT + 11)]
        start, end = (leaves[number], tops[path[0]] + HEIGHT), (arrives[number], tops[path[-1]])
        found.append([start, *between, end])
    return found


def _ports(paths: list[list[Item]], *, first: bool) -> dict[int, int]:
    ends: dict[Item, list[tuple[int, int]]] = {}
    for number, path in enumerate(paths):
        room, towards = (path[0], path[1]) if first else (path[-1], path[-2])
        ends.setdefault(room, []).append((towards.x, number))
    return {
        number: room.x - BOX // 2 + BOX * (2 * place + 1) // (2 * len(joined))
        for room, joined in ends.items()
        for place, (_, number) in enumerate(sorted(joined))
    }


def _arrow(points: list[tuple[int, int]], *, up: bool, late: bool) -> str:
    colour = UP if up else INK
    path = "M {} {}".format(*points[0])
    for (x, y), (u, v) in pairwise(points):
        middle = (y + v) // 2
        path += f" L {u} {v}" if x == u else f" C {x} {middle} {u} {middle} {u} {v}"
    dashes = ' stroke-dasharray="5 4"' if late else ""
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.3"{dashes} marker-end="url(#{colour[1:]})"/>'
    )


def _head(colour: str) -> str:
    return (
        f'<marker id="{colour[1:]}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M 0 0.5 L 8 4 L 0 7.5 z" fill="{colour}"/></marker>'
    )


def _legend(top: int) -> list[str]:
    kinds = [
        (LEFT, "when a module is imported", False, False),
        (LEFT + 245, "inside functions, or for types only", False, True),
        (LEFT + 545, "up: inside functions, to ask and to print", True, True),
    ]
    parts = []
    for x, words, up, late in kinds:
        parts += [_arrow([(x, top + 4), (x + 34, top + 4)], up=up, late=late), text(x + 44, top + 8, words, size=12)]
    rest = "An arrow points at what is imported; one that a chain of others implies is left out."
    private = "private is the only room that holds rows."
    return [*parts, text(LEFT, top + 34, rest, size=12), text(LEFT + 545, top + 34, private, size=12, colour=PRIVATE)]
