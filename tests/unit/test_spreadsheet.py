"""Text that a spreadsheet takes for a formula: never changed, always said."""

import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app
from smoothsynth.pipeline.stored_rows import columns_with_formulas, is_formula

FORMULA = '=HYPERLINK("http://example.org","x")'


@pytest.mark.parametrize(
    "text", [FORMULA, "=1+1", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-cmd", "=", "@", "-5 to 0"]
)
def test_what_a_spreadsheet_computes(text):
    assert is_formula(text)


@pytest.mark.parametrize(
    "text", ["-1", "-1.5", "+49", "-1e5", "-1,5", "-3 %", "-", "+", "", "a=b", "1-2", " =1", "'=1"]
)
def test_what_it_does_not(text):
    assert not is_formula(text)


def made(levels, name="kind"):
    table = pa.table({name: [levels[k % len(levels)] for k in range(60)]})
    return ss.release(table, schema=ss.Schema({name: ss.Category(levels)}), epsilon=5.0, seed=1)


@pytest.mark.parametrize("release", [made([FORMULA, "b"]), made(["a", "b"], name="=name")])
def test_it_is_said_and_the_values_stay(release, tmp_path):
    with pytest.warns(UserWarning, match="takes text in synthetic.csv or codebook.csv for formulas"):
        release.write(tmp_path / "out", csv=True)
    read = pa.csv.read_csv(tmp_path / "out" / "synthetic.csv")
    assert read.to_pylist() == release.to_arrow().to_pylist()
    assert ss.verify(tmp_path / "out").passed


@pytest.mark.parametrize("csv", [False, True])
def test_nothing_is_said_of_numbers_and_signs(csv, tmp_path):
    made(["-1", "-", "b"]).write(tmp_path / "out", csv=csv)


def test_without_a_csv_nothing_is_said(tmp_path):
    made([FORMULA, "b"]).write(tmp_path / "out", csv=False)
    assert not list((tmp_path / "out").glob("*.csv"))


def test_the_codebook_is_said_too_and_the_readme_says_what_to_do(tmp_path):
    schema = ss.Schema({"x": ss.Number(0, 1, description=FORMULA)})
    release = ss.release(pa.table({"x": [0.5] * 60}), schema=schema, epsilon=5.0, seed=1)
    with pytest.warns(UserWarning, match="or codebook.csv for formulas"):
        release.write(tmp_path / "out")
    assert "would take text in `x` for formulas" in (tmp_path / "out" / "README.md").read_text()


def test_whole_numbers_as_levels_are_no_text():
    assert columns_with_formulas(ss.Schema({"x": ss.Category([-1, 1])})) == []


def test_the_command_warns_in_one_line(tmp_path, monkeypatch):
    schema = ss.Schema({"kind": ss.Category([FORMULA, "b"])})
    schema.save(tmp_path / "schema.toml")
    (tmp_path / "rows.csv").write_text("kind\n" + "b\n" * 60)
    monkeypatch.setattr("warnings.filters", [("always", None, Warning, None, 0)])
    command = [
        "release",
        tmp_path / "rows.csv",
        "-s",
        tmp_path / "schema.toml",
        "-e",
        1,
        "-o",
        tmp_path / "out",
        "--csv",
    ]
    shown = CliRunner().invoke(app, [str(word) for word in command])
    assert shown.exit_code == 0
    assert shown.stderr.startswith(
        "Warning: A spreadsheet takes text in synthetic.csv or codebook.csv for formulas (column 'kind')."
    )
