"""Method "paper": correct constants, private subspace iteration, its own options.

Private subspace iteration (the paper's Algorithm 2) as a measurement, with correct noise.

Released are L noisy products  Z_l = A X_{l-1} + noise  of the covariance A with directions X that are
themselves public: X_0 drawn at random, then X_l = orthonormalised Z_l. Sensitivity: docs/proofs/subspace.md.

The design of method="paper": its mechanism with correct constants.

Jin et al., Algorithm 1 (grid), section 3.4 and the appendix (R lowest functions; hypercube, PCA ellipsoid).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from smoothsynth._display import shown_as_call
from smoothsynth.accounting.charges import gaussian_multiplier, split_epsilon, split_multiplier
from smoothsynth.errors import PlanError, arguments_in_words
from smoothsynth.methods.layout import (
    CANDIDATES,
    FITS,
    LOWEST,
    MOST_CANDIDATES,
    MOST_SMOOTHNESS,
    NOISES,
    Design,
    check_count,
    check_no_tiers,
    check_noise,
    check_one_of,
)
from smoothsynth.queries.bases import LATTICE, MOST_FEATURES, lowest, tensor
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement, charge_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.accounting import charges
    from smoothsynth.accounting.charges import Budget
    from smoothsynth.queries.bases import Feature
    from smoothsynth.schema import Schema


@dataclass(frozen=True, slots=True)
class SubspaceMeasurement:
    """A plan of L noisy products of the covariance with k directions: known completely before any data.

    `multiplier` (Gaussian) or `epsilon` (Laplace) is that of *one* product; there are `iterations` of them.
    """

    dimensions: int
    rank: int
    iterations: int
    epsilon: float | None = None
    multiplier: float | None = None
    rows_per_person: int = 1
    # Whether it states the larger bound of earlier releases, with which these are still read and verified.
    loose: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.rank <= self.dimensions:
            raise PlanError(f"The rank must be from 1 to {self.dimensions} (the columns), not {self.rank}.")
        if self.iterations < 1:
            raise PlanError(f"There must be at least 1 iteration, not {self.iterations}.")
        if (self.epsilon is None) is (self.multiplier is None):
            raise PlanError("Subspace iteration takes an epsilon (Laplace) or a multiplier (Gaussian), not both.")

    @property
    def row_moves(self) -> int:
        """The most that one row moves n times the covariance, in the Frobenius norm: 4d, whatever the rank."""
        return 4 * self.dimensions

    @property
    def sensitivity(self) -> int:
        """Bound how far one person moves floor(n 2^16 A X), in L2 (Gaussian) or L1 (Laplace), rounded up.

        n |(A - A') X|_F  is at most `row_moves`, and L1 sqrt(dk) times that. Directions on the lattice are orthonormal up to
        sqrt(dk)/S; each floor adds less than 1.
        """
        d, k = self.dimensions, self.rank
        stretch = 1.0 + math.sqrt(d * k) / LATTICE
        moved = float(self.row_moves) * stretch * FULL_WEIGHT * self.rows_per_person
        moved *= min(math.sqrt(k), math.sqrt(2.0)) if self.loose else 1.0
        l2 = moved + math.sqrt(d * k)
        l1 = moved * math.sqrt(d * k) + d * k
        return math.ceil((l1 if self.multiplier is None else l2) * (1.0 + 1e-9))

    def charge(self) -> charges.Charge:
        """Say what one product costs."""
        return charge_for(
            f"the covariance times {self.rank} directions (one of {self.iterations} iterations)",
            "discrete laplace" if self.multiplier is None else "discrete gaussian",
            sensitivity=self.sensitivity,
            coordinates=self.dimensions * self.rank,
            epsilon=self.epsilon,
            multiplier=self.multiplier,
        )


@dataclass(frozen=True, slots=True, eq=False)
class NoisySubspace:
    """What subspace iteration released: the start and the noisy products, from which all else follows."""

    measurement: SubspaceMeasurement
    rows: int
    start: NDArray[np.float64]
    products: tuple[tuple[int, ...], ...]

    def directions(self) -> NDArray[np.float64]:
        """Return the last orthonormal directions, (dimensions, rank)."""
        return orthonormal(self.last_product())

    def eigenvalues(self) -> NDArray[np.float64]:
        """Estimate eigenvalues from the last product: lambda_s^2 = |w_s|^2 - d sigma^2, never below 0.

        The paper takes sqrt(x' A^2 x) of the un-noised A, which is not private.
        """
        noise = self.measurement.charge().deviation / (self.rows * FULL_WEIGHT)
        squares = np.sum(self.last_product() ** 2, axis=0) - self.measurement.dimensions * noise**2
        return np.sqrt(np.maximum(squares, 0.0))

    def last_product(self) -> NDArray[np.float64]:
        """Return the last noisy product A X, (dimensions, rank)."""
        shape = (self.measurement.dimensions, self.measurement.rank)
        integers = np.array([float(z) for z in self.products[-1]])
        return integers.reshape(shape) / (self.rows * FULL_WEIGHT)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for moments.json."""
        m = self.measurement
        return {
            "purpose": "private subspace iteration",
            "dimensions": m.dimensions,
            "rank": m.rank,
            "iterations": m.iterations,
            "epsilon": m.epsilon,
            "multiplier": m.multiplier,
            "rows_per_person": m.rows_per_person,
            **({} if m.loose else {"row_moves": m.row_moves}),
            "rows": self.rows,
            "start": self.start.tolist(),
            "products": [list(p) for p in self.products],
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> NoisySubspace:
        """Read what `as_dict` wrote."""
        measurement = SubspaceMeasurement(
            dimensions=int(facts["dimensions"]),
            rank=int(facts["rank"]),
            iterations=int(facts["iterations"]),
            epsilon=facts["epsilon"],
            multiplier=facts["multiplier"],
            rows_per_person=int(facts["rows_per_person"]),
            loose="row_moves" not in facts,
        )
        if facts.get("row_moves", measurement.row_moves) != measurement.row_moves:
            raise PlanError(
                f"One row moves the covariance of {measurement.dimensions} columns by {measurement.row_moves}."
            )
        products = tuple(tuple(int(z) for z in p) for p in facts["products"])
        size = measurement.dimensions * measurement.rank
        if len(products) != measurement.iterations or any(len(p) != size for p in products):
            raise PlanError("The noisy products do not have the size that the measurement names.")
        start = np.array(facts["start"], dtype=np.float64).reshape(measurement.dimensions, measurement.rank)
        return cls(measurement, int(facts["rows"]), start, products)


def orthonormal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthonormalise columns by Gram-Schmidt (QR with a positive diagonal)."""
    q, r = np.linalg.qr(matrix)
    return np.asarray(q * np.where(np.diag(r) < 0.0, -1.0, 1.0))


def on_lattice(directions: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round public directions to whole multiples of 1/S, so that their products with exact sums are exact."""
    return np.rint(directions * LATTICE).astype(np.int64)


# The paper does not state the rank k and the iterations L of its subspace iteration.
RANK = 5
ITERATIONS = 3
# The paper spends epsilon = 1 on the subspace and again on the moments; here both share one budget equally.
SUBSPACE_SHARE = 0.5
C_TILDE = 0.5
DRAWN = 10_000
MOST_GRID_POINTS = 20_000_000
MOST_GRID_FUNCTIONS = 5_000


@arguments_in_words
@shown_as_call
@dataclass(frozen=True, slots=True)
class Paper:
    """The options of method="paper": its mechanism, with noise that makes its claim true.

    `candidates` is "ellipsoid" (the default), "hypercube", "grid" or "model", `candidate_count` their number, `fit` "linear
    program" (the default) or "maximum entropy". `features` replaces the paper's number of lowest basis functions, and
    `smoothness` is the K of its rules. `noise` is "gaussian", the default with a delta, or "pure".
    """

    candidates: str | None = None
    candidate_count: int | None = None
    fit: str | None = None
    features: int | None = None
    smoothness: int = 16
    noise: str | None = None

    name: ClassVar[str] = "paper"

    def __post_init__(self) -> None:
        check_one_of("candidates", self.candidates or "ellipsoid", CANDIDATES)
        check_count("candidate_count", 1 if self.candidate_count is None else self.candidate_count, MOST_CANDIDATES)
        check_one_of("fit", self.fit or FITS[0], FITS)
        check_count("features", 1 if self.features is None else self.features, MOST_FEATURES)
        check_count("smoothness", self.smoothness, MOST_SMOOTHNESS)
        check_one_of("noise", self.noise or NOISES[0], NOISES)

    def check(self, schema: Schema, budget: Budget) -> None:
        """Refuse options that this budget cannot have, whatever the number of rows, and survey weights."""
        check_noise(self.noise, budget)
        check_no_tiers(schema)
        if schema.weight is not None:
            raise PlanError(
                f"method='paper' measures few functions of two columns, so nothing would be known of other columns with the "
                f"weights {schema.weight!r}. Leave weight out of the schema, or take method='auto'."
            )

    def design(self, schema: Schema, rows: int, budget: Budget, *, rows_per_person: int, size: int) -> Design:
        """Measure the functions that the paper measures, for `size` synthetic rows."""
        found = self._measured(schema.dimensions, rows, budget, rows_per_person=rows_per_person)
        return found.with_rows_from(self.candidates, self.candidate_count, self.fit, size=size)

    def _measured(self, d: int, rows: int, budget: Budget, *, rows_per_person: int) -> Design:
        candidates = self.candidates or "ellipsoid"
        if candidates == "grid" and self.features is None:
            return _grid_design(d, rows, budget, smoothness=self.smoothness, rows_per_person=rows_per_person)
        count = self.features or basis_count(rows, d, smoothness=self.smoothness, delta=budget.delta)
        if candidates != "ellipsoid":
            measured = _moments(lowest(count, d), budget, share=1.0, rows_per_person=rows_per_person)
            return Design((measured,), candidates, DRAWN, "linear program")
        # The centre of the ellipsoid must be released too: all means are measured, the fit uses the R lowest.
        functions = lowest(max(count, d), d)
        measured = _moments(functions, budget, share=1.0 - SUBSPACE_SHARE, rows_per_person=rows_per_person)
        subspace = _subspace(d, budget, rows_per_person=rows_per_person)
        return Design((measured,), candidates, DRAWN, "linear program", subspace=subspace, fitted=count)


def basis_count(rows: int, dimensions: int, *, smoothness: float, delta: float) -> int:
    """Return R = 0.5 n^(d/(2d+K)), or 0.5 n^(2d/(3d+2K)) with delta; rounded up, the constant not counted."""
    d, K = dimensions, smoothness
    exponent = 2 * d / (3 * d + 2 * K) if delta else d / (2 * d + K)
    return max(1, math.ceil(C_TILDE * rows**exponent))


def grid_sizes(rows: int, dimensions: int, *, smoothness: int, delta: float) -> tuple[int, int]:
    """Return t (degrees per column) and N (levels per column) of step 1 of Algorithm 1 or its variant."""
    d, K = dimensions, smoothness
    base, s = (rows**2 / math.log(1 / delta), 3 * d + 2 * K) if delta else (float(rows), 2 * d + K)
    return max(2, math.ceil(base ** (1 / s) - 1e-9)), max(2, math.ceil(base ** (K / s) - 1e-9))


def _grid_design(d: int, rows: int, budget: Budget, *, smoothness: int, rows_per_person: int) -> Design:
    degrees, levels = grid_sizes(rows, d, smoothness=smoothness, delta=budget.delta)
    if levels**d > MOST_GRID_POINTS or degrees**d > MOST_GRID_FUNCTIONS:
        raise PlanError(
            f"The full grid of Algorithm 1 has {levels}^{d} points and {degrees}^{d} functions here: too many. "
            'Take candidates="ellipsoid" or "hypercube", fewer columns, or a lower smoothness.'
        )
    measured = _moments(tensor(degrees, d), budget, share=1.0, rows_per_person=rows_per_person)
    return Design((measured,), "grid", levels**d, "linear program", levels=levels)


def _moments(features: tuple[Feature, ...], budget: Budget, *, share: float, rows_per_person: int) -> Measurement:
    pure = not budget.delta
    shares = [share, 1.0 - share] if share < 1.0 else [1.0]
    return Measurement(
        purpose=LOWEST.format(len(features)),
        features=features,
        mechanism="discrete laplace" if pure else "discrete gaussian",
        epsilon=split_epsilon(budget.epsilon, shares)[0] if pure else None,
        multiplier=None if pure else split_multiplier(gaussian_multiplier(budget.epsilon, budget.delta), shares)[0],
        rows_per_person=rows_per_person,
    )


def _subspace(d: int, budget: Budget, *, rows_per_person: int) -> SubspaceMeasurement:
    shares = [1.0 - SUBSPACE_SHARE] + [SUBSPACE_SHARE / ITERATIONS] * ITERATIONS
    pure = not budget.delta
    return SubspaceMeasurement(
        dimensions=d,
        rank=min(RANK, d),
        iterations=ITERATIONS,
        epsilon=split_epsilon(budget.epsilon, shares)[-1] if pure else None,
        multiplier=None if pure else split_multiplier(gaussian_multiplier(budget.epsilon, budget.delta), shares)[-1],
        rows_per_person=rows_per_person,
    )
