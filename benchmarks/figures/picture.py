"""Draw the picture of the README from the made-up table of the demo: one question at every place, and group means."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import smoothsynth as ss
from benchmarks.figures.svg import INK, document, text
from smoothsynth.demo.stays import SCHEMA, WARDS, stays

OUTPUT = Path(__file__).parents[2] / "docs" / "images" / "smooth-questions.svg"
EPSILON, DELTA, WIDTH = 1.0, 1e-7, 5.0
REAL, OURS = "#8b949e", "#1f883d"
LEFT, RIGHT, TOP, FOOT = 60, 430, 80, 260


def main() -> None:
    """Release, ask, draw."""
    rows = stays()
    made = ss.release(rows, schema=SCHEMA, epsilon=EPSILON, delta=DELTA, seed=0)
    centres = np.linspace(0, 110, 56)
    ages, costs, wards = (rows[name].to_numpy() for name in ("age", "cost", "ward"))
    truth = np.exp(-(((ages[None, :] - centres[:, None]) / WIDTH) ** 2)).mean(axis=1)
    curve = [made.answer(f"avg(exp(-power((age - {c:g}) / {WIDTH:g}, 2)))") for c in centres]
    means = {ward: costs[wards == ward].mean() for ward in WARDS}
    groups = {ward: made.answer(f"avg(cost where ward = '{ward}')") for ward in WARDS}
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(
        document(
            [*_curve(centres, truth, curve), *_groups(means, groups)],
            width=900,
            height=320,
            label="Answers on real and synthetic rows with their intervals: a kernel along age, and mean cost by ward",
        ),
        encoding="utf-8",
    )
    asked = [*zip(truth, curve, strict=True), *((means[ward], groups[ward]) for ward in WARDS)]
    held = sum(found.low <= real <= found.high for real, found in asked)
    print(f"Wrote {OUTPUT}: {held} of {len(asked)} intervals hold the answer of the real rows.")


def _points(x, y):
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def _curve(centres, truth, found):
    top = 1.3 * max(*(one.high for one in found), *truth)
    x = LEFT + centres / 110 * (RIGHT - LEFT)
    value, low, high = (
        FOOT - np.array([getattr(one, part) for one in found]) / top * (FOOT - TOP) for part in ("value", "low", "high")
    )
    real = FOOT - truth / top * (FOOT - TOP)
    return [
        text(LEFT, 30, "One smooth question at every place", size=15, weight=600),
        text(LEFT, 50, f"mean of exp(-((age - c) / {WIDTH:g})&#178;) as c moves"),
        f'<polygon points="{_points([*x, *x[::-1]], [*low, *high[::-1]])}" fill="{OURS}" fill-opacity="0.22"/>',
        f'<polyline points="{_points(x, real)}" fill="none" stroke="{REAL}" stroke-width="3.4"/>',
        f'<polyline points="{_points(x, value)}" fill="none" stroke="{OURS}" stroke-width="1.6"/>',
        f'<line x1="{LEFT}" y1="{FOOT}" x2="{RIGHT}" y2="{FOOT}" stroke="{INK}"/>',
        *(text(LEFT + v / 110 * (RIGHT - LEFT), 278, f"{v}", anchor="middle", size=12) for v in range(0, 111, 20)),
        text((LEFT + RIGHT) / 2, 300, "c (age in years, public bounds 0 to 110)", anchor="middle", size=12),
        text(LEFT + 10, 84, "20,000 real rows (made up)", colour=REAL, weight=600),
        text(LEFT + 10, 102, "synthetic rows, 95 % interval", colour=OURS, weight=600),
    ]


def _groups(means, found):
    top = 1.08 * max(one.high for one in found.values())
    parts = [
        text(520, 30, "Group means, real beside synthetic", size=15, weight=600),
        text(520, 50, "mean cost of a stay by ward; (epsilon, delta) = (1, 1e-7)"),
    ]
    for place, (ward, one) in enumerate(found.items()):
        y = TOP + 6 + place * 30
        x = [610 + value / top * 260 for value in (one.low, one.high, one.value, means[ward])]
        parts += [
            text(602, y + 4, ward, anchor="end", size=12),
            f'<path d="M{x[0]:.1f} {y}H{x[1]:.1f}" stroke="{OURS}" stroke-width="7" stroke-opacity="0.28"/>',
            f'<circle cx="{x[3]:.1f}" cy="{y}" r="5.5" fill="{REAL}"/>',
            f'<circle cx="{x[2]:.1f}" cy="{y}" r="3" fill="{OURS}"/>',
        ]
    ticks = range(0, int(top), 3_000)
    return [
        *parts,
        f'<line x1="610" y1="{FOOT}" x2="870" y2="{FOOT}" stroke="{INK}"/>',
        *(text(610 + v / top * 260, 278, f"{v:,}", anchor="middle", size=12) for v in ticks),
    ]
