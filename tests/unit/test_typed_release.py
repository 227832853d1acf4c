"""A release of columns of every type: written, read, verified; and what is refused of a forged one."""

import datetime as dt
import hashlib
import json
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smoothsynth as ss
from smoothsynth.pipeline.release import as_text, write_rows

SCHEMA = ss.Schema(
    {
        "sex": ss.Category(["f", "m"]),
        "age": ss.Number(0, 120, nullable=True),
        "town": ss.Category(["NA", "b", "rest"], other="rest", nullable=True),
        "cost": ss.Number(1, 1e6, transform="log"),
        "well": ss.Boolean(nullable=True),
        "born": ss.Date("1950-01-01", "2000-12-31"),
        "seen": ss.Datetime("2020-01-01", "2021-01-01", nullable=True),
        "ward": ss.Category([1, 2, 30]),
    }
)
ROWS = 1500


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(4)
    sex = rng.choice(["f", "m"], ROWS, p=[0.7, 0.3])
    days = [dt.date(1960, 1, 1) + dt.timedelta(days=int(n)) for n in rng.integers(0, 9000, ROWS)]
    times = [dt.datetime(2020, 2, 1) + dt.timedelta(minutes=int(n)) for n in rng.integers(0, 300_000, ROWS)]
    return pd.DataFrame(
        {
            "sex": sex,
            "age": np.where(rng.random(ROWS) < 0.2, np.nan, np.where(sex == "f", 70, 30) + rng.normal(0, 8, ROWS)),
            "town": pd.Series(rng.choice(["NA", "b", "elsewhere"], ROWS)).where(rng.random(ROWS) < 0.8),
            "cost": rng.lognormal(5, 2, ROWS),
            "well": pd.Series(rng.random(ROWS) < 0.9).astype("boolean").where(rng.random(ROWS) < 0.7),
            "born": days,
            "seen": pd.Series(times).where(rng.random(ROWS) < 0.6),
            "ward": rng.choice([1, 2, 30], ROWS, p=[0.6, 0.3, 0.1]),
        }
    )


@pytest.fixture(scope="module")
def release(frame):
    return ss.release(frame, schema=SCHEMA, epsilon=4.0, delta=1e-6, seed=3)


@pytest.fixture(scope="module")
def folder(release, tmp_path_factory):
    return release.write(tmp_path_factory.mktemp("typed") / "out", csv=True)


def test_the_rows_are_of_the_schema(release):
    table = release.to_arrow()
    assert table.schema.types == [column.arrow_type() for column in SCHEMA.columns.values()]
    unit = release.unit_rows()
    assert np.array_equal(SCHEMA.snap(unit), unit)
    assert [table[name].null_count > 0 for name in SCHEMA.names] == [False, True, True, False, True, False, True, False]


def test_shares_and_means_by_level_survive(release, frame):
    made = release.to_pandas()
    assert made["sex"].value_counts(normalize=True)["f"] == pytest.approx(0.7, abs=0.06)
    assert made["age"].isna().mean() == pytest.approx(frame["age"].isna().mean(), abs=0.06)
    assert made["ward"].value_counts(normalize=True)[30] == pytest.approx(0.1, abs=0.06)
    means = made.groupby("sex")["age"].mean()
    assert means["f"] - means["m"] > 20
    assert np.log(made["cost"]).median() == pytest.approx(5, abs=0.6)


def test_what_is_written_is_what_is_read(release, folder):
    again = ss.load(folder)
    assert again.schema == SCHEMA
    assert again.table.equals(release.table)
    assert [m.measurement for m in again.moments] == [m.measurement for m in release.moments]
    assert any(m.measurement.binary for m in again.moments)


def test_it_verifies(folder):
    found = ss.verify(folder)
    assert found.passed, str(found)


def forged(folder, tmp_path, *, moments=None, rows=None):
    """A copy with other moments or rows, and with hashes that agree with them."""
    copy = tmp_path / "forged"
    shutil.copytree(folder, copy)
    if moments is not None:
        document = json.loads((copy / "moments.json").read_text())
        moments(document["moments"])
        (copy / "moments.json").write_bytes(as_text(document).encode())
    if rows is not None:
        write_rows(rows(pq.read_table(copy / "synthetic.parquet")), copy / "synthetic.parquet")
    receipt = json.loads((copy / "receipt.json").read_text())
    receipt["sha256"] = {name: hashlib.sha256((copy / name).read_bytes()).hexdigest() for name in receipt["sha256"]}
    (copy / "receipt.json").write_bytes(as_text(receipt).encode())
    return copy


def failed(path):
    return {check.name for check in ss.verify(path).failures}


@pytest.mark.parametrize("pairs", [None, [[0, 1]]], ids=["none", "levels"])
def test_missing_values_that_add_nothing_are_those_of_the_schema(folder, tmp_path, pairs):
    """Without the pairs a row would move the sums farther than is charged for."""

    def claim(moments):
        named = [one for one in moments if "missing" in one]
        assert named
        for one in named:
            one.pop("missing") if pairs is None else one.update(missing=pairs)

    path = forged(folder, tmp_path, moments=claim)
    assert {"sensitivities", "moments"} & failed(path)


VALUE = SCHEMA.coordinates.index("age")


@pytest.mark.parametrize(
    ("binary", "exclusive"),
    [([*SCHEMA.binary, VALUE], SCHEMA.exclusive), (SCHEMA.binary, [[0, 1, 4], [5, 6]]), (SCHEMA.binary, [[0, 1, 3]])],
    ids=["a value as a mark", "levels of two categories", "a mark as a level"],
)
def test_a_measurement_that_claims_too_much_is_refused(folder, tmp_path, binary, exclusive):
    def claim(moments):
        for one in moments:
            one["binary"], one["exclusive"] = list(binary), [list(group) for group in exclusive]

    path = forged(folder, tmp_path, moments=claim)
    with pytest.raises(ss.ReleaseError, match=r"levels and marks of the schema|must be measured itself"):
        ss.load(path)
    # A mark that is a level cannot be subtracted: such moments are not even read.
    assert {"sensitivities", "moments"} & set(failed(path))


def test_marks_of_the_wrong_type_are_refused(folder, tmp_path):
    def spoil(moments):
        moments[0]["binary"] = ["1"]

    with pytest.raises(ss.ReleaseError, match="of the right type"):
        ss.load(forged(folder, tmp_path, moments=spoil))


def replaced(name, cells):
    def change(table):
        column = table[name]
        new = pa.array([*cells, *column.to_pylist()[len(cells) :]], column.type)
        return table.set_column(table.column_names.index(name), name, new)

    return change


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("sex", ["x"]),
        ("sex", [None]),
        ("town", ["elsewhere"]),
        ("ward", [3]),
        ("age", [121.0]),
        ("cost", [0.5]),
        ("cost", [None]),
        ("born", [dt.date(1949, 12, 31)]),
        ("seen", [dt.datetime(2021, 1, 1, 0, 0, 1)]),
    ],
)
def test_cells_that_no_row_can_have_are_refused(folder, tmp_path, name, cells):
    path = forged(folder, tmp_path, rows=replaced(name, cells))
    with pytest.raises(ss.ReleaseError, match="that its column can take"):
        ss.load(path)
    # To verify takes a second: once is enough, since it reads rows in the same way.
    if name == "town":
        assert "rows" in failed(path)


def test_a_table_in_a_csv_file_is_the_same_table(frame, tmp_path):
    """The sums are exact, so what is measured differs by noise only; here, that nothing fails on text."""
    frame.to_csv(tmp_path / "rows.csv", index=False)
    made = ss.release(tmp_path / "rows.csv", schema=SCHEMA, epsilon=4.0, seed=3)
    assert made.to_arrow().num_rows == ROWS
