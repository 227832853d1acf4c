import pytest
from typer.testing import CliRunner

from smoothsynth.cli.main import app
from smoothsynth.paper.reproduction import data_folder

HAVE_DATA = (data_folder() / "wdbc.csv.gz").is_file()


def run(*arguments):
    return CliRunner().invoke(app, ["paper", *map(str, arguments)])


def test_a_folder_without_data_is_explained(tmp_path):
    result = run("tables", "--data", tmp_path, "-o", tmp_path / "out", "--quick")
    assert result.exit_code == 1
    assert "--data" in result.output + result.stderr


@pytest.mark.skipif(not HAVE_DATA, reason="the public data sets are not in SMOOTHSYNTH_DATA or ../shared/data")
def test_tables_are_made_and_resumed(tmp_path):
    arguments = ("tables", "-o", tmp_path, "--rounds", 1, "--queries", 50, "--only", "wdbc")
    first = run(*arguments)
    assert first.exit_code == 0, first.output
    assert "WDBC" in first.output
    results = (tmp_path / "results.csv").read_text()
    assert len(results.splitlines()) == 1 + 13 * 5
    page = (tmp_path / "tables.html").read_text()
    assert "not private" in page
    assert "http" not in page
    assert run(*arguments).exit_code == 0
    assert (tmp_path / "results.csv").read_text() == results
    (tmp_path / "results.csv").write_text("\n".join(results.splitlines()[:31]) + "\n")
    assert run(*arguments).exit_code == 0
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 1 + 13 * 5


def test_help_names_the_commands():
    shown = run("--help").output
    assert "tables" in shown
    assert "rates" in shown
