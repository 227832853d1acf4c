"""The dual of the maximum-entropy fit: a smooth convex function of one multiplier per moment.

F(l) = log sum_k u0_k exp(l.W_k) - l.b + l'S l / 2        gradient  g = W'u - b + S l
u_k(l) ~ u0_k exp(l.W_k)                                  Hessian   W' diag(u) W - m m' + S,   m = W'u

For weights of candidates, W is large. For densities of single coordinates on the cells of a grid there are many small F,
and all are evaluated together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Indices = NDArray[np.intp]


# Small enough for a block and its scaled copy to stay in cache, large enough for the products to run at full speed.
_BLOCK_ENTRIES = 2**18


class Features(Protocol):
    """The matrix W of the candidates' features, known by its products only."""

    def forward(self, multipliers: Array) -> Array:
        """Return W l, one score per candidate."""
        ...

    def adjoint(self, weights: Array) -> Array:
        """Return W'u, one moment per feature."""
        ...

    def gram_times(self, weights: Array, vector: Array) -> Array:
        """Return W' diag(u) W v without forming the product."""
        ...

    def gram_diagonal(self, weights: Array) -> Array:
        """Return the diagonal of W' diag(u) W."""
        ...


class GramFeatures(Features, Protocol):
    """Features that know a way of their own to W' diag(u) W."""

    def gram(self, weights: Array, *, negligible: float) -> Array:
        """Return W' diag(u) W; weights up to `negligible` may be taken as 0."""
        ...


@runtime_checkable
class CandidateFeatures(Features, Protocol):
    """Features of candidates that can be taken one by one."""

    @property
    def shape(self) -> tuple[int, int]:
        """The number of candidates and of features."""
        ...

    @property
    def work(self) -> float:
        """What `gram_times` takes, in multiplications at the speed of a product of matrices."""
        ...

    def only(self, kept: Indices) -> CandidateFeatures:
        """Return the features of some candidates, known in the same way."""
        ...

    def values(self, kept: Indices) -> NDArray[np.floating]:
        """Return the features of some candidates, one row each."""
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """Features listed in a matrix, one row per candidate, read block by block: it is never copied whole."""

    matrix: NDArray[np.floating]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of candidates and of features."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def work(self) -> float:
        """What a product takes: it waits for memory, where a product of matrices multiplies some 16 times."""
        return 16.0 * self.matrix.size

    def only(self, kept: Indices) -> Listed:
        """Return the features of some candidates, copied."""
        return Listed(self.matrix[kept])

    def values(self, kept: Indices) -> NDArray[np.floating]:
        """Return the features of some candidates, one row each."""
        return self.matrix[kept]

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield the rows block by block, in double precision."""
        size = max(256, _BLOCK_ENTRIES // self.matrix.shape[1])
        for first in range(0, len(self.matrix), size):
            part = slice(first, first + size)
            yield part, self.matrix[part].astype(np.float64, copy=False)

    def forward(self, multipliers: Array) -> Array:
        """Return W l."""
        return np.concatenate([np.dot(block, multipliers) for _, block in self.blocks()])

    def adjoint(self, weights: Array) -> Array:
        """Return W'u."""
        total = np.zeros(self.matrix.shape[1])
        for part, block in self.blocks():
            total += np.dot(weights[part], block)
        return total

    def gram_times(self, weights: Array, vector: Array) -> Array:
        """Return W' diag(u) W v in one pass over the matrix."""
        total = np.zeros(self.matrix.shape[1])
        for part, block in self.blocks():
            total += np.dot(weights[part] * np.dot(block, vector), block)
        return total

    def gram_diagonal(self, weights: Array) -> Array:
        """Return sum_k u_k W_kr^2 for every feature r."""
        total = np.zeros(self.matrix.shape[1])
        for part, block in self.blocks():
            total += np.dot(weights[part], block * block)
        return total


def gram_of(
    features: CandidateFeatures, weights: Array, *, negligible: float, tick: Callable[[], object] | None = None
) -> Array:
    """Return W' diag(u) W over the candidates whose weight is not negligible; `tick` is called after every block."""
    moments = features.shape[1]
    total = np.zeros((moments, moments))
    kept = np.flatnonzero(weights > negligible)
    roots = np.sqrt(weights)
    size = max(256, _BLOCK_ENTRIES // moments, moments // 2)
    for first in range(0, len(kept), size):
        part = kept[first : first + size]
        scaled = features.values(part) * roots[part, None]
        total += np.dot(scaled.T, scaled)
        if tick is not None:
            tick()
    return total


def _normalised(logs: Array) -> tuple[Array, Array]:
    """Return exp(logs), scaled to add up to 1 along the last axis, and the log of the sum it had."""
    peak = logs.max(axis=-1, keepdims=True)
    weights = np.exp(logs - peak)
    total = weights.sum(axis=-1, keepdims=True)
    weights /= total
    return weights, (peak + np.log(total))[..., 0]


@dataclass(frozen=True, slots=True)
class Point:
    """A dual point: l, the scores W l, the weights u(l), log sum_k u0_k exp(score_k), W'u, F(l) and its gradient."""

    multipliers: Array
    scores: Array
    weights: Array
    log_sum: float
    moments: Array
    value: float
    gradient: Array


@dataclass(frozen=True, slots=True)
class EntropyDual:
    """F for given features, target b, base measure u0 and noise S: variances (R,) or a covariance (R, R)."""

    features: GramFeatures | CandidateFeatures
    target: Array
    log_base: Array
    noise: Array

    def at(self, multipliers: Array, *, scores: Array | None = None) -> Point:
        """Evaluate F and its gradient at l; `scores` are W l where they are known."""
        scores = self.features.forward(multipliers) if scores is None else scores
        weights, log_sum = self.weigh(scores)
        moments = self.features.adjoint(weights)
        blurred = self.times_noise(multipliers)
        value = log_sum - float(multipliers @ (self.target - blurred / 2))
        return Point(multipliers, scores, weights, log_sum, moments, value, moments - self.target + blurred)

    def weigh(self, scores: Array) -> tuple[Array, float]:
        """Return the weights that belong to the scores, and log sum_k u0_k exp(score_k)."""
        weights, log_sum = _normalised(self.log_base + scores)
        return weights, float(log_sum)

    def times_noise(self, vector: Array) -> Array:
        """Return S v."""
        return self.noise * vector if self.noise.ndim == 1 else np.dot(self.noise, vector)

    def noise_diagonal(self) -> Array:
        """Return the variances of the noise."""
        return self.noise if self.noise.ndim == 1 else np.diagonal(self.noise)

    def negligible(self, *, count: int) -> float:
        """Return a weight so small that `count` such candidates together change no entry of the Hessian visibly.

        For features in [-1, 1] that is beside the noise; for others, at least beside the other candidates.
        """
        return min(1e-3 * float(self.noise_diagonal().min()) / len(self.target), 1e-6) / count

    def hessian(self, point: Point, *, tick: Callable[[], object] | None = None) -> Array:
        """Return the Hessian of F; what it leaves out is small beside the smallest variance of the noise."""
        negligible = self.negligible(count=len(point.weights))
        if isinstance(self.features, CandidateFeatures):
            total = gram_of(self.features, point.weights, negligible=negligible, tick=tick)
        else:
            total = self.features.gram(point.weights, negligible=negligible)
        total -= np.outer(point.moments, point.moments)
        if self.noise.ndim == 1:
            total[np.diag_indices(len(total))] += self.noise
        else:
            total += self.noise
        return total

    def thinned(self, point: Point) -> tuple[EntropyDual, Point]:
        """Leave out the candidates of negligible weight: the same Hessian, from fewer of them where most go.

        Only the weights and moments of the point are those of the thinned function.
        """
        heavy = point.weights > self.negligible(count=len(point.weights))
        kept = np.flatnonzero(heavy)
        if not isinstance(self.features, CandidateFeatures) or 2 * len(kept) > len(heavy):
            return self, replace(point, weights=np.where(heavy, point.weights, 0.0))
        lean = replace(self, features=self.features.only(kept), log_base=self.log_base[kept])
        return lean, replace(point, weights=point.weights[kept], scores=point.scores[kept])

    def times_hessian(self, point: Point, vector: Array) -> Array:
        """Return the Hessian of F times a vector, without forming it."""
        centred = self.features.gram_times(point.weights, vector) - point.moments * float(point.moments @ vector)
        return centred + self.times_noise(vector)

    def variances(self, point: Point) -> Array:
        """Return the variance of each feature under the weights."""
        return np.maximum(self.features.gram_diagonal(point.weights) - point.moments**2, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class MarginalDuals:
    """F of the density of each coordinate, for functions (coordinates, functions, cells) and variances of the noise.

    Multipliers, target and noise are (coordinates, functions): every coordinate has an F of its own. With `links` A,
    (coordinates, functions, moments), they are (1, moments), and there is one F: the sum of those at the multipliers A l,
    for independent coordinates whose moments are sums over them. An impossible cell has the log base -inf.
    """

    functions: Array
    target: Array
    log_base: Array
    noise: Array
    links: Array | None = None

    def at(self, multipliers: Array) -> tuple[Array, Array]:
        """Return the value of each F, and the weights of the cells."""
        own = multipliers if self.links is None else self.links @ multipliers[0]
        weights, log_sums = _normalised(self.log_base + np.einsum("dq,dqg->dg", own, self.functions))
        value = log_sums if self.links is None else log_sums.sum(keepdims=True)
        return value - np.sum(multipliers * (self.target - self.noise * multipliers / 2.0), axis=1), weights

    def derivatives(self, multipliers: Array, weights: Array) -> tuple[Array, Array]:
        """Return the gradient and the Hessian of each F."""
        weighted = self.functions * weights[:, None, :]
        means = weighted.sum(axis=2)
        hessian = np.matmul(weighted, self.functions.transpose(0, 2, 1)) - means[:, :, None] * means[:, None, :]
        if self.links is not None:
            means, hessian = _linked(self.links, means, hessian)
        diagonal = np.arange(hessian.shape[1])
        hessian[:, diagonal, diagonal] += self.noise + 1e-12
        return means - self.target + self.noise * multipliers, hessian


def _linked(links: Array, means: Array, covariances: Array) -> tuple[Array, Array]:
    """Return the sums of A'm and A'CA over coordinates; a moment is linked to few of them, or to all."""
    moments = links.shape[2]
    mean, covariance = np.zeros((1, moments)), np.zeros((1, moments, moments))
    for link, own, spread in zip(links, means, covariances, strict=True):
        used = np.flatnonzero(np.any(link != 0.0, axis=0))
        mean[0, used] += link[:, used].T @ own
        covariance[0][np.ix_(used, used)] += link[:, used].T @ spread @ link[:, used]
    return mean, covariance
