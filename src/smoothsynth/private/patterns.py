"""What the cells of a column look like, from its distinct texts and how often each occurs: for the owner.

Every figure is of the private rows without noise. Words that are quoted are from the public lists below, but for levels that
look like one another; those are told to the owner and written nowhere.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from smoothsynth.schema.hierarchy import MOST_COORDINATES
from smoothsynth.schema.reading import date_reader, number_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


NULL_WORDS = frozenset(
    ("-", "--", "---", "?", ".", "..", "*", "/", "none", "missing", "unknown", "not known", "not available", "no answer",
     "n.a.", "n/k", "nil", "void", "empty", "unbekannt", "keine angabe", "keine", "fehlt", "k.a.", "#value!", "#ref!")
)  # fmt: skip
_TRUTHS = frozenset(["true", "false", "yes", "no", "y", "n", "t", "f"])
_OTHER_TRUTHS = frozenset(["ja", "nein", "j", "oui", "non", "si", "sí", "sim", "não", "da", "net", "on", "off"])
SENTINELS = (-1, -8, -9, -77, -88, -99, -999, -9999, 77, 88, 99, 777, 888, 999, 7777, 8888, 9999, 99999, 999999)
_DAY = r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}"
_CLASSES = tuple(
    (name, re.compile(pattern, re.ASCII))
    for name, pattern in (
        ("integer", r"[+-]?\d+"),
        ("number", r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"),
        ("clock", r"\d{1,2}:\d{2}(:\d{2})?"),
        ("day", _DAY),
        ("moment", _DAY + r"[ T]\d{1,2}(:\d{2})?(:\d{2}(\.\d+)?)?(Z|z|[+-]\d{2}(:?\d{2})?)?"),
    )
)
_ID_NAME = re.compile(
    r"(^|[_\W])(id|ids|pid|uid|subject|key|nr|uuid|guid|ssn|mrn|nhs|iban|e?mail|phone|patient|person|client|customer)([_\W]|$)"
)
_PLACE_NAME = re.compile(r"(^|[_\W])(lat|lon|lng|long|latitude|longitude|easting|northing|coord\w*|gps\w*)([_\W]|$)")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}", re.ASCII)
_WITH_POINT, _WITH_COMMA = number_reader("."), number_reader(",")
# Day first where both fit: a cell such as 03/04/2020 tells nothing.
_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d", "%Y.%m.%d", "%d.%m.%y",
         "%d/%m/%y", "%m/%d/%y", "%d-%m-%y")  # fmt: skip
_CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S")
_ISO_FORMATS = {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"}
_FORMATS = tuple((one, date_reader([one])) for one in (day + clock for clock in _CLOCKS for day in _DAYS))
# A pattern of fewer cells than this share of a column is not named.
_RARE = 0.002
_FEW = 20
# So many dates tell whether the day or the month comes first.
_TELLING = 5
_MANY_DIFFERENT = 0.9
_MOST_TYPOS = 500


@dataclass(frozen=True, eq=False, repr=False)
class Texts:
    """The distinct texts of the cells of a column that are not missing, and how often each occurs."""

    name: str
    counts: Mapping[str, int]

    def __repr__(self) -> str:
        return "<private texts>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Texts of private cells cannot be copied or pickled.")

    @cached_property
    def total(self) -> int:
        """How many cells there are."""
        return sum(self.counts.values())

    @cached_property
    def classes(self) -> dict[str, Counter[str]]:
        """The texts by what they look like."""
        found: dict[str, Counter[str]] = {}
        for text, times in self.counts.items():
            found.setdefault(class_of(text), Counter())[text] = times
        return found

    def share(self, *classes: str) -> float:
        """Return the share of cells that look like one of these."""
        cells = sum(sum(self.classes.get(one, {}).values()) for one in classes)
        return cells / self.total if self.total else 0.0

    @cached_property
    def kind(self) -> str:
        """The type of the schema that reads most cells, or in words what they are."""
        known = 1.0 - self.share("null")
        if not self.total or known <= 0.0:
            return "nothing"
        integers, parts = self.share("integer"), self.share("number", "comma", "grouped")
        if self.share("truth") + (self.share("integer") if self._only_bits else 0.0) > 0.5 * known and self.share(
            "truth"
        ):
            return "boolean"
        if integers + parts > 0.5 * known:
            return "number" if parts else "integer"
        if self.share("day", "moment") > 0.5 * known:
            return "datetime" if self.share("moment") > 0.01 * known else "date"
        return "times of day" if self.share("clock") > 0.5 * known else "category"

    @property
    def _only_bits(self) -> bool:
        return set(self.classes.get("integer", {})) <= {"0", "1"}

    @cached_property
    def decimal(self) -> str | None:
        """The decimal sign with which most numbers are read, where it has to be said."""
        if max(self.share("comma"), self.share("grouped")) < _RARE:
            return None
        commas, points = self._signs
        return "," if commas > points else "."

    @cached_property
    def _signs(self) -> tuple[int, int]:
        """How many cells are a number with a decimal comma only, and with a point only: 1,234 and 1.234 are with both."""
        cells = [(t, n) for one in ("number", "comma", "grouped") for t, n in self.classes.get(one, {}).items()]
        commas = sum(n for t, n in cells if not _WITH_POINT(t))
        return commas, sum(n for t, n in cells if not _WITH_COMMA(t))

    @property
    def is_sure_of_decimal(self) -> bool:
        """Whether many cells tell the decimal sign, and hardly any tells the other one."""
        rarer, often = sorted(self._signs)
        return often >= _FEW and rarer <= 0.01 * often

    @property
    def has_parts(self) -> bool:
        """Whether many cells with a point are no whole numbers."""
        cells = self.classes.get("number", Counter())
        return sum(n for text, n in cells.items() if not float(text).is_integer()) > _RARE * self.total

    @property
    def may_be_thousands(self) -> bool:
        """Whether every number with a point has three digits after it: 1.234 may mean 1234."""
        return bool(self.classes.get("number")) and all(map(_THOUSANDS.fullmatch, self.classes["number"]))

    @cached_property
    def formats(self) -> dict[str, float]:
        """The formats of dates that occur, each with the share of cells that it alone, or it first, explains."""
        left = Counter({t: n for one in ("day", "moment") for t, n in self.classes.get(one, {}).items()})
        found: dict[str, float] = {}
        while left and len(found) < 6:
            fits = [(sum(n for t, n in left.items() if read(t)), -place) for place, (_, read) in enumerate(_FORMATS)]
            cells, place = max(fits)
            if cells < _RARE * self.total:
                break
            form, read = _FORMATS[-place]
            found[form] = cells / self.total
            left = Counter({t: n for t, n in left.items() if not read(t)})
        return found

    @property
    def date_formats(self) -> list[str]:
        """The formats that have to be said: none if all cells are ISO 8601."""
        return [] if set(self.formats) <= _ISO_FORMATS else list(self.formats)

    @property
    def is_sure_of_dates(self) -> bool:
        """Whether many cells are dates, and several of each format could not have day and month exchanged."""
        cells = Counter({t: n for one in ("day", "moment") for t, n in self.classes.get(one, {}).items()})
        return cells.total() >= _FEW and not self.ambiguous and all(_is_told(form, cells) for form in self.formats)

    @property
    def ambiguous(self) -> bool:
        """Whether dates are written with the day first and with the month first: then many fit both."""
        starts = {(form[1], form[2]) for form in self.formats if not form.startswith("%Y")}
        return any({("d", sign), ("m", sign)} <= starts for sign in "./-")

    @cached_property
    def null_words(self) -> list[str]:
        """The cells that are words for a missing value."""
        return sorted(self.classes.get("null", {}))

    @cached_property
    def numbers(self) -> Counter[float]:
        """The cells that are numbers, as numbers."""
        found: Counter[float] = Counter()
        grouped = _WITH_COMMA if self.decimal == "," else _WITH_POINT
        for one, read in (("integer", str), ("number", str), ("comma", _WITH_COMMA), ("grouped", grouped)):
            for text, times in self.classes.get(one, {}).items():
                found[float(read(text) or "nan")] += times
        return found

    @cached_property
    def sentinels(self) -> list[int]:
        """The numbers that look like codes for a missing value: usual ones, far from all others."""
        often = [v for v in SENTINELS if self.numbers[v] >= max(2.0, _RARE * self.total)]
        rest = [v for v in self.numbers if v not in often]
        if not often or len(rest) < 5:
            return []
        low, high = min(rest), max(rest)
        return [v for v in often if (v < 0 <= low) or v > high + (high - low) / 4 or v < low - (high - low) / 4]

    @property
    def is_constant(self) -> bool:
        """Whether all cells are the same."""
        return self.total >= _FEW and len(self.counts) == 1

    @cached_property
    def spike(self) -> tuple[float, float] | None:
        """The number that a fifth of the cells or more share among many others, and its share."""
        if len(self.numbers) < _FEW:
            return None
        value, times = self.numbers.most_common(1)[0]
        return (value, times / self.total) if times >= 0.2 * self.total else None

    @property
    def _different(self) -> float:
        return len(self.counts) / self.total if self.total else 0.0

    @cached_property
    def is_id(self) -> bool:
        """Whether nearly every cell is another code: who has one is known by it."""
        if self.total < _FEW or self.kind not in ("category", "integer"):
            return False
        named = bool(_ID_NAME.search(_words(self.name)))
        if self.kind == "integer":
            span = max(self.numbers) - min(self.numbers) + 1.0
            dense = len(self.counts) > 100 and span <= 1.5 * len(self.counts) and self._different > 0.99
            return dense or (named and len(self.counts) > _FEW)
        return (
            self._different > _MANY_DIFFERENT or (named and len(self.counts) > MOST_COORDINATES)
        ) and not self.is_prose

    @cached_property
    def is_prose(self) -> bool:
        """Whether cells are names or sentences: several words, and seldom the same."""
        if self.total < _FEW or self.kind != "category":
            return False
        spaced = sum(n for t, n in self.classes.get("text", {}).items() if " " in t.strip()) / self.total
        long = sum(n for t, n in self.counts.items() if len(t.split()) >= 4) / self.total
        return self._different > 0.3 and (spaced > 0.5 or long > 0.3)

    @property
    def is_place(self) -> bool:
        """Whether numbers look like coordinates: by the name of the column and three or more digits after the point."""
        fine = sum(n for t, n in self.counts.items() if re.search(r"[.,]\d{3,}$", t))
        return bool(_PLACE_NAME.search(_words(self.name))) and self.kind == "number" and fine > 0.5 * self.total

    @property
    def is_truth(self) -> bool:
        """Whether nearly all cells are words for yes and no, of which the type boolean reads all or none."""
        words = {t.strip().lower() for t in self.counts} - NULL_WORDS
        return self.total >= 2 and bool(words) and words <= _TRUTHS | _OTHER_TRUTHS | {"0", "1"} and words != {"0", "1"}

    @property
    def is_read_as_boolean(self) -> bool:
        """Whether the type boolean reads them all."""
        return {t.strip().lower() for t in self.counts} <= _TRUTHS | {"0", "1"} | NULL_WORDS

    @property
    def has_too_many_levels(self) -> bool:
        """Whether there are more texts than a category may have levels."""
        return len(self.counts) > MOST_COORDINATES

    @cached_property
    def typos(self) -> dict[str, str]:
        """Rare texts that look like a frequent one: in other letters, or with a letter wrong."""
        if self.kind != "category" or self.is_id or self.is_prose:
            return {}
        return dict(_typos(self.counts, self.total))


def _is_told(form: str, cells: Counter[str]) -> bool:
    """Whether some dates fit a format and not the one with day and month exchanged; with dots the day comes first."""
    swapped = form.replace("%d", "%_").replace("%m", "%d").replace("%_", "%m")
    if form.startswith("%Y") or "." in form:
        return True
    read, other = date_reader([form]), date_reader([swapped])
    return sum(n for t, n in cells.items() if read(t) and not other(t)) >= _TELLING


def class_of(text: str) -> str:
    """Say what a cell looks like."""
    word = text.strip()
    lower = word.lower()
    if lower in NULL_WORDS or lower in _TRUTHS:
        return "null" if lower in NULL_WORDS else "truth"
    return next((name for name, pattern in _CLASSES if pattern.fullmatch(word)), None) or _number_class(word)


def _number_class(word: str) -> str:
    """Say whether a text is a number with a sign of money, groups of digits or a decimal comma."""
    if not any(c.isdigit() for c in word):
        return "text"
    return "grouped" if _WITH_POINT(word) else "comma" if _WITH_COMMA(word) else "text"


def _words(name: str) -> str:
    """Return a name in small letters, with a blank before each of its large ones: patientId has the word id."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _typos(counts: Mapping[str, int], total: int) -> Iterator[tuple[str, str]]:
    ordered = sorted(counts, key=lambda text: (-counts[text], text))
    frequent = [text for text in ordered[:60] if counts[text] >= max(5, 0.01 * total)]
    folded = {text.strip().casefold(): text for text in reversed(frequent)}
    for text in [text for text in ordered if counts[text] < 0.02 * total][:_MOST_TYPOS]:
        key = text.strip().casefold()
        near = (
            [key] if key in folded else difflib.get_close_matches(key, folded, n=1, cutoff=0.8) if len(key) > 3 else []
        )
        if near and folded[near[0]] != text and counts[folded[near[0]]] >= 5 * counts[text]:
            yield text, folded[near[0]]
