"""Accuracy of a release beside the paper's printed figures, simple baselines and peers.

    python -m benchmarks accuracy [--data DIR] [--only wdbc ctg ...] [--epsilon 0.5 1 4] [--delta 0 1e-10 1e-6]
                                  [--rounds 5] [--queries 10000] [--quick] [--fresh] [--output DIR]

Every finished table is a line of results.csv in the output folder, so that a run that was ended goes on where it was;
accuracy.html there has the plots.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.progress import Progress

import smoothsynth as ss
from benchmarks.accuracy.baselines import BASELINES, PRIVATE_BASELINES
from benchmarks.accuracy.metrics import SIGMAS, TARGETS, Judge, explained_by_real
from benchmarks.accuracy.paper_page import as_page
from benchmarks.accuracy.paper_summary import OURS, Facts, Line, arrange, budget_table, paper_ratios, peer_ratios
from benchmarks.results import Console
from smoothsynth.paper.reproduction import NAMES, DataSet, available, data_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

FIGURES = (
    *(f"rel_{s}" for s in SIGMAS),
    *(f"abs_{s}" for s in SIGMAS),
    *("narrow", "ridge", "polynomial", "w1", "corr", "tstr"),
)
COLUMNS = ("data", "epsilon", "delta", "method", "round", "queries", *FIGURES, "seconds", "status")
PEERS = Path(__file__).parents[1] / "peers" / "results.csv"
QUICK = {"only": ["wdbc", "ctg", "pks", "crm"], "epsilon": [1.0], "delta": [0.0, 1e-10], "rounds": 2, "queries": 1000}


@dataclass(frozen=True, slots=True)
class Job:
    """One round of one method on one data set; what needs no budget has none."""

    data: str
    epsilon: float | None
    delta: float | None
    method: str
    round: int
    queries: int | None


@dataclass(frozen=True, slots=True)
class Result:
    """The scores of one table; a peer that did not finish says so in `status` and has none."""

    job: Job
    figures: dict[str, float]
    seconds: float
    status: str = "ok"


def jobs(data: Sequence[str], given: argparse.Namespace) -> Iterator[Job]:
    """List everything that is to be run, round by round, so that an interrupted run is even."""
    budgets = [(epsilon, delta) for epsilon in given.epsilon for delta in given.delta]
    for number in range(given.rounds):
        for name in data:
            yield from (Job(name, None, None, method, number, given.queries) for method in BASELINES)
            for method in (OURS, *PRIVATE_BASELINES):
                yield from (Job(name, e, d, method, number, given.queries) for e, d in budgets)


def run(data: Sequence[DataSet], given: argparse.Namespace, *, progress: Progress) -> list[Result]:
    """Run what is not yet in the results file of the output folder, and return all results that were target."""
    path = given.output / "results.csv"
    _mend(path)
    by_name = {one.name: one for one in data}
    todo = list(jobs(list(by_name), given))
    results = {result.job: result for result in read_results(path)}
    task, judge, judged = progress.add_task("", total=len(todo)), None, None
    for job in todo:
        progress.update(task, description=f"round {job.round + 1}: {job.data}, {job.method}")
        if job not in results:
            if judged != (job.data, job.round):
                # One judge at a time: its queries are some hundred megabytes for a hundred columns.
                judge = None
                judge, judged = Judge.of(by_name[job.data], queries=job.queries, seed=job.round), (job.data, job.round)
            results[job] = carry_out(job, by_name[job.data], judge)
            _append(path, results[job])
        progress.advance(task)
    return [results[job] for job in todo]


def carry_out(job: Job, data: DataSet, judge: Judge) -> Result:
    """Make one table, time it and score it."""
    started = time.perf_counter()
    rows = _rows(job, data)
    seconds = time.perf_counter() - started
    return Result(job, judge(rows).as_row(), seconds)


def _rows(job: Job, data: DataSet) -> NDArray[np.float64]:
    if job.method == OURS:
        made = ss.release(data.path, schema=data.schema, epsilon=job.epsilon, delta=job.delta, seed=job.round)
        return made.unit_rows()
    rng = np.random.default_rng([job.round, *job.data.encode(), *job.method.encode()])
    if job.method in BASELINES:
        return BASELINES[job.method](data.points, rng)
    return PRIVATE_BASELINES[job.method](data.points, rng, epsilon=job.epsilon, delta=job.delta)


def read_results(path: Path) -> list[Result]:
    """Read results that an earlier run, or the peers', left; figures that are not there are nan."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [_result(row) for row in csv.DictReader(file)]


def _result(row: dict[str, str]) -> Result:
    def number(name: str) -> float | None:
        return float(row[name]) if row.get(name) else None

    queries = int(row["queries"]) if row.get("queries") else None
    job = Job(row["data"], number("epsilon"), number("delta"), row["method"], int(row["round"]), queries)
    figures = {name: math.nan if number(name) is None else float(row[name]) for name in FIGURES}
    return Result(job, figures, number("seconds") or 0.0, row.get("status") or "ok")


def _append(path: Path, result: Result) -> None:
    new = not path.is_file() or not path.stat().st_size
    job = result.job
    key = (job.data, job.epsilon, job.delta, job.method, job.round, job.queries)
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(COLUMNS)
        figures = [f"{result.figures[name]:.6g}" for name in FIGURES]
        writer.writerow([*("" if k is None else k for k in key), *figures, f"{result.seconds:.3f}", result.status])


def _mend(path: Path) -> None:
    """Drop a last line that a run did not finish writing."""
    if path.is_file():
        whole = path.read_bytes()
        path.write_bytes(whole[: whole.rfind(b"\n") + 1])


def peers(path: Path, given: argparse.Namespace, names: Sequence[str]) -> list[Result]:
    """Return what peers did on the same data sets and budgets, if they were run (benchmarks/peers)."""
    return [
        replace(result, job=replace(result.job, queries=given.queries))
        for result in read_results(path)
        if result.job.data in names and result.job.epsilon in given.epsilon and result.job.delta in given.delta
    ]


def facts(data: DataSet) -> Facts:
    """Return what a reader must know of a data set beside its figures."""
    target = TARGETS.get(data.name)
    real = explained_by_real(data.points, target=data.schema.names.index(target)) if target else math.nan
    rows, dimensions = data.points.shape
    return Facts(data.name, data.label, rows, dimensions, target, real)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; --quick stands for its own data sets, budgets, rounds and queries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the data sets [SMOOTHSYNTH_DATA or ../shared/data]")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES), help="names of data sets [all]")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    parser.add_argument("--delta", type=float, nargs="+", default=[0.0, 1e-10, 1e-6])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=10_000, help="for each kernel width and round")
    parser.add_argument("--quick", action="store_true", help="2 rounds, 1,000 queries, four data sets, epsilon = 1")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run left in the output folder")
    parser.add_argument("--output", type=Path, help="folder for results.csv and accuracy.html [build/accuracy]")
    given = parser.parse_args(arguments)
    if given.quick:
        given = argparse.Namespace(**{**vars(given), **QUICK, "fresh": True})
    given.output = given.output or Path("build", "accuracy-quick" if given.quick else "accuracy")
    return given


def report(console: Console, lines: list[Line], known: list[Facts], *, given: argparse.Namespace) -> None:
    """Print a table for each data set and budget and the two summaries, and write the page."""
    for fact in known:
        for epsilon in given.epsilon:
            for delta in given.delta:
                console.print(budget_table(lines, fact, epsilon=epsilon, delta=delta))
    console.print(paper_ratios(lines, known).as_terminal_table())
    console.print(peer_ratios(lines, known).as_terminal_table())
    note = f"{given.rounds} rounds, {given.queries:,} queries for each kernel width; smoothsynth {ss.__version__}."
    page = given.output / "accuracy.html"
    page.write_text(as_page(lines, known, note=note), encoding="utf-8")
    console.print(f"{note} Figures: {given.output / 'results.csv'}; plots: {page}")


def main() -> None:
    """Parse, run, print, write."""
    given, console = parse(), Console(width=200)
    found, missing = available(data_folder(given.data), tuple(given.only))
    for name in missing:
        console.print(f"skipped: {name} is not in {data_folder(given.data)}")
    given.output.mkdir(parents=True, exist_ok=True)
    if given.fresh:
        (given.output / "results.csv").unlink(missing_ok=True)
    with Progress(console=console, transient=True) as progress:
        results = run(found, given, progress=progress)
    names = [data.name for data in found]
    lines = arrange([*results, *peers(PEERS, given, names)])
    report(console, lines, [facts(data) for data in found], given=given)
