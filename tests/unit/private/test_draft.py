"""A draft has names of columns, never a person's cells."""

import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app
from smoothsynth.private.owner import draft_schema
from smoothsynth.private.sources.cells import looks_like_cells

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROW = "Quastenberg,f,47.11235813\n"


@pytest.mark.parametrize(
    "line",
    [
        "anna,47,Berlin",
        "anna,4.7e1,Berlin",
        "anna,-3,Berlin",
        "anna,,Berlin",
        "anna, ,Berlin",
        "anna,f,f",
        "anna,2020-02-29,Berlin",
        "anna,29.2.2020,Berlin",
        "anna,02/29/2020,Berlin",
        "anna,2020-02-29T12:30:00,Berlin",
        "anna,12:30,Berlin",
        "anna,TRUE,Berlin",
        "anna,NA,Berlin",
        "anna,n/a,Berlin",
        "anna,nan,Berlin",
    ],
)
def test_a_first_line_that_looks_like_a_row_is_refused(line, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(f"{line}\n" + "x,1,y\n" * 5)
    with pytest.raises(ss.DataError, match="looks like somebody's cells") as caught:
        draft_schema(path)
    assert "anna" not in str(caught.value)
    assert "Berlin" not in str(caught.value)


@pytest.mark.parametrize("line", ["age,income", "year_2020,q1", "Größe,x²", "t0,t1", "age group,1st visit", "id,Id"])
def test_names_are_names(line):
    assert not looks_like_cells(line.split(","))


def test_rows_below_have_no_say(tmp_path):
    path = tmp_path / "rows.csv"
    drafts = set()
    for below in ("1,2\n", "a,b\n", "2020-01-01,x\n"):
        path.write_text("a,b\n" + below * 3)
        drafts.add('[columns."a"]' in draft_schema(path))
    assert drafts == {True}


def test_the_command_writes_nothing_and_says_how_to_go_on(tmp_path):
    path, output = tmp_path / "rows.csv", tmp_path / "schema.toml"
    path.write_text(ROW * 6)
    refused = CliRunner().invoke(app, ["schema", str(path), "-o", str(output)])
    assert refused.exit_code == 1
    assert "--names" in refused.output
    assert "Quastenberg" not in refused.output
    assert not output.exists()
    made = CliRunner().invoke(app, ["schema", str(path), "-o", str(output), "--names", "name, sex, weight"])
    assert made.exit_code == 0, made.output
    text = output.read_text()
    assert [f'[columns."{name}"]' in text for name in ("name", "sex", "weight")] == [True] * 3
    assert "Quastenberg" not in text


@pytest.mark.parametrize("names", ["a,b", "a,b,c,d", "a,a,b", "a,,b"])
def test_names_must_fit_the_columns(names, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(ROW * 6)
    refused = CliRunner().invoke(app, ["schema", str(path), "--names", names])
    assert refused.exit_code == 1
    assert "3 columns" in refused.output


def test_names_that_look_like_cells_can_be_confirmed(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("2019,2020\n1,2\n")
    assert '[columns."2020"]' in draft_schema(path, names=["2019", "2020"])


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\x1b[31m", "a\u202eb", "a\x7f", "a\U000e0001", "a\tb"])
def test_every_name_is_read_back_from_a_draft_that_can_be_printed(name, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({name: [1.0]}), tmp_path / "rows.parquet")
    text = draft_schema(tmp_path / "rows.parquet")
    assert all(c.isprintable() or c == "\n" for c in text)
    filled = text.replace("# lower = ", "lower = 0").replace("# upper = ", "upper = 1")
    assert ss.Schema.parse(filled).names == (name,)


@pytest.fixture(scope="module")
def messy(tmp_path_factory, write_messy):
    return write_messy(tmp_path_factory.mktemp("messy") / "messy.csv", rows=800)


def test_a_draft_knows_the_cells(messy):
    text = ss.draft(messy)
    found = tomllib.loads(text)
    assert text.startswith("# PRIVATE")
    assert found["drop"] == ["patient_id", "name", "country"]
    assert '# person = "patient_id"' in text
    assert {name: facts["type"] for name, facts in found["columns"].items()} == {
        "admitted": "date",
        "height": "number",
        "age": "integer",
        "sex": "category",
        "smoker": "boolean",
        "cost": "number",
        "weight": "number",
        "diagnosis": "category",
        "lat": "number",
        "lon": "number",
        "visits": "integer",
        "score": "integer",
    }
    assert found["columns"]["height"] == {"type": "number", "decimal": ","}
    assert found["columns"]["admitted"]["date_format"] == ["%d.%m.%Y", "%Y-%m-%d"]
    assert "# null_values = [999]" in text


def test_no_bound_level_or_cell_is_in_a_draft(messy):
    text = ss.draft(messy)
    assert not [line for line in text.splitlines() if line.startswith(("lower", "upper", "levels", "nullable"))]
    for cell in ("femal", "P000001", "Name1", "D001", '"DE"'):
        assert cell not in text


def test_private_bounds_make_a_draft_that_can_be_released(messy):
    schema = ss.Schema.parse(ss.draft(messy, private=True))
    assert schema.columns["height"] == ss.Number("private", "private", decimal=",")
    assert ss.check(messy, schema).passed


def test_a_frame_has_the_same_draft(messy):
    frame = pd.read_csv(messy, dtype=str, keep_default_na=False, na_values=["", "NA"])
    assert ss.draft(frame) == ss.draft(messy)


def test_a_draft_is_for_its_owner_and_not_written_into_a_release(messy, tmp_path):
    output = tmp_path / "schema.toml"
    assert CliRunner().invoke(app, ["schema", str(messy), "-o", str(output)]).exit_code == 0
    assert output.stat().st_mode & 0o077 == 0
    (tmp_path / "receipt.json").write_text("{}")
    refused = CliRunner().invoke(app, ["schema", str(messy), "-o", str(tmp_path / "other.toml")])
    assert refused.exit_code == 1
    assert "inside a release folder" in refused.output


@pytest.mark.parametrize("drop", ['drop = "a"', 'drop = ["x"]', "drop = [1]"])
def test_what_is_dropped_is_a_list_of_other_columns(drop):
    with pytest.raises(ss.SchemaError, match="drop"):
        ss.Schema.parse(f'{drop}\n[columns.x]\ntype = "boolean"\n')
    assert ss.Schema.parse('drop = ["a"]\n[columns.x]\ntype = "boolean"\n').names == ("x",)


def test_columns_of_a_frame_that_cannot_be_named_are_not_passed_over():
    rows = range(30)
    draft = ss.draft(pd.DataFrame([[k, k, k, k] for k in rows], columns=["x", 5, "a", "a"]))
    assert 'drop = ["5", "a"]' in draft
    assert '# [columns."5"]   holds cells under a name that is no text; it is left out.' in draft
    assert '# [columns."a"]   holds cells under a name that several columns have; it is left out.' in draft
    assert ss.check(pd.DataFrame({"x": rows, 5: rows}), {"x": ss.Integer(0, 50)}).not_described == ("5",)
    with pytest.raises(ss.DataError, match="must have columns"):
        ss.draft(pd.DataFrame())
