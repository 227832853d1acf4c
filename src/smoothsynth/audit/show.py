"""A report as tables for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from smoothsynth.audit.case import Finding


def as_terminal_table(
    findings: Sequence[Finding],
    *,
    title: str,
    verdicts: tuple[str, str],
    names: tuple[str, str] = ("mechanism", "a row replaced"),
) -> Table:
    """Return one line for each mechanism and pair of tables: claim, reach, the bound of each look, trials.

    `verdicts` are the words for a claim that stands and for one that does not.
    """
    from rich import box
    from rich.table import Table

    looks = tuple(dict.fromkeys(finding.look for finding in findings))
    table = Table(title=title, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(names[0], max_width=52)
    table.add_column(names[1], max_width=40)
    for name in ("claimed", "delta", "reach", *looks, "trials"):
        table.add_column(name, justify="right")
    table.add_column("")
    for lines in _by_case(findings):
        one, bounds = lines[0], {finding.look: f"{finding.bound:.2f}" for finding in lines}
        table.add_row(
            one.mechanism,
            one.pair,
            f"{one.claimed:.2f}",
            f"{one.delta:.0e}" if one.delta else "0",
            "" if one.reach is None else f"{one.reach:.2f}",
            *(bounds.get(look, "") for look in looks),
            f"{one.trials:,}" if one.trials else "none",
            verdicts[any(finding.exceeds for finding in lines)],
        )
    return table


def _by_case(findings: Sequence[Finding]) -> list[list[Finding]]:
    lines: dict[tuple[str, str, float], list[Finding]] = {}
    for finding in findings:
        lines.setdefault((finding.mechanism, finding.pair, finding.delta), []).append(finding)
    return list(lines.values())
