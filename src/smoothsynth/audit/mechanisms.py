"""The cases of single mechanisms: the four noise functions, measurements of tables, subspace iteration."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.accounting.charges import Budget, gaussian_multiplier
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.audit import neighbours
from smoothsynth.audit.case import Case, Claim, claim_of
from smoothsynth.audit.neighbours import EDGE, of_persons, pair, worst_pair
from smoothsynth.errors import SmoothsynthError
from smoothsynth.methods.adaptive_rounds import COSINE_POWER, FREE_SQUARE, INDICATOR_WEIGHT
from smoothsynth.methods.layout import falling
from smoothsynth.methods.paper import NoisySubspace, SubspaceMeasurement, orthonormal
from smoothsynth.private import noise
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.measure import measure, measure_subspace
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import pooled, tensor, term_feature, total_degree
from smoothsynth.queries.families import ClippedSecondMoments, RankHistogram, RowNorms
from smoothsynth.queries.level_histograms import LevelHistogram, LevelHistograms
from smoothsynth.queries.measurement import FULL_WEIGHT, MECHANISMS, Measurement, charge_for, whole_weights
from smoothsynth.queries.sensitivity import length_of
from smoothsynth.queries.soft_tables import SoftTables, TableColumn
from smoothsynth.queries.transformation import Transformation, knot_places
from smoothsynth.schema import Category, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.accounting.charges import Charge
    from smoothsynth.audit.case import Looks
    from smoothsynth.audit.neighbours import Pair
    from smoothsynth.private.sealed import SealedSums
    from smoothsynth.private.table import Table
    from smoothsynth.queries.bases import Feature

DELTA = 1e-6
EPSILON = 2.0
GAUSSIAN_EPSILON = 4.0
# Independent sums are drawn many at a time, so these cases can have more trials for the same time.
MANY = 25.0
# Whether a table is refused is seen by everybody: it must not depend on a row.
REFUSED = -(2**62)


def noise_case(mechanism: str, move: Sequence[int], *, epsilon: float, share: float = 1.0) -> Case:
    """Add noise to sums that are 0 on one table and `move` on its neighbour, the most that a row can move them."""
    sensitivity = math.ceil(length_of(np.array(move, dtype=np.float64), MECHANISMS[mechanism]))
    gaussian = mechanism == "discrete gaussian"
    multiplier = gaussian_multiplier(epsilon, DELTA) if gaussian else None
    charge = charge_for(
        "the audit",
        mechanism,
        sensitivity=sensitivity,
        coordinates=len(move),
        epsilon=None if gaussian else epsilon,
        multiplier=multiplier,
    )
    centres = np.zeros(len(move)), np.array(move, dtype=np.float64)
    claim = claim_of([charge], delta=DELTA)

    def draw(side: int, count: int) -> Looks:
        exact = list(move) if side else [0] * len(move)
        drawn: list[int] = []
        if mechanism in ("cube", "wishart"):
            add = noise.add_cube_noise if mechanism == "cube" else noise.add_wishart_noise
            for _ in range(count):
                drawn += add(exact, sensitivity=sensitivity, epsilon=epsilon)
        elif multiplier is None:
            drawn = noise.add_laplace_noise(exact * count, sensitivity=sensitivity, epsilon=epsilon)
        else:
            drawn = noise.add_gaussian_noise(exact * count, sensitivity=sensitivity, multiplier=multiplier)
        numbers = np.array(drawn).reshape(count, len(move))
        return {
            "numbers": np.column_stack([neighbours.losses(numbers, *centres, charge=charge), numbers]),
            "low bits": neighbours.codes(numbers),
        }

    words = f"sums 0 / {', '.join(map(str, move))}"
    return Case(f"{mechanism} noise", words, claim, _reach(*centres, charge=charge), draw, share)


def measurement_case(measurement: Measurement, tables: Pair, *, share: float = 1.0) -> Case:
    """Measure two neighbouring tables through the one door; what is claimed is what the ledger was charged."""
    budget = Budget(1e3, DELTA if measurement.multiplier is not None else 0.0)
    most = measurement.averaged
    opened = tuple(open_table(tables.arrow(side), tables.schema, rows_per_person=most) for side in (0, 1))
    centres = tuple(neighbours.sums(measurement, tables.unit(side)) for side in (0, 1))
    engine, charge = Remembering(), measurement.charge()

    def once(side: int) -> tuple[Sequence[float], Ledger]:
        ledger = Ledger(budget)
        try:
            return measure(opened[side], measurement, engine=engine, ledger=ledger).integers, ledger
        except SmoothsynthError:
            return (REFUSED,) * len(measurement.features), ledger

    def draw(side: int, count: int) -> Looks:
        numbers = np.array([once(side)[0] for _ in range(count)])
        return {
            "numbers": np.column_stack([neighbours.losses(numbers, *centres, charge=charge), numbers]),
            "low bits": neighbours.codes(numbers),
        }

    # A table that is refused is not charged.
    claim = claim_of(once(0)[1].charges or once(1)[1].charges, delta=DELTA)
    reach = _reach(*centres, charge=charge)
    return Case(f"{measurement.mechanism}: {measurement.purpose}", tables.words, claim, reach, draw, share)


def histogram_case(mechanism: str, *, rows: int = 1) -> Case:
    """Count the levels of two columns; a person with so many rows in all is exchanged for one with a single row elsewhere."""
    import pyarrow as pa

    levels = [f"{node}{level}" for node in range(7) for level in range(7)]
    columns = {name: Category(levels, parents=[1]) for name in ("x", "y")}
    schema = Schema(columns, person=None if rows == 1 else "id")
    family = LevelHistograms(tuple(LevelHistogram(column, 1, len(levels)) for column in range(2)))
    purpose = f"2 histograms of {len(levels)} levels" + (f", a person with {rows} rows" if rows > 1 else "")
    seen = Transformation.straight(schema.dimensions, family)
    cost = _cost(mechanism)
    measurement = Measurement(purpose, family.cells(), mechanism, **cost, transformation=seen, averaged=min(rows, 3))
    most, charge, engine = measurement.averaged, measurement.charge(), Remembering()
    held = [["00"] * rows + ["33"], ["66", "33"]]
    data = [pa.table({"id": ["a"] * (len(own) - 1) + ["b"], "x": own, "y": own}) for own in held]
    opened = [open_table(one, schema, rows_per_person=most) for one in data]
    # However many rows a person has, they weigh as much as one.
    counts = [np.array([float(level in own) for level in (*levels, None)]) for own in held]
    centres = [FULL_WEIGHT * np.tile(own, 2) for own in counts]
    moved = np.flatnonzero(centres[0] != centres[1])

    def draw(side: int, count: int) -> Looks:
        ledgers = (Ledger(Budget(1e3, DELTA)) for _ in range(count))
        made = [measure(opened[side], measurement, engine=engine, ledger=one).integers for one in ledgers]
        numbers = np.array(made)
        return {
            "numbers": np.column_stack([neighbours.losses(numbers, *centres, charge=charge), numbers[:, moved]]),
            "low bits": neighbours.codes(numbers[:, moved]),
        }

    claim = claim_of([charge], delta=DELTA)
    return Case(f"{mechanism}: {purpose}", "levels 00 / 66", claim, _reach(*centres, charge=charge), draw)


def subspace_case(measurement: SubspaceMeasurement, tables: Pair, *, share: float = 1.0) -> Case:
    """Run subspace iteration on two neighbouring tables, from the same public start."""
    gaussian = measurement.multiplier is not None
    budget = Budget(1e3, DELTA if gaussian else 0.0)
    opened = tuple(open_table(tables.arrow(side), tables.schema) for side in (0, 1))
    start = np.eye(measurement.dimensions, measurement.rank) + 100.0
    engine, points = Remembering(), (tables.unit(0), tables.unit(1))

    def once(side: int) -> tuple[NoisySubspace, Ledger]:
        ledger = Ledger(budget)
        return measure_subspace(opened[side], measurement, start=start, engine=engine, ledger=ledger), ledger

    def draw(side: int, count: int) -> Looks:
        released = [once(side)[0] for _ in range(count)]
        numbers = np.array([sum(one.products, ()) for one in released])
        losses = [neighbours.subspace_loss(one, *points) for one in released]
        eigenvalues = [one.eigenvalues() for one in released]
        return {"numbers": np.column_stack([losses, numbers, eigenvalues]), "low bits": neighbours.codes(numbers)}

    claim = claim_of(once(0)[1].charges, delta=DELTA)
    words = f"subspace iteration: {measurement.charge().mechanism}, {measurement.iterations} products"
    first = tuple(neighbours.product(orthonormal(start), part) for part in points)
    reach = _reach(*first, charge=measurement.charge()) if measurement.iterations == 1 else None
    return Case(words, tables.words, claim, reach, draw, share)


def mechanism_cases() -> list[Case]:
    """Return every mechanism on its worst-case neighbouring tables."""
    sums = [*_laplace_cases(), *_cube_cases(), *_wishart_cases(), *_gaussian_cases(), *person_cases()]
    return [*_noise_cases(), *sums, missing_case(), *_histogram_cases(), *_subspace_cases()]


def _histogram_cases() -> list[Case]:
    single = [histogram_case(mechanism) for mechanism in ("discrete laplace", "discrete gaussian")]
    return [*single, histogram_case("discrete laplace", rows=9)]


def _noise_cases() -> list[Case]:
    return [
        noise_case("discrete laplace", [2**17 - 1], epsilon=1.0, share=MANY),
        noise_case("discrete laplace", [1, 1], epsilon=1.0, share=MANY),
        noise_case("cube", [2**17 - 1] * 3, epsilon=1.0),
        noise_case("cube", [2, 2], epsilon=1.0),
        noise_case("wishart", [0, 12], epsilon=1.0),
        noise_case("wishart", [2**17 - 1, 0], epsilon=1.0),
        noise_case("discrete gaussian", [2**17 - 1], epsilon=EPSILON, share=MANY),
        noise_case("discrete gaussian", [3, 4], epsilon=EPSILON, share=MANY),
    ]


# A table of two columns with four hat functions each, and one of single columns.
_PAIR = SoftTables((TableColumn(0, 4), TableColumn(1, 4)), 2)
_SINGLE = SoftTables((TableColumn(0, 4), TableColumn(1, 4)), 1)
# Hat functions of one column.
_HATS = tuple(term_feature((0, j)) for j in range(1, 9))


def person_cases() -> list[Case]:
    """Return a person with many rows, of which some are taken, who is exchanged for one with a single row."""
    mean = Measurement("a mean, a person with 9 rows", _means(1), "discrete laplace", epsilon=EPSILON, averaged=3)
    table = Measurement(
        "a table of soft cells, a person with 9 rows",
        _PAIR.cells(((0, 1),)),
        "discrete gaussian",
        multiplier=gaussian_multiplier(GAUSSIAN_EPSILON, DELTA),
        transformation=Transformation.straight(2, _PAIR),
        averaged=3,
    )
    return [
        measurement_case(mean, of_persons(worst_pair(mean, 1), 9)),
        measurement_case(table, of_persons(worst_pair(table, 2), 9)),
    ]


def _laplace_cases() -> list[Case]:
    return [
        _worst("2 means", _means(2)),
        _worst("2 second moments T_2", _squares(2)),
        _worst("all of degree 2", total_degree(2, 2)),
        _worst("tensor of degrees 0, 1, 2", tensor(3, 2)),
        _worst("pooled T_2 of 3 columns", (pooled(2, range(3)),), dimensions=3),
        _worst("a mean, 2 rows a person", _means(1), dimensions=1, rows_per_person=2),
        _worst(
            "8 hat functions of a column",
            _HATS,
            dimensions=1,
            transformation=Transformation.straight(1, RankHistogram(8)),
        ),
        _worst(
            "a table of soft cells of 2 columns",
            _PAIR.cells(((0, 1),)),
            transformation=Transformation.straight(2, _PAIR),
        ),
        _worst(
            "tables of soft cells of each of 2 columns",
            _SINGLE.cells(((0,), (1,))),
            transformation=Transformation.straight(2, _SINGLE),
        ),
    ]


def _cube_cases() -> list[Case]:
    means = Measurement("3 means", _means(3), "cube", epsilon=EPSILON)
    cosines = tuple(term_feature((0, k)) for k in (1, 2, 3))
    seen = Measurement(
        "3 cosines of row norms", cosines, "cube", EPSILON, transformation=Transformation.straight(1, RowNorms())
    )
    lowest, far, nothing = (-EDGE,) * 3, (1e300, math.inf, 40.0), (math.nan,) * 3
    return [
        measurement_case(means, worst_pair(means, 3)),
        measurement_case(means, pair(far, lowest, rows=50)),
        measurement_case(means, pair(nothing, lowest, rows=2)),
        measurement_case(means, pair(far, nothing)),
        measurement_case(seen, worst_pair(seen, 2)),
    ]


# Knots that spread the middle, and rows clipped to norm 1: what a second round of a design does.
_CLIPPED = Transformation.from_values(np.tile(np.sin(knot_places() * math.pi / 2), (2, 1)), ClippedSecondMoments(1.0))


def _wishart_cases() -> list[Case]:
    # Means of a small weight: rows of two columns then move diagonals, whose noise has the heaviest tails.
    half = math.sqrt(0.125)
    weights = (0.1, 0.1, half, 1, half)
    return [
        _worst(
            "all of degree 2, clipped rows", total_degree(2, 2), "wishart", weights=weights, transformation=_CLIPPED
        ),
    ]


def _gaussian_cases() -> list[Case]:
    half = math.sqrt(0.125)
    return [
        _worst("2 means and T_2", (*_means(2), *_squares(2)), "discrete gaussian", weights=(1, 1, *[FREE_SQUARE] * 2)),
        _worst("all of degree 2", total_degree(2, 2), "discrete gaussian", weights=(1, 1, half, 1, half)),
        _worst(
            "all of degree 2, clipped rows",
            total_degree(2, 2),
            "discrete gaussian",
            weights=(1, 1, half, 1, half),
            transformation=_CLIPPED,
        ),
        _worst(
            "8 hat functions of a column",
            _HATS,
            "discrete gaussian",
            dimensions=1,
            weights=(1,) * len(_HATS),
            transformation=Transformation.straight(1, RankHistogram(len(_HATS))),
        ),
        _worst(
            "cosines of 8 hat functions of a column",
            _HATS[:-1],
            "discrete gaussian",
            dimensions=1,
            weights=falling(_HATS[:-1], power=COSINE_POWER),
            transformation=Transformation.straight(1, RankHistogram(len(_HATS), cosines=True)),
        ),
        _worst(
            "a table of soft cells of 2 columns",
            _PAIR.cells(((0, 1),)),
            "discrete gaussian",
            transformation=Transformation.straight(2, _PAIR),
        ),
    ]


def missing_case() -> Case:
    """Measure a column with a value in one table and without it in the other: its own features then have nothing of it."""
    measurement = Measurement(
        "mean and T_2 of a column, and whether it is missing",
        (*_means(1), *_squares(1), term_feature((1, 1))),
        "discrete gaussian",
        **_cost("discrete gaussian"),
        weights=whole_weights((1.0, FREE_SQUARE, INDICATOR_WEIGHT)),
        binary=(1,),
        missing=((0, 1),),
    )
    return measurement_case(measurement, replace(pair((EDGE,), (math.nan,)), nullable=True))


def _subspace_cases() -> list[Case]:
    # All rows in one corner, then one of them in the opposite corner: it is as far from the mean as a row can be.
    tables = pair((EDGE, EDGE), (-1.0, -1.0), rows=50, stay=-1.0)
    multiplier = gaussian_multiplier(GAUSSIAN_EPSILON, DELTA)
    laplace = SubspaceMeasurement(2, 1, 1, epsilon=EPSILON)
    gaussian = SubspaceMeasurement(2, 2, 2, multiplier=multiplier * math.sqrt(2.0))
    return [subspace_case(laplace, tables), subspace_case(gaussian, tables, share=0.5)]


def _worst(
    purpose: str,
    features: Sequence[Feature],
    mechanism: str = "discrete laplace",
    *,
    dimensions: int = 2,
    weights: Sequence[float] = (),
    **settings: Any,
) -> Case:
    measurement = Measurement(
        purpose,
        features,
        mechanism,
        **_cost(mechanism),
        weights=whole_weights(weights) if weights else (),
        **settings,
    )
    return measurement_case(measurement, worst_pair(measurement, dimensions))


def _cost(mechanism: str) -> dict[str, Any]:
    gaussian = mechanism == "discrete gaussian"
    return {"multiplier": gaussian_multiplier(GAUSSIAN_EPSILON, DELTA)} if gaussian else {"epsilon": EPSILON}


def _means(dimensions: int) -> tuple[Feature, ...]:
    return tuple(term_feature((c, 1)) for c in range(dimensions))


def _squares(dimensions: int) -> tuple[Feature, ...]:
    return tuple(term_feature((c, 2)) for c in range(dimensions))


def _reach(*centres: Any, charge: Charge) -> float:
    apart = neighbours.distance(*centres, charge=charge)
    return apart if charge.multiplier is None else Claim(0.0, DELTA, charge.multiplier).of_length(apart)


class Remembering:
    """An engine that reads each table once: its sums are the same integers at every pass (contract tests)."""

    def __init__(self) -> None:
        self._engine = LocalEngine()
        self._sums: dict[int, SealedSums] = {}

    def sums(self, table: Table, features: Sequence[Feature], **settings: Any) -> SealedSums:
        """Return the exact sums, from the first pass over this table."""
        if id(table) not in self._sums:
            self._sums[id(table)] = self._engine.sums(table, features, **settings)
        return self._sums[id(table)]
