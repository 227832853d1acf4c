"""What is to be said of a column, and what to write into its section of the schema: for the owner.

Every figure is of the private rows without noise.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.private.sources.cells import read_cells
from smoothsynth.schema import Category, Integer
from smoothsynth.schema.cells import arrow_of
from smoothsynth.schema.encoding import KINDS
from smoothsynth.schema.reading import OPTIONS, null_keys
from smoothsynth.schema.texts import level_key
from smoothsynth.schema.valued import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from smoothsynth.private.patterns import Texts
    from smoothsynth.schema import Column


# Shares of cells from which on a loss is named as one of many, and missing cells as worth to be measured.
_MANY_OUTSIDE, _MANY_MISSING = 0.01, 0.005
_MOST_FORMS = 5
DROP = "drop"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the cells of a column: the share of the cells, a sentence, and a line for the schema (or "drop").

    `cells` quotes some of them: for a report, and never for a draft. `sure` says whether enough cells tell what to write.
    """

    about: str
    share: float
    sentence: str
    write: str = ""
    cells: str = ""
    sure: bool = True

    @property
    def is_unusable(self) -> bool:
        """Whether the column should be left out of the schema."""
        return self.write == DROP


def percent(share: float) -> str:
    """Write a share; one that is not 0 is never written as 0."""
    return "< 0.1 %" if 0.0 < share < 0.0005 else f"{100 * share:.1f} %"


def lost_in_words(lost: int, rows: int) -> str:
    """Say how many lines of a file are lost as a whole, and why; nothing if none is."""
    if not lost:
        return ""
    return (
        f"{lost:,} of {rows:,} lines ({percent(lost / rows)}) are lost, all their cells missing: they have more or fewer "
        "cells than the first line has names, or are too long. Is there a title above the names, a sign at the end of "
        "lines, a line break in a cell? Mend the file, or write it as Parquet."
    )


def findings(
    texts: Texts, column: Column | None, shares: Mapping[str, float], *, lost: Mapping[str, int] = MappingProxyType({})
) -> tuple[Finding, ...]:
    """Return what is to be said of a column that the schema describes, or that a draft shall describe (None).

    `shares` has the shares of all cells that are missing, lost and outside of the bounds; `lost` has cells that are lost.
    """
    unusable = tuple(_unusable(texts, shares["missing"]))
    if unusable and column is None:
        return unusable
    misread, codes = tuple(_misread(texts, column)), tuple(_codes(texts, column))
    if column is None:
        lost = _unread(texts, {one.write.partition(" = ")[0]: one for one in (*misread, *codes)})
        shares = {**shares, "lost": sum(lost.values()) / max(texts.total, 1) * (1.0 - shares["missing"])}
    named = tuple(_lost(column, shares, texts.kind, lost))
    # Cells that will be read once the schema says how are not missing then.
    absent = shares["missing"] + sum(one.share for one in codes)
    if column is None or (not misread and not codes and not isinstance(column, Category)):
        absent += shares["lost"]
    missing = tuple(_missing(column, absent))
    found = (*misread, *codes, *_remarks(texts, column))
    known = 1.0 - shares["missing"]
    return (*unusable, *(replace(one, share=one.share * known) for one in found), *named, *missing)


def person_findings(counts: Mapping[str, int], missing: float) -> tuple[Finding, ...]:
    """Return what is to be said of the column with a person's id."""
    found = []
    if missing:
        found.append(Finding("no id", missing, "These rows are nobody's, and are left out."))
    if counts:
        most, mean = max(counts.values()), sum(counts.values()) / len(counts)
        found.append(
            Finding(
                "rows of a person",
                1.0,
                f"A person has {mean:.1f} rows on average and {most:,} at most (rows_per_person= or --rows-per-person bounds "
                "them).",
            )
        )
    return tuple(found)


def _unusable(texts: Texts, missing: float) -> Iterator[Finding]:
    share = 1.0
    if texts.kind == "nothing":
        yield Finding("nothing", share, "No cell holds anything.", DROP)
    elif texts.kind == "times of day":
        yield Finding(
            "times of day", share, "Times of day cannot be released; turn them into numbers of minutes.", DROP
        )
    elif texts.is_constant and missing <= _MANY_MISSING:
        yield Finding("constant", share, "All cells are the same: nothing can be learned from them.", DROP)
    elif texts.is_id:
        yield Finding(
            "ids", share, "The cells look like ids, which tell persons apart: name the column as person if one can have "
            "several rows, else leave it out.", DROP
        )  # fmt: skip
    elif texts.is_prose:
        yield Finding("free text", share, "The cells look like names or free text, which cannot be released.", DROP)


def _misread(texts: Texts, column: Column | None) -> Iterator[Finding]:
    """Yield how cells are written that are not read as they stand."""
    kind = texts.kind if column is None else column.kind
    said = getattr(column, "decimal", None)
    if kind in ("number", "integer") and texts.decimal and said is None:
        about = {",": "decimal commas", ".": "thousands or money"}[texts.decimal]
        share = texts.share("comma", "grouped")
        also = " (1,234 would be 1234)" if texts.decimal == "." else ""
        yield Finding(
            about,
            share,
            f"Numbers are written so that they cannot be read as they stand{also}.{_unsure(texts.is_sure_of_decimal)}",
            _line("decimal", texts.decimal),
            sure=texts.is_sure_of_decimal,
        )
    elif kind in ("number", "integer") and said is None and texts.may_be_thousands:
        yield Finding(
            "thousands or decimals", texts.share("number"), "Every number with a point has three digits after it: it is read "
            "as 1.234, and if it means 1234 the decimal sign is a comma.", _line("decimal", ","), sure=False
        )  # fmt: skip
    if isinstance(column, Integer) and texts.has_parts:
        yield Finding("decimals", texts.share("number"), "The cells are no whole numbers.", 'type = "number"')
    if kind in ("date", "datetime") and texts.date_formats and getattr(column, "date_format", None) is None:
        many = len(texts.formats) > 1
        several = ", ".join(f"{form} {percent(share)}" for form, share in texts.formats.items())
        unsure = (
            " Day and month first both occur: cells that fit both are read as the first." if texts.ambiguous else ""
        )
        yield Finding(
            "mixed dates" if many else "dates", texts.share("day", "moment"),
            f"Dates are not written as 2020-01-31: {several}.{unsure or _unsure(texts.is_sure_of_dates)}",
            _line("date_format", texts.date_formats), sure=texts.is_sure_of_dates
        )  # fmt: skip
    if kind == "category" and texts.is_truth:
        if texts.is_read_as_boolean:
            yield Finding("yes/no", texts.share("truth"), "The cells are words for true and false.", 'type = "boolean"')
    elif kind == "boolean" and not texts.is_read_as_boolean:
        yield Finding(
            "no boolean", 1.0 - texts.share("truth"), "Boolean reads true, false, yes, no, y, n, t, f, 1 and 0 only.",
            f'type = "{"category" if texts.kind == "boolean" else texts.kind}"'
        )  # fmt: skip


def _unsure(sure: bool) -> str:  # noqa: FBT001
    return "" if sure else " Too few cells tell which it is."


def _codes(texts: Texts, column: Column | None) -> Iterator[Finding]:
    """Yield what stands for a missing value."""
    levels = set(column.texts) if isinstance(column, Category) else set()
    words: list[Any] = [word for word in texts.null_words if word not in levels]
    kind = texts.kind if column is None else column.kind
    share = sum(texts.counts[word] for word in words) / texts.total if words else 0.0
    if kind in ("number", "integer") and texts.sentinels:
        words += texts.sentinels
        share += sum(texts.numbers[value] for value in texts.sentinels) / texts.total
    if words:
        given = [*getattr(column, "null_values", ()), *words]
        yield Finding(
            "codes for missing", share, "The cells look like codes for a missing value.", _line("null_values", given)
        )


def _unread(texts: Texts, found: Mapping[str, Finding]) -> dict[str, int]:
    """Return the cells that the type of a draft does not read, even with the lines that it proposes."""
    if texts.kind not in KINDS or texts.kind == "category":
        return {}
    options = {key: json.loads(one.write.partition(" = ")[2]) for key, one in found.items() if key in OPTIONS}
    column = KINDS[texts.kind](**options)
    cells = [text for text in texts.counts if level_key(text) not in null_keys(column)]
    unread = np.isnan(read_cells(arrow_of(cells), column).astype(np.float64))
    return {text: texts.counts[text] for text, odd in zip(cells, unread.tolist(), strict=True) if odd}


def _forms(lost: Mapping[str, int]) -> str:
    """Return the most frequent forms of lost cells: 9 for a digit and a for a letter tells enough, and shows no cell."""
    forms: Counter[str] = Counter()
    for text, often in lost.items():
        forms[re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "9", text))] += often
    return ", ".join(f"like {form:.20}" for form, _ in forms.most_common(_MOST_FORMS))


def _lost(column: Column | None, shares: Mapping[str, float], kind: str, lost: Mapping[str, int]) -> Iterator[Finding]:
    some = _forms(lost)
    if column is None:
        if shares["lost"]:
            yield Finding("unreadable", shares["lost"], f"The cells cannot be read as {kind}.", cells=some)
        return
    if shares["lost"] and isinstance(column, Category):
        where = f"count at {column.other!r}" if column.other is not None else "count nowhere"
        yield Finding(
            "no level",
            shares["lost"],
            f"The cells are no level, and {where}.",
            "" if column.other is not None else 'other = "other"',
            cells=some,
        )
    elif shares["lost"]:
        where = (
            "are missing"
            if column.nullable
            else "count as the middle of the bounds"
            if column.kind != "boolean"
            else "count as false"
        )
        said = f"The cells cannot be read as {column.kind}, and {where}."
        yield Finding("unreadable", shares["lost"], said, cells=some)
    if shares["outside"]:
        much = " Are the bounds right?" if shares["outside"] > _MANY_OUTSIDE else ""
        yield Finding("outside", shares["outside"], f"The cells lie beyond a bound, and are moved to it.{much}")


def _missing(column: Column | None, absent: float) -> Iterator[Finding]:
    if absent > _MANY_MISSING and not (column is not None and column.nullable):
        yield Finding(
            "missing",
            absent,
            "Missing cells are not told apart from others, unless it is nullable.",
            "nullable = true",
        )


def _remarks(texts: Texts, column: Column | None) -> Iterator[Finding]:
    kind = texts.kind if column is None else column.kind
    declared = isinstance(column, Category) and column.levels != PRIVATE
    if kind == "category" and texts.has_too_many_levels and not declared and not any(_unusable(texts, 0.0)):
        many = f"There are {len(texts.counts):,} different cells: declare those of a code book, or name the main ones."
        yield Finding("many levels", 1.0, many, "" if column is not None else f'levels = "{PRIVATE}"')
    if kind == "category" and texts.typos:
        share = sum(texts.counts[text] for text in texts.typos) / texts.total
        pairs = ", ".join(f"{text!r:.40} for {level!r:.40}" for text, level in list(texts.typos.items())[:5])
        yield Finding(
            "typos",
            share,
            "Cells look like another level, written otherwise. Correct them, or they count at other.",
            cells=pairs,
        )
    if kind in ("number", "integer") and texts.spike is not None:
        value, share = texts.spike
        yield Finding("spike", share, "Cells all hold the same number; a bound at it is seen best.", cells=f"{value:g}")
    if texts.is_place:
        yield Finding(
            "coordinates",
            1.0,
            "Coordinates tell persons apart; bounds of the region are enough, and a district is better.",
        )


def _line(key: str, value: Any) -> str:
    if isinstance(value, list) and len(value) == 1 and key == "date_format":
        value = value[0]
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"
