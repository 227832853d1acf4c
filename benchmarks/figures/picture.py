"""Draw the picture of the README from the built-in table: one release, one kind of question, the errors."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

import smoothsynth as ss
from benchmarks.accuracy.metrics import SIGMAS, Judge
from benchmarks.figures.svg import INK, document, text
from smoothsynth.demo import DATA, SCHEMA
from smoothsynth.paper.printed import printed_table

OUTPUT = Path(__file__).parents[2] / "docs" / "images" / "smooth-questions.svg"
COLUMN, WIDTH, ROUNDS = "worst_radius", 3.0, 5
REAL, OURS, PAPER, FLAT = "#8b949e", "#1f883d", "#bf3989", "#bc7b00"


def main() -> None:
    """Release, ask, draw."""
    schema = ss.Schema.load(SCHEMA)
    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        rows = np.loadtxt(file, delimiter=",", skiprows=1)
    real = schema.to_unit({name: rows[:, i] for i, name in enumerate(schema.names)})
    judge = Judge(real, queries=10_000, seed=0)
    released = [ss.release(DATA, schema=schema, epsilon=1.0, seed=i) for i in range(ROUNDS)]
    ours = [judge(r.unit_rows()).relative for r in released]
    mean = {s: float(np.mean([o[s] for o in ours])) for s in SIGMAS}
    flat = judge(np.random.default_rng(0).uniform(-1, 1, real.shape)).relative
    printed = printed_table("ellipsoid", delta=0.0).results["WDBC"].relative
    column = rows[:, schema.names.index(COLUMN)]
    curves = _curves(column, [r.to_pandas()[COLUMN].to_numpy() for r in released])
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(_svg(curves, {"uniform rows": (flat, FLAT), "the paper, as printed": (printed, PAPER),
                                    "smoothsynth": (mean, OURS)}), encoding="utf-8")  # fmt: skip
    print(f"Wrote {OUTPUT}: worst relative error", {s: round(v, 4) for s, v in mean.items()})


def _curves(column, synthetic):
    centres = np.linspace(0, 40, 81)

    def answer(values):
        return np.exp(-((values[None, :] - centres[:, None]) ** 2) / (2 * WIDTH**2)).mean(axis=1)

    return centres, answer(column), [answer(s) for s in synthetic]


def _line(x, y, colour, width=2.0, opacity=1.0):
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-opacity="{opacity}" '
        'stroke-linejoin="round"/>'
    )


def _svg(curves, errors):
    centres, real, synthetic = curves
    top = max(curve.max() for curve in (real, *synthetic)) * 1.08
    x, y = lambda v: 60 + v / 40 * 360, lambda v: 260 - v / top * 190
    parts = [
        text(60, 30, "One smooth question at every place", size=15, weight=600),
        text(60, 50, f"mean of exp(-({COLUMN} - c)&#178; / 2&#183;{WIDTH:g}&#178;) as c moves"),
        *(_line(x(centres), y(s), OURS, 1.6, 0.55) for s in synthetic),
        _line(x(centres), y(real), REAL, 3.2),
        f'<line x1="60" y1="260" x2="420" y2="260" stroke="{INK}"/>',
        *(text(x(v), 278, f"{v}", anchor="middle", size=12) for v in (0, 10, 20, 30, 40)),
        text(240, 300, f"c ({COLUMN}, public bounds 0 to 40)", anchor="middle", size=12),
        text(296, 92, "569 real rows", colour=REAL, weight=600),
        text(296, 110, f"{ROUNDS} releases, epsilon = 1", colour=OURS, weight=600),
        text(500, 30, "All questions at once", size=15, weight=600),
        text(500, 50, "worst relative error of 10,000 random kernel mixtures"),
    ]
    u, v = lambda s: 560 + (s - 2) / 8 * 300, lambda e: 260 - (np.log10(e) + 2.6) / 3.0 * 190
    for power in (-2, -1, 0):
        height = v(10.0**power)
        parts += [f'<line x1="545" y1="{height:.1f}" x2="870" y2="{height:.1f}" stroke="{INK}" stroke-opacity="0.25"/>',
                  text(538, height + 4, f"{10.0**power:g}", anchor="end", size=12)]  # fmt: skip
    for name, (values, colour) in errors.items():
        heights = [float(v(values[s])) for s in SIGMAS]
        parts += [_line([u(s) for s in SIGMAS], heights, colour, 2.4),
                  *(f'<circle cx="{u(s):.1f}" cy="{h:.1f}" r="3.4" fill="{colour}"/>'
                    for s, h in zip(SIGMAS, heights, strict=True)),
                  text(u(4) - 4, heights[1] + 24, name, anchor="end", colour=colour, weight=600) if colour == OURS
                  else text(u(10), heights[-1] - 10, name, anchor="end", colour=colour, weight=600)]  # fmt: skip
    parts += [*(text(u(s), 278, f"{s}", anchor="middle", size=12) for s in SIGMAS),
              text(u(6), 300, "kernel width (smoother to the right)", anchor="middle", size=12)]  # fmt: skip
    label = "Answers of smooth questions on real and synthetic rows, and worst relative errors by kernel width"
    return document(parts, width=900, height=320, label=label)
