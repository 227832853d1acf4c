"""The texts and tables of the page, section by section, as escaped HTML."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.accounting.charges import exceeding_probability
from smoothsynth.answer.expression import FUNCTIONS
from smoothsynth.report import closing
from smoothsynth.report.owner import NOT_FOR_RELEASE
from smoothsynth.report.tables import MINUS, count, figure, table
from smoothsynth.report.warnings import warnings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.release import Receipt
    from smoothsynth.report.contents import Contents
    from smoothsynth.report.owner import Comparison
    from smoothsynth.report.questions import Question


TIMES = "\u00d7"


def texts(contents: Contents, comparison: Comparison | None) -> dict[str, str]:
    """Return the HTML of every slot of the page that holds words."""
    owner = comparison is not None
    return {
        **_head(contents, owner=owner),
        "ask_hidden": "" if contents.shapes else " hidden",
        "held_note": escape(_held_note(contents)),
        "warnings": warnings(contents),
        "language": escape(_language()),
        "questions_intro": _questions_intro(contents, owner=owner),
        "questions": _questions(contents.questions, comparison),
        "columns_intro": escape(_columns_intro(contents, owner=owner)),
        "pairs_intro": escape(_pairs_intro(contents, owner=owner)),
        "pairs": _pairs(contents, owner=owner),
        "spent_intro": escape(closing.spent_intro(contents)),
        "charges": closing.charges(contents),
        "limits": closing.limits(contents),
        "verify": closing.verify(contents),
        "foot": escape(f"Made by smoothsynth {contents.receipt.version}. This page loads nothing from anywhere."),
    }


def _language() -> str:
    functions = ", ".join(sorted(FUNCTIONS))
    return (
        f"Numbers, + - * / ** and parentheses; {functions}; comparisons, and, or, not, between, "
        "case when … then … else … end. A question with jumps is put between two smooth ones and gets a wider interval."
    )


def _head(contents: Contents, *, owner: bool) -> dict[str, str]:
    receipt = contents.receipt
    epsilon, delta, columns = receipt.budget.epsilon, receipt.budget.delta, len(receipt.schema.names)
    headline = f"A synthetic table of {receipt.synthetic_rows:,} rows and {count(columns, 'column')}"
    unit = "one row" if receipt.rows_per_person == 1 else f"one person ({receipt.rows_per_person} rows)"
    banner = (
        f'<aside class="banner" aria-label="Warning">{NOT_FOR_RELEASE}: this page shows statistics of the private rows. '
        "Keep it where the data is kept.</aside>"
    )
    figures = [
        ("private rows behind it", f"{receipt.rows:,}"),
        (count(columns, "column").split()[1], f"{columns:,}"),
        ("epsilon, the privacy budget", f"{epsilon:g}"),
        ("delta", f"{delta:g}".replace("e-0", "e-")),
        ("numbers released with noise", f"{sum(c.coordinates for c in receipt.charges):,}"),
    ]
    return {
        "title": escape(f"{NOT_FOR_RELEASE} · {headline}" if owner else headline),
        "body_class": ' class="owner"' if owner else "",
        "banner": banner if owner else "",
        "overline": NOT_FOR_RELEASE if owner else "Differentially private release",
        "headline": escape(headline),
        "lead": escape(
            f"Made from {receipt.rows:,} private rows, so that averages of smooth functions come out nearly as they would "
            f"on the private rows, while what anyone can learn about {unit} is bounded."
        ),
        "figures": "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in figures),
        "promise": escape(receipt.promise()),
        "plain_words": escape(_plain_words(receipt, unit)),
    }


def _plain_words(receipt: Receipt, unit: str) -> str:
    epsilon = receipt.budget.epsilon
    times = f"e^{epsilon:g} = {math.exp(epsilon):.3g}" if epsilon < 20 else f"e^{epsilon:g}"
    rarely = exceeding_probability(receipt.charges, epsilon)
    except_for = f", except with a probability of up to about {rarely:.1g}" if rarely else ""
    return (
        f"Exchange {unit} of the private table for any other: everything that could be released is then at most {times} "
        f"times more or less likely than before{except_for}. So whoever reads this page, whatever else they know, can "
        f"become only that much surer about what {unit} says. This holds against every method, now and later."
    )


def _held_note(contents: Contents) -> str:
    held = contents.rows
    if held.whole:
        return ""
    some = f"all {held.rows:,}" if len(held.chosen) == held.rows else f"{len(held.chosen):,} of its {held.rows:,}"
    return (
        f" The table is large: this file holds {some} rows, rounded to 65,536 places "
        "between the bounds of each column. The full answer comes from the command below each answer."
    )


def _questions_intro(contents: Contents, *, owner: bool) -> str:
    percent = f"{100 * contents.questions[0].confidence:g} %" if contents.questions else "95 %"
    text = (
        f"Each answer is the average over the synthetic rows, with an interval that is meant to hold the answer of the "
        f"private rows {percent} of the time. The lines span all that the answer could be by the public bounds. Paste an "
        "expression into the explorer, or give it to "
    )
    real = " The last columns show the answer of the private rows." if owner else ""
    return f"{escape(text)}<code>smoothsynth answer</code>.{real}"


def _questions(asked: Sequence[Question], comparison: Comparison | None) -> str:
    if not asked:
        return "<p>There is no column of numbers without missing cells to ask about.</p>"
    heads = ["Question", "Answer", f"{100 * asked[0].confidence:g} % interval" if asked else "Interval", ""]
    lines = []
    for k, q in enumerate(asked):
        half = (q.high - q.low) / 2
        cells = [
            f'<th scope="row"><span class="question">{escape(q.words)}</span><code>{escape(q.expression)}</code></th>',
            f'<td class="number" data-label="Answer">{figure(q.value, half)}</td>',
            f'<td class="number" data-label="Interval">{figure(q.low, half)} to {figure(q.high, half)}</td>',
            f'<td class="bar-cell" data-question="{k}"></td>',
        ]
        if comparison is not None:
            truth = comparison.answers[k]
            held = q.low <= truth <= q.high
            cells.append(f'<td class="number real" data-label="Private rows">{figure(truth, half)}</td>')
            inside = ("", "inside") if held else (' class="missed"', "outside")
            cells.append('<td{} data-label="In the interval?">{}</td>'.format(*inside))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    if comparison is not None:
        heads += ["Private rows", "In the interval?"]
    return table(heads, lines, label="Typical questions", numbers={1, 2, 4})


def _columns_intro(contents: Contents, *, owner: bool) -> str:
    total, shown = len(contents.receipt.schema.names), len(contents.shapes) + len(contents.others)
    rest = f" {shown:,} of {total:,} columns are shown." if shown < total else ""
    real = " Dashed: the private rows." if owner else ""
    return (
        "Bars: the synthetic rows. Line: the same, smoothed by a kernel. Band: where the smoothed curve of the private "
        f"rows lies, point by point, 95 % of the time.{real} Each axis shows the range of nearly all synthetic rows.{rest}"
    )


def _pairs_intro(contents: Contents, *, owner: bool) -> str:
    found = contents.correlations
    upper = np.triu_indices(len(found.values), 1)
    if not len(upper[0]):
        return "There are no two columns of numbers here."
    if not found.measured[upper].any():
        return (
            "No pair of columns was measured in this release, so every cell of the matrix is grey: the scatter shows how "
            "the synthetic rows were made, not how the columns go together in the data."
        )
    grey = int((~found.visible)[upper].sum())
    real = " Above the diagonal: the private rows." if owner else ""
    return (
        f"The matrix shows the correlations of the synthetic rows; {grey:,} of {len(upper[0]):,} pairs do not stand above "
        f"the noise with 95 % confidence and are grey. Choose a cell, or two columns, to see the rows.{real}"
    )


def _pairs(contents: Contents, *, owner: bool) -> str:
    if len(contents.shapes) < 2:
        return ""
    found = contents.correlations
    shown = found.strongest(6)
    names = [shape.name for shape in contents.shapes]
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
    halves = " Below the diagonal: synthetic rows; above it: private rows." if owner else ""
    return (
        f'<div class="pair-layout"><div><h3>Rows of a pair</h3><div class="pair-choice">'
        f'<div><label for="pair-x">Across</label><select id="pair-x" data-chosen="{i}"></select></div>'
        f'<div><label for="pair-y">Up</label><select id="pair-y" data-chosen="{j}"></select></div></div>{strongest}'
        '<canvas id="scatter" role="img" aria-label="Scatter of the synthetic rows"></canvas>'
        '<p class="caption" id="pair-caption"></p></div>'
        '<div><h3>Correlations</h3><canvas id="matrix" role="img" aria-label="Correlation matrix"></canvas>'
        f'<ul class="legend">{legend}</ul><p class="caption" id="matrix-caption">Point at a cell to read it.{halves}</p>'
        "</div></div>"
    )
