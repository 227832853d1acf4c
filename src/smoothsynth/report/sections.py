"""The sections of the page with charts: typical questions, columns and pairs, as escaped HTML.

Whatever comes from a schema is text: escaped where it is written here.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from smoothsynth.report import charts
from smoothsynth.report.columns import CENTRES, MOST_CURVES, Curve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.answer.estimate import Estimate
    from smoothsynth.report.columns import Levels
    from smoothsynth.report.contents import Contents
    from smoothsynth.report.questions import Question

TIMES = "\u00d7"
MINUS = "\u2212"


def table(heads: Iterable[str], lines: Iterable[str], *, label: str, numbers: set[int]) -> str:
    """Write a table that scrolls by itself where it is too wide; columns in `numbers` are set to the right."""
    cells = []
    for k, head in enumerate(heads):
        kind = ' class="number"' if k in numbers else ""
        cells.append(f'<th scope="col"{kind}>{escape(head)}</th>' if head else "<td></td>")
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="Table: {escape(label)}"><table>'
        f"<thead><tr>{''.join(cells)}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def figure(value: float, half: float) -> str:
    """Write a figure to two digits of its half width."""
    if not half > 0 or not math.isfinite(half):
        return f"{value:.4g}"
    decimals, size = max(0, 1 - math.floor(math.log10(half))), max(abs(value), half)
    if decimals <= 6 and size < 1e12:
        return f"{value:,.{decimals}f}".replace("-", MINUS)
    digits = min(12, max(2, math.floor(math.log10(size)) - math.floor(math.log10(half)) + 2))
    return f"{value:.{digits}g}".replace("-", MINUS)


def count(number: int, word: str) -> str:
    """Write a number of things, in the plural unless there is one."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


class Comparison(Protocol):
    """Statistics of the private rows: as secret as the rows themselves."""

    @property
    def curves(self) -> Sequence[NDArray[np.float64]]:
        """Kernel averages of the columns of which curves are drawn."""

    @property
    def shares(self) -> Sequence[NDArray[np.float64]]:
        """Shares of the levels that are drawn."""

    @property
    def missing(self) -> Mapping[str, float]:
        """Shares of missing cells."""

    @property
    def answers(self) -> Sequence[float]:
        """The true answers to the typical questions."""

    @property
    def correlation(self) -> NDArray[np.float64]:
        """The correlations of the private rows."""

    def as_dict(self) -> dict[str, Any]:
        """Return `correlations` (lower half)."""


def questions_intro(contents: Contents, *, owner: bool) -> str:
    """Say what answers and lines mean."""
    percent = f"{100 * contents.questions[0].answer.confidence:g} %" if contents.questions else "95 %"
    text = (
        f"Each answer is the average over the synthetic rows, with an interval that is meant to hold the answer of the "
        f"private rows {percent} of the time. Lines span what the chart of the column shows; shares run from 0 to 1, "
        f"correlations from {MINUS}1 to 1. Give an expression to "
    )
    real = " The last columns show the answer of the private rows." if owner else ""
    return f"{escape(text)}<code>smoothsynth answer</code>.{real}"


def questions(asked: Sequence[Question], comparison: Comparison | None) -> str:
    """List typical questions with their answers and intervals."""
    if not asked:
        return "<p>There is nothing to ask about.</p>"
    heads = ["Question", "Answer", f"{100 * asked[0].answer.confidence:g} % interval", ""]
    lines = []
    for k, q in enumerate(asked):
        found = q.answer
        truth = None if comparison is None else comparison.answers[k]
        label = f"{shown(found, found.value)} within {interval(found)}"
        chart = charts.interval_chart((found.value, found.low, found.high), q.reach, label=label, truth=truth)
        cells = [
            f'<th scope="row"><span class="question">{escape(q.words)}</span><code>{escape(q.expression)}</code></th>',
            f'<td class="number" data-label="Answer">{shown(found, found.value)}</td>',
            f'<td class="number" data-label="Interval">{interval(found)}</td>',
            f'<td class="bar-cell">{chart}</td>',
        ]
        if truth is not None:
            held = found.low <= truth <= found.high
            cells.append(f'<td class="number real" data-label="Private rows">{shown(found, truth)}</td>')
            inside = ("", "inside") if held else (' class="missed"', "outside")
            cells.append('<td{} data-label="In the interval?">{}</td>'.format(*inside))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    if comparison is not None:
        heads += ["Private rows", "In the interval?"]
    return table(heads, lines, label="Typical questions", numbers={1, 2, 4})


def columns_intro(contents: Contents, *, owner: bool) -> str:
    """Say what the charts of columns show."""
    total, shown = len(contents.receipt.schema.names), len(contents.drawn)
    rest = f" {shown:,} of {total:,} columns are shown." if shown < total else ""
    rest += f" Curves are those of the first {MOST_CURVES} columns." if shown > MOST_CURVES else ""
    real = " Dashed: the private rows." if owner else ""
    return (
        "Bars: the synthetic rows. Line: the same, smoothed by a kernel. Band: where the smoothed curve of the private "
        f"rows lies, point by point, 95 % of the time.{real} Each axis shows the range of nearly all synthetic rows. Of "
        f"levels the bar is the share of rows with one, and the line on it its 95 % interval.{rest}"
    )


def columns(contents: Contents, comparison: Comparison | None) -> str:
    """Draw every column."""
    curves = iter(() if comparison is None else comparison.curves)
    shares = iter(() if comparison is None else comparison.shares)
    missing = {} if comparison is None else comparison.missing
    return "".join(
        _figure(contents, one, _curve(contents, one, next(curves, None)), missing)
        if isinstance(one, Curve)
        else _figure(contents, one, _levels(one, next(shares, None)), missing)
        for one in contents.drawn
    )


def _figure(contents: Contents, one: Curve | Levels, chart: str, missing: Mapping[str, float]) -> str:
    column = contents.receipt.schema.columns[one.name]
    description, words = column.description or "", [_caption(one, getattr(column, "unit", None))]
    if one.missing is not None:
        words.append(f"Missing: {100 * one.missing.low:.3g} to {100 * one.missing.high:.3g} %.")
    if one.name in missing:
        words.append(f"Private rows: {100 * missing[one.name]:.3g} % missing.")
    said = f"<p>{escape(description)}</p>" if description else ""
    return (
        f'<figure><h3>{escape(one.name)}</h3>{said}<div class="chart">{chart}</div>'
        f"<figcaption>{escape(' '.join(words))}</figcaption></figure>"
    )


def _caption(one: Curve | Levels, unit: str | None) -> str:
    if not isinstance(one, Curve):
        return f"{one.hidden:,} more levels." if one.hidden else ""
    if one.mean is None:
        return "The mean has no answer."
    lower, upper = (one.mean.shown(bound, 12) for bound in one.shape.column.bounds)
    flat = " They are too far apart for a smooth curve." if one.shape.flat else ""
    within = interval(one.mean) + (f" {unit}" if unit else "")
    return f"Mean {shown(one.mean, one.mean.value)} ({within}). Bounds {lower} to {upper}.{flat}"


def _curve(contents: Contents, one: Curve, real: NDArray[np.float64] | None) -> str:
    """Draw bars as densities, and kernel averages divided by the area of the kernel."""
    shape, area = one.shape, one.shape.width * math.sqrt(math.pi)
    rows = max(1, int(contents.rows.rows * (1.0 - (0.0 if one.missing is None else one.missing.value))))
    bars = shape.counts / (rows * (shape.high - shape.low) / len(shape.counts))
    curve = np.stack([shape.in_units(shape.centres), one.values / area, one.lows / area, one.highs / area])
    label = f"Distribution of {shape.name}: synthetic rows and 95 % band at {CENTRES} places"
    real = None if real is None else real / area
    return charts.column_chart(shape.in_units(shape.edges), bars, curve, kind=shape.column.kind, label=label, real=real)


def _levels(one: Levels, real: NDArray[np.float64] | None) -> str:
    found = [(text, share.value, share.low, share.high) for text, share in one.shares.items()]
    return charts.levels_chart(found, label=f"Shares of the levels of {one.name}", real=real)


def shown(found: Estimate, value: float) -> str:
    """Write a figure to two digits of the half width of an estimate, or as a day."""
    return figure(value, found.half_width) if found.scale == "number" else found.shown(value)


def interval(found: Estimate) -> str:
    """Write the ends of an interval."""
    return f"{shown(found, found.low)} to {shown(found, found.high)}"


def pairs_intro(contents: Contents, *, owner: bool) -> str:
    """Say what the matrix shows, and how many pairs noise hides."""
    found = contents.correlations
    upper = np.triu_indices(len(found.values), 1)
    if not len(upper[0]):
        return "There are no two columns here."
    if not found.measured[upper].any():
        return (
            "No pair of columns was measured in this release, so every cell of the matrix is grey: the scatter shows how "
            "the synthetic rows were made, not how the columns go together in the data."
        )
    grey = int((~found.visible)[upper].sum())
    real = " Above the diagonal: the private rows." if owner else ""
    return (
        f"The matrix shows the correlations of the synthetic rows; {grey:,} of {len(upper[0]):,} pairs do not stand above "
        f"the noise with 95 % confidence and are grey. Of a category the level counts that goes most with the other column. "
        f"Choose a cell, or two columns, to see the rows.{real}"
    )


def pairs(contents: Contents, comparison: Comparison | None) -> str:
    """Draw the rows of the strongest pair, and all correlations."""
    if len(contents.drawn) < 2:
        return ""
    found = contents.correlations
    shown = found.strongest(6)
    names = [one.name for one in contents.drawn]
    visible = [pair for pair in shown if found.visible[pair]]
    buttons = "".join(
        f'<li><button type="button" data-pair="{i} {j}">{escape(names[i])} {TIMES} {escape(names[j])} '
        f"({found.values[i, j]:+.2f})</button></li>".replace("-0.", f"{MINUS}0.")
        for i, j in visible
    )
    strongest = f'<ul class="strongest" aria-label="Strongest pairs">{buttons}</ul>' if visible else ""
    i, j = shown[0]
    keys = [("key", "positive"), ("key-negative", "negative"), ("key-muted", "below the noise, or not measured")]
    legend = "".join(
        f'<li><svg viewBox="0 0 20 12" aria-hidden="true"><rect class="{kind}" width="20" height="12"></rect></svg>'
        f"{word}</li>"
        for kind, word in keys
    )
    halves = "" if comparison is None else " Below the diagonal: synthetic rows; above it: private rows."
    upper = np.triu(np.ones_like(found.visible), 1) & (comparison is not None)
    values = found.values if comparison is None else np.where(upper, comparison.correlation, found.values)
    matrix = charts.matrix_chart(values, found.visible | upper, names, label="Correlation matrix")
    options = "".join(f'<option value="{k}">{escape(name)}</option>' for k, name in enumerate(names))
    return (
        f'<div class="pair-layout"><div><h3>Rows of a pair</h3><div class="pair-choice">'
        f'<div><label for="pair-x">Across</label><select id="pair-x" data-chosen="{i}">{options}</select></div>'
        f'<div><label for="pair-y">Up</label><select id="pair-y" data-chosen="{j}">{options}</select></div></div>{strongest}'
        f'<div id="scatter" class="chart">{charts.scatter_chart(contents.axes[i], contents.axes[j])}</div>'
        '<p class="caption" id="pair-caption"></p></div>'
        f'<div><h3>Correlations</h3><div class="matrix" tabindex="0" role="group" aria-label="Correlations">{matrix}</div>'
        f'<ul class="legend">{legend}</ul><p class="caption" id="matrix-caption">Point at a cell to read it.{halves}</p>'
        "</div></div>"
    )
