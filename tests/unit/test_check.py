"""A check names every loss before anything is spent, is marked as private, and tells what to write."""

import copy
import json
import pickle

import pandas as pd
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app
from smoothsynth.pipeline.attack import MARK
from smoothsynth.private.patterns import Texts

LEVELS = ["female", "male", "diverse"]
NAIVE = {
    "admitted": ss.Date("2015-01-01", "2025-12-31"),
    "height": ss.Number(50, 230),
    "age": ss.Integer(0, 120),
    "sex": ss.Category(LEVELS),
    "smoker": ss.Boolean(),
    "cost": ss.Number(0, 100_000),
    "weight": ss.Number(20, 250),
    "country": ss.Category(["DE", "FR"]),
    "diagnosis": ss.Category("private"),
    "visits": ss.Integer(0, 60),
    "score": ss.Integer(0, 10),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory, write_messy):
    return write_messy(tmp_path_factory.mktemp("messy") / "messy.csv")


@pytest.fixture(scope="module")
def report(path):
    return ss.check(path, NAIVE)


def said(report, name):
    (found,) = [one for one in report.columns if one.name == name]
    return {finding.about: finding for finding in found.findings}


def test_every_loss_is_counted(report):
    found = {one.name: one for one in report.columns}
    assert found["height"].unreadable == found["height"].rows == 1500
    assert found["cost"].unreadable == 1500
    assert 0.6 < found["admitted"].unreadable / 1500 < 0.8
    assert found["age"].outside > 20
    assert found["sex"].no_level > 10
    assert found["weight"].missing > 50
    assert found["weight"].unreadable > 20
    assert [found["score"].missing, found["score"].unreadable, found["score"].outside] == [0, 0, 0]
    assert set(report.mostly_lost) == {"height", "cost", "admitted"}
    assert not report.passed
    assert set(report.not_described) == {"patient_id", "name", "lat", "lon"}


@pytest.mark.parametrize(
    ("name", "about", "write"),
    [
        ("height", "decimal commas", 'decimal = ","'),
        ("cost", "decimal commas", 'decimal = ","'),
        ("admitted", "mixed dates", 'date_format = ["%d.%m.%Y", "%Y-%m-%d"]'),
        ("age", "codes for missing", "null_values = [999]"),
        ("age", "missing", "nullable = true"),
        ("weight", "codes for missing", 'null_values = ["-"]'),
        ("weight", "missing", "nullable = true"),
        ("sex", "no level", 'other = "other"'),
        ("country", "constant", "drop"),
        ("diagnosis", "many levels", ""),
        ("visits", "spike", ""),
        ("sex", "typos", ""),
    ],
)
def test_what_to_write_is_said(report, name, about, write):
    assert said(report, name)[about].write == write


def test_a_clean_column_has_nothing_to_say(report):
    assert said(report, "score") == {}
    assert said(report, "smoker") == {}


def test_what_was_told_makes_it_pass(path):
    schema = {
        "admitted": ss.Date("2015-01-01", "2025-12-31", date_format=["%d.%m.%Y", "%Y-%m-%d"]),
        "height": ss.Number(50, 230, decimal=","),
        "age": ss.Integer(0, 120, null_values=[999], nullable=True),
        "cost": ss.Number(0, 100_000, decimal=","),
        "weight": ss.Number(20, 250, null_values=["-"], nullable=True),
    }
    report = ss.check(path, schema)
    assert report.passed
    assert {one.name: one.unreadable for one in report.columns} == dict.fromkeys(schema, 0)
    assert report.in_words().startswith("Every cell that is there can be read.")


def test_many_levels_that_are_declared_need_no_search(path):
    declared = ss.Category([f"D{i:03d}" for i in range(500)])
    assert said(ss.check(path, {"diagnosis": declared}), "diagnosis") == {}


def test_ids_names_and_coordinates_are_known(path):
    columns = {name: ss.Category("private") for name in ("patient_id", "name")}
    report = ss.check(path, {**columns, "lat": ss.Number(-90, 90), "lon": ss.Number(-180, 180)})
    assert said(report, "patient_id")["ids"].is_unusable
    assert said(report, "name")["free text"].is_unusable
    assert "coordinates" in said(report, "lat")
    assert "coordinates" in said(report, "lon")


def test_the_report_is_private(report):
    assert "private" in repr(report)
    assert "1500" not in repr(report)
    assert next(iter(report.as_dict())) == "private"
    json.dumps(report.as_dict())
    for secret in (report, report.columns[0]):
        with pytest.raises(TypeError):
            pickle.dumps(secret)
        with pytest.raises(TypeError):
            copy.copy(secret)


def test_persons_are_counted(path):
    frame = pd.DataFrame({"id": ["a", "a", "a", "b", None], "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
    report = ss.check(frame, ss.Schema({"x": ss.Number(0, 10)}, person="id"))
    assert report.columns[-1].type == "person"
    assert said(report, "id")["no id"].share == 0.2
    assert "3 at most" in said(report, "id")["rows of a person"].sentence


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_and_files_are_counted_alike(path, report, kind):
    frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=["", "NA"])
    if kind == "polars":
        import polars as pl

        frame = pl.from_pandas(frame)
    elif kind == "arrow":
        import pyarrow as pa

        frame = pa.Table.from_pandas(frame)
    assert ss.check(frame, NAIVE).as_dict() == report.as_dict()


@pytest.fixture
def schema_file(tmp_path):
    file = tmp_path / "schema.toml"
    ss.Schema(NAIVE).save(file)
    return file


def test_the_command_marks_its_output_and_fails(path, schema_file):
    shown = CliRunner().invoke(app, ["check", str(path), "--schema", str(schema_file)])
    assert shown.exit_code == 3
    assert shown.stdout.splitlines()[0] == MARK
    assert 'decimal = ","' in shown.stdout
    document = json.loads(CliRunner().invoke(app, ["check", str(path), "-s", str(schema_file), "--json"]).stdout)
    assert document["private"] == MARK
    assert not document["passed"]


def test_a_release_stops_before_anything_is_spent(path, schema_file, tmp_path):
    ledger, out = tmp_path / "ledger.db", tmp_path / "out"
    CliRunner().invoke(app, ["ledger", "set", str(ledger), "--epsilon", "5", "--rows-per-person", "1"])
    before = CliRunner().invoke(app, ["ledger", "show", str(ledger), "--json"]).stdout
    arguments = ["release", str(path), "-s", str(schema_file), "-e", "1", "--delta", "1e-6", "-o", str(out), "--check"]
    stopped = CliRunner().invoke(app, [*arguments, "--ledger", str(ledger)])
    assert stopped.exit_code == 3
    assert stopped.stderr.splitlines()[0] == MARK
    assert "nothing was spent" in stopped.stderr
    assert not out.exists()
    assert CliRunner().invoke(app, ["ledger", "show", str(ledger), "--json"]).stdout == before


def test_a_release_goes_on_where_cells_can_be_read(path, tmp_path):
    file, out = tmp_path / "schema.toml", tmp_path / "out"
    ss.Schema({"height": ss.Number(50, 230, decimal=","), "score": ss.Integer(0, 10)}).save(file)
    made = CliRunner().invoke(app, ["release", str(path), "-s", str(file), "-e", "3", "-o", str(out), "--check"])
    assert made.exit_code == 0, made.output
    # Nothing of the report is in the folder, but for the options that the owner wrote.
    assert not [file for file in out.iterdir() if b"PRIVATE" in file.read_bytes() or b"mostly" in file.read_bytes()]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2", "-"], "integer"),
        (["1", "2.5"], "number"),
        (["1,5", "2"], "number"),
        (["yes", "No", "?"], "boolean"),
        (["2020-01-31", "2020-02-01"], "date"),
        (["31.01.2020 12:30", "01.02.2020 07:00"], "datetime"),
        (["12:30", "07:15"], "times of day"),
        (["a", "b"], "category"),
        (["-", "?"], "nothing"),
    ],
)
def test_kinds_are_told_by_cells(cells, kind):
    assert Texts("x", dict.fromkeys(cells, 10)).kind == kind


def test_day_and_month_first_are_ambiguous():
    assert Texts("x", {"31/01/2020": 5, "01/31/2020": 5, "03/04/2020": 5}).ambiguous
    assert not Texts("x", {"31/01/2020": 5, "03/04/2020": 5}).ambiguous


@pytest.mark.parametrize("value", [-1, 99, 999])
def test_a_code_far_from_all_values_is_one(value):
    counts = {str(v): 10 for v in range(1, 40)}
    assert Texts("x", {**counts, str(value): 10}).sentinels == [value]
    # Within the values of a column it is one of them.
    assert Texts("x", {str(v): 10 for v in range(-20, 1200)}).sentinels == []


@pytest.mark.parametrize(
    ("cells", "sure"),
    [
        ({"3,5": 15, "4,25": 15}, True),
        ({"3,5": 5, "4,25": 5}, False),
        ({"1,234": 50, "5,678": 50}, False),
        ({"1,234.5": 50, "5,678": 50}, True),
        ({"3,5": 50, "2.5": 50}, False),
        ({"1.234": 50, "5.678": 50}, False),
        ({"31.01.2020": 30, "01.02.2020": 9}, True),
        ({"31.01.2020": 3}, False),
        ({"03/04/2020": 90, "05/06/2021": 90}, False),
        ({"03/04/2020": 90, "25/06/2021": 90}, True),
        ({"25/04/2020": 90, "05/26/2021": 90}, False),
    ],
)
def test_a_draft_states_only_what_many_cells_tell(cells, sure):
    frame = pd.DataFrame({"x": [text for text, times in cells.items() for _ in range(times)]})
    lines = ss.draft(frame).splitlines()
    (line,) = [one for one in lines if one.removeprefix("# ").startswith(("decimal = ", "date_format = "))]
    assert line.startswith("# ") is not sure


@pytest.mark.parametrize(("answer", "code"), [("yes\n", 0), ("\n", 1), ("?\nno\n", 1), ("back\n", 1), ("", 1)])
def test_on_a_terminal_a_release_asks(path, tmp_path, monkeypatch, answer, code):
    monkeypatch.setattr("smoothsynth.cli.walk.is_watched", lambda: True)
    file, out = tmp_path / "schema.toml", tmp_path / "out"
    ss.Schema({"visits": ss.Integer(0, 60)}).save(file)
    arguments = ["release", str(path), "-s", str(file), "-e", "3", "-o", str(out), "--check"]
    made = CliRunner().invoke(app, arguments, input=answer)
    assert made.exit_code == code, made.output
    assert out.exists() is (code == 0)
    assert ("nothing was spent" in made.stderr) is (code == 1)


ODD = {
    "a sign at the end": ("1,2,\n" * 20, 20, 60),
    # A quote that is not closed ends with its line, so only what comes after the break is no row.
    "a line break in a cell": ('1,"2\n"\n' * 20, 20, 80),
    "a cell too few": ("1\n" * 20, 20, 60),
    "a long line": (f"1,{'9' * 2**20}\n", 1, 41),
}


@pytest.mark.parametrize(("odd", "lost", "rows"), ODD.values(), ids=ODD)
def test_lines_that_are_lost_whole_are_counted(odd, lost, rows, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,n\n" + '"1","2"\n\n' * 40 + odd)
    report = ss.check(path, {"x": ss.Integer(0, 9)})
    assert (report.lost_lines, report.columns[0].rows) == (lost, rows)
    assert report.has_findings
    assert report.passed
    assert f"{lost} of {rows} lines" in report.in_words()
    assert "Every cell that is there" not in report.in_words()
    assert f"# {lost} of {rows} lines" in ss.draft(path)


def test_a_file_of_which_most_lines_are_lost_does_not_pass(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,n\n" + "1,2\n" * 10 + "1,2,\n" * 30)
    report = ss.check(path, {"x": ss.Integer(0, 9, nullable=True)})
    assert not report.passed
    assert report.mostly_lost == ()
    assert report.as_dict()["lost_lines"] == 30
    assert ss.check(pd.DataFrame({"x": [1, None, 3]}), {"x": ss.Integer(0, 9)}).lost_lines == 0


def test_forms_of_cells_that_are_lost_are_told_and_no_cell(tmp_path):
    cells = [f"{k}" for k in range(60)] + ["N.V."] * 20 + ["(7)", "Ann 5", "Bob 6", "<31"]
    frame = pd.DataFrame({"x": cells, "kind": ["a", "b", "zz"] * 28})
    report = ss.check(frame, {"x": ss.Integer(0, 99), "kind": ss.Category(["a", "b"])})
    assert said(report, "x")["unreadable"].cells == "like a.a., like a 9, like (9), like <9"
    assert said(report, "kind")["no level"].cells == "like a"
    frame.to_csv(tmp_path / "rows.csv", index=False)
    draft = ss.draft(tmp_path / "rows.csv")
    assert "# unreadable, 28.6 %: The cells cannot be read as integer." in draft
    assert "# nullable = true" in draft
    assert "N.V." not in draft


def test_a_draft_tells_dates_that_fit_none_of_its_formats():
    frame = pd.DataFrame({"day": ["31.12.2020"] * 60 + ["3 May 2021"] * 40})
    assert "# unreadable, 40.0 %: The cells cannot be read as date." in ss.draft(frame)


def test_what_lies_beyond_the_public_one_of_two_bounds_is_counted():
    columns = {
        "x": ss.Number(0, "private"),
        "y": ss.Number("private", "private"),
        "day": ss.Date("private", "2020-12-31"),
    }
    frame = pd.DataFrame({"x": [-1.0, 5.0] * 20, "y": [-1.0, 5.0] * 20, "day": ["2021-01-01", "2020-01-01"] * 20})
    assert [one.outside for one in ss.check(frame, columns).columns] == [20, None, 20]


def test_a_mark_beside_empty_cells_is_no_constant():
    frame = pd.DataFrame({"dead": ["x"] * 30 + [None] * 70, "all": ["x"] * 100})
    draft = ss.draft(frame)
    assert '[columns."dead"]\n# missing, 70.0 %' in draft
    assert 'drop = ["all"]' in draft


def test_parts_of_whole_numbers_are_told():
    frame = pd.DataFrame({"x": ["1.5", "2.0"] * 30, "y": ["1.0", "2e0"] * 30})
    report = ss.check(frame, {"x": ss.Integer(0, 9), "y": ss.Integer(0, 9)})
    assert said(report, "x")["decimals"].write == 'type = "number"'
    assert "decimals" not in said(report, "y")
