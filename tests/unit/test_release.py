import json
import os
import stat
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.queries.measurement import NoisyMoments


@pytest.fixture
def release(frame, schema):
    return ss.release(frame, schema=schema, epsilon=1.0, seed=7)


def test_rows_are_of_the_schema(release, schema):
    table = release.to_arrow()
    assert tuple(table.column_names) == schema.names
    assert table.num_rows == 400
    assert pa.types.is_integer(table.schema.field("visits").type)
    frame = release.to_pandas()
    for name, column in schema.columns.items():
        assert frame[name].between(column.lower, column.upper).all()
    assert release.to_polars().shape == (400, 3)
    assert len(frame.drop_duplicates()) == 400


def test_another_number_of_rows(frame, schema):
    assert ss.release(frame, schema=schema, epsilon=1.0, synthetic_rows=1234).to_arrow().num_rows == 1234


def test_noise_is_fresh_although_the_seed_is_the_same(frame, schema):
    a, b = (ss.release(frame, schema=schema, epsilon=1.0, seed=7) for _ in range(2))
    assert a.moments[0].integers != b.moments[0].integers


def test_moments_are_right_when_epsilon_is_huge(frame, schema):
    release = ss.release(frame, schema=schema, epsilon=2e4, seed=1)
    unit = schema.to_unit({name: frame[name].to_numpy(float) for name in schema.names})
    for noisy in release.moments:
        # Laplace noise is beyond 15 deviations once in 10^9.
        assert noisy.deviations.max() < 5e-4
        np.testing.assert_allclose(noisy.values, noisy.of(unit), atol=1e-3 + 15 * noisy.deviations.max())
    np.testing.assert_allclose(release.unit_rows().mean(axis=0), unit.mean(axis=0), atol=5e-3)


def test_an_epsilon_finer_than_the_lattice_is_refused_before_anything_is_measured(frame, schema, monkeypatch):
    monkeypatch.setattr("smoothsynth.pipeline.run.measure", None)
    with pytest.raises(ss.PlanError, match="lattice"):
        ss.release(frame, schema=schema, epsilon=1e7)


def test_misuse_that_no_table_can_mend_is_refused_before_data_is_read(schema):
    method = ss.methods.Adaptive(tables=999)
    with pytest.raises(ss.PlanError, match="tables must be"):
        ss.release("no-such-file.csv", schema=schema, epsilon=1.0, delta=1e-6, method=method)
    with pytest.raises(TypeError, match="unexpected keyword argument 'smothness'"):
        ss.release("no-such-file.csv", schema=schema, epsilon=1.0, smothness=3)


_WIDE = {f"x{i}": ss.Number(0, 1) for i in range(24)}
_MIXED = {
    **{f"x{i}": ss.Number(0, 1, nullable=i % 3 == 0) for i in range(12)},
    **{f"c{i}": ss.Category(["a", "b", "c", "d"]) for i in range(6)},
}
_PLANNED = {
    "one number": ss.Schema({"x": ss.Number(0, 1)}),
    "one category": ss.Schema({"c": ss.Category(["a", "b"])}),
    "mixed": ss.Schema(_MIXED),
    "wide": ss.Schema(_WIDE),
    "a public sum": ss.Schema({"x": ss.Number(0, 1), "y": ss.Number(0, 1)}, ["sum(x) = 40"]),
}


@pytest.mark.parametrize("rows", [1, 60, 3_000])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", list(_PLANNED))
def test_a_release_carries_out_what_a_plan_for_its_rows_says_and_refuses_the_same(kind, delta, rows, monkeypatch):
    def told(call):
        try:
            return call().charges
        except ss.SmoothsynthError as error:
            return str(error)

    schema = _PLANNED[kind]
    values = {name: ["a"] * rows if name[0] == "c" else np.full(rows, 0.5) for name in schema.names}
    monkeypatch.setattr("smoothsynth.pipeline.run.carry_out", lambda planned, *_, **__: planned)
    for epsilon in (0.01, 1.0, 1e3, 1e6):
        for choices in ({}, {"method": ss.methods.Paper(candidates="hypercube")}, {"rows_per_person": 2}):
            settings = {"schema": schema, "epsilon": epsilon, "delta": delta, **choices}
            planned = told(lambda settings=settings: ss.plan(rows=rows, **settings))
            assert told(lambda settings=settings: ss.release(pa.table(values), **settings)) == planned


@pytest.mark.parametrize("fit", ["maximum entropy", "linear program"])
@pytest.mark.parametrize("candidates", ["model", "hypercube", "grid"])
@pytest.mark.parametrize("method", [ss.methods.Adaptive(), ss.methods.Paper(features=9)])
def test_every_combination_makes_a_table_with_the_means(frame, schema, method, candidates, fit):
    release = ss.release(
        frame, schema=schema, epsilon=100.0, seed=1, method=replace(method, candidates=candidates, fit=fit)
    )
    unit = schema.to_unit({name: frame[name].to_numpy(float) for name in schema.names})
    np.testing.assert_allclose(release.unit_rows().mean(axis=0), unit.mean(axis=0), atol=0.06)
    assert release.receipt.fit == fit
    assert release.receipt.candidates == candidates


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_algorithm_one_runs_on_the_full_grid(frame, schema, delta):
    two = ss.Schema({name: schema.columns[name] for name in ("age", "income")})
    plan = ss.plan(two, 400, epsilon=50.0, delta=delta, method=ss.methods.Paper(candidates="grid", smoothness=4))
    degrees = 1 + max(k for f in plan.measurements[0].features for _, k in f.terms[0])
    assert len(plan.measurements[0].features) == degrees**2 - 1
    assert plan.design.candidate_count == plan.design.levels**2
    made = ss.release(
        frame, schema=two, epsilon=50.0, delta=delta, method=ss.methods.Paper(candidates="grid", smoothness=4), seed=1
    )
    unit = two.to_unit({name: frame[name].to_numpy(float) for name in two.names})
    levels = np.unique(np.rint((made.unit_rows() + 1) * plan.design.levels / 2 - 0.5))
    assert levels.min() >= 0
    assert levels.max() <= plan.design.levels - 1
    np.testing.assert_allclose(made.unit_rows().mean(axis=0), unit.mean(axis=0), atol=0.1)


def test_a_grid_too_large_is_refused_with_the_way_out(schema):
    many = ss.Schema({f"c{i}": ss.Number(0, 1) for i in range(12)})
    with pytest.raises(ss.PlanError, match="ellipsoid"):
        ss.plan(many, 10_000, epsilon=1.0, method=ss.methods.Paper(candidates="grid"))


def test_the_receipt_says_it_in_words(release):
    facts = release.receipt.as_dict()
    assert "epsilon = 1" in facts["promise"]
    assert "one row" in facts["promise"]
    assert "same number of rows" in facts["neighbours"]
    assert facts["spent"]["epsilon"] <= 1.0
    for charge in facts["charges"]:
        assert charge["sensitivity"] > 0
        assert "one row replaced" in charge["in_words"]
        assert charge["mechanism"] in charge["in_words"]


def test_what_is_written_is_what_is_read(release, tmp_path):
    release.write(tmp_path / "out", csv=True)
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "synthetic.parquet", "synthetic.csv", "moments.json", "receipt.json", "report.html",
        "README.md", "codebook.csv", "datapackage.json", "croissant.json", "dcat.jsonld",
    }  # fmt: skip
    again = ss.load(tmp_path / "out")
    assert again.to_arrow().equals(release.to_arrow())
    assert again.moments == release.moments
    assert again.receipt == release.receipt
    assert isinstance(again.moments[0], NoisyMoments)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) & 0o444 == 0o444


def test_a_second_release_does_not_overwrite(release, tmp_path):
    release.write(tmp_path / "out")
    before = (tmp_path / "out" / "receipt.json").read_bytes()
    with pytest.raises(ss.ReleaseError, match="--force"):
        release.write(tmp_path / "out")
    assert (tmp_path / "out" / "receipt.json").read_bytes() == before
    release.write(tmp_path / "out", force=True, csv=True)
    assert (tmp_path / "out" / "synthetic.csv").is_file()


def test_force_does_not_delete_what_is_not_a_release(release, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years of work")
    with pytest.raises(ss.ReleaseError, match="not a release"):
        release.write(tmp_path / "home", force=True)
    assert (tmp_path / "home" / "thesis.txt").read_text() == "years of work"


def test_whole_or_not_at_all(release, tmp_path, monkeypatch):
    def fail(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["smoothsynth.pipeline.release"], "_write_json", fail)
    with pytest.raises(ss.ReleaseError, match="No space left"):
        release.write(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX full device")
def test_a_target_that_cannot_be_written(release, tmp_path):
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file", tmp_path / "file" / "below", "/dev/full/out"):
        with pytest.raises(ss.ReleaseError):
            release.write(bad)


def damage(folder, name, change):
    document = json.loads((folder / name).read_text())
    change(document)
    (folder / name).write_text(json.dumps(document))


@pytest.mark.parametrize(
    "harm",
    [
        lambda f: (f / "receipt.json").unlink(),
        lambda f: (f / "synthetic.parquet").unlink(),
        lambda f: (f / "receipt.json").write_text("{"),
        lambda f: (f / "receipt.json").write_text("[]"),
        lambda f: (f / "receipt.json").write_bytes(b"\xff\xfe"),
        lambda f: (f / "synthetic.parquet").write_bytes(b"PAR1"),
        lambda f: (f / "moments.json").write_text("{}"),
        lambda f: damage(f, "receipt.json", lambda d: d.pop("budget")),
        lambda f: damage(f, "receipt.json", lambda d: d.update(format=99)),
        lambda f: damage(f, "receipt.json", lambda d: d.update(rows=-1)),
        lambda f: damage(f, "receipt.json", lambda d: d["budget"].update(epsilon="lots")),
        lambda f: damage(f, "receipt.json", lambda d: d["sha256"].update({"../../secret": "0"})),
        lambda f: damage(f, "receipt.json", lambda d: d.update(sha256={})),
        lambda f: damage(f, "receipt.json", lambda d: d["charges"][0].update(scale=1.0)),
        lambda f: damage(f, "moments.json", lambda d: d["moments"][0].update(integers=[])),
    ],
)
def test_a_damaged_release_is_refused(release, tmp_path, harm):
    release.write(tmp_path / "out")
    harm(tmp_path / "out")
    with pytest.raises(ss.ReleaseError):
        ss.load(tmp_path / "out")


def test_there_is_no_such_release(tmp_path):
    with pytest.raises(ss.ReleaseError, match="no such folder"):
        ss.load(tmp_path / "nothing")
