"""How much likelier a release is on one public table than on a neighbour: the best statistic there is.

An audit knows both tables, so it knows the sums without noise, and the law of the noise is public. By Neyman and
Pearson no event tells the tables apart better than {loss >= t}. Whether the mechanism has that law is not assumed:
the loss only names events, and the events are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.methods.paper import NoisySubspace, orthonormal
from smoothsynth.queries.measurement import FULL_WEIGHT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.accounting.charges import Charge
    from smoothsynth.pipeline.release import Release
    from smoothsynth.queries.measurement import Measurement

    Array = NDArray[np.float64]


def sums(measurement: Measurement, points: Array) -> Array:
    """Return the whole numbers before noise, up to less than 1, for the unit rows of a public table."""
    return np.asarray(measurement.evaluate(points).sum(axis=0) * np.array(measurement.weights, dtype=np.float64))


def losses(released: Array, here: Array, there: Array, *, charge: Charge) -> Array:
    """Return log P(release | here) - log P(release | there) for each line of released numbers.

    cube:       (|y - c'|_inf - |y - c|_inf) / scale
    laplace:    (|y - c'|_1 - |y - c|_1) / scale
    ball:       (|y - c'|_2 - |y - c|_2) / scale
    gaussian:   (|y - c'|_2^2 - |y - c|_2^2) / (2 scale^2)
    """
    near, far = np.abs(released - here), np.abs(released - there)
    if charge.norm == "linf":
        return np.asarray((far.max(axis=-1) - near.max(axis=-1)) / charge.scale)
    if charge.norm == "l1":
        return np.asarray((far - near).sum(axis=-1) / charge.scale)
    # far^2 - near^2, without squares that would swallow the difference.
    squares = ((there - here) * (here + there - 2.0 * released)).sum(axis=-1)
    if charge.mechanism == "ball":
        lengths = np.linalg.norm(near, axis=-1) + np.linalg.norm(far, axis=-1)
        return np.asarray(squares / np.maximum(lengths, 1e-300) / charge.scale)
    return np.asarray(squares / (2.0 * charge.scale**2))


def distance(here: Array, there: Array, *, charge: Charge) -> float:
    """Return how far two neighbours are apart in units of the noise: the loss that no event can exceed.

    For Gaussian noise this is mu, the distance in deviations.
    """
    order = {"linf": np.inf, "l1": 1, "l2": 2}[charge.norm]
    return float(np.linalg.norm(there - here, order)) / charge.scale


def product(directions: Array, points: Array) -> Array:
    """Return n 2^16 A X of a public table, as one line: what subspace iteration releases, before noise."""
    centred = points - points.mean(axis=0)
    return np.asarray((centred.T @ (centred @ directions) * FULL_WEIGHT).ravel())


def subspace_loss(released: NoisySubspace, here: Array, there: Array) -> float:
    """Add up the losses of the products; the directions of each are those that the ones before it released."""
    directions, total = orthonormal(released.start), 0.0
    for done, numbers in enumerate(released.products, start=1):
        pair = product(directions, here), product(directions, there)
        total += float(losses(np.array(numbers, dtype=np.float64), *pair, charge=released.measurement.charge()))
        so_far = NoisySubspace(released.measurement, released.rows, released.start, released.products[:done])
        directions = orthonormal(so_far.last_product())
    return total


def release_loss(release: Release, here: Array, there: Array) -> float:
    """Add up the losses of everything that a release measured."""
    total = 0.0
    for noisy in release.moments:
        pair = sums(noisy.measurement, here), sums(noisy.measurement, there)
        numbers = np.array(noisy.integers, dtype=np.float64)
        total += float(losses(numbers, *pair, charge=noisy.measurement.charge()))
    return total if release.subspace is None else total + subspace_loss(release.subspace, here, there)


def release_reach(release: Release, here: Array, there: Array) -> float | None:
    """Return the most that the pure measurements of a release can lose together; None if others took part."""
    charges = [noisy.measurement.charge() for noisy in release.moments]
    if release.subspace is not None or any(charge.epsilon is None for charge in charges):
        return None
    if any(noisy.measurement.view is not None for noisy in release.moments):
        # A view is made of what was released before: it is another one at each trial.
        return None
    pairs = [(sums(noisy.measurement, here), sums(noisy.measurement, there)) for noisy in release.moments]
    return sum(distance(*pair, charge=charge) for pair, charge in zip(pairs, charges, strict=True))
