"""The JSON documents of a release folder: their form, their shapes and their sizes, read without belief.

Open the files of a release folder: plain files of the folder itself, of a size that a release can have.

Hold a JSON file against what the writer writes for its values: then nothing else can be in it.

The types of all values in the JSON files of a release, and what is refused for having others.

Moments of an earlier release, which an update carries since its transformations follow from them: nothing checks their
charges.

So all that can be known of them here must hold: they are the same measurements, of no more rows, and their noise is
that of the update times one factor, as an update shares its budget (smoothsynth.pipeline.update).

Read receipt.json and moments.json into objects, and hold both files against what these objects write.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth.discovery.search import Found
from smoothsynth.errors import ReleaseError
from smoothsynth.methods.paper import NoisySubspace
from smoothsynth.pipeline.release import FORMAT, FORMATS, MOMENTS_FILE, RECEIPT_FILE, Receipt, as_text, moments_document
from smoothsynth.pipeline.stored_rows import MOST_MOMENTS, MOST_RECEIPT
from smoothsynth.queries.measurement import MOST_ROWS, NoisyMoments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from smoothsynth.queries.measurement import Measurement
    from smoothsynth.queries.selection import TableSelection


# A value takes more bytes in the files that are written, with its line and indentation; one of "[]," takes 70 in memory.
_LEAST_VALUE = 8
# Factors of terms of features of the rounds of a search are eight deep.
_MOST_NESTED = 16


def plain_file(folder: Path, name: str) -> Path:
    """Return a file of the folder; not one elsewhere, behind a link that leaves it, or that is no plain file."""
    path = folder / name
    if Path(name).name != name or "\0" in name or not path.is_file():
        raise ReleaseError(f"{folder} is not a whole release: it has no file {name!r:.80}.")
    if path.resolve().parent != folder.resolve():
        raise ReleaseError(f"{name!r:.80} is a link that leaves the release folder. Put the file itself there.")
    return path


def read_text(folder: Path, name: str, *, most: int) -> str:
    """Read a JSON file of the folder, of at most so many bytes, as text."""
    path = plain_file(folder, name)
    if path.stat().st_size > most:
        raise ReleaseError(f"{name} is too large to be part of a release.")
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, ValueError, MemoryError) as error:
        raise ReleaseError(f"{name} cannot be read as text in UTF-8.") from error
    if sum(map(text.count, ",[{")) > most // _LEAST_VALUE:
        raise ReleaseError(f"{name} has more values than a file of a release can have. It is not read.")
    return text


def parse(text: str, name: str) -> dict[str, Any]:
    """Return the values of a JSON text whose top level is an object."""
    try:
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError, MemoryError) as error:
        raise ReleaseError(f"{name} cannot be read as JSON with finite numbers and without double keys.") from error
    if not isinstance(document, dict):
        raise ReleaseError(f"{name} must hold a JSON object.")
    _check_nesting(document, name)
    return document


def _check_nesting(document: dict[str, Any], name: str) -> None:
    """Refuse values that lie deeper in each other than those of a release, level by level: no call is nested."""
    level: list[Any] = [document]
    for _ in range(_MOST_NESTED):
        inner = (value for one in level for value in (one.values() if isinstance(one, dict) else one))
        level = [value for value in inner if isinstance(value, (dict, list))]
    if level:
        raise ReleaseError(f"{name} must have values at most {_MOST_NESTED} deep in each other, and has deeper ones.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key occurs twice")
    return document


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is not finite")
    return value


def check_form(name: str, text: str, again: Mapping[str, Any], *, words: bool = True) -> None:
    """Refuse a file that is not, byte for byte, what its own values give when they are written again.

    `again` are these values as our objects write them; without `words`, texts may differ from theirs.
    """
    if text == as_text(again):
        return
    document = parse(text, name)
    place = next(_unlike(document, again, words=words), None)
    if place is not None:
        raise ReleaseError(f"{name} has {place!r:.200}, which a release has not, or has otherwise. It was changed.")
    if text != as_text(document):
        raise ReleaseError(f"{name} must be written as smoothsynth writes JSON, byte for byte, and is not.")
    if words or list(_keys(document)) != list(_keys(again)):
        raise ReleaseError(f"{name} must have its keys in the order in which smoothsynth writes them, and has not.")


def _keys(value: Any) -> Iterator[str]:
    """Go through the keys of all objects, in their order, which may say something too."""
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(inner)


def _unlike(value: Any, again: Any, place: str = "", *, words: bool) -> Iterator[str]:
    """Go through both and name the places that only one of them has, or where values differ."""
    if isinstance(value, dict) and isinstance(again, dict):
        for key in {**value, **again}:
            where = f"{place}.{key}".lstrip(".")
            if key not in value or key not in again:
                yield where
            else:
                yield from _unlike(value[key], again[key], where, words=words)
    elif isinstance(value, list) and isinstance(again, list):
        for number, (one, other) in enumerate(itertools.zip_longest(value, again)):
            yield from _unlike(one, other, f"{place}.{number}", words=words)
    elif (type(value), value) != (type(again), again) and (words or {type(value), type(again)} != {str}):
        yield place


# What the files must hold: a type, [a shape] for each item of a list, {key: shape}, or one of (several shapes).
_MAYBE = (float, None)
CHARGE = {"purpose": str, "mechanism": str, "norm": str, "sensitivity": float, "scale": float, "coordinates": int,
          "epsilon": _MAYBE, "multiplier": _MAYBE}  # fmt: skip
RECEIPT = {"format": int, "software": str, "rows": int, "rows_per_person": int, "method": str, "candidates": str,
           "budget": {"epsilon": float, "delta": float}, "spent": {"epsilon": float, "delta": float},
           "charges": [CHARGE], "fit": {"method": str, "converged": bool, "outcome": str}, "synthetic_rows": int,
           "seed": (int, None), "schema": dict, "sha256": dict}  # fmt: skip
_NOISE = {"purpose": str, "epsilon": _MAYBE, "multiplier": _MAYBE, "rows_per_person": int, "rows": int}
_FEATURES = {**_NOISE, "mechanism": str, "features": [[[[int]]]], "weights": [int], "integers": [int],
           "view": ({"knots": [[int]], "radius": _MAYBE, "pooled": bool}, None),
           "exclusive": [[int]], "binary": [int]}  # fmt: skip
_COLUMN = {"value": (int, None), "hats": int, "atoms": [int], "levels": [int]}
_TABLES = {**_NOISE, "mechanism": str, "tables": [[int]], "integers": [int], "exclusive": [[int]], "binary": [int],
           "view": {"knots": [[int]], "radius": None, "pooled": bool, "order": int, "columns": [_COLUMN]}}  # fmt: skip
_LEVELS = {**_NOISE, "mechanism": str, "tables": [[int]], "integers": [int], "exclusive": [[int]], "binary": [int],
           "view": {"knots": [[int]], "radius": None, "pooled": bool, "histograms": [[int]]}}  # fmt: skip
MOMENTS = (_FEATURES, _TABLES, _LEVELS)
CHOICE = ({"count": int, "multiplier": _MAYBE, "epsilon": _MAYBE}, None)
_COUNTS = {"column": str, "delta": float, "rows": int, "counts": [[(str, int)]]}
FOUND = {"asked": dict, "rounds": [MOMENTS],
         "levels": [({**_COUNTS, "epsilon": float}, {**_COUNTS, "multiplier": float})]}  # fmt: skip
SUBSPACE = {**_NOISE, "dimensions": int, "rank": int, "iterations": int, "start": [[float]], "products": [[int]]}


def check_shape(value: object, shape: Any, name: str) -> None:
    """Refuse a value that does not have the types that a shape names."""
    wrong = next(_misfits(value, shape, name), None)
    if wrong is not None:
        raise ReleaseError(f"A release must have a {wrong} of the right type, and has not. It is not one of ours.")


def _misfits(value: Any, shape: Any, name: str) -> Iterator[str]:
    if isinstance(shape, tuple):
        if all(next(_misfits(value, one, name), None) for one in shape):
            yield name
    elif isinstance(shape, list) and isinstance(value, list):
        for item in value:
            yield from _misfits(item, shape[0], name)
    elif isinstance(shape, dict) and isinstance(value, dict):
        for key, inner in shape.items():
            yield from _misfits(value[key], inner, f"{name}.{key}") if key in value else [f"{name}.{key}"]
    elif shape is None:
        if value is not None:
            yield name
    elif type(value) not in ((int, float) if shape is float else (shape,)):
        yield name


# Budgets of a release and of its update differ by less; without a limit, noise would excuse sums of any size.
_MOST_APART = 10_000.0
_NEAR_SUM = 1e-6


def check_earlier(earlier: Sequence[NoisyMoments], moments: Sequence[NoisyMoments]) -> None:
    """Refuse earlier moments that no release can have made whose update has these moments."""
    if not earlier:
        return
    if len(earlier) != len(moments) or any(
        _alike(old.measurement, new.measurement) != new.measurement for old, new in zip(earlier, moments, strict=True)
    ):
        raise ReleaseError("The moments must measure what the earlier ones did, in the same views; they do not.")
    sizes = {(old.rows, old.measurement.rows_per_person) for old in earlier}
    if len(sizes) != 1 or not all(1 <= together <= rows <= moments[0].rows for rows, together in sizes):
        raise ReleaseError("Earlier moments must be of one table with no more rows than there are now; they are not.")
    shares = [_noise(old.measurement) / _noise(new.measurement) for old, new in zip(earlier, moments, strict=True)]
    if not all(math.isclose(share, shares[0], rel_tol=_NEAR_SUM) for share in shares):
        raise ReleaseError("Earlier moments must share their budget as those of the update do; they do not.")
    chosen = [old.measurement.choice for old in earlier]
    shares += [_noise(one) / _noise(new.measurement) for one, new in zip(chosen, moments, strict=True) if one]
    if not all(1.0 / _MOST_APART <= share <= _MOST_APART for share in shares):
        raise ReleaseError("The noise of earlier moments is too far from that of the update for one of the same sums.")


def _alike(old: Measurement, new: Measurement) -> Measurement:
    """Return a measurement with what an update may change: noise, the rows of a person; tables are not chosen again."""
    together = new.rows_per_person
    drawn = new.mechanism if (old.mechanism, new.mechanism) == ("ball", "wishart") else old.mechanism
    same = replace(old, mechanism=drawn, epsilon=new.epsilon, multiplier=new.multiplier)
    return replace(same, rows_per_person=together, choice=None)


def _noise(measurement: Measurement | TableSelection) -> float:
    """Return the noise for a sensitivity of one: the multiplier, or one over epsilon."""
    return measurement.multiplier if measurement.multiplier is not None else 1.0 / (measurement.epsilon or math.nan)


MOST_CHARGES = 1000
# Beyond what noise reaches with any budget worth the name, and far from where doubles end.
_LARGEST = 2**256


@dataclass(frozen=True, slots=True)
class Measured:
    """What moments.json holds: moments, the products of a subspace iteration, kept transformations, a search.

    `left_out` is how many charges there must be for moments of an earlier format, which are neither here nor in the text.
    """

    text: str
    moments: tuple[NoisyMoments, ...]
    subspace: NoisySubspace | None
    earlier: tuple[NoisyMoments, ...]
    found: Found | None
    left_out: int = 0

    def check_form(self, format_: int) -> None:
        """Refuse a file that says anything else, says it otherwise, or has another format than the receipt."""
        again = moments_document(self.moments, self.subspace, found=self.found, earlier=self.earlier, format_=format_)
        check_form(MOMENTS_FILE, self.text, again)


@dataclass(frozen=True, slots=True)
class Stated:
    """What receipt.json holds, as text and as plain values of the right types."""

    text: str
    facts: dict[str, Any]

    @property
    def receipt(self) -> Receipt:
        """The receipt, if its figures can be those of one."""
        return Receipt.from_dict(self.facts)

    @property
    def prior_rows(self) -> int:
        """How many rows of a prior it names; 0 if it names none, or no number."""
        named = self.facts.get("prior_rows", 0)
        return named if isinstance(named, int) and 0 <= named <= MOST_ROWS else 0

    def check_form(self) -> None:
        """Refuse a file that says anything else, or says it otherwise; other versions may have other words."""
        facts, receipt = self.facts, self.receipt
        again = receipt.as_dict()
        # The last digits of what was spent depend on the machine; `load` and `verify` add it up again.
        again["spent"] = {name: facts["spent"][name] for name in again["spent"]}
        again["sha256"] = dict(sorted(facts["sha256"].items()))
        check_form(RECEIPT_FILE, self.text, again, words=receipt.ours)


def read_receipt(folder: Path) -> Stated:
    """Read the receipt; of another format, or with values of other types, it is refused."""
    text = read_text(folder, RECEIPT_FILE, most=MOST_RECEIPT)
    facts = parse(text, RECEIPT_FILE)
    if facts.get("format") not in FORMATS:
        raise ReleaseError(
            f"The receipt has format {facts.get('format')!r:.40}; this version reads formats {FORMATS[0]} to {FORMAT}. "
            "Update smoothsynth, or read it with the version that wrote it."
        )
    check_shape(facts, RECEIPT, "receipt")
    if len(facts["charges"]) > MOST_CHARGES:
        raise ReleaseError(f"A receipt has at most {MOST_CHARGES:,} charges; this one has more. It is not one of ours.")
    return Stated(text, facts)


def read_measured(folder: Path) -> Measured:
    """Read all that was measured."""
    text = read_text(folder, MOMENTS_FILE, most=MOST_MOMENTS)
    document = parse(text, MOMENTS_FILE)
    check_shape(document, {"format": int, "moments": [dict]}, "moments")
    if document["format"] not in FORMATS:
        raise ReleaseError(f"{MOMENTS_FILE} must have a format from {FORMATS[0]} to {FORMAT}, and has not.")
    document, left_out = _without_waves(document)
    text = as_text(document) if left_out else text
    moments, earlier = (_moments(document.get(part, [])) for part in ("moments", "earlier"))
    check_earlier(earlier, moments)
    subspace = _subspace(document["subspace"]) if "subspace" in document else None
    found = _found(document["found"]) if document.get("found") is not None else None
    return Measured(text, moments, subspace, earlier, found, left_out)


def _without_waves(document: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return a file of an earlier format without waves of pairs of columns, which nothing learns from any more.

    And how many charges are theirs: one each, and one more where pairs were chosen.
    """
    parts = {name: document[name] for name in ("moments", "earlier") if name in document}
    check_shape(list(parts.values()), [[dict]], "moments")
    if document["format"] == FORMAT:
        return document, 0
    waves = [one for one in parts["moments"] if _is_waves(one)]
    kept = {name: [one for one in facts if not _is_waves(one)] for name, facts in parts.items()}
    return document | kept, sum(1 + (one.get("choice") is not None) for one in waves)


def _is_waves(facts: dict[str, Any]) -> bool:
    return "waves" in (facts.get("view") or {})


def _moments(facts: Sequence[dict[str, Any]]) -> tuple[NoisyMoments, ...]:
    check_shape(facts, [MOMENTS], "moments")
    check_shape([m.get("choice") for m in facts], [CHOICE], "choice of tables")
    if len(facts) > MOST_CHARGES:
        raise ReleaseError(f"{MOMENTS_FILE} must have at most {MOST_CHARGES:,} measurements; it has more.")
    moments = tuple(NoisyMoments.from_dict(m) for m in facts)
    for m in moments:
        _check_figures((*m.integers, *m.measurement.weights))
    return moments


def _subspace(facts: dict[str, Any]) -> NoisySubspace:
    check_shape(facts, SUBSPACE, "subspace")
    subspace = NoisySubspace.from_dict(facts)
    _check_figures(z for product in subspace.products for z in product)
    return subspace


def _found(facts: dict[str, Any]) -> Found:
    check_shape(facts, FOUND, "search")
    check_shape(facts.get("codes"), (_TABLES, None), "search for codes")
    if len(facts["rounds"]) + len(facts["levels"]) > MOST_CHARGES:
        raise ReleaseError(f"A search has at most {MOST_CHARGES:,} measurements; this one has more.")
    found = Found.from_dict(facts)
    for m in (*found.rounds, *(() if found.codes is None else (found.codes,))):
        _check_figures((*m.integers, *m.measurement.weights))
    for levels in found.levels:
        _check_figures(count for _, count in levels.counts)
    return found


def _check_figures(integers: Iterable[int]) -> None:
    if any(abs(z) > _LARGEST for z in integers):
        raise ReleaseError(f"{MOMENTS_FILE} must have figures that noise can reach, and has larger ones.")
