"""Hold the released moments against what is possible, and against the synthetic rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.fit.result import without_remarks
from smoothsynth.loading.reach import DEVIATIONS, check_reach
from smoothsynth.model.contradictions import contradictions, listed, remarks
from smoothsynth.verify.check import Check

if TYPE_CHECKING:
    from smoothsynth.verify.evidence import Evidence


def check_range(evidence: Evidence) -> list[Check]:
    """Hold every released whole number against what rows and noise can reach (smoothsynth.loading.reach)."""
    words = f"{check_reach(evidence.measured):,} released sums are within what rows and {DEVIATIONS:g} deviations can reach."
    return [Check("range", "passed", words)]


def check_earlier(evidence: Evidence) -> list[Check]:
    """Say that sums of an earlier release are in the folder, which this receipt does not charge."""
    if not evidence.earlier:
        return []
    rows, count = evidence.earlier[0].rows, sum(len(noisy.integers) for noisy in evidence.earlier)
    charged = (
        f"The folder holds {count:,} sums of an earlier release of {rows:,} rows, charged in its receipt, not here"
    )
    return [Check("earlier", "note", f"{charged}: whoever is in both spent both. Ask for that receipt.")]


def check_rows_against_moments(evidence: Evidence) -> list[Check]:
    """Name the columns of which the rows contradict what was released (smoothsynth.model.contradictions).

    That is a warning: such rows serve badly, or are others, but no promise of privacy is broken by that.
    """
    unit = evidence.schema.to_unit({name: evidence.table[name] for name in evidence.schema.names})
    outcome, said = evidence.facts["fit"]["outcome"], remarks(evidence.schema, evidence.moments, unit)
    if evidence.stated.receipt.ours and outcome != f"{without_remarks(outcome, evidence.schema.names)} {said}".rstrip():
        return [Check("moments", "failed", "The outcome does not say what rows and moments show of each other.")]
    found = contradictions(evidence.schema, evidence.moments, unit)
    if not found:
        count = sum(len(noisy.features) for noisy in evidence.moments)
        return [Check("moments", "passed", f"The rows contradict none of {count:,} moments, beyond noise and fit.")]
    first = found[0]
    words = f"the {first.what} was released as {first.released:.4g} +- {first.noise:.2g} and is {first.found:.4g} in the rows"
    sentence = (
        f"The rows contradict what was released about {listed(found)}. Of the first, {words} (in units of the cube)."
    )
    return [Check("moments", "warning", sentence)]
