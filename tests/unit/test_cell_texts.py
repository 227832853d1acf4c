"""The one text of a cell, and the texts that name the same level."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import smoothsynth as ss
from smoothsynth.adapters.sdv import iso_dates
from smoothsynth.schema.texts import level_key, level_text, text_of

TEXTS = [
    (1.0, "1"), (-0.0, "0"), (1e16, "10000000000000000"), (0.1, "0.1"), (np.float32(0.1), "0.10000000149011612"),
    (2**80, str(2**80)), (10**5000, "1e9999"), (-(10**5000), "-1e9999"), (np.longdouble("1e4000"), "inf"),
    (Decimal("1.50"), "1.5"), (Decimal("1e999999999"), "inf"), (Decimal("sNaN"), None), (True, "true"), (np.False_, "false"),
    (b"\xff5", "\ufffd5"), ("\ud800x", "\ufffdx"), (1j, None), ([1], None), (pd.NA, None), (pd.NaT, None),
    (np.timedelta64(1, "s"), None),
    (pd.Timestamp("2020-01-31", tz="Asia/Tokyo"), "2020-01-30T15:00:00"), (np.datetime64("2020", "Y"), "2020-01-01T00:00:00"),
    (np.datetime64(-(2**62), "Y"), "0001-01-01T00:00:00"), (np.datetime64("NaT"), None), (float("nan"), None),
]  # fmt: skip


def test_the_text_of_a_cell():
    for cell, text in TEXTS:
        assert text_of(cell) == text


def test_texts_that_name_the_same_level():
    assert {level_key(text) for text in ("1", "01", "1.", "1.000", "+1", "1e0", "0.1E1")} == {"1"}
    assert {level_key(text) for text in ("-0", "0.0", "000", "0e9")} == {"0"}
    assert [level_key(text) for text in ("True", "INF", "NaN", "1_0", "9" * 4500)] == [
        "true",
        "inf",
        None,
        "1_0",
        "inf",
    ]
    assert level_key(f"{2**60 + 1}.0") == str(2**60 + 1)
    assert [level_text(text) for text in ("1.0", "-0.", "007", "1e5", "10.10", "TRUE", "nan")] == [
        "1", "0", "007", "1e5", "10.10", "true", None]  # fmt: skip


def test_dates_in_a_format_are_read_one_by_one():
    cells = ["31/01/2020 12:00:00.123456789", "1/2/2020 12:00:00.5", "x", None, pd.Timestamp("9999-12-31"), 5]
    found = iso_dates(cells, "%d/%m/%Y %H:%M:%S.%f")
    assert found == [
        "2020-01-31T12:00:00.123456",
        "2020-02-01T12:00:00.500000",
        None,
        None,
        "9999-12-31T00:00:00",
        None,
    ]
    assert iso_dates([20200131, 20200131.0], "%Y%m%d") == ["2020-01-31T00:00:00"] * 2
    with pytest.raises(ss.SchemaError, match="strptime does not know"):
        iso_dates([], "%Y-%Q")


def test_a_long_cell_takes_no_longer_than_its_length():
    long = "1" * 400_000 + "x"
    assert level_key(long) == long


def test_texts_beyond_a_length_are_missing():
    assert text_of("a" * 2**20) is not None
    assert text_of("a" * (2**20 + 1)) is None
    assert text_of("\u20ac" * 2**19) is None
    assert text_of(b"a" * (2**20 + 1)) is None
