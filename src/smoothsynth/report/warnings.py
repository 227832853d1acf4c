"""What a reader must know before using the rows: cells that are no level, and released numbers that the rows contradict."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from smoothsynth.report.tables import figure, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smoothsynth.model.contradictions import Contradiction
    from smoothsynth.report.contents import Contents

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
        f'<tr><th scope="row">{escape(one.about)}</th><td>{escape(one.what)}</td>'
        f'<td class="number">{figure(one.released, one.noise)} ± {one.noise:.2g}</td>'
        f'<td class="number">{figure(one.found, one.noise)}</td></tr>'
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
