"""Bounds that nobody knows: found for any scale, paid for, replayed from what was released; else a guess that is told."""

import datetime
import json
import warnings

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.cli.main import app
from smoothsynth.discovery.bounds import ROUNDS
from smoothsynth.pipeline import run as pipeline
from smoothsynth.pipeline.release import sha256
from smoothsynth.private import measure as door
from smoothsynth.queries.measurement import FULL_WEIGHT

ROWS = 4000
OPEN = ss.Number("private", "private")
CALM = {"epsilon": 30.0, "seed": 1}


@pytest.fixture
def no_noise(monkeypatch):
    """Find what the rule finds without noise, with the thresholds for it: real noise is in tests/statistical."""
    monkeypatch.setattr(door, "_draw_noise", lambda count, _measurement: [0] * count)


def draws(seed=5):
    return np.random.default_rng(seed)


# Values, the column, the most that the found width may be of the 99 % range, and the share of rows that must be inside.
LAWS = {
    "normal": (draws().normal(50.0, 10.0, ROWS), OPEN, 3.0, 0.98),
    "negative": (draws().normal(-1e4, 10.0, ROWS), OPEN, 30.0, 0.98),
    "both signs": (draws().normal(0.0, 3.0, ROWS), OPEN, 3.0, 0.98),
    "tiny": (-1e-12 * draws().random(ROWS), OPEN, 2.0, 0.99),
    "huge": (1e15 * draws().normal(2.0, 1.0, ROWS), OPEN, 3.0, 0.98),
    "far beyond": (1e30 * draws().random(ROWS), OPEN, 2.0, 0.99),
    "Cauchy": (draws().standard_cauchy(ROWS), OPEN, 30.0, 0.95),
    "log-normal": (np.exp(draws().normal(0.0, 2.0, ROWS)), OPEN, 3.0, 0.95),
    "offset": (1e6 + draws().random(ROWS), OPEN, 1000.0, 0.999),
    "constant": (np.full(ROWS, 5.0), OPEN, np.inf, 1.0),
    "mostly zeros": (np.where(draws().random(ROWS) < 0.8, 0.0, draws(6).normal(1e5, 1e4, ROWS)), OPEN, 2.0, 0.98),
    "whole": (draws().integers(1990, 2025, ROWS), ss.Integer("private", "private"), 1.5, 1.0),
    "few whole": (draws().integers(0, 2, ROWS), ss.Integer("private", "private"), 5.0, 1.0),
    "only upper": (np.exp(draws().normal(10.0, 1.0, ROWS)), ss.Number(0, "private"), 3.0, 0.97),
    "only lower": (draws().normal(50.0, 10.0, ROWS), ss.Number("private", 100), 3.0, 0.98),
    "asinh": (np.exp(draws().normal(8.0, 2.0, ROWS)), ss.Number("private", "private", transform="asinh"), 3.0, 0.95),
    "log": (1.0 + draws().exponential(9.0, ROWS), ss.Number(1, "private", transform="log"), 3.0, 0.97),
}


def released(values, column, **settings):
    return ss.release(pa.table({"x": values}), schema=ss.Schema({"x": column}), **{**CALM, **settings})


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("law", LAWS)
def test_bounds_are_found_for_every_scale(law):
    values, column, widest, inside = LAWS[law]
    lower, upper = released(values, column).schema.columns["x"].bounds
    low, high = np.quantile(values, [0.005, 0.995])
    assert np.mean((values >= lower) & (values <= upper)) >= inside
    assert widest == np.inf or upper - lower <= widest * (high - low)
    for bound, public in ((lower, column.lower), (upper, column.upper)):
        assert public in ("private", bound)
        assert bound == float(f"{bound:.5g}"), "a bound of few digits"


@pytest.mark.usefixtures("no_noise")
def test_whole_numbers_have_bounds_among_themselves():
    found = released(*LAWS["whole"][:2]).schema.columns["x"]
    assert (type(found.lower), type(found.upper)) == (int, int)
    assert 1980 <= found.lower <= 1990 <= 2024 <= found.upper <= 2035


@pytest.mark.usefixtures("no_noise")
def test_nonnegative_columns_keep_their_sign():
    for law in ("log-normal", "mostly zeros", "far beyond"):
        assert released(*LAWS[law][:2]).schema.columns["x"].lower >= 0.0
    assert released(*LAWS["tiny"][:2]).schema.columns["x"].upper <= 0.0


@pytest.mark.usefixtures("no_noise")
def test_days_and_moments():
    first = datetime.date(2019, 1, 1)
    days = [first + datetime.timedelta(days=int(d)) for d in draws().integers(0, 365, ROWS)]
    moments = [
        datetime.datetime(2019, 1, 1) + datetime.timedelta(seconds=int(s)) for s in draws().integers(0, 10**6, ROWS)
    ]
    schema = ss.Schema({"day": ss.Date("private", "private"), "moment": ss.Datetime("private", "2020-01-01T00:00:00")})
    found = ss.release(pa.table({"day": days, "moment": moments}), schema=schema, **CALM).schema.columns
    assert datetime.date(2018, 6, 1) <= found["day"].lower <= datetime.date(2019, 1, 10)
    assert datetime.date(2019, 12, 20) <= found["day"].upper <= datetime.date(2020, 6, 1)
    assert datetime.datetime(2018, 12, 1) <= found["moment"].lower <= datetime.datetime(2019, 1, 2)
    assert found["moment"].upper == datetime.datetime(2020, 1, 1)


@pytest.mark.parametrize(
    "values", [pa.array([None] * ROWS, pa.float64()), np.full(ROWS, np.nan), np.full(ROWS, np.inf)]
)
@pytest.mark.parametrize("column", [OPEN, ss.Number(0, "private")])
def test_what_cannot_be_found_is_a_guess_that_is_told(values, column, tmp_path):
    with pytest.warns(UserWarning, match="Column 'x': .* so its bounds are a guess from noisy counts"):
        made = released(values, column)
    lower, upper = made.schema.columns["x"].bounds
    assert lower < upper
    assert all(public in ("private", found) for public, found in ((column.lower, lower), (column.upper, upper)))
    checked = ss.verify(made.write(tmp_path / "out"))
    assert checked.passed, str(checked)
    assert "are a guess" in str(checked)


def test_the_guess_is_where_most_rows_are():
    # Too few rows to stand out of this noise with confidence, and more than anywhere else.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [ss.release(pa.table({"x": np.full(60, 50.0)}), schema={"x": OPEN}, epsilon=12.0) for _ in range(4)]
    assert sum(one.schema.columns["x"].lower <= 50.0 <= one.schema.columns["x"].upper for one in found) >= 3


@pytest.mark.parametrize("values", [np.zeros(ROWS), draws().normal(-50.0, 10.0, ROWS)])
def test_zeros_alone_have_bounds_near_zero(values):
    with pytest.warns(UserWarning, match="nothing but zeros"):
        found = released(values, ss.Number(0.0, "private")).schema.columns["x"]
    assert found.lower == 0.0
    assert 0.0 < found.upper <= 1.0


@pytest.mark.parametrize(
    "budget", [{"epsilon": 8.0}, {"epsilon": 4.0, "delta": 1e-6}, {"epsilon": 4.0, "method": "paper"}]
)
@pytest.mark.parametrize("rows_per_person", [1, 2])
def test_what_is_planned_is_charged_and_is_the_budget(budget, rows_per_person, tmp_path):
    schema = ss.Schema({"x": OPEN, "y": ss.Number(0, "private"), "z": ss.Number(0, 100)})
    table = pa.table({name: draws(i).normal(50.0, 10.0, ROWS) for i, name in enumerate("xyz")})
    choices = {**budget, "rows_per_person": rows_per_person}
    planned = ss.plan(schema, ROWS, **choices)
    ledger = LedgerFile.create(tmp_path / "l", ss.Budget(20.0, 1e-5), rows_per_person=rows_per_person)
    made = ss.release(table, schema=schema, seed=1, ledger=tmp_path / "l", **choices)
    assert made.receipt.charges == planned.charges == ledger.charges
    assert planned.budget.epsilon * 0.999 <= planned.cost.epsilon <= planned.budget.epsilon
    assert planned.cost.delta <= planned.budget.delta
    assert len(planned.discovery.charges) == ROUNDS
    whole = sum(c.epsilon or c.multiplier**-2 for c in planned.charges)
    assert sum(c.epsilon or c.multiplier**-2 for c in planned.discovery.charges) / whole == pytest.approx(0.1, rel=1e-3)


def test_the_share_can_be_chosen_and_is_shown():
    schema = ss.Schema({"x": OPEN})
    small, large = (ss.plan(schema, 10**5, epsilon=1.0, bounds_share=share) for share in (0.1, 0.4))
    assert [c.epsilon for c in large.discovery.charges] == pytest.approx(
        [4 * c.epsilon for c in small.discovery.charges]
    )
    text = " ".join(str(large).split())
    assert "the bounds of column 'x'" in text
    assert "for 0.4 of the budget" in text
    assert "rows beyond each bound may be clipped" in text
    assert len(small.as_dict()["discovery"]["charges"]) == ROUNDS
    assert "Private bounds" in small._repr_html_()
    for share in (0.0, 1.0, "much", True):
        with pytest.raises(ss.PlanError, match="bounds_share must be a number between 0 and 1"):
            ss.plan(schema, 10**5, epsilon=1.0, bounds_share=share)


def test_too_few_rows_are_doubted_in_the_plan_and_refused_before_anything_is_spent(tmp_path):
    schema, few = ss.Schema({"x": OPEN}), pa.table({"x": draws().random(300)})
    for rows, words in ((3000, "may find nothing"), (300, "a release will be refused")):
        assert words in " ".join(str(ss.plan(schema, rows, epsilon=1.0)).split())
    ledger = LedgerFile.create(tmp_path / "l", ss.Budget(1.0))
    with pytest.raises(ss.PlanError, match="Nothing was spent"):
        ss.release(few, schema=schema, epsilon=1.0, ledger=tmp_path / "l")
    assert not ledger.charges


def test_the_needed_rows_and_epsilon_are_those_at_which_bounds_are_found():
    from smoothsynth.pipeline.forecast import needed_epsilon, needed_rows

    schema = ss.Schema({"x": OPEN})
    rows = needed_rows(schema, 0.5, epsilon=1.0)
    assert ss.plan(schema, rows, epsilon=1.0).discovery.needed <= rows
    assert ss.plan(schema, rows, epsilon=1.0).discovery.needed >= rows * 0.98
    epsilon = needed_epsilon(schema, 1000, 0.5)
    assert ss.plan(schema, 1000, epsilon=epsilon).discovery.needed == pytest.approx(1000, rel=0.02)


def test_pure_noise_is_taken_for_bounds_where_the_rest_is_pure():
    # One column: under a small delta the cube is the better plan, and mixed costs would not fit.
    planned = ss.plan(ss.Schema({"x": OPEN}), 10**5, epsilon=1.0, delta=1e-200)
    assert all(charge.epsilon is not None for charge in planned.charges)
    assert planned.cost.epsilon == pytest.approx(1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    table = pa.table({"x": draws().normal(50.0, 10.0, ROWS), "y": draws(9).random(ROWS)})
    schema = ss.Schema({"x": OPEN, "y": ss.Number(0, 1)})
    made = ss.release(table, schema=schema, epsilon=5.0, delta=1e-6, seed=3)
    return made, made.write(tmp_path_factory.mktemp("found") / "out")


def test_a_release_with_found_bounds_is_read_and_verified(folder):
    made, path = folder
    assert ss.load(path) == made
    assert ss.Schema.parse(made.schema.to_toml()) == made.schema
    checked = ss.verify(path)
    assert checked.passed, str(checked)
    assert "to the bit" in checked["found"].sentence
    assert made.mean("x").low <= made.mean("x").high
    assert made.sample(10, seed=1).num_rows == 10
    assert "the bounds of column" in (path / "report.html").read_text(encoding="utf-8")


def forged(path, target, name, change):
    import shutil

    shutil.copytree(path, target)
    document = json.loads((target / name).read_text())
    change(document)
    (target / name).write_text(json.dumps(document))
    receipt = json.loads((target / "receipt.json").read_text())
    receipt["sha256"] = {p.name: sha256(p) for p in sorted(target.iterdir()) if p.name != "receipt.json"}
    (target / "receipt.json").write_text(json.dumps(receipt))
    return {check.name for check in ss.verify(target).failures}


def wider(receipt):
    receipt["schema"]["columns"]["x"]["upper"] += 1.0


def moved(moments):
    counts = moments["found"]["rounds"][0]["integers"]
    counts[:] = counts[1:] + counts[:1]


def other_features(moments):
    moments["found"]["rounds"][1]["features"][0] = [[[1, 2]]]


def silent(moments):
    del moments["found"]


def unfinished(moments):
    moments["found"]["rounds"].pop()


FORGERIES = {
    "a wider bound": ("receipt.json", wider, {"found"}),
    "other counts": ("moments.json", moved, {"found"}),
    "other intervals": ("moments.json", other_features, {"found", "sensitivities"}),
    "no counts": ("moments.json", silent, {"charges", "sensitivities"}),
    "a round less": ("moments.json", unfinished, {"charges", "found", "sensitivities"}),
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_forged_bounds_are_caught(kind, folder, tmp_path):
    name, change, expected = FORGERIES[kind]
    assert expected <= forged(folder[1], tmp_path / "out", name, change)
    with pytest.raises(ss.ReleaseError):
        ss.load(tmp_path / "out")


@pytest.mark.usefixtures("no_noise")
def test_from_a_file_with_missing_cells_text_and_outliers(tmp_path):
    values = [f"{v:.2f}" for v in draws().normal(50.0, 10.0, ROWS)]
    values[::10] = ["" if i % 2 else "unknown" for i in range(len(values[::10]))]
    values[3], values[77] = "1e300", "-inf"
    (tmp_path / "t.csv").write_text("age,visits\n" + "\n".join(f"{v},{i % 7}" for i, v in enumerate(values)) + "\n")
    schema = ss.Schema({"age": ss.Number("private", "private", nullable=True), "visits": ss.Integer(0, "private")})
    made = ss.release(tmp_path / "t.csv", schema=schema, epsilon=10.0, delta=1e-6, seed=1)
    age, visits = made.schema.columns.values()
    assert -60.0 <= age.lower <= 35.0
    assert 65.0 <= age.upper <= 160.0
    assert 6 <= visits.upper <= 30
    assert 200 < made.to_arrow()["age"].null_count < 700


def test_kept_sums_are_those_of_the_found_schema(tmp_path):
    ss.federated.make_key(tmp_path / "owner.key")
    store, key, schema = tmp_path / "sums", tmp_path / "owner.key", ss.Schema({"x": OPEN})
    table = pa.table({"x": draws().normal(50.0, 10.0, ROWS)})
    made = ss.release(table, schema=schema, keep=store, key=key, **CALM)
    again = ss.update(store, table.slice(0, 100), epsilon=30.0, key=key, seed=1)
    assert again.schema == made.schema
    assert again.receipt.rows == ROWS + 100
    assert again.found is None


def test_a_study_needs_public_bounds(tmp_path):
    for name in ("coordinator", "north"):
        ss.federated.make_key(tmp_path / f"{name}.key")
    sites = {"north": ss.federated.Site(1000, tmp_path / "north.pub")}
    with pytest.raises(ss.PlanError, match="A study needs public bounds"):
        ss.federated.start(
            tmp_path / "study",
            schema=ss.Schema({"x": OPEN}),
            sites=sites,
            epsilon=1.0,
            key=tmp_path / "coordinator.key",
        )
    assert not (tmp_path / "study").exists()


REFUSED = {
    "a typing error": (ss.Number("privat", 1.0), 'must be a number, or "private"'),
    "a typed date": (ss.Date("privat", "2020-01-01"), 'or "private"'),
    "log of what may be below zero": (ss.Number("private", 1.0, transform="log"), "needs a public lower bound above 0"),
    "public quantiles": (
        ss.Number("private", 1.0, transform="rank-to-public-quantiles", quantiles=[0.5]),
        "needs public bounds",
    ),
    "beyond what is searched": (ss.Number(1e300, "private"), "no private one can be found"),
    "a half": (ss.Integer(0.5, "private"), "must be whole numbers"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_private_is_refused_in_words(kind):
    column, words = REFUSED[kind]
    with pytest.raises(ss.SchemaError, match="Column 'x'") as caught:
        ss.Schema({"x": column})
    assert words in str(caught.value)


def test_an_open_schema_has_no_cube():
    with pytest.raises(ss.SchemaError, match="known only after a release"):
        ss.Schema({"x": OPEN}).to_unit({"x": np.zeros(3)})


def test_schema_files_say_private(tmp_path):
    text = '[columns.x]\ntype = "number"\nlower = "private"\nupper = "private"\n\n[columns.n]\ntype = "integer"\nlower = 0\n'
    text += 'upper = "private"\n\n[columns.d]\ntype = "date"\nlower = "private"\nupper = 2024-01-01\n'
    schema = ss.Schema.parse(text)
    assert schema.columns["x"] == OPEN
    assert ss.Schema.parse(schema.to_toml()) == schema


def test_on_the_command_line(tmp_path):
    (tmp_path / "s.toml").write_text('[columns.x]\ntype = "number"\nlower = "private"\nupper = "private"\n')
    (tmp_path / "t.csv").write_text("x\n" + "\n".join(f"{v:.3f}" for v in draws().normal(50.0, 10.0, ROWS)) + "\n")

    def run(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments])

    common = ("--schema", tmp_path / "s.toml", "--epsilon", 20, "--bounds-share", 0.2)
    shown = run("plan", *common, "--rows", ROWS, "--json")
    assert json.loads(shown.output)["discovery"]["charges"][0]["epsilon"] == pytest.approx(20 * 0.2 * 0.4)
    made = run("release", tmp_path / "t.csv", *common, "-o", tmp_path / "out", "--seed", 1)
    assert made.exit_code == 0, made.output
    assert "measurements" in made.output
    assert run("verify", tmp_path / "out").exit_code == 0
    assert run("answer", tmp_path / "out", "avg(x)").exit_code == 0
    assert '"private"' in run("schema", tmp_path / "t.csv").output


def test_the_search_goes_through_the_one_door(monkeypatch):
    """Every noisy count has been charged: the ledger sees each round before its noise is drawn."""
    charged, drawn = [], []
    real = pipeline.Ledger.charge
    monkeypatch.setattr(pipeline.Ledger, "charge", lambda self, c: (charged.append(c), real(self, c))[1])
    from smoothsynth.private import noise

    laplace = noise.add_laplace_noise

    def watched(sums, **scale):
        drawn.append((len(charged), len(sums)))
        return laplace(sums, **scale)

    monkeypatch.setattr(noise, "add_laplace_noise", watched)
    released(*LAWS["normal"][:2])
    assert [number for number, _ in drawn[:ROUNDS]] == [1, 2, 3]
    assert [c.coordinates for c in charged[:ROUNDS]] == [count for _, count in drawn[:ROUNDS]]
    assert charged[0].sensitivity >= 2 * FULL_WEIGHT
