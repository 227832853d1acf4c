"""What is measured: features on the integer lattice, with weights, noise and sensitivity; and what came out.

Exactness (docs/proofs/exactness.md). A coordinate of a row is an integer in [-S, S]; a feature of a row is
an integer in [-S^2, S^2]; its sum B_r over rows is exact. Released is

    Z_r = floor(B_r w_r / (p_r S^2)) + integer noise,      w_r a whole number,  p_r the number of pooled terms

so the moment is estimated by Z_r / (n w_r), and one row moves floor(...) by at most 2 w_r, exactly. Where n counts persons,
B_r is the sum over persons of the average over their rows (docs/proofs/persons.md). Where a missing value adds nothing to
the features of its column, B_r is without what it added (docs/proofs/sensitivity.md, section 16).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.accounting import charges
from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import LATTICE, Feature, Term
from smoothsynth.queries.families import MarginalMoments
from smoothsynth.queries.level_histograms import LevelHistograms
from smoothsynth.queries.missing import ThereFactors, check_missing, missing_sensitivity, values_there, without_missing
from smoothsynth.queries.selection import TableSelection
from smoothsynth.queries.sensitivity import Indicators
from smoothsynth.queries.soft_tables import Cells, SoftTables
from smoothsynth.queries.transformation import Transformation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Factors
    from smoothsynth.queries.families import Block, QueryFamily
    from smoothsynth.schema import Schema


# The weight of a feature that is not scaled down.
FULL_WEIGHT = 2**16
MOST_ROWS = 2**30
# Rows of a person that can be averaged: sums in units of 1/lcm(1, ..., 32) still fit in 128 bits.
MOST_AVERAGED = 32
# Up to this total degree the rounding of the recurrence is within what `_rounding` allows.
MOST_DEGREE = 256

# The noise mechanisms, and the norm in which each needs the sensitivity. The ball is read in releases of before.
MECHANISMS = {"cube": "linf", "wishart": "nuclear", "ball": "l2", "discrete laplace": "l1", "discrete gaussian": "l2"}


@dataclass(frozen=True, slots=True)
class Measurement:
    """Features to be measured together, with one noise mechanism: known completely before any data.

    `epsilon` is the pure cost of the cube, Wishart and Laplace mechanisms; `multiplier` is noise over L2
    sensitivity of the Gaussian one. `weights` are whole numbers, FULL_WEIGHT for an unscaled feature. Coordinates named
    in `binary` are 0 or 1 in every row, and at most one of each group of `exclusive` is 1: facts of the schema.

    A row in which a value is missing adds nothing to features of that value, where `missing` has its coordinate and that of
    its indicator: then it moves those or the indicator, and no more than both (docs/proofs/sensitivity.md, section 16).

    With a `choice`, features are the cells of all tables that can be chosen, and of those that were chosen once they are;
    noise is that of as many tables as are chosen. If the rows of a person are averaged, `averaged` is how many at most.
    """

    purpose: str
    features: Sequence[Feature]
    mechanism: str
    epsilon: float | None = None
    multiplier: float | None = None
    weights: tuple[int, ...] = ()
    rows_per_person: int = 1
    averaged: int = 1
    transformation: Transformation | None = None
    exclusive: tuple[tuple[int, ...], ...] = ()
    binary: tuple[int, ...] = ()
    missing: tuple[tuple[int, int], ...] = ()
    choice: TableSelection | None = None
    # Computed once, when first asked for: no part of what is measured, and not taken over by `replace`.
    _sensitivity: int | None = field(default=None, init=False, repr=False, compare=False)
    _charge: charges.Charge | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.weights:
            # All cells of tables have the same weight, which is written once: there may be millions of candidates.
            times = 1 if isinstance(self.features, Cells) else len(self.features)
            object.__setattr__(self, "weights", (FULL_WEIGHT,) * times)
        if self.mechanism not in MECHANISMS:
            raise PlanError(f"Mechanism {self.mechanism!r} is unknown; there are {', '.join(MECHANISMS)}.")
        weighed = isinstance(self.features, Cells) or len(self.weights) == len(self.features)
        if not self.features or not weighed:
            raise PlanError("A measurement needs at least one feature, and one weight for each.")
        if not isinstance(self.features, Cells) and max(f.degree for f in self.features) > MOST_DEGREE:
            raise PlanError(f"A feature can have a total degree of at most {MOST_DEGREE}. Take lower degrees.")
        self.family.check(self.features, 0 if self.transformation is None else len(self.transformation.knots))
        if self.choice is not None:
            self._check_choice(self.choice)
        if isinstance(self.features, Cells) and set(self.weights) != {FULL_WEIGHT}:
            raise PlanError("Tables are measured without weights.")
        if min(self.weights) < 1 or self.rows_per_person < 1:
            raise PlanError("Weights and rows_per_person are whole numbers of at least 1.")
        if not 1 <= self.averaged <= MOST_AVERAGED or min(self.averaged, self.rows_per_person) > 1:
            raise PlanError(f"1 to {MOST_AVERAGED} rows of a person are averaged, and protected as one.")
        grouped = [c for group in self.exclusive for c in group]
        if len(set(grouped)) < len(grouped) or not set(grouped) <= set(self.binary):
            raise PlanError("Exclusive groups must have no coordinate in common, and binary ones only.")
        if self.missing:
            check_missing(self)
        self._check_noise()

    def _check_noise(self) -> None:
        if self.mechanism == "wishart":
            _ = self.sensitivity  # What is no list of products of clipped rows has none, and is refused at once.
        if self.mechanism == "cube" and self.epsilon and len(self.features) > self.sensitivity / self.epsilon:
            raise PlanError(
                f"epsilon = {self.epsilon:g} for {len(self.features):,} moments is finer than the lattice of whole "
                "numbers. Ask for a smaller epsilon; beyond 100 it protects nobody."
            )
        gaussian = self.mechanism == "discrete gaussian"
        if (self.multiplier is None) is gaussian or (self.epsilon is None) is not gaussian:
            raise PlanError("Gaussian noise takes a multiplier, the others take an epsilon; not both.")

    @property
    def sensitivity(self) -> int:
        """The most that one person can move the whole numbers Z, in the norm of the mechanism; rounded up.

        The floor adds less than 1 to each coordinate, and the lattice rounding of factors of a
        higher-degree term at most `_rounding`; with linf both are exact (docs/proofs/exactness.md).
        """
        found = self._sensitivity
        if found is None:
            found = self._most_moved()
            object.__setattr__(self, "_sensitivity", found)
        return found

    def _most_moved(self) -> int:
        family = self.family
        if self.mechanism == "cube":
            return family.linf(self.features, self.weights, self._indicators) * self.rows_per_person
        if self.mechanism == "wishart":
            return family.nuclear(self.features, self.weights, self.rows_per_person)
        if isinstance(family, (SoftTables, LevelHistograms)):
            # Cells are whole numbers in units of a row: nothing is rounded, but for the averages of a person's rows.
            bound = family.l1 if self.mechanism == "discrete laplace" else family.l2
            moved = bound(self._measured, (FULL_WEIGHT,), Indicators()) * self.rows_per_person
            return math.ceil(moved) + math.ceil(self._table_floors())
        pairs, k = zip(self.features, self.weights, strict=True), self.rows_per_person
        slack = [1.0 + (0.0 if family.exact else 2.0 * k * w * _rounding(f)) for f, w in pairs]
        power, bound = (1, family.l1) if self.mechanism == "discrete laplace" else (2, family.l2)
        extra = math.fsum(slack) if power == 1 else math.hypot(*slack)
        if self.missing:
            known = self._indicators, self.missing
            exact = missing_sensitivity(self.features, self.weights, *known, power=power, bound=bound, size=family.size)
        else:
            exact = bound(self.features, self.weights, self._indicators)
        return math.ceil((exact * self.rows_per_person + extra) * (1.0 + 1e-9))

    @property
    def _measured(self) -> Sequence[Feature]:
        """As many features as are released, whichever tables they are of."""
        return self.features if self.choice is None else self._first_tables(self.choice.count)

    def _table_floors(self) -> float:
        """Bound what rounding the averages of persons down adds, in the norm of the mechanism."""
        cells = self._rounded * len(getattr(self._measured, "tables", ()))
        return cells if self.mechanism == "discrete laplace" else math.sqrt(cells)

    @property
    def _rounded(self) -> int:
        """How many cells of a table two sets of rows of a person are in, if those are averaged; else nothing is rounded."""
        if self.averaged == 1 or not isinstance(self.family, (SoftTables, LevelHistograms)):
            return 0
        # A row is in two cells of each column of a table of soft cells, and in one node of a histogram.
        return 2 * self.averaged * (2**self.family.order if isinstance(self.family, SoftTables) else 1)

    def _first_tables(self, count: int) -> Cells:
        if not isinstance(self.features, Cells):
            raise AssertionError("only tables are chosen")
        return self.features.only(self.features.tables[:count])

    def charge(self) -> charges.Charge:
        """Say what the measurement costs, in numbers and words."""
        found = self._charge
        if found is None:
            found = charge_for(
                self.purpose,
                self.mechanism,
                sensitivity=self.sensitivity,
                coordinates=self._released,
                epsilon=self.epsilon,
                multiplier=self.multiplier,
            )
            object.__setattr__(self, "_charge", found)
        return found

    def choice_charge(self) -> charges.Charge:
        """Say what choosing costs."""
        if self.choice is None or not isinstance(self.family, SoftTables):
            raise AssertionError("only tables are chosen")
        return self.choice.charge(unit=FULL_WEIGHT, order=self.family.order, rounded=self._rounded)

    @property
    def charges(self) -> tuple[charges.Charge, ...]:
        """All that it costs, in order: that of the choice, if there is one, comes first."""
        return (self.charge(),) if self.choice is None else (self.choice_charge(), self.charge())

    def chosen(self, places: Sequence[int]) -> Measurement:
        """Return the measurement of the tables at these places of those that can be chosen, in their order."""
        if not isinstance(self.features, Cells):
            raise AssertionError("only tables are chosen")
        tables = [self.features.tables[place] for place in sorted(places)]
        return replace(self, features=self.features.only(tables), weights=())

    def evaluate(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (points, features) matrix of what is measured, seen through the transformation."""
        values = self.family.basis.evaluate(self.features, self.seen(points))
        there = values_there(self.missing, points)
        for place, feature in enumerate(self.features if there else ()):
            values[:, place] *= there.get(feature.terms[0][0][0], 1.0)
        return values

    def factors(self, points: NDArray[np.float64]) -> Factors:
        """Return the factors of features at points of the cube, each computed once it is asked for."""
        seen = self.transformation
        found = self.family.basis.factors(points) if seen is None else self.family.factors(seen, points)
        return ThereFactors(found, values_there(self.missing, points)) if self.missing else found

    def blocks(self, dimensions: int) -> Iterator[tuple[Block, ...]]:
        """Yield what is measured as the family splits it; features of a value that may be missing read its indicator."""
        indicators = dict(self.missing)
        for alternatives in self.family.blocks(self.features, dimensions):
            beside = [{indicators[c] for c in block.read if c in indicators} for block in alternatives]
            pairs = zip(alternatives, beside, strict=True)
            yield tuple(replace(block, read=block.read | own) if own else block for block, own in pairs)

    def seen(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return points of the cube as they are seen through the transformation, if there is one."""
        return points if self.transformation is None else self.transformation.of(points)

    def deviations(self, rows: int) -> NDArray[np.float64]:
        """Return the standard deviation of the noise of each moment."""
        return self.charge().deviation / (rows * self.all_weights)

    @property
    def all_weights(self) -> NDArray[np.float64]:
        """The weight of each feature."""
        return np.broadcast_to(np.array(self.weights, dtype=np.float64), len(self.features))

    def through(self, transformation: Transformation | None) -> Measurement:
        """Return the measurement as it is seen through a transformation, with the cells that tables have then."""
        if transformation == self.transformation:
            # What stays the same measurement keeps the sensitivity that was computed for the plan.
            return self
        if isinstance(self.features, Cells) and transformation and isinstance(transformation.family, SoftTables):
            seen = transformation.family.cells(self.features.tables)
            return replace(self, transformation=transformation, features=seen)
        return replace(self, transformation=transformation)

    @property
    def family(self) -> QueryFamily:
        """What kind of queries these are."""
        return MarginalMoments() if self.transformation is None else self.transformation.family

    @property
    def of_columns(self) -> bool:
        """Whether each coordinate is seen by itself, and levels and indicators as what they are."""
        return self.family.own_coordinates and self.family.alone

    @property
    def _released(self) -> int:
        """How many sums are released; before tables are chosen, the most that can be."""
        if self.choice is None or not isinstance(self.features, Cells):
            return len(self.features)
        sizes = sorted(map(self.features.size, self.features.tables), reverse=True)
        return sum(sizes[: self.choice.count])

    def _check_choice(self, choice: TableSelection) -> None:
        """Refuse a choice that the proof does not cover: of other features, another kind of cost, another person."""
        if not isinstance(self.features, Cells) or (choice.multiplier is None) is not (self.multiplier is None):
            raise PlanError("Tables are chosen and measured with the same kind of noise.")
        if len(self.features.tables) < choice.count:
            raise PlanError(f"{choice.count} tables are chosen among as many or more.")
        if choice.rows_per_person != self.rows_per_person:
            raise PlanError("Choosing and measuring must protect as many rows of a person.")

    @property
    def _indicators(self) -> Indicators:
        """What is known of the indicators as they are seen."""
        if self.transformation is None or not self.binary:
            return Indicators(self.binary, self.exclusive)
        return self.family.indicators(self.transformation, self.features, self.binary, self.exclusive)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Measurement:
        """Read what `NoisyMoments.as_dict` wrote of it."""
        transformation = None if facts["view"] is None else Transformation.from_dict(facts["view"])
        together, choice = int(facts["rows_per_person"]), facts.get("choice")
        return cls(
            purpose=str(facts["purpose"]),
            features=_features(facts, transformation),
            mechanism=str(facts["mechanism"]),
            epsilon=facts["epsilon"],
            multiplier=facts["multiplier"],
            weights=() if "tables" in facts else tuple(int(w) for w in facts["weights"]),
            rows_per_person=together,
            averaged=int(facts.get("averaged", 1)),
            transformation=transformation,
            exclusive=tuple(tuple(int(c) for c in group) for group in facts.get("exclusive", ())),
            binary=tuple(int(c) for c in facts.get("binary", ())),
            missing=tuple((int(value), int(indicator)) for value, indicator in facts.get("missing", ())),
            choice=None if choice is None else TableSelection.from_dict(choice, rows_per_person=together),
        )


@dataclass(frozen=True, slots=True)
class Choosing:
    """The choice of a measurement, which is charged by itself."""

    measurement: Measurement

    @property
    def rows_per_person(self) -> int:
        """The rows of one person that are protected."""
        return self.measurement.rows_per_person

    @property
    def averaged(self) -> int:
        """The rows of one person that are averaged at most."""
        return self.measurement.averaged

    @property
    def sensitivity(self) -> int:
        """The most that one person can move a score."""
        return int(self.charge().sensitivity)

    def charge(self) -> charges.Charge:
        """Say what choosing costs."""
        return self.measurement.choice_charge()


@dataclass(frozen=True, slots=True)
class NoisyMoments:
    """Moments as released: the noisy whole numbers, with the measurement that says how noisy they are."""

    measurement: Measurement
    rows: int
    integers: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.integers) != len(self.measurement.features):
            raise PlanError("There must be one noisy number for each feature.")
        choice, features = self.measurement.choice, self.measurement.features
        # Noise is that of as many tables as the choice names.
        if choice is not None and isinstance(features, Cells) and len(features.tables) != choice.count:
            raise PlanError("As many tables must be released as were chosen.")

    @property
    def features(self) -> Sequence[Feature]:
        """What was measured."""
        return self.measurement.features

    @property
    def values(self) -> NDArray[np.float64]:
        """The estimated moments: Z_r / (n w_r)."""
        weights = self.measurement.all_weights.tolist()
        return np.array([z / (self.rows * w) for z, w in zip(self.integers, weights, strict=True)])

    @property
    def deviations(self) -> NDArray[np.float64]:
        """The standard deviation of the noise in each value."""
        return self.measurement.deviations(self.rows)

    def of(self, points: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the same moments of other points (say, synthetic rows)."""
        return np.average(self.measurement.evaluate(points), axis=0, weights=weights)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for moments.json."""
        m = self.measurement
        return {
            "purpose": m.purpose,
            "mechanism": m.mechanism,
            "epsilon": m.epsilon,
            "multiplier": m.multiplier,
            "rows_per_person": m.rows_per_person,
            **({} if m.averaged == 1 else {"averaged": m.averaged}),
            "rows": self.rows,
            **_listed(m),
            "integers": list(self.integers),
            "view": None if m.transformation is None else m.transformation.as_dict(),
            "exclusive": [list(group) for group in m.exclusive],
            "binary": list(m.binary),
            **({"missing": [list(pair) for pair in m.missing]} if m.missing else {}),
            **({} if m.choice is None else {"choice": m.choice.as_dict()}),
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> NoisyMoments:
        """Read what `as_dict` wrote."""
        measurement = Measurement.from_dict(facts)
        return cls(measurement, int(facts["rows"]), tuple(int(z) for z in facts["integers"]))


def _listed(measurement: Measurement) -> dict[str, Any]:
    """Return features and weights, or the tables whose cells they are."""
    features = measurement.features
    if isinstance(features, Cells):
        return {"tables": [list(table) for table in features.tables]}
    return {
        "features": [[[list(factor) for factor in term] for term in f.terms] for f in features],
        "weights": list(measurement.weights),
    }


def _features(facts: Mapping[str, Any], transformation: Transformation | None) -> Sequence[Feature]:
    """Read the features that `_listed` wrote."""
    if "tables" not in facts:
        return tuple(Feature(tuple(_term(t) for t in terms)) for terms in facts["features"])
    family = None if transformation is None else transformation.family
    if isinstance(family, LevelHistograms):
        return family.cells()
    if not isinstance(family, SoftTables):
        raise PlanError("Tables are seen as soft cells.")
    return family.cells(tuple(tuple(int(c) for c in table) for table in facts["tables"]))


def charge_for(
    purpose: str, mechanism: str, *, sensitivity: int, coordinates: int, epsilon: float | None, multiplier: float | None
) -> charges.Charge:
    """Describe integer noise of a mechanism, scaled for a sensitivity in its norm."""
    if multiplier is not None:
        scale = charges.gaussian_sigma(sensitivity, multiplier)
    else:
        scale = charges.laplace_scale(sensitivity, epsilon or 0.0)
    return charges.Charge(
        purpose=purpose,
        mechanism=mechanism,
        norm=MECHANISMS[mechanism],
        sensitivity=float(sensitivity),
        scale=scale,
        coordinates=coordinates,
        epsilon=epsilon,
        multiplier=multiplier,
    )


def check_indicators(measurement: Measurement, schema: Schema) -> None:
    """Refuse a measurement of coordinates or tiers of levels that the schema does not have as such."""
    groups = {c: number for number, group in enumerate(schema.exclusive) for c in group}
    apart = any(len({groups.get(c) for c in group}) > 1 for group in measurement.exclusive)
    loose = any(c not in groups for group in measurement.exclusive for c in group)
    if apart or loose or not set(measurement.binary) <= set(schema.binary):
        raise PlanError("Binary and exclusive coordinates of a measurement must be levels and marks of the schema.")
    if not set(measurement.missing) <= set(schema.missing):
        raise PlanError("Values that may be missing, and their indicators, must be those of the schema.")
    if isinstance(measurement.family, LevelHistograms):
        measurement.family.check_schema(schema)


def whole_weights(weights: Sequence[float]) -> tuple[int, ...]:
    """Turn relative weights into whole numbers, the largest FULL_WEIGHT, rounded down but at least 1."""
    top = max(weights)
    return tuple(max(1, math.floor(FULL_WEIGHT * w / top)) for w in weights)


def coarse_sums(sums: Sequence[int], measurement: Measurement, *, denominator: int = 1) -> list[int]:
    """Return floor(B_r w_r / (p_r S^2)): what one row moves by at most 2 w_r (see the module).

    B_r is given in units of 1 / `denominator`.
    """
    unit = LATTICE * LATTICE * denominator
    if isinstance(measurement.features, Cells):
        return [total * FULL_WEIGHT // unit for total in sums]
    if measurement.missing:
        sums = without_missing(sums, measurement)
    pairs = zip(sums, measurement.features, measurement.weights, strict=True)
    return [total * weight // (len(feature.terms) * unit) for total, feature, weight in pairs]


def _rounding(feature: Feature) -> float:
    """Bound how far the lattice value of a feature is from the true product of Chebyshev polynomials.

    Exact for x_i, T_2(x_i) and x_i x_j; else half a lattice step for each factor of degree >= 2 and for
    each intermediate product.
    """
    worst = 0.0
    for term in feature.terms:
        exact = sum(k for _, k in term) <= 2
        halves = sum(k > 1 for _, k in term) + max(0, len(term) - 2)
        worst = max(worst, 0.0 if exact else (halves + 1e-6) * 0.5 / LATTICE)
    return worst


def _term(factors: Any) -> Term:
    return tuple((int(c), int(k)) for c, k in factors)
