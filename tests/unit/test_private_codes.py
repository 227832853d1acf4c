"""Codes that nobody knows: found from noisy counts of pairs, charged, kept by all rows, and found again by `verify`."""

import json
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.ledger import Ledger, LedgerFile
from smoothsynth.cli.main import app
from smoothsynth.pipeline.release import sha256
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.measure import discover
from smoothsynth.private.table import open_table

ROWS = 5000
RULE = "school -> years"
TRUE = {"primary": 6, "secondary": 12, "tertiary": 17}
COLUMNS = {
    "years": ss.Category([6, 12, 17], nullable=True),
    "school": ss.Category(list(TRUE), nullable=True),
    "degree": ss.Boolean(nullable=True),
}
SCHEMA = ss.Schema(COLUMNS, [RULE], {RULE: "private"})
BUDGETS = {"pure": {"epsilon": 1.0}, "delta": {"epsilon": 1.0, "delta": 1e-6}}


def people(rows=ROWS):
    """One school in ten is missing, and one row in fifty has another code than it should have."""
    drawn = np.random.default_rng(1)
    school = pd.Series(drawn.choice(list(TRUE), rows, p=[0.3, 0.5, 0.2]))
    years = school.map(TRUE).where(drawn.random(rows) > 0.02, 17)
    degree = school == "tertiary"
    return pa.table({"years": years, "school": school.where(drawn.random(rows) > 0.1), "degree": degree})


def found_in(table, schema, **budget):
    planned = ss.plan(schema, table.num_rows, **budget)
    ledger = Ledger(planned.budget, planned=planned.charges)
    rows = open_table(table, schema, rows_per_person=planned.rows_per_person)
    return discover(rows, planned.discovery, engine=LocalEngine(), ledger=ledger), ledger


@pytest.fixture(scope="module", params=BUDGETS)
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    ledger = LedgerFile.create(folder / "ledger", ss.Budget(2.0, 1e-5))
    settings = {"seed": 1, "synthetic_rows": 1000, "ledger": folder / "ledger", **BUDGETS[request.param]}
    release = ss.release(people(), schema=SCHEMA, **settings)
    return release, release.write(folder / "out"), ledger


def test_the_codes_of_a_release_are_right_and_every_row_keeps_them(made):
    release, _, _ = made
    assert release.schema.codes == {RULE: TRUE}
    rows = release.to_pandas()
    there = rows["school"].notna()
    assert (rows["years"][there] == rows["school"][there].map(TRUE)).all()
    assert rows["school"].nunique() == 3
    more = release.sample(500, seed=3).to_pandas().dropna(subset="school")
    assert (more["years"] == more["school"].map(TRUE)).all()


def test_codes_are_charged_as_planned_in_the_ledger_and_in_the_receipt(made):
    release, _, ledger = made
    budget = release.receipt.budget
    planned = ss.plan(SCHEMA, ROWS, epsilon=budget.epsilon, delta=budget.delta)
    (charge,) = planned.discovery.charges
    assert charge == release.receipt.charges[0] == ledger.charges[0]
    assert charge.purpose == "the codes of 'school -> years'"
    assert charge.coordinates == 16
    if budget.delta:
        whole = sum(one.multiplier**-2 for one in planned.charges)
        assert charge.mechanism == "discrete gaussian"
        assert charge.multiplier**-2 / whole == pytest.approx(0.1, rel=1e-3)
    else:
        assert charge.mechanism == "discrete laplace"
        assert charge.epsilon == pytest.approx(0.1)
    assert 0.999 < release.receipt.spent.epsilon <= budget.epsilon
    assert len(ledger.charges) == len(release.receipt.charges)


def test_verify_finds_the_codes_again(made):
    release, folder, _ = made
    checked = ss.verify(folder)
    assert checked.passed, str(checked)
    assert "codes of 1 rules" in checked["found"].sentence
    assert checked["constraints"].outcome == "passed"
    assert ss.load(folder).schema == release.schema


def _other_code(receipt, _moments):
    receipt["schema"]["codes"][RULE]["primary"] = 12


def _other_counts(_receipt, moments):
    moments["found"]["codes"]["integers"].reverse()


def _no_counts(_receipt, moments):
    del moments["found"]["codes"]


def _other_noise(_receipt, moments):
    moments["found"]["codes"].update(rows_per_person=2)


def _other_rows(_receipt, moments):
    moments["found"]["codes"]["rows"] += 1


def _public_codes(_receipt, moments):
    moments["found"]["asked"]["codes"][RULE] = TRUE


def _large_counts(_receipt, moments):
    moments["found"]["codes"]["integers"][-1] = 10**12


FORGERIES = [_other_code, _other_counts, _no_counts, _other_noise, _other_rows, _public_codes, _large_counts]


@pytest.fixture(scope="module")
def small():
    two = ss.Schema({name: COLUMNS[name] for name in ("years", "school")}, [RULE], {RULE: "private"})
    return ss.release(people(), schema=two, epsilon=1.0, synthetic_rows=50, seed=1)


@pytest.mark.parametrize("forge", FORGERIES)
def test_forged_codes_are_caught(forge, small, tmp_path):
    folder = small.write(tmp_path / "out")
    receipt, moments = (json.loads((folder / name).read_text()) for name in ("receipt.json", "moments.json"))
    forge(receipt, moments)
    (folder / "moments.json").write_text(json.dumps(moments))
    receipt["sha256"] = {p.name: sha256(p) for p in sorted(folder.iterdir()) if p.name != "receipt.json"}
    (folder / "receipt.json").write_text(json.dumps(receipt))
    checked = ss.verify(folder)
    assert {"found", "charges", "range", "moments"} & {check.name for check in checked.failures}, str(checked)
    with pytest.raises(ss.ReleaseError):
        ss.load(folder)


def test_several_rules_and_truth_values_share_one_charge():
    rules = [RULE, "school -> degree"]
    schema = ss.Schema(COLUMNS, rules, dict.fromkeys(rules, "private"))
    found, ledger = found_in(people(), schema, epsilon=4.0, codes_share=0.5)
    degrees = {"primary": False, "secondary": False, "tertiary": True}
    assert found.schema().codes == {RULE: TRUE, "school -> degree": degrees}
    assert found.schema().edits.texts == tuple(rules)
    assert [charge.purpose for charge in ledger.charges] == ["the codes of 2 rules"]
    back = "degree -> school"
    found, _ = found_in(people(), ss.Schema(COLUMNS, [back], {back: "private"}), epsilon=4.0)
    assert found.schema().codes == {back: {"false": "secondary", "true": "tertiary"}}


def test_codes_are_found_beside_bounds_and_levels():
    table = people().append_column("cost", pa.array(np.linspace(0.0, 100.0, ROWS)))
    table = table.append_column("ward", pa.array(["A", "B"] * (ROWS // 2)))
    columns = {**COLUMNS, "cost": ss.Number(0, "private"), "ward": ss.Category("private")}
    schema = ss.Schema(columns, [RULE], {RULE: "private"})
    found, ledger = found_in(table, schema, epsilon=4.0, delta=1e-6)
    assert len(ledger.charges) == len(found.charges) == 5
    assert ledger.charges[-1].purpose == "the codes of 'school -> years'"
    assert found.schema().codes == {RULE: TRUE}
    assert "A" in found.schema().columns["ward"].levels
    assert type(found).from_dict(json.loads(json.dumps(found.as_dict()))) == found


def test_codes_of_persons_are_found_from_their_averaged_rows():
    table = people().append_column("id", pa.array(np.arange(ROWS) // 2))
    schema = ss.Schema(COLUMNS, [RULE], {RULE: "private"}, person="id")
    planned = ss.plan(schema, ROWS // 2, epsilon=2.0, rows_per_person=2)
    ledger, rows = Ledger(planned.budget), open_table(table, schema, rows_per_person=2)
    found = discover(rows, planned.discovery, engine=LocalEngine(), ledger=ledger)
    assert found.codes.measurement.averaged == 2
    assert found.schema().codes == {RULE: TRUE}


def test_an_update_keeps_the_codes_that_were_found(tmp_path):
    store, key = tmp_path / "sums", tmp_path / "key"
    ss.federated.make_key(key)
    first = ss.release(people(2000), schema=SCHEMA, epsilon=4.0, seed=1, keep=store, key=key)
    again = ss.update(store, people(500), epsilon=1.0, key=key, seed=2)
    assert again.schema == first.schema
    rows = again.to_pandas().dropna(subset="school")
    assert (rows["years"] == rows["school"].map(first.schema.codes[RULE])).all()


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_a_plan_tells_the_cost_and_the_share_before_any_data(budget, tmp_path):
    made = ss.plan(SCHEMA, ROWS, **budget, codes_share=0.2)
    words = " ".join(str(made).split())
    assert "the codes of 'school -> years'" in words
    assert "Private codes (school -> years), for 0.2 of the budget: right where about" in words
    assert ("epsilon 0.2" if "delta" not in budget else "20.0 %") in words
    assert made.cost.epsilon <= 1.0
    SCHEMA.save(tmp_path / "schema.toml")
    options = [f"--{name}={value}" for name, value in budget.items()]
    command = ["plan", "--schema", str(tmp_path / "schema.toml"), "--rows", "5000", "--codes-share", "0.2", "--json"]
    shown = json.loads(CliRunner().invoke(app, [*command, *options]).output)
    assert shown["discovery"]["charges"] == made.as_dict()["discovery"]["charges"]
    assert shown["discovery"]["notes"] == made.discovery.sentences(ROWS)


def test_what_a_plan_calls_clear_is_seldom_wrong_and_a_tenth_of_it_often():
    epsilon = next(e for e in np.linspace(0.1, 20.0, 400) if _lead(e) <= 200)
    # The plan allows for 2 of 40; P(more than 8) is below 1e-3. With a tenth of the rows, about 30 are wrong.
    assert _wrong(_lead(epsilon), epsilon) <= 8
    assert _wrong(_lead(epsilon) // 10, epsilon) >= 15


def _lead(epsilon):
    return ss.plan(SCHEMA, 600, epsilon=epsilon, method="paper").discovery.needed


def _wrong(rows, epsilon):
    """Find the codes of three levels, each of so many rows, forty times; return how often one of them is wrong."""
    school = [level for level in TRUE for _ in range(rows)]
    table = pa.table({"years": [TRUE[s] for s in school], "school": school, "degree": [True] * len(school)})
    found = (found_in(table, SCHEMA, epsilon=epsilon, method="paper")[0] for _ in range(40))
    return sum(one.schema().codes[RULE] != TRUE for one in found)


def test_private_codes_are_read_as_they_are_written():
    both = ss.Schema(
        {**COLUMNS, "flag": ss.Boolean()},
        [RULE, "degree -> flag"],
        {RULE: "private", "degree -> flag": {"true": 1, "false": 0}},
    )
    for schema in (SCHEMA, both):
        assert ss.Schema.parse(schema.to_toml()) == schema
        assert ss.Schema.from_facts(json.loads(json.dumps(schema.facts()))) == schema
        assert pickle.loads(pickle.dumps(schema)) == schema
        assert schema.codes[RULE] == "private"
    assert SCHEMA.edits is None
    assert both.edits.texts == ("degree -> flag",)
    dotted = f'codes."{RULE}" = "private"\n' + SCHEMA.to_toml().replace(f'[codes]\n"{RULE}" = "private"\n', "")
    assert ss.Schema.parse(dotted) == SCHEMA


WIDE = ss.Category([f"l{i}" for i in range(70)])
TIERS = ss.Category([f"{a}{i:02}" for a in "ABC" for i in range(20)], parents=[1])
REFUSED = {
    "numbers": ({"b": ss.Integer(0, 20)}, [], "'b' is of type integer. Declare its values as levels"),
    "private levels": ({"a": ss.Category("private")}, [], "the levels of 'a' are private too"),
    "many pairs": ({"a": WIDE, "b": WIDE}, [], "at most 4,096 pairs of levels are counted, and it has 5,041"),
    "tiers": ({"a": TIERS}, [], "has many levels, which are drawn once rows keep the rules"),
    "another rule": ({}, ["b = 'x' or c = true"], "could contradict \"b = 'x' or c = true\", which is about 'b' too"),
    "a circle": ({}, ["b -> a"], "could contradict 'b -> a'"),
    "a sum": ({"b": ss.Boolean()}, ["mean(b) = 0.5"], "could contradict 'mean(b) = 0.5'"),
    "a sum of the other": ({"a": ss.Boolean()}, ["mean(a) = 0.5"], "both a rule and a public sum or mean"),
    "unknown": ({"b": None}, [], "There is no column 'b'"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_found_is_refused_before_a_plan(kind):
    columns, more, words = REFUSED[kind]
    known = {"a": ss.Category(["x", "y"]), "b": ss.Category(["x", "y"]), "c": ss.Boolean(), **columns}
    rules = ["a -> b", *more]
    codes = {text: "private" for text in rules if "->" in text}
    with pytest.raises(ss.SchemaError) as caught:
        ss.Schema({name: column for name, column in known.items() if column is not None}, rules, codes)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "word", "words"),
    [
        (RULE, "privat", 'or "private" to be found and paid for'),
        ("degree = true implies years = 17", "private", "it is no rule COLUMN -> COLUMN"),
        ("years -> years", "private", "it names one column twice"),
        (RULE, None, 'Or write "private" for it'),
    ],
)
def test_a_wrong_word_is_refused(rule, word, words):
    with pytest.raises(ss.SchemaError) as caught:
        ss.Schema(COLUMNS, [rule], {} if word is None else {rule: word})
    assert words in str(caught.value)


BUDGET = {"epsilon": 1.0}
UNPLANNED = {
    "no share": ({"codes_share": 0.0}, "codes_share must be a number between 0 and 1"),
    "all of it": ({"codes_share": 1.0}, "codes_share must be a number between 0 and 1"),
    "a small table": ({"epsilon": 0.001}, "Nothing was spent"),
    "minimax": ({"method": "minimax"}, "needs public bounds, levels and codes"),
    "a prior": ({"prior": people(50)}, "A prior needs public bounds, levels and codes"),
}


@pytest.mark.parametrize("kind", UNPLANNED)
def test_refused_before_anything_is_spent(kind, tmp_path):
    choices, words = UNPLANNED[kind]
    LedgerFile.create(tmp_path / "l", ss.Budget(20.0))
    with pytest.raises(ss.SmoothsynthError, match=words):
        ss.release(people(), schema=SCHEMA, ledger=tmp_path / "l", **{**BUDGET, **choices})
    assert not LedgerFile(tmp_path / "l").charges


def test_shares_must_leave_something():
    schema = ss.Schema({**COLUMNS, "x": ss.Number(0, "private")}, [RULE], {RULE: "private"})
    with pytest.raises(ss.PlanError, match="bounds_share and codes_share must leave"):
        ss.plan(schema, ROWS, epsilon=1.0, bounds_share=0.5, codes_share=0.5)


def test_rare_levels_are_warned_of():
    notes = ss.plan(SCHEMA, 1000, epsilon=1.0).discovery.sentences(1000)
    assert "or what is wrong" in notes[-1]


def test_a_study_needs_public_codes(tmp_path):
    for name in ("coordinator", "north"):
        ss.federated.make_key(tmp_path / f"{name}.key")
    sites = {"north": ss.federated.Site(ROWS, tmp_path / "north.pub")}
    settings = {"schema": SCHEMA, "sites": sites, "epsilon": 1.0, "key": tmp_path / "coordinator.key"}
    with pytest.raises(ss.PlanError, match="A study needs public bounds, levels and codes"):
        ss.federated.start(tmp_path / "study", **settings)
    assert not (tmp_path / "study").exists()


def test_any_engine_that_sums_can_count_pairs():
    class Elsewhere:
        def sums(self, *arguments, **options):
            return LocalEngine().sums(*arguments, **options)

    release = ss.release(people(), schema=SCHEMA, epsilon=1.0, synthetic_rows=50, engine=Elsewhere())
    assert release.schema.codes == {RULE: TRUE}
