"""The accuracy figures as one self-contained page: the ratios, and for each data set a plot for each measure.

A plot has a line for each method and a logarithmic axis of the error; a mark is the mean of the rounds, its bar their
least and largest figure. No script, light and dark, from a phone to a wide screen.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from benchmarks.accuracy.paper_summary import MEASURES, OURS, PAPER, at_budget, budgets, paper_ratios, peer_ratios

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.accuracy.paper_summary import Facts, Line

WIDTH, LEFT, RIGHT, TOP, ROW, FOOT = 360, 148, 10, 4, 20, 24
MOST_LABEL = 25
STEPS = 3


class Axis:
    """A logarithmic axis over all figures of a measure on one data set, so that its plots can be compared."""

    def __init__(self, values: Iterable[float]) -> None:
        positive = [v for v in values if v > 0 and math.isfinite(v)] or [0.1, 1.0]
        low, high = math.log10(min(positive)), math.log10(max(positive))
        margin = max(0.04 * (high - low), 0.05)
        self.low, self.high = low - margin, high + margin

    def place(self, value: float) -> float:
        """Return the horizontal place of a positive figure."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def ticks(self) -> list[float]:
        """Return the powers of ten in sight, with 2 and 5 times them where there are few."""
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        wide = self.high - self.low > 1.7
        marks = [m * 10.0**k for k in powers for m in ((1,) if wide else (1, 2, 5))]
        return [mark for mark in marks if self.low <= math.log10(mark) <= self.high]


def as_page(lines: Sequence[Line], known: Sequence[Facts], *, note: str) -> str:
    """Return the page."""
    epsilons = sorted({line.epsilon for line in lines if line.epsilon is not None})
    sections = "\n".join(_section(lines, fact, epsilons) for fact in known)
    links = " ".join(f'<a href="#{fact.name}">{html.escape(fact.label)}</a>' for fact in known)
    summaries = paper_ratios(lines, known).as_html() + peer_ratios(lines, known).as_html()
    parts = {"note": html.escape(note), "links": links, "summaries": summaries, "sections": sections}
    page = _PAGE
    for name, part in {**parts, "legend": _legend(epsilons)}.items():
        page = page.replace("{{" + name + "}}", part)
    return page


def _section(lines: Sequence[Line], fact: Facts, epsilons: Sequence[float]) -> str:
    """Return the plots of one data set, one group for each delta; all groups have the same axes."""
    deltas = sorted({delta for _, delta in budgets(lines, fact)})
    groups = {delta: _group(lines, fact, delta, epsilons) for delta in deltas}
    axes = {name: _axis(name, (line for group in groups.values() for line in group)) for name in MEASURES}
    target = f" R² of a model of {fact.target} trained on real rows: {fact.real:.3f}." if fact.target else ""
    shown = "".join(
        f"<details{' open' if delta == deltas[0] else ''}><summary>δ = {delta:g}</summary>"
        f'<div class="plots">{"".join(_plot(name, groups[delta], axes[name], epsilons) for name in MEASURES)}</div>'
        f"{_figures(lines, fact, delta)}</details>"
        for delta in deltas
    )
    return (
        f'<section id="{fact.name}"><h2>{html.escape(fact.label)}</h2>'
        f"<p>{fact.rows:,} rows, {fact.columns} columns.{html.escape(target)}</p>{shown}</section>"
    )


def _group(lines: Sequence[Line], fact: Facts, delta: float, epsilons: Sequence[float]) -> list[Line]:
    """Return every line to be drawn for one delta; what needs no budget once."""
    found: dict[tuple[str, float | None], Line] = {}
    for epsilon in epsilons:
        for line in at_budget(lines, fact, epsilon=epsilon, delta=delta):
            found[line.method, line.epsilon] = line
    return sorted((line for line in found.values() if line.mean), key=_rank)


def _rank(line: Line) -> int:
    """Put the paper first, then ours, then what has a budget, then what needs none."""
    return 0 if line.method.startswith(PAPER) else 1 if line.method == OURS else 2 if line.epsilon is not None else 3


def _error(name: str, figures: dict[str, float]) -> float:
    """Return a figure as an error, smaller is better: an R^2 becomes 1 - R^2."""
    value = figures.get(name, math.nan)
    return 1 - value if name == "tstr" else value


def _axis(name: str, lines: Iterable[Line]) -> Axis:
    return Axis(_error(name, figures) for line in lines for figures in (line.least, line.largest))


def _plot(name: str, lines: Sequence[Line], axis: Axis, epsilons: Sequence[float]) -> str:
    shown = [line for line in lines if math.isfinite(_error(name, line.mean)) and _error(name, line.mean) > 0]
    methods = list(dict.fromkeys(line.method for line in shown))
    bottom = TOP + ROW * len(methods)
    parts = [
        f'<path class="grid" d="M{axis.place(t):.1f} {TOP}V{bottom}"/>'
        f'<text class="tick" x="{axis.place(t):.1f}" y="{bottom + 15}">{t:g}</text>'
        for t in axis.ticks()
    ]
    for number, method in enumerate(methods):
        middle = TOP + ROW * (number + 0.5)
        if method == OURS:
            parts.append(f'<rect class="band" x="0" y="{middle - ROW / 2}" width="{WIDTH}" height="{ROW}"/>')
        kind = "ours" if method == OURS else "open" if "not private" in method else ""
        parts.append(f'<text class="name {kind}" x="{LEFT - 8}" y="{middle + 4}">{html.escape(_label(method))}</text>')
        parts += [_mark(name, line, axis, epsilons, middle) for line in shown if line.method == method]
    title = html.escape(MEASURES[name])
    return (
        f'<figure><figcaption>{title}</figcaption><svg viewBox="0 0 {WIDTH} {bottom + FOOT}" role="img" '
        f'aria-label="{title}, by method">{"".join(parts)}</svg></figure>'
    )


def _label(method: str) -> str:
    short = method.replace(" (not private)", "").replace("paper, as printed, on", "paper,")
    return short if len(short) <= MOST_LABEL else short[: MOST_LABEL - 1] + "…"


def _mark(name: str, line: Line, axis: Axis, epsilons: Sequence[float], middle: float) -> str:
    """Draw the mean of the rounds and their range, a little above or below the middle by epsilon."""
    step, offset = _step(line.epsilon, epsilons)
    y, x = middle + offset, axis.place(_error(name, line.mean))
    ends = sorted(e for e in (_error(name, line.least), _error(name, line.largest)) if e > 0)
    bar = "".join(f"{'M' if i == 0 else 'L'}{axis.place(end):.1f} {y:.1f}" for i, end in enumerate(ends))
    kind = f"{step} open" if "not private" in line.method else step
    budget = "any budget" if line.epsilon is None else f"ε = {line.epsilon:g}, δ = {line.delta:g}"
    words = html.escape(f"{line.method}, {budget}: {_error(name, line.mean):.3g}")
    return (
        f'<g class="{kind}"><title>{words}</title><path class="bar" d="{bar}"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6"/></g>'
    )


def _step(epsilon: float | None, epsilons: Sequence[float]) -> tuple[str, float]:
    """Return the class and the vertical offset of an epsilon."""
    if epsilon is None or epsilon not in epsilons:
        return "free", 0.0
    place = epsilons.index(epsilon)
    offset = 0.0 if len(epsilons) == 1 else -5 + 10 * place / (len(epsilons) - 1)
    return ("e2" if len(epsilons) == 1 else f"e{min(place, STEPS - 1) + 1}"), offset


def _legend(epsilons: Sequence[float]) -> str:
    marks = [(_step(epsilon, epsilons)[0], f"ε = {epsilon:g}") for epsilon in epsilons]
    marks += [("free", "private, any budget"), ("free open", "not private")]
    return " ".join(
        f'<span><svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true"><g class="{kind}">'
        f'<circle cx="6" cy="6" r="4"/></g></svg> {text}</span>'
        for kind, text in marks
    )


def _figures(lines: Sequence[Line], fact: Facts, delta: float) -> str:
    """Return the means as a table for each epsilon: what the plots show, for who cannot see them."""
    head = "".join(f"<th>{name}</th>" for name in MEASURES)
    tables = []
    for epsilon in sorted(e for e, d in budgets(lines, fact) if d == delta):
        rows = "".join(
            f'<tr class="{"ours" if line.method == OURS else ""}"><th>{html.escape(line.method)}</th>'
            + "".join(f"<td>{_cell(line.mean.get(name))}</td>" for name in MEASURES)
            + f"<td>{html.escape(line.status)}</td></tr>"
            for line in at_budget(lines, fact, epsilon=epsilon, delta=delta)
        )
        tables.append(
            f'<div class="scroll"><table><thead><tr><th>ε = {epsilon:g}</th>{head}<th>ended</th></tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )
    return f"<details><summary>Figures, δ = {delta:g} (tstr: R²)</summary>{''.join(tables)}</details>"


def _cell(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{round(value, 6) + 0.0:.3g}"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Accuracy of smoothsynth</title><style>
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--soft:#5c6570;--line:#d9dde2;--band:#2a78d61c;
--e1:#7fb0ec;--e2:#2a78d6;--e3:#0f3f80;--free:#6b7480}
@media(prefers-color-scheme:dark){:root{--page:#15181c;--ink:#e8eaed;--soft:#a3abb5;--line:#343a42;--band:#5598e72b;
--e1:#2f6dbb;--e2:#6aa8f0;--e3:#cfe2fb;--free:#9aa3ad}}
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:100rem;padding:1rem clamp(.8rem,3vw,2.5rem);
background:var(--page);color:var(--ink)}
h1{font-size:1.5rem;margin:.6rem 0}h2{font-size:1.15rem;margin:2.2rem 0 .4rem}p{max-width:60rem;margin:.4rem 0}
a{color:var(--e2);margin-right:.8rem}summary{cursor:pointer;padding:.4rem 0;font-weight:600}
.legend{position:sticky;top:0;z-index:1;background:var(--page);border-bottom:1px solid var(--line);padding:.4rem 0}
.legend span{margin-right:1.1rem;white-space:nowrap;font-size:.9rem}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,21rem),1fr));gap:1rem 1.5rem}
figure{margin:0;min-width:0}figcaption{font-weight:600;font-size:.9rem}figure svg{display:block;width:100%;height:auto}
text{fill:var(--ink);font:11px system-ui,sans-serif}.name{text-anchor:end}.name.ours{font-weight:700}
.name.open{fill:var(--soft)}.tick{text-anchor:middle;fill:var(--soft)}.grid{stroke:var(--line)}.band{fill:var(--band)}
.bar{stroke-width:1.5;fill:none}.e1{fill:var(--e1);stroke:var(--e1)}.e2{fill:var(--e2);stroke:var(--e2)}
.e3{fill:var(--e3);stroke:var(--e3)}.free{fill:var(--free);stroke:var(--free)}g.open{fill:var(--page);stroke-width:1.5}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.85rem}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,.text th,.text td{text-align:left}
.text td:nth-child(n+3){white-space:normal;min-width:4.5rem}tr.ours{background:var(--band)}
</style></head><body><h1>Accuracy of smoothsynth</h1><p>{{note}}</p>
<p>Every measure is of the same one table, on rows scaled to [-1, 1] by public bounds. Further left is better. A mark is
the mean of the rounds, its bar their least and largest figure. Other private methods draw their noise as their authors
do; the DP histograms and the DP Gaussian here are study code with floating-point noise.</p>
<p>{{links}}</p>{{summaries}}<h2>Plots</h2><div class="legend">{{legend}}</div>{{sections}}</body></html>
"""
