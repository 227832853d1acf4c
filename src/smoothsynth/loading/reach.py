"""How large released sums can be:  |Z| <= n w + 40 deviations of the noise.  Larger ones could carry anything."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smoothsynth.errors import ReleaseError
from smoothsynth.queries.measurement import FULL_WEIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from smoothsynth.discovery.levels import NoisyLevels
    from smoothsynth.loading.documents import Measured
    from smoothsynth.methods.paper import NoisySubspace
    from smoothsynth.queries.measurement import NoisyMoments

    # Sums by the name of what they are, with the most that each can be.
    Reached = tuple[str, Sequence[int], Sequence[float]]

# P(noise beyond 40 deviations) is below e^-50 for every mechanism.
DEVIATIONS = 40.0


def check_reach(measured: Measured) -> int:
    """Refuse sums that rows and noise cannot reach, of an earlier release too; return how many sums there are."""
    total = 0
    for name, sums, most in _reached(measured):
        total += len(sums)
        if beyond := sum(abs(z) > bound for z, bound in zip(sums, most, strict=True)):
            raise ReleaseError(f"Sums must be within what rows and noise can reach; {beyond:,} {name} are not.")
    return total


def _reached(measured: Measured) -> Iterator[Reached]:
    if measured.found is not None:
        yield from (_of_moments(f"of round {i} of the bounds", m) for i, m in enumerate(measured.found.rounds, start=1))
        yield from map(_of_levels, measured.found.levels)
    yield from (_of_moments(f"of measurement {i}", m) for i, m in enumerate(measured.moments, start=1))
    yield from (_of_moments(f"of earlier measurement {i}", m) for i, m in enumerate(measured.earlier, start=1))
    if measured.subspace is not None:
        yield _of_products(measured.subspace)


def _of_moments(name: str, noisy: NoisyMoments) -> Reached:
    noise = DEVIATIONS * noisy.measurement.charge().deviation
    return name, noisy.integers, [noisy.rows * weight + noise for weight in noisy.measurement.weights]


def _of_levels(levels: NoisyLevels) -> Reached:
    most = levels.rows + DEVIATIONS * levels.measurement.charge().deviation
    return "counts of levels", [count for _, count in levels.counts], [most] * len(levels.counts)


def _of_products(subspace: NoisySubspace) -> Reached:
    m = subspace.measurement
    # Entries of a covariance are at most 1, directions have length 1 (up to the lattice).
    longest = 1.01 * subspace.rows * FULL_WEIGHT * math.sqrt(m.dimensions)
    products = [z for product in subspace.products for z in product]
    return "products of the subspace iteration", products, [longest + DEVIATIONS * m.charge().deviation] * len(products)
