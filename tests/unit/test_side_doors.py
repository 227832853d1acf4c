"""No side doors: rows with unmistakable values go in, and nothing but the noisy release comes out."""

import copy
import gzip
import json
import logging
import os
import pickle
import struct
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth._files import write_whole
from smoothsynth.accounting.charges import Budget
from smoothsynth.accounting.ledger import Ledger, LedgerFile
from smoothsynth.cli.main import app
from smoothsynth.pipeline import run as pipeline
from smoothsynth.private import measure as door
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import total_degree

# Far outside the bounds, inside them, a text in a column of numbers, and a column that nobody may ask about.
OUTSIDE, INSIDE, TEXT, NOTE = "8675309.125", "47.11235813", "SENTINELTEXT", "SENTINELNOTE"
SENTINELS = (OUTSIDE, INSIDE, TEXT, NOTE)
HEAD = "age,income,visits,note\n"
# A clone of the project has the name of the package too: a path alone does not tell our frames from the tests'.
PACKAGE = Path(ss.__file__).parent
ROWS = f"{OUTSIDE},{INSIDE},3,{NOTE}\n{INSIDE},{OUTSIDE},{OUTSIDE},{NOTE}\n{INSIDE},{TEXT},4,{NOTE}\n" * 20


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def said(result):
    return result.output + (result.stderr if result.stderr_bytes else "")


def sentinels_in(*texts):
    return [s for s in SENTINELS if any(s in text for text in texts)]


def chain(error):
    """Return all that an error and those behind it say, as a log would have it."""
    texts, left = [], [error]
    while left:
        one = left.pop()
        if one is not None:
            texts += [str(one), repr(one), *map(repr, one.args), *getattr(one, "__notes__", [])]
            texts.append("".join(traceback.TracebackException.from_exception(one).format()))
            left += [one.__cause__, one.__context__]
    return texts


def written(folder, *, but):
    """Return the names and the contents of all files below a folder but those that the test put there."""
    found = []
    for path in folder.rglob("*"):
        if path not in but:
            found.append(str(path.relative_to(folder)))
            found.append(path.read_bytes().decode("latin-1") if path.is_file() else "")
    return found


@pytest.fixture
def private(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(HEAD + ROWS)
    return path


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


def check(result, tmp_path, caplog, *, but):
    """Look through every door after a command."""
    doors = [said(result), *chain(result.exception), *written(tmp_path, but=but)]
    doors += [record.getMessage() + repr(record.args) for record in caplog.records]
    assert sentinels_in(*doors) == []
    assert not any(struct.pack("<d", float(s)).decode("latin-1") in d for s in (OUTSIDE, INSIDE) for d in doors)
    assert list((tmp_path / "temporary").iterdir()) == []


COMMANDS = {
    "schema": ["schema", "DATA"],
    "schema to a file": ["schema", "DATA", "-o", "OUT.toml"],
    "check": ["check", "DATA", "-s", "SCHEMA"],
    "check as json": ["check", "DATA", "-s", "SCHEMA", "--json"],
    "release": ["release", "DATA", "-s", "SCHEMA", "-e", "1", "-o", "OUT"],
    "release after a check": ["release", "DATA", "-s", "SCHEMA", "-e", "1", "-o", "OUT", "--check"],
    "release with delta": ["release", "DATA", "-s", "SCHEMA", "-e", "1", "--delta", "1e-6", "-o", "OUT", "--csv"],
    "release as json": ["release", "DATA", "-s", "SCHEMA", "-e", "1", "-o", "OUT", "--json", "--csv"],
    "release with a seed": ["release", "DATA", "-s", "SCHEMA", "-e", "1", "-o", "OUT", "--seed", "3", "-q"],
    "the paper's": ["release", "DATA", "-s", "SCHEMA", "-e", "9", "-o", "OUT", "--method", "paper", "--features", "9"],
    "with a subspace": ["release", "DATA", "-s", "SCHEMA", "-e", "9", "-o", "OUT", "--method", "paper",
                        "--features", "9", "--candidates", "ellipsoid", "--fit", "linear program"],
    "on a ledger": ["release", "DATA", "-s", "SCHEMA", "-e", "1", "-o", "OUT", "--ledger", "LEDGER"],
    "beyond a ledger": ["release", "DATA", "-s", "SCHEMA", "-e", "7", "-o", "OUT", "--ledger", "LEDGER"],
    "without an output": ["release", "DATA", "-s", "SCHEMA", "-e", "1"],
    "without a schema": ["release", "DATA", "-e", "1", "-o", "OUT"],
    "onto the data": ["release", "DATA", "-s", "SCHEMA", "-e", "1", "-o", "DATA"],
    "with a wrong budget": ["release", "DATA", "-s", "SCHEMA", "-e", "nan", "-o", "OUT"],
    "of unknown features": ["release", "DATA", "-s", "SCHEMA", "-e", "1", "-o", "OUT", "--candidates", "none"],
    "the data as schema": ["release", "DATA", "-s", "DATA", "-e", "1", "-o", "OUT"],
    "a plan": ["plan", "-s", "SCHEMA", "-n", "60", "-e", "1"],
    "a plan with the data as schema": ["plan", "-s", "DATA", "-n", "60", "-e", "1"],
    "the data as ledger": ["ledger", "show", "DATA"],
    "the data as the ledger of a release": ["release", "DATA", "-s", "SCHEMA", "-e", "1", "-o", "OUT",
                                            "--ledger", "DATA"],
    "a total for the data": ["ledger", "set", "DATA", "-e", "1"],
    "the data exported": ["ledger", "export", "DATA"],
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "arrow"])
def test_no_command_shows_a_row(name, kind, private, schema_file, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    data, ledger = as_kind(private, kind), tmp_path / "people.ledger"
    LedgerFile.create(ledger, Budget(3.0, 1e-6))
    places = {"DATA": data, "SCHEMA": schema_file, "OUT": tmp_path / "out", "OUT.toml": tmp_path / "s.toml",
              "LEDGER": ledger}  # fmt: skip
    result = run(*(places.get(word, word) for word in COMMANDS[name]))
    refused = name.startswith(("beyond", "without", "onto", "with a wrong", "of unknown", "the data", "a total"))
    assert (result.exit_code != 0) is (refused or name == "a plan with the data as schema"), result.output
    assert isinstance(result.exception, (SystemExit, type(None)))
    check(result, tmp_path, caplog, but={private, data})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_attacks_show_shares_and_no_row(kind, private, schema_file, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    data, folder, others = as_kind(private, kind), tmp_path / "out", tmp_path / "others.csv"
    assert run("release", data, "-s", schema_file, "-e", 1, "-o", folder).exit_code == 0
    others.write_text(HEAD + "".join(f"{20 + i},{100 * i},2,{NOTE}\n" for i in range(60)))
    for more in ([], ["--holdout", others], ["--holdout", others, "--json"], ["--holdout", data]):
        result = run("attack", data, folder, *more, "-o", tmp_path / f"report{len(more)}.html", "--force")
        assert result.exit_code in (0, 1, 3), result.output
        assert "Error" not in said(result) or more[-1:] == [data] or result.exit_code == 3, said(result)
        check(result, tmp_path, caplog, but={private, data, others})


@pytest.mark.parametrize("name", ["other-names.csv", "cut.csv.gz", "not.parquet", "bytes.parquet", "lists.parquet"])
def test_no_error_of_an_attack_shows_a_row(name, private, schema_file, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    assert run("release", private, "-s", schema_file, "-e", 1, "-o", tmp_path / "out").exit_code == 0
    bad = tmp_path / name
    BAD[name](bad)
    for arguments in ([bad, tmp_path / "out"], [private, tmp_path / "out", "--holdout", bad]):
        result = run("attack", *arguments, "-o", tmp_path / "report.json")
        assert result.exit_code == 1, result.output
        check(result, tmp_path, caplog, but={private, bad})


def test_every_command_that_takes_rows_is_tested():
    import typer

    def commands(group, *names):
        for name, command in group.commands.items():
            yield from commands(command, *names, name) if hasattr(command, "commands") else [((*names, name), command)]

    takes = {
        names for names, command in commands(typer.main.get_command(app)) if "data" in {p.name for p in command.params}
    }
    # The tables of the paper are computed from public data; those of several owners are in test_cli_federated.py.
    tested = {("schema",), ("check",), ("release",), ("attack",), ("federated", "sum"), ("update",)}
    assert takes - {("paper", "tables")} == tested, "a command that reads rows belongs in COMMANDS"


def as_kind(path, kind):
    """Write the rows as another kind of file; the columns of the schema stay numbers."""
    if kind == "csv":
        return path
    other = path.with_name(f"other.{kind}")
    if kind == "csv.gz":
        other.write_bytes(gzip.compress(path.read_bytes()))
        return other
    frame = pd.read_csv(path)
    for column in ("age", "income", "visits"):
        frame[column] = pd.to_numeric(frame[column], errors="coerce")
    table = pa.Table.from_pandas(frame)
    if kind == "parquet":
        pq.write_table(table, other)
    else:
        pyarrow.feather.write_feather(table, str(other))
    return other


def test_the_ledger_of_a_release_shows_nothing(private, schema_file, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    ledger = tmp_path / "people.ledger"
    LedgerFile.create(ledger, Budget(3.0))
    made = run("release", private, "-s", schema_file, "-e", 1, "-o", tmp_path / "out", "--ledger", ledger)
    assert made.exit_code == 0
    for command in (["show"], ["show", "--json"], ["export"], ["export", "--format", "dp-accounting"]):
        check(run("ledger", command[0], ledger, *command[1:]), tmp_path, caplog, but={private})


def parquet_of(columns):
    def write(path):
        pq.write_table(pa.table(columns), path)

    return write


def half(content):
    return lambda path: path.write_bytes(content[: len(content) // 2])


TEXTS = {"age": [OUTSIDE, TEXT], "income": [INSIDE, NOTE], "visits": ["1", TEXT]}
BYTES = {name: [cell.encode() for cell in cells] for name, cells in TEXTS.items()}
COMPLEX = {name: [complex(OUTSIDE), complex(INSIDE)] for name in TEXTS}
LISTS = {"age": [[float(OUTSIDE)]], "income": [float(INSIDE)], "visits": [1]}
BAD = {
    "no-names.csv": lambda p: p.write_text(ROWS),
    "one-line.csv": lambda p: p.write_text(f"{OUTSIDE},{TEXT},{NOTE}"),
    "other-names.csv": lambda p: p.write_text("a,b,c,d\n" + ROWS),
    "latin-names.csv": lambda p: p.write_bytes((f"{TEXT}\xe9," + HEAD + ROWS).encode("latin-1")),
    "utf16.csv": lambda p: p.write_bytes((HEAD + ROWS).encode("utf-16")),
    "nul.csv": lambda p: p.write_bytes(b"\0" + ROWS.encode()),
    "cut.csv.gz": half(gzip.compress((HEAD + ROWS).encode())),
    "not.csv.gz": lambda p: p.write_text(HEAD + ROWS),
    "not.parquet": lambda p: p.write_text(HEAD + ROWS),
    "not.arrow": lambda p: p.write_text(HEAD + ROWS),
    "bytes.parquet": parquet_of(BYTES),
    "categories.parquet": parquet_of({**BYTES, "age": pa.array(BYTES["age"]).dictionary_encode()}),
    "lists.parquet": parquet_of(LISTS),
    "misnamed.parquet": parquet_of({"agee": [float(OUTSIDE)], "income": [float(INSIDE)], "visits": [1]}),
    "rows.txt": lambda p: p.write_text(HEAD + ROWS),
}


@pytest.mark.parametrize("name", BAD)
def test_no_error_of_a_table_shows_a_row(name, schema_file, schema, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    path = tmp_path / name
    BAD[name](path)
    result = run("release", path, "-s", schema_file, "-e", 1, "-o", tmp_path / "out")
    assert result.exit_code == 1, result.output
    assert "Error:" in said(result)
    check(result, tmp_path, caplog, but={path})
    with pytest.raises(ss.SmoothsynthError) as caught:
        ss.release(path, schema=schema, epsilon=1.0)
    assert sentinels_in(*chain(caught.value), repr(pickle.loads(pickle.dumps(caught.value)))) == []


class Panic(BaseException):
    """As a panic of Rust comes to Python, from polars for example: it is no Exception."""


class Panicking:
    def __arrow_c_stream__(self, requested_schema=None):
        raise Panic(TEXT)


FRAMES = {
    "pandas bytes": lambda: pd.DataFrame(BYTES).astype(pd.ArrowDtype(pa.binary())),
    "pandas complex": lambda: pd.DataFrame(COMPLEX),
    "pandas categories": lambda: pd.DataFrame(COMPLEX).astype("category"),
    "pandas names": lambda: pd.DataFrame({TEXT: [1.0], OUTSIDE: [2.0]}),
    "polars bytes": lambda: pl.DataFrame(BYTES),
    "polars query": lambda: pl.LazyFrame(TEXTS).with_columns(pl.all().cast(pl.Float64, strict=True)),
    "a panic": Panicking,
    "arrow lists": lambda: pa.table(LISTS),
    "a list of rows": lambda: [{"age": OUTSIDE, "income": TEXT}],
    "a text": TEXT.lower,
    "an array": lambda: np.full((3, 3), float(OUTSIDE)),
}


@pytest.mark.parametrize("name", FRAMES)
def test_no_error_of_a_frame_shows_a_row(name, schema, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ss.SmoothsynthError) as caught:
        ss.release(FRAMES[name](), schema=schema, epsilon=1.0)
    assert sentinels_in(*chain(caught.value), *(r.getMessage() for r in caplog.records)) == []


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_a_file_exchanged_after_it_was_opened_shows_nothing(kind, private, schema, tmp_path):
    data = as_kind(private, kind)
    table = open_table(data, schema)
    for harm in (lambda p: p.write_text("age,income,visits\n" + f"{OUTSIDE},{TEXT}\n" * 60), parquet_of(TEXTS)):
        other = tmp_path / "exchanged"
        harm(other)
        other.replace(data)
        with pytest.raises(ss.DataError) as caught:
            LocalEngine().sums(table, total_degree(2, 3))
        assert sentinels_in(*chain(caught.value)) == []


def test_progress_and_file_names_are_public(private, schema, tmp_path):
    said, names = [], set()

    def progress(*arguments):
        said.append(repr(arguments))
        names.update(str(p) for p in tmp_path.rglob("*"))

    with warnings.catch_warnings(record=True) as warned, write_whole(tmp_path / "out") as folder:
        warnings.simplefilter("always")
        made = ss.release(private, schema=schema, epsilon=9.0, progress=progress, method=ss.methods.Paper(features=9))
        made.write_files(folder, csv=True)
        progress("written", 1, 1)
    assert len(said) > 2
    assert any(name.endswith("moments.json") for name in names)
    assert sentinels_in(*said, *names, *(str(w.message) for w in warned)) == []
    assert {argument for text in said for argument in text.split("'")[::2]}.isdisjoint(SENTINELS)
    whole = [text.rsplit("'", 1)[1] for text in said]
    assert all(set(text) <= set("0123456789,() None") for text in whole), "only counts beside the name of the round"


def test_a_receipt_has_no_clock(private, schema):
    receipt = ss.release(private, schema=schema, epsilon=1.0).receipt.as_dict()
    text = json.dumps(receipt).lower()
    assert not [
        word for word in ("second", "time", "elapsed", "duration", "host", "user", "path") if f'"{word}' in text
    ]
    assert sentinels_in(text) == []


def shows(thing):
    """Return every way in which an object may end up in a log or a file, as text."""
    texts = [repr(thing), str(thing), f"{thing}", f"{thing!s:>5}", repr([thing]), repr({"x": thing})]
    texts += [repr(getattr(thing, "__dict__", "")), repr(dir(thing)), repr(thing.__doc__)]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        try:
            texts.append(pickle.dumps(thing, protocol).decode("latin-1"))
        except (TypeError, pickle.PicklingError) as error:
            texts += chain(error)
    return texts


def test_private_objects_show_nothing_and_cannot_be_copied(private, schema):
    table = open_table(private, schema)
    sums = LocalEngine().sums(table, total_degree(2, 3))
    exact = [str(total) for total in sums.unseal() if abs(total) > 10**6]
    assert len(exact) == 9
    for thing in (table, sums):
        texts = shows(thing)
        assert sentinels_in(*texts) == []
        assert not [total for total in exact if any(total in text for text in texts)]
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                way(thing)
        with pytest.raises(TypeError):
            vars(thing)
        with pytest.raises(TypeError):
            iter(thing)
        with pytest.raises(TypeError):
            json.dumps(thing)
        with pytest.raises(TypeError):
            len(thing)
    assert sentinels_in(*shows(LocalEngine())) == []


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_what_holds_the_rows_of_a_frame_cannot_be_copied_either(kind, schema):
    source = open_table(kind({name: [float(OUTSIDE), float(INSIDE)] for name in schema.names}), schema)._source
    assert sentinels_in(*shows(source)) == []
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            way(source)


def test_sums_of_the_kernel_print_nothing(private, schema):
    sums = Kernel(schema, total_degree(2, 3)).start()
    for batch in open_table(private, schema)._batches(16):
        sums.add(batch)
    assert sentinels_in(repr(sums), str(sums), f"{sums}") == []
    assert not [total for total in sums.totals() if abs(total) > 10**6 and str(total) in repr(sums)]


def test_what_is_public_holds_no_row(private, schema):
    release = ss.release(private, schema=schema, epsilon=1.0, delta=1e-6)
    for thing in (release, release.receipt, *release.moments, *release.receipt.charges, release.schema):
        assert sentinels_in(*shows(thing)) == []
    again = pickle.loads(pickle.dumps(release))
    assert again.receipt == release.receipt
    assert sentinels_in(release.to_pandas().to_csv(), repr(release.to_polars())) == []


class _CrashError(Exception):
    pass


def crash(*_args, **_kwargs):
    raise _CrashError


def frames_of(error):
    """Return what a crash reporter that shows local variables would show of our frames."""
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in told.stack if PACKAGE in Path(frame.filename).parents]
    return frames, "\n".join(f"{name} = {value}" for frame in frames for name, value in (frame.locals or {}).items())


def test_a_crash_between_sums_and_noise_shows_neither_rows_nor_sums(private, schema, monkeypatch):
    exact = LocalEngine().sums(open_table(private, schema), total_degree(1, 3)).unseal()
    monkeypatch.setattr(Ledger, "charge", crash)
    with pytest.raises(_CrashError) as caught:
        ss.release(private, schema=schema, epsilon=1.0)
    frames, shown = frames_of(caught.value)
    assert {"release", "carry_out", "measure"} <= {frame.name for frame in frames}
    assert "<private table>" in shown
    assert "<sealed sums>" in shown
    assert sentinels_in(shown) == []
    assert not [total for total in exact if str(total) in shown]


@pytest.mark.parametrize("where", ["open", "sums", "synthesis"])
def test_a_crash_elsewhere_shows_no_row(where, private, schema, monkeypatch):
    place, name = {"open": (pipeline, "plan"), "sums": (LocalEngine, "sums"), "synthesis": (pipeline, "rows_of_model")}[
        where
    ]
    monkeypatch.setattr(place, name, crash)
    with pytest.raises(_CrashError) as caught:
        ss.release(private, schema=schema, epsilon=1.0)
    assert sentinels_in(frames_of(caught.value)[1], *chain(caught.value)) == []


@pytest.mark.parametrize("stage", ["measure", "rows_of_model", "_release"])
def test_ctrl_c_shows_and_leaves_nothing(stage, private, schema_file, tmp_path, monkeypatch, caplog):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, stage, interrupt)
    result = run("release", private, "-s", schema_file, "-e", 1, "-o", tmp_path / "out")
    assert result.exit_code == 130
    assert "Interrupted" in said(result)
    check(result, tmp_path, caplog, but={private})
    assert {p.name for p in tmp_path.iterdir()} == {"rows.csv", "schema.toml", "temporary"}


@pytest.mark.parametrize("failing", ["write_files", "_write_json", "sha256", "noise", "ledger"])
def test_a_failing_disk_shows_and_leaves_nothing(failing, private, schema_file, tmp_path, monkeypatch, caplog):
    def fail(*_args, **_kwargs):
        raise OSError(5, "Input/output error", str(tmp_path / "out"))

    ledger = tmp_path / "people.ledger"
    LedgerFile.create(ledger, Budget(3.0))
    if failing == "ledger":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        module = sys.modules["smoothsynth.pipeline.release"]
        place = {"write_files": ss.Release, "noise": door}.get(failing, module)
        monkeypatch.setattr(place, "_draw_noise" if failing == "noise" else failing, fail)
    result = run("release", private, "-s", schema_file, "-e", 1, "-o", tmp_path / "out", "--ledger", ledger)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit), chain(result.exception)
    monkeypatch.undo()
    (tmp_path / "temporary").mkdir(exist_ok=True)
    check(result, tmp_path, caplog, but={private})
    assert not [p for p in tmp_path.iterdir() if "out" in p.name]


def test_a_disk_that_fails_while_it_is_read(private, schema, monkeypatch):
    data = as_kind(private, "parquet")
    table = open_table(data, schema)

    def fail(*_args, **_kwargs):
        raise OSError(5, f"Input/output error near {OUTSIDE}")

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", fail)
    with pytest.raises(ss.DataError) as caught:
        LocalEngine().sums(table, total_degree(1, 3))
    assert sentinels_in(*chain(caught.value)) == []


def test_the_sentinels_would_be_found(private, schema, tmp_path):
    """The search itself must be able to fail: a leak of each kind is put where a real one would be."""
    assert sentinels_in(private.read_text()) == list(SENTINELS)
    with pytest.raises(ss.DataError) as caught:
        _leak(TEXT)
    assert sentinels_in(*chain(caught.value)) == [TEXT]
    (tmp_path / f"{NOTE}.txt").write_text(OUTSIDE)
    assert sentinels_in(*written(tmp_path, but={private})) == [OUTSIDE, NOTE]
    assert sentinels_in(*shows(pd.read_csv(private))) == list(SENTINELS)
    with pytest.raises(_CrashError) as crashed:
        crash(private.read_text())
    told = traceback.TracebackException.from_exception(crashed.value, capture_locals=True)
    assert INSIDE in str([frame.locals for frame in told.stack])


def _leak(text):
    try:
        float(text)
    except ValueError:
        raise ss.DataError("said in other words")  # noqa: B904
