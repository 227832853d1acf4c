"""However many rows a person has, exchanging all of them moves the released whole numbers by no more than is charged for."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.errors import PlanError
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import term_feature, total_degree
from smoothsynth.queries.families import ClippedSecondMoments, RankHistogram
from smoothsynth.queries.level_histograms import LevelHistogram, LevelHistograms
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement, coarse_sums
from smoothsynth.queries.selection import TableSelection
from smoothsynth.queries.soft_tables import SoftTables, TableColumn
from smoothsynth.queries.transformation import Transformation

NUMBERS = ss.Schema({"x": ss.Number(-1, 1), "y": ss.Number(-1, 1)}, person="id")
LEVELS = ss.Schema({"a": ss.Category([*"pqrstu"]), "b": ss.Category([*"pqrstu"])}, person="id")
HATS = SoftTables((TableColumn(0, 4), TableColumn(1, 3)), 2)
SINGLE = SoftTables(tuple(TableColumn(None, levels=tuple(range(s, s + 6))) for s in (0, 6)), 1)
PAIR = SoftTables(SINGLE.columns, 2)


def measurement(features, mechanism, **settings):
    cost = {"multiplier": 1.0} if mechanism == "discrete gaussian" else {"epsilon": 1.0}
    return Measurement("the test", features, mechanism, **cost, **settings)


def seen(family, dimensions=2):
    return Transformation.straight(dimensions, family)


MOMENTS = total_degree(2, 2)
BINS = tuple(term_feature((0, j)) for j in range(1, 6))
CASES = {
    "moments, L1": (NUMBERS, measurement(MOMENTS, "discrete laplace")),
    "moments, L2": (NUMBERS, measurement(MOMENTS, "discrete gaussian")),
    "moments of high degree, L2": (NUMBERS, measurement(total_degree(5, 2), "discrete gaussian")),
    "means, Linf": (NUMBERS, measurement(total_degree(1, 2), "cube")),
    "clipped": (NUMBERS, measurement(MOMENTS, "discrete gaussian", transformation=seen(ClippedSecondMoments(0.8)))),
    "hat functions": (NUMBERS, measurement(BINS, "discrete laplace", transformation=seen(RankHistogram(5)))),
    "soft tables, L1": (NUMBERS, measurement(HATS.cells(((0, 1),)), "discrete laplace", transformation=seen(HATS))),
    "soft tables, L2": (NUMBERS, measurement(HATS.cells(((0, 1),)), "discrete gaussian", transformation=seen(HATS))),
    "levels, L1": (
        LEVELS,
        measurement(SINGLE.cells(((0,), (1,))), "discrete laplace", transformation=seen(SINGLE, 12)),
    ),
    "pairs of levels, L2": (
        LEVELS,
        measurement(PAIR.cells(((0, 1),)), "discrete gaussian", transformation=seen(PAIR, 12)),
    ),
}
CODES = [f"{letter}{code}" for letter in "pqrstuv" for code in range(8)]
MANY = ss.Schema({"a": ss.Category(CODES, parents=[1]), "b": ss.Category(CODES, parents=[1])}, person="id")
COUNTED = LevelHistograms((LevelHistogram(0, 1, 56), LevelHistogram(1, 1, 56)))
CASES |= {
    f"many levels, {mechanism}": (
        MANY,
        measurement(COUNTED.cells(), mechanism, transformation=seen(COUNTED, MANY.dimensions)),
    )
    for mechanism in ("discrete laplace", "discrete gaussian")
}
ORDERS = {"l1": 1, "l2": 2, "linf": np.inf}


def integers(persons, schema, measured):
    """The whole numbers before noise, of persons given as lists of rows."""
    ids = [str(i) for i, rows in enumerate(persons) for _ in rows]
    rows = [row for rows in persons for row in rows]
    table = pa.table({"id": ids, **{name: [row[i] for row in rows] for i, name in enumerate(schema.names)}})
    opened = open_table(table, schema, rows_per_person=measured.averaged)
    assert opened.rows == len(persons)
    sums = LocalEngine().sums(opened, measured.features, transformation=measured.transformation)
    return np.array(coarse_sums(sums.unseal(), measured, denominator=sums.denominator))


def draw(rng, schema, count):
    if schema is MANY:
        return [tuple(rng.choice([*CODES[::9], "none"], 2)) for _ in range(count)]
    if schema is LEVELS:
        return [tuple(rng.choice([*"pqrstu"], 2)) for _ in range(count)]
    corner = rng.random() < 0.5
    return [tuple(rng.choice([-1.0, 0.0, 1.0], 2) if corner else rng.uniform(-1, 1, 2)) for _ in range(count)]


@pytest.mark.parametrize("name", CASES)
def test_no_person_moves_the_numbers_further_than_is_charged_for(name):
    schema, measured = CASES[name]
    rng, norm = np.random.default_rng(3), ORDERS[measured.charge().norm]
    for _ in range(12):
        most = int(rng.integers(2, 8))
        one = replace(measured, averaged=most)
        # All rows of the others are taken, so that both tables have them in common whatever the key.
        crowd = [draw(rng, schema, int(rng.integers(1, most + 1))) for _ in range(2)]
        first, second = (integers([*crowd, draw(rng, schema, int(rng.integers(1, 12)))], schema, one) for _ in range(2))
        assert np.linalg.norm(first - second, norm) <= one.sensitivity


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("means, Linf", [(1.0, 1.0), (-1.0, -1.0)]),
        ("hat functions", [(1.0, 0.0), (-1.0, 0.0)]),
        ("soft tables, L1", [(1.0, 1.0), (-1.0, -1.0)]),
        ("soft tables, L2", [(1.0, 1.0), (-1.0, -1.0)]),
        ("levels, L1", [("p", "q"), ("r", "s")]),
        ("pairs of levels, L2", [("p", "q"), ("r", "s")]),
        ("many levels, discrete laplace", [("p0", "q1"), ("r2", "none")]),
        ("many levels, discrete gaussian", [("p0", "q1"), ("r2", "none")]),
    ],
)
def test_a_person_with_many_rows_attains_the_sensitivity_of_one_row(name, rows):
    schema, measured = CASES[name]
    one = replace(measured, averaged=3)
    first, second = (integers([[rows[side]] * times], schema, one) for side, times in ((0, 9), (1, 2)))
    moved = np.linalg.norm(first - second, ORDERS[one.charge().norm])
    assert 0.999 * one.sensitivity < moved <= one.sensitivity
    assert one.sensitivity <= 1.001 * measured.sensitivity


@pytest.mark.parametrize("name", ["levels, L1", "many levels, discrete laplace"])
def test_averages_are_rounded_and_the_bound_for_rows_alone_would_not_hold(name):
    schema, one = CASES[name][0], replace(CASES[name][1], averaged=3)
    texts = [("pqr", "stu"), (["p0", "q1", "r2"], ["s3", "t4", "u5"])][schema is MANY]
    mine, other = ([(level, level) for level in levels] for levels in texts)
    # All cells are at two thirds of a row, where one third more is rounded less.
    crowd = [mine, mine, other, other]
    moved = np.abs(integers([*crowd, mine], schema, one) - integers([*crowd, other], schema, one)).sum()
    assert 4 * FULL_WEIGHT < moved <= one.sensitivity


def test_choosing_has_room_for_averages_too():
    features, transformation = PAIR.cells(((0, 1),)), seen(PAIR, 12)
    plain, several = (
        measurement(
            features,
            "discrete laplace",
            transformation=transformation,
            averaged=averaged,
            choice=TableSelection(1, epsilon=1.0),
        )
        for averaged in (1, 3)
    )
    assert plain.choice_charge().sensitivity == 2 * FULL_WEIGHT
    assert several.choice_charge().sensitivity == 2 * FULL_WEIGHT + 2 * 3 * 4


@pytest.mark.parametrize("settings", [{"averaged": 0}, {"averaged": 33}, {"averaged": 2, "rows_per_person": 2}])
def test_averages_that_the_proof_does_not_cover_are_refused(settings):
    with pytest.raises(PlanError, match="averaged"):
        measurement(MOMENTS, "discrete laplace", **settings)
