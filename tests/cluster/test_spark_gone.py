"""A Spark cluster that has no executors, or is stopped in the middle of a pass: one sentence, and no charge."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pyspark = pytest.importorskip("pyspark")
# A second cluster, which takes a minute to start and to lose.
pytestmark = pytest.mark.slow

# In a process of its own: there is one Spark context in a process, and this one is lost on purpose.
SCRIPT = """
import json, sys, threading, time, warnings
warnings.simplefilter("ignore")
import pyarrow as pa, pyarrow.parquet as pq
import smoothsynth as ss
from pyspark.sql import SparkSession
from smoothsynth.private.engines import spark_jobs
from smoothsynth.accounting.ledger import LedgerFile

folder = sys.argv[1]
schema = ss.Schema({"age": ss.Number(0, 120)})
pq.write_table(pa.table({"age": [50.0] * 100}), folder + "/rows.parquet")
LedgerFile.create(folder + "/people.ledger", ss.Budget(3.0))
said = {}

def attempt(name, data, **more):
    try:
        ss.release(data, schema=schema, epsilon=1.0, ledger=folder + "/people.ledger", **more)
    except ss.SmoothsynthError as error:
        said[name] = [type(error).__name__, str(error), error.__context__ is None]

def session(master, **settings):
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    for key, value in {"driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1", **settings}.items():
        builder = builder.config("spark." + key, value)
    return builder.getOrCreate()

# Workers that are too small for an executor: the cluster is there, and nobody works.
spark_jobs.PATIENCE = 2.0
starved = session("local-cluster[1,1,1024]", **{"executor.memory": "512m", "executor.cores": "2", "cores.max": "2"})
attempt("starved", folder + "/rows.parquet", engine="spark")
starved.stop()

spark = session("local[2]")
def slow(batches):
    for batch in batches:
        open(folder + "/started", "w").close()
        time.sleep(20)
        yield batch
frame = spark.range(0, 100, 1, 2).selectExpr("cast(id as double) age").mapInArrow(slow, "age double")

def stop():
    while True:
        try:
            open(folder + "/started").close()
            break
        except FileNotFoundError:
            time.sleep(0.05)
    spark.stop()

thread = threading.Thread(target=stop)
thread.start()
attempt("stopped in the middle", frame)
thread.join()
attempt("stopped before", frame)
said["charges"] = len(LedgerFile(folder + "/people.ledger").charges)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    if shutil.which("java") is None:
        pytest.skip("the Spark engine is tested where there is Java 17 or later (make java)")
    folder = tmp_path_factory.mktemp("gone")
    home = folder / "home"
    home.mkdir()
    for part in ("bin", "jars", "python"):
        (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    places = {"SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(folder / "local"), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    environment = {**os.environ, **places, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("starved", "must have an executor and had none for 2 seconds"),
        ("stopped in the middle", "is gone: its session was stopped"),
        ("stopped before", "is gone: its session was stopped"),
    ],
)
def test_a_cluster_that_is_gone_is_said_in_one_sentence(case, words, said):
    kind, text, alone = said[case]
    assert kind == "EngineError"
    assert words in text
    assert alone


def test_nothing_is_charged_for_a_pass_that_failed(said):
    assert said["charges"] == 0
