"""Hold the released moments against what is possible, and against the synthetic rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.moments import FULL_WEIGHT
from smoothsynth.verify.check import Check, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from smoothsynth.moments import NoisyMoments
    from smoothsynth.verify.evidence import Evidence

# P(noise beyond 40 deviations) is below e^-50 for every mechanism.
_FAR = 40.0
# What a fit may leave, in half ranges of a feature.
FIT_ALLOWANCE = 0.05
_BLOCK = 4096


def check_range(evidence: Evidence) -> list[Check]:
    """Hold every released whole number against  |Z| <= n w + 40 deviations of its noise."""
    problems, count = [], 0
    counted = () if evidence.found is None else evidence.found.rounds
    for i, noisy in enumerate((*counted, *evidence.moments), start=1):
        noise = _FAR * noisy.measurement.charge().deviation
        most = [noisy.rows * weight + noise for weight in noisy.measurement.weights]
        beyond = _beyond(noisy.integers, most)
        count += len(noisy.integers)
        if beyond:
            problems.append(f"{beyond:,} sums of measurement {i} are beyond what rows and noise can reach.")
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


def check_rows_against_moments(evidence: Evidence) -> list[Check]:
    """Compare the moments of the rows with the released ones, in units of what explains a difference.

        (mean over rows of f - released value) / sqrt(noise^2 + variance of f / rows + 0.05^2)

    The last term is what a fit may leave. A root mean square above 2 + 6/sqrt(R) in a measurement of R moments is a
    warning (noise alone passes that less than once in 10^4 times): rows may serve badly, or be others, but no promise of
    privacy is broken by that.
    """
    unit = evidence.schema.to_unit({name: evidence.table[name] for name in evidence.schema.names})
    gaps = [_gaps(noisy, unit) for noisy in evidence.moments]
    sizes = [float(np.sqrt(np.mean(gap**2))) for gap in gaps]
    strange = [i for i, size in enumerate(sizes) if not size <= 2.0 + 6.0 / math.sqrt(len(gaps[i]))]
    worst = max(float(np.abs(gap).max()) for gap in gaps)
    shown = ", ".join(f"{size:.2f}" for size in sizes[:8]) + " ..." * (len(sizes) > 8)
    words = f"root mean square {shown} for each measurement, largest {worst:.1f}."
    if strange:
        begin = f"The rows differ from measurement {strange[0] + 1} by more than noise and fit explain"
        return [Check("moments", "warning", f"{begin}: {words}")]
    return [Check("moments", "passed", f"The rows have the released moments, up to noise and fit: {words}")]


def _gaps(noisy: NoisyMoments, unit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standardised differences; in blocks of rows, since all features of all rows may not fit in memory."""
    total, squares = np.zeros(len(noisy.features)), np.zeros(len(noisy.features))
    for start in range(0, len(unit), _BLOCK):
        seen = noisy.measurement.evaluate(unit[start : start + _BLOCK])
        total += seen.sum(axis=0)
        squares += np.einsum("ij,ij->j", seen, seen)
    mean = total / len(unit)
    sampling = np.maximum(squares / len(unit) - mean**2, 0.0) / len(unit)
    return np.asarray((mean - noisy.values) / np.sqrt(noisy.deviations**2 + sampling + FIT_ALLOWANCE**2))


def _beyond(integers: Iterable[int], most: list[float]) -> int:
    return sum(abs(z) > bound for z, bound in zip(integers, most, strict=True))
