"""Edit rules: their language, what is refused, and rows of releases that keep them."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import smoothsynth as ss
from smoothsynth.fit.swapping import Axis, Swapping, Target
from smoothsynth.model.edits import Guard, keep_edits, swapped_to_keep
from smoothsynth.schema import consistency, row_search

CODES = {"education -> years": {"primary": 6, "secondary": 12, "tertiary": 17}}
COLUMNS = {
    "age": ss.Integer(0, 99),
    "spouse": ss.Category(["yes", "no"], nullable=True),
    "sex": ss.Category(["m", "f"]),
    "relation": ss.Category(["husband", "wife", "other"]),
    "education": ss.Category(["primary", "secondary", "tertiary"]),
    "years": ss.Integer(0, 20),
    "admission": ss.Date("2020-01-01", "2020-12-31"),
    "discharge": ss.Date("2020-01-01", "2020-12-31", nullable=True),
    "income": ss.Number(0, 1000),
    "member": ss.Boolean(),
}
RULES = [
    "spouse is null where age < 15",
    "spouse is not null where age >= 15",
    "relation = 'husband' implies sex = 'm'",
    "relation = 'wife' implies sex = 'f'",
    "education -> years",
    "discharge >= admission",
    "income = 0.1 where age < 15",
    "member = false or age >= 18",
]
SCHEMA = ss.Schema(COLUMNS, RULES, CODES)


@pytest.fixture(scope="module")
def people():
    rng, n = np.random.default_rng(0), 600
    age, sex = rng.integers(0, 90, n), rng.choice(["m", "f"], n)
    admission = rng.integers(0, 300, n)
    education = rng.choice(["primary", "secondary", "tertiary"], n)
    day = np.datetime64("2020-01-01")
    return pd.DataFrame(
        {
            "age": age,
            "spouse": np.where(age < 15, None, rng.choice(["yes", "no"], n)),
            "sex": sex,
            "relation": np.where(rng.random(n) < 0.4, "other", np.where(sex == "m", "husband", "wife")),
            "education": education,
            "years": pd.Series(education).map(CODES["education -> years"]),
            "admission": day + admission.astype("timedelta64[D]"),
            "discharge": day + (admission + rng.integers(0, 30, n)).astype("timedelta64[D]"),
            "income": np.where(age < 15, 0.1, rng.gamma(2, 100, n)),
            "member": (age >= 18) & (rng.random(n) < 0.5),
        }
    )


@pytest.fixture(scope="module")
def release(people):
    return ss.release(people, schema=SCHEMA, epsilon=1.0, delta=1e-6, seed=1)


def broken(rows):
    """Count the rows that break each rule, in other words than the library's."""
    child, years = rows["age"] < 15, rows["education"].map(CODES["education -> years"])
    return [
        int((rows["spouse"].isna() != child).sum()),
        int((rows["relation"].map({"husband": "m", "wife": "f"}).fillna(rows["sex"]) != rows["sex"]).sum()),
        int((rows["years"] != years).sum()),
        int((pd.to_datetime(rows["discharge"]) < pd.to_datetime(rows["admission"])).sum()),
        int((rows["income"][child] != 0.1).sum()),
        int((rows["member"] & (rows["age"] < 18)).sum()),
    ]


def test_rows_of_a_release_keep_every_rule_also_as_csv(release, people, tmp_path):
    assert broken(release.to_pandas()) == [0] * 6
    folder = release.write(tmp_path / "release", csv=True)
    assert broken(pd.read_csv(folder / "synthetic.csv", keep_default_na=False, na_values=[""])) == [0] * 6
    without = ss.release(people, schema=ss.Schema(COLUMNS), epsilon=1.0, delta=1e-6, seed=1)
    assert all(broken(without.to_pandas())), "the test can tell"


def test_more_rows_keep_every_rule(release):
    assert broken(release.sample(2000, seed=2).to_pandas()) == [0] * 6
    women = release.sample(300, where={"sex": "f", "age": (0, 20)}, seed=3).to_pandas()
    assert len(women) == 300
    assert broken(women) == [0] * 6


def test_the_rows_of_the_paper_s_method_keep_every_rule(people):
    made = ss.release(people, schema=SCHEMA, epsilon=1.0, seed=1, method="paper")
    assert broken(made.to_pandas()) == [0] * 6


def test_verify_holds_rows_against_rules(people, tmp_path):
    few = ss.Schema({name: COLUMNS[name] for name in ("age", "spouse")}, RULES[:2])
    folder = ss.release(people, schema=few, epsilon=1.0, seed=1, synthetic_rows=100).write(tmp_path / "release")
    found = ss.verify(folder)
    assert found.passed, str(found)
    assert "to the bit" in found["reproduction"].sentence
    assert found["constraints"].sentence == "No row breaks one of 2 relations."
    rows = parquet.read_table(folder / "synthetic.parquet")
    parquet.write_table(rows.set_column(1, "spouse", pa.array(["no"] * rows.num_rows)), folder / "synthetic.parquet")
    failures = {check.name: check.sentence for check in ss.verify(folder).failures}
    assert "rows break the constraint 'spouse is null where age < 15'" in failures["constraints"]


def test_a_schema_with_rules_is_written_and_read_again():
    again = ss.Schema.parse(SCHEMA.to_toml())
    assert again == SCHEMA
    assert again.codes == CODES
    assert pickle.loads(pickle.dumps(SCHEMA)) == SCHEMA
    assert ss.Schema.from_facts(SCHEMA.facts()) == SCHEMA
    assert "codes" not in ss.Schema(COLUMNS, ["age >= 3"]).facts()


def test_a_comparison_with_a_missing_cell_is_false():
    schema = ss.Schema(COLUMNS, ["spouse = 'yes' where age >= 15", "age >= 18 where discharge >= admission"])
    table = {name: column[:2] for name, column in schema.from_unit(np.zeros((3, schema.dimensions))).items()}
    table |= {
        "spouse": pa.array([None, "yes"]),
        "age": np.array([15, 15]),
        "discharge": pa.array([None, None], pa.date32()),
    }
    values = {name: column.codes(table[name]) for name, column in COLUMNS.items() if column.kind == "category"}
    values |= {"age": np.array([15.0, 15.0]), "admission": np.zeros(2), "discharge": np.full(2, np.nan)}
    assert schema.edits.broken(values) == {
        "spouse = 'yes' where age >= 15": 1,
        "age >= 18 where discharge >= admission": 0,
    }


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (["sex = 'm' where agee < 3"], "There is no column 'agee'. Did you mean 'age'?"),
        (["sex = 'x' where age < 3"], "'x' is no level of 'sex'"),
        (["sex < 'm' where age < 3"], "'sex' is a category; its levels have no order"),
        (["age = 'old' where sex = 'm'"], "'old' is no value of 'age', which is of type integer"),
        (
            ["admission > '2020-13-01' where sex = 'm'"],
            "'2020-13-01' is no value of 'admission', which is of type date",
        ),
        (["sex is null where age < 3"], "'sex' has no missing cells: write nullable = true"),
        (["sex = 'm' implies"], "it ends too early"),
        (["sex = 'm' implies age"], "a condition compares a column"),
        (["sex = 'm' implies age < 3 sex"], "'sex' is not expected there"),
        (["sex in ('m' implies age < 3"], "')' is missing"),
        (["sex = 'm' implies 3 < 4"], "a comparison needs a column"),
        (["age < admission where sex = 'm'"], "two columns are compared as numbers, as dates or as datetimes"),
        (["sex = m where age < 3"], "There is no column 'm'"),
        (["income = age where sex = 'm'"], "equal ones must be integers"),
        (["sex = 'm' -> age"], "a rule with codes is COLUMN -> COLUMN and nothing else"),
        (["education -> years"], "which value of 'years' belongs to which of 'education' must be public"),
        (["(" * 30 + "age < 3" + ")" * 30 + " or sex = 'm'"], "too many parentheses"),
        (["sex = 'm' ; age < 3"], "'; age < 3' cannot be read"),
        (["sex = 'm' or age < 3", "sum(age) = 100"], "'age' cannot have both a rule and a public sum or mean"),
        (["age > 120 where income >= 0"], "No row can keep the rule 'age > 120 where income >= 0'"),
        (
            ["sex = 'm'", "member = true or age < 99", "relation = 'wife'", "relation = 'wife' implies sex = 'f'"],
            "No row can keep all of the rules \"sex = 'm'\", \"relation = 'wife'\", \"relation = 'wife' implies sex = 'f'\" "
            "together",
        ),
        (["age >= 30", "years >= age where sex = 'm'", "sex in ('m')"], "No row can keep all of the rules"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said(rules, words):
    with pytest.raises(ss.SchemaError) as caught:
        ss.Schema(COLUMNS, rules)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        ({"education -> years": {"primary": 6}}, "every value of 'education' must have one code; 'secondary' has none"),
        ({"education -> years": {**CODES["education -> years"], "none": 0}}, "there are more codes than values"),
        ({"education -> years": {**CODES["education -> years"], "primary": "six"}}, "'six' is no value of 'years'"),
        (
            {"education -> years": {**CODES["education -> years"], "primary": None}},
            "must be texts, numbers or truth values",
        ),
        ({"education -> age": {"primary": 6}}, "which is no constraint: add it, word for word"),
        ([], "codes must be tables such as"),
    ],
)
def test_what_is_wrong_with_codes_is_said(codes, words):
    with pytest.raises(ss.SchemaError) as caught:
        ss.Schema(COLUMNS, ["education -> years"], codes)
    assert words in str(caught.value)


def test_a_truth_value_alone_is_a_rule():
    schema = ss.Schema(COLUMNS, ["member = true"])
    assert schema.edits.texts == ("member = true",)
    assert keep_edits(schema, np.zeros((5, schema.dimensions)), generator=np.random.default_rng(0)).shape[0] == 5


def clauses(columns, count, seed):
    """Return rules over truth values, three in each, of which so many contradict one another."""
    rng = np.random.default_rng(seed)
    picked = [(rng.choice(columns, 3, replace=False), rng.random(3) < 0.5) for _ in range(count)]
    return [" or ".join(f"b{i} = {str(sign).lower()}" for i, sign in zip(*one, strict=True)) for one in picked]


def test_the_names_of_contradictory_rules_are_found_in_a_bounded_number_of_steps(monkeypatch):
    """Of 150 rules that contradict one another, each by a search of its own: a set is named before that takes minutes."""
    steps, search = [0], row_search.RowSearch._chosen

    def counted(self, *settings):
        steps[0] += 1
        return search(self, *settings)

    monkeypatch.setattr(row_search.RowSearch, "_chosen", counted)
    monkeypatch.setattr(consistency, "MOST_STEPS", 300)
    with pytest.raises(ss.SchemaError, match="No row can keep all of the rules"):
        ss.Schema({f"b{i}": ss.Boolean() for i in range(12)}, clauses(12, 150, seed=1))
    assert steps[0] <= 2 * 300 + 1


def test_a_contradiction_among_many_rules_is_named_by_its_rules_alone():
    rules = [f"b{i} = true or b{i + 1} = true" for i in range(90)]
    rules[40:40] = ["b95 = true or b96 = true", "b95 = false", "b96 = false", "b95 = true implies b3 = true"]
    with pytest.raises(ss.SchemaError) as caught:
        ss.Schema({f"b{i}": ss.Boolean() for i in range(97)}, rules)
    expected = "all of the rules 'b95 = true or b96 = true', 'b95 = false', 'b96 = false' together"
    assert expected in str(caught.value)


def test_an_order_of_days_and_times_takes_no_program(monkeypatch):
    """Whole seconds of years took a solver a second each; circles of < and too little room are still seen."""
    monkeypatch.setattr(row_search, "point_inside", None)
    times = {f"t{i}": ss.Datetime("2020-01-01", "2024-12-31", nullable=i == 0) for i in range(6)}
    chain = [f"t{i} < t{i + 1} where t{i} is not null" for i in range(5)]
    ends = ["t5 <= '2020-01-01T00:00:06' where t1 is not null", "t5 >= t2 where t2 > t1"]
    row = ss.Schema(times, [*chain, *ends]).edits.components[0].row()
    numbers = [row[f"t{i}"] for i in range(6) if row[f"t{i}"] is not None]
    assert numbers == sorted(set(numbers))
    assert all(number == int(number) for number in numbers)
    for wrong in (["t5 < t1 or t5 = t1"], ["t5 <= '2020-01-01T00:00:03' where t1 is not null", "t0 is not null"]):
        with pytest.raises(ss.SchemaError, match="No row can keep"):
            ss.Schema(times, [*chain, *wrong])


def test_a_rule_that_can_be_kept_in_too_many_ways_is_refused_as_such():
    """Not as one that no row can keep: of all ways only the last 512 are possible."""
    columns = {f"b{i}": ss.Boolean() for i in range(20)}
    many = " and ".join(f"(b{2 * i} = true or b{2 * i + 1} = true)" for i in range(10))
    with pytest.raises(ss.SchemaError, match="more than 256 ways to keep it"):
        ss.Schema(columns, [f"b0 = true and b0 = false or ({many})", "b0 = false"])
    # What "and" joins is as good as several rules.
    assert ss.Schema(columns, [many, "b0 = false"]).edits is not None


def test_values_that_nobody_knows_have_no_rules():
    columns = {"ward": ss.Category("private"), "age": ss.Integer(0, "private"), "sex": ss.Category(["m", "f"])}
    for rule in ("ward = 'a' where sex = 'm'", "age < 3 where sex = 'm'"):
        with pytest.raises(ss.SchemaError, match="are private"):
            ss.Schema(columns, [rule])


def test_swaps_mend_rules_and_keep_every_column():
    """Where the columns agree with the rules, no value has to be invented."""
    columns = {"age": ss.Integer(0, 99), "spouse": ss.Category(["yes", "no"], nullable=True)}
    schema = ss.Schema(columns, ["spouse is null where age < 50", "spouse is not null where age >= 50"])
    rng = np.random.default_rng(0)
    points = np.zeros((400, schema.dimensions))
    points[:, 0] = schema.columns["age"].to_unit(rng.permutation(np.repeat([20, 70], 200)))
    points[rng.permutation(400)[:200], 1] = 1.0
    swapped = swapped_to_keep(schema, points, generator=rng)
    assert np.array_equal(np.sort(swapped, axis=0), np.sort(points, axis=0))
    assert np.array_equal(keep_edits(schema, swapped, generator=rng), swapped)
    assert not np.array_equal(keep_edits(schema, points, generator=rng), points)


def test_swaps_to_tables_break_no_rule():
    """A released table that noise made impossible is matched only as far as the rules allow."""
    schema = ss.Schema({"a": ss.Category(["x", "y"]), "b": ss.Category(["x", "y"])}, ["a = 'x' implies b = 'x'"])
    rng = np.random.default_rng(0)
    codes = np.array([[0, 0]] * 100 + [[1, 0]] * 100 + [[1, 1]] * 200)
    points = np.concatenate([np.eye(2)[codes[:, 0]], np.eye(2)[codes[:, 1]]], axis=1)
    axes = [Axis(c, 2, 0, codes[:, c], np.zeros(400, dtype=np.int64), 0) for c in (0, 1)]
    target = Target((0, 1), np.array([[0.05, 0.2], [0.45, 0.3]]), 0.01)
    for guard, wanted in ((None, 80), (Guard.of(schema, points), 0)):
        fit = Swapping(axes, [target], columns=2, movable=[0, 1], correlations=None, generator=rng, guard=guard)
        fit.fit(30)
        a, b = (codes[fit.origins[c], c] for c in (0, 1))
        assert np.count_nonzero((a == 0) & (b == 1)) == pytest.approx(wanted, abs=25 if wanted else 0)


def test_an_update_keeps_the_rules(people, tmp_path):
    few = ss.Schema({name: COLUMNS[name] for name in ("sex", "relation")}, RULES[2:4])
    key = tmp_path / "owner.key"
    ss.federated.make_key(key)
    ss.release(people[:400], schema=few, epsilon=1.0, keep=tmp_path / "store", key=key, seed=1)
    rows = ss.update(tmp_path / "store", people[400:], epsilon=1.0, key=key, seed=2).to_pandas()
    assert (rows["sex"][rows["relation"] == "husband"] == "m").all()
    assert (rows["sex"][rows["relation"] == "wife"] == "f").all()
