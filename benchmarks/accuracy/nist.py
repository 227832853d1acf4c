"""NIST's k-marginal score on excerpts of the American Community Survey, beside NIST's archive of reports.

    python -m benchmarks nist [--only nist_tx2019 nist_ma2019] [--sets demographic simple all] [--epsilon 1] [--delta 1e-5]
                              [--rounds 3] [--peers [opendp-mst ...]] [--data DIR] [--rules]

The score is that of the package sdnist 2.4 (metrics/kmarginal.py): 1000 (1 - mean of half the L1 distance between tables of
shares). Tables are of all pairs of columns; where PUMA is among the columns, of PUMA with every pair of the others (k = 3).
INDP is in no table. Bins are those of report/dataset/binning.py: AGEP, POVPIP, PINCP, PWGTP and WGTP in 20 bins by ranks of
the real values (501 of POVPIP is one of its own), DENSITY in 13 by its logarithm, "N" (not applicable) by itself.
Contradictions are those of metrics/inconsistency.py in the same package (RULES). The archive has no share of all rows that
contradict a rule, but shares by age, work and housing; its figure, and "sum" here, is the sum of the three in percent.
With --rules the schema has the same rules as constraints (`constraints_of`): a second line for the same rounds.
Levels come from NIST's schema (nist_*.json), bounds from its data dictionary, which are public; delta is the 1e-5 of the
archive's reports that name one. NIST's own tool is the judge of a figure that is to be published.
"""

from __future__ import annotations

import argparse
import csv
import json
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.progress import track
from rich.table import Table

import smoothsynth as ss
from benchmarks.accuracy.runs import OURS, Run, mean, parser, runs, shown, there
from benchmarks.results import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Codes = NDArray[np.int64]
    Rule = Callable[[pd.DataFrame], pd.Series]
    Judged = tuple[Run, tuple[float | None, ...]]

TABLES = ("nist_tx2019", "nist_ma2019")
DEMOGRAPHIC = ["AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DEYE"]
NOT_SIMPLE = ("INDP", "WGTP", "PWGTP")
# Our name of a set of columns, and the archive's.
SETS = {"demographic": "demographic-focused", "simple": "simple-features", "all": "all-features"}
# Public bounds of NIST's data dictionary; 501 of POVPIP means "above five times the poverty line".
NUMBERS: dict[str, ss.Number | ss.Integer] = {
    "AGEP": ss.Integer(0, 99),
    "DENSITY": ss.Number(16.3, 52_864.7, transform="log"),
    "PINCP": ss.Integer(-9_000, 1_341_000, transform="asinh", scale=10_000, nullable=True),
    "POVPIP": ss.Integer(0, 501, nullable=True),
    "PWGTP": ss.Integer(1, 9_999, transform="log"),
    "WGTP": ss.Integer(0, 9_999, transform="asinh", scale=10),
}
RANKED, BINS, OWN_BIN = ("AGEP", "POVPIP", "PINCP", "PWGTP", "WGTP"), 20, {"POVPIP": 501}
DENSITIES = (0.0, 150.0, *np.geomspace(10.0, 52_864.7 + 500.0, 21)[8:])
NONE = "N"


def columns_of(chosen: str, names: Sequence[str]) -> list[str]:
    """Return the columns of a set."""
    if chosen == "demographic":
        return DEMOGRAPHIC
    return [name for name in names if chosen == "all" or name not in NOT_SIMPLE]


def schema_of(facts: dict[str, dict[str, object]], names: Sequence[str], *, rules: bool = False) -> ss.Schema:
    """Return numbers with public bounds, and categories with the levels of NIST's schema, of which "N" is one."""
    columns = {name: NUMBERS.get(name) or ss.Category([str(v) for v in facts[name]["values"]]) for name in names}
    return ss.Schema(columns, list(constraints_of(columns)) if rules else ())


def constraints_of(columns: dict[str, ss.Number | ss.Integer | ss.Category]) -> Iterator[str]:
    """Yield NIST's consistency rules (RULES) as far as these columns have them."""

    def some(names: str) -> list[str]:
        return [name for name in names.split() if name in columns]

    def absent(name: str) -> str:
        return f"{name} is null" if name in NUMBERS else f"{name} = '{NONE}'"

    def there(name: str) -> str:
        return f"{name} is not null" if name in NUMBERS else f"{name} != '{NONE}'"

    if some("AGEP"):
        for least, names in ((15, "DVET MSP PINCP PINCP_DECILE INDP INDP_CAT"), (5, "DPHY DREM"), (3, "EDU")):
            yield from (f"{absent(name)} where AGEP < {least}" for name in some(names))
        yield from (f"{there(name)} where AGEP > 15" for name in some("MSP PINCP PINCP_DECILE EDU DPHY DREM"))
        for least, school in ((15, 12), (5, 5)) if some("EDU") else ():
            yield f"EDU in ({_below(columns['EDU'], school)}) where AGEP < {least}"
    if len(some("INDP INDP_CAT")) == 2:
        yield f"{absent('INDP')} implies {absent('INDP_CAT')}"
        yield f"{absent('INDP_CAT')} implies {absent('INDP')}"
    if some("HOUSING_TYPE"):
        yield from (f"{absent(name)} where HOUSING_TYPE != '1'" for name in some("NOC NPF"))
        yield from (f"{there(name)} where HOUSING_TYPE = '1'" for name in some("NOC"))
        for sign in ("=", "!=") if some("OWN_RENT") else ():
            yield f"OWN_RENT {sign} '0' where HOUSING_TYPE {'!=' if sign == '=' else '='} '1'"
    for size in columns["NPF"].levels if len(some("NOC NPF")) == 2 else ():
        if size != NONE:
            yield f"NOC in ({_below(columns['NOC'], int(size))}) where NPF = '{size}'"


def _below(column: ss.Category, most: int) -> str:
    return ", ".join(f"'{level}'" for level in column.levels if level == NONE or int(level) < most)


def prepared(table: pd.DataFrame, schema: ss.Schema) -> pd.DataFrame:
    """Return text as levels and numbers as numbers, "N" among them as missing."""
    return pd.DataFrame(
        {
            name: pd.to_numeric(table[name].replace(NONE, None)) if name in NUMBERS else table[name].astype(object)
            for name in schema.names
        }
    )


def frame_of(points: NDArray[np.float64], schema: ss.Schema) -> pd.DataFrame:
    """Return points of the cube as the values that they stand for."""
    return pd.DataFrame({name: pd.Series(column) for name, column in schema.from_unit(points).items()})


class KMarginal:
    """NIST's score of any table, against one real table."""

    def __init__(self, real: pd.DataFrame) -> None:
        self._places = {str(name): _places(real[name]) for name in real.columns if name != "INDP"}
        names = sorted(set(self._places) - {"PUMA"})
        always = ["PUMA"] if "PUMA" in self._places else []
        self._tables = [[*always, *pair] for pair in combinations(names, 2)]
        self._real = self._codes(real)

    def __call__(self, made: pd.DataFrame) -> float:
        """Return the score, 1000 for the same shares in all tables."""
        codes = self._codes(made)
        distances = [
            half_l1(*([rows[name] for name in table] for rows in (self._real, codes))) for table in self._tables
        ]
        return 1000.0 * (1.0 - float(np.mean(distances)))

    def _codes(self, table: pd.DataFrame) -> dict[str, Codes]:
        return {name: place(table[name]) for name, place in self._places.items()}


def _places(real: pd.Series) -> Callable[[pd.Series], Codes]:
    """Return what gives the bins of a column, 0 for what is missing and for a level that no real row has."""
    if real.name not in RANKED and real.name != "DENSITY":
        levels = pd.Index(real.unique())
        return lambda values: levels.get_indexer(values) + 1
    edges = DENSITIES if real.name == "DENSITY" else _ranked_bins(real, OWN_BIN.get(str(real.name)))
    # NIST drops the fraction of a number that it ranks.
    cut = np.asarray if real.name == "DENSITY" else np.trunc
    return lambda values: np.where(values.isna(), 0, np.searchsorted(edges, cut(values.to_numpy(float))) + 1)


def _ranked_bins(values: pd.Series, own: int | None) -> Codes:
    """Return the largest value of each bin but the last: a value's bin is floor(20 of its mean rank among all)."""
    whole = values.dropna().astype(int)
    ranked = whole[whole != own]
    bins = np.minimum((BINS * ranked.rank(pct=True)).astype(int), BINS - 1)
    largest = ranked.groupby(bins).max().to_numpy()
    return largest[:-1] if own is None else largest


def half_l1(real: Sequence[Codes], made: Sequence[Codes]) -> float:
    """Return half the L1 distance between two tables of shares, of the same columns as codes from 0."""
    sizes = [1 + max(int(a.max()), int(b.max())) for a, b in zip(real, made, strict=True)]
    shares = [
        np.bincount(np.ravel_multi_index(rows, sizes), minlength=np.prod(sizes)) / len(rows[0]) for rows in (real, made)
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2.0)


def _absent(column: pd.Series) -> pd.Series:
    return column.isna() | (column.astype(str) == NONE)


def _number(column: pd.Series) -> pd.Series:
    return pd.to_numeric(column.where(~_absent(column)))


def _any(table: pd.DataFrame, names: str, *, absent: bool) -> pd.Series:
    """Say which rows have "N" (or have a value) in any of the columns that are there."""
    found = pd.Series(data=False, index=table.index)
    for name in set(names.split()) & set(table.columns):
        found |= _absent(table[name]) == absent
    return found


def _aged(table: pd.DataFrame) -> pd.Series:
    age, school = _number(table["AGEP"]), _number(table["EDU"])
    wrong = (age < 15) & (_any(table, "DVET MSP PINCP PINCP_DECILE INDP INDP_CAT", absent=False) | (school >= 12))
    wrong |= (age < 5) & (_any(table, "DPHY DREM", absent=False) | (school >= 5))
    wrong |= (age < 3) & school.notna()
    # NIST's own rule begins after 15, though "N" ends with 14.
    return wrong | ((age > 15) & _any(table, "MSP PINCP PINCP_DECILE EDU DPHY DREM", absent=True))


def _worked(table: pd.DataFrame) -> pd.Series:
    if not {"INDP", "INDP_CAT"} <= set(table.columns):
        return pd.Series(data=False, index=table.index)
    return _absent(table["INDP"]) != _absent(table["INDP_CAT"])


def _housed(table: pd.DataFrame) -> pd.Series:
    kind, tenure = _number(table["HOUSING_TYPE"]), _number(table["OWN_RENT"])
    wrong = (kind > 1) & (_any(table, "NOC NPF", absent=False) | (tenure > 0))
    wrong |= (kind == 1) & ((tenure == 0) | _any(table, "NOC", absent=True))
    if {"NOC", "NPF"} <= set(table.columns):
        wrong |= _number(table["NOC"]) >= _number(table["NPF"])
    return wrong


# Of children with incomes, toddlers with diplomas and adults without a marital status; of an industry without its category;
# of owners of group quarters and families of children alone. One on incomes above 3,000,000 cannot occur within the bounds.
RULES: dict[str, Rule] = {"age": _aged, "work": _worked, "housing": _housed}


def contradictions(table: pd.DataFrame) -> tuple[float, float]:
    """Return the percentage of rows that break any rule, and the sum of the percentages of the three kinds."""
    broken = pd.DataFrame({kind: rule(table) for kind, rule in RULES.items()})
    return 100.0 * float(broken.any(axis=1).mean()), 100.0 * float(broken.mean().sum())


def archived(folder: Path, name: str, chosen: str, *, epsilon: float) -> Iterator[list[str]]:
    """Yield the words of the archive's reports on a table and set at this epsilon, best first."""
    path = folder / "nist_archive.csv"
    if not path.is_file():
        print(f"skipped: nist_archive.csv is not in {folder}")
        return
    with path.open(newline="", encoding="utf-8") as file:
        found = [one for one in csv.DictReader(file) if (f"nist_{one['tgt']}", one["fs"]) == (name, SETS[chosen])]
    for one in sorted(found, key=lambda one: -float(one["kmarg"])):
        if one["eps"] and float(one["eps"]) == epsilon:
            broken = f"{float(one['inc']):.1f}"
            yield [f"archive: {one['lib']} {one['alg']}", one["nf"], one["kmarg"], "", broken, "", ""]


def judged(
    table: pd.DataFrame, schema: ss.Schema, given: argparse.Namespace, *, delta: float
) -> dict[str, list[Judged]]:
    """Return the runs of all rounds with their scores, by method."""
    score, found = KMarginal(prepared(table, schema)), {}
    for seed in range(given.rounds):
        for run in runs(prepared(table, schema), schema, given, delta=delta, seed=seed):
            made = None if run.points is None else frame_of(run.points, schema)
            figures = (None, None, None) if made is None else (score(made), *contradictions(made))
            found.setdefault(run.method, []).append((run, figures))
    return found


def line(method: str, judged: Sequence[Judged], *, columns: int) -> list[str]:
    """Return the words of one method: mean figures and cost, or how its last run ended."""
    figures = [mean([one[1][i] for one in judged]) for i in range(3)]
    cost = [mean([one[0].seconds for one in judged]), mean([one[0].memory_mb for one in judged])]
    ended = judged[-1][0].status
    name = method if figures[0] is not None else f"{method}: {ended}"
    forms = (".0f", ".1f", ".1f", ".1f", ".0f")
    return [name, str(columns), *(shown(value, form) for value, form in zip([*figures, *cost], forms, strict=True))]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    made = parser(__doc__, rounds=3, delta=(1e-5,))
    made.add_argument("--only", nargs="+", choices=TABLES, default=TABLES)
    made.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    made.add_argument("--rules", action="store_true", help="release with NIST's rules in the schema too")
    made.add_argument("--data", help="folder with the data sets [SMOOTHSYNTH_DATA or ../shared/data]")
    return made.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all and print a table for each budget, set of columns and excerpt."""
    given, console = parse(arguments), Console(width=130)
    folder, names = there(given.data, given.only)
    for delta, name in product(given.delta, names):
        real = pd.read_csv(folder / f"{name}.csv.gz", dtype=str, keep_default_na=False)
        facts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["schema"]
        for chosen in track(given.sets, description=name, console=console, transient=True):
            schema = schema_of(facts, columns_of(chosen, list(real.columns)))
            found = judged(real, schema, given, delta=delta)
            if given.rules:
                ruled = schema_of(facts, schema.names, rules=True)
                alone = argparse.Namespace(**{**vars(given), "peers": None})
                found[f"{OURS}, with rules"] = judged(real, ruled, alone, delta=delta)[OURS]
            lines = [line(method, ran, columns=len(schema.names)) for method, ran in found.items()]
            title = f"{name}, {chosen} columns, epsilon = {given.epsilon:g}, delta = {delta:g}, {given.rounds} rounds"
            made = Table("method", "columns", "k-marginal", "contradict %", "sum %", "seconds", "MB", title=title)
            for words in [*lines, *archived(folder, name, chosen, epsilon=given.epsilon)]:
                made.add_row(*words)
            console.print(made)
