"""Releases about persons, from the schema to the receipt."""

import json
import pickle
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.cli.main import app
from smoothsynth.errors import DataError, PlanError, ReleaseError, SchemaError
from smoothsynth.private.measure import measure
from smoothsynth.private.owner import compare
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import term_feature
from smoothsynth.queries.measurement import Measurement

PERSONS = 400
COLUMNS = {"x": ss.Number(0, 100), "n": ss.Integer(0, 9)}
SCHEMA = ss.Schema(COLUMNS, person="patient id")


def make_visits(seed=1):
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 9, PERSONS)
    who = np.repeat(np.arange(PERSONS), times)
    # Who comes often has large values: over visits the mean is another one than over persons.
    x = 10.0 * times[who] + rng.normal(0, 1, len(who))
    return pa.table({"patient id": [f"SENTINEL-{i}" for i in who], "x": x, "n": rng.integers(0, 10, len(who))})


@pytest.fixture(scope="module")
def visits():
    return make_visits()


@pytest.fixture(scope="module")
def made(visits):
    return ss.release(visits, schema=SCHEMA, epsilon=20.0, delta=1e-6, rows_per_person=4, seed=1)


def test_a_schema_keeps_its_person():
    assert "person" not in ss.Schema(COLUMNS).facts()
    for again in (
        ss.Schema.parse(SCHEMA.to_toml()),
        ss.Schema.from_facts(json.loads(json.dumps(SCHEMA.facts()))),
        pickle.loads(pickle.dumps(SCHEMA)),
    ):
        assert again == SCHEMA
        assert again.person == "patient id"
        assert again != ss.Schema(COLUMNS)


@pytest.mark.parametrize("person", ["x", "", 3, ["patient id"], "\ud800"])
def test_what_is_no_id_is_refused(person):
    with pytest.raises(SchemaError, match=r"person|id"):
        ss.Schema(COLUMNS, person=person)


def test_the_plan_says_whom_it_protects():
    planned = ss.plan(SCHEMA, PERSONS, epsilon=1.0, delta=1e-6, rows_per_person=4)
    text = " ".join(str(planned).split())
    assert "400 persons x 2 columns" in text
    assert "one person with all rows of that person, of which at most 4 are taken" in text
    assert "told apart by 'patient id'" in text
    assert planned.as_dict()["person"] == "patient id"
    # Noise is that of one row, but for the room that rounded averages of tables need.
    alone = ss.plan(ss.Schema(COLUMNS), PERSONS, epsilon=1.0, delta=1e-6)
    for one, other in zip(planned.charges, alone.charges, strict=True):
        assert other.sensitivity <= one.sensitivity <= other.sensitivity * 1.01


def test_every_person_weighs_the_same(made, visits):
    frame = visits.to_pandas()
    persons = frame.groupby("patient id")["x"].mean().mean()
    assert abs(frame["x"].mean() - persons) > 5
    assert abs(made.mean("x").value - persons) < 1
    assert abs(made.to_pandas()["x"].mean() - persons) < 2
    assert made.receipt.rows == made.table.num_rows == PERSONS


def test_a_folder_tells_nothing_of_ids_or_of_the_number_of_rows(made, visits, tmp_path):
    made.write(tmp_path / "out", csv=True)
    for file in (tmp_path / "out").iterdir():
        assert b"SENTINEL" not in file.read_bytes(), file.name
    page = (tmp_path / "out" / "report.html").read_text()
    assert "private persons behind it" in page
    assert "one person with all rows" in page
    text = (tmp_path / "out" / "receipt.json").read_text() + (tmp_path / "out" / "moments.json").read_text()
    # Noise may make one of hundreds of sums any number, this one too.
    assert not re.search(rf"\b{visits.num_rows}\b", re.sub(r'"integers": \[[^]]*\]', "", text))
    assert "the number of persons is public, that of their rows is not" in text
    assert '"patient id"' in text
    found = ss.verify(tmp_path / "out")
    assert found.passed, str(found)
    again = ss.load(tmp_path / "out")
    assert again.schema.person == "patient id"
    assert again.receipt.promise() == made.receipt.promise()


@pytest.mark.parametrize("forged", ["rows_per_person", "averaged", "person"])
def test_a_receipt_of_other_persons_is_refused(made, tmp_path, forged):
    made.write(tmp_path / "out")
    name = "moments.json" if forged == "averaged" else "receipt.json"
    facts = json.loads((tmp_path / "out" / name).read_text())
    if forged == "averaged":
        facts["moments"][0]["averaged"] = 2
    elif forged == "person":
        del facts["schema"]["person"]
    else:
        facts["rows_per_person"] = 2
    (tmp_path / "out" / name).write_text(json.dumps(facts, indent=2))
    assert not ss.verify(tmp_path / "out").passed
    with pytest.raises(ReleaseError):
        ss.load(tmp_path / "out")


def test_private_bounds_are_found_among_persons(visits):
    schema = ss.Schema({"x": ss.Number("private", "private")}, person="patient id")
    made = ss.release(visits, schema=schema, epsilon=20.0, delta=1e-6, rows_per_person=3, seed=1)
    assert made.schema.person == "patient id"
    assert made.schema.columns["x"].lower <= 10 < 70 <= made.schema.columns["x"].upper


def test_private_levels_count_one_row_of_each_person():
    rows = pa.table({"id": ["one"] * 500 + [str(i) for i in range(300)], "ward": ["rare"] * 500 + ["often"] * 300})
    schema = ss.Schema({"ward": ss.Category("private")}, person="id")
    made = ss.release(rows, schema=schema, epsilon=2.0, delta=1e-6, seed=1)
    # "rare" has 500 rows, but one person.
    assert made.schema.columns["ward"].levels == ("often", "other")
    with pytest.raises(PlanError, match="rows_per_person=1"):
        ss.release(rows, schema=schema, epsilon=2.0, delta=1e-6, rows_per_person=2)


def test_what_cannot_be_done_for_persons_is_refused_in_words(visits, tmp_path):
    with pytest.raises(PlanError, match="from 1 to 32"):
        ss.plan(SCHEMA, 10, epsilon=1.0, rows_per_person=33)
    ellipsoid = ss.methods.Paper(candidates="ellipsoid")
    with pytest.raises(PlanError, match="rows_per_person=1"):
        ss.plan(SCHEMA, 400, epsilon=1.0, method=ellipsoid, rows_per_person=2)
    with pytest.raises(PlanError, match="several sites"):
        ss.federated.start(tmp_path / "study", schema=SCHEMA, sites={}, epsilon=1.0, key=_key(tmp_path))
    with pytest.raises(PlanError, match="cannot be kept"):
        ss.release(visits, schema=SCHEMA, epsilon=1.0, keep=tmp_path / "sums", key=_key(tmp_path))
    with pytest.raises(PlanError, match="owner's page"):
        compare(visits, SCHEMA, rows=PERSONS, kernels=[], questions=[], correlation=lambda points: points)
    with pytest.raises(DataError, match="no column 'patient id'"):
        ss.release(visits.drop_columns("patient id"), schema=SCHEMA, epsilon=1.0)


def _key(folder):
    path = folder / "owner.key"
    if not path.exists():
        ss.federated.make_key(path)
    return path


def test_noise_for_other_averages_is_refused(visits):
    wrong = Measurement("a mean", (term_feature((0, 1)),), "discrete laplace", epsilon=1.0)
    table = open_table(visits, SCHEMA, rows_per_person=3)
    with pytest.raises(PlanError, match="same rows_per_person"):
        measure(table, wrong, engine=None, ledger=None)


def test_a_ledger_for_persons_takes_a_release_with_ids(visits, tmp_path):
    ledger = tmp_path / "clinic.ledger"
    LedgerFile.create(ledger, ss.Budget(5.0), rows_per_person=8)
    ss.release(visits, schema=SCHEMA, epsilon=1.0, ledger=ledger, rows_per_person=2, seed=1)
    assert LedgerFile(ledger).read().charges


def test_the_command_line_knows_persons(visits, tmp_path):
    pyarrow.csv.write_csv(visits, tmp_path / "visits.csv")
    SCHEMA.save(tmp_path / "visits.toml")
    folder = tmp_path / "out"
    arguments = ["release", str(tmp_path / "visits.csv"), "-s", str(tmp_path / "visits.toml"), "-e", "1"]
    done = CliRunner().invoke(app, [*arguments, "--rows-per-person", "3", "-o", str(folder)])
    assert done.exit_code == 0, done.output
    assert "SENTINEL" not in done.output
    assert not re.search(rf"\b{visits.num_rows}\b", done.output.replace(",", ""))
    facts = json.loads((folder / "receipt.json").read_text())
    assert (facts["rows"], facts["rows_per_person"], facts["schema"]["person"]) == (PERSONS, 3, "patient id")


def test_adapters_know_persons(visits):
    pytest.importorskip("sklearn")
    model = ss.Synthesizer(epsilon=1.0, schema=SCHEMA, rows_per_person=3, seed=1).fit(visits.to_pandas())
    assert list(model.sample().columns) == list(COLUMNS)
    assert model.release_.receipt.together == (1, 3)
    with pytest.raises(DataError, match="no column 'patient id'"):
        ss.Synthesizer(epsilon=1.0, schema=SCHEMA).fit(np.zeros((5, 2)))


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 1e-6), (3.0, 0.0)])
def test_every_family_is_measured_of_persons_and_verified(epsilon, delta, tmp_path):
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(3000), rng.integers(1, 7, 3000))
    rows = pa.table(
        {
            "id": who,
            "x": rng.normal(50, 10, len(who)),
            "y": rng.exponential(5, len(who)),
            "sex": np.array(["f", "m"])[who % 2],
            "n": rng.integers(0, 9, len(who)),
        }
    )
    columns = {"x": ss.Number("private", "private"), "y": ss.Number(0, 100), "sex": ss.Category(["f", "m"])}
    schema = ss.Schema({**columns, "n": ss.Integer(0, 10)}, person="id")
    made = ss.release(rows, schema=schema, epsilon=epsilon, delta=delta, rows_per_person=3, seed=1)
    families = {noisy.measurement.family.name for noisy in made.moments}
    assert {"marginal moments", "rank histogram", "soft tables"} <= families
    assert {noisy.measurement.averaged for noisy in made.moments} == {3}
    made.write(tmp_path / "out")
    found = ss.verify(tmp_path / "out")
    assert found.passed, str(found)


class Ending:
    """An Arrow stream whose rows end early from the second pass on, as where a thread of a query has failed."""

    def __init__(self, table):
        self._table, self._passes = table, 0

    def __arrow_c_stream__(self, requested_schema=None):
        self._passes += 1
        # The first two passes look at the schema and count the rows.
        return (self._table if self._passes <= 2 else self._table.slice(0, 50)).__arrow_c_stream__(requested_schema)


def test_rows_that_end_early_lose_nobody_without_a_word(visits):
    with pytest.raises(DataError, match="must give the same Arrow stream"):
        open_table(Ending(visits), SCHEMA)


def test_a_query_without_rows_has_no_persons(visits):
    polars = pytest.importorskip("polars")
    empty = polars.from_arrow(visits).lazy().filter(polars.col("x") < -1e9)
    with pytest.raises(DataError, match="has no persons"):
        open_table(empty, SCHEMA)
