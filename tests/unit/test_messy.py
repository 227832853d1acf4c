"""From a messy file to a sound release in three commands, without a loss that was not named before anything was spent."""

import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory, write_messy):
    place = tmp_path_factory.mktemp("messy")
    write_messy(place / "messy.csv", rows=1000, delimiter=";", encoding="cp1252")
    return place


@pytest.fixture(scope="module")
def schema(folder):
    """Draft a schema, and accept every line that it proposes, as its owner may."""
    path = folder / "schema.toml"
    assert run("schema", folder / "messy.csv", "--private", "-o", path).exit_code == 0
    lines = path.read_text(encoding="utf-8").splitlines()
    accepted = [line.removeprefix("# ") if line.startswith(("# null", "# nullable")) else line for line in lines]
    path.write_text("\n".join(accepted), encoding="utf-8")
    return path


def test_the_draft_knows_the_file(schema):
    drafted = ss.Schema.load(schema)
    assert drafted.file == ss.Schema({"x": ss.Boolean()}, file={"delimiter": ";", "encoding": "cp1252"}).file
    assert set(drafted.names) == {
        *("admitted", "height", "age", "sex", "smoker", "cost", "weight", "diagnosis", "lat", "lon", "visits", "score")
    }
    assert (drafted.columns["cost"].decimal, drafted.columns["age"].null_values) == (",", (999,))


def test_the_check_finds_no_further_loss(folder, schema):
    found = ss.check(folder / "messy.csv", schema)
    assert [one.name for one in found.columns if one.lost] == []
    assert run("check", folder / "messy.csv", "-s", schema).exit_code == 0


def test_the_release_is_made_whatever_is_found(folder, schema):
    out = folder / "out"
    made = run("release", folder / "messy.csv", "-s", schema, "-e", "20", "--delta", "1e-6", "-o", out, "--check")
    assert made.exit_code == 0, made.output
    # Of nearly 500 codes with two rows each none can be shown, which is said and spends nothing in vain.
    assert "Warning: Column 'diagnosis': no value stands out of the noise" in made.stderr
    rows = ss.load(out).to_pandas()
    assert rows["height"].mean() == pytest.approx(170.0, abs=3)
    assert rows["age"].max() < 200
    assert 0.05 < rows["weight"].isna().mean() < 0.15
    assert rows["diagnosis"].eq("other").mean() > 0.95
    assert ss.verify(out).passed
