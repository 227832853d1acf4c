"""The types of columns: their coordinates, what they read and write, and what is wrong with a bad one."""

import datetime
import datetime as dt
import math
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.private.table import open_table
from smoothsynth.schema.encoding import outside

MIXED = ss.Schema(
    {
        "age": ss.Number(0, 120, nullable=True),
        "sex": ss.Category(["female", "male", "other"], other="other", nullable=True),
        "ward": ss.Category([1, 2]),
        "smoker": ss.Boolean(),
        "well": ss.Boolean(nullable=True),
        "born": ss.Date("1950-01-01", "1950-01-11"),
        "seen": ss.Datetime("2020-01-01T00:00:00", "2020-01-01T00:00:20", nullable=True),
        "visits": ss.Integer(0, 4),
    }
)


def test_coordinates_of_every_type():
    assert MIXED.coordinates == (
        "age", "age is missing", "sex = female", "sex = male", "sex = other", "ward = 1", "ward = 2", "smoker", "well",
        "well is missing", "born", "seen", "seen is missing", "visits",
    )  # fmt: skip
    short = {"value": "v", "level": "l", "missing": "m"}
    assert "".join(short[role] for role in MIXED.roles) == "vmlllllvvmvvmv"
    assert MIXED.dimensions == 14 == len(MIXED.owners)
    assert MIXED.owners[3:6] == (("sex", 1), ("sex", 2), ("ward", 0))
    assert MIXED.exclusive == ((2, 3, 4), (5, 6))
    assert MIXED.whole == (False, True)
    assert MIXED.missing == ((0, 1), (8, 9), (11, 12))
    assert MIXED.binary == (1, 2, 3, 4, 5, 6, 9, 12)
    assert MIXED.coordinates_of("ward") == slice(5, 7)


def test_a_schema_of_numbers_is_what_it_was():
    plain = ss.Schema({"a": ss.Number(0, 1), "b": ss.Integer(0, 3)})
    assert plain.coordinates == ("a", "b")
    assert plain.roles == ("value", "value")
    assert plain.exclusive == plain.whole == plain.missing == plain.binary == ()
    made = plain.from_unit(np.zeros((2, 2)))
    assert [type(cells) for cells in made.values()] == [np.ndarray, np.ndarray]
    assert [cells.dtype for cells in made.values()] == [np.float64, np.int64]


TABLE = {
    "age": np.array([60.0, np.nan, 500.0]),
    "sex": np.array(["male", None, "unknown"], dtype=object),
    "ward": [2, 3, None],
    "smoker": np.array([True, False, True]),
    "well": ["yes", "perhaps", None],
    "born": ["1950-01-06", "1950-02-30", "1999-01-01"],
    "seen": [dt.datetime(2020, 1, 1, 0, 0, 5), None, dt.datetime(2019, 1, 1)],
    "visits": np.array([0, 2, 9]),
}


def test_cells_have_their_places():
    assert MIXED.to_unit(TABLE).tolist() == [
        [0.0, 0, 0, 1, 0, 0, 1, 1, 1, 0, 0.0, -0.5, 0, -1],
        [0.0, 1, 0, 0, 0, 0, 0, -1, 0, 1, 0.0, 0, 1, 0],
        [1.0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 1.0, -1, 0, 1],
    ]


def test_points_become_cells_of_the_right_types():
    made = pa.table(MIXED.from_unit(MIXED.snap(MIXED.to_unit(TABLE))))
    assert made.to_pydict() == {
        "age": [60.0, None, 120.0],
        "sex": ["male", None, "other"],
        "ward": [2, 1, 1],
        "smoker": [True, False, True],
        "well": [True, None, None],
        "born": [dt.date(1950, 1, 6), dt.date(1950, 1, 6), dt.date(1950, 1, 11)],
        "seen": [dt.datetime(2020, 1, 1, 0, 0, 5), None, dt.datetime(2020, 1, 1)],
        "visits": [0, 2, 4],
    }
    assert made.schema.types == [column.arrow_type() for column in MIXED.columns.values()]
    assert not any(outside(column, made[name]) for name, column in MIXED.columns.items())


def test_snapping_takes_the_largest_level_or_none():
    points = np.zeros((4, 14))
    points[:, 2:5] = [[0.2, 0.4, 0.1], [0.2, 0.5, 0.9], [-1, -2, -3], [0.5, 0, 0]]
    points[:, 5:7] = [[0.2, 0.4], [0.5, 0.1], [-1, -2], [0, 0]]
    points[:, 0], points[:, 1] = 0.7, [0.4, 0.5, 2, -1]
    points[:, 13] = [0.3, 0.2, 5, -5]
    snapped = MIXED.snap(points)
    assert snapped[:, 2:5].tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]]
    assert snapped[:, 5:7].tolist() == [[0, 1], [1, 0], [1, 0], [1, 0]]
    assert snapped[:, :2].tolist() == [[0.7, 0], [0, 1], [0, 1], [0.7, 0]]
    assert snapped[:, 13].tolist() == [0.5, 0, 1, -1]
    assert set(np.unique(snapped[:, 7])) <= {-1.0, 1.0}
    assert np.array_equal(MIXED.snap(snapped), snapped)


def test_levels_of_values():
    assert ss.Boolean().levels(5).tolist() == [-1, 1]
    assert ss.Date("2020-01-01", "2020-01-03").levels(3).tolist() == [-1, 0, 1]
    assert ss.Date("2020-01-01", "2020-01-04").levels(3) is None
    assert ss.Datetime("2020-01-01", "2021-01-01").levels(1000) is None
    assert ss.Integer(1, 4, transform="log").levels(4).tolist() == pytest.approx([-1, 0, 2 * math.log(3, 4) - 1, 1])
    assert ss.Number(0, 1, nullable=True).levels(9) is None


CELLS = [
    (["f", " m\t", "M", "", "   ", None, "x"], [0, 1, 2, -1, -1, -1, 2], {"other": "x", "nullable": True}),
    (["f", " m\t", "M", "", "   ", None, "x"], [0, 1, 2, 2, 2, 2, 2], {"other": "x"}),
    (["f", " m\t", "M", "", None, "x"], [0, 1, -1, -1, -1, 2], {}),
    (["f", "m", "M", None], [0, 1, -1, -1], {"nullable": True}),
]


@pytest.mark.parametrize(("cells", "codes", "options"), CELLS)
def test_what_counts_at_which_level(cells, codes, options):
    column = ss.Category(["f", "m", " x "], **{**options, **({"other": " x "} if "other" in options else {})})
    text = pa.array(cells)
    chunks = pa.chunked_array([text[:2], text[2:]])
    for array in (
        np.array(cells, dtype=object),
        cells,
        text,
        text.dictionary_encode(),
        chunks,
        text.cast(pa.large_string()),
    ):
        assert column.codes(array).tolist() == codes


def test_levels_that_are_numbers():
    column = ss.Category([0, 1, 70])
    for array in (pa.array([70, 0, None, 5]), pa.array([70.0, -0.0, math.nan, 1.5]), pa.array(["70.0", "00", "", "x"]),
                  pa.array([70, 0, None, 5]).dictionary_encode(), np.array([70.0, 0.0, np.nan, math.inf]),
                  pa.array([70, 0, None, 9]).cast(pa.decimal128(21, 1))):  # fmt: skip
        assert column.codes(array).tolist() == [2, 0, -1, -1]
    assert column.codes(pa.nulls(2)).tolist() == [-1, -1]
    words = ss.Category(["true", "false"])
    assert words.codes(pa.array([True, False, None])).tolist() == [0, 1, -1]
    assert words.codes(np.array([True, False])).tolist() == [0, 1]
    assert words.codes(["TRUE", False, np.True_, 1]).tolist() == [0, 1, 0, -1]
    exact = [Decimal("70.00"), np.float32(70), 70.0, "7e1", "nan"]
    assert column.codes(exact).tolist() == [2, 2, 2, 2, -1]
    big = ss.Category([2**62, -(2**63)])
    assert big.codes(pa.array([2**62, -(2**63), 2**62 + 1])).tolist() == [0, 1, -1]


def test_levels_that_are_the_same_number_differ_as_text_alone():
    codes = ss.Category(["1", "01", "1.5", "1.50"], other="1")
    assert codes.codes(["01", "1.50", "1.5", "1", "001", 1.5]).tolist() == [1, 3, 2, 0, 0, 2]
    assert not codes.readable_from(doubles=False)
    with pytest.raises(ss.DataError, match=r"must hold text.* its type is double"):
        open_table(pa.table({"a": [1.0, 1.5]}), ss.Schema({"a": codes}))
    open_table(pa.table({"a": ["1", "01"]}), ss.Schema({"a": codes}))
    big = ss.Category([2**53 + 2, 3])
    open_table(pa.table({"a": [3, 4]}), ss.Schema({"a": big}))
    with pytest.raises(ss.DataError, match="must hold text"):
        open_table(pa.table({"a": [3.0, 4.0]}), ss.Schema({"a": big}))


def test_units_of_time_that_arrow_has_not():
    column = ss.Datetime("2000-01-01", "2030-01-01")
    for unit in ("Y", "M", "D", "h", "m", "10s"):
        cells = np.array(["2012-01-01", "NaT"], dtype=f"datetime64[{unit}]")
        assert column.to_unit(cells).tolist() == column.to_unit(["2012-01-01", None]).tolist()
    far = np.array([2**40, -(2**40)], dtype="datetime64[D]")
    assert column.to_unit(far).tolist() == column.to_unit(list(far)).tolist() == [1.0, -1.0]


class Strange:
    """A cell that has no text and is not even equal to itself."""

    def __eq__(self, other):
        raise RuntimeError("SECRET")

    __hash__ = None


def test_no_cell_is_an_error():
    cells = [
        Strange(),
        "\ud800",
        object(),
        b"x",
        float("nan"),
        pa.scalar(1),
        [1],
        {},
        "9" * 400,
        "1e999",
        "0x1",
        True,
        2**70,
    ]
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    points = MIXED.to_unit(dict.fromkeys(MIXED.names, array))
    assert np.all(np.abs(points) <= 1)
    assert np.all(points[:, [2, 3, 4]].sum(axis=1) <= 1)
    assert np.all(points[1:3, 1] == 1)


TRUTHS = ["true", "FALSE", " Yes ", "no", "1", "0", "2", "", None, "maybe", "1.0"]


def test_words_for_true_and_false():
    unit = ss.Boolean().to_unit(np.array(TRUTHS, dtype=object)).tolist()
    assert unit == [1, -1, 1, -1, 1, -1, -1, -1, -1, -1, 1]
    nullable = ss.Boolean(nullable=True).to_unit(np.array(TRUTHS, dtype=object)).tolist()
    assert nullable == [1, -1, 1, -1, 1, -1, 0, 0, 0, 0, 1]
    assert ss.Boolean().to_unit(np.array([0.0, 1.0, 0.5, np.nan])).tolist() == [-1, 1, -1, -1]
    assert ss.Boolean().to_unit(pa.array([0, 1, 7, None])).tolist() == [-1, 1, -1, -1]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2020-02-29", dt.datetime(2020, 2, 29)),
        (" 2020-02-29T12:30 ", dt.datetime(2020, 2, 29, 12, 30)),
        ("2020-02-29 12:30:15.25", dt.datetime(2020, 2, 29, 12, 30, 15, 250_000)),
        ("2020-02-29T12:30:15.1234567891", dt.datetime(2020, 2, 29, 12, 30, 15, 123_456)),
        ("2020-02-29T23:30:00-05:00", dt.datetime(2020, 3, 1, 4, 30)),
        ("2020-02-29T23:30Z", dt.datetime(2020, 2, 29, 23, 30)),
        ("2020-03-01T00:30:00+0530", dt.datetime(2020, 2, 29, 19)),
        ("2020-02-29T12", dt.datetime(2020, 2, 29, 12)),
        ("9999-12-31", dt.datetime(9999, 12, 31)),
        ("0001-01-01", dt.datetime(1, 1, 1)),
    ],
)
def test_texts_that_are_moments(text, moment):
    column = ss.Datetime(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31), nullable=True)
    day = ss.Date(dt.date(1, 1, 1), dt.date(9999, 12, 31))
    for beside in ("2020-01-01", "no date"):
        unit = column.to_unit(pa.array([text, beside]))
        assert unit[0] == column.to_unit(pa.array([moment], pa.timestamp("us")))[0]
        assert day.to_unit(pa.array([text, beside]))[0] == day.to_unit(pa.array([moment.date()]))[0]


NO_MOMENTS = ["", "2021-02-29", "2020-13-01", "2020-00-10", "2020-01-00", "20200131", "2020-1-5", "31.01.2020", "12:00", "0",
              "2020-01-31T24:00", "2020-01-31T12:60", "2020-01-31T12:00:61", "2020-01-31T12:00+25:00", "2020-01-31Tx",
              "1577836800", "2020-01-31T12:00:00+1", "\uff12\uff10\uff12\uff10-01-31"]  # fmt: skip


@pytest.mark.parametrize("text", NO_MOMENTS)
def test_texts_that_are_none(text):
    schema = ss.Schema({"day": ss.Date("2000-01-01", "2030-01-01", nullable=True)})
    for beside in ("2020-01-01", "no date"):
        assert schema.to_unit({"day": pa.array([text, beside])})[0].tolist() == [0, 1]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_of_every_unit(unit):
    column = ss.Datetime("2020-01-01", "2020-01-03")
    cells = pa.array([dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 1, 12), None]).cast(pa.timestamp(unit))
    assert column.to_unit(cells).tolist() == [0.0, -0.5, 0.0]
    far = pa.array([2**63 - 1, -(2**63) + 1]).cast(pa.timestamp(unit))
    assert column.to_unit(far).tolist() == [1, -1]
    zoned = pa.array([dt.datetime(2020, 1, 2)]).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, "UTC"))
    assert column.to_unit(zoned.cast(pa.timestamp(unit, "Asia/Tokyo"))).tolist() == [0.0]


def test_days_of_every_type():
    column = ss.Date("2020-01-01", "2020-01-05")
    for cells in (pa.array([dt.date(2020, 1, 3), None]), pa.array([dt.date(2020, 1, 3), None]).cast(pa.date64()),
                  pa.array([dt.datetime(2020, 1, 3, 23, 59), None]), np.array(["2020-01-03", "NaT"], dtype="datetime64[D]"),
                  np.array([18264.0, np.nan]), [dt.date(2020, 1, 3), None]):  # fmt: skip
        assert column.to_unit(cells).tolist() == [0.0, 0.0]
    assert column.to_unit(pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32())).tolist() == [1, -1]


BAD = [
    (ss.Number(0, 1, nullable=1), "nullable must be true or false"),
    (ss.Number(0, 1, transform="log"), "needs lower > 0"),
    (ss.Number(0, 1, transform="square"), "one of log, asinh, rank"),
    (ss.Number(0, 1, transform=3), "transform is 3"),
    (ss.Number(0, 1, scale=3), "scale is for"),
    (ss.Number(0, 1, transform="asinh", scale=0), "scale must be a positive"),
    (ss.Number(0, 1, transform="asinh", scale="1"), "scale must be a positive"),
    (ss.Number(0, 1, transform="asinh", scale=True), "scale must be a positive"),
    (ss.Number(-1e308, 1e308, transform="asinh", scale=1e-200), "too small"),
    (ss.Number(0, 1, transform="rank-to-public-quantiles"), "go together"),
    (ss.Number(0, 1, quantiles=[0.5]), "go together"),
    (ss.Number(0, 1, transform="rank-to-public-quantiles", quantiles=[]), "list of 1 to"),
    (ss.Number(0, 1, transform="rank-to-public-quantiles", quantiles="0.5"), "list of 1 to"),
    (ss.Number(0, 1, transform="rank-to-public-quantiles", quantiles=["a"]), "must be numbers"),
    (ss.Number(0, 1, transform="rank-to-public-quantiles", quantiles=[0.5, math.nan]), "between"),
    (ss.Number(0, 1, transform="rank-to-public-quantiles", quantiles=[0, 1]), "at least one"),
    (ss.Number(0, 1, transform="rank-to-public-quantiles", quantiles=[0.5, 2]), "between"),
    (ss.Number(0, 1, transform="rank-to-public-quantiles", quantiles=[0.5, 0.4]), "must rise"),
    (ss.Number(0, 1, transform="rank-to-public-quantiles", quantiles=[0.5, 0.5]), "must rise"),
    (ss.Integer(0, 5, transform="log"), "needs lower > 0"),
    (ss.Integer(0, 5, transform="rank-to-public-quantiles"), "one of log, asinh"),
    (ss.Category(), "write levels"),
    (ss.Category(["a"]), "2 to 100,000"),
    (ss.Category(list(map(str, range(100_001)))), "2 to 100,000"),
    (ss.Category("ab"), "2 to 100,000"),
    (ss.Category(["a", 1]), "all texts or all whole"),
    (ss.Category([True, False]), "all texts or all whole"),
    (ss.Category([1.0, 2.0]), "all texts or all whole"),
    (ss.Category(["a", " a "]), "must differ"),
    (ss.Category(["a", " "]), "not empty"),
    (ss.Category(["a", "\ud800"]), "UTF-8"),
    (ss.Category([1, 2**63]), "64 bits"),
    (ss.Category(["a", "b"], other="c"), "one of the levels"),
    (ss.Category([0, 1], other=True), "one of the levels"),
    (ss.Category(["a", "b"], nullable="no"), "nullable must be"),
    (ss.Boolean(nullable=None), "nullable must be"),
    (ss.Date(), "lower bound is missing"),
    (ss.Date("2020-01-01"), "upper bound is missing"),
    (ss.Date("2020-01-32", "2020-02-01"), "a day such as"),
    (ss.Date(0, 1), "a day such as"),
    (ss.Date("2020-02-01", "2020-01-01"), "must be before"),
    (ss.Date("2020-02-01", dt.datetime(2021, 1, 1, 12)), "a day such as"),
    (ss.Datetime("2020-02-01", "2020-02-01T00:00:00.5"), "a moment such as"),
    (ss.Datetime("yesterday", "2020-02-01"), "a moment such as"),
    (ss.Datetime("2020-02-01", "2020-02-01"), "must be before"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "words"), BAD)
def test_bad_facts_name_the_column(column, words):
    with pytest.raises(ss.SchemaError, match="'x'") as found:
        ss.Schema({"x": column})
    assert words in str(found.value)
    assert "public knowledge" in str(found.value)


def test_what_is_saved_is_what_is_loaded(tmp_path):
    schema = ss.Schema(
        {
            **MIXED.columns,
            "income": ss.Number(0, 1e7, transform="asinh", scale=250, nullable=True),
            "cost": ss.Number(1, 1e7, transform="log"),
            "rank": ss.Number(0, 1, transform="rank-to-public-quantiles", quantiles=[0.1, 0.25]),
            "odd": ss.Category(['q"uo\\te', "new\nline", "grüße 🙂", "del\x7f"], other="new\nline"),
            "zoned": ss.Datetime("2020-01-01T00:00:00+01:00", dt.datetime(2021, 1, 1, tzinfo=dt.timezone.utc)),
        }
    )
    schema.save(tmp_path / "schema.toml")
    loaded = ss.Schema.load(tmp_path / "schema.toml")
    assert loaded == schema == ss.Schema.from_facts(schema.facts()) == pickle.loads(pickle.dumps(schema))
    assert loaded.columns["zoned"].lower == dt.datetime(2019, 12, 31, 23)
    assert hash(loaded.columns["sex"]) == hash(schema.columns["sex"])


def test_a_schema_file_may_say_dates_as_toml_does():
    text = """
        [columns.a]
        type = "date"
        lower = 2020-01-01
        upper = "2020-02-01"
        [columns.b]
        type = "datetime"
        lower = 2020-01-01T00:00:00Z
        upper = 2021-01-01
    """
    schema = ss.Schema.parse(text)
    assert schema.columns["a"] == ss.Date("2020-01-01", "2020-02-01")
    assert schema.columns["b"] == ss.Datetime("2020-01-01", "2021-01-01")


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('type = "category"', "write levels"),
        ('type = "category"\nlevels = ["a", "b"]\nlower = 1', "known are type, levels, other, nullable"),
        ('type = "boolean"\nlower = 0', "known are type, nullable"),
        ('type = "date"\ntransform = "log"', "'transform'"),
        ('type = "text"', "number, integer, category, boolean, date, datetime"),
        ('type = "integer"\nlower = 1\nupper = 5\nquantiles = [2]', "'quantiles'"),
    ],
)
def test_a_bad_section_says_what_is_known(section, words):
    with pytest.raises(ss.SchemaError) as found:
        ss.Schema.parse(f"[columns.x]\n{section}\n")
    assert words in str(found.value)


def test_options_are_named():
    for make in (lambda: ss.Number(0, 1, "log"), lambda: ss.Category(["a", "b"], "a"), lambda: ss.Boolean(True)):
        with pytest.raises(TypeError):
            make()


@pytest.mark.parametrize(
    ("name", "cells", "count"),
    [
        ("age", [1.0, None, 121.0, math.nan], 2),
        ("visits", [0, None, 5], 2),
        ("sex", ["male", None, "x"], 1),
        ("ward", [1, None, 3], 2),
        ("smoker", [True, None], 1),
        ("born", [dt.date(1950, 1, 1), dt.date(1949, 12, 31), None], 2),
        ("seen", [dt.datetime(2020, 1, 1), None, dt.datetime(2020, 1, 1, 0, 1)], 1),
    ],
)
def test_cells_that_no_row_can_have_are_counted(name, cells, count):
    column = MIXED.columns[name]
    assert outside(column, pa.chunked_array([pa.array(cells, column.arrow_type())])) == count


def test_days_and_moments_are_levels_by_their_text():
    days = ss.Category(["2020-01-31", "2021-01-31"])
    assert days.codes(pa.array([datetime.date(2020, 1, 31), None, datetime.date(2021, 1, 31)])).tolist() == [0, -1, 1]
    moments = ss.Category(["2020-01-31T12:00:00", "x"])
    assert moments.codes(pa.array([datetime.datetime(2020, 1, 31, 12)], pa.timestamp("ns"))).tolist() == [0]
