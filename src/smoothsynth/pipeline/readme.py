"""What a release folder says to people: README.md, the codebook, and how to cite it.

Names, levels and texts come from a schema. In the README they are one line each and no markup; in the codebook they are
as they are, so that they can be looked up.
"""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from smoothsynth.errors import one_line
from smoothsynth.pipeline.release import (
    CSV_FILE,
    MOMENTS_FILE,
    PRIOR_FILE,
    RECEIPT_FILE,
    REPORT_FILE,
    ROWS_FILE,
    Receipt,
)
from smoothsynth.schema import Category
from smoothsynth.schema.about import About, read_about

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from smoothsynth.schema import Column, Schema

README_FILE, CODEBOOK_FILE = "README.md", "codebook.csv"
# Levels of a column in the README; the others are in the catalogue files.
_SHOWN_LEVELS = 24
_MARKUP = re.compile(r"([\\`*\[\]<>&|#~])")


def title(receipt: Receipt) -> str:
    """Return what the release is called: never like a table of real rows."""
    given = read_about(receipt.schema.about).title
    if given is None:
        return _sized(receipt)
    return given if "synthetic" in given.lower() else f"{given} (synthetic)"


def _sized(receipt: Receipt) -> str:
    columns = len(receipt.schema.names)
    return f"Synthetic table of {receipt.synthetic_rows:,} rows and {columns:,} column{'' if columns == 1 else 's'}"


def summary(receipt: Receipt) -> str:
    """Say in two sentences what the rows are."""
    return (
        f"All {receipt.synthetic_rows:,} rows are synthetic: they were drawn from noisy statistics of {receipt.rows:,} "
        f"private {receipt.unit}, so that averages come out nearly as they would on those. No row is a person's."
    )


def citation(receipt: Receipt, digest: str) -> str:
    """Return one paragraph that names the release, with the beginning of the SHA-256 of its rows."""
    about = read_about(receipt.schema.about)
    year = f" ({about.published[:4]})" if about.published else ""
    who = f"{about.owner}{year}. " if about.owner else ""
    what = f"{title(receipt)}. " if about.title else ""
    where = f" {about.url}" if about.url else ""
    delta = f", delta = {receipt.budget.delta:g}" if receipt.budget.delta else ""
    return (
        f"{who}{what}{_sized(receipt)}, differentially private "
        f"with epsilon = {receipt.budget.epsilon:g}{delta}. Made with smoothsynth {receipt.version}. "
        f"SHA-256 {digest[:16]}…{where}"
    )


def codebook(schema: Schema) -> str:
    """Return the codebook as CSV: one line for each column, and for each level of a category."""
    page = io.StringIO()
    lines = csv.writer(page, lineterminator="\n")
    lines.writerow(["column", "description", "type", "unit", "lower", "upper", "missing", "level"])
    for name, column in schema.columns.items():
        facts = column.facts()
        line = [name, *(facts.get(key, "") for key in ("description", "type", "unit", "lower", "upper"))]
        levels = column.levels if isinstance(column, Category) else [""]
        lines.writerows([*line, "yes" if column.nullable else "no", level] for level in levels)
    return page.getvalue()


def readme(receipt: Receipt, names: Collection[str], digest: str) -> str:
    """Return README.md of a folder with these files beside those that describe it."""
    about = read_about(receipt.schema.about)
    parts = [
        f"# {_plain(title(receipt))}",
        *([_plain(about.description)] if about.description else []),
        summary(receipt),
        *_facts(about),
        "## Open it",
        f"**First** open `{REPORT_FILE}` in a browser, also offline: what the table tells, and what not.",
        *(_open_csv(receipt.schema) if CSV_FILE in names else _open_parquet()),
        "## Columns",
        _columns(receipt.schema),
        *_relations(receipt.schema),
        "## Use it well",
        _USE,
        "## The promise",
        _plain(receipt.promise()),
        "## Files",
        _files(names, owner=about.owner is not None),
        "To check them without trusting anybody: `pip install smoothsynth`, then `smoothsynth verify .` in this folder.",
        "## Cite",
        _plain(citation(receipt, digest)),
    ]
    return "\n\n".join(parts) + "\n"


_USE = """\
- Means, shares, averages over a neighbourhood, correlations and regressions come out well, up to the noise.
- Extremes, rare groups and exact counts do not. A row that looks like somebody is a coincidence.
- Standard errors computed from these rows as if they were real are too small: they know nothing of the noise. For
  intervals that do, ask in the page; or `pip install smoothsynth`, then `smoothsynth answer . "avg(...)"`."""


def _facts(about: About) -> list[str]:
    """Say who publishes it, where and under which licence, as far as the schema does."""
    named = {
        "Owner": about.owner,
        "Licence": about.licence,
        "Contact": about.contact,
        "Published": about.published,
        "Address": about.url,
    }
    lines = [f"- {label}: {_plain(text)}" for label, text in named.items() if text]
    return ["\n".join(lines)] if lines else []


def _open_csv(schema: Schema) -> Iterator[str]:
    from smoothsynth.pipeline.stored_rows import columns_with_formulas

    yield "Nothing has to be installed."
    yield (
        f"**Excel**: *Data > From Text/CSV*, choose `{CSV_FILE}`, file origin *65001: Unicode (UTF-8)*, *Load*; the same "
        f"with `{CODEBOOK_FILE}`, which explains the columns. An empty cell is a missing value."
    )
    codes = _codes(schema)
    if found := [name for name in schema.names if name in {*codes, *columns_with_formulas(schema)}]:
        names = ", ".join(map(_code, found[:_SHOWN_LEVELS]))
        yield (
            f"A spreadsheet would take text in {names} for formulas, numbers or days: set *Text* as the type of these "
            "columns before *Load*."
        )
    text = ", ".join(f'{_in_r(name)} = "character"' for name in codes)
    classes = f",\n  colClasses = c({text})" if codes else ""
    yield (
        "**R**:\n\n```r\n"
        f'rows <- read.csv("{CSV_FILE}", na.strings = "", check.names = FALSE, encoding = "UTF-8"{classes})\n'
        f'codebook <- read.csv("{CODEBOOK_FILE}", na.strings = "", colClasses = "character", encoding = "UTF-8")\n'
        "summary(rows)\n```"
    )
    yield f'**Python**, with pandas:\n\n```python\nrows = pandas.read_parquet("{ROWS_FILE}")\n```'


_MONTH = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
# What R and spreadsheets make numbers, truth values or days of, unless they are told.
_RETYPED = re.compile(
    rf"[+-]?[.,]*\d[\d.,]*(e[+-]?\d+)?%?|0x[\da-f]+|[+-]?(inf|infinity|nan)|t|f|true|false"
    rf"|\d{{1,4}}([-/.: ]\d{{1,4}}){{1,2}}|{_MONTH}[-/. ]?\d{{1,4}}|\d{{1,4}}[-/. ]?{_MONTH}",
    re.IGNORECASE,
)


def _codes(schema: Schema) -> list[str]:
    """Return the categories of text with a level that programs take for something else: "01" would become 1."""
    return [
        name
        for name, column in schema.columns.items()
        if isinstance(column, Category)
        and any(isinstance(level, str) and _RETYPED.fullmatch(level.strip()) for level in column.levels)
    ]


def _in_r(text: str) -> str:
    """Write a text as R does."""
    return '"' + one_line(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _open_parquet() -> Iterator[str]:
    yield f"**Excel**: *Data > Get Data > From File > From Parquet*, choose `{ROWS_FILE}`."
    yield f'**R**, with one package:\n\n```r\nrows <- nanoparquet::read_parquet("{ROWS_FILE}")\n```'
    yield f'**Python**, with pandas:\n\n```python\nrows = pandas.read_parquet("{ROWS_FILE}")\n```'


def _columns(schema: Schema) -> str:
    lines = [
        "| " + " | ".join([_cell(_code(name)), _plain(column.description or ""), _values(column)]) + " |"
        for name, column in schema.columns.items()
    ]
    return "\n".join(["| column | what it is | values |", "|---|---|---|", *lines])


def _values(column: Column) -> str:
    """Say what the cells of a column can be."""
    missing = "; may be missing" if column.nullable else ""
    if isinstance(column, Category):
        shown = ", ".join(_cell(_code(str(level))) for level in column.levels[:_SHOWN_LEVELS])
        more = len(column.levels) - _SHOWN_LEVELS
        return shown + (f" and {more:,} more, see `datapackage.json`" if more > 0 else "") + missing
    facts = column.facts()
    if column.kind == "boolean":
        return f"true or false{missing}"
    unit = f" {_plain(facts['unit'])}" if "unit" in facts else ""
    lower, upper = (f"{facts[end]:.12g}" if isinstance(facts[end], float) else facts[end] for end in ("lower", "upper"))
    return f"{column.kind}, {lower} to {upper}{unit}{missing}"


def _relations(schema: Schema) -> list[str]:
    if not schema.constraints:
        return []
    return ["The rows were made to satisfy:", "\n".join(f"- {_code(text)}" for text in schema.constraints)]


_FILES = {
    REPORT_FILE: "the page of the release: charts, questions with intervals, what was measured and what it cannot tell",
    ROWS_FILE: "the rows, with types",
    CSV_FILE: "the same rows as text",
    CODEBOOK_FILE: "the columns and their levels",
    RECEIPT_FILE: "the promise, what was spent on what, the schema, the SHA-256 of the other files",
    MOMENTS_FILE: "every released number with its noise: the rows were drawn from these and from nothing else",
    PRIOR_FILE: "public rows that the model began with",
    "datapackage.json": "the columns for programs (Data Package 2.0: R, Python and others read it)",
    "croissant.json": "the same for search engines and machine learning (schema.org, Croissant 1.0)",
    "dcat.jsonld": "the same for open-data portals (DCAT-AP 3.0)",
    "CITATION.cff": "how to cite it, for reference managers",
}


def _files(names: Collection[str], *, owner: bool) -> str:
    absent = {CODEBOOK_FILE} if CSV_FILE not in names else set()
    absent |= set() if owner else {"CITATION.cff"}
    absent |= {name for name in (CSV_FILE, PRIOR_FILE) if name not in names}
    lines = [f"| `{name}` | {words} |" for name, words in _FILES.items() if name not in absent]
    return "\n".join(["| file | what it holds |", "|---|---|", *lines])


def _plain(text: str) -> str:
    """Return text of which nothing is markup."""
    return _MARKUP.sub(r"\\\1", one_line(text))


def _cell(code: str) -> str:
    """Return a span of code for a table, where bars end a cell even in code."""
    return code.replace("|", "\\|")


def _code(text: str) -> str:
    """Return text as a span of code, whatever it holds."""
    shown = one_line(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence, space = "`" * (longest + 1), " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"
