"""One cell changes its own row alone: all others are read to the same bits, from every kind of table and adapter.

Each kind of table is made from the same cells twice, the second time with one odd cell among them, which may give the
whole column another type. A kind of table that cannot hold the odd cell refuses it by itself, or we refuse it by its type.
"""

import datetime as dt
import functools
import io
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from unittest.mock import patch

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothsynth as ss
from smoothsynth.adapters import scikit_learn, sdv, smartnoise
from smoothsynth.private.sources.cells import read_cells, readable
from smoothsynth.private.table import open_table
from smoothsynth.schema.category import labelled
from smoothsynth.schema.cells import arrow_of, doubles

UTC, EAST = dt.timezone.utc, dt.timezone(dt.timedelta(hours=5, minutes=30))


class Evil(str):
    """A text that cannot be printed, compared or looked at."""

    def _fail(self, *_):
        raise RuntimeError("SECRET")

    __str__ = __repr__ = __eq__ = isascii = encode = _fail
    __hash__ = str.__hash__


class Posing(type):
    """The class of classes that say they equal any other."""

    def __eq__(cls, other):
        return True

    def __hash__(cls):
        return hash(float)


class Poser(metaclass=Posing):
    """A cell whose type says that it is another."""


PLAIN = [None, True, False, 0, 1, 7, -3, 2**53 + 1, 2**63, 10**400, 0.5, 1e300, float("nan"), float("inf"), -0.0, "", " ",
         "x", "1.0", "TRUE", "nan", "1e5", "0x10", "2020-02-30", "2020-01-31T12:00:00.123456789", "9" * 400]  # fmt: skip
STRANGE = ["\ud800", "p\udfffq", Evil("x"), b"x", b"\xff\xfe", 1j, 10**5000, [1], [1, 2], (), {}, {"a": 1}, object(), Poser(),
           np.float32(0.1), np.float64("nan"), np.int8(3), np.uint64(2**64 - 1), np.bool_(True), np.longdouble("1e4000"),
           np.array([1, 2]), np.array(5), np.timedelta64(1, "s"), np.datetime64("2020-01-31"), np.datetime64("NaT"),
           np.datetime64(2**40, "D"), np.datetime64(-(2**62), "Y"), np.str_("a"), Decimal("1.50"), Decimal("1e999"),
           Decimal("NaN"), Decimal("sNaN"), Decimal("0.1234567890123456789012345"), dt.date(2020, 1, 31), dt.date.max,
           dt.datetime(2020, 1, 31, 12), dt.datetime(2020, 1, 31, 12, tzinfo=UTC), dt.datetime(1, 1, 1, tzinfo=EAST),
           dt.time(12), dt.timedelta(days=1), pd.NA, pd.NaT, pd.Timestamp("2020-01-31T00:00:00.123456789"),
           pd.Timestamp("2020-01-31").as_unit("ns"), pd.Timestamp("9999-12-31"), pd.Timestamp("2020-01-31", tz="Asia/Tokyo"),
           pd.Timedelta(1), pd.Interval(0, 1), pd.Period("2020-01")]  # fmt: skip
ANY = st.one_of(
    st.sampled_from(PLAIN + STRANGE), st.floats(), st.integers(), st.text(max_size=8), st.binary(max_size=8), st.decimals(),
    st.complex_numbers(), st.datetimes(timezones=st.none() | st.just(EAST)), st.dates(), st.lists(st.integers(), max_size=3),
    st.text("0123456789.eE+-naif", max_size=6), st.characters(categories=["Cs"]),
)  # fmt: skip
TEXT = st.one_of(
    st.sampled_from([cell for cell in PLAIN if isinstance(cell, str)]), st.text("0123456789.eE+-naif tru", max_size=6),
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='",'), max_size=6), st.floats().map(repr),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Cells:
    """Some cells that belong together, and how they are described."""

    column: ss.schema.Column
    cells: list


WORDS, CODES = ss.Category(["true", "false", "none"], other="none"), ss.Category([1, 2, 3], nullable=True)
PADDED = ss.Category(["01", "02", "10.10"])
SPAN = ("1900-01-01T00:00:00", "2100-01-01T00:00:00")
TYPED = {
    "numbers": Cells(ss.Number(-10, 10, nullable=True), [0.1, -2.5, 3.0, 7.25]),
    "single precision": Cells(ss.Number(-10, 10), [np.float32(0.1), np.float32(3), np.float32(-2.3), np.float32(9)]),
    "decimals": Cells(ss.Number(0, 10), [Decimal("0.1"), Decimal("2.30"), Decimal("3"), Decimal("7.7")]),
    "whole numbers": Cells(ss.Integer(0, 9, nullable=True), [1, 2, 3, 8]),
    "truths as numbers": Cells(ss.Number(0, 1, nullable=True), [True, False, True, False]),
    "truths": Cells(ss.Boolean(nullable=True), [True, False, True, False]),
    "numbers as truths": Cells(ss.Boolean(nullable=True), [1.0, 0.0, 1.0, 0.0]),
    "numbers as levels": Cells(CODES, [1.0, 2.0, 3.0, 1.0]),
    "whole numbers as levels": Cells(CODES, [1, 2, 3, 1]),
    "fractions as levels": Cells(ss.Category(["0.1", "10.10", "1e5"]), [0.1, 10.1, 1e5, 0.1]),
    "truths as levels": Cells(WORDS, [True, False, True, False]),
    "texts as levels": Cells(ss.Category(["a", "b", "none"], other="none"), ["a", "b ", "A", "none"]),
    "days": Cells(ss.Date("1900-01-01", "2100-12-31", nullable=True), [dt.date(2020, 1, 31), dt.date(1950, 5, 5)] * 2),
    "moments": Cells(ss.Datetime(*SPAN, nullable=True), [dt.datetime(2020, 1, 31, 7, 8, 9, 10), dt.datetime(1950, 5, 5)] * 2),
    "far moments": Cells(ss.Datetime(*SPAN, nullable=True), [dt.datetime(9999, 12, 31), dt.datetime(1001, 1, 1)] * 2),
    "moments of a zone": Cells(ss.Datetime(*SPAN), [dt.datetime(2020, 1, day, 7, tzinfo=EAST) for day in (1, 2, 30, 31)]),
}  # fmt: skip
WRITTEN = {
    "numbers": Cells(ss.Number(-10, 10, nullable=True), ["0.1", "-2.5", "3", "7.25"]),
    "whole numbers": Cells(ss.Integer(0, 9, nullable=True), ["1", "2", "3", "08"]),
    "truths": Cells(ss.Boolean(nullable=True), ["true", "false", "true", "false"]),
    "truths as numbers": Cells(ss.Number(0, 1, nullable=True), ["True", "False", "True", "False"]),
    "numbers as truths": Cells(ss.Boolean(nullable=True), ["1.0", "0.0", "1", "0"]),
    "numbers as levels": Cells(CODES, ["1.0", "2.0", "3.0", "1.0"]),
    "padded levels": Cells(PADDED, ["01", "02", "10.10", "02"]),
    "truths as levels": Cells(WORDS, ["True", "False", "True", "False"]),
    "days": Cells(ss.Date("1900-01-01", "2100-12-31", nullable=True), ["2020-01-31", "1950-05-05"] * 2),
    "moments": Cells(ss.Datetime(*SPAN, nullable=True), ["2020-01-31 07:08:09", "9999-12-31 00:00:00"] * 2),
}


@contextmanager
def caught_rows(module):
    """Catch the rows that an adapter would release."""
    found = []
    with patch.object(module, "release", lambda data, *, schema, **_: found.append(open_table(data, schema))):
        yield found


def opened(data, column):
    return open_table(data, ss.Schema({"a": column}))


def by_scikit_learn(data, column):
    with caught_rows(scikit_learn) as found:
        ss.Synthesizer(schema=ss.Schema({"a": column, "b": ss.Number(0, 1)})).fit(data)
    return found[0]


def by_smartnoise(data, column):
    with caught_rows(smartnoise) as found:
        smartnoise.SmoothSynthesizer(1.0, schema=ss.Schema({"a": column, "b": ss.Number(0, 1)})).fit(data)
    return found[0]


def by_sdv(data, column):
    form = "%Y-%m-%d %H:%M:%S" if isinstance(column, ss.Datetime) else "%Y-%m-%d"
    metadata = {"columns": {"a": {"sdtype": "datetime", "datetime_format": form}}}
    made = sdv.SmoothSynthesizer(metadata, bounds={"a": (column.lower, column.upper)}, nullable=["a"])
    with caught_rows(sdv) as found:
        made.fit(data)
    return found[0]


def objects(cells):
    found = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        found[place] = cell
    return found


def pandas_objects(cells):
    return pd.DataFrame({"a": pd.Series(objects(cells), dtype=object)})


def pandas_category(cells):
    kinds = {type(cell) for cell in cells}
    if bool in kinds and not kinds <= {bool, str, type(None)}:
        raise TypeError("False and 0 are the same value of a category: pandas keeps one of them.")
    return pd.DataFrame({"a": pd.Series(objects(cells)).astype("category")})


def arrow_table(cells):
    if {dt.date, dt.datetime} <= {type(cell) for cell in cells}:
        raise TypeError("Arrow cuts all moments to days where the first cell is a day.")
    if isinstance(cells[0], dt.date) and {int, float} & {type(cell) for cell in cells}:
        raise TypeError("Arrow makes moments of numbers where the first cell is a moment.")
    if type(cells[0]) is float and bool in {type(cell) for cell in cells}:
        raise TypeError("Arrow makes numbers of truth values where the first cell is a number.")
    return pa.table({"a": pa.array(cells)})


def two_columns(cells):
    """Return an array of objects with a second column of numbers."""
    return np.stack([objects(cells), objects([0.5] * len(cells))], axis=1)


def csv_file(cells):
    return io.StringIO("a,b\n" + "".join(f'"{cell}",1\n' for cell in cells))


@dataclass(frozen=True)
class Container:
    """A kind of table: how its library makes it of cells, and who opens it."""

    make: Callable
    open: Callable = opened


# Each cell stays what it is, or becomes a text of its own.
OF_ANYTHING = {
    "pandas": Container(lambda cells: pd.DataFrame({"a": cells})),
    "pandas objects": Container(pandas_objects),
    "pandas category": Container(pandas_category),
    "arrow": Container(arrow_table),
    "list, scikit-learn": Container(lambda cells: [[cell, 0.5] for cell in cells], by_scikit_learn),
    "tuples, scikit-learn": Container(lambda cells: tuple((cell, 0.5) for cell in cells), by_scikit_learn),
    "objects, scikit-learn": Container(two_columns, by_scikit_learn),
    "no names, scikit-learn": Container(
        lambda cells: pd.DataFrame({0: objects(cells), 1: 0.5}).infer_objects(), by_scikit_learn
    ),
    "names, scikit-learn": Container(lambda cells: pd.DataFrame({"a": cells, "b": 0.5}), by_scikit_learn),
    "list, SmartNoise": Container(lambda cells: [(cell, 0.5) for cell in cells], by_smartnoise),
    "objects, SmartNoise": Container(two_columns, by_smartnoise),
}
OF_TEXT = {
    "pandas read_csv": Container(lambda cells: pd.read_csv(csv_file(cells))),
    "pandas string": Container(lambda cells: pd.DataFrame({"a": pd.Series(cells, dtype="string")})),
    "polars read_csv": Container(lambda cells: pl.read_csv(csv_file(cells), infer_schema_length=None)),
    # Materialized, so that what DuckDB cannot hold is refused there.
    "duckdb read_csv": Container(
        lambda cells: duckdb.read_csv(csv_file(cells), header=True, sample_size=-1).materialize()
    ),
    "text array, scikit-learn": Container(lambda cells: np.array([[cell, "0.5"] for cell in cells]), by_scikit_learn),
    "arrow": Container(lambda cells: pa.table({"a": pa.array(cells, pa.string())})),
    "arrow dictionary": Container(lambda cells: pa.table({"a": pa.array(cells, pa.string()).dictionary_encode()})),
}
# Arrow holds few odd cells.
LEAST_HELD = {"arrow": 0.1, "pandas category": 0.7}
# What the library of a table says when it cannot hold a cell; that is before anybody here has seen it.
FOREIGN = (
    TypeError,
    ValueError,
    OverflowError,
    RuntimeError,
    pa.ArrowException,
    pl.exceptions.PolarsError,
    duckdb.Error,
)


def rows_of(container, cells, column):
    """Return what is read of each row, as bits; None if the library or the type of the table refuses all of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = container.make(cells)
        except FOREIGN:
            return None
    try:
        table = container.open(data, column)
    except ss.DataError as error:
        if " its type is " not in str(error):
            raise
        return None
    assert table.rows == len(cells)
    arrays = [batch.column("a") for batch in table._batches(3)]
    return [bits for array in arrays for bits in bits_of(array, column)]


def bits_of(array, column):
    """Return each cell as it is read, and the level that it would be counted as."""
    found = np.asarray(read_cells(array, column), dtype=np.float64) + 0.0
    # Of what is missing neither sign nor payload counts.
    found[np.isnan(found)] = np.nan
    numbers = [number.tobytes() for number in found]
    if not isinstance(column, ss.Category):
        return numbers
    if column == PADDED:
        # Private levels are named as they are written, and a program that reads 01 as a number has lost how.
        return numbers
    texts, places = labelled(array)
    return list(zip(numbers, [texts[place] if place >= 0 else None for place in places], strict=True))


@functools.cache
def usual_rows(container, known):
    return rows_of(container, known.cells, known.column)


def others_stay(container, known, odd, place):
    """Say whether all other rows are read as without the odd cell; None if the table cannot hold it."""
    before = usual_rows(container, known)
    after = rows_of(container, [odd if i == place else c for i, c in enumerate(known.cells)], known.column)
    if before is None or after is None:
        return None
    return all(one == other for i, (one, other) in enumerate(zip(before, after, strict=True)) if i != place)


FEW = [None, "x", 0.5, 1j, b"x", pd.Timestamp("2020-01-31").as_unit("ns")]


@pytest.mark.parametrize("odd", [FEW, pytest.param(PLAIN + STRANGE, marks=pytest.mark.slow)], ids=["few", "all"])
@pytest.mark.parametrize("container", OF_ANYTHING)
def test_odd_cells_among_cells_of_every_kind(container, odd):
    """What was refused by its type is counted, so that the test does not pass by refusing."""
    found = [
        (name, which, others_stay(OF_ANYTHING[container], known, cell, 1))
        for name, known in TYPED.items()
        for which, cell in enumerate(odd)
    ]
    assert not [one for one in found if one[2] is False]
    assert sum(one[2] is True for one in found) >= LEAST_HELD.get(container, 0.9) * len(found)


@pytest.mark.parametrize("container", OF_ANYTHING)
@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(list(TYPED)), odd=ANY, place=st.integers(0, 3))
def test_any_cell(container, kind, odd, place):
    assert others_stay(OF_ANYTHING[container], TYPED[kind], odd, place) is not False


@pytest.mark.parametrize("container", OF_TEXT)
@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(list(WRITTEN)), odd=TEXT, place=st.integers(0, 3))
def test_any_text(container, kind, odd, place):
    assert others_stay(OF_TEXT[container], WRITTEN[kind], odd, place) is not False


@pytest.mark.parametrize("container", OF_TEXT)
@pytest.mark.parametrize("kind", WRITTEN)
def test_a_text_that_gives_its_column_another_type(container, kind):
    for odd in ("x", "", "0.5", "1e400"):
        assert others_stay(OF_TEXT[container], WRITTEN[kind], odd, 2) is not False


POLARS = Container(lambda cells: pl.DataFrame({"a": cells}, strict=False))


@pytest.mark.parametrize("kind", [name for name in TYPED if name not in ("single precision", "moments of a zone")])
def test_polars_makes_text_of_a_column_with_one_text(kind):
    for odd in (None, "x"):
        stay = others_stay(POLARS, TYPED[kind], odd, 1)
        assert stay or (stay is None and kind.endswith("moments"))


DATES = [name for name in TYPED if isinstance(TYPED[name].column, (ss.Date, ss.Datetime))]
BY_SDV = Container(pandas_objects, by_sdv)


@pytest.mark.parametrize("known", [*(TYPED[name] for name in DATES), WRITTEN["days"], WRITTEN["moments"]])
@settings(max_examples=40, deadline=None)
@given(odd=ANY | TEXT, place=st.integers(0, 3))
def test_any_cell_among_the_dates_of_sdv(known, odd, place):
    assert others_stay(BY_SDV, known, odd, place)


def test_sdv_reads_dates_in_the_stated_format():
    cells = ["2020-01-31 07:08:09", "31.1.2020", dt.datetime(2020, 1, 31, 7, 8, 9)]
    text, missing, same = rows_of(BY_SDV, cells, ss.Datetime(*SPAN, nullable=True))
    assert text == same != missing


ARROW = {
    pa.bool_(): st.booleans(), pa.int8(): st.integers(-128, 127), pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1), pa.float32(): st.floats(width=32), pa.float64(): st.floats(),
    pa.decimal128(38, 19): st.decimals(-(10**9), 10**9, places=9), pa.string(): st.text(max_size=5), pa.date32(): st.dates(),
    pa.timestamp("s"): st.datetimes().map(lambda moment: moment.replace(microsecond=0)), pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "Asia/Kolkata"): st.datetimes(dt.datetime(1900, 1, 1), timezones=st.just(EAST)),
}  # fmt: skip
COLUMNS = [ss.Number(-9, 9), ss.Boolean(), ss.Date("1900-01-01", "2100-01-01"), ss.Datetime(*SPAN), CODES, WORDS]


@given(type_=st.sampled_from(list(ARROW)), column=st.sampled_from(COLUMNS), data=st.data())
def test_a_cell_is_the_same_by_itself_as_in_a_column_of_its_type(type_, column, data):
    cells = data.draw(st.lists(ARROW[type_] | st.none(), min_size=1, max_size=4))
    array = pa.array(cells, type_)
    if readable(type_, column):
        assert bits_of(array, column) == bits_of(arrow_of(array.to_pylist()), column)


@given(st.decimals(-(10**9), 10**9, places=9))
def test_a_decimal_is_the_nearest_double_whatever_its_scale(cell):
    for scale in (9, 15, 28):
        assert doubles(pa.array([cell], pa.decimal128(38, scale))).tolist() == [float(cell)]
