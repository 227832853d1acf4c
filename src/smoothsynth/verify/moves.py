"""How far can one person move the sums? Computed again from what was measured, and attacked by a search."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.model.sampling import generator
from smoothsynth.queries.measurement import check_marks
from smoothsynth.verify.check import Check, verdict

if TYPE_CHECKING:
    from smoothsynth.queries.measurement import Measurement
    from smoothsynth.schema import Schema
    from smoothsynth.verify.evidence import Evidence

# Sensitivities are maxima on grids: another machine may find other last digits.
_NEAR = 1e-6
_POINTS = 120
_ORDERS = {"linf": np.inf, "l1": 1, "l2": 2}


def check_sensitivities(evidence: Evidence) -> list[Check]:
    """Compute how far one person can move the sums, from features, weights and view."""
    problems, measured = _false_marks(evidence), evidence.measurements
    for i, (charge, m) in enumerate(zip(evidence.facts["charges"], measured, strict=False), start=1):
        if not math.isclose(m.sensitivity, charge["sensitivity"], rel_tol=_NEAR):
            found = f"{charge['sensitivity']:,.10g}; the features and weights give {m.sensitivity:,}"
            problems.append(f"Charge {i} states a sensitivity of {found}.")
    words = f"{len(measured)} sensitivities follow from features, weights, views and the rows of a person."
    return verdict("sensitivities", problems, words)


def _false_marks(evidence: Evidence) -> list[str]:
    """Say which measurements take coordinates for levels or marks that the schema does not have as such."""
    problems = []
    for i, noisy in enumerate(evidence.moments, start=1):
        try:
            check_marks(noisy.measurement, evidence.schema)
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
    return verdict("search", problems, f"{pairs} moved the sums by at most {reached:.1%} of the sensitivities.")


def _farthest_move(measurement: Measurement, schema: Schema) -> float:
    """Return the farthest that replacing one row by another moved the weighted sums, over pairs of trial rows.

    Corners of the cube and rows that are dense near its faces, where Chebyshev polynomials differ most.
    """
    draws = generator(0).random((_POINTS, schema.dimensions))
    half = _POINTS // 2
    points = np.cos(np.pi * draws)
    points[:half] = np.where(draws[:half] < 0.5, -1.0, 1.0)
    points[:2] = [[-1.0], [1.0]]
    # Rows have at most one level of a category.
    moved = measurement.evaluate(schema.snap(points)) * np.array(measurement.weights, dtype=np.float64)
    order = _ORDERS[measurement.charge().norm]
    farthest = max(float(np.linalg.norm(moved - one, ord=order, axis=1).max()) for one in moved)
    return farthest * measurement.rows_per_person
