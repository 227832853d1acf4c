"""Release folders that somebody tampered with: a release that can be used, or a ReleaseError; and nothing written."""

import io
import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import smoothsynth as ss
from smoothsynth.pipeline.release import as_text

RECEIPT, MOMENTS, ROWS = "receipt.json", "moments.json", "synthetic.parquet"
PURE, GAUSSIAN, SUBSPACE = range(3)


def put(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def forged(files, name, change):
    """Return the files with a change of a JSON document, and with hashes that fit."""
    from benchmarks.robustness.fuzz import resealed

    document = json.loads(files[name])
    change(document)
    return resealed({**files, name: as_text(document).encode()})


def refused(folder, words="."):
    before = sorted(str(p) for p in folder.parent.rglob("*"))
    with pytest.raises(ss.ReleaseError, match=words) as caught:
        ss.load(folder)
    assert len(str(caught.value)) < 1_000
    assert sorted(str(p) for p in folder.parent.rglob("*")) == before


def test_whole_releases_are_read(releases, tmp_path):
    from benchmarks.robustness.fuzz import use_release

    for files in releases:
        use_release(ss.load(put(tmp_path / "epsilon=1", files)))
    assert ss.load(tmp_path / "epsilon=1").subspace is not None


def first(d):
    return d["moments"][0]


def transformation(d, knots):
    first(d).update(view={"knots": knots, "radius": None, "pooled": False})


HUGE = [0] * 2_000_000
CHANGES = {
    "huge integers": (PURE, MOMENTS, lambda d: first(d).update(integers=HUGE)),
    "huge weights": (PURE, MOMENTS, lambda d: first(d).update(weights=[1] * 2_000_000)),
    "huge knots": (GAUSSIAN, MOMENTS, lambda d: transformation(d, [HUGE])),
    "many transformations": (PURE, MOMENTS, lambda d: transformation(d, [[0] * 513] * 900)),
    "other knots": (PURE, MOMENTS, lambda d: transformation(d, [["0"] * 513] * 3)),
    "a number beyond doubles": (PURE, MOMENTS, lambda d: first(d)["integers"].__setitem__(0, 10**400)),
    "a weight beyond doubles": (PURE, MOMENTS, lambda d: first(d)["weights"].__setitem__(0, 10**400)),
    "a weight as text": (PURE, MOMENTS, lambda d: first(d)["weights"].__setitem__(0, "65536")),
    "a weight that is true": (PURE, MOMENTS, lambda d: first(d)["weights"].__setitem__(0, True)),
    "a fraction": (PURE, MOMENTS, lambda d: first(d)["integers"].__setitem__(0, 0.5)),
    "a column that is not there": (PURE, MOMENTS, lambda d: first(d)["features"].__setitem__(0, [[[99, 1]]])),
    "a column before the first": (PURE, MOMENTS, lambda d: first(d)["features"].__setitem__(0, [[[-1, 1]]])),
    "a huge degree": (PURE, MOMENTS, lambda d: first(d)["features"].__setitem__(0, [[[0, 10**9]]])),
    "no terms": (PURE, MOMENTS, lambda d: first(d)["features"].__setitem__(0, [])),
    "three numbers": (PURE, MOMENTS, lambda d: first(d)["features"].__setitem__(0, [[[0, 1, 2]]])),
    "fewer measurements": (PURE, MOMENTS, lambda d: d["moments"].pop()),
    "no measurements": (PURE, MOMENTS, lambda d: d["moments"].clear()),
    "one measurement more": (PURE, MOMENTS, lambda d: d["moments"].append(first(d))),
    "other rows": (PURE, MOMENTS, lambda d: first(d).update(rows=41)),
    "other rows of a person": (PURE, MOMENTS, lambda d: first(d).update(rows_per_person=2)),
    "another epsilon": (PURE, MOMENTS, lambda d: first(d).update(epsilon=first(d)["epsilon"] / 2)),
    "another multiplier": (GAUSSIAN, MOMENTS, lambda d: first(d).update(multiplier=first(d)["multiplier"] * 2)),
    "another purpose": (PURE, MOMENTS, lambda d: first(d).update(purpose="nothing")),
    "another mechanism": (PURE, MOMENTS, lambda d: first(d).update(mechanism="none")),
    "a mechanism that is a list": (PURE, MOMENTS, lambda d: first(d).update(mechanism=[])),
    "an epsilon of zero": (PURE, MOMENTS, lambda d: first(d).update(epsilon=0)),
    "another format of moments": (PURE, MOMENTS, lambda d: d.update(format=1)),
    "a huge rank": (SUBSPACE, MOMENTS, lambda d: d["subspace"].update(rank=10**9)),
    "huge dimensions": (SUBSPACE, MOMENTS, lambda d: d["subspace"].update(dimensions=10**400, rank=10**400)),
    "huge iterations": (SUBSPACE, MOMENTS, lambda d: d["subspace"].update(iterations=10**9)),
    "a start of texts": (SUBSPACE, MOMENTS, lambda d: d["subspace"].update(start=[["0"]])),
    "a short start": (SUBSPACE, MOMENTS, lambda d: d["subspace"].update(start=[[0.0]])),
    "no subspace": (SUBSPACE, MOMENTS, lambda d: d.pop("subspace")),
    "a subspace that is null": (SUBSPACE, MOMENTS, lambda d: d.update(subspace=None)),
    "a product beyond doubles": (SUBSPACE, MOMENTS, lambda d: d["subspace"]["products"][-1].__setitem__(0, 10**400)),
    "more rows": (PURE, RECEIPT, lambda d: d.update(rows=10**12)),
    "other rows in the receipt": (PURE, RECEIPT, lambda d: d.update(rows=39)),
    "rows as text": (PURE, RECEIPT, lambda d: d.update(rows="40")),
    "rows that are true": (PURE, RECEIPT, lambda d: d.update(rows=True)),
    "more synthetic rows": (PURE, RECEIPT, lambda d: d.update(synthetic_rows=10**12)),
    "fewer charges": (PURE, RECEIPT, lambda d: d["charges"].pop()),
    "more charges": (PURE, RECEIPT, lambda d: d["charges"].extend(d["charges"] * 2000)),
    "a charge of less": (PURE, RECEIPT, lambda d: d["charges"][0].update(sensitivity=1.0, scale=10.0)),
    "a smaller budget": (PURE, RECEIPT, lambda d: d["budget"].update(epsilon=0.01)),
    "a budget as text": (PURE, RECEIPT, lambda d: d["budget"].update(epsilon="1")),
    "another delta": (GAUSSIAN, RECEIPT, lambda d: d["budget"].update(delta=1e-9)),
    "less spent": (PURE, RECEIPT, lambda d: d["spent"].update(epsilon=0.01)),
    "a seed as text": (PURE, RECEIPT, lambda d: d.update(seed="1")),
    "a method as list": (PURE, RECEIPT, lambda d: d.update(method=["auto"])),
    "another schema": (PURE, RECEIPT, lambda d: d["schema"]["columns"].pop("visits")),
    "narrower bounds": (PURE, RECEIPT, lambda d: d["schema"]["columns"]["age"].update(upper=1)),
    "an integer as number": (PURE, RECEIPT, lambda d: d["schema"]["columns"]["visits"].update(type="number")),
    "no schema": (PURE, RECEIPT, lambda d: d.update(schema=[])),
    "format true": (PURE, RECEIPT, lambda d: d.update(format=True)),
    "a huge format": (PURE, RECEIPT, lambda d: d.update(format="9" * 100_000)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_forged_document_is_refused(name, releases, tmp_path):
    which, file, change = CHANGES[name]
    refused(put(tmp_path / "out", forged(releases[which], file, change)))


TEXTS = {
    "nan": lambda t: t.replace('"epsilon": 1.0', '"epsilon": NaN', 1),
    "infinity": lambda t: t.replace('"epsilon": 1.0', '"epsilon": Infinity', 1),
    "overflow": lambda t: t.replace('"epsilon": 1.0', '"epsilon": 1e999', 1),
    "twice": lambda t: t.replace('"rows": 40', '"rows": 40, "rows": 40', 1),
    "deep": lambda t: t.replace('"rows": 40', '"rows": 40, "x": ' + "[" * 100_000 + "]" * 100_000, 1),
    "deeper": lambda t: t.replace('"rows": 40', '"rows": 40, "x": ' + '{"a":' * 100_000 + "1" + "}" * 100_000, 1),
    "many digits": lambda t: t.replace('"rows": 40', '"rows": 40' + "0" * 100_000, 1),
    "cut": lambda t: t[: len(t) // 2],
    "followed": lambda t: t + "{}",
    "python": lambda t: t.replace("null", "None").replace("true", "True"),
    "empty": lambda _: "",
    "pickle": lambda _: "cos\nsystem\n(S'touch hacked'\ntR.",
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_that_is_not_plain_json_is_refused(name, releases, tmp_path):
    text = releases[PURE][RECEIPT].decode()
    assert TEXTS[name](text) != text
    refused(
        put(tmp_path / "out", {**releases[PURE], RECEIPT: TEXTS[name](text).encode()}), r"receipt\.json cannot be read"
    )


def other_rows(table, change):
    out = io.BytesIO()
    parquet.write_table(change(table), out)
    return out.getvalue()


def with_value(name, value, type_=None):
    def change(table):
        values = [value, *table[name].to_pylist()[1:]]
        return table.set_column(table.column_names.index(name), name, pa.array(values, type_ or table[name].type))

    return change


TABLES = {
    "a null": with_value("age", None),
    "not a number": with_value("age", float("nan")),
    "infinite": with_value("income", float("inf")),
    "above": with_value("age", 120.5),
    "below": with_value("visits", -1),
    "text": lambda t: t.set_column(0, "age", pa.array(["1"] * 40)),
    "single precision": lambda t: t.set_column(0, "age", t["age"].cast(pa.float32())),
    "short integers": lambda t: t.set_column(2, "visits", t["visits"].cast(pa.int8())),
    "fewer rows": lambda t: t.slice(1),
    "other order": lambda t: t.select(["income", "age", "visits"]),
    "another column": lambda t: t.append_column("name", pa.array(["x"] * 40)),
    "a column twice": lambda t: t.append_column("age", t["age"]),
    "lists": lambda t: t.set_column(0, "age", pa.array([[1.0]] * 40)),
    "categories": lambda t: t.set_column(0, "age", pa.array(["x"] * 40).dictionary_encode()),
}


@pytest.mark.parametrize("name", TABLES)
def test_forged_rows_are_refused(name, releases, tmp_path):
    from benchmarks.robustness.fuzz import resealed

    table = parquet.read_table(io.BytesIO(releases[PURE][ROWS]))
    files = resealed({**releases[PURE], ROWS: other_rows(table, TABLES[name])})
    refused(put(tmp_path / "out", files), ROWS)


NOTES = {
    "for pandas": lambda t: t.replace_schema_metadata({b"pandas": b'{"index_columns": ["age"]}'}),
    "anything": lambda t: t.replace_schema_metadata({b"x": b"y"}),
    "of a column": lambda t: pa.table(
        t.columns, pa.schema([t.field(0).with_metadata({"x": "y"}), t.field(1), t.field(2)])
    ),
}


@pytest.mark.parametrize("name", NOTES)
def test_what_a_file_says_to_other_programs_is_refused(name, releases, tmp_path):
    from benchmarks.robustness.fuzz import resealed

    table = parquet.read_table(io.BytesIO(releases[PURE][ROWS]))
    content = other_rows(table, NOTES[name])
    refused(put(tmp_path / "out", resealed({**releases[PURE], ROWS: content})), "metadata beside its rows")


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")
@pytest.mark.parametrize("name", [RECEIPT, MOMENTS, ROWS])
def test_links_and_pipes(name, releases, tmp_path):
    folder = put(tmp_path / "out", releases[PURE])
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    refused(folder, "link that leaves")
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    refused(folder, "no file")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused(folder, "no file")
    (folder / name).unlink()
    (folder / name).mkdir()
    refused(folder, "no file")
    (folder / name).rmdir()
    (folder / name).symlink_to(name)
    refused(folder)
    (folder / name).unlink()
    shutil.copy(tmp_path / "elsewhere", folder / "beside")
    (folder / name).symlink_to("beside")
    assert ss.load(folder).receipt.rows == 40
    (tmp_path / "to").symlink_to(folder)
    assert ss.load(tmp_path / "to").receipt.rows == 40


@pytest.mark.parametrize("name", ["../elsewhere", "/etc/passwd", "a/b", "..", ".", "", "a\0b", "x" * 5000, "\ud800"])
def test_names_that_leave_the_folder(name, releases, tmp_path):
    (tmp_path / "elsewhere").write_text("not yours")
    files = dict(releases[PURE])
    document = json.loads(files[RECEIPT])
    document["sha256"][name] = "0" * 64
    refused(put(tmp_path / "out", {**files, RECEIPT: json.dumps(document).encode()}))
    refused(put(tmp_path / "out", {**files, RECEIPT: json.dumps({**document, "sha256": {name: 1}}).encode()}))


def test_paths_that_are_none(tmp_path):
    for path in (tmp_path / "none", tmp_path / "a\0b", "x" * 5000, ""):
        with pytest.raises(ss.ReleaseError):
            ss.load(path)


def try_damage(files, seed, folder):
    from benchmarks.robustness.fuzz import damaged_release, use_release

    put(folder, damaged_release(files, np.random.default_rng(seed)))
    made, words = None, ""
    try:
        made = ss.load(folder)
    except ss.ReleaseError as error:
        words = str(error)
    if made is None:
        assert 10 < len(words) < 2_000
    else:
        use_release(made)


@given(which=st.sampled_from(range(3)), seed=st.integers(0, 2**32))
def test_damage_of_any_kind(which, seed, releases, tmp_path_factory):
    try_damage(releases[which], seed, tmp_path_factory.getbasetemp() / "few" / "out")


@pytest.mark.slow
@settings(max_examples=5_000)
@given(which=st.sampled_from(range(3)), seed=st.integers(0, 2**32))
def test_much_damage(which, seed, releases, tmp_path_factory):
    try_damage(releases[which], seed, tmp_path_factory.getbasetemp() / "many" / "out")
