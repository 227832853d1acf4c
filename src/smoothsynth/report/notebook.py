"""Releases and plans in a notebook: a small table and a small plot, as HTML without scripts.

What is drawn of a release are its synthetic rows. The layout is that of `_display.py`.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth._display import escaped, page
from smoothsynth.schema import Category
from smoothsynth.schema.encoding import to_points
from smoothsynth.schema.schema import domain_in_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.pipeline.plan import Plan
    from smoothsynth.pipeline.release import Receipt, Release
    from smoothsynth.schema import Column


MOST_COLUMNS = 30
_MOST_ROWS = 100_000
_BARS = 24
_WIDTH, _HEIGHT = 144, 24
_LONGEST = 48


def release_html(release: Release) -> str:
    """Show the promise, what was spent, and the synthetic distribution of each column."""
    receipt, schema = release.receipt, release.schema
    unit = receipt.protects
    head = f"Release: {release.table.num_rows:,} synthetic rows x {len(schema.names)} columns"
    facts = [
        ("promise", f"{receipt.budget.in_words()}, protecting {unit}"),
        (
            "spent",
            f"{receipt.spent.in_words()} in {len(receipt.charges)} measurements of {receipt.rows:,} {receipt.unit}",
        ),
        ("made by", f"method {receipt.method}; smoothsynth {receipt.version}"),
    ]
    shown = list(schema.columns.items())[:MOST_COLUMNS]
    drawn = release.table.slice(0, _MOST_ROWS)
    rows = [
        (escaped(name), escaped(domain_in_words(column)), _sparkline(name, column, to_points(column, drawn[name])))
        for name, column in shown
    ]
    return page(head, facts, ("column", "public domain", "synthetic rows"), rows, hidden=len(schema.names) - len(shown))


def receipt_html(receipt: Receipt) -> str:
    """Show the promise, and every charge with its purpose and its noise."""
    facts = [
        ("promise", receipt.promise()),
        ("spent", f"{receipt.spent.in_words()} in {len(receipt.charges)} charges"),
        ("made by", f"method {receipt.method}; smoothsynth {receipt.version}"),
        ("fit", receipt.outcome),
    ]
    rows = [(escaped(one.purpose, 90), f"{one.coordinates:,}", escaped(one.mechanism)) for one in receipt.charges]
    head = f"Receipt: {receipt.rows:,} {receipt.unit} x {len(receipt.schema.names)} columns"
    headings = ("measured", "sums", "mechanism")
    return page(head, facts, headings, rows[:MOST_COLUMNS], hidden=max(0, len(rows) - MOST_COLUMNS))


def plan_html(plan: Plan) -> str:
    """Show the cost, and the noise of each group of moments as a bar."""
    from smoothsynth.pipeline.forecast import protected

    unit = protected(plan)
    head = (
        f"Plan: {plan.rows:,} {'rows' if plan.schema.person is None else 'persons'} x {len(plan.schema.names)} columns"
    )
    facts = [
        ("budget", f"{plan.budget.in_words()}, protecting {unit}"),
        ("cost", f"{plan.cost.in_words()} in {len(plan.charges)} measurements"),
        ("then", f"{plan.synthetic_rows:,} synthetic rows, method {plan.method_text}; no data was read"),
    ]
    if plan.discovery is not None:
        facts.append(("first", " ".join(plan.discovery.sentences(plan.rows))))
    described = plan.as_dict()["measurements"]
    shown = described[:MOST_COLUMNS]
    largest = max((one["noise_of_a_moment"] for one in shown), default=0.0)
    rows = [
        (
            escaped(one["purpose"], 90),
            f"{one['coordinates']:,}",
            escaped(one["mechanism"]),
            f"{one['noise_of_a_moment']:.4f}",
            _bar(one["noise_of_a_moment"], largest),
        )
        for one in shown
    ]
    headings = ("measured", "moments", "mechanism", "largest noise (sd)", "")
    return page(head, facts, headings, rows, hidden=len(described) - len(shown))


def _sparkline(name: str, column: Column, points: NDArray[np.float64]) -> str:
    """Draw the shares of levels, or of equal steps of the coordinate, as bars."""
    if isinstance(column, Category):
        shares, words = points.mean(axis=0)[:_BARS], f"{column.dimensions} levels"
    else:
        present = points[points[:, 1] < 0.5, 0] if column.nullable else points[:, 0]
        bars = 2 if column.kind == "boolean" else _BARS
        shares, words = np.histogram(present, bars, (-1.0, 1.0))[0] / max(1, len(points)), "from lower to upper bound"
    label = escape(f"distribution of {name[:_LONGEST]} in the synthetic rows, {words}", quote=True)
    return _svg(_bars(shares), label)


def _bars(shares: NDArray[np.float64]) -> str:
    wide, highest = _WIDTH / len(shares), max(float(shares.max()), 1e-12)
    heights = [max(share / highest * (_HEIGHT - 2), 0.4) for share in shares.tolist()]
    steps = [
        f"M{place * wide:.4g} {_HEIGHT}v-{height:.3g}h{wide - 1:.3g}V{_HEIGHT}z" for place, height in enumerate(heights)
    ]
    return f"<path d='{''.join(steps)}'/>"


def _bar(value: float, largest: float) -> str:
    wide = max(1.0, _WIDTH * value / largest) if largest > 0 else 1.0
    return _svg(f"<rect x='0' y='6' width='{wide:.1f}' height='12'/>", f"largest noise {value:.4f}")


def _svg(shapes: str, label: str) -> str:
    return (
        f"<svg role='img' aria-label='{label}' width='{_WIDTH}' height='{_HEIGHT}' viewBox='0 0 {_WIDTH} {_HEIGHT}' "
        f"fill='currentColor' fill-opacity='.6'>{shapes}</svg>"
    )
