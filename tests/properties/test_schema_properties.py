"""Transforms rise, have an inverse and are total; snapping and reading agree with themselves for any cell."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smoothsynth.schema import Boolean, Category, Date, Datetime, Integer, Number, Schema
from smoothsynth.schema.cells import microseconds
from smoothsynth.schema.transform import asinh, log

FINITE = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=5e-324, max_value=1.7e308)


@given(POSITIVE)
def test_the_logarithm_is_within_two_units_of_the_last_place(value):
    found, true = float(log(np.array([value]))[0]), math.log(value)
    assert abs(found - true) <= 2 * math.ulp(true)


@given(FINITE)
def test_asinh_is_within_a_few_units_of_the_last_place(value):
    found, true = float(asinh(np.array([value]))[0]), math.asinh(value)
    assert abs(found - true) <= 4 * math.ulp(true)
    assert math.copysign(1, found) == math.copysign(1, value)


def test_the_logarithm_does_not_depend_on_the_place_of_a_value():
    values = 10.0 ** np.random.default_rng(0).uniform(-300, 300, 1003)
    whole = log(values)
    assert all(log(values[i : i + 1])[0] == whole[i] for i in range(0, 1003, 17))
    assert np.array_equal(log(values[::3]), whole[::3])


@st.composite
def columns(draw):
    """A number with one of the transforms, between bounds of any size."""
    transform = draw(st.sampled_from([None, "log", "asinh", "rank-to-public-quantiles"]))
    lower, upper = sorted(draw(st.tuples(FINITE, FINITE)))
    if transform == "log":
        lower, upper = sorted(draw(st.tuples(POSITIVE, POSITIVE)))
    options = {}
    if transform == "asinh":
        options["scale"] = draw(st.none() | st.floats(1e-3, 1e6))
    if transform == "rank-to-public-quantiles":
        options["quantiles"] = sorted(draw(st.sets(st.floats(lower, upper), min_size=1, max_size=6)))
    column = Number(lower, upper, transform=transform, **options)
    assume(column.problem() is None)
    return column


def finest(column):
    """What doubles can tell apart of a coordinate, which is more between bounds that are close together."""
    ends = np.array(column.bounds)
    low, high = (ends if column.map is None else column.map.up(ends)).tolist()
    return 1e-15 + 8 * max(math.ulp(low), math.ulp(high)) / (high / 2 - low / 2)


@given(columns(), st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_values_come_back(column, shares):
    lower, upper = column.bounds
    values = np.clip(np.array([lower * (1 - s) + upper * s for s in shares]), lower, upper)
    unit = column.to_unit(values)
    back = column.from_unit(unit)
    assert np.all(np.abs(unit) <= 1)
    assert np.all((back >= lower) & (back <= upper))
    # A step of the coordinate, times the slope of the inverse there.
    apart = np.abs(
        column.from_unit(np.minimum(unit + 1e-12, 1)) / 2 - column.from_unit(np.maximum(unit - 1e-12, -1)) / 2
    )
    assert np.all(np.abs(back / 2 - values / 2) <= apart + 1e-12 * np.abs(values / 2) + 1e-300)
    assert np.allclose(column.to_unit(back), unit, rtol=0, atol=1e-10 + 4 * finest(column))


@given(columns(), st.lists(st.floats(), min_size=1, max_size=8))
def test_transforms_are_total_and_rise(column, values):
    values = np.array([*values, *column.bounds, np.nan, np.inf, -np.inf])
    unit = column.to_unit(values)
    assert np.all(np.abs(unit) <= 1)
    assert np.all(unit[np.isnan(values)] == 0)
    order = np.argsort(values[~np.isnan(values)])
    assert np.all(np.diff(unit[~np.isnan(values)][order]) >= -finest(column))
    assert column.to_unit(np.array(column.bounds)) == pytest.approx([-1, 1], abs=finest(column))
    if column.transform is not None:
        assert column.from_unit(np.array([-1.0, 1.0])).tolist() == list(column.bounds)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.sampled_from([None, "log", "asinh"]), st.data())
def test_whole_numbers_come_back_exactly(one, other, transform, data):
    lower, upper = sorted((one, other))
    assume(lower < upper)
    column = Integer(lower, upper, transform=transform)
    values = np.array(data.draw(st.lists(st.integers(lower, upper), min_size=1)))
    assert column.from_unit(column.to_unit(values)).tolist() == values.tolist()
    assert np.array_equal(column.snap(column.to_unit(values)), column.to_unit(values))


SCHEMA = Schema(
    {
        "a": Number(-5, 9, nullable=True),
        "b": Integer(1, 900, transform="log", nullable=True),
        "c": Category(["x", "y", "z"], other="z", nullable=True),
        "d": Category([4, 5]),
        "e": Boolean(nullable=True),
        "f": Date("1999-12-30", "2024-02-29", nullable=True),
        "g": Datetime("1960-01-01", "2060-01-01T10:00:01"),
    }
)


@given(
    st.lists(st.lists(st.floats(-3, 3), min_size=SCHEMA.dimensions, max_size=SCHEMA.dimensions), min_size=1, max_size=5)
)
def test_snapped_points_are_points_of_rows(rows):
    snapped = SCHEMA.snap(np.array(rows))
    made = pa.table(SCHEMA.from_unit(snapped))
    assert np.array_equal(SCHEMA.snap(snapped), snapped)
    read = SCHEMA.to_unit({name: made[name] for name in SCHEMA.names})
    assert np.array_equal(read[:, 1:], snapped[:, 1:])
    assert np.allclose(read[:, 0], snapped[:, 0], rtol=0, atol=1e-15)
    assert np.array_equal(SCHEMA.to_unit({name: made[name].to_pylist() for name in SCHEMA.names}), read)
    assert made.equals(pa.table(SCHEMA.from_unit(np.array(rows))))


DIGITS = st.text("0123456789-T: .Z+", max_size=30)
DATED = st.datetimes().map(str) | st.dates().map(str) | st.datetimes().map(lambda m: m.isoformat("T", "milliseconds"))


@given(st.lists(DIGITS | DATED | st.text(max_size=6) | st.none(), min_size=1, max_size=6))
def test_a_moment_does_not_depend_on_the_cells_beside_it(cells):
    array = pa.array(cells, pa.string())
    together = microseconds(array).tolist()
    assert together == [microseconds(array[i : i + 1])[0] for i in range(len(cells))]
    beside = [microseconds(pa.array([cell, "x"], pa.string()))[0] for cell in cells]
    assert together == beside


@given(st.datetimes(), st.sampled_from(["T", " "]))
def test_moments_in_text_are_the_moments(moment, between):
    found = microseconds(pa.array([moment.isoformat(between), "x"]))[0]
    assert found == pa.array([moment], pa.timestamp("us")).cast(pa.int64())[0].as_py()


@given(st.lists(st.none() | st.text(max_size=4) | st.sampled_from(["x", " y", "z ", "NA"]), max_size=8))
def test_a_level_does_not_depend_on_the_cells_beside_it(cells):
    column = SCHEMA.columns["c"]
    array = pa.array(cells, pa.string())
    together = column.codes(array).tolist()
    assert together == [column.codes(array[i : i + 1])[0] for i in range(len(cells))]
    assert together == column.codes(array.dictionary_encode()).tolist() == column.codes(list(cells)).tolist()


def test_the_wide_and_the_tiny():
    for column in (Number(1e-300, 1.7e308, transform="log"), Number(-1.7e308, 1.7e308, transform="asinh"),
                   Number(-1e308, 1.7e308, transform="rank-to-public-quantiles", quantiles=[-1.0, 0.0, 1e-300])):  # fmt: skip
        assert column.problem() is None
        unit = np.linspace(-1, 1, 1001)
        assert np.all(np.isfinite(column.from_unit(unit)))
        assert column.to_unit(column.from_unit(unit)) == pytest.approx(unit, abs=1e-9)
