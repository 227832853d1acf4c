"""Options of reading: stated in the schema, applied cell by cell, the same in every container."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app
from smoothsynth.private.sources.cells import read_cells
from smoothsynth.private.table import open_table
from smoothsynth.schema.reading import with_options


def read(cells, column):
    return [None if value != value else value for value in read_cells(pa.array(cells), column).astype(float).tolist()]


@pytest.mark.parametrize(
    ("decimal", "cells", "values"),
    [
        (",", ["3,5", "-3,5", "1.234,5", "1.234", "3.5", "1.23,4", " 7 ", ",5", "1 234,5", "12,50 €", "EUR 3,1"],
         [3.5, -3.5, 1234.5, 1234.0, None, None, 7.0, 0.5, 1234.5, 12.5, 3.1]),
        (".", ["3.5", "3,5", "1,234.5", "$1,234", "1'234.5", "1e3", "x", "", None, "5 MIO", "--3", "true"],
         [3.5, None, 1234.5, 1234.0, 1234.5, 1000.0, None, None, None, None, None, None]),
    ],
)  # fmt: skip
def test_numbers_are_read_with_their_decimal_sign(decimal, cells, values):
    assert read(cells, ss.Number(0, 10_000, decimal=decimal)) == values


def test_a_cell_is_read_alone():
    column = ss.Number(0, 10_000, decimal=",")
    cells = ["1.234", "3,5", "x", "1.234,5", None]
    alone = [read([cell], column)[0] if cell else None for cell in cells]
    assert read(cells, column) == alone
    assert read(cells[::-1], column) == alone[::-1]


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        ([1.234, 2.5, 7, True, 0.1], ss.Number(0, 10_000, decimal=",")),
        ([1234.5, 999.0, 1e-7], ss.Number(0, 10_000, decimal=".", null_values=[999])),
        ([pd.Timestamp("2020-02-01"), pd.Timestamp("1900-01-01")],
         ss.Date("1900-01-01", "2029-12-31", date_format="%Y-%d-%m", null_values=["1900-01-01"])),
        ([pd.Timestamp("2020-02-01 03:04:05")],
         ss.Datetime("2000-01-01T00:00:00", "2029-12-31T00:00:00", date_format="%d.%m.%Y")),
    ],
)  # fmt: skip
def test_options_are_about_text_so_one_text_among_numbers_changes_no_other_cell(cells, column):
    """Else one person's cell would change how those of all others are read, and noise would be too small."""
    alone = [read_cells(pa.array([cell]), column).astype(float)[0] for cell in cells]
    for beside in ("1,5", "31.01.2020", None, "x"):
        frame = pd.DataFrame({"x": pd.Series([*cells, beside], dtype=object)})
        for mixed in (frame, frame.astype("category")):
            table = open_table(mixed, ss.Schema({"x": column}))
            (batch,) = table._batches(100)
            found = read_cells(batch.column("x"), column).astype(float)[: len(cells)]
            np.testing.assert_array_equal(found, alone)


def test_dates_are_read_by_the_first_format_that_fits():
    column = ss.Date("2000-01-01", "2029-12-31", date_format=["%d.%m.%Y", "%Y-%m-%d"])
    found = read(["31.01.2020", "2020-01-31", "01/31/2020", "31.02.2020", "1.2.2020"], column)
    day = (np.datetime64("2020-01-31") - np.datetime64("1970-01-01")).astype(int)
    assert found == [day, day, None, None, day + 1]


@pytest.mark.parametrize(
    ("cells", "column", "values"),
    [
        (["999", "999.0", "12", "-"], ss.Integer(0, 1000, null_values=[999]), [None, None, 12.0, None]),
        ([999, 12, 5], ss.Integer(0, 1000, null_values=["999"]), [None, 12.0, 5.0]),
        (["u", "a", "b"], ss.Category(["a", "b"], other="b", nullable=True, null_values=["u"]), [-1.0, 0.0, 1.0]),
        ([9.0, 1.0], ss.Number(0, 10, null_values=[9]), [None, 1.0]),
        (["yes", "N", "y", "T", "f", "?"], ss.Boolean(), [1.0, 0.0, 1.0, 1.0, 0.0, None]),
    ],
)
def test_null_values_are_missing(cells, column, values):
    assert read(cells, column) == values


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (ss.Number(0, 1, decimal=";"), "decimal must be"),
        (ss.Number(0, 1, null_values="-"), "null_values must be a list"),
        (ss.Date("2000-01-01", "2001-01-01", date_format="%d.%B.%Y"), "date_format must be"),
        (ss.Date("2000-01-01", "2001-01-01", date_format="%d.%Y"), "date_format must be"),
        (ss.Date("2000-01-01", "2001-01-01", date_format=[]), "date_format must be"),
        (ss.Category(["a", "b"], null_values=["a"]), "a level cannot be"),
    ],
)
def test_options_that_cannot_be_are_refused(column, reason):
    with pytest.raises(ss.SchemaError, match=reason):
        ss.Schema({"x": column})


def test_a_schema_file_keeps_its_options():
    schema = ss.Schema(
        {
            "a": ss.Number(0, 1, decimal=",", null_values=["-", 9]),
            "b": ss.Date("2000-01-01", "2001-01-01", date_format=("%d.%m.%Y",)),
            "c": ss.Boolean(null_values=["?"]),
        }
    )
    assert ss.Schema.parse(schema.to_toml()) == schema
    assert "decimal" not in ss.Number(0, 1).facts()


def test_options_of_the_command_line_are_for_columns_without_their_own():
    schema = ss.Schema({"a": ss.Number(0, 1), "b": ss.Number(0, 1, decimal="."), "c": ss.Boolean()})
    found = with_options(schema, decimal=",", null_values=("-",), date_format=None)
    assert [getattr(column, "decimal", None) for column in found.columns.values()] == [",", ".", None]
    assert {column.null_values for column in found.columns.values()} == {("-",)}


def test_a_release_reads_a_column_of_decimal_commas(tmp_path):
    rng = np.random.default_rng(1)
    heights = rng.normal(170, 9, 2000)
    path = tmp_path / "rows.csv"
    pd.DataFrame({"height": [f"{x:.1f}".replace(".", ",") for x in heights]}).to_csv(path, index=False)
    for bounds in ((50, 230), ("private", "private")):
        schema = ss.Schema({"height": ss.Number(*bounds, decimal=",")})
        made = ss.release(path, schema=schema, epsilon=10.0, seed=1)
        assert abs(np.mean(made.table["height"].to_numpy()) - 170) < 1.5
    report = ss.attack(path, made)
    assert report.attacks.found


def test_private_levels_are_not_among_null_values():
    cells = ["a"] * 500 + ["b"] * 500 + ["?"] * 500
    schema = ss.Schema({"x": ss.Category("private", null_values=["?"])})
    made = ss.release(pd.DataFrame({"x": cells}), schema=schema, epsilon=10.0, delta=1e-6, seed=1)
    assert made.schema.columns["x"].levels == ("a", "b", "other")


def test_a_schema_may_be_a_path_or_a_dictionary(tmp_path):
    schema = ss.Schema({"x": ss.Number(0, 1), "b": ss.Boolean()})
    schema.save(tmp_path / "schema.toml")
    given = [schema, tmp_path / "schema.toml", str(tmp_path / "schema.toml"), schema.facts(), dict(schema.columns)]
    assert [ss.plan(one, 100, epsilon=1.0).schema for one in given] == [schema] * 5
    frame = pd.DataFrame({"x": [0.5] * 50, "b": [True, False] * 25})
    assert ss.release(frame, schema=schema.facts(), epsilon=1.0, seed=1).schema == schema
    with pytest.raises(ss.SchemaError, match="not of a list"):
        ss.plan([1], 100, epsilon=1.0)


def test_all_errors_of_a_schema_come_at_once(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(
        '[columns.a]\ntype = "number"\n[columns.b]\ntype = "odd"\n[columns.c]\ntype = "category"\n'
        '[columns.d]\ntype = "boolean"\n[columns.e]\ntype = "date"\nlower = 2020-01-01\n'
    )
    with pytest.raises(ss.SchemaError) as caught:
        ss.Schema.load(path)
    heading, *problems = caught.value.problems
    assert heading == f"{path}: 4 columns cannot be used:"
    named = [(name, problem) for problem in problems for name in "abcde" if problem.startswith(f"Column '{name}'")]
    assert [name for name, _ in named] == ["a", "b", "c", "e"]
    assert str(caught.value).count("Bounds are public knowledge") == 1
    shown = CliRunner().invoke(app, ["plan", "-s", str(path), "--rows", "100", "-e", "1"])
    assert shown.exit_code == 1
    assert len(shown.stderr.splitlines()) == len(caught.value.problems)
    with pytest.raises(ss.SchemaError, match="2 columns cannot be used"):
        ss.Schema({"x": ss.Number(), "y": ss.Number(0, 1), "z": ss.Category()})


def test_options_of_the_command_are_for_all_columns(tmp_path):
    table, file = tmp_path / "rows.csv", tmp_path / "schema.toml"
    table.write_text("x,day\n" + '"3,5",31.01.2020\n999,01.02.2020\n' * 30)
    ss.Schema({"x": ss.Number(0, 10), "day": ss.Date("2019-01-01", "2021-01-01")}).save(file)
    command = ["check", str(table), "-s", str(file)]
    assert CliRunner().invoke(app, command).exit_code == 3
    options = ["--decimal", ",", "--date-format", "%d.%m.%Y", "--null-values", "999"]
    shown = CliRunner().invoke(app, [*command, *options, "--json"])
    assert shown.exit_code == 0, shown.output
    columns = json.loads(shown.stdout)["columns"]
    assert [(one["missing"], one["unreadable"]) for one in columns] == [(30, 0), (0, 0)]
