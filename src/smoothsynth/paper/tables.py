"""The paper's four result tables run again: as printed (not private), with correct constants, and method="auto".

Protocol (section 4): 10,000 random mixtures of 10 Gaussian kernels per sigma, worst case over the queries, mean
over rounds, epsilon = 1. Runs as printed scale each column by its own range, as the paper does; the private
runs scale by public bounds, so their queries are those of the public cube.

The re-run tables as text and as a page.
"""

from __future__ import annotations

import csv
import html
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Literal

import numpy as np

from smoothsynth.methods import Paper
from smoothsynth.paper.printed import DELTA, SIGMAS, printed_table
from smoothsynth.paper.queries import answers, random_queries, worst_errors
from smoothsynth.paper.reproduction import LABELS, accelerated, scale_by_own_range
from smoothsynth.pipeline.run import release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from rich.table import Table

    from smoothsynth.paper.queries import GaussianMixtureQueries
    from smoothsynth.paper.reproduction import DataSet

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
        return lambda sigma: _timed(lambda: _release(job, Paper(candidates=job.kind, smoothness=sigma**2)))
    made = _timed(lambda: _release(job) if job.variant == AUTO else _baseline(job.variant, real, rng))
    return lambda _sigma: made


def _release(job: Job, method: str | Paper = "auto") -> Points:
    made = release(job.data.path, schema=job.data.schema, epsilon=1.0, delta=job.delta, seed=job.round, method=method)
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


TITLES = {"ellipsoid": "PCA ellipsoid", "hypercube": "hypercube"}
PAPER = "the paper's figure (not private)"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table: a data set, a variant, absolute and relative errors by sigma, seconds, rounds."""

    data: str
    variant: str
    absolute: dict[int, float]
    relative: dict[int, float]
    seconds: float
    rounds: int


@dataclass(frozen=True, slots=True)
class ResultTable:
    """One of the four tables."""

    title: str
    lines: tuple[Line, ...]


def result_tables(results: Sequence[Result]) -> list[ResultTable]:
    """Arrange results as the paper's four tables, with its printed line first for each data set."""
    grouped: dict[tuple[str, str, str, float], list[Result]] = defaultdict(list)
    for result in results:
        grouped[result.data, result.variant, result.kind, result.delta].append(result)
    names = list(dict.fromkeys(result.data for result in results))
    tables = []
    for kind in KINDS:
        for delta in DELTAS:
            lines: list[Line] = []
            for name in names:
                printed = printed_table(kind, delta=delta).results.get(name.split("_")[0].upper())
                if printed is not None:
                    lines.append(Line(name, PAPER, printed.absolute, printed.relative, printed.seconds, 20))
                wanted = [(PRINTED, kind, delta), (CORRECT, kind, delta), (AUTO, "", delta)]
                wanted += [(baseline, "", 0.0) for baseline in BASELINES]
                lines += [_mean(name, v, grouped[name, v, k, d]) for v, k, d in wanted if grouped[name, v, k, d]]
            budget = "epsilon = 1" + (f", delta = {delta:g}" if delta else "")
            tables.append(ResultTable(f"Worst-case error, {TITLES[kind]}, {budget}", tuple(lines)))
    return tables


def _mean(name: str, variant: str, results: list[Result]) -> Line:
    def mean(field: str, sigma: int) -> float:
        values = [float(getattr(result, field)) for result in results if result.sigma == sigma]
        return sum(values) / len(values)

    return Line(
        name,
        variant,
        {sigma: mean("absolute", sigma) for sigma in SIGMAS},
        {sigma: mean("relative", sigma) for sigma in SIGMAS},
        max(mean("seconds", sigma) for sigma in SIGMAS),
        len({result.round for result in results}),
    )


def label(name: str) -> str:
    """Say what a data set is where it is not the paper's own."""
    return LABELS.get(name, name.upper())


def as_terminal_table(table: ResultTable) -> Table:
    """Return one table for the terminal: absolute and relative error in one cell."""
    from rich.table import Table

    shown = Table(title=f"{table.title} (abs / rel)", title_justify="left")
    for heading in ("data", "variant", *(f"sigma {sigma}" for sigma in SIGMAS), "time (s)", "rounds"):
        shown.add_column(heading, justify="left" if heading in ("data", "variant") else "right", no_wrap=True)
    before = ""
    for line in table.lines:
        if before and line.data != before:
            shown.add_section()
        cells = [f"{line.absolute[s]:.4f} / {line.relative[s]:.4f}" for s in SIGMAS]
        shown.add_row(
            label(line.data) if line.data != before else "",
            line.variant,
            *cells,
            f"{line.seconds:.2f}",
            str(line.rounds),
        )
        before = line.data
    return shown


def as_page(tables: Sequence[ResultTable], *, note: str) -> str:
    """Return all tables as one self-contained HTML page."""
    body = "\n".join(_html_table(table) for table in tables)
    return _PAGE.replace("{{note}}", html.escape(note)).replace("{{body}}", body)


def _html_table(table: ResultTable) -> str:
    head = "".join(f"<th>&sigma; = {s}</th>" for s in SIGMAS)
    rows = []
    for line in table.lines:
        cells = "".join(f"<td>{line.relative[s]:.4f}<small>{line.absolute[s]:.4f}</small></td>" for s in SIGMAS)
        kind = "paper" if line.variant == PAPER else "ours" if line.variant == AUTO else "plain"
        rows.append(
            f'<tr class="{kind}"><th>{html.escape(label(line.data))}</th><td class="v">{html.escape(line.variant)}</td>'
            f"{cells}<td>{line.seconds:.2f}</td><td>{line.rounds}</td></tr>"
        )
    return (
        f'<section><h2>{html.escape(table.title)}</h2><div class="scroll"><table><thead><tr><th>data</th>'
        f"<th>variant</th>"
        f"{head}<th>seconds</th><th>rounds</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper's tables, run again</title><style>
:root{color-scheme:light dark;--line:#8884;--ours:#2a7d4f22}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,th:nth-child(2),.v{text-align:left}small{display:block;opacity:.6}
tr.ours{background:var(--ours)}tr.paper td,tr.paper th{border-top:2px solid var(--line)}
</style></head><body><h1>The paper's tables, run again</h1><p>{{note}}</p>
<p>Relative worst-case error over the queries; below it, small, the absolute one.</p>{{body}}</body></html>
"""
