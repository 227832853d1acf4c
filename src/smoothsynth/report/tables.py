"""Tables and figures of the page, as escaped HTML."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

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
