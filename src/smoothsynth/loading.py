"""Read a release folder, trusting nothing in it: no code, sizes and types checked, everything held against the receipt."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth.discovery.found import Found
from smoothsynth.errors import ReleaseError, SmoothsynthError
from smoothsynth.moments import MOST_ROWS, NoisyMoments, check_marks
from smoothsynth.release import FORMAT, MOMENTS_FILE, RECEIPT_FILE, ROWS_FILE, Receipt, Release, sha256
from smoothsynth.schema.column import outside
from smoothsynth.subspace import NoisySubspace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow

    from smoothsynth.privacy import Charge

_MOST_JSON_BYTES = 256 * 2**20
MOST_CHARGES = 1000
# Beyond what noise reaches with any budget worth the name, and far from where doubles end.
_LARGEST = 2**256

# What the files must hold: a type, [a shape] for each item of a list, {key: shape}, or one of (several shapes).
_MAYBE = (float, None)
_CHARGE = {"purpose": str, "mechanism": str, "norm": str, "sensitivity": float, "scale": float, "coordinates": int,
           "epsilon": _MAYBE, "multiplier": _MAYBE}  # fmt: skip
_NEAR = ("sensitivity", "scale")
RECEIPT_SHAPE = {"format": int, "software": str, "rows": int, "rows_per_person": int, "method": str, "candidates": str,
            "budget": {"epsilon": float, "delta": float}, "spent": {"epsilon": float, "delta": float},
            "charges": [_CHARGE], "fit": {"method": str, "converged": bool, "outcome": str}, "synthetic_rows": int,
            "seed": (int, None), "schema": dict, "sha256": dict}  # fmt: skip
_NOISE = {"purpose": str, "epsilon": _MAYBE, "multiplier": _MAYBE, "rows_per_person": int, "rows": int}
_MOMENTS = {**_NOISE, "mechanism": str, "features": [[[[int]]]], "weights": [int], "integers": [int],
            "view": ({"knots": [[int]], "radius": _MAYBE, "pooled": bool}, None)}  # fmt: skip
_CHOICE = ({"count": int, "multiplier": float, "expected": [[int]]}, None)
# Since columns have types; earlier releases have only values.
_MARKS = {"exclusive": [[int]], "binary": [int]}
_FOUND = {"asked": dict, "rounds": [{**_MOMENTS, **_MARKS}],
          "levels": [{"column": str, "epsilon": float, "delta": float, "rows": int, "counts": [[(str, int)]]}]}  # fmt: skip
_SUBSPACE = {**_NOISE, "dimensions": int, "rank": int, "iterations": int, "start": [[float]], "products": [[int]]}


def load(path: str | Path) -> Release:
    """Read a release folder, trusting nothing in it.

    Only plain files of the folder itself are opened; every value must have its type, every figure must be finite,
    and the receipt, the moments and the rows must agree with each other.
    """
    folder = Path(path)
    try:
        if not folder.is_dir():
            raise ReleaseError(f"{folder} is not a release folder: there is no such folder.")
        facts = read_json(folder, RECEIPT_FILE)
        if facts.get("format") == FORMAT:
            check_shape(facts, RECEIPT_SHAPE, "receipt")
        receipt = Receipt.from_dict(facts)
        moments, subspace = read_moments(folder)
        earlier, found = read_earlier(folder, moments), read_found(folder)
        _check_spent(receipt, facts["spent"])
        _check_agreement(receipt, moments, subspace, found)
        _check_hashes(folder, facts["sha256"])
        table = _read_rows(folder, receipt)
    except ReleaseError:
        raise
    except SmoothsynthError as error:
        raise ReleaseError(f"{folder} is not a whole release: {error}") from error
    except OSError as error:
        raise ReleaseError(f"{folder} cannot be read: {error.strerror}.") from error
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ReleaseError(
            f"{folder} is not a whole release: a field is missing or has the wrong type ({type(error).__name__})."
        ) from error
    return Release(table=table, moments=moments, receipt=receipt, subspace=subspace, earlier=earlier, found=found)


def read_moments(folder: Path) -> tuple[tuple[NoisyMoments, ...], NoisySubspace | None]:
    """Read the released moments, and the products of a subspace iteration, if there are some."""
    document = read_json(folder, MOMENTS_FILE)
    check_shape(document, {"format": int, "moments": [_MOMENTS]}, "moments")
    if document["format"] != FORMAT or len(document["moments"]) > MOST_CHARGES:
        raise ReleaseError(f"{MOMENTS_FILE} must have format {FORMAT} and at most {MOST_CHARGES:,} measurements.")
    for m in document["moments"]:
        check_shape({key: m.get(key, []) for key in _MARKS}, _MARKS, "moments")
        check_shape(m.get("choice"), _CHOICE, "choice of pairs")
    moments = tuple(NoisyMoments.from_dict(m) for m in document["moments"])
    for m in moments:
        _check_figures((*m.integers, *m.measurement.weights))
    if "subspace" not in document:
        return moments, None
    check_shape(document["subspace"], _SUBSPACE, "subspace")
    subspace = NoisySubspace.from_dict(document["subspace"])
    _check_figures(z for product in subspace.products for z in product)
    return moments, subspace


def read_earlier(folder: Path, moments: tuple[NoisyMoments, ...]) -> tuple[NoisyMoments, ...]:
    """Read the moments of the release whose views were kept, if there is one: the same features, the same views."""
    facts = read_json(folder, MOMENTS_FILE).get("earlier", [])
    check_shape(facts, [_MOMENTS], "earlier moments")
    check_shape([m.get("choice") for m in facts], [_CHOICE], "choice of pairs")
    earlier = tuple(NoisyMoments.from_dict(m) for m in facts[:MOST_CHARGES])
    for m in earlier:
        _check_figures((*m.integers, *m.measurement.weights))
    seen = [[(m.features, m.measurement.view) for m in some] for some in (earlier, moments)]
    if earlier and (seen[0] != seen[1] or len(facts) != len(earlier)):
        raise ReleaseError("The moments must have the features and views of the earlier ones; they have not.")
    return earlier


def read_found(folder: Path) -> Found | None:
    """Read the noisy counts of private bounds and levels, if there are some."""
    facts = read_json(folder, MOMENTS_FILE).get("found")
    if facts is None:
        return None
    check_shape(facts, _FOUND, "search")
    if len(facts["rounds"]) + len(facts["levels"]) > MOST_CHARGES:
        raise ReleaseError(f"A search has at most {MOST_CHARGES:,} measurements; this one has more.")
    found = Found.from_dict(facts)
    for m in found.rounds:
        _check_figures((*m.integers, *m.measurement.weights))
    for levels in found.levels:
        _check_figures(count for _, count in levels.counts)
    return found


def _check_figures(integers: Iterable[int]) -> None:
    if any(abs(z) > _LARGEST for z in integers):
        raise ReleaseError(f"{MOMENTS_FILE} must have figures that noise can reach, and has larger ones.")


def _check_spent(receipt: Receipt, stated: dict[str, float]) -> None:
    """Refuse a receipt whose counts are beyond what can be measured, or whose charges do not add up to what it says."""
    if not receipt.rows_per_person <= receipt.rows <= MOST_ROWS or len(receipt.charges) > MOST_CHARGES:
        raise ReleaseError(f"The receipt must name at most {MOST_ROWS:,} rows and {MOST_CHARGES:,} charges.")
    spent = receipt.spent
    if spent.epsilon > receipt.budget.epsilon or spent.delta > receipt.budget.delta:
        raise ReleaseError("The receipt's charges must be within its budget; together they cost more.")
    if not math.isclose(spent.epsilon, stated["epsilon"], rel_tol=1e-6) or spent.delta != stated["delta"]:
        raise ReleaseError("The receipt's charges must add up to what it says was spent; they do not.")


def _check_agreement(
    receipt: Receipt, moments: tuple[NoisyMoments, ...], subspace: NoisySubspace | None, search: Found | None
) -> None:
    """Refuse moments of other rows, of columns that the schema does not have, or with another noise than was charged."""
    d, found = receipt.schema.dimensions, [(m.rows, m.measurement.rows_per_person) for m in moments]
    found += [(subspace.rows, subspace.measurement.rows_per_person)] if subspace else []
    if search is not None:
        found += [(m.rows, m.measurement.rows_per_person) for m in search.rounds]
        found += [(m.rows, m.measurement.rows_per_person) for m in search.levels]
    if any(pair != (receipt.rows, receipt.rows_per_person) for pair in found):
        raise ReleaseError("The moments must be of as many rows as the receipt names; they are not.")
    for m in moments:
        check_marks(m.measurement, receipt.schema)
    for view, features in ((m.measurement.view, m.features) for m in moments):
        used = [c for feature in features for term in feature.terms for c, _ in term]
        if not (all(0 <= c < d for c in used) if view is None else view.sees(d, used)):
            raise ReleaseError("The moments must be of the columns of the receipt's schema; they are not.")
    if subspace is not None and subspace.measurement.dimensions != d:
        raise ReleaseError("The subspace must be of the columns of the receipt's schema; it is not.")
    if search is not None and search.schema() != receipt.schema:
        raise ReleaseError(
            "The receipt's schema must be the one that follows from the counts in the search; it is not."
        )
    charges = [] if search is None else list(search.charges)
    charges += [charge for m in moments for charge in m.measurement.charges]
    charges += [subspace.measurement.charge()] * subspace.measurement.iterations if subspace else []
    if len(charges) != len(receipt.charges) or not all(map(_same, charges, receipt.charges)):
        raise ReleaseError("The receipt's charges must be those of the moments, one for one; they are not.")


def _same(one: Charge, other: Charge) -> bool:
    """Whether two charges are the same, up to the last digits of a sensitivity computed on another machine."""
    near = [math.isclose(getattr(one, name), getattr(other, name), rel_tol=1e-6) for name in _NEAR]
    exact = [name for name in (*_CHARGE, "delta") if name not in _NEAR]
    return all(near) and all(getattr(one, name) == getattr(other, name) for name in exact)


def _read_rows(folder: Path, receipt: Receipt) -> pyarrow.Table:
    import pyarrow
    from pyarrow import parquet

    types = [column.arrow_type() for column in receipt.schema.columns.values()]
    with plain_file(folder, ROWS_FILE).open("rb") as file:
        try:
            rows = parquet.ParquetFile(file)
            described = (tuple(rows.schema_arrow.names), rows.schema_arrow.types, rows.metadata.num_rows)
            if described != (receipt.schema.names, types, receipt.synthetic_rows):
                raise ReleaseError(f"{ROWS_FILE} does not have the columns, types or rows that the receipt names.")
            table = rows.read()
            table.validate(full=True)
        except (pyarrow.ArrowException, OSError, ValueError, EOFError) as error:
            raise ReleaseError(f"{ROWS_FILE} cannot be read as Parquet.") from error
    if table.num_rows != receipt.synthetic_rows or any(map(outside, receipt.schema.columns.values(), table.columns)):
        raise ReleaseError(f"{ROWS_FILE} must have a value that its column can take in every cell, and has not.")
    # What else a file says of its columns is for other programs, and is not taken over.
    return pyarrow.table(table.columns, names=list(receipt.schema.names))


def _check_hashes(folder: Path, hashes: dict[str, str]) -> None:
    for name in (ROWS_FILE, MOMENTS_FILE):
        if name not in hashes:
            raise ReleaseError(f"The receipt does not name {name}.")
    for name, digest in hashes.items():
        if sha256(plain_file(folder, name)) != digest:
            raise ReleaseError(f"{name:.80} is not the file that the receipt was written for.")


def plain_file(folder: Path, name: str) -> Path:
    """Return a file of the folder; not one elsewhere, behind a link that leaves it, or that is no plain file."""
    path = folder / name
    if Path(name).name != name or "\0" in name or not path.is_file():
        raise ReleaseError(f"{folder} is not a whole release: it has no file {name!r:.80}.")
    if path.resolve().parent != folder.resolve():
        raise ReleaseError(f"{name:.80} is a link that leaves the release folder. Put the file itself there.")
    return path


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Read a JSON file of the folder whose top level is an object."""
    path = plain_file(folder, name)
    try:
        if path.stat().st_size > _MOST_JSON_BYTES:
            raise ReleaseError(f"{name} is too large to be part of a release.")
        text = path.read_text(encoding="utf-8")
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise ReleaseError(f"{name} cannot be read as JSON with finite numbers and without double keys.") from error
    if not isinstance(document, dict):
        raise ReleaseError(f"{name} must hold a JSON object.")
    return document


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
