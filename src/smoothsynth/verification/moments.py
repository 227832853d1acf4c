"""What was released, held against what rows and noise can reach.

How far can one person move the sums? Computed again from what was measured, and attacked by a search.

Hold the released moments against what is possible, and against the synthetic rows.

Show that private bounds, levels and codes follow from released counts alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.fit.result import without_remarks
from smoothsynth.model.contradictions import compared, contradictions, listed, remarks
from smoothsynth.model.sampling import generator
from smoothsynth.pipeline.load import DEVIATIONS, check_reach
from smoothsynth.queries.level_histograms import LevelHistograms
from smoothsynth.queries.measurement import check_indicators
from smoothsynth.queries.sensitivity import length_of
from smoothsynth.schema.unresolved import is_open, open_bounds, open_codes, open_levels
from smoothsynth.verification.check import Check, verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import Measurement
    from smoothsynth.schema import Schema
    from smoothsynth.verification.folder import Evidence


# Sensitivities are maxima on grids: another machine may find other last digits.
_NEAR = 1e-6
_POINTS = 120


def check_sensitivities(evidence: Evidence) -> list[Check]:
    """Compute how far one person can move the sums, from features, weights and transformation."""
    problems, measured = _false_indicators(evidence), evidence.measurements
    for i, (charge, m) in enumerate(zip(evidence.facts["charges"], measured, strict=False), start=1):
        if not math.isclose(m.sensitivity, charge["sensitivity"], rel_tol=_NEAR):
            found = f"{charge['sensitivity']:,.10g}; the features and weights give {m.sensitivity:,}"
            problems.append(f"Charge {i} states a sensitivity of {found}.")
    words = f"{len(measured)} sensitivities follow from features, weights, transformations and the rows of a person."
    return verdict("sensitivities", problems, words)


def _false_indicators(evidence: Evidence) -> list[str]:
    """Say which measurements take coordinates for indicators that the schema does not have as such."""
    problems = []
    for i, noisy in enumerate(evidence.moments, start=1):
        try:
            check_indicators(noisy.measurement, evidence.schema)
        except PlanError as error:
            problems.append(f"Measurement {i}: {error}")
    return problems


def check_search(evidence: Evidence) -> list[Check]:
    """Search for two rows that move the sums farther than the computed bound, which would refute it."""
    problems, reached = [], 0.0
    for i, noisy in enumerate(evidence.moments, start=1):
        share = _farthest_move(noisy.measurement, evidence.schema) / noisy.measurement.sensitivity
        reached = max(reached, share)
        if share > 1.0:
            problems.append(
                f"Two rows were found that move the sums of measurement {i} {share:.3g} times as far as they may."
            )
    pairs = f"{_POINTS * (_POINTS - 1) // 2:,} pairs of rows"
    found = f"{pairs} moved the sums by at most {reached:.1%} of the sensitivities."
    if any(noisy.measurement.charge().norm == "nuclear" for noisy in evidence.moments):
        found += " As matrices, the longest move of each row was looked at."
    return verdict("search", problems, found)


def _farthest_move(measurement: Measurement, schema: Schema) -> float:
    """Return the farthest that replacing one row by another moved the weighted sums, over pairs of trial rows.

    Corners of the cube and rows that are dense near its faces, where Chebyshev polynomials differ most.
    """
    if isinstance(measurement.family, LevelHistograms):
        return _farthest_of_levels(measurement, measurement.family, schema)
    draws = generator(0).random((_POINTS, schema.dimensions))
    half = _POINTS // 2
    points = np.cos(np.pi * draws)
    points[:half] = np.where(draws[:half] < 0.5, -1.0, 1.0)
    points[:2] = [[-1.0], [1.0]]
    # Rows have at most one level of a category.
    moved = measurement.evaluate(schema.snap(points)) * np.array(measurement.weights, dtype=np.float64)
    norm = measurement.charge().norm
    if norm == "nuclear":
        # Eigenvalues of all pairs would take minutes at some hundred columns: those of the longest moves of each row do.
        moves = [(moved[:i] - one)[np.argmax(length_of(moved[:i] - one, "l2"))] for i, one in enumerate(moved) if i]
    else:
        moves = [moved[:i] - one for i, one in enumerate(moved) if i]
    farthest = max(float(np.max(length_of(move, norm))) for move in moves)
    return farthest * measurement.rows_per_person


def _farthest_of_levels(measurement: Measurement, family: LevelHistograms, schema: Schema) -> float:
    """Return the same for histograms of levels: trial rows have random levels, one each in every column."""
    draws = generator(0)
    codes: dict[int, NDArray[np.int64]] = {}
    for h in family.histograms:
        places = h.hierarchy(schema).places
        codes.setdefault(h.column, draws.integers(0, len(places[h.tier]), _POINTS))
    nodes = np.stack([h.hierarchy(schema).places[h.tier][codes[h.column]] for h in family.histograms], axis=1)
    changed = (nodes[:, None] != nodes).sum(axis=2).max()
    # A row leaves one node and enters another.
    farthest = length_of(np.full(2 * changed, float(max(measurement.weights))), measurement.charge().norm)
    return float(farthest) * measurement.rows_per_person


def check_range(evidence: Evidence) -> list[Check]:
    """Hold every released whole number against what rows and noise can reach (smoothsynth.pipeline.load)."""
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
    unit = compared(evidence.schema, evidence.table)
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


def check_found(evidence: Evidence) -> list[Check]:
    """Find what was private again from the noisy counts, and hold it against the schema of the receipt."""
    if evidence.found is None:
        return (
            verdict("found", ["The receipt has private facts that were never found."], "")
            if is_open(evidence.schema)
            else []
        )
    again, asked = evidence.found.schema(), evidence.found.asked
    wrong = [name for name in asked.names if again.columns[name] != evidence.schema.columns.get(name)]
    problems = [f"Column {name!r:.80} is not described as follows from the counts." for name in wrong]
    if not problems and again != evidence.schema:
        problems.append("The schema of the receipt is not the one that follows from the counts.")
    many = f"bounds of {len(open_bounds(asked))} columns and levels of {len(open_levels(asked))}"
    if not problems and (said := evidence.found.remarks()):
        return [Check("found", "warning", " ".join(said))]
    if coded := open_codes(asked):
        many += f", codes of {len(coded)} rules"
    return verdict("found", problems, f"Private facts ({many}) follow, to the bit, from the noisy counts.")
