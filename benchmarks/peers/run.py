"""Score MST, AIM and others beside us: same data, bounds, budget and metrics, with time and memory.

python -m benchmarks peers --data DIR [--only wdbc ctg ...] [--epsilon 1] [--delta 1e-10] [--rounds 1] [--limit 600]
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.accuracy.metrics import Judge
from benchmarks.peers.bins import from_bins, to_bins
from benchmarks.peers.environments import PEERS, PYTHON, InstallError, Peer, python_of
from benchmarks.peers.process import Ending, run_limited
from benchmarks.results import Console
from smoothsynth.accounting.charges import gaussian_multiplier
from smoothsynth.paper.reproduction import available, data_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Row = dict[str, object]

HERE = Path(__file__).parent
RESULTS = HERE / "results.csv"
CACHE = HERE.parents[1] / ".venv-peers"
KEY = ("data", "epsilon", "delta", "method", "round")
FIGURES = ("rel_2", "rel_4", "rel_6", "rel_8", "rel_10", "narrow", "ridge", "polynomial", "w1", "corr")
COLUMNS = (*KEY, *FIGURES, "tstr", "seconds", "memory_mb", "status")
# What the bins alone cost: the real rows, binned and decoded. Not a mechanism.
BINS_ONLY = "bins-only (not private)"


def run_peer(
    peer: Peer, method: str, *, numbers: NDArray[np.int64], job: Row, given: argparse.Namespace
) -> tuple[Ending, NDArray[np.int64] | None]:
    """Run one method in its peer's environment; return how it ended and its rows of bin numbers."""
    try:
        python = python_of(peer, given.cache, python=given.python)
    except InstallError as error:
        return Ending(f"failed: install: {error}", 0.0, None), None
    with tempfile.TemporaryDirectory() as folder:
        table, output, report, task = (Path(folder) / name for name in ("table.csv", "rows.csv", "report", "job"))
        names = [f"c{i}" for i in range(numbers.shape[1])]
        np.savetxt(table, numbers, fmt="%d", delimiter=",", header=",".join(names), comments="")
        paths = {"table": str(table), "output": str(output), "report": str(report)}
        task.write_text(json.dumps({**job, **paths, "method": method}), encoding="utf-8")
        # -I: neither this folder nor the caller's packages may stand before the peer's own.
        command = [str(python), "-I", str(HERE / peer.script), str(task)]
        ending = run_limited(command, seconds=given.limit, memory_mb=given.memory)
        if ending.status != "ok":
            return ending, None
        # The peer's own times: without the start of the interpreter and the imports.
        took = json.loads(report.read_text(encoding="utf-8"))
        rows = np.loadtxt(output, delimiter=",", skiprows=1, ndmin=2).astype(np.int64)
        return Ending("ok", took["seconds"], ending.memory_mb, took["wall"]), rows


def result(key: Row, ending: Ending, scores: dict[str, float] | None) -> Row:
    """Return one line of the results; figures that were not measured stay empty."""
    figures = {name: f"{scores[name]:.6g}" for name in FIGURES} if scores else {}
    memory = "" if ending.memory_mb is None else f"{ending.memory_mb:.0f}"
    measured = {"seconds": f"{ending.seconds:.1f}", "memory_mb": memory, "status": ending.status}
    return {**dict.fromkeys(COLUMNS, ""), **key, **figures, **measured}


def keep(line: Row, path: Path, *, key: tuple[str, ...] = KEY) -> None:
    """Write a line into the results, in place of an earlier line of the same run (of the same key)."""
    lines: list[Row] = []
    if path.is_file():
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
    same = [i for i, old in enumerate(lines) if all(str(old[k]) == str(line[k]) for k in key)]
    lines[same[0] if same else len(lines) : same[0] + 1 if same else len(lines)] = [line]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=tuple(line), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def score_all(points: NDArray[np.float64], key: Row, *, given: argparse.Namespace, console: Console) -> None:
    """Run and score every method on one data set in one round."""
    seed = int(str(key["round"]))
    judge = Judge(points, queries=given.queries, seed=seed)
    numbers = to_bins(points, bins=given.bins)
    job: Row = {"epsilon": given.epsilon, "delta": given.delta, "bins": given.bins, "round": seed}
    job["model_mb"] = given.model_mb
    job["multiplier"] = gaussian_multiplier(given.epsilon, given.delta)
    runs = [(peer, method) for peer in PEERS for method in peer.methods]
    for peer, method in [(None, BINS_ONLY), *runs]:
        if given.methods and method not in given.methods:
            continue
        if peer is None:
            ending, rows = Ending("ok", 0.0, None), numbers
        else:
            ending, rows = run_peer(peer, method, numbers=numbers, job=job, given=given)
        scores = None
        if rows is not None:
            synthetic = from_bins(rows, bins=given.bins, rng=np.random.default_rng(seed))
            scores = judge(synthetic).as_row()
        shown = f"{method} ({given.model_mb:g} MB)" if method.endswith("-aim") else method
        line = result({**key, "method": shown}, ending, scores)
        keep(line, given.output)
        console.print(" ".join(f"{name}={line[name]}" for name in COLUMNS if line[name] != ""), highlight=False)


def main() -> None:
    """Parse, run each method on each data set, keep each line as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the data sets [SMOOTHSYNTH_DATA or ../shared/data]")
    parser.add_argument("--only", nargs="*", default=["wdbc", "ctg", "pks", "crm"], help="names of data sets")
    parser.add_argument("--methods", nargs="*", help="names of methods [all]")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-10)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--bins", type=int, default=32, help="equal-width bins per column")
    parser.add_argument("--limit", type=float, default=600, help="processor seconds per run")
    parser.add_argument("--memory", type=float, default=8192, help="MB per run")
    parser.add_argument("--model-mb", type=float, default=80, help="largest model of AIM, in MB")
    parser.add_argument("--python", default=PYTHON, help="interpreter for the peers' environments")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the peers' environments")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    console = Console(width=400)
    found, missing = available(data_folder(given.data), tuple(given.only))
    for name in missing:
        console.print(f"skipped: {name} is not in {data_folder(given.data)}")
    for data in found:
        for number in range(given.rounds):
            key: Row = {"data": data.name, "epsilon": given.epsilon, "delta": given.delta, "round": number}
            score_all(data.points, key, given=given, console=console)
