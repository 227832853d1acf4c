"""Draw the figures of the page on the method from a made-up table and releases of it.

method.svg       rows -> moments -> noise -> model -> rows, with the wall between private and public
noise.svg        one column of releases at three epsilons
coordinates.svg  how a first release bends a crowded column before the next one looks at it
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import smoothsynth as ss
from benchmarks.figures.svg import INK, document, text

FOLDER = Path(__file__).parents[2] / "docs" / "images"
ROWS, SHOWN, RELEASES = 3_000, 350, 4
PRIVATE, PUBLIC, WALL = "#b3541e", "#1f883d", "#8250df"
SCHEMA = ss.Schema({"age": ss.Number(18, 100), "systolic": ss.Number(70, 230), "cost": ss.Number(0, 20_000)})


def main() -> None:
    """Draw all three."""
    table = made_up()
    released = ss.release(table, schema=SCHEMA, epsilon=1.0, delta=1e-6, seed=1)
    noisy = ss.release(table, schema=SCHEMA, epsilon=0.25, delta=1e-6, seed=1)  # else the bars are too short to see
    figures = {"method": method(table, noisy), "noise": noise(table), "coordinates": coordinates(table, released)}
    for name, drawn in figures.items():
        (FOLDER / f"{name}.svg").write_text(drawn, encoding="utf-8")
        print(f"Wrote {FOLDER / name}.svg")


def made_up() -> pa.Table:
    """Return a table that is nobody's: ages, blood pressures that rise with them, costs with a long tail."""
    draw = np.random.default_rng(7)
    age = np.clip(np.where(draw.random(ROWS) < 0.6, draw.normal(66, 11, ROWS), draw.normal(36, 8, ROWS)), 18, 100)
    systolic = np.clip(draw.normal(96 + 0.6 * age, 12), 70, 230)
    return pa.table({"age": age, "systolic": systolic, "cost": np.clip(draw.lognormal(6.2, 0.9, ROWS), 0, 20_000)})


def method(table, released) -> str:
    """Four panels: private rows, noisy moments, the model's marginals, synthetic rows."""
    parts = [
        *_panel(0, "1. Private rows", "each dot is a person"),
        *_dots(0, table, PRIVATE),
        *_panel(1, "2. Moments and noise", "averages over all rows"),
        *_bars(1, table, released),
        *_panel(2, "3. A model", "what the noisy numbers say"),
        *_marginals(2, released),
        *_panel(3, "4. Synthetic rows", "drawn from the model"),
        *_dots(3, released.to_arrow(), PUBLIC),
        *(text(_left(i) - 19, 146, "&#8594;", size=22, anchor="middle") for i in (1, 2, 3)),
        f'<line x1="{_left(1) - 19}" y1="56" x2="{_left(1) - 19}" y2="120" stroke="{WALL}" stroke-width="3"/>',
        f'<line x1="{_left(1) - 19}" y1="158" x2="{_left(1) - 19}" y2="222" stroke="{WALL}" stroke-width="3"/>',
        text(_left(1) - 19, 246, "the wall: only sums with noise pass", colour=WALL, size=12, anchor="middle"),
        text(_left(2) + 90, 246, "everything from here on is public", colour=PUBLIC, size=12, anchor="middle"),
    ]
    return document(
        parts, width=880, height=262, label="From private rows to noisy moments, a model, and synthetic rows"
    )


def noise(table) -> str:
    """Three panels: the density of age, private and in releases at three epsilons."""
    own, parts, curves = _density(table["age"].to_numpy()), [], {}
    for epsilon in (0.03, 0.1, 1.0):
        made = [ss.release(table, schema=SCHEMA, epsilon=epsilon, seed=seed) for seed in range(RELEASES)]
        curves[epsilon] = [_density(release.table["age"].to_numpy()) for release in made]
    top = 1.05 * max(curve.max() for drawn in curves.values() for curve in drawn)
    for i, (epsilon, drawn) in enumerate(curves.items()):
        parts += _panel(i, f"epsilon = {epsilon:g}", f"{ROWS:,} rows, {RELEASES} releases", width=260)
        for curve, colour, width in [*((c, PUBLIC, 1.4) for c in drawn), (own, PRIVATE, 2.4)]:
            parts.append(_line(i, np.linspace(0, 1, len(curve)), curve / top, colour, width, panel=260))
        parts += [text(_left(i, 260) + f * 260, 226, v, size=12, anchor=a)
                  for f, v, a in ((0, "18", "start"), (1, "100", "end"), (0.5, "age", "middle"))]  # fmt: skip
    parts += [text(_left(0, 260), 250, "private rows", colour=PRIVATE, size=12, weight=600),
              text(_left(0, 260) + 100, 250, "synthetic rows", colour=PUBLIC, size=12, weight=600)]  # fmt: skip
    return document(parts, width=924, height=262, label="One column of several releases at three epsilons")


def coordinates(table, released) -> str:
    """Three panels: a crowded column, the bend that was learnt from the first release, the column after it."""
    place = SCHEMA.names.index("cost")
    unit = SCHEMA.to_unit({name: table[name].to_numpy() for name in SCHEMA.names})
    transformation = next(
        m.measurement.transformation for m in released.moments if m.measurement.transformation is not None
    )
    # Features are cosines of ranks: a place x = cos(pi rank) is drawn as its rank.
    ranks = np.arccos(transformation.of(unit)[:, place]) / np.pi
    grid = np.linspace(-1, 1, 400)
    points = np.zeros((400, len(SCHEMA.names)))
    points[:, place] = grid
    curve = np.arccos(transformation.of(points)[:, place]) / np.pi
    parts = [
        *_panel(0, "Before", "cost, 0 to 20,000: crowded at one end", width=260),
        *_histogram(0, unit[:, place], PRIVATE),
        *_panel(1, "The bend", "made of released numbers only", width=260),
        _line(1, (grid + 1) / 2, curve, PUBLIC, 2.4, panel=260),
        *_panel(2, "After", "the same rows, spread out", width=260),
        *_histogram(2, 2 * ranks - 1, PRIVATE),
        *(text(_left(i, 260) + 130, 226, words, size=12, anchor="middle")
          for i, words in enumerate(("cost", "cost &#8594;, rank &#8593;", "rank in the released shape"))),
    ]  # fmt: skip
    return document(parts, width=924, height=240, label="A crowded column before and after it is bent")


def _left(i, width=180):
    return 30 + i * (width + 38)


def _panel(i, title, words, width=180):
    x = _left(i, width)
    return [
        text(x, 24, title, size=15, weight=600),
        text(x, 42, words, size=12),
        f'<rect x="{x}" y="56" width="{width}" height="152" fill="#f6f8fa" stroke="{INK}" stroke-opacity="0.35"/>',
    ]


def _dots(i, table, colour):
    unit = SCHEMA.to_unit({name: table[name].to_numpy() for name in SCHEMA.names})[:SHOWN, :2]
    x, y = _left(i) + (unit[:, 0] + 1) * 90, 208 - (unit[:, 1] + 1) * 76
    marks = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="1.7"/>' for a, b in zip(x, y, strict=True))
    return [f'<g fill="{colour}" fill-opacity="0.6">{marks}</g>',
            text(_left(i) + 90, 226, "age &#8594;, blood pressure &#8593;", size=12, anchor="middle")]  # fmt: skip


def _bars(i, table, released):
    """Draw the first moments: exact ones as lines, released ones as dots with two standard deviations of noise."""
    first = released.moments[0]
    unit = SCHEMA.to_unit({name: table[name].to_numpy() for name in SCHEMA.names})
    exact, values, spread = first.of(unit), first.values, first.deviations
    parts, step = [], 180 / len(values)
    for k in range(len(values)):
        x, y = _left(i) + (k + 0.5) * step, lambda v: 132 - v * 72
        low, high = y(values[k] - 2 * spread[k]), y(values[k] + 2 * spread[k])
        parts += [
            f'<line x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}" stroke="{PUBLIC}" stroke-width="2"/>',
            f'<line x1="{x - 7:.1f}" y1="{y(exact[k]):.1f}" x2="{x + 7:.1f}" y2="{y(exact[k]):.1f}" '
            f'stroke="{PRIVATE}" stroke-width="2.4"/>',
            f'<circle cx="{x:.1f}" cy="{y(values[k]):.1f}" r="3.2" fill="{PUBLIC}"/>',
        ]
    return [*parts, text(_left(i) + 90, 226, "exact (private) &#8212;, released &#8226;", size=12, anchor="middle")]


def _marginals(i, released):
    parts = []
    for k, name in enumerate(("age", "systolic")):
        lower, upper = SCHEMA.columns[name].bounds
        curve = _density(released.to_arrow()[name].to_numpy(), lower, upper)
        x, height = _left(i) + np.linspace(8, 172, len(curve)), curve / curve.max() * 52
        base = 126 + 72 * k
        parts += [_path(x, base - height, PUBLIC, 2), text(_left(i) + 8, base - 48, name, size=11)]
    return [*parts, text(_left(i) + 90, 226, "shapes and how they go together", size=12, anchor="middle")]


def _histogram(i, unit, colour):
    counts, _ = np.histogram(unit, bins=40, range=(-1, 1))
    x, step = _left(i, 260), 260 / 40
    heights = counts / counts.max() * 140
    return [
        f'<rect x="{x + k * step:.1f}" y="{208 - h:.1f}" width="{step - 1:.1f}" height="{h:.1f}" fill="{colour}"/>'
        for k, h in enumerate(heights)
    ]


def _density(values, lower=18.0, upper=100.0):
    """Return a kernel estimate of the density on a grid, with a width of a fortieth of the range."""
    grid, width = np.linspace(lower, upper, 120), (upper - lower) / 40
    kernels = np.exp(-(((grid[:, None] - np.asarray(values)[None, :]) / width) ** 2) / 2)
    return kernels.mean(axis=1) / (width * np.sqrt(2 * np.pi))


def _line(i, x, y, colour, width, *, panel):
    return _path(_left(i, panel) + x * panel, 208 - np.clip(y, 0, 1) * 148, colour, width)


def _path(x, y, colour, width):
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>'
