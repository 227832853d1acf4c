"""How far a synthetic table is from the real one, on several measures at once.

All on rows scaled to the cube by the public bounds. On private data these figures would cost budget: they
belong in benchmarks on public data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.paper.queries import answers, random_queries, worst_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Points = NDArray[np.float64]

SIGMAS = (2, 4, 6, 8, 10)
NARROW = (0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Scores:
    """One table's errors: worst relative and absolute by kernel width, narrow and other queries, W1, correlations."""

    relative: dict[int, float]
    absolute: dict[int, float]
    narrow: float
    ridge: float
    polynomial: float
    wasserstein: float
    correlation: float

    def as_row(self) -> dict[str, float]:
        """Return the figures by name."""
        return {
            **{f"rel_{s}": self.relative[s] for s in SIGMAS},
            **{f"abs_{s}": self.absolute[s] for s in SIGMAS},
            "narrow": self.narrow,
            "ridge": self.ridge,
            "polynomial": self.polynomial,
            "w1": self.wasserstein,
            "corr": self.correlation,
        }


class Judge:
    """The questions of one round, answered once on the real rows, then on any synthetic table."""

    def __init__(self, real: Points, *, queries: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        d = real.shape[1]
        self._real = real
        self._families = [random_queries(queries, d, sigma=s, generator=rng) for s in SIGMAS]
        self._true = [answers(family, real) for family in self._families]
        self._small = {
            "narrow": [_narrow(rng, d) for _ in range(300)],
            "ridge": [_ridge(rng, d) for _ in range(100)],
            "polynomial": [_polynomial(rng, d) for _ in range(100)],
        }

    def __call__(self, synthetic: Points) -> Scores:
        """Score one synthetic table."""
        worst = [
            worst_errors(true, answers(family, synthetic))
            for family, true in zip(self._families, self._true, strict=True)
        ]
        small = {
            kind: float(np.mean([abs(np.mean(f(self._real)) - np.mean(f(synthetic))) for f in functions]))
            for kind, functions in self._small.items()
        }
        return Scores(
            relative={s: w.relative for s, w in zip(SIGMAS, worst, strict=True)},
            absolute={s: w.absolute for s, w in zip(SIGMAS, worst, strict=True)},
            wasserstein=wasserstein(self._real, synthetic),
            correlation=correlation_error(self._real, synthetic),
            **small,
        )


def wasserstein(real: Points, synthetic: Points) -> float:
    """Return the mean over columns of the 1-D Wasserstein-1 distance, in cube units."""
    levels = (np.arange(4000) + 0.5) / 4000
    gaps = np.abs(np.quantile(real, levels, axis=0) - np.quantile(synthetic, levels, axis=0))
    return float(gaps.mean())


def correlation_error(real: Points, synthetic: Points) -> float:
    """Return the mean absolute error of the correlations; a constant column has correlation 0."""
    difference = np.abs(_correlations(real) - _correlations(synthetic))
    d = len(difference)
    return float((difference.sum() - np.trace(difference)) / (d * (d - 1))) if d > 1 else 0.0


def _correlations(points: Points) -> Points:
    centred = points - points.mean(axis=0)
    spread = np.sqrt(np.mean(centred**2, axis=0))
    scaled = centred / np.where(spread > 1e-12, spread, np.inf)
    return scaled.T @ scaled / len(points)


def _columns(rng: np.random.Generator, d: int) -> NDArray[np.int64]:
    return rng.choice(d, size=int(rng.integers(1, min(3, d) + 1)), replace=False)


def _narrow(rng: np.random.Generator, d: int) -> Callable[[Points], Points]:
    columns, width = _columns(rng, d), rng.choice(NARROW)
    centre = rng.uniform(-1, 1, len(columns))
    return lambda x: np.exp(-np.sum((x[:, columns] - centre) ** 2, axis=1) / (2 * width**2))


def _ridge(rng: np.random.Generator, d: int) -> Callable[[Points], Points]:
    direction, shift = rng.normal(0, 1, d) / np.sqrt(d) * 2, rng.normal()
    return lambda x: np.tanh(x @ direction + shift)


def _polynomial(rng: np.random.Generator, d: int) -> Callable[[Points], Points]:
    columns = rng.integers(0, d, size=int(rng.integers(1, 4)))
    return lambda x: np.prod(x[:, columns], axis=1)
