import contextlib
import hashlib
import math
import os
import random
import re
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import smoothsynth as ss
from smoothsynth.private import noise

# A slow machine is not a failure. Every run tries the same examples; `make slow` tries others, and more.
settings.register_profile("smoothsynth", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("fresh", deadline=None, max_examples=500)
settings.load_profile("smoothsynth")


# Files whose tests are long, and have little in common.
ONE_BY_ONE = re.compile(r"test_(audit|constraints|docs_examples|faults|golden)\.py")


def pytest_addoption(parser):
    parser.addoption("--record", action="store_true", help="Write the records of tests/golden again.")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Run the tests of a file in one process, so that what they share is made once, and so all that name a cluster.

    The marks of xdist would say the same, but xdist 3.8 writes them where pytest 9.2 no longer looks. In the order of
    collection, so that clusters start early.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            cluster = re.search(r"spark|dask", nodeid)
            if cluster:
                return cluster[0]
            return nodeid if ONE_BY_ONE.search(nodeid) else nodeid.split("::")[0]

    config.option.loadscopereorder = False
    return ByFile(config, log)


# Below it a discrete Gaussian is drawn from a table; above it a rounded normal number has its law to seven digits.
WIDE_SIGMA = 1000.0
default_rng = np.random.default_rng


class Reproducible:
    """What `private/noise.py` takes from OpenDP and the operating system: the same laws, from the seed of a name."""

    def __init__(self, name):
        digest = hashlib.sha256(name.encode()).digest()
        self._generator, self.randbelow = default_rng(list(digest)), random.Random(digest).randrange

    def laplace(self, scale):
        """The whole part of an exponential number is geometric, and the difference of two has the discrete Laplace law."""

        def sampler(numbers):
            one, other = np.floor(self._generator.exponential(scale, (2, len(numbers))))
            return [exact + int(a) - int(b) for exact, a, b in zip(numbers, one, other, strict=True)]

        return sampler

    def gaussian(self, sigma):
        def sampler(numbers):
            if sigma > WIDE_SIGMA:
                drawn = np.rint(self._generator.normal(0.0, sigma, len(numbers)))
            else:
                support = np.arange(-math.ceil(12 * sigma), math.ceil(12 * sigma) + 1)
                weights = np.exp(-((support / sigma) ** 2) / 2)
                drawn = self._generator.choice(support, len(numbers), p=weights / weights.sum())
            return [exact + int(z) for exact, z in zip(numbers, drawn, strict=True)]

        return sampler

    def maxima(self, count, scale):
        def sampler(scores):
            return np.argsort(-(np.array(scores) + self._generator.gumbel(0.0, scale, len(scores))))[:count].tolist()

        return sampler

    def default_rng(self, seed=None):
        """Where a caller of the package leaves out the seed of synthetic rows."""
        return default_rng(self._generator.integers(2**63) if seed is None else seed)


@contextlib.contextmanager
def reproducible_noise(name):
    """Replace the entropy below the package's noise, and that of generators without a seed, by what a name gives."""
    source = Reproducible(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "_laplace_sampler", source.laplace)
        patch.setattr(noise, "_gaussian_sampler", source.gaussian)
        patch.setattr(noise, "_maxima_sampler", source.maxima)
        patch.setattr(noise, "secrets", source)
        patch.setattr(np.random, "default_rng", source.default_rng)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Give what a file makes as it is read noise of its own."""
    with reproducible_noise(collector.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Give each test noise of its own, the same in every run, whichever tests were run before it."""
    with _noise_for(item, item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Give what tests share noise of its own, whichever test asks for it first."""
    node = request.node
    with _noise_for(node, f"{node.nodeid} {fixturedef.argname} {getattr(request, 'param_index', 0)}"):
        return (yield)


def _noise_for(node, name):
    fresh = node.get_closest_marker("fresh_noise")
    return contextlib.nullcontext() if fresh else reproducible_noise(name)


@pytest.fixture(scope="session")
def noise_of():
    """Return the context in which noise is that of a name."""
    return reproducible_noise


@pytest.fixture
def schema():
    return ss.Schema({"age": ss.Number(0, 120), "income": ss.Number(0, 1e6), "visits": ss.Integer(0, 20)})


@pytest.fixture
def frame():
    import pandas as pd

    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 15, 400),
            "income": rng.lognormal(11, 0.6, 400),
            "visits": rng.poisson(3, 400),
        }
    )


@pytest.fixture
def csv_file(frame, tmp_path):
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def schema_file(schema, tmp_path):
    path = tmp_path / "schema.toml"
    schema.save(path)
    return path


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory):
    """Where the local Spark cluster lives: what its driver logs is in driver.log, its executors' logs are in home/work."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_folder):
    """Start a real Spark cluster on the loopback: a master, two workers, each with an executor process of its own."""
    pyspark = pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("the Spark engine is tested where there is Java 17 or later (make java)")
    home = spark_folder / "home"
    home.mkdir()
    for part in ("bin", "jars", "python"):
        (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    places = {"SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(spark_folder / "local")}
    settings = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with pytest.MonkeyPatch.context() as patch, _standard_error(spark_folder / "driver.log"):
        for name, value in (places | settings).items():
            patch.setenv(name, value)
        session = _spark_session(pyspark)
    yield session
    session.stop()


def _spark_session(pyspark):
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return builder.getOrCreate()


@contextlib.contextmanager
def _standard_error(path):
    """Let processes that are started meanwhile write their standard error into a file."""
    before = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


@pytest.fixture(scope="session")
def dask_client():
    """Start a Dask cluster on the loopback: a scheduler here, two workers in processes of their own."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
