"""Intervals hold the private answer as often as they say, on tables that no constant was chosen on; and can fail to."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.answer.query import Query
from smoothsynth.answer.worst_case_interval import worst_case

# The benchmarks are not installed: they are found from the root of the repository, however pytest is started.
sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.coverage.intervals import ask_count, ask_smooth, line_of, made_up

RELEASES, QUESTIONS, COUNTS = 4, 24, 6


CLUSTERS_SEEN = pytest.param(("mixture", 1e-10), marks=pytest.mark.slow)


@pytest.fixture(
    scope="module", params=[("gaussian", 1e-6), ("mixture", 0.0), CLUSTERS_SEEN], ids="{0[0]}-{0[1]}".format
)
def releases(request):
    name, delta = request.param
    private = made_up(name, np.random.default_rng(5))
    table = pa.table(dict(private.columns))
    return private, [
        ss.release(table, schema=private.schema, epsilon=1.0, delta=delta, seed=s) for s in range(RELEASES)
    ]


def query(releases, ask_one, *, times):
    private, made = releases
    rng = np.random.default_rng(9)
    return [ask_one(one, private, rng, 0.95) for one in made for _ in range(times)]


def test_smooth_questions_are_covered_and_not_by_width_alone(releases):
    line = line_of(query(releases, ask_smooth, times=QUESTIONS))
    # Questions to one release share its noise: about 40 independent ones of 96, so 0.95 - 2.5 sqrt(0.95 * 0.05 / 40).
    assert line["coverage"] >= 0.86
    assert line["ratio"] < 12


def test_counts_are_covered(releases):
    assert line_of(query(releases, ask_count, times=COUNTS))["coverage"] >= 0.86


def test_a_third_of_the_width_is_caught(releases):
    # Intervals at this confidence are a third as wide: a check of coverage that passes them shows nothing.
    private, made = releases
    rng = np.random.default_rng(9)
    narrow = [ask_smooth(one, private, rng, 0.49) for one in made for _ in range(QUESTIONS)]
    assert line_of(narrow)["coverage"] < 0.92


def test_the_noise_that_is_stated_is_the_noise_there_was(releases):
    """A mean that was measured directly: over releases, its error in units of the stated noise is about 1."""
    private, _ = releases
    name = private.schema.names[0]
    table = pa.table({name: private.columns[name]})
    schema = ss.Schema({name: private.schema.columns[name]})
    truth = float(np.mean(private.columns[name]))
    errors = []
    for seed in range(120):
        made = ss.release(
            table, schema=schema, epsilon=0.2, method=ss.methods.Paper(candidates="hypercube", features=1), seed=seed
        )
        sure = worst_case(Query.of(made, [name]).evidence, 0, lambda x: x, confidence=0.95)
        errors.append(abs(sure.centre - truth) / sure.noise)
    # Laplace noise: 5 % are beyond 1, and 22 % are beyond one half. By chance either limit is passed once in 80,000 runs.
    assert np.mean(np.array(errors) > 1) <= 0.15
    assert np.mean(np.array(errors) > 0.5) >= 0.08
