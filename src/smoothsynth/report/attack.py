"""The owner's reports: of attacks on a release, as tables for a terminal and as a page, and of a check of the cells."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from smoothsynth.pipeline import check
from smoothsynth.pipeline.attack import CURVE_HEADS, HEADS, MARK
from smoothsynth.report.page import asset, source_hash
from smoothsynth.report.sections import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from smoothsynth.pipeline.attack import AttackReport
    from smoothsynth.pipeline.check import CheckReport


def as_terminal_tables(report: AttackReport) -> list[RenderableType]:
    """Return the mark, the tables and the sentences for a terminal."""
    shown: list[RenderableType] = [MARK, "", _terminal_table(HEADS, report.lines())]
    if report.curves():
        shown.append(_terminal_table(CURVE_HEADS, report.curves()))
    return [*shown, report.in_words()]


def as_check_tables(report: CheckReport) -> list[RenderableType]:
    """Return the mark, the shares of cells, what there is to say of each column, and a summary, for a terminal."""
    return [MARK, _terminal_table(check.HEADS, report.lines()), *report.remarks(), "", report.in_words()]


def _terminal_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> RenderableType:
    from rich import box
    from rich.table import Table

    drawn = Table(header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, head in enumerate(heads):
        drawn.add_column(head, justify="right" if 0 < place < 7 else "left", no_wrap=not head)
    for line in lines:
        drawn.add_row(*line)
    return drawn


def attack_page(report: AttackReport) -> str:
    """Return the report as one page without scripts, marked as private at its top and in its title."""
    style = asset("page.css")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{source_hash(style)}'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="robots" content="noindex">\n'
        f"<title>PRIVATE: attacks on a release</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<main class="frame"><section><div class="warning" role="note"><p><strong>{MARK}</strong></p></div>\n'
        f'<h1>Attacks on a release</h1>\n<p class="lead">{escape(report.in_words())}</p>\n'
        f"{_page_table(HEADS, report.lines(), 'Attacks')}\n"
        f"{_page_table(CURVE_HEADS, report.curves(), 'Membership')}\n"
        "<p>docs/how-to/attack-a-release.md says how each figure is found.</p></section></main>\n</body>\n</html>\n"
    )


def _page_table(heads: Sequence[str], lines: Sequence[Sequence[str]], label: str) -> str:
    if not lines:
        return ""
    rows = []
    for name, *cells in lines:
        inside = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{inside}</tr>')
    return table(heads, rows, label=label, numbers=set(range(1, len(heads))))
