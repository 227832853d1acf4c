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

    from smoothsynth.paper.reproduction import DataSet

    Points = NDArray[np.float64]
    Query = Callable[[Points], Points]

SIGMAS = (2, 4, 6, 8, 10)
NARROW = (0.25, 0.5, 1.0)
# How many narrow, ridge and polynomial queries a round asks; their figure is the mean absolute error.
NARROW_QUERIES, RIDGE_QUERIES, POLYNOMIAL_QUERIES = 300, 100, 100
TERMS = 10
FOLDS = 5
# In cube units, not in those of each column's spread: a column that is nearly constant in a synthetic table would have
# any slope. The largest power of ten that costs the model of real rows less than 0.01 of its R^2 on every data set.
PENALTY = 1e-4

# The column a model learns to predict from all the others. None is a label of the source (those are not in the
# files): each is a column that the others do explain, with the R^2 of training on real rows beside it in the page.
TARGETS = {
    "wdbc": "mean_concave_points",
    "ctg": "Mean",
    "pks": "total_UPDRS",
    "crm": "PctPopUnderPov",
    "pam": "chest_temp",
    "pam_sub_dsads": "torso_acc_x",
}


@dataclass(frozen=True, slots=True)
class Scores:
    """One table's errors: worst relative and absolute by kernel width, narrow and other queries, W1, correlations.

    `explained` is the R^2, on the real rows, of a model trained on the synthetic ones; nan where there is no target.
    """

    relative: dict[int, float]
    absolute: dict[int, float]
    narrow: float
    ridge: float
    polynomial: float
    wasserstein: float
    correlation: float
    explained: float

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
            "tstr": self.explained,
        }


class Judge:
    """The questions of one round, answered once on the real rows, then on any synthetic table."""

    def __init__(self, real: Points, *, queries: int, seed: int, target: int | None = None) -> None:
        rng = np.random.default_rng(seed)
        d = real.shape[1]
        self._real, self._target = real, target
        self._families = [random_queries(queries, d, sigma=s, generator=rng) for s in SIGMAS]
        self._true = [answers(family, real, precision="single") for family in self._families]
        small = {
            "narrow": [_narrow(rng, d) for _ in range(NARROW_QUERIES)],
            "ridge": [_ridge(rng, d) for _ in range(RIDGE_QUERIES)],
            "polynomial": [_polynomial(rng, d) for _ in range(POLYNOMIAL_QUERIES)],
        }
        self._small = {kind: [(f, float(np.mean(f(real)))) for f in functions] for kind, functions in small.items()}

    @classmethod
    def of(cls, data: DataSet, *, queries: int, seed: int) -> Judge:
        """Return the judge of one of the paper's data sets, with its target column."""
        target = data.schema.names.index(TARGETS[data.name]) if data.name in TARGETS else None
        return cls(data.points, queries=queries, seed=seed, target=target)

    def __call__(self, synthetic: Points) -> Scores:
        """Score one synthetic table."""
        worst = [
            worst_errors(true, answers(family, synthetic, precision="single"))
            for family, true in zip(self._families, self._true, strict=True)
        ]
        small = {
            kind: float(np.mean([abs(true - np.mean(f(synthetic))) for f, true in functions]))
            for kind, functions in self._small.items()
        }
        return Scores(
            relative={s: w.relative for s, w in zip(SIGMAS, worst, strict=True)},
            absolute={s: w.absolute for s, w in zip(SIGMAS, worst, strict=True)},
            wasserstein=wasserstein(self._real, synthetic),
            correlation=correlation_error(self._real, synthetic),
            explained=np.nan if self._target is None else explained(synthetic, self._real, target=self._target),
            **small,
        )


def wasserstein(real: Points, synthetic: Points) -> float:
    """Return the mean over columns of the 1-D Wasserstein-1 distance, in cube units.

    W1(F, G) = integral |F(x) - G(x)| dx,   F and G the distribution functions of a column in the two tables
    """
    return float(np.mean([distance(a, b) for a, b in zip(real.T, synthetic.T, strict=True)]))


def distance(first: Points, second: Points) -> float:
    """Return the 1-D Wasserstein-1 distance of two columns."""
    ends = np.sort(np.concatenate([first, second]))
    shares = [np.searchsorted(np.sort(one), ends[:-1], side="right") / len(one) for one in (first, second)]
    return float(np.abs(shares[0] - shares[1]) @ np.diff(ends))


def correlation_error(real: Points, synthetic: Points) -> float:
    """Return the mean absolute error of the correlations of two columns; a constant column has correlation 0."""
    difference = np.abs(_correlations(real) - _correlations(synthetic))
    d = len(difference)
    return float((difference.sum() - np.trace(difference)) / (d * (d - 1))) if d > 1 else 0.0


def explained(train: Points, test: Points, *, target: int) -> float:
    """Return the R^2 on `test` of a ridge regression of one column on all others, fitted on `train`.

    beta = (C + PENALTY I)^-1 c,   C and c the covariances in `train`;   R^2 = 1 - sum (y - p)^2 / sum (y - mean y)^2
    """
    y = test[:, target]
    missed = y - _predictions(train, test, target=target)
    return float(1 - missed @ missed / ((y - y.mean()) @ (y - y.mean())))


def explained_by_real(real: Points, *, target: int) -> float:
    """Return the R^2 of the same model trained on real rows and tested on others of them, in FOLDS parts."""
    part = np.arange(len(real)) % FOLDS
    predictions = np.empty(len(real))
    for fold in range(FOLDS):
        predictions[part == fold] = _predictions(real[part != fold], real[part == fold], target=target)
    y = real[:, target]
    return float(1 - np.sum((y - predictions) ** 2) / np.sum((y - y.mean()) ** 2))


def _predictions(train: Points, test: Points, *, target: int) -> Points:
    means = train.mean(axis=0)
    centred = train - means
    covariances = centred.T @ centred / len(train)
    others = np.arange(train.shape[1]) != target
    ridge = covariances[np.ix_(others, others)] + PENALTY * np.eye(others.sum())
    beta = np.linalg.solve(ridge, covariances[others, target])
    return means[target] + (test - means)[:, others] @ beta


def _spreads(points: Points) -> Points:
    """Return the standard deviations, infinite for a constant column so that it scales to zero."""
    spreads = points.std(axis=0)
    return np.where(spreads > 1e-12, spreads, np.inf)


def _correlations(points: Points) -> Points:
    scaled = (points - points.mean(axis=0)) / _spreads(points)
    return scaled.T @ scaled / len(points)


def _narrow(rng: np.random.Generator, d: int) -> Query:
    """Return exp(-|x_S - c|^2 / (2 width^2)) for one to three columns S, with a centre in their cube."""
    columns = rng.choice(d, size=int(rng.integers(1, min(3, d) + 1)), replace=False)
    width, centre = rng.choice(NARROW), rng.uniform(-1, 1, len(columns))
    return lambda x: np.exp(-np.sum((x[:, columns] - centre) ** 2, axis=1) / (2 * width**2))


def _ridge(rng: np.random.Generator, d: int) -> Query:
    """Return tanh(w . x + c) with |w| about 2 and c standard normal."""
    direction, shift = rng.normal(0, 1, d) / np.sqrt(d) * 2, rng.normal()
    return lambda x: np.tanh(x @ direction + shift)


def _polynomial(rng: np.random.Generator, d: int) -> Query:
    """Return sum_j a_j m_j(x), each m_j a product of one to three columns (maybe the same), sum_j |a_j| = 1."""
    products = [rng.integers(0, d, size=int(rng.integers(1, 4))) for _ in range(TERMS)]
    weights = rng.uniform(-1, 1, TERMS)
    weights /= np.abs(weights).sum()
    return lambda x: sum(a * np.prod(x[:, columns], axis=1) for a, columns in zip(weights, products, strict=True))
