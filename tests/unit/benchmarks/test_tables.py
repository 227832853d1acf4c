"""benchmarks/accuracy/tables.py takes the tables that it says it takes, with bounds that hold their values."""

import io
import tarfile

import numpy as np
import pandas as pd
import pytest
from benchmarks.accuracy import tables

ROWS = 400
RNG = np.random.default_rng(0)
GOOD = pd.DataFrame(
    {
        "Unnamed: 0": np.arange(ROWS),
        "id": RNG.permutation(ROWS),
        "year": np.arange(ROWS),
        "flag": RNG.integers(0, 2, ROWS),
        "count": RNG.integers(0, 30, ROWS),
        "gaps": np.where(RNG.random(ROWS) < 0.3, np.nan, RNG.normal(size=ROWS)),
        "a": RNG.normal(size=ROWS),
        "b": RNG.normal(size=ROWS),
        "c": RNG.normal(size=ROWS),
        "text": ["x"] * ROWS,
    }
)


def packed(path, files):
    """Write an archive with an archive of CSV files in it, as the package has it."""

    def added(archive, name, content):
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))

    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as archive:
        for name, frame in files.items():
            added(archive, f"resources/rdata/csv/{name}.csv", frame.to_csv(index=False).encode())
        added(archive, "resources/index.txt", b"no table")
    with tarfile.open(path, "w:gz") as archive:
        added(archive, "package/resources.tar.gz", inner.getvalue())
    return path


@pytest.fixture
def archive(tmp_path):
    files = {
        "one/Good": GOOD,
        "two/Good": GOOD,
        "one/Good2": GOOD,
        "one/Short": GOOD.head(ROWS - 1),
        "one/Narrow": GOOD[["a", "b", "c"]],
    }
    return packed(tmp_path / "tables.tar.gz", files)


def test_tables_of_numbers_are_taken_once(archive):
    found = tables.tables(archive)
    assert list(found) == ["Good"]
    assert list(found["Good"].columns) == ["count", "a", "b", "c"]
    assert len(found["Good"]) == ROWS


def test_rows_that_lack_a_number_are_left_out_and_long_tables_are_sampled():
    some = GOOD.assign(a=GOOD["a"].where(GOOD.index != 7))
    assert len(tables.numeric(some)) == ROWS - 1
    long = pd.concat([GOOD] * 60, ignore_index=True)
    assert len(tables.numeric(long)) == tables.MOST_ROWS


def test_bounds_hold_all_values_and_are_not_the_smallest_and_largest(archive):
    table = tables.tables(archive)["Good"]
    schema = tables.schema_of(table)
    assert schema.columns["count"].kind == "integer"
    for name, column in schema.columns.items():
        low, high = column.bounds
        assert low < table[name].min() <= table[name].max() < high


def test_a_run_prints_ratios_and_says_what_is_missing(archive, capsys, tmp_path):
    tables.main(["--archive", str(archive), "--rounds", "1", "--queries", "20", "--delta", "1e-6"])
    shown = capsys.readouterr().out
    assert "Good" in shown
    assert "geometric mean" in shown
    with pytest.raises(SystemExit, match=r"There is no table Bad\. There are: Good"):
        tables.main(["--archive", str(archive), "--only", "Bad"])
    with pytest.raises(SystemExit, match="make bench NAME=tables"):
        tables.main(["--archive", str(tmp_path / "nothing")])
