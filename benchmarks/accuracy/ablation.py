"""What each part of method="auto" brings, and what each of its constants moves (docs/notes/0019).

    python -m benchmarks ablation [--parts [NAME ...]] [--constants [NAME ...]] [--only normal adult ...] [--small]
                                  [--delta 1e-6] [--rounds 2] [--data DIR] [--output FILE]
    python -m benchmarks ablation --screen [--constants [NAME ...]] [--output FILE]

Each part is left out in turn, and each constant of methods/, model/ and fit/ is moved by 30 % either way; without
--parts and --constants, all parts are. A figure is the geometric mean, over tables and measures, of the error over that of
the method as it is; behind it, its standard error over tables. Both have the same tables and, as far as their plans are the
same, the same noise. Measures: kernels of width 2 and 4, narrow kernels, ridge functions, polynomials, Wasserstein distance
and correlations; of adult and bank what benchmarks/accuracy/learning.py has, and 1 - AUC. Lines are written to the file as
soon as they are there. Study code: noise comes from a seed.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
from rich.table import Table

import smoothsynth as ss
from benchmarks.accuracy import fading, kinds, learning, screen
from benchmarks.accuracy.metrics import Judge
from benchmarks.accuracy.mixed_judge import MixedJudge
from benchmarks.accuracy.runs import there
from benchmarks.results import Console
from smoothsynth.methods import adaptive_rounds, tables
from smoothsynth.private import noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Patch = tuple[Any, str, Any]

EPSILON, ROOMS = 1.0, ("methods", "model", "fit")
MEASURES = ("rel_2", "rel_4", "narrow", "ridge", "polynomial", "w1", "corr")
SIZES = {"normal": (20_000, 6), "ring": (2_000, 6), "curve": (4_000, 20), "skew": (2_000, 6), "zeros": (4_000, 6)}
SIZES |= {"heavy": (800, 20), "spread": (2_000, 6)}
MOVED = (0.7, 1.3)


def same(first: Any, *_others: Any, **_named: Any) -> Any:
    """Return the first argument: what a step that changes it does if it is left out."""
    return first


def _module(name: str) -> Any:
    return importlib.import_module(f"smoothsynth.{name}")


def _without_share(name: str) -> list[Patch]:
    def without(whole: Callable[..., dict[str, float]]) -> Callable[..., dict[str, float]]:
        def fewer(*given: Any, **named: Any) -> dict[str, float]:
            found = {key: share for key, share in whole(*given, **named).items() if key != name}
            return {key: share / sum(found.values()) for key, share in found.items()}

        return fewer

    both = ("_shares", "_beside_tables")
    return [(adaptive_rounds, one, without(getattr(adaptive_rounds, one))) for one in both]


def parts() -> dict[str, list[Patch]]:
    """Return what is replaced to leave out each part."""
    model, synthesis = _module("model.model"), _module("model.tables")
    copula, ranks, scales = _module("model.copula"), _module("model.rank_histogram"), _module("model.scales")
    norms, swapping = _module("model.row_norms"), _module("fit.swapping")
    spikes, clipped = _module("model.spikes"), _module("model.clipped_moments")
    released = lambda _, noisy: noisy.values  # noqa: E731
    uncut = lambda rows, columns, cut: (0.0, clipped.lacking_pairs(rows, columns, cut)[1])  # noqa: E731
    return {
        "spikes": [(adaptive_rounds, "spike_share", lambda *_, **__: 0.0)],
        "ranks": _without_share("ranks"),
        "correlations": _without_share("pairs"),
        "row norms": _without_share("lengths"),
        "tables": [(adaptive_rounds, "plan_tables", lambda *_, **__: [])],
        "tables of three": [(tables, "MOST_COLUMNS", {2: 200, 3: 0})],
        "what tables tell of columns": [(model, "hold_table_marginals", lambda columns, _, known: (columns, known))],
        "correlations held while swapping": [(synthesis, "_correlations", lambda *_: None)],
        "what correlations lack": [(synthesis, "lacking_pairs", uncut)],
        "sparse pairs": [(copula, "sparse", copula.spread)],
        "_as_large": [(copula, "_as_large", same)],
        "roots of deviations": [(copula, "DROWNING_NOISE", 1e9)],
        "shorter rough rows": [(copula, "LEAST_MIDDLE", 1.0)],
        "known means beside pairs": [
            (model, "measured_means", lambda columns, low: (0.0, np.full(columns.count, 1e3)))
        ],
        "_leaning": [(adaptive_rounds, "_leaning", same)],
        "cells where counts crowd": [(ranks, "_crowded", lambda *_: np.zeros(0))],
        "a flat share left to ranks": [(ranks, "_MOST_FLAT", 0.0)],
        "a flat share to see ranks": [(model, "FLAT_SHARE", 0.0)],
        "ranks tell spreads": [(scales, "_RANKS_SCALE", 1e9)],
        "all of own squares": [(copula, "_OWN_SQUARES", 1.0)],
        "own squares": [(copula, "_OWN_SQUARES", 0.0)],
        "pairs as believed": [(copula, "_CLEAR", 1e9)],
        "bias of cut means": [(scales, "_CUT_BIAS", 1.0)],
        "errors that means have in common": [(scales, "_IN_COMMON", 0.0)],
        "one scale of doubt": [(scales, "_CUT_SCALE", 0.5)],
        "most loose": [(ranks, "_MOST_LOOSE", 1e9)],
        "loose first moments": [(ranks, "_LOOSE_FIRST", 4.0)],
        "flat share beside lengths": [(norms, "_FLAT_LEFT", 0.1)],
        "believed lengths": [(norms, "believed", released), (clipped, "believed", released)],
        "flattened weights": [(norms, "_flattened", same)],
        "neighbours in lengths": [(norms, "_ALIKE", 1)],
        "within the range": [(scales, "_WITHIN", 0.999)],
        "least variance": [(scales, "_LEAST_VARIANCE", 0.001)],
        "flat share of tables": [(synthesis, "_FLAT_SHARE", 0.1)],
        "few atoms": [(synthesis, "_MOST_ATOMS", 10**6)],
        "all values clear": [(spikes, "_ALL_CLEAR", 0.0)],
        "least tried": [(swapping, "LEAST_TRIED", 0.0)],
        "meeting again": [(swapping, "AGAIN", 0.0)],
        "cosines of counts": [(adaptive_rounds, "MANY_COSINES", 10**6)],
        "hold_first": [(model, "hold_first", same)],
        "hold_ranks": [(model, "hold_ranks", same)],
        "hold_shares": [(model, "hold_shares", same)],
        "hold_square": [(model, "hold_square", same)],
        "hold_pairs": [(model, "hold_pairs", same)],
        "hold_cut_moments": [
            (model, "hold_cut_moments", lambda columns, correlation, *_, **__: (columns, correlation))
        ],
        "scale_to_lengths": [(model, "scale_to_lengths", same)],
        "needed_stretch": [(model, "needed_stretch", lambda *_: model.Stretch())],
    }


def constants() -> dict[str, list[Patch]]:
    """Return what moves each number of the rooms, by its module and name; whole numbers at least by 1."""
    found = {}
    for room in ROOMS:
        for one in pkgutil.iter_modules(_module(room).__path__):
            module = _module(f"{room}.{one.name}")
            if one.name not in ("paper", "minimax", "grid", "linear_program", "candidates"):
                found |= {
                    f"{room}.{one.name}.{n} x {by}": _moved(n, v, by) for n, v in _numbers(module) for by in MOVED
                }
    return found


def _numbers(module: Any) -> list[tuple[str, float]]:
    names = [name for name in vars(module) if name.isupper() or name.strip("_").isupper()]
    own = Path(module.__file__).read_text(encoding="utf-8")
    numbers = [(name, vars(module)[name]) for name in names if re.search(rf"^(?:\w+, )*{name}\b.*=", own, re.MULTILINE)]
    return [(name, value) for name, value in numbers if type(value) in (int, float)]


def _moved(name: str, value: float, by: float) -> list[Patch]:
    """Replace a constant wherever it was imported to."""
    new = type(value)(round(value * by)) if isinstance(value, int) else value * by
    if new == value:
        new = value + (1 if by > 1 else -1)
    held = [module for key, module in sys.modules.items() if key.startswith("smoothsynth.")]
    return [(module, name, new) for module in held if vars(module).get(name) is value]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw noise from a seed."""
    rng = np.random.default_rng(seed)

    def gaussian(sigma: float) -> Callable[[list[int]], list[int]]:
        return lambda sums: [s + int(z) for s, z in zip(sums, np.rint(rng.normal(0, sigma, len(sums))), strict=True)]

    def maxima(count: int, scale: float) -> Callable[[list[int]], list[int]]:
        return lambda given: np.argsort(-(np.array(given) + rng.gumbel(0.0, scale, len(given))))[:count].tolist()

    def laplace(scale: float) -> Callable[[list[int]], list[int]]:
        return lambda sums: [
            s + int(a) - int(b)
            for s, a, b in zip(sums, *rng.geometric(1 - np.exp(-1 / scale), (2, len(sums))), strict=True)
        ]

    samplers = {"_gaussian_sampler": gaussian, "_laplace_sampler": laplace, "_maxima_sampler": maxima}
    with mock.patch.multiple(noise, **samplers, secrets=SimpleNamespace(randbelow=Random(seed).randrange)):
        yield


class Case:
    """A table, the choices that its release has of its own, and the errors of rows made of it."""

    def __init__(
        self,
        name: str,
        frame: pd.DataFrame,
        schema: ss.Schema,
        judge: Callable[[np.ndarray], Sequence[float]],
        **choices: Any,
    ) -> None:
        self.name, self._frame, self._schema, self._judge, self._choices = name, frame, schema, judge, choices

    def rows(self, seed: int, *, delta: float) -> np.ndarray:
        """Release the table and return its rows."""
        with seeded(seed):
            settings = {"epsilon": EPSILON, "delta": delta, **self._choices}
            return ss.release(self._frame, schema=self._schema, seed=seed, **settings).unit_rows()

    def errors(self, rows: np.ndarray) -> np.ndarray:
        """Return the errors of rows."""
        return np.maximum(np.array(self._judge(rows), dtype=float), 1e-6)


def _kind(name: str, rows: int, columns: int, *, label: str = "", **choices: Any) -> Case:
    real = kinds.table_of(name, rows, columns, seed=0)
    schema = ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(columns)})
    frame = pd.DataFrame(real, columns=list(schema.names))
    return Case(label or name, frame, schema, _of_numbers(real, 50 if label else 300), **choices)


def _of_numbers(real: np.ndarray, queries: int = 300) -> Callable[[np.ndarray], list[float]]:
    judge = Judge(real, queries=queries, seed=0)
    judge._small = {kind: asked[: 2 * queries] for kind, asked in judge._small.items()}
    return lambda points: [judge(points).as_row()[measure] for measure in MEASURES]


def _mixed(name: str, frame: pd.DataFrame, schema: ss.Schema, **choices: Any) -> Case:
    real = schema.to_unit(pa.Table.from_pandas(frame, preserve_index=False).to_pydict())
    judge = MixedJudge(schema, real, seed=0)

    def errors(points: np.ndarray) -> list[float]:
        return [error for error in judge(points) if not np.isnan(error)]

    return Case(name, frame, schema, errors, **choices)


def small() -> dict[str, Callable[[], Case]]:
    """Return many small tables of every kind, with budgets of their own: fast enough for many draws of many moves."""
    tiny, none = {"delta": 1e-10}, {"delta": 0.0}
    untold = {"method": ss.methods.Adaptive(tables=0)}
    numbers = {
        "skew, tables": ("skew", 10_000, 5, {}),
        "zeros, tables": ("zeros", 12_000, 4, {}),
        "ring": ("ring", 1_000, 5, tiny),
        "heavy, drowned": ("heavy", 300, 12, tiny),
        "spread, clear": ("spread", 10_000, 4, untold | {"synthetic_rows": 4_000}),
        "normal, wide": ("normal", 1_000, 24, {}),
        "curve, pure": ("curve", 3_000, 5, none),
        "skew, pure, wide": ("skew", 1_000, 20, none),
        "zeros, pure, clear": ("zeros", 20_000, 3, {"delta": 0.0, "epsilon": 4.0, "synthetic_rows": 4_000}),
    }
    found: dict[str, Callable[[], Case]] = {
        label: lambda label=label, one=one: _kind(*one[:3], label=label, **one[3]) for label, one in numbers.items()
    }
    frame, many = screen.people(3_000), screen.people(12_000)
    found["mixed, tables"] = lambda: _mixed("mixed, tables", many, screen.MIXED)
    found["mixed, tables, pure"] = lambda: _mixed("mixed, tables, pure", many, screen.MIXED, epsilon=2.0, delta=0.0)
    prior = screen.people(2_000, seed=3)
    found["mixed, prior"] = lambda: _mixed("mixed, prior", frame[:700], screen.MIXED, prior=prior)
    found["mixed"] = lambda: _mixed("mixed", frame, screen.MIXED)
    found["mixed, pure"] = lambda: _mixed("mixed, pure", frame, screen.MIXED, epsilon=2.0, delta=0.0)
    found["persons"] = lambda: _mixed("persons", frame, screen.MIXED, rows_per_person=3)
    return found | {name: lambda name=name: _fading(name) for name in fading.TABLES}


def _fading(name: str) -> Case:
    rng = np.random.default_rng(1)
    real = np.clip(fading.TABLES[name](10_000, rng), -1.0, 1.0)
    judges = [fading.Kernels(real, columns=k, questions=200, rng=rng) for k in fading.ERRORS.values()]
    frame = pd.DataFrame(real, columns=list(fading.SCHEMA.names))
    return Case(name, frame, fading.SCHEMA, lambda points: [judge(points) for judge in judges])


def _learning(folder: Path, name: str) -> Case:
    private, task = learning.read(folder, name)
    judge = learning.Judge(task)

    def errors(points: np.ndarray) -> list[float]:
        boosting, logistic, coefficients, _, subgroups, two_way = judge(points)
        return [1.0 - boosting, 1.0 - logistic, coefficients, subgroups, two_way]

    return Case(name, private, task.schema, errors)


def cases(given: argparse.Namespace) -> list[Case]:
    """Return the tables that were asked for."""
    if given.small:
        return [make() for name, make in small().items() if not given.only or name in given.only]
    made: dict[str, Callable[[], Case]] = {name: lambda name=name: _kind(name, *SIZES[name]) for name in SIZES}
    made |= {name: lambda name=name: _fading(name) for name in fading.TABLES}
    folder, names = there(given.data, [name for name in learning.TARGETS if not given.only or name in given.only])
    made |= {name: lambda name=name: _learning(folder, name) for name in names}
    return [make() for name, make in made.items() if not given.only or name in given.only]


class Trial:
    """Cases, and what the method as it is makes of them in so many draws."""

    def __init__(self, found: Sequence[Case], *, rounds: int, delta: float) -> None:
        self.cases, self._rounds, self._delta = found, rounds, delta
        self._base = [[self._drawn(case, seed) for seed in range(rounds)] for case in found]

    def _drawn(self, case: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rows = case.rows(seed, delta=self._delta)
        return rows, case.errors(rows)

    def logs(self, patches: Sequence[Patch]) -> np.ndarray:
        """Return the log of the error over that of the method as it is, (cases, draws), with some names replaced.

        A case of which the first draw has the same rows is not drawn again.
        """
        found = np.zeros((len(self.cases), self._rounds))
        with screen.replaced(patches):
            for place, case in enumerate(self.cases):
                for seed, (rows, errors) in enumerate(self._base[place]):
                    now = case.rows(seed, delta=self._delta)
                    if np.array_equal(now, rows):
                        if seed == 0:
                            break
                        continue
                    found[place, seed] = np.mean(np.log(case.errors(now) / errors))
        return found


def in_words(logs: np.ndarray) -> list[str]:
    """Return the geometric mean with its standard error, that of chance in the draws, or over cases if there is one draw."""
    means = logs.mean(axis=1)
    if logs.shape[1] > 1:
        error = float(np.sqrt(np.sum(logs.var(axis=1, ddof=1) / logs.shape[1]))) / len(logs)
    else:
        error = float(np.std(means, ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0
    return [f"{np.exp(means.mean()):.3f} +- {error:.3f}", *(f"{np.exp(one):.2f}" for one in means)]


def screened(wanted: Sequence[str], output: Path | None) -> None:
    """Say of each constant, moved either way, which small case changes first, if any does."""
    moves = {name: one for name, one in constants().items() if any(part in name for part in wanted)}
    files = {module.__file__ for patches in moves.values() for module, *_ in patches}
    trial = screen.Screen(seeded, sorted(files))
    for name, patches in moves.items():
        planned = name.startswith("methods.")
        where = trial.plan(patches) if planned else trial.moved(name.split(" x ")[0].rsplit(".", 1)[1], patches)
        line = f"{name} | {where}"
        print(line, flush=True)
        if output is not None:
            with output.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all, and print a line for each as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", help="parts to leave out in turn [all]")
    parser.add_argument("--constants", nargs="*", help="constants to move whose names hold one of these [all]")
    parser.add_argument("--small", action="store_true", help="many small tables of every kind instead")
    parser.add_argument("--screen", action="store_true", help="say where constants change anything at all")
    parser.add_argument("--only", nargs="+", help="tables")
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--data", help="folder with the data sets [SMOOTHSYNTH_DATA or ../shared/data]")
    parser.add_argument("--output", type=Path, help="a file for the lines")
    given = parser.parse_args(arguments)
    asked: dict[str, list[Patch]] = {}
    if given.parts is not None or given.constants is None:
        asked |= {name: one for name, one in parts().items() if not given.parts or name in given.parts}
    if given.constants is not None:
        wanted = given.constants or [""]
        asked |= {name: one for name, one in constants().items() if any(part in name for part in wanted)}
    if given.screen:
        screened(given.constants or [""], given.output)
        return
    found, console = cases(given), Console(width=200)
    trial = Trial(found, rounds=given.rounds, delta=given.delta)
    shown = Table("left out or moved", "all", *(case.name for case in found))
    for name, patches in asked.items():
        line = in_words(trial.logs(patches))
        shown.add_row(name, *line)
        if given.output is not None:
            with given.output.open("a", encoding="utf-8") as file:
                file.write(" | ".join([name, *line]) + "\n")
    console.print(shown)
