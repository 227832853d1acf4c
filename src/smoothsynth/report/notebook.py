"""Releases and plans in a notebook: a small table and a small plot, as HTML without scripts.

Colours are those of the notebook itself (currentColor), so that it reads on dark and on light; all names are escaped. What
is drawn of a release are its synthetic rows.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.schema import Category, Integer, Number
from smoothsynth.schema.encoding import to_points

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.accounting.charges import Budget
    from smoothsynth.pipeline.plan import Plan
    from smoothsynth.pipeline.release import Release
    from smoothsynth.schema import Column


MOST_COLUMNS = 30
_MOST_ROWS = 100_000
_BARS = 24
_WIDTH, _HEIGHT = 144, 24
_LONGEST = 48
_CELL = "text-align:left;padding:2px 12px 2px 0;vertical-align:middle;white-space:nowrap"


def release_html(release: Release) -> str:
    """Show the promise, what was spent, and the synthetic distribution of each column."""
    receipt, schema = release.receipt, release.schema
    unit = receipt.protects
    head = f"Release: {release.table.num_rows:,} synthetic rows x {len(schema.names)} columns"
    facts = [
        ("promise", f"{_budget(receipt.budget)}, protecting {unit}"),
        (
            "spent",
            f"{_budget(receipt.spent)} in {len(receipt.charges)} measurements of {receipt.rows:,} {receipt.unit}",
        ),
        ("made by", f"method {receipt.method}; smoothsynth {receipt.version}"),
    ]
    shown = list(schema.columns.items())[:MOST_COLUMNS]
    drawn = release.table.slice(0, _MOST_ROWS)
    rows = [
        (_text(name), _text(_domain(column)), _sparkline(name, column, to_points(column, drawn[name])))
        for name, column in shown
    ]
    return _page(
        head, facts, ("column", "public domain", "synthetic rows"), rows, hidden=len(schema.names) - len(shown)
    )


def plan_html(plan: Plan) -> str:
    """Show the cost, and the noise of each group of moments as a bar."""
    from smoothsynth.pipeline.forecast import protected

    unit = protected(plan)
    head = (
        f"Plan: {plan.rows:,} {'rows' if plan.schema.person is None else 'persons'} x {len(plan.schema.names)} columns"
    )
    facts = [
        ("budget", f"{_budget(plan.budget)}, protecting {unit}"),
        ("cost", f"{_budget(plan.cost)} in {len(plan.charges)} measurements"),
        ("then", f"{plan.synthetic_rows:,} synthetic rows, method {plan.method_text}; no data was read"),
    ]
    if plan.discovery is not None:
        facts.append(("first", " ".join(plan.discovery.sentences(plan.rows))))
    described = plan.as_dict()["measurements"]
    shown = described[:MOST_COLUMNS]
    largest = max((one["noise_of_a_moment"] for one in shown), default=0.0)
    rows = [
        (
            _text(one["purpose"], 90),
            f"{one['coordinates']:,}",
            _text(one["mechanism"]),
            f"{one['noise_of_a_moment']:.4f}",
            _bar(one["noise_of_a_moment"], largest),
        )
        for one in shown
    ]
    headings = ("measured", "moments", "mechanism", "largest noise (sd)", "")
    return _page(head, facts, headings, rows, hidden=len(described) - len(shown))


def _page(
    head: str, facts: Iterable[tuple[str, str]], headings: Sequence[str], rows: Iterable[Sequence[str]], *, hidden: int
) -> str:
    lines = "".join(_row((f"<span style='opacity:.65'>{name}</span>", _text(words, 600))) for name, words in facts)
    table = "".join(map(_row, rows))
    more = f"<div style='opacity:.65'>and {hidden:,} more</div>" if hidden else ""
    titles = "".join(f"<th scope='col' style='{_CELL};opacity:.65'>{heading}</th>" for heading in headings)
    style = "border-collapse:collapse;margin:4px 0;font-size:inherit;color:inherit;background:none"
    return (
        "<div style='font-family:sans-serif;font-size:13px;line-height:1.4;color:inherit;overflow-x:auto'>"
        f"<div style='font-weight:600'>{head}</div>"
        f"<table style='{style}'><tbody>{lines}</tbody></table>"
        f"<table style='{style}'><thead><tr style='background:none'>{titles}</tr></thead><tbody>{table}</tbody></table>"
        f"{more}</div>"
    )


def _row(cells: Iterable[str]) -> str:
    # Notebooks stripe the rows of tables and align them to the right; both are taken back.
    return "<tr style='background:none'>" + "".join(f"<td style='{_CELL}'>{cell}</td>" for cell in cells) + "</tr>"


def _text(words: object, longest: int = _LONGEST) -> str:
    text = str(words)
    return escape(text if len(text) <= longest else text[: longest - 1] + "\u2026")


def _budget(budget: Budget) -> str:
    return f"epsilon {budget.epsilon:.6g}" + (f", delta {budget.delta:g}" if budget.delta else "")


def _domain(column: Column) -> str:
    missing = ", may be missing" if column.nullable else ""
    if isinstance(column, Category):
        below = "" if column.hierarchy is None else f"{len(column.levels):,} levels in "
        return f"{below}{column.dimensions} {'nodes' if below else 'levels'}: {', '.join(column.cube.texts)}" + missing
    if column.kind == "boolean":
        return "true or false" + missing
    if isinstance(column, (Number, Integer)):
        return f"{column.kind} {column.lower:,.12g} to {column.upper:,.12g}" + missing
    return f"{column.kind} {column.lower} to {column.upper}" + missing


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
