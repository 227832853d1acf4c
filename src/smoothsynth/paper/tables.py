"""The paper's four result tables run again: as printed (not private), with correct constants, and method="auto".

Protocol (section 4): 10,000 random mixtures of 10 Gaussian kernels per sigma, worst case over the queries, mean
over rounds, epsilon = 1. Runs as printed scale each column by its own range, as the paper does; the private
runs scale by public bounds, so their queries are those of the public cube.
"""

from __future__ import annotations

import csv
import time
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from smoothsynth.paper.printed import DELTA, SIGMAS
from smoothsynth.paper.queries import answers, random_queries, worst_errors
from smoothsynth.paper.reproduction import accelerated, scale_by_own_range
from smoothsynth.pipeline.run import release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from smoothsynth.paper.datasets import DataSet
    from smoothsynth.paper.queries import GaussianMixtureQueries

    Points = NDArray[np.float64]
    Kind = Literal["ellipsoid", "hypercube"]

PRINTED, CORRECT, AUTO = "as printed (not private)", "correct constants", "auto"
BASELINES = ("uniform rows", "mean row (not private)", "bootstrap (not private)")
KINDS: tuple[Kind, ...] = ("ellipsoid", "hypercube")
DELTAS = (0.0, DELTA)
RESULTS_FILE = "results.csv"


@dataclass(frozen=True, slots=True)
class Result:
    """The worst errors of one synthetic table at one sigma in one round; `kind` is empty where it plays no part."""

    data: str
    variant: str
    kind: str
    delta: float
    sigma: int
    round: int
    queries: int
    absolute: float
    relative: float
    seconds: float

    @property
    def job(self) -> tuple[str, str, str, float, int, int]:
        """What identifies the run this result belongs to; a run has one result for each sigma."""
        return (self.data, self.variant, self.kind, self.delta, self.round, self.queries)


@dataclass(frozen=True, slots=True)
class Job:
    """One round of one variant on one data set."""

    data: DataSet
    variant: str
    kind: str
    delta: float
    round: int
    queries: int

    @property
    def key(self) -> tuple[str, str, str, float, int, int]:
        """The same identity as that of its results."""
        return (self.data.name, self.variant, self.kind, self.delta, self.round, self.queries)


def jobs(data: Sequence[DataSet], *, rounds: int, queries: int) -> Iterator[Job]:
    """List everything that is to be run, round by round, so that an interrupted run is even."""
    for number in range(rounds):
        for one in data:
            for delta in DELTAS:
                yield from (
                    Job(one, variant, kind, delta, number, queries) for variant in (PRINTED, CORRECT) for kind in KINDS
                )
                yield Job(one, AUTO, "", delta, number, queries)
            yield from (Job(one, baseline, "", 0.0, number, queries) for baseline in BASELINES)


def run(
    data: Sequence[DataSet],
    output: Path,
    *,
    rounds: int,
    queries: int,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Result]:
    """Run what is not yet in the results file of the output folder, and return all results."""
    output.mkdir(parents=True, exist_ok=True)
    results = read_results(output / RESULTS_FILE)
    done = {result.job for result in results}
    asked: dict[tuple[str, int, int, bool], Questions] = {}
    todo = list(jobs(data, rounds=rounds, queries=queries))
    for number, job in enumerate(todo):
        if progress:
            progress(number, len(todo), f"{job.data.name}, {job.variant} {job.kind}")
        if job.key not in done:
            key = _questions_key(job)
            if key not in asked:
                # The last two are kept: those of the data's own range and of the public bounds.
                asked = dict([*asked.items(), (key, questions(job))][-2:])
            fresh = carry_out(job, asked[key])
            _append(output / RESULTS_FILE, fresh)
            results += fresh
    wanted = {job.key for job in todo}
    return [result for result in results if result.job in wanted]


def carry_out(job: Job, asked: Questions | None = None) -> list[Result]:
    """Make the synthetic tables of one job and score them on the queries of its round."""
    asked = asked or questions(job)
    rng = np.random.default_rng([1, job.round, *job.data.name.encode()])
    results, tables = [], _tables(job, asked.real, rng)
    for sigma, family, true in asked.families:
        table, seconds = tables(sigma)
        errors = worst_errors(true, answers(family, table, precision="single"))
        results.append(Result(*job.key[:4], sigma, job.round, job.queries, errors.absolute, errors.relative, seconds))
    return results


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """The rows in the cube and the queries of a round, with their true answers: the same for every variant."""

    real: Points
    families: tuple[tuple[int, GaussianMixtureQueries, Points], ...]


def _questions_key(job: Job) -> tuple[str, int, int, bool]:
    return (job.data.name, job.round, job.queries, job.variant == PRINTED)


def questions(job: Job) -> Questions:
    """Draw the queries of a round and answer them on the real rows."""
    rng = np.random.default_rng([0, job.round, *job.data.name.encode()])
    real = scale_by_own_range(job.data.points) if job.variant == PRINTED else job.data.points
    families = [(s, random_queries(job.queries, real.shape[1], sigma=s, generator=rng)) for s in SIGMAS]
    return Questions(real, tuple((s, f, answers(f, real, precision="single")) for s, f in families))


def _tables(job: Job, real: Points, rng: np.random.Generator) -> Callable[[int], tuple[Points, float]]:
    """Return how to get the table for a sigma: the paper makes one for each, everything else is made once."""
    if job.variant == PRINTED:
        kind: Kind = "ellipsoid" if job.kind == "ellipsoid" else "hypercube"
        return lambda sigma: _timed(
            lambda: accelerated(real, sigma=sigma, candidates=kind, delta=job.delta, generator=rng).rows
        )
    if job.variant == CORRECT:
        return lambda sigma: _timed(lambda: _release(job, method="paper", candidates=job.kind, smoothness=sigma**2))
    made = _timed(lambda: _release(job) if job.variant == AUTO else _baseline(job.variant, real, rng))
    return lambda _sigma: made


def _release(job: Job, **choices: Any) -> Points:
    made = release(job.data.path, schema=job.data.schema, epsilon=1.0, delta=job.delta, seed=job.round, **choices)
    return made.unit_rows()


def _baseline(name: str, real: Points, rng: np.random.Generator) -> Points:
    if name == BASELINES[0]:
        return rng.uniform(-1.0, 1.0, real.shape)
    if name == BASELINES[1]:
        return real.mean(axis=0, keepdims=True)
    return real[rng.integers(0, len(real), len(real))]


def _timed(make: Callable[[], Points]) -> tuple[Points, float]:
    started = time.perf_counter()
    return make(), time.perf_counter() - started


def read_results(path: Path) -> list[Result]:
    """Read results that an earlier run left."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Result(
                data=row["data"],
                variant=row["variant"],
                kind=row["kind"],
                delta=float(row["delta"]),
                sigma=int(row["sigma"]),
                round=int(row["round"]),
                queries=int(row["queries"]),
                absolute=float(row["absolute"]),
                relative=float(row["relative"]),
                seconds=float(row["seconds"]),
            )
            for row in csv.DictReader(file)
        ]


def _append(path: Path, results: list[Result]) -> None:
    new = not path.is_file()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=[f.name for f in fields(Result)])
        if new:
            writer.writeheader()
        writer.writerows(asdict(result) for result in results)
