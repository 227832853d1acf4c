"""The re-run tables as text and as a page."""

from __future__ import annotations

import html
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsynth.paper.datasets import LABELS
from smoothsynth.paper.printed import SIGMAS
from smoothsynth.paper.printed_tables import printed_table
from smoothsynth.paper.tables import AUTO, BASELINES, CORRECT, DELTAS, KINDS, PRINTED, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

TITLES = {"ellipsoid": "PCA ellipsoid", "hypercube": "hypercube"}
PAPER = "the paper's figure (not private)"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table: a data set, a variant, absolute and relative errors by sigma, seconds, rounds."""

    data: str
    variant: str
    absolute: dict[int, float]
    relative: dict[int, float]
    seconds: float
    rounds: int


@dataclass(frozen=True, slots=True)
class ResultTable:
    """One of the four tables."""

    title: str
    lines: tuple[Line, ...]


def result_tables(results: Sequence[Result]) -> list[ResultTable]:
    """Arrange results as the paper's four tables, with its printed line first for each data set."""
    grouped: dict[tuple[str, str, str, float], list[Result]] = defaultdict(list)
    for result in results:
        grouped[result.data, result.variant, result.kind, result.delta].append(result)
    names = list(dict.fromkeys(result.data for result in results))
    tables = []
    for kind in KINDS:
        for delta in DELTAS:
            lines: list[Line] = []
            for name in names:
                printed = printed_table(kind, delta=delta).results.get(name.split("_")[0].upper())
                if printed is not None:
                    lines.append(Line(name, PAPER, printed.absolute, printed.relative, printed.seconds, 20))
                wanted = [(PRINTED, kind, delta), (CORRECT, kind, delta), (AUTO, "", delta)]
                wanted += [(baseline, "", 0.0) for baseline in BASELINES]
                lines += [_mean(name, v, grouped[name, v, k, d]) for v, k, d in wanted if grouped[name, v, k, d]]
            budget = "epsilon = 1" + (f", delta = {delta:g}" if delta else "")
            tables.append(ResultTable(f"Worst-case error, {TITLES[kind]}, {budget}", tuple(lines)))
    return tables


def _mean(name: str, variant: str, results: list[Result]) -> Line:
    def mean(field: str, sigma: int) -> float:
        values = [float(getattr(result, field)) for result in results if result.sigma == sigma]
        return sum(values) / len(values)

    return Line(
        name,
        variant,
        {sigma: mean("absolute", sigma) for sigma in SIGMAS},
        {sigma: mean("relative", sigma) for sigma in SIGMAS},
        max(mean("seconds", sigma) for sigma in SIGMAS),
        len({result.round for result in results}),
    )


def label(name: str) -> str:
    """Say what a data set is where it is not the paper's own."""
    return LABELS.get(name, name.upper())


def as_terminal_table(table: ResultTable) -> Table:
    """Return one table for the terminal: absolute and relative error in one cell."""
    from rich.table import Table

    shown = Table(title=f"{table.title} (abs / rel)", title_justify="left")
    for heading in ("data", "variant", *(f"sigma {sigma}" for sigma in SIGMAS), "time (s)", "rounds"):
        shown.add_column(heading, justify="left" if heading in ("data", "variant") else "right", no_wrap=True)
    before = ""
    for line in table.lines:
        if before and line.data != before:
            shown.add_section()
        cells = [f"{line.absolute[s]:.4f} / {line.relative[s]:.4f}" for s in SIGMAS]
        shown.add_row(
            label(line.data) if line.data != before else "",
            line.variant,
            *cells,
            f"{line.seconds:.2f}",
            str(line.rounds),
        )
        before = line.data
    return shown


def as_page(tables: Sequence[ResultTable], *, note: str) -> str:
    """Return all tables as one self-contained HTML page."""
    body = "\n".join(_html_table(table) for table in tables)
    return _PAGE.replace("{{note}}", html.escape(note)).replace("{{body}}", body)


def _html_table(table: ResultTable) -> str:
    head = "".join(f"<th>&sigma; = {s}</th>" for s in SIGMAS)
    rows = []
    for line in table.lines:
        cells = "".join(f"<td>{line.relative[s]:.4f}<small>{line.absolute[s]:.4f}</small></td>" for s in SIGMAS)
        kind = "paper" if line.variant == PAPER else "ours" if line.variant == AUTO else "plain"
        rows.append(
            f'<tr class="{kind}"><th>{html.escape(label(line.data))}</th><td class="v">{html.escape(line.variant)}</td>'
            f"{cells}<td>{line.seconds:.2f}</td><td>{line.rounds}</td></tr>"
        )
    return (
        f'<section><h2>{html.escape(table.title)}</h2><div class="scroll"><table><thead><tr><th>data</th>'
        f"<th>variant</th>"
        f"{head}<th>seconds</th><th>rounds</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper's tables, run again</title><style>
:root{color-scheme:light dark;--line:#8884;--ours:#2a7d4f22}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,th:nth-child(2),.v{text-align:left}small{display:block;opacity:.6}
tr.ours{background:var(--ours)}tr.paper td,tr.paper th{border-top:2px solid var(--line)}
</style></head><body><h1>The paper's tables, run again</h1><p>{{note}}</p>
<p>Relative worst-case error over the queries; below it, small, the absolute one.</p>{{body}}</body></html>
"""
