"""How often an interval holds the private answer, and how wide it is beside the error.

    python -m benchmarks coverage [--data DIR] [--only wdbc ctg pks crm gaussian mixture steps ring skewed mixed adult]
                                  [--rounds 20] [--queries 1000] [--confidence 0.95] [--quick] [--all] [--budgets 1]

Smooth questions on one to three columns: Gaussian kernels of width 0.25, 0.5 and 1 of the unit cube's half side, tanh
ridges, polynomials of degree up to 3. A release is asked a tenth of them, each question two releases (all of them with
--all). Counts in rectangles, correlations, quantiles, and means, correlations and medians of the rows in which another column
is above a quantile are listed on lines of their own. The constants of answer/model_interval.py were
chosen on the four data sets and with `mixture`, `gaussian`, `steps` and `ring` in sight; `skewed` was not looked at.
`mixed` is the table of accuracy/mixed.py: shares of levels and of missing values, functions of a column with missing
values, group means and medians, shares of two levels together, and functions of a category with one or two numbers; no
constant was changed for it. `adult` is a part of that table: shares of one level and of two together, most of them rare.

Questions to one release share its noise and fail together: the standard error is that of a mean over releases, and the last
column is the lowest coverage of one release.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

import smoothsynth as ss
from benchmarks.accuracy.mixed import CATEGORIES, NUMBERS, SCHEMA, people
from benchmarks.results import Console
from smoothsynth.answer.envelopes import between
from smoothsynth.answer.evaluate import exact
from smoothsynth.answer.language import parse
from smoothsynth.answer.query import Query
from smoothsynth.paper.reproduction import available, data_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Points = NDArray[np.float64]

REAL = ("wdbc", "ctg", "pks", "crm")
MIXED, MIXED_ROWS = "mixed", 5_000
ADULT, ADULT_ROWS = "adult", 8_000
BUDGETS = ((1.0, 1e-10), (1.0, 0.0), (4.0, 1e-6))
WIDTHS = (0.25, 0.5, 1.0)
COUNTS, CORRELATIONS, QUANTILES = 12, 8, 6
# A release is asked one in so many of the questions.
SHARE = 10


@dataclass(frozen=True, slots=True, eq=False)
class Private:
    """A table that stands for a private one: its schema and its columns, in their own units."""

    name: str
    schema: ss.Schema
    columns: Mapping[str, Points]


@dataclass(frozen=True, slots=True)
class Asking:
    """One question and what became of it: the kind, the private answer, the estimate and the number of the release."""

    kind: str
    truth: float
    estimate: ss.Estimate
    release: int = 0

    @property
    def covered(self) -> bool:
        """Whether the interval holds the private answer."""
        return self.estimate.low <= self.truth <= self.estimate.high

    @property
    def error(self) -> float:
        """How far the synthetic answer is from the private one."""
        return abs(self.truth - self.estimate.value)


def made_up(name: str, rng: np.random.Generator) -> Private:
    """Make a table: correlated Gaussians, clusters, few values, a ring, or skewed columns with far bounds."""
    values = MADE_UP[name](rng)
    d = values.shape[1]
    names = [f"x{i}" for i in range(d)]
    clipped = np.clip(values, -1.0, 1.0)
    schema = ss.Schema({one: ss.Number(-1.0, 1.0) for one in names})
    return Private(name, schema, {one: clipped[:, i] for i, one in enumerate(names)})


def _gaussian(rng: np.random.Generator) -> Points:
    mixing = rng.normal(size=(12, 12)) / np.sqrt(12)
    return 0.25 * rng.normal(size=(20_000, 12)) @ (mixing + 0.3)


def _mixture(rng: np.random.Generator) -> Points:
    centres = rng.uniform(-0.7, 0.7, (3, 8))
    return centres[rng.integers(0, 3, 5_000)] + 0.12 * rng.normal(size=(5_000, 8))


def _steps(rng: np.random.Generator) -> Points:
    hidden = rng.normal(size=(100_000, 1))
    return np.round(4 * np.tanh(0.7 * hidden + 0.8 * rng.normal(size=(100_000, 6)))) / 4.0


def _ring(rng: np.random.Generator) -> Points:
    angle = rng.uniform(0, 2 * np.pi, 10_000)
    curve = 0.6 * np.column_stack([np.cos(angle), np.sin(angle), np.cos(2 * angle)])
    return np.column_stack([curve, 0.3 * rng.normal(size=(10_000, 2))]) + 0.08 * rng.normal(size=(10_000, 5))


def _skewed(rng: np.random.Generator) -> Points:
    common = rng.normal(size=(3_000, 1))
    return 2.0 * np.exp(0.6 * common + 0.7 * rng.normal(size=(3_000, 10))) / 20.0 - 1.0


MADE_UP = {"gaussian": _gaussian, "mixture": _mixture, "steps": _steps, "ring": _ring, "skewed": _skewed}


def smooth_question(
    private: Private, rng: np.random.Generator
) -> tuple[list[str], Callable[[Mapping[str, Points]], Points]]:
    """Draw a kernel, a ridge or a polynomial of one to three columns, in units of the cube."""
    count = int(rng.integers(1, min(3, len(private.schema.names)) + 1))
    names = [private.schema.names[i] for i in rng.choice(len(private.schema.names), count, replace=False)]
    middles = np.array([(c.lower + c.upper) / 2 for c in (private.schema.columns[n] for n in names)])
    halves = np.array([(c.upper - c.lower) / 2 for c in (private.schema.columns[n] for n in names)])
    shape = (_kernel, _ridge, _polynomial)[int(rng.integers(0, 3))](count, rng)

    def question(table: Mapping[str, Points]) -> Points:
        return shape((np.stack([table[n] for n in names], axis=1) - middles) / halves)

    return names, question


def _kernel(count: int, rng: np.random.Generator) -> Callable[[Points], Points]:
    width, centre = rng.choice(WIDTHS), rng.uniform(-1, 1, count)
    return lambda x: np.exp(-np.sum((x - centre) ** 2, axis=1) / (2 * width**2))


def _ridge(count: int, rng: np.random.Generator) -> Callable[[Points], Points]:
    direction = rng.normal(size=count)
    direction, shift = 2.0 * direction / np.linalg.norm(direction), rng.normal()
    return lambda x: np.tanh(x @ direction + shift)


def _polynomial(count: int, rng: np.random.Generator) -> Callable[[Points], Points]:
    products = [rng.integers(0, count, size=int(rng.integers(1, 4))) for _ in range(4)]
    weights = rng.uniform(-1, 1, 4)
    weights /= np.abs(weights).sum()
    return lambda x: sum(a * np.prod(x[:, p], axis=1) for a, p in zip(weights, products, strict=True))


def ask_smooth(release: ss.Release, private: Private, rng: np.random.Generator, confidence: float) -> Asking:
    names, question = smooth_question(private, rng)
    truth = float(np.mean(question({n: private.columns[n] for n in names})))
    return Asking("smooth", truth, release.answer(question, columns=names, confidence=confidence))


def ask_count(release: ss.Release, private: Private, rng: np.random.Generator, confidence: float) -> Asking:
    """Count a rectangle of one or two columns whose sides lie between quantiles of the synthetic rows."""
    names = rng.choice(private.schema.names, size=int(rng.integers(1, 3)), replace=False)
    parts = []
    for name in names:
        ends = np.sort(np.quantile(release.table[name].to_numpy(), rng.uniform(0, 1, 2)))
        parts.append(f'"{name}" >= {_plain(ends[0])} and "{name}" < {_plain(ends[1])}')
    tree = parse(" and ".join(parts))
    query = Query.of(release, list(names))
    truth = float(np.mean(exact(tree, private.columns)))
    return Asking("count", truth, between(query, tree, confidence=confidence, truth=True))


def ask_correlation(
    release: ss.Release, private: Private, rng: np.random.Generator, confidence: float
) -> Asking | None:
    a, b = rng.choice(private.schema.names, size=2, replace=False)
    if min(np.std(private.columns[n]) for n in (a, b)) == 0 or min(release.to_pandas()[[a, b]].std()) == 0:
        return None
    truth = float(np.corrcoef(private.columns[a], private.columns[b])[0, 1])
    return Asking("correlation", truth, release.correlation(a, b, confidence=confidence))


def ask_quantile(release: ss.Release, private: Private, rng: np.random.Generator, confidence: float) -> Asking:
    """Ask for a quantile between the first and the last tenth of a column."""
    name, q = str(rng.choice(private.schema.names)), float(rng.uniform(0.1, 0.9))
    estimate = release.answer(f'quantile("{name}", {q!r})', confidence=confidence)
    return Asking("quantile", float(np.quantile(private.columns[name], q)), estimate)


def ask_where(
    release: ss.Release, private: Private, rng: np.random.Generator, confidence: float, *, of: str
) -> Asking | None:
    """Ask for a mean, a correlation or a median of the rows in which another column is above a quantile."""
    a, b, c = (str(name) for name in rng.choice(private.schema.names, size=3, replace=False))
    above = float(np.quantile(release.table[c].to_numpy(), rng.uniform(0.1, 0.7)))
    written = {"avg": f'"{a}"', "corr": f'"{a}", "{b}"', "median": f'"{a}"'}[of]
    inside = private.columns[c] > float(f"{above:.9g}")
    truths = {"avg": np.mean, "median": np.median, "corr": lambda x: np.corrcoef(x, private.columns[b][inside])[0, 1]}
    try:
        text = f'{of}({written} where "{c}" > {_plain(above)})'
        return Asking(
            f"{of} where", float(truths[of](private.columns[a][inside])), release.answer(text, confidence=confidence)
        )
    except ss.PlanError:
        return None


def ask_share(release: ss.Release, private: Private, rng: np.random.Generator, confidence: float) -> Asking:
    """Ask for the share of some levels, of true, or of missing values."""
    name = str(rng.choice(["region", "education", "sex", "smoker", "bmi"]))
    values = private.columns[name]
    if name == "bmi":
        text, truth = "avg(bmi is null)", np.isnan(values)
    elif name == "smoker":
        text, truth = "avg(smoker = true)", values
    else:
        some = rng.choice(CATEGORIES[name], size=int(rng.integers(1, len(CATEGORIES[name]))), replace=False)
        listed = ", ".join(f"'{level}'" for level in some)
        text, truth = f"avg({name} in ({listed}))", np.isin(values, some)
    return Asking("share", float(np.mean(truth)), release.answer(text, confidence=confidence))


def ask_level(release: ss.Release, private: Private, rng: np.random.Generator, confidence: float) -> Asking:
    """Ask for the share of one level of some category."""
    return _ask_levels("share", release, private, _some_levels(private, rng, 1), confidence)


def ask_two_levels(release: ss.Release, private: Private, rng: np.random.Generator, confidence: float) -> Asking:
    """Ask for the share of the rows that have a level of one category and a level of another."""
    return _ask_levels("two levels", release, private, _some_levels(private, rng, 2), confidence)


def _some_levels(private: Private, rng: np.random.Generator, count: int) -> dict[str, str]:
    columns = private.schema.columns
    names = rng.choice([name for name in columns if isinstance(columns[name], ss.Category)], count, replace=False)
    return {str(name): str(rng.choice(list(columns[name].levels))) for name in names}


def _ask_levels(
    kind: str, release: ss.Release, private: Private, levels: Mapping[str, str], confidence: float
) -> Asking:
    truth = np.mean(np.all([private.columns[name] == level for name, level in levels.items()], axis=0))
    text = " and ".join(f"\"{name}\" = '{level}'" for name, level in levels.items())
    return Asking(kind, float(truth), release.answer(f"avg({text})", confidence=confidence))


def ask_group(release: ss.Release, private: Private, rng: np.random.Generator, confidence: float) -> Asking | None:
    """Ask for the mean of a number in a group, if there are synthetic rows of it."""
    name, number = str(rng.choice(list(CATEGORIES))), str(rng.choice(list(NUMBERS)))
    level = CATEGORIES[name][int(rng.integers(len(CATEGORIES[name])))]
    inside = (private.columns[name] == level) & ~np.isnan(private.columns[number])
    values = np.log(private.columns[number]) if number == "income" else private.columns[number]
    what = "ln(income)" if number == "income" else number
    text = f"avg({what} where {name} = '{level}')"
    try:
        estimate = release.answer(text, confidence=confidence)
    except ss.PlanError:
        return None
    return Asking("group mean", float(np.mean(values[inside])), estimate)


def ask_group_median(
    release: ss.Release, private: Private, rng: np.random.Generator, confidence: float
) -> Asking | None:
    """Ask for the median of a number in a group, if there are synthetic rows of it."""
    name, number = str(rng.choice(list(CATEGORIES))), str(rng.choice(list(NUMBERS)))
    groups = release.answer(f"median({number}) group by {name}", confidence=confidence)
    level = CATEGORIES[name][int(rng.integers(len(CATEGORIES[name])))]
    if (level,) not in groups.estimates:
        return None
    inside = (private.columns[name] == level) & ~np.isnan(private.columns[number])
    return Asking("group median", float(np.median(private.columns[number][inside])), groups[level])


def ask_missing(release: ss.Release, private: Private, rng: np.random.Generator, confidence: float) -> Asking:
    """Ask for the mean of a smooth function of a column where it has a value."""
    shape = (_kernel, _ridge, _polynomial)[int(rng.integers(0, 3))](1, rng)

    def question(table: Mapping[str, Points]) -> Points:
        return shape(_in_cube(table, ["bmi"]))

    included = ~np.isnan(private.columns["bmi"])
    truth = float(np.mean(question({"bmi": private.columns["bmi"][included]})))
    return Asking("missing values", truth, release.answer(question, columns=["bmi"], confidence=confidence))


def ask_several(release: ss.Release, private: Private, rng: np.random.Generator, confidence: float) -> Asking:
    """Ask for a smooth function of one or two numbers, other weights for every level of a category."""
    name = str(rng.choice(["region", "education", "sex"]))
    names = [str(n) for n in rng.choice(list(NUMBERS), size=int(rng.integers(1, 3)), replace=False)]
    shape = (_kernel, _ridge, _polynomial)[int(rng.integers(0, 3))](len(names), rng)
    weights = dict(zip(CATEGORIES[name], rng.uniform(-1, 1, len(CATEGORIES[name])), strict=True))

    def question(table: Mapping[str, Points]) -> Points:
        return shape(_in_cube(table, names)) * np.array([weights[level] for level in table[name]])

    included = ~np.any([np.isnan(private.columns[n]) for n in names], axis=0)
    truth = float(np.mean(question({n: private.columns[n][included] for n in (name, *names)})))
    return Asking("several", truth, release.answer(question, columns=[name, *names], confidence=confidence))


def _in_cube(table: Mapping[str, Points], names: Sequence[str]) -> Points:
    columns = []
    for name in names:
        low, high = NUMBERS[name]
        values = np.log(table[name]) if name == "income" else table[name]
        columns.append(2.0 * (values - low) / (high - low) - 1.0)
    return np.stack(columns, axis=1)


OF_MIXED = (ask_share, ask_group, ask_missing, ask_several, ask_two_levels, ask_group_median)
OF_TABLES = {MIXED: OF_MIXED, ADULT: (ask_level, ask_two_levels)}


def _plain(number: float) -> str:
    text = f"{abs(number):.9g}"
    return f"(-{text})" if number < 0 else text


def run(
    private: Private, budget: tuple[float, float], *, rounds: int, queries: int, confidence: float, share: int = SHARE
) -> list[Asking]:
    """Make releases and ask each of them its share of the questions."""
    found: list[Asking] = []
    for number in range(rounds):
        epsilon, delta = budget
        release = ss.release(_table(private), schema=private.schema, epsilon=epsilon, delta=delta, seed=number)
        mine = range(number % share, queries, share)
        askings = _ask_all(release, private, number, mine, queries=queries, confidence=confidence)
        found += [replace(asking, release=number) for asking in askings if asking]
    return found


def _ask_all(
    release: ss.Release, private: Private, number: int, mine: range, *, queries: int, confidence: float
) -> Iterator[Asking | None]:
    """Ask one release its questions, each of a kind that its table has."""
    kinds = OF_TABLES.get(private.name, (ask_smooth,))
    for place, q in enumerate(mine):
        yield kinds[place % len(kinds)](release, private, _numbered(private, q), confidence)
    if private.name in OF_TABLES:
        return
    rng, few = _numbered(private, queries + number), min(len(mine), COUNTS)
    for _ in range(few):
        yield ask_count(release, private, rng, confidence)
    for _ in range(min(few, CORRELATIONS)):
        yield ask_correlation(release, private, rng, confidence)
    for _ in range(min(few, QUANTILES)):
        yield ask_quantile(release, private, rng, confidence)
        for of in ("avg", "corr", "median"):
            yield ask_where(release, private, rng, confidence, of=of)


def _numbered(private: Private, number: int) -> np.random.Generator:
    """Return the generator of one question: the same question for every release."""
    return np.random.default_rng([number, *private.name.encode()])


def line_of(askings: Sequence[Asking]) -> dict[str, float]:
    """Return the figures of some questions: coverage and its standard error, the two medians and their ratio."""
    releases = [[a for a in askings if a.release == number] for number in {a.release for a in askings}]
    coverage = float(np.mean([a.covered for a in askings]))
    # Sums of what is above or below the mean, release by release: a cluster-robust standard error.
    sums = [sum(a.covered - coverage for a in own) for own in releases]
    halves = np.array([a.estimate.half_width for a in askings])
    errors = np.array([a.error for a in askings])
    worst_case = np.mean([a.estimate.unseen_is == "bounded" for a in askings])
    middle = float(np.median(errors))
    return {
        "coverage": coverage,
        "standard_error": math.sqrt(sum(one**2 for one in sums)) / len(askings),
        "lowest": min(float(np.mean([a.covered for a in own])) for own in releases),
        "half_width": float(np.median(halves)),
        "error": middle,
        "ratio": float(np.median(halves)) / middle if middle else np.inf,
        "bounded": float(worst_case),
    }


def _table(private: Private) -> object:
    import pyarrow

    return pyarrow.table(dict(private.columns))


def _privates(condition: argparse.Namespace) -> list[Private]:
    names = condition.only
    real, missing = available(data_folder(condition.data), tuple(n for n in names if n in REAL))
    for name in missing:
        print(f"skipped: {name} is not in {data_folder(condition.data)}")
    made = [made_up(n, np.random.default_rng(11)) for n in names if n not in (*REAL, *OF_TABLES)]
    if MIXED in names:
        made.append(mixed(np.random.default_rng(11)))
    if ADULT in names and (data_folder(condition.data) / "adult.toml").is_file():
        made.append(adult(data_folder(condition.data), np.random.default_rng(11)))
    return [Private(d.name, d.schema, d.schema.from_unit(d.points)) for d in real] + made


def mixed(rng: np.random.Generator) -> Private:
    """Make the table with categories and missing values."""
    return Private(MIXED, SCHEMA, people(MIXED_ROWS, rng))


def adult(folder: Path, rng: np.random.Generator) -> Private:
    """Return some rows of `adult`."""
    import pandas as pd

    rows = pd.read_csv(folder / "adult.csv.gz").sample(ADULT_ROWS, random_state=rng)
    return Private(ADULT, ss.Schema.load(folder / "adult.toml"), {name: rows[name].to_numpy() for name in rows})


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the data sets [SMOOTHSYNTH_DATA or ../shared/data]")
    parser.add_argument("--only", nargs="+", default=[*REAL, *MADE_UP, *OF_TABLES])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--quick", action="store_true", help="4 rounds, 400 questions")
    parser.add_argument("--all", action="store_true", help="ask every release every question")
    parser.add_argument("--budgets", type=int, nargs="+", default=[*range(len(BUDGETS))], help="by their places")
    condition = parser.parse_args()
    if condition.quick:
        condition.rounds, condition.queries = 4, 400
    console = Console(width=140)
    table = Table(
        "data",
        "epsilon, delta",
        "questions",
        "asked",
        "covered",
        "median half width",
        "median error",
        "ratio",
        "bounded",
        "standard error",
        "lowest release",
    )
    for private in _privates(condition):
        for budget in (BUDGETS[place] for place in condition.budgets):
            started = time.perf_counter()
            found = run(
                private,
                budget,
                rounds=condition.rounds,
                queries=condition.queries,
                confidence=condition.confidence,
                share=1 if condition.all else SHARE,
            )
            for kind in dict.fromkeys(a.kind for a in found):
                query = [a for a in found if a.kind == kind]
                line = line_of(query)
                row = (
                    private.name, f"{budget[0]:g}, {budget[1]:g}", kind, str(len(query)), f"{line['coverage']:.3f}",
                    f"{line['half_width']:.5f}", f"{line['error']:.5f}", f"{line['ratio']:.2f}", f"{line['bounded']:.2f}",
                    f"{line['standard_error']:.3f}", f"{line['lowest']:.2f}",
                )  # fmt: skip
                table.add_row(*row)
                print(*row, f"{time.perf_counter() - started:.0f} s", sep="  ", flush=True)
    console.print(table)
