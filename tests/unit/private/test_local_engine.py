"""The local engine: bounded memory, progress, and a stop at once."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.charges import Budget
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.cli.main import app
from smoothsynth.errors import DataError, EngineError, PlanError
from smoothsynth.private import table
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.sealed import count_values
from smoothsynth.private.table import DEFAULT_MEMORY, Table, open_table, parse_memory, share_memory
from smoothsynth.queries.bases import term_feature, total_degree
from smoothsynth.schema import Number, Schema

MB = 2**20


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MB", 512 * 10**6),
        ("1.5 GiB", 3 * 2**29),
        ("2g", 2 * 10**9),
        ("300000000", 3 * 10**8),
        (2**30, 2**30),
        (None, 2**30),
    ],
)
def test_sizes_of_memory(text, size):
    assert parse_memory(text) == size
    assert parse_memory(None) == DEFAULT_MEMORY


@pytest.mark.parametrize("text", ["", "much", "-1GB", "0", "1MB", "12e9", "1GB2", True, 0.5])
def test_sizes_that_are_none_or_too_small(text):
    for ask in (lambda: parse_memory(text), lambda: LocalEngine(memory=text)):
        with pytest.raises(PlanError, match="512MB or 2GB"):
            ask()


def test_memory_buys_threads_and_rows():
    sizes = [256 * MB, 512 * MB, 2**30, 2**33]
    for columns in (1, 20, 200, 3000):
        shares = [share_memory(size, columns=columns, held=MB, threads=8) for size in sizes]
        assert shares == sorted(shares, key=lambda s: s[0] * s[1])
        for size, (threads, rows) in zip(sizes, shares, strict=True):
            assert rows >= 2**11
            assert rows & (rows - 1) == 0
            taken = threads * (columns * table._PAGES + MB + rows * columns * table._CELL)
            assert taken <= size - table.BASE or (threads, rows) == (1, 2**11)
    assert share_memory(2**33, columns=20, held=MB, threads=8) == (8, 2**17)
    assert share_memory(512 * MB, columns=20, held=MB, threads=64)[0] < 8


@pytest.mark.parametrize(
    ("features", "columns"),
    [(total_degree(2, 20), 20), (total_degree(3, 12), 12), ([term_feature((c, 9)) for c in range(30)], 30)],
)
def test_what_a_kernel_says_it_takes_is_what_it_takes(features, columns):
    import tracemalloc

    schema = ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(columns)})
    kernel = Kernel(schema, features)
    rng = np.random.default_rng(0)
    batch = pa.record_batch({name: rng.uniform(-1, 1, 50_000) for name in schema.names})
    # Other threads of this process may take memory meanwhile: the least of three runs is the kernel's own.
    taken = math.inf
    for _ in range(3):
        tracemalloc.start()
        sums = kernel.start()
        sums.add(batch)
        sums.totals()
        taken = min(taken, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert 0.4 * kernel.bytes < taken < 1.2 * kernel.bytes


_PEAK = """
import re, sys
from pathlib import Path
import smoothsynth as ss
from smoothsynth.queries.bases import total_degree
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
schema = ss.Schema({f"c{i}": ss.Number(-3, 4.5) for i in range(20)})
LocalEngine(memory=sys.argv[2], threads=int(sys.argv[3]) or None).sums(open_table(sys.argv[1], schema), total_degree(2, 20))
print(int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="only Linux says how much memory was used")
@pytest.mark.parametrize("groups", [1, 40])
def test_the_peak_stays_below_the_limit_whatever_the_table(groups, tmp_path):
    rng = np.random.default_rng(0)
    rows = 2_000_000
    columns = {f"c{i}": rng.normal(size=rows) for i in range(20)}
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=rows // groups, compression="none", use_dictionary=False)
    assert path.stat().st_size > 320e6
    shown = subprocess.run(
        [sys.executable, "-c", _PEAK, str(path), "300MB", "0"], capture_output=True, text=True, check=True
    )
    assert int(shown.stdout) < 300


def test_progress_tells_rows_and_rows_in_all(tmp_path):
    pq.write_table(pa.table({"x": np.zeros(1000)}), tmp_path / "rows.parquet", row_group_size=10)
    table, seen = open_table(tmp_path / "rows.parquet", ss.Schema({"x": ss.Number(-1, 1)})), []
    LocalEngine(threads=3, batch_rows=50).sums(
        table, total_degree(1, 1), progress=lambda done, rows: seen.append((done, rows))
    )
    assert seen == [(done, 1000) for done in range(50, 1001, 50)]


@pytest.fixture(scope="module")
def million(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("large") / "rows.parquet"
    table = pa.table({f"c{i}": rng.normal(size=1_000_000) for i in range(10)})
    pq.write_table(table, path, row_group_size=50_000, compression="lz4", use_dictionary=False)
    return path


@pytest.fixture
def large(million, tmp_path):
    """A file of a million rows, its schema and a ledger."""
    shutil.copy(million, tmp_path / "rows.parquet")
    ss.Schema({f"c{i}": ss.Number(-3, 3) for i in range(10)}).save(tmp_path / "schema.toml")
    LedgerFile.create(tmp_path / "people.ledger", Budget(2.0, 1e-6))
    return tmp_path


_RELEASE = """
import sys, time, smoothsynth.cli.main as cli
from smoothsynth.private.engines.local import _Shared
report = _Shared.report
def loud(self, rows):
    report(self, rows)
    print("rows", flush=True)
    time.sleep(0.3)
_Shared.report = loud
cli.main()
"""


@pytest.mark.parametrize("memory", ["256MiB", "1GB"])
def test_an_interrupted_pass_ends_at_once_and_leaves_nothing(memory, large):
    before = sorted(large.iterdir())
    words = ["release", "rows.parquet", "-s", "schema.toml", "-e", "1", "--delta", "1e-6", "-o", "out", "--size", "10"]
    command = [sys.executable, "-c", _RELEASE, *words, "--ledger", "people.ledger", "--memory", memory]
    with subprocess.Popen(command, cwd=large, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("rows"), process.stderr.read()
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        said = process.communicate(timeout=60)[1]
    assert time.monotonic() - sent < 30
    assert process.returncode == 130
    assert "Interrupted" in said
    assert "Traceback" not in said
    assert [p for p in sorted(large.iterdir()) if p.name != "people.ledger.lock"] == before
    assert LedgerFile(large / "people.ledger").read().lines == ()


def test_the_command_line_takes_several_files_a_pattern_and_a_limit(large):
    part = pq.read_table(large / "rows.parquet").slice(0, 500)
    for i in range(2):
        pq.write_table(part, large / f"part-{i}.parquet")
    for data in (["part-*.parquet"], ["part-0.parquet", "part-1.parquet"]):
        paths = [str(large / name) for name in data]
        words = ["-s", str(large / "schema.toml"), "-e", "1", "-o", str(large / f"out{len(data)}"), "--json"]
        shown = CliRunner().invoke(app, ["release", *paths, *words, "--memory", "512MB"])
        assert shown.exit_code == 0, shown.output
        assert json.loads(shown.stdout)["rows"] == 1000
    refused = CliRunner().invoke(app, ["release", *paths, *words, "--force", "--memory", "1MB"])
    assert refused.exit_code == 1
    assert "at least 256 MiB" in refused.stderr


def test_a_file_that_fails_in_the_middle_costs_nothing(large):
    path = large / "rows.parquet"
    column = pq.read_metadata(path).row_group(15).column(3)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset : column.data_page_offset + 500] = b"\xff" * 500
    path.write_bytes(content)
    ledger = large / "people.ledger"
    with pytest.raises(DataError, match=r"rows\.parquet must be a whole file"):
        ss.release(path, schema=ss.Schema.load(large / "schema.toml"), epsilon=1.0, ledger=ledger, synthetic_rows=10)
    assert LedgerFile(ledger).read().lines == ()


class Failing:
    """A source whose second batch Arrow refuses, in words that quote a cell."""

    rows = 4

    def batches(self, batch_rows):
        yield pa.record_batch({"age": ["SECRETTEXT", "1"]})
        raise pa.ArrowInvalid("cannot parse SECRETTEXT")


@pytest.mark.parametrize(
    "passing", [lambda table: LocalEngine().sums(table, total_degree(1, 1)), lambda table: count_values(table, ["age"])]
)
def test_what_arrow_refuses_amid_a_pass_is_told_without_cells_or_rows(passing):
    table = Table(Failing(), Schema({"age": Number(0, 100)}))
    with pytest.raises(DataError, match="could not be read to their end") as caught:
        passing(table)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    # The first frame is this test's own.
    assert not any(isinstance(held, pa.RecordBatch) for frame in frames[1:] for held in frame.f_locals.values())


def test_a_pass_that_runs_out_of_memory_is_told_without_rows(monkeypatch):
    def exhausted(*_):
        raise MemoryError("Unable to allocate 12 GiB")

    monkeypatch.setattr("smoothsynth.private.engines.kernel.read_cells", exhausted)
    opened = open_table(pa.table({"age": [41.0, 42.0]}), Schema({"age": Number(0, 100)}))
    with pytest.raises(EngineError, match="more memory than there is") as caught:
        LocalEngine().sums(opened, total_degree(1, 1))
    assert caught.value.__context__ is None
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert not any(isinstance(held, pa.RecordBatch) for frame in frames[1:] for held in frame.f_locals.values())
