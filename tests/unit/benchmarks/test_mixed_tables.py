"""benchmarks/accuracy/mixed_tables.py: the tables it takes, how it sees them, and a judge that can tell tables apart."""

import numpy as np
import pandas as pd
import pytest
from benchmarks.accuracy import mixed_tables
from benchmarks.accuracy.mixed_judge import MEASURES, MixedJudge

import smoothsynth as ss

from .test_tables import packed

ROWS = 600
RNG = np.random.default_rng(0)
KIND = RNG.choice(["a", "b", "c"], ROWS, p=[0.5, 0.3, 0.2])
TABLE = pd.DataFrame(
    {
        "id": RNG.permutation(ROWS),
        "kind": np.where(RNG.random(ROWS) < 0.1, None, KIND),
        "flag": RNG.integers(0, 2, ROWS),
        "size": RNG.normal(size=ROWS) + 2.0 * (KIND == "b"),
        "gaps": np.where(RNG.random(ROWS) < 0.3, np.nan, RNG.normal(size=ROWS)),
        "name": [f"person {i}" for i in range(ROWS)],
        "empty": np.where(RNG.random(ROWS) < 0.9, np.nan, 1.5 * np.arange(ROWS)),
    }
)


@pytest.fixture(scope="module")
def seen():
    table = TABLE[["kind", "flag", "size", "gaps"]]
    schema = mixed_tables.schema_of(table)
    return schema, mixed_tables.unit_points(mixed_tables.prepared(table, schema), schema)


def test_tables_with_categories_or_missing_values_are_taken(tmp_path):
    plain = pd.DataFrame(RNG.normal(size=(ROWS, 5)), columns=list("abcde"))
    found = mixed_tables.tables(packed(tmp_path / "t.tar.gz", {"one/Mixed": TABLE, "one/Plain": plain}))
    assert list(found) == ["Mixed"]
    assert list(found["Mixed"].columns) == ["kind", "flag", "size", "gaps"]


def test_the_schema_has_levels_and_says_what_may_be_missing(seen):
    schema, points = seen
    assert schema.columns["kind"] == ss.Category(["a", "b", "c"], nullable=True)
    assert schema.columns["flag"] == ss.Category(["0", "1"])
    assert schema.columns["gaps"].nullable
    assert not schema.columns["size"].nullable
    assert points.shape == (ROWS, schema.dimensions)
    assert points[:, schema.coordinates_of("kind")].sum() == TABLE["kind"].notna().sum()


def test_bins_are_undone_up_to_their_width(seen):
    schema, points = seen
    binned = mixed_tables.Binned.of(schema)
    codes, sizes = binned.codes(points), binned.sizes()
    assert sizes == [4, 2, mixed_tables.BINS + 1, mixed_tables.BINS + 2]
    assert (codes.max(axis=1) < sizes).all()
    back = binned.points(codes, np.random.default_rng(1))
    assert np.abs(back - points).max() <= 2.0 / mixed_tables.BINS
    np.testing.assert_array_equal(binned.codes(back), codes)


def test_few_values_and_crowded_ones_have_cells_of_their_own():
    few = mixed_tables.Cells.of(ss.Integer(1, 16))
    values = np.linspace(-1.0, 1.0, 16)
    assert few.count == 16
    np.testing.assert_array_equal(few.codes(values), np.arange(16))
    np.testing.assert_allclose(few.values(np.arange(16), RNG), values, atol=1e-12)
    many = mixed_tables.Cells.of(ss.Integer(-10, 90))
    assert many.count == mixed_tables.BINS + 3
    assert many.values(many.codes(np.array([-0.8, 1.0, -1.0])), RNG).tolist() == pytest.approx([-0.8, 1.0, -1.0])
    assert (many.codes(np.array([-0.79, 0.99])) < mixed_tables.BINS).all()
    assert mixed_tables.Cells.of(ss.Number(1, 2)).count == mixed_tables.BINS


def test_rows_of_cells_are_rows_of_the_schema():
    schema = ss.Schema({"count": ss.Integer(0, 200, nullable=True), "kind": ss.Category(["a", "b"])})
    binned, rng = mixed_tables.Binned.of(schema), np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 500) for size in binned.sizes()])
    made = binned.points(codes, rng)
    np.testing.assert_allclose(schema.snap(made), made)
    counts = (made[:, 0] + 1.0) * 100.0
    assert np.abs(counts - np.rint(counts)).max() < 1e-9


def test_a_judge_finds_nothing_in_the_same_rows_and_each_error_where_it_is(seen):
    schema, points = seen
    judge = MixedJudge(schema, points, seed=0)
    assert judge(points[::-1]) == pytest.approx([0.0] * len(MEASURES), abs=1e-12)
    alone = points.copy()
    kind = schema.coordinates_of("kind")
    alone[:, kind] = np.random.default_rng(1).permutation(points[:, kind])
    found = dict(zip(MEASURES, judge(alone), strict=True))
    assert found["shares"] == found["Wasserstein"] == found["correlations"] == 0.0
    assert min(found["pairs"], found["triples"], found["group means"]) > 0.05
    moved = points.copy()
    moved[:, schema.coordinates_of("size")] += 0.1
    found = dict(zip(MEASURES, judge(moved), strict=True))
    assert found["Wasserstein"] == pytest.approx(0.05)
    assert found["shares"] == 0.0


def test_independent_histograms_keep_shares_and_lose_pairs(seen):
    schema, points = seen
    binned, rng = mixed_tables.Binned.of(schema), np.random.default_rng(2)
    codes, sizes = binned.codes(points), binned.sizes()
    made = mixed_tables.independent(codes, sizes, rng, epsilon=100.0, delta=0.0)
    found = dict(zip(MEASURES, MixedJudge(schema, points, seed=0)(binned.points(made, rng)), strict=True))
    assert found["shares"] < 0.05
    assert found["group means"] > 0.1
    noisy = mixed_tables.independent(codes, sizes, rng, epsilon=0.01, delta=0.0)
    assert MixedJudge(schema, points, seed=0)(binned.points(noisy, rng))[0] > found["shares"]


def test_peers_are_shown_one_by_one_and_runs_that_were_kept_are_not_made_again(tmp_path, capsys, monkeypatch):
    asked = []

    def run_peer(peer, method, *, numbers, job, given):
        asked.append(method)
        if method == "opendp-aim":
            return mixed_tables.Ending("stopped after 1 s", 1.0, 10.0), None
        return mixed_tables.Ending("ok", 2.0, 20.0), numbers

    monkeypatch.setattr(mixed_tables, "run_peer", run_peer)
    archive = packed(tmp_path / "t.tar.gz", {"one/Mixed": TABLE})
    peers = ["--peers", "opendp-mst", "opendp-aim", "--output", str(tmp_path / "runs.csv")]
    for _ in range(2):
        mixed_tables.main(["--archive", str(archive), "--rounds", "1", "--delta", "1e-6", "--every", "3", *peers])
        shown = capsys.readouterr().out
        assert "1 of 1" in shown
        assert "stopped after 1 s" in shown.replace("\n", " ")
    assert asked == ["opendp-mst", "opendp-aim"]


def test_the_command_prints_a_line_a_table(tmp_path, capsys):
    archive = packed(tmp_path / "t.tar.gz", {"one/Mixed": TABLE})
    mixed_tables.main(["--archive", str(archive), "--rounds", "1", "--delta", "1e-6"])
    shown = capsys.readouterr().out
    assert "Mixed" in shown
    assert "geometric mean" in shown
    with pytest.raises(SystemExit, match="There is no table Mixd"):
        mixed_tables.main(["--archive", str(archive), "--only", "Mixd"])
