"""Categories of many levels: tiers of parents, a release from schema to verification, and what is said of single levels."""

import json

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.methods.layout import Shape
from smoothsynth.methods.levels import plan_levels
from smoothsynth.queries.level_histograms import LevelHistograms

LETTERS = "ABCDEFGHIJKL"
CODES = tuple(f"{letter}{block}{code}" for letter in LETTERS for block in range(5) for code in range(6))
ROWS = 4000


def people(rows=ROWS, seed=0):
    """Codes with heavy tails, and an age that goes with the first letter."""
    draw = np.random.default_rng(seed)
    codes = np.array(CODES)[(360 * draw.random(rows) ** 4).astype(int)]
    return pa.table({"code": codes, "age": [20 + 5 * LETTERS.index(c[0]) for c in codes] + draw.normal(0, 9, rows)})


def schema(**options):
    return ss.Schema({"code": ss.Category(CODES, parents=[1, 2], **options), "age": ss.Number(0, 100)})


@pytest.fixture(scope="module")
def release():
    return ss.release(people(), schema=schema(), epsilon=8.0, delta=1e-6, seed=1)


def test_parents_are_prefixes_a_dictionary_or_lists():
    by_prefix = ss.Category(CODES, parents=[1, 2]).hierarchy
    blocks = {code: code[:2] for code in CODES}
    chained = ss.Category(CODES, parents={**blocks, **{block: block[0] for block in blocks.values()}})
    listed = ss.Category(CODES, parents=[[code[0] for code in CODES], [code[:2] for code in CODES]])
    assert chained == listed
    for one in (chained.hierarchy, listed.hierarchy):
        assert one.nodes == by_prefix.nodes
        assert all(map(np.array_equal, one.places, by_prefix.places))
    assert (by_prefix.nodes[0], by_prefix.cube) == (tuple(LETTERS), 0)
    assert listed.dimensions == 12
    assert schema().coordinates[:2] == ("code = A", "code = B")


def test_a_short_chain_ends_in_the_level_and_other_stands_for_itself():
    parents = {**{code: code[:2] for code in CODES}, **{code[:2]: code[0] for code in CODES}, "X": "none"}
    tiers = ss.Category([*CODES, "X", "rest"], parents=parents, other="rest").hierarchy
    assert [tier[-2:] for tier in tiers.nodes] == [("none", "rest"), ("X", "rest"), ("X", "rest")]


def test_the_finest_tier_that_fits_is_in_the_cube_and_empty_ones_are_left_out():
    column = ss.Category([f"{i:04}" for i in range(2000)], parents=[1, 2, 3, 4])
    assert [len(nodes) for nodes in column.hierarchy.nodes] == [2, 20, 200, 2000]
    assert column.hierarchy.cube == 1
    assert ss.Category(["a1", "a2", "b1"], parents=1).hierarchy is None


def test_many_levels_without_parents_are_cut_into_runs_of_their_order():
    column = ss.Category(list(range(20_000)))
    assert column.dimensions == 24
    assert column.cube.levels[0] == "0 to 833"
    assert column.codes(np.array([0, 833, 834, 19_999, 20_000])).tolist() == [0, 0, 1, 23, -1]
    assert ss.Category(list(range(256))).hierarchy is None


BAD = [
    (0, "at least 1 that rise"),
    ([2, 1], "that rise"),
    ([1, 1], "that rise"),
    ([], "1 to 6 tiers"),
    ("1", "1 to 6 tiers"),
    (True, "1 to 6 tiers"),
    ([["x"]], "one node for each level"),
    ([1, ["x"]], "one node for each level"),
    ([[" "] * 360], "not empty"),
    ([["x"] * 360], "at least two nodes"),
    ([list(CODES)], "360 nodes and may have 256"),
    ([[c[1] for c in CODES], [c[0] for c in CODES]], "one node of the tier above"),
    ({"A00": "A"}, "a parent for each level"),
    ({code: code for code in CODES}, "without a circle"),
    ({**{code: code[0] for code in CODES}, "A00": None}, "one is missing"),
    ([[None, *(code[0] for code in CODES[1:])]], "one is missing"),
    ({**{code: code[0] for code in CODES}, "A00": float("nan")}, "one is missing"),
]


@pytest.mark.parametrize(("parents", "words"), BAD)
def test_parents_that_are_none_are_refused_in_words(parents, words):
    with pytest.raises(ss.SchemaError, match=words):
        ss.Schema({"code": ss.Category(CODES, parents=parents)})


def test_private_levels_have_no_parents():
    with pytest.raises(ss.SchemaError, match="parents are for levels that are public"):
        ss.Schema({"code": ss.Category("private", parents=[1])})


@pytest.mark.parametrize("parents", [[1, 2], {code: code[0] for code in CODES}, None])
def test_a_schema_is_written_and_read_back_whole(parents, tmp_path):
    known = ss.Schema({"code": ss.Category(CODES, parents=parents, nullable=True)})
    known.save(tmp_path / "schema.toml")
    assert (
        ss.Schema.load(tmp_path / "schema.toml") == known == ss.Schema.from_facts(json.loads(json.dumps(known.facts())))
    )


def test_levels_and_parents_stand_in_a_file_beside_the_schema(tmp_path):
    lines = ["level,parent,chapter", *(f"{code},{code[:2]},{code[0]}" for code in CODES)]
    (tmp_path / "codes.csv").write_text("\n".join(lines), encoding="utf-8")
    text = '[columns.code]\ntype = "category"\nlevels_file = "codes.csv"\nnullable = true\n'
    (tmp_path / "schema.toml").write_text(text, encoding="utf-8")
    column = ss.Schema.load(tmp_path / "schema.toml").columns["code"]
    assert column.hierarchy.nodes == ss.Category(CODES, parents=[1, 2]).hierarchy.nodes
    assert "levels_file" not in column.facts()


@pytest.mark.parametrize(
    ("lines", "extra", "words"),
    [
        (None, "", "cannot be read"),
        ("code\nA", "", "begins with level"),
        ("level,parent\nA", "", "as many cells"),
        ("level\nA\nB", 'levels = ["A"]', "not in both"),
        ("level,parent\nA,x", "parents = [1]", "not in both"),
    ],
)
def test_a_bad_file_of_levels_is_refused_in_words(lines, extra, words, tmp_path):
    if lines is not None:
        (tmp_path / "codes.csv").write_text(lines, encoding="utf-8")
    text = f'[columns.code]\ntype = "category"\nlevels_file = "codes.csv"\n{extra}\n'
    (tmp_path / "schema.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ss.SchemaError, match=words):
        ss.Schema.load(tmp_path / "schema.toml")


def test_a_release_is_whole_and_drawn_again_to_the_bit(release, tmp_path):
    path = release.write(tmp_path / "out")
    checks = {check.name: check for check in ss.verify(path).checks}
    assert {check.outcome for check in checks.values()} == {"passed"}
    assert "to the bit" in checks["reproduction"].sentence
    loaded = ss.load(path)
    assert loaded.schema == release.schema
    assert loaded.sample(50, seed=3).equals(loaded.sample(50, seed=3))
    assert set(loaded.sample(9, where={"code": CODES[0]}, seed=1)["code"].to_pylist()) == {CODES[0]}
    page = (path / "report.html").read_text(encoding="utf-8")
    assert "360 levels lie below 12 nodes" in page


def test_levels_are_near_those_of_the_data(release):
    column = release.schema.columns["code"]
    real, made = (np.bincount(column.level_codes(t["code"]), minlength=360) / ROWS for t in (people(), release.table))
    assert np.abs(real - made).sum() / 2.0 < 0.1
    letters = [np.bincount(column.hierarchy.places[0], weights=one) for one in (real, made)]
    assert np.abs(letters[0] - letters[1]).sum() / 2.0 < 0.02


def test_other_columns_go_with_the_nodes(release):
    rows = release.to_pandas()
    means = rows.groupby(rows["code"].str[0])["age"].mean()
    assert means["A"] < 35.0 < 45.0 < means["L"]


def test_given_rows_keep_their_level_and_lacking_ones_get_one(release):
    given = pa.table({"code": ["A00", "L45"]})
    assert release.sample(given=given, seed=1)["code"].to_pylist() == ["A00", "L45"]
    filled = release.sample(given=pa.table({"age": [20.0, 75.0]}), seed=1)
    assert set(filled["code"].to_pylist()) <= set(CODES)


def test_a_folder_with_counts_of_other_tiers_is_refused(release, tmp_path):
    path = release.write(tmp_path / "out")
    document = json.loads((path / "moments.json").read_text(encoding="utf-8"))
    counted = next(m for m in document["moments"] if "histograms" in (m["view"] or {}))
    counted["view"]["histograms"][0][2] -= 1
    counted["integers"].pop()
    (path / "moments.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    with pytest.raises(ss.ReleaseError, match="tiers that the columns of the schema have"):
        ss.load(path)


def test_missing_cells_stay_missing_and_unknown_ones_count_at_other():
    column = ss.Category([*CODES, "rest"], parents=[1, 2], other="rest", nullable=True)
    assert column.level_codes(["A01", "?", None, " A00 "]).tolist() == [1, 360, -1, 0]
    table = pa.table({"code": [None if i % 4 == 0 else "?" if i % 4 == 1 else "A00" for i in range(2000)]})
    made = ss.release(table, schema=ss.Schema({"code": column}), epsilon=5.0, delta=1e-6, seed=1)
    assert made.table["code"].null_count == pytest.approx(500, abs=30)
    assert made.table["code"].to_pylist().count("rest") == pytest.approx(500, abs=60)


def test_a_plan_says_what_stands_for_the_levels():
    assert "360 levels, in tables and answers as 12 parents, such as 'A'. Levels are counted" in one_line(
        ss.plan(schema(), ROWS, epsilon=8.0, delta=1e-6)
    )
    runs = ss.plan(ss.Schema({"zip": ss.Category(list(range(300)))}), 50, epsilon=0.1)
    assert "as 24 runs of the order in which they are declared, such as '0 to 12'. Levels are not counted" in one_line(
        runs
    )


def one_line(planned):
    return " ".join(str(planned).split())


def test_where_noise_drowns_levels_none_is_counted_and_all_are_alike():
    planned = ss.plan(schema(), 200, epsilon=0.5, delta=1e-6)
    assert not any(isinstance(m.family, LevelHistograms) for m in planned.measurements)
    made = ss.release(people(200), schema=schema(), epsilon=0.5, delta=1e-6, seed=1)
    with pytest.raises(ss.PlanError, match="were not counted"):
        made.answer("avg(code = 'A00')")


@pytest.mark.parametrize(("delta", "most"), [(0.0, 2.0), (1e-6, 1.1)])
def test_nodes_keep_much_of_the_budget(delta, most):
    alone = ss.Schema({"code": schema().columns["code"]})
    nodes = ss.Schema({"code": ss.Category(list(LETTERS))})
    method = ss.methods.Adaptive(noise="gaussian" if delta else "pure")
    both = [ss.plan(s, 20_000, epsilon=1.0, delta=delta, method=method).measurements for s in (alone, nodes)]
    assert len(both[0]) > len(both[1])
    assert both[0][0].deviations(1)[0] <= 1.0001 * most * both[1][0].deviations(1)[0]


def test_one_column_of_many_levels_has_the_noise_that_tells_levels_best():
    alone = ss.Schema({"code": schema().columns["code"]})
    noises = [
        ss.plan(alone, 20_000, epsilon=1.0, delta=1e-6, method=ss.methods.Adaptive(noise=noise))
        .measurements[-1]
        .deviations(1)[0]
        for noise in (None, "pure", "gaussian")
    ]
    assert noises[0] == min(noises[1:])


def test_coarse_tiers_stay_where_fine_ones_drown():
    shape = Shape.of(ss.Schema({"code": ss.Category([f"{i:05}" for i in range(50_000)], parents=[1, 3])}))
    nodes = [[r.nodes for r in plan_levels(shape, unit, power=0.5)] for unit in (1e-5, 3e-3, 1.0)]
    assert nodes == [[500, 50_000], [500], []]


def test_a_level_a_node_and_nothing_else_can_be_asked_for(release):
    real = people()["code"].to_pylist()
    for text, share in (("A00", real.count("A00")), ("A1", sum(code[:2] == "A1" for code in real))):
        found = release.answer(f"avg(code = '{text}')")
        assert found.low <= share / ROWS <= found.high
        assert found.high - found.low < 0.1
        assert found.unseen_is == "bounded"
    assert release.answer("avg(code = 'A')").value > 0.3
    with pytest.raises(ss.PlanError, match="asked for by itself only"):
        release.answer("avg(age where code = 'A00')")
    with pytest.raises(ss.PlanError, match="no level 'zz'"):
        release.answer("avg(code = 'zz')")


def test_an_interval_of_a_level_is_its_noisy_count_and_its_noise(release):
    noisy = release.moments[-1]
    reach = 1.959964 * noisy.deviations[0]
    found = release.answer("avg(code = 'A00')")
    # Cells that are no level are left out: each of two intervals fails half as often.
    wider = 2.241403 / 1.959964 * reach
    there = 1.0 - noisy.values[-1]
    # An interval holds its value, whatever the noise of the count.
    high = max(found.value, min(1.0, (noisy.values[0] + wider) / (there - wider)))
    assert found.high == pytest.approx(high, rel=1e-4)


@pytest.mark.parametrize("method", ["paper", ss.methods.Adaptive(candidates="hypercube")])
def test_methods_that_weigh_candidates_refuse_them(method):
    with pytest.raises(ss.PlanError, match="levels below the nodes"):
        ss.plan(schema(), ROWS, epsilon=1.0, delta=1e-6, method=method)


def test_rules_do_not_go_with_many_levels_which_is_said():
    """Rules are about levels that rows do not have yet."""
    with pytest.raises(ss.SchemaError, match="declare the nodes of a tier as levels"):
        ss.Schema(schema().columns, constraints=["code = 'A00' implies age > 20"])


def test_levels_of_persons_with_several_rows_are_counted_once_a_person(tmp_path):
    """A person who has one code nine times counts as one; half of all persons have it, a third of the rows do not."""
    known = ss.Schema(schema().columns, person="id")
    ids = np.repeat(np.arange(2000), np.tile([9, 1], 1000))
    codes = np.where(ids % 2 == 0, "A00", np.array(CODES)[ids % 360])
    made = ss.release(
        pa.table({"id": ids, "code": codes, "age": np.full(len(ids), 40.0)}),
        schema=known,
        epsilon=8.0,
        delta=1e-6,
        seed=1,
        rows_per_person=3,
    )
    assert any(isinstance(m.measurement.family, LevelHistograms) for m in made.moments)
    assert made.to_pandas()["code"].eq("A00").mean() == pytest.approx(0.5, abs=0.03)
    made.write(tmp_path / "out")
    assert ss.verify(tmp_path / "out").passed


def test_a_prior_begins_with_the_nodes_of_many_levels():
    public = people(seed=5).to_pandas()
    public["age"] = public["age"].clip(0, 100)
    made = ss.release(people(), schema=schema(), epsilon=8.0, delta=1e-6, seed=1, prior=public)
    assert made.table.num_rows == ROWS
    assert set(made.table["code"].to_pylist()) <= set(CODES)
