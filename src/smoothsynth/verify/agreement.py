"""Hold the released moments against what is possible, and against the synthetic rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smoothsynth.moments import FULL_WEIGHT
from smoothsynth.synthesis.contradictions import contradictions, listed, remarks
from smoothsynth.synthesis.outcomes import without_remarks
from smoothsynth.verify.check import Check, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smoothsynth.verify.evidence import Evidence

# P(noise beyond 40 deviations) is below e^-50 for every mechanism.
_FAR = 40.0


def check_range(evidence: Evidence) -> list[Check]:
    """Hold every released whole number against  |Z| <= n w + 40 deviations of its noise."""
    problems, count = [], 0
    counted = () if evidence.found is None else evidence.found.rounds
    for i, noisy in enumerate((*counted, *evidence.moments, *evidence.earlier), start=1):
        noise = _FAR * noisy.measurement.charge().deviation
        most = [noisy.rows * weight + noise for weight in noisy.measurement.weights]
        beyond = _beyond(noisy.integers, most)
        count += len(noisy.integers)
        if beyond:
            problems.append(f"{beyond:,} sums of measurement {i} are beyond what rows and noise can reach.")
    for levels in () if evidence.found is None else evidence.found.levels:
        noise = _FAR * levels.measurement.charge().deviation
        counts = [number for _, number in levels.counts]
        count += len(counts)
        if beyond := _beyond(counts, [levels.rows + noise] * len(counts)):
            problems.append(f"{beyond:,} counts of levels are beyond what rows and noise can reach.")
    if evidence.subspace is not None:
        m = evidence.subspace.measurement
        # Entries of a covariance are at most 1, directions have length 1 (up to the lattice).
        most_product = (
            1.01 * evidence.subspace.rows * FULL_WEIGHT * math.sqrt(m.dimensions) + _FAR * m.charge().deviation
        )
        products = [z for product in evidence.subspace.products for z in product]
        count += len(products)
        if beyond := _beyond(products, [most_product] * len(products)):
            problems.append(f"{beyond:,} products of the subspace iteration are beyond what rows and noise can reach.")
    return verdict(
        "range", problems, f"{count:,} released sums are within what rows and {_FAR:g} deviations can reach."
    )


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
    """Name the columns of which the rows contradict what was released (smoothsynth.synthesis.contradictions).

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


def _beyond(integers: Iterable[int], most: list[float]) -> int:
    return sum(abs(z) > bound for z, bound in zip(integers, most, strict=True))
