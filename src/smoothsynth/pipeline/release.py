"""A release: the synthetic rows, the noisy moments behind them and the receipt; written as a folder (loading/ reads it).

Nothing in it is private: it is made of public facts and of what came through `private/measure.py`.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth._files import write_whole
from smoothsynth._runtime import VERSION
from smoothsynth.accounting.charges import Budget, Charge, compose, unit_of_privacy
from smoothsynth.errors import PlanError, ReleaseError
from smoothsynth.queries.measurement import MOST_ROWS, NoisyMoments
from smoothsynth.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pandas
    import polars
    import pyarrow
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from smoothsynth.answer.estimate import Estimate, Groups
    from smoothsynth.answer.statistics import Bin, Regression
    from smoothsynth.discovery.search import Found
    from smoothsynth.methods.paper import NoisySubspace


# Raised whenever the folder changes, until a version is tagged; folders of earlier formats are read and answer.
FORMAT = 4
FORMATS = (1, 2, 3, FORMAT)
NEIGHBOURS = (
    "Two tables are neighbours if they have the same number of rows and differ in one row; "
    "the number of rows is public."
)
PERSON_NEIGHBOURS = (
    "Two tables are neighbours if they have the same number of persons and differ in the rows of one person, however many "
    "those are; the number of persons is public, that of their rows is not."
)
PERSON_ROW = "A row stands for a person here, whose k rows weigh 1/k each."
ROWS_FILE, PRIOR_FILE, MOMENTS_FILE, RECEIPT_FILE, CSV_FILE, REPORT_FILE = (
    "synthetic.parquet",
    "prior.parquet",
    "moments.json",
    "receipt.json",
    "synthetic.csv",
    "report.html",
)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was promised, what was spent on what, and how the rows were made.

    `rows` counts persons if the schema names their ids, and rows else.
    """

    schema: Schema
    rows: int
    rows_per_person: int
    budget: Budget
    charges: tuple[Charge, ...]
    method: str
    candidates: str
    fit: str
    converged: bool
    outcome: str
    seed: int | None
    synthetic_rows: int
    version: str
    format: int = FORMAT
    prior_rows: int = 0

    @property
    def spent(self) -> Budget:
        """What all charges cost together."""
        return compose(self.charges, delta=self.budget.delta)

    @property
    def ours(self) -> bool:
        """Whether it says that this version of the software wrote it, in its present format."""
        return (self.version, self.format) == (VERSION, FORMAT)

    def promise(self) -> str:
        """State the guarantee in words."""
        delta = f" and delta = {self.budget.delta:g}" if self.budget.delta else ""
        return (
            f"This release is differentially private with epsilon = {self.budget.epsilon:g}{delta} for {self.protects}. "
            f"{self.neighbours} A rerun on the same data spends again."
        )

    @property
    def protects(self) -> str:
        """Whom or what the promise is about, in words."""
        return unit_of_privacy(self.schema.person, self.rows_per_person)

    @property
    def neighbours(self) -> str:
        """Which tables are neighbours."""
        return NEIGHBOURS if self.schema.person is None else PERSON_NEIGHBOURS

    @property
    def unit(self) -> str:
        """What `rows` counts."""
        return "rows" if self.schema.person is None else "persons"

    @property
    def together(self) -> tuple[int, int]:
        """How many rows every measurement protects together, and how many of a person it averages."""
        return (self.rows_per_person, 1) if self.schema.person is None else (1, self.rows_per_person)

    def in_words(self, charge: Charge) -> str:
        """Say what a charge was for, with the number of rows it protects together if that is not one."""
        if self.schema.person is not None:
            return f"{charge.sentence()} {PERSON_ROW}"
        several = f" All figures are for up to {self.rows_per_person} rows replaced together."
        return charge.sentence() + (several if self.rows_per_person > 1 else "")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for receipt.json."""
        spent = self.spent
        return {
            "format": self.format,
            "software": f"smoothsynth {self.version}",
            "promise": self.promise(),
            "neighbours": self.neighbours,
            "rows": self.rows,
            "rows_per_person": self.rows_per_person,
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "spent": {"epsilon": spent.epsilon, "delta": spent.delta},
            "charges": [{**charge.as_dict(), "in_words": self.in_words(charge)} for charge in self.charges],
            "method": self.method,
            "candidates": self.candidates,
            "fit": {"method": self.fit, "converged": self.converged, "outcome": self.outcome},
            "synthetic_rows": self.synthetic_rows,
            "seed": self.seed,
            "schema": self.schema.facts(),
            **({"prior_rows": self.prior_rows} if self.prior_rows else {}),
        }

    def __repr__(self) -> str:
        delta = f", delta={self.budget.delta:g}" if self.budget.delta else ""
        return (
            f"<Receipt: epsilon={self.budget.epsilon:g}{delta}, {self.rows:,} {self.unit}, {len(self.charges)} charges>"
        )

    def _repr_html_(self) -> str:
        from smoothsynth.report.notebook import receipt_html

        return receipt_html(self)

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Receipt:
        """Read what `as_dict` wrote."""
        return cls(
            schema=Schema.from_facts(facts["schema"]),
            rows=_whole(facts["rows"]),
            rows_per_person=_whole(facts["rows_per_person"]),
            budget=Budget(facts["budget"]["epsilon"], facts["budget"]["delta"]),
            charges=tuple(Charge.from_dict(charge) for charge in facts["charges"]),
            method=facts["method"],
            candidates=facts["candidates"],
            fit=facts["fit"]["method"],
            converged=facts["fit"]["converged"],
            outcome=facts["fit"]["outcome"],
            seed=facts["seed"],
            synthetic_rows=_whole(facts["synthetic_rows"]),
            version=facts["software"].removeprefix("smoothsynth "),
            format=facts["format"],
            prior_rows=_whole(facts["prior_rows"]) if "prior_rows" in facts else 0,
        )


@dataclass(frozen=True, slots=True)
class Release:
    """A synthetic table that anyone may see, with its noisy moments and its receipt.

    `earlier` are the moments of the release whose transformations this one kept (docs/federated.md); they were charged
    there. `found` are the noisy counts from which private bounds and levels follow, if the schema asked for some. `prior` are
    the public rows that its model began with, if some were given.
    """

    table: pyarrow.Table
    moments: tuple[NoisyMoments, ...]
    receipt: Receipt
    subspace: NoisySubspace | None = None
    earlier: tuple[NoisyMoments, ...] = ()
    found: Found | None = None
    prior: pyarrow.Table | None = None

    @property
    def schema(self) -> Schema:
        """The public schema of the rows."""
        return self.receipt.schema

    def to_arrow(self) -> pyarrow.Table:
        """Return the synthetic rows as an Arrow table."""
        return self.table

    def to_pandas(self) -> pandas.DataFrame:
        """Return the synthetic rows as a pandas frame."""
        try:
            return self.table.to_pandas()
        except ModuleNotFoundError:
            raise ImportError("to_pandas needs pandas. Run: pip install pandas, or take release.table") from None

    def to_polars(self) -> polars.DataFrame:
        """Return the synthetic rows as a polars frame."""
        import polars

        return polars.from_arrow(self.table)

    def to(self, frame: Any) -> Any:
        """Return the synthetic rows as the same kind of frame as `frame`, of whatever library (docs/adapters.md)."""
        from smoothsynth.adapters.frames import like

        return like(frame, self.table)

    def unit_rows(self) -> NDArray[Any]:
        """Return the synthetic rows as points of the cube."""
        return self.schema.to_unit({name: self.table[name] for name in self.schema.names})

    def unit_prior(self) -> NDArray[Any] | None:
        """Return the public rows that the model began with as points of the cube, if there are some."""
        return (
            None if self.prior is None else self.schema.to_unit({name: self.prior[name] for name in self.schema.names})
        )

    def answer(
        self,
        question: Callable[[Mapping[str, NDArray[Any]]], Any] | str,
        *,
        columns: Sequence[str] | None = None,
        confidence: float = 0.95,
        weighted: bool = False,
    ) -> Estimate | Groups:
        """Answer a smooth question on the synthetic rows, with an interval for the private rows (docs/answers.md).

        release.answer(lambda t: np.exp(-((t["age"] - 50) / 10) ** 2), columns=["age"])
        release.answer("avg(exp(-power((age-50)/10, 2)))")
        release.answer("median(cost where age >= 50) group by sex")      # an estimate for each group

        Here and below, `weighted=True` is about rows with the survey weights that the schema names.
        """
        from smoothsynth.answer.answer import answer

        return answer(self, question, columns=columns, confidence=confidence, weighted=weighted)

    def mean(self, column: str, *, confidence: float = 0.95, weighted: bool = False) -> Estimate:
        """Return the mean of a column, with its interval."""
        from smoothsynth.answer.statistics import mean

        return mean(self, column, confidence=confidence, weighted=weighted)

    def covariance(self, first: str, second: str, *, confidence: float = 0.95, weighted: bool = False) -> Estimate:
        """Return the covariance of two columns, with its interval."""
        from smoothsynth.answer.statistics import covariance

        return covariance(self, first, second, confidence=confidence, weighted=weighted)

    def correlation(self, first: str, second: str, *, confidence: float = 0.95, weighted: bool = False) -> Estimate:
        """Return the correlation of two columns, with its interval."""
        from smoothsynth.answer.statistics import correlation

        return correlation(self, first, second, confidence=confidence, weighted=weighted)

    def corr(self, first: str, second: str, *, confidence: float = 0.95, weighted: bool = False) -> Estimate:
        """Return the correlation of two columns, as `correlation` does: a question as text has this name."""
        return self.correlation(first, second, confidence=confidence, weighted=weighted)

    def median(self, column: str, *, confidence: float = 0.95, weighted: bool = False) -> Estimate:
        """Return the median of a column, with its interval."""
        return self.quantile(column, 0.5, confidence=confidence, weighted=weighted)

    def quantile(self, column: str, q: float, *, confidence: float = 0.95, weighted: bool = False) -> Estimate:
        """Return the q-quantile of a column, with its interval."""
        from smoothsynth.answer.statistics import quantile

        return quantile(self, column, q, confidence=confidence, weighted=weighted)

    def histogram(
        self, column: str, *, bins: int | Sequence[float] = 10, confidence: float = 0.95, weighted: bool = False
    ) -> tuple[Bin, ...]:
        """Return the shares of rows in bins, each with its interval."""
        from smoothsynth.answer.statistics import histogram

        return histogram(self, column, bins=bins, confidence=confidence, weighted=weighted)

    def regress(
        self, target: str, *, on: Sequence[str], confidence: float = 0.95, weighted: bool = False
    ) -> Regression:
        """Return the least-squares regression of a column on others, each coefficient with its interval."""
        from smoothsynth.answer.statistics import regress

        return regress(self, target, on=on, confidence=confidence, weighted=weighted)

    def sample(
        self,
        rows: int | None = None,
        *,
        where: Mapping[str, Any] | Callable[[Any], Any] | None = None,
        given: Any = None,
        seed: int | None = None,
    ) -> pyarrow.Table:
        """Draw more rows from the model of the release, or such as fit: `where={"sex": "f", "age": (50, 60)}`.

        `given=frame` completes rows instead: columns that a frame of public or synthetic rows lacks are filled in.
        """
        from smoothsynth.pipeline.sample import complete, sample

        if given is None:
            if rows is None:
                raise PlanError(
                    "Say how many rows, as in release.sample(1000), or give rows to complete, as given=frame."
                )
            return sample(self, rows, where=where, seed=seed)
        if rows is not None or where is not None:
            raise PlanError("Given rows are completed as they are: leave out the number of rows, and `where`.")
        return complete(self, given, seed=seed)

    def sample_parts(self, rows: int, *, seed: int | None = None) -> Iterator[pyarrow.Table]:
        """Draw any number of rows from the model of the release, in tables of at most 256,000, as `for part in ...`."""
        from smoothsynth.pipeline.sample import sample_parts

        return sample_parts(self, rows, seed=seed)

    def sql(self, query: str) -> pyarrow.Table:
        """Answer one SELECT over the table `synthetic` on DuckDB; `sum(weight())` counts in private rows."""
        from smoothsynth.answer.sql import sql

        return sql(self, query)

    def plot(
        self,
        what: str | Sequence[str] = "columns",
        *,
        columns: Sequence[str] | None = None,
        confidence: float = 0.95,
    ) -> Figure:
        """Draw the synthetic rows with matplotlib: "columns", "pairs", "correlations", or the answers to questions.

        release.plot("pairs", columns=["age", "visits"]).savefig("pairs.png")
        release.plot(["avg(age)", "avg(age where sex = 'f')"])
        """
        try:
            from smoothsynth.report.plot import plot
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "matplotlib":
                raise
            raise ImportError("release.plot needs matplotlib. Run: pip install 'smoothsynth[plot]'") from None
        return plot(self, what, columns=columns, confidence=confidence)

    def write(self, path: str | Path, *, csv: bool = True, force: bool = False) -> Path:
        """Write the release folder, whole or not at all, with CSV files unless `csv=False`; an existing one with `force`."""
        with write_whole(path, force=force) as folder:
            self.write_files(folder, csv=csv)
        return Path(path)

    def write_files(self, folder: Path, *, csv: bool = True) -> None:
        """Write the files of the release into a folder that `write_whole` prepared."""
        write_rows(self.table, folder / ROWS_FILE)
        if self.prior is not None:
            write_rows(self.prior, folder / PRIOR_FILE)
        if csv:
            self._warn_of_formulas()
            write_csv(self.table, folder / CSV_FILE)
        measured = moments_document(
            self.moments, self.subspace, found=self.found, earlier=self.earlier, format_=self.receipt.format
        )
        _write_json(folder / MOMENTS_FILE, measured)
        self._write_page(folder)
        self._write_metadata(folder)
        hashes = {file.name: sha256(file) for file in sorted(folder.iterdir())}
        _write_json(folder / RECEIPT_FILE, {**self.receipt.as_dict(), "sha256": hashes})

    def _warn_of_formulas(self) -> None:
        from smoothsynth.pipeline.stored_rows import columns_with_formulas

        if found := columns_with_formulas(self.schema):
            words = (
                f"A spreadsheet takes text in {CSV_FILE} or codebook.csv for formulas "
                f"(column {', '.join(map(repr, found)):.200}). Values are written as they are: levels must be read back as "
                "such. Before you publish the files, see whether they belong there; whoever opens them in a spreadsheet has "
                "to import these columns as text."
            )
            warnings.warn(words, UserWarning, stacklevel=4)

    def _write_page(self, folder: Path) -> None:
        try:
            page = self.page(folder)
        # Its budget is spent: a release is not lost for its page.
        except Exception as error:
            warnings.warn(f"The page of the release could not be drawn: {error}", RuntimeWarning, stacklevel=2)
        else:
            _write_text(folder / REPORT_FILE, page)

    def _write_metadata(self, folder: Path) -> None:
        from smoothsynth.pipeline.metadata import metadata

        try:
            texts = metadata(self.receipt, folder, {file.name for file in folder.iterdir()})
        except Exception as error:
            warnings.warn(f"The release could not be described: {error}", RuntimeWarning, stacklevel=2)
        else:
            for name, text in texts.items():
                _write_text(folder / name, text)

    def page(self, folder: Path) -> str:
        """Draw the page of the release whose rows and moments are in a folder."""
        from smoothsynth.report.contents import contents, file_hashes
        from smoothsynth.report.page import render

        return render(contents(self, file_hashes(folder)))

    def __repr__(self) -> str:
        delta = f", delta={self.receipt.budget.delta:g}" if self.receipt.budget.delta else ""
        return (
            f"<Release: {self.table.num_rows:,} synthetic rows x {len(self.schema.names)} columns, "
            f"epsilon={self.receipt.budget.epsilon:g}{delta}>"
        )

    def _repr_html_(self) -> str:
        from smoothsynth.report.notebook import release_html

        return release_html(self)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def moments_document(
    moments: Sequence[NoisyMoments],
    subspace: NoisySubspace | None,
    *,
    found: Found | None,
    earlier: Sequence[NoisyMoments],
    format_: int = FORMAT,
) -> dict[str, Any]:
    """Return plain values for moments.json."""
    document: dict[str, Any] = {"format": format_, "moments": [m.as_dict() for m in moments]}
    if subspace is not None:
        document["subspace"] = subspace.as_dict()
    if found is not None:
        document["found"] = found.as_dict()
    if earlier:
        document["earlier"] = [m.as_dict() for m in earlier]
    return document


def as_text(document: Mapping[str, Any]) -> str:
    """Return the one text that a JSON file of a release has for its values."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_script_data(document: Mapping[str, Any]) -> str:
    """Write JSON that cannot end the element it stands in, whatever the names of columns are."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_rows(table: pyarrow.Table, place: Any) -> None:
    """Write synthetic.parquet to a path or a binary stream: the same bytes for the same rows and version of Arrow."""
    from pyarrow import parquet

    parquet.write_table(table, place, compression="zstd")


def write_csv(table: pyarrow.Table, place: Any) -> None:
    """Write synthetic.csv to a path or a binary stream: the same bytes for the same rows and version of Arrow."""
    from pyarrow import csv

    csv.write_csv(table, place)


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    _write_text(path, as_text(document))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _whole(value: int) -> int:
    if not 1 <= value <= MOST_ROWS:
        raise ReleaseError(f"A count in the receipt must be a whole number from 1 to {MOST_ROWS:,}; one is not.")
    return value
