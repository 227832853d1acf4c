"""The page of a release, as HTML.

Tables and figures of the page, as escaped HTML.

The last sections of the page: what was spent, what the release cannot tell, how to cite and verify it.

What the owner of the data may see beside a release: values of the private rows, for a page that is not released.

What a reader must know before using the rows: cells that are no level, and released numbers that the rows contradict.

The texts and tables of the page, section by section, as escaped HTML.

Render the contents as one self-contained page: no network, no fonts, no frames, scripts and styles by their hash.

Whatever comes from a schema is text: escaped where it is written here, and put in as text by the page's own script.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from smoothsynth._runtime import VERSION
from smoothsynth.accounting.charges import exceeding_probability
from smoothsynth.answer.language import FUNCTIONS
from smoothsynth.pipeline.readme import citation, title
from smoothsynth.pipeline.release import as_script_data
from smoothsynth.report import charts, sections
from smoothsynth.report.questions import SCORE_HALF_WIDTH
from smoothsynth.report.sections import count, figure, table
from smoothsynth.schema import Category
from smoothsynth.schema.about import read_about

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smoothsynth.model.contradictions import Contradiction
    from smoothsynth.pipeline.check import CheckReport
    from smoothsynth.pipeline.release import Receipt
    from smoothsynth.report.contents import Contents
    from smoothsynth.report.sections import Comparison
    from smoothsynth.schema.about import About


_COMMANDS = """\
smoothsynth verify out/                     # hashes, schema, receipt, moments against rows
sha256sum synthetic.parquet moments.json    # compare with the figures above
smoothsynth report out/ -o again.html       # draws this page again, byte for byte"""


def spent_intro(contents: Contents) -> str:
    """Say how much was spent in all."""
    receipt = contents.receipt
    spent, budget = receipt.spent, receipt.budget
    delta = f" and delta = {budget.delta:g}" if budget.delta else ""
    together = "Costs of Gaussian noise add up as 1/m²." if any(c.multiplier for c in receipt.charges) else ""
    return (
        f"{count(len(receipt.charges), 'measurement')} of exact sums over the private rows, each released once with noise. "
        f"Together they cost epsilon = {spent.epsilon:.6g} of {budget.epsilon:g}{delta}. {together}"
    ).rstrip()


def charges(contents: Contents) -> str:
    """List the charges: what for, how many numbers, which share, which noise."""
    lines = [
        f'<tr><th scope="row">{escape(c.purpose)}</th><td class="number" data-label="Numbers">{c.numbers:,}</td>'
        f'<td class="number" data-label="Share">{100 * c.share:.3g} %</td>'
        f'<td class="number" data-label="Cost">{escape(c.cost)}</td>'
        f"<td>{escape(c.noise)}<details><summary>In full</summary>"
        f'<p class="words">{escape(c.in_words)}</p></details></td></tr>'
        for c in contents.spending
    ]
    return table(
        ["Measured", "Numbers", "Share", "Cost", "Noise"], lines, label="What was spent on what", numbers={1, 2, 3}
    )


def limits(contents: Contents) -> str:
    """List what the release cannot tell."""
    items = "".join(f"<div><h3>{escape(x.title)}</h3><p>{escape(x.text)}</p></div>" for x in contents.limits)
    return f'<div class="limits">{items}</div>'


def _constraints(texts: Sequence[str]) -> str:
    """List what was known of the rows beforehand, and holds for the synthetic ones."""
    if not texts:
        return ""
    lines = "".join(f"<li><code>{escape(text)}</code></li>" for text in texts)
    return f"<p>Public facts that the rows were made to satisfy:</p><ul>{lines}</ul>"


def verify(contents: Contents) -> str:
    """Say how to cite the release, what its files are and how to check them."""
    receipt = contents.receipt
    lines = [
        f'<tr><th scope="row">{escape(name)}</th><td class="hash">{escape(digest)}</td></tr>'
        for name, digest in sorted(contents.hashes.items())
    ]
    cite = citation(receipt, next(iter(contents.hashes.values()), ""))
    made = (
        f"Method: {receipt.method}. Candidates: {receipt.candidates}. Fit: {receipt.fit}. {receipt.outcome} "
        f"Software: smoothsynth {receipt.version}."
    )
    return (
        f'<div class="columns-of-text"><div><h3>Cite</h3><p>{escape(cite)}</p></div><div><h3>How the rows were made</h3>'
        f"<p>{escape(made)}</p>{_constraints(receipt.schema.constraints)}</div></div><h3>The files of the release</h3>"
        + table(["File", "SHA-256"], lines, label="Hashes of the files", numbers=set())
        + '<h3>Check it yourself</h3><pre tabindex="0" aria-label="Commands that verify the release"><code>'
        f"{escape(_COMMANDS)}</code></pre>"
        "<p>The receipt (receipt.json) lists every charge, and the hash of this page. Whoever holds the folder can check "
        "that the noise fits the charges, that the charges add up to the budget and that the rows fit the moments; "
        "nobody can check, from the release, that the noise was really random.</p>"
    )


NOT_FOR_RELEASE = "NOT FOR RELEASE"


_MOST_LINES = 12


def warnings(contents: Contents) -> str:
    """Return a block for the top of the page, or nothing."""
    blocks = _unmatched(contents.unmatched) + _contradictions(contents.contradictions)
    return f'<div class="warning" role="note" aria-label="Warnings">{blocks}</div>' if blocks else ""


def _unmatched(shares: Mapping[str, float]) -> str:
    return "".join(
        f"<p><strong>About {share:.1%} of the cells of {escape(name[:60])} are no level.</strong> The synthetic rows have a "
        "level in their place, as often as other rows have it. With an <code>other</code> level, or as a nullable column, "
        "those cells would have a place of their own.</p>"
        for name, share in shares.items()
    )


def _contradictions(found: Sequence[Contradiction]) -> str:
    if not found:
        return ""
    lines = [
        f'<tr><th scope="row">{escape(one.about)}</th><td data-label="What">{escape(one.what)}</td>'
        f'<td class="number" data-label="Released">{figure(one.released, one.noise)} ± {one.noise:.2g}</td>'
        f'<td class="number" data-label="In the rows">{figure(one.found, one.noise)}</td></tr>'
        for one in found[:_MOST_LINES]
    ]
    more = f"<p>And {len(found) - _MOST_LINES:,} more.</p>" if len(found) > _MOST_LINES else ""
    return (
        "<p><strong>The rows contradict what was released.</strong> For the columns named here they differ from released "
        "numbers by more than noise and the approximation of the fit explain. Do not use the rows for these; the released "
        "moments are right within their noise. Values are in units of the cube, from -1 to 1.</p>"
        + table(["Columns", "What", "Released", "In the rows"], lines, label="Contradictions", numbers={2, 3})
        + more
    )


def texts(contents: Contents, comparison: Comparison | None, checked: CheckReport | None = None) -> dict[str, str]:
    """Return the HTML of every slot of the page that holds words."""
    owner = comparison is not None
    return {
        **_head(contents, owner=owner),
        "ask_hidden": "" if contents.shapes or contents.stored else " hidden",
        "held_note": escape(_held_note(contents)),
        "warnings": warnings(contents),
        "language": escape(_language()),
        "questions_intro": sections.questions_intro(contents, owner=owner),
        "questions": sections.questions(contents.questions, comparison),
        "columns_intro": escape(sections.columns_intro(contents, owner=owner)),
        "columns": sections.columns(contents, comparison),
        "check": "" if checked is None else _check(checked),
        "stored_hidden": "" if contents.stored else " hidden",
        "stored": "".join(
            f'<option value="{escape(q.expression)}">{escape(q.words)}</option>' for q in contents.stored
        ),
        "shares": charts.shares_chart([charge.share for charge in contents.spending]),
        "pairs_intro": escape(sections.pairs_intro(contents, owner=owner)),
        "pairs": sections.pairs(contents, comparison),
        "spent_intro": escape(spent_intro(contents)),
        "charges": charges(contents),
        "limits": limits(contents),
        "verify": verify(contents),
        "foot": escape(f"Made by smoothsynth {contents.receipt.version}. This page loads nothing from anywhere."),
    }


def _language() -> str:
    # The others of them the script of the page leaves to the command.
    functions = ", ".join(sorted({*FUNCTIONS} - {"corr", "correlation", "median", "quantile"}))
    return (
        f"Numbers, + - * / ** and parentheses; {functions}; comparisons, and, or, not, between, in, "
        "case when … then … else … end; days as '2020-01-31'. A question with jumps is put between two smooth ones and gets "
        "a wider interval. The command also answers corr, median, quantile, where, is null and group by."
    )


def _head(contents: Contents, *, owner: bool) -> dict[str, str]:
    receipt = contents.receipt
    epsilon, delta, columns = receipt.budget.epsilon, receipt.budget.delta, len(receipt.schema.names)
    sized = f"A synthetic table of {receipt.synthetic_rows:,} rows and {count(columns, 'column')}"
    about = read_about(receipt.schema.about)
    headline = title(receipt) if about.title else sized
    unit = "one row" if receipt.rows_per_person == 1 else f"one person ({receipt.rows_per_person} rows)"
    if receipt.schema.person is not None:
        unit = "one person with all rows"
    banner = (
        f'<aside class="banner" aria-label="Warning">{NOT_FOR_RELEASE}: this page shows statistics of the private rows. '
        "Keep it where the data is kept.</aside>"
    )
    figures = [
        (f"private {receipt.unit} behind it", f"{receipt.rows:,}"),
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
        "about": _about(about),
        "lead": escape(
            f"{f'{sized}, made' if about.title else 'Made'} from {receipt.rows:,} private {receipt.unit}, so that averages "
            "of smooth functions come out nearly as they would on the private rows, while what anyone can learn about "
            f"{unit} is bounded."
        ),
        "score": _score(contents),
        "figures": "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in figures),
        "promise": escape(receipt.promise()),
        "plain_words": escape(_plain_words(receipt, unit)),
    }


def _score(contents: Contents) -> str:
    """Say how much of what is smooth the release answers narrowly: one figure to compare releases by."""
    found = contents.score
    if not found.questions:
        return ""
    return (
        f'<p class="score"><strong>{100.0 * found.narrow / found.questions:.0f} %</strong> of {found.questions:,} smooth '
        f"questions have a 95 % interval of at most ± {SCORE_HALF_WIDTH:g}. The questions are averages of functions from 0 "
        "to 1, chosen by one rule for all releases: kernels of one standard deviation at the quartiles of a column, its most "
        "frequent levels, and products of two of these.</p>"
    )


def _about(about: About) -> str:
    """Say what the table is and who publishes it, in the words of the schema."""
    named = {"Owner": about.owner, "Licence": about.licence, "Contact": about.contact, "Published": about.published}
    facts = " · ".join(f"{label}: {escape(text)}" for label, text in named.items() if text)
    address = f'<a href="{escape(about.url)}" rel="noreferrer">{escape(about.url)}</a>' if about.url else ""
    lines = (escape(about.description or ""), " · ".join(filter(None, (facts, address))))
    return "".join(f"<p>{line}</p>" for line in lines if line)


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


def _check(checked: CheckReport) -> str:
    """Show the owner which cells of the private rows were read, and which were not."""
    from smoothsynth.pipeline.check import HEADS

    lines = [
        f'<tr><th scope="row">{escape(name)}</th><td data-label="{HEADS[1]}">{escape(kind)}</td>'
        + "".join(
            f'<td class="number real" data-label="{head}">{escape(share)}</td>'
            for head, share in zip(HEADS[2:], shares, strict=True)
        )
        + "</tr>"
        for name, kind, *shares in checked.lines()
    ]
    shown = table(HEADS, lines, label="How the private cells were read", numbers=set(range(2, len(HEADS))))
    return f'<p class="real">How the private cells were read. {escape(checked.in_words())}</p>\n{shown}\n'


SCRIPTS = (
    "rows.js",
    "algebra.js",
    "language.js",
    "evaluate.js",
    "evidence.js",
    "model_interval.js",
    "worst_case_interval.js",
    "answer.js",
    "charts.js",
    "explorer.js",
    "page.js",
)
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def render(contents: Contents, comparison: Comparison | None = None, checked: CheckReport | None = None) -> str:
    """Return the page; with a comparison and a check it is the owner's variant, marked NOT FOR RELEASE everywhere."""
    style = asset("page.css")
    script = '(() => {\n"use strict";\n' + "\n".join(map(asset, SCRIPTS)) + "\n})();\n"
    slots = {
        **texts(contents, comparison, checked),
        "version": escape(VERSION),
        "style": style,
        "style_hash": source_hash(style),
        "script": script,
        "script_hash": source_hash(script),
        "data": as_script_data(_data(contents, comparison)),
    }
    # One pass: what is put in is never looked at again.
    return _SLOT.sub(lambda slot: slots[slot[1]], asset("page.html"))


def _data(contents: Contents, comparison: Comparison | None) -> dict[str, Any]:
    return {
        "columns": [shape.as_dict() for shape in contents.shapes],
        "axes": [axis.as_dict() for axis in contents.axes],
        "levels": _level_names(contents),
        "rows": contents.rows.as_dict(),
        "correlations": _half(contents.correlations.values),
        "noise": [None if value == float("inf") else value for value in _half(contents.correlations.noise)],
        "stored": [{"expression": q.expression, **q.answer.as_dict()} for q in contents.stored],
        "answering": dict(contents.answering),
        "private": None if comparison is None else comparison.as_dict(),
    }


def _level_names(contents: Contents) -> list[list[str | None]]:
    """Return, for each column beside each other one, the level that its correlation is about."""
    schema = contents.receipt.schema
    if not any(isinstance(column, Category) for column in schema.columns.values()):
        return []
    names = []
    for line in contents.correlations.levels:
        owner = schema.columns[schema.owners[line[0]][0]]
        start = schema.coordinates_of(schema.owners[line[0]][0]).start
        names.append([owner.cube.texts[c - start] if isinstance(owner, Category) else None for c in line.tolist()])
    return names


def _half(matrix: Any) -> list[float]:
    """Return what is below the diagonal of a symmetric matrix, row by row, to five digits."""
    return [float(f"{matrix[i, j]:.5g}") for i in range(len(matrix)) for j in range(i)]


def asset(name: str) -> str:
    """Return the text of a file of the page."""
    return (resources.files("smoothsynth.report") / "page" / name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """Return the hash by which a policy lets a style or script in."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
