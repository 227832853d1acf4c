"""Small seeded releases of every kind that the constants of the method can show in: `python -m benchmarks ablation --screen`.

Each case plans, releases, asks and samples, and gives one hash of all: plans with their predicted errors, noisy integers,
how the fit ended, rows, sampled rows, and answers with their intervals. A constant that can be moved without a change of
any hash decides nothing in these cases. Lines that no case reaches are known from a trace, so that a constant is moved
only where a line that names it runs.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
import threading
import warnings
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pandas as pd

import smoothsynth as ss
from benchmarks.accuracy import fading, hierarchy, kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

MOST_TRIED = 8
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def _hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def made(
    data: Any, schema: ss.Schema, *, ask: tuple[str, ...] = (), sample: tuple[dict[str, Any], ...] = (), **choices: Any
) -> str:
    """Release a table, ask and sample, and return a hash of all that came out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = ss.release(data, schema=schema, seed=1, **choices)
        taken = {k: v for k, v in choices.items() if k not in ("prior", "keep", "key")}
        private = any("private" in str(column.facts()) for column in schema.columns.values())
        planned = None if private else ss.plan(schema, len(data), **taken).as_dict()
        found = [release.table.to_pydict(), [m.integers for m in release.moments], release.receipt.outcome, planned]
        found += [[charge.as_dict() for charge in release.receipt.charges]]
        found += [release.sample(seed=2, **one).to_pydict() for one in sample]
        found += [release.answer(question).as_dict() for question in ask]
    return _hash(*found)


def _numbers(columns: int) -> ss.Schema:
    return ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(columns)})


def _frame(points: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(points, columns=[f"c{i}" for i in range(points.shape[1])])


def _kind(name: str, rows: int, columns: int, **choices: Any) -> str:
    settings = {**BUDGET, **choices}
    return made(_frame(kinds.table_of(name, rows, columns, seed=0)), _numbers(columns), **settings)


MIXED = ss.Schema(
    {
        "sex": ss.Category(["f", "m"]),
        "age": ss.Integer(0, 99, nullable=True),
        "town": ss.Category(list("abcdefgh"), nullable=True),
        "well": ss.Boolean(nullable=True),
        "paid": ss.Number(1, 1e6, transform="log"),
        "hours": ss.Integer(0, 80),
        "rare": ss.Number(0, 10),
    }
)
ASK = (
    "avg(age)",
    "quantile(paid, 0.5)",
    "corr(hours, rare)",
    "avg(hours where sex = 'f')",
    "avg(town = 'b' and age > 40)",
    "avg(exp(-power((hours - 40)/10, 2)))",
)


def people(rows: int, seed: int = 0) -> pd.DataFrame:
    """Make columns of every kind: spikes at 0, 40 and a bound, missing cells, levels that are no level, dependence."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=rows)
    age = np.clip(np.rint(45 + 18 * latent + 5 * rng.normal(size=rows)), 0, 99)
    hours = np.where(rng.random(rows) < 0.5, 40, np.clip(np.rint(38 + 12 * rng.normal(size=rows)), 0, 80))
    hours = np.where(age > 65, 0, hours)
    town = np.array(list("abcdefghh"))[np.minimum((rng.exponential(1.5, rows) + (latent > 1)).astype(int), 8)]
    frame = pd.DataFrame(
        {
            "sex": np.where(rng.random(rows) < 0.45 + 0.2 * (hours > 39), "m", "f"),
            "age": pd.array(age, dtype="Int64"),
            "town": pd.array(town, dtype="object"),
            "well": pd.array(age + 10 * rng.normal(size=rows) < 60, dtype="boolean"),
            "paid": np.clip(np.exp(8 + 0.6 * latent + rng.normal(size=rows)), 1, 1e6),
            "hours": hours.astype(int),
            "rare": np.where(rng.random(rows) < 0.8, 0.0, np.clip(rng.exponential(2.0, rows), 0, 10)),
        }
    )
    frame.loc[rng.random(rows) < 0.12, "age"] = pd.NA
    frame.loc[rng.random(rows) < 0.08, "town"] = None
    frame.loc[(rng.random(rows) < 0.1) & (frame["sex"] == "m"), "well"] = pd.NA
    return frame


def _persons() -> str:
    return made(people(4_000), MIXED, **BUDGET, rows_per_person=3, ask=("avg(age)",))


def plans() -> Iterator[str]:
    """Yield what is planned for tables of all sizes and kinds, under many budgets."""
    columns = {1: _numbers(1), 2: _numbers(2), 5: _numbers(5), 20: _numbers(20), 60: _numbers(60)}
    codes = hierarchy.made_up(np.random.default_rng(0), 1.2, (6, 5, 4, 5)).column()
    schemas = [*columns.values(), MIXED, ss.Schema({"code": codes}), ss.Schema({"code": codes, **MIXED.columns})]
    schemas += [ss.Schema({name: MIXED.columns[name]}) for name in ("sex", "hours", "age")]
    schemas += [ss.Schema({"sex": MIXED.columns["sex"], "town": MIXED.columns["town"]})]
    methods = [ss.methods.Adaptive(focus=focus) for focus in ("balanced", "queries", "marginals", "correlations")]
    methods += [ss.methods.Adaptive(smoothness=2), ss.methods.Adaptive(tables=3), ss.methods.Adaptive(tables=0)]
    methods += [ss.methods.Adaptive(noise="gaussian")]
    for schema in schemas:
        for rows in (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000):
            for epsilon in (0.3, 1.0, 5.0):
                for delta in (0.0, 1e-6):
                    for method in methods if rows in (1_000, 30_000) else methods[:1]:
                        if method.noise and not delta:
                            continue
                        yield _planned(schema, rows, epsilon=epsilon, delta=delta, method=method)


def _planned(schema: ss.Schema, rows: int, **choices: Any) -> str:
    try:
        planned = ss.plan(schema, rows, **choices)
    except ss.errors.SmoothsynthError as error:
        return str(error)
    tables = [getattr(m.features, "tables", None) for m in planned.design.measurements]
    return re.sub(r" at 0x\w+", "", repr(planned.design)) + repr(tables)


def _pure() -> str:
    where = {"where": {"sex": "f", "age": (30, 60)}, "rows": 60}
    return made(people(6_000), MIXED, epsilon=2.0, ask=ASK[:4], sample=(where,))


def _mixed() -> str:
    where = {"where": {"sex": "f", "age": (30, 60)}, "rows": 60}
    return made(people(3_000), MIXED, **BUDGET, ask=ASK, sample=({"rows": 500}, where))


def _target() -> str:
    return made(people(3_000), MIXED, **BUDGET, method=ss.methods.Adaptive(target="well", tables=5))


def _large() -> str:
    return made(people(40_000), MIXED, **BUDGET, synthetic_rows=1_000)


def _stages(rows: int) -> str:
    points = np.clip(fading.TABLES["clusters"](rows, np.random.default_rng(1)), -1.0, 1.0)
    return made(pd.DataFrame(points, columns=list(fading.SCHEMA.names)), fading.SCHEMA, **BUDGET)


def _levels() -> str:
    codes = hierarchy.made_up(np.random.default_rng(0), 1.2, (6, 5, 4, 5))
    rng = np.random.default_rng(1)
    drawn = codes.drawn(rng, 8_000)
    near = np.clip(codes.chapters[drawn] / 6 + 0.1 * rng.normal(size=8_000), 0, 1)
    frame = pd.DataFrame({"code": codes.names[drawn], "x": near})
    return made(frame, ss.Schema({"code": codes.column(), "x": ss.Number(0, 1)}), **BUDGET, synthetic_rows=1_000)


def _many_levels(**budget: float) -> str:
    codes = hierarchy.made_up(np.random.default_rng(0), 1.2, (6, 5, 4, 5))
    frame = pd.DataFrame({"code": codes.names[codes.drawn(np.random.default_rng(1), 5_000)]})
    return made(frame, ss.Schema({"code": codes.column()}), **budget)


def _flat_levels() -> str:
    rng = np.random.default_rng(0)
    drawn = np.minimum(rng.geometric(0.03, 1_500), 120) - 1
    names = [f"l{i:03}" for i in range(120)]
    frame = pd.DataFrame(
        {"level": np.array(names)[drawn], "x": np.clip(drawn / 120 + 0.1 * rng.normal(size=1_500), 0, 1)}
    )
    return made(frame, ss.Schema({"level": ss.Category(names), "x": ss.Number(0, 1)}), **BUDGET)


def _rules() -> str:
    frame = people(2_000)
    frame["rest"] = 168 - frame["hours"]
    frame["sleep"] = np.minimum(50 + frame["hours"] % 7, frame["rest"])
    frame = frame[~((frame["sex"] == "f") & (frame["town"] == "a") & (frame["rare"] >= 5))]
    rules = ["hours + rest = 168", "sleep <= rest", f"sum(hours) = {frame['hours'].sum()}", "mean(sleep^2) = 2700"]
    rules += ["sex = 'f' and town = 'a' implies rare < 5", "well = true implies age < 90"]
    well, age = frame["well"].fillna(value=False), frame["age"].fillna(value=0)
    frame = frame[~(well & (age >= 90))]
    rules[2] = f"sum(hours) = {frame['hours'].sum()}"
    schema = ss.Schema({**MIXED.columns, "rest": ss.Integer(80, 170), "sleep": ss.Integer(0, 80)}, rules)
    return made(frame, schema, **BUDGET, sample=({"rows": 100},))


def _prior() -> str:
    return made(people(700), MIXED, epsilon=0.4, delta=1e-6, prior=people(2_000, seed=3))


def _weighed(fit: str, **budget: float) -> str:
    method = ss.methods.Adaptive(candidates="hypercube", candidate_count=1_500, fit=fit)
    return made(
        people(1_000)[["sex", "age", "hours", "rare"]],
        ss.Schema({k: MIXED.columns[k] for k in ("sex", "age", "hours", "rare")}),
        method=method,
        **budget,
    )


def _private_bounds() -> str:
    frame = people(5_000)[["age", "paid", "town"]]
    schema = ss.Schema(
        {
            "age": ss.Integer("private", "private", nullable=True),
            "paid": ss.Number(0, "private"),
            "town": ss.Category("private", nullable=True),
        }
    )
    return made(frame, schema, epsilon=4.0, delta=1e-6)


def _one(rows: int, **budget: float) -> str:
    return made(people(rows)[["hours"]], ss.Schema({"hours": ss.Integer(0, 80)}), **budget)


def _focus(focus: str, **budget: float) -> str:
    method = ss.methods.Adaptive(focus=focus, smoothness=2, tables=0)
    return made(_frame(kinds.table_of("skew", 3_000, 4, seed=0)), _numbers(4), method=method, **budget)


def cases() -> dict[str, Callable[[], str]]:
    """Return what each case does, the fast ones first."""
    pure = {"epsilon": 1.0}
    return {
        "numbers": lambda: _kind("skew", 2_000, 6),
        "pairs and lengths": lambda: _kind("ring", 800, 5, delta=1e-10),
        "mixed": _mixed,
        "pure": _pure,
        "drowned": lambda: _kind("heavy", 300, 12),
        "pure and clear": lambda: _kind("zeros", 20_000, 3, epsilon=4.0, delta=0.0, synthetic_rows=800),
        "target": _target,
        "clear lengths": lambda: _kind("ring", 60_000, 4, method=ss.methods.Adaptive(tables=0), synthetic_rows=800),
        "prior": _prior,
        "private bounds and levels": _private_bounds,
        "pure numbers": lambda: _kind("curve", 3_000, 5, epsilon=1.0, delta=0.0),
        "wide": lambda: _kind("spread", 1_500, 32),
        "levels alone": lambda: _many_levels(**BUDGET),
        "levels alone, pure": lambda: _many_levels(**pure),
        "focus": lambda: _focus("queries", **BUDGET),
        "pure focus": lambda: _focus("correlations", epsilon=3.0),
        "one column": lambda: _one(2_000, **BUDGET),
        "one column, pure": lambda: _one(2_000, **pure),
        "levels": _levels,
        "120 levels": _flat_levels,
        "persons": _persons,
        "weighed": lambda: _weighed("maximum entropy", **BUDGET),
        "weighed, pure": lambda: _weighed("linear program", **pure),
        "wide, pure": lambda: _kind("normal", 1_500, 32, delta=0.0),
        "rules": _rules,
        "large": _large,
        "stages": lambda: _stages(20_000),
        "more stages": lambda: _stages(70_000),
    }


class Reached:
    """Which lines of the rooms ran."""

    def __init__(self, files: set[str]) -> None:
        self._files, self.lines = files, set[tuple[str, int]]()

    def __enter__(self) -> Reached:
        threading.settrace(self._called)
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def _called(self, frame: Any, event: str, _: Any) -> Any:
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


def named(files: Iterable[str]) -> dict[str, dict[tuple[str, int], None]]:
    """Return the lines of functions that name each constant."""
    found: dict[str, dict[tuple[str, int], None]] = {}
    for file in files:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda))]
        for statement in (s for f in functions for s in ast.walk(f)):
            if isinstance(statement, ast.Name) and statement.id.strip("_").isupper():
                found.setdefault(statement.id, {})[file, statement.lineno] = None
    return found


@contextmanager
def replaced(patches: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replace names of modules."""
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(mock.patch.object(*patch))
        yield


class Screen:
    """What each case gives, and which constants are named where it goes."""

    def __init__(self, seeded: Callable[[int], AbstractContextManager[None]], files: Sequence[str]) -> None:
        self._seeded, self._cases, lines = seeded, cases(), named(files)
        self._hashes, self._reached, self._plans = {}, {}, list(plans())
        for name, case in self._cases.items():
            with Reached(set(files)) as reached, seeded(0):
                self._hashes[name] = case()
            self._reached[name] = {constant for constant, at in lines.items() if reached.lines.intersection(at)}

    def plan(self, patches: Sequence[tuple[Any, str, Any]]) -> str:
        """Say which plan changes first once names are replaced."""
        with replaced(patches):
            for number, (now, then) in enumerate(zip(plans(), self._plans, strict=True)):
                if now != then:
                    return f"plan {number}"
        return f"nothing in {len(self._plans)} plans"

    def moved(self, constant: str, patches: Sequence[tuple[Any, str, Any]]) -> str:
        """Say in which case something changes first once names are replaced; which none reaches, and what changes nothing.

        Of the cases that reach a constant the first few are tried.
        """
        reached = [name for name in self._cases if constant in self._reached[name]][:MOST_TRIED]
        for name in reached:
            if self._other(name, patches):
                return name
        return f"nothing in {len(reached)} cases" if reached else "not reached"

    def _other(self, name: str, patches: Sequence[tuple[Any, str, Any]]) -> bool:
        with replaced(patches), self._seeded(0):
            try:
                return self._cases[name]() != self._hashes[name]
            except Exception:
                return True
