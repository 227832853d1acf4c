"""Dask on workers in processes of their own: what happens when it fails, and what nobody may see."""

import datetime as dt
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.cli.main import app
from smoothsynth.errors import DataError, EngineError, PlanError
from smoothsynth.private.engines.dask import DaskEngine, open_engine
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import term_feature, total_degree

dataframe = pytest.importorskip("dask.dataframe")
delayed = pytest.importorskip("dask").delayed
config = pytest.importorskip("dask").config

HOSTILE = "SENTINELTEXT"
SCHEMA = ss.Schema({"age": ss.Number(0, 120), "dose": ss.Number(-4, 4)})
FEATURES = total_degree(3, 2)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"age": rng.normal(50, 15, 3000), "dose": rng.normal(size=3000), "note": "x"})


@pytest.fixture
def folder(rows, tmp_path):
    (tmp_path / "files").mkdir()
    for i in range(6):
        pq.write_table(pa.Table.from_pandas(rows[500 * i : 500 * i + 500]), tmp_path / "files" / f"{i}.parquet")
    return tmp_path / "files"


def exact(data):
    return LocalEngine().sums(open_table(data, SCHEMA), FEATURES).unseal()


def test_more_partitions_than_one_call_adds(rows, dask_client):
    frame = dataframe.from_pandas(rows, npartitions=40)
    assert frame.npartitions == 40
    assert DaskEngine(dask_client).sums(open_table(frame, SCHEMA), FEATURES).unseal() == exact(rows)


@pytest.mark.parametrize("odd", [True, None, 1.5, "x", 1j, [1], "\ud800", dt.datetime(2020, 1, 1)])
def test_one_odd_cell_gives_its_partition_another_type_and_changes_no_other_row(odd):
    schema = ss.Schema({"code": ss.Category([1, 2], nullable=True), "day": ss.Date("2000-01-01", "2030-01-01")})
    day = pd.Timestamp("2020-01-01")
    parts = [pd.DataFrame({"code": [1.0, 2.0, 1.0], "day": [day] * 3}) for _ in range(2)]
    parts[1] = pd.DataFrame(
        {name: pd.Series([cell, odd, cell], dtype=object) for name, cell in (("code", 1.0), ("day", day))}
    )
    frame = dataframe.from_delayed([delayed(part) for part in parts], meta=parts[0].head(0), verify_meta=False)
    features = [term_feature((place, 1)) for place in range(3)]
    whole = DaskEngine().sums(open_table(frame, schema), features).unseal()
    apart = [
        LocalEngine().sums(open_table(part, schema), features).unseal() for part in (parts[0], parts[1].iloc[[0, 2]])
    ]
    alone = LocalEngine().sums(open_table(parts[1].iloc[[1]], schema), features).unseal()
    typed = LocalEngine().sums(open_table(parts[0].iloc[[0, 2]], schema), features).unseal()
    assert apart[1] == typed
    assert whole == tuple(sum(column) for column in zip(*apart, alone, strict=True))


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(rows, dask_client, tmp_path):
    mark = str(tmp_path / "killed")

    def fatal(part):
        try:
            with open(mark, "x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return part
        return os.kill(os.getpid(), signal.SIGKILL)

    frame = dataframe.from_pandas(rows, npartitions=6)
    table = open_table(frame, SCHEMA)
    fragile = frame[["age", "dose"]].map_partitions(fatal, meta=frame._meta[["age", "dose"]])
    object.__setattr__(table._source, "frame", fragile)
    assert DaskEngine(dask_client).sums(table, FEATURES).unseal() == exact(rows)
    with open(mark) as file:
        assert int(file.read()) != os.getpid()


def test_a_worker_that_is_killed_in_the_middle_of_files_changes_nothing(dask_client, tmp_path):
    """One is killed while it reads its piece: what it had summed is summed again by another."""
    rng, features = np.random.default_rng(2), total_degree(5, 3)
    schema = ss.Schema({name: ss.Number(-4, 4) for name in "abc"})
    for i in range(4):
        cells = {name: rng.normal(size=100_000) for name in "abc"}
        pq.write_table(pa.table(cells), tmp_path / f"{i}.parquet", row_group_size=25_000)
    table, pids, killed = open_table(tmp_path, schema), dask_client.run(os.getpid), []

    def kill():
        deadline = time.monotonic() + 20
        while not killed and time.monotonic() < deadline:
            killed.extend(pids[worker] for worker, keys in dask_client.processing().items() if keys)
        os.kill(killed[0], signal.SIGKILL)

    with ThreadPoolExecutor(1) as pool:
        fatal = pool.submit(kill)
        found = DaskEngine(dask_client).sums(table, features).unseal()
        fatal.result()
    assert found == LocalEngine().sums(table, features).unseal()
    assert killed[0] not in dask_client.run(os.getpid).values()


def test_a_release_through_all_rounds(rows, dask_client, tmp_path):
    made = ss.release(dataframe.from_pandas(rows, npartitions=3), schema=SCHEMA, epsilon=3.0, delta=1e-6, seed=1)
    assert made.receipt.rows == 3000
    assert abs(made.to_arrow()["age"].to_numpy().mean() - 50) < 3


def test_a_release_of_files_from_the_command_line(dask_client, folder, tmp_path):
    SCHEMA.save(tmp_path / "schema.toml")
    command = ["release", str(folder), "-s", str(tmp_path / "schema.toml"), "-e", "1", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*command, "--engine", "dask", "--scheduler", dask_client.scheduler.address])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "out" / "receipt.json").read_text())["rows"] == 3000


def test_an_address_is_read_by_the_cluster(dask_client, folder):
    assert ss.release(folder.as_uri(), schema=SCHEMA, epsilon=1.0, engine="dask").receipt.rows == 3000
    with pytest.raises(DataError, match="holds none"):
        ss.release((folder / "nowhere").as_uri(), schema=SCHEMA, epsilon=1.0, engine="dask")


def test_hidden_files_at_an_address_are_no_part_of_the_table(folder):
    for name in ("_temporary", ".hidden", "deep/_temporary"):
        (folder / name).mkdir(parents=True)
        (folder / name / "0.parquet").write_bytes((folder / "0.parquet").read_bytes())
    (folder / "_0.parquet").write_bytes((folder / "0.parquet").read_bytes())
    for address in (folder.as_uri(), folder.as_uri() + "/", folder.as_uri() + "/*", folder.as_uri() + "/*.parquet"):
        assert len(DaskEngine().read(address)) == 3000


def test_what_dask_says_of_a_row_is_not_repeated(rows, dask_client, caplog, tmp_path):
    caplog.set_level("DEBUG")

    def fail(part):
        raise ValueError(f"{HOSTILE} {part.iloc[0, 0]}")

    ledger = tmp_path / "people.ledger"
    LedgerFile.create(ledger, ss.Budget(3.0))
    frame = dataframe.from_pandas(rows, npartitions=3)
    hostile = frame.map_partitions(fail, meta=frame._meta)
    for engine in (DaskEngine(dask_client), DaskEngine()):
        with pytest.raises(DataError, match="may quote rows") as caught:
            ss.release(hostile, schema=SCHEMA, epsilon=1.0, ledger=ledger, engine=engine)
        assert HOSTILE not in str(caught.value)
        assert caught.value.__context__ is None
    assert HOSTILE not in "".join(record.getMessage() for record in caplog.records)
    assert not LedgerFile(ledger).charges


class Panic(BaseException):
    """As a panic of Rust comes to Python: it is no Exception."""


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_what_a_panic_says_of_a_row_is_not_repeated(rows, scheduler):
    def fail(part):
        raise Panic(f"{HOSTILE} {part.iloc[0, 0]}")

    frame = dataframe.from_pandas(rows, npartitions=3)
    with config.set(scheduler=scheduler), pytest.raises(DataError, match="may quote rows") as caught:
        open_table(frame.map_partitions(fail, meta=frame._meta), SCHEMA)
    assert HOSTILE not in str(caught.value)
    assert caught.value.__context__ is None


def test_wrong_frames_are_refused(rows, dask_client):
    frame = dataframe.from_pandas(rows, npartitions=2)
    with pytest.raises(DataError, match="must have all columns"):
        open_table(frame[["age"]], SCHEMA)
    with pytest.raises(DataError, match="'age' of the table must hold dates"):
        open_table(frame.assign(age=1), ss.Schema({"age": ss.Date("2000-01-01", "2020-01-01")}))
    with pytest.raises(DataError, match="must be a DataFrame; this is a Array"):
        open_table(frame[["age", "dose"]].to_dask_array(), SCHEMA)
    with pytest.raises(PlanError, match="its own engine"):
        ss.release(frame, schema=SCHEMA, epsilon=1.0, engine="spark")
    with pytest.raises(PlanError, match="stay on its cluster"):
        LocalEngine().sums(open_table(frame, SCHEMA), FEATURES)


def test_a_cluster_that_goes_away(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("smoothsynth.private.engines.dask.CONNECT_SECONDS", 2.0)
    distributed = pytest.importorskip("distributed")
    ledger = tmp_path / "people.ledger"
    LedgerFile.create(ledger, ss.Budget(3.0))
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        engine = open_engine(cluster.scheduler_address)
    with pytest.raises(EngineError, match="is gone or cannot be reached"):
        ss.release(folder, schema=SCHEMA, epsilon=1.0, engine=engine, ledger=ledger)
    assert not LedgerFile(ledger).charges
    engine.client.close()


def test_a_cluster_that_is_not_there(folder, monkeypatch):
    monkeypatch.setattr("smoothsynth.private.engines.dask.CONNECT_SECONDS", 0.5)
    with pytest.raises(EngineError, match="cannot be reached"):
        ss.release(folder, schema=SCHEMA, epsilon=1.0, engine="dask", cluster="tcp://127.0.0.1:1")
