"""Show that private bounds and levels follow from released counts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.schema.unresolved import is_open, open_bounds, open_levels
from smoothsynth.verify.check import Check, verdict

if TYPE_CHECKING:
    from smoothsynth.verify.evidence import Evidence


def check_found(evidence: Evidence) -> list[Check]:
    """Find the private bounds and levels again from the noisy counts, and hold them against the schema of the receipt."""
    if evidence.found is None:
        return (
            verdict("found", ["The receipt has bounds that were never found."], "") if is_open(evidence.schema) else []
        )
    again, asked = evidence.found.schema(), evidence.found.asked
    wrong = [name for name in asked.names if again.columns[name] != evidence.schema.columns.get(name)]
    problems = [f"Column {name!r:.80} is not described as follows from the counts." for name in wrong]
    if not problems and again != evidence.schema:
        problems.append("The schema of the receipt is not the one that follows from the counts.")
    many = f"bounds of {len(open_bounds(asked))} columns and levels of {len(open_levels(asked))}"
    return verdict("found", problems, f"Private facts ({many}) follow, to the bit, from the noisy counts.")
