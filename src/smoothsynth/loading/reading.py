"""Load a release folder: its files by themselves first, then each against the others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from smoothsynth.errors import ReleaseError, SmoothsynthError
from smoothsynth.loading.documents import MOST_CHARGES, read_measured, read_receipt
from smoothsynth.loading.files import plain_file
from smoothsynth.loading.reach import check_reach
from smoothsynth.loading.rows import read_rows
from smoothsynth.loading.shapes import CHARGE
from smoothsynth.loading.sizes import check_sizes
from smoothsynth.loading.wording import strange_receipt, strange_sentences
from smoothsynth.queries.measurement import MOST_ROWS, check_marks
from smoothsynth.release import MOMENTS_FILE, ROWS_FILE, Receipt, Release, sha256
from smoothsynth.schema.encoding import outside

if TYPE_CHECKING:
    import pyarrow

    from smoothsynth.accounting.charges import Charge
    from smoothsynth.loading.documents import Measured, Stated

_NEAR = ("sensitivity", "scale")


def load(path: str | Path) -> Release:
    """Read a release folder, trusting nothing in it.

    Only plain files of the folder itself are opened; every value must have its type, every figure must be finite,
    nothing else may be there, and the receipt, the moments and the rows must agree with each other.
    """
    folder = Path(path)
    try:
        if not folder.is_dir():
            raise ReleaseError(f"{folder} is not a release folder: there is no such folder.")
        stated, measured = read_receipt(folder), read_measured(folder)
        receipt = stated.receipt
        _check_spent(receipt, stated.facts["spent"])
        _check_agreement(receipt, measured)
        check_reach(measured)
        _check_form(stated, measured)
        check_sizes(folder, receipt.schema, receipt.synthetic_rows)
        _check_hashes(folder, stated.facts["sha256"])
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
    return Release(table, measured.moments, receipt, measured.subspace, measured.earlier, measured.found)


def _check_spent(receipt: Receipt, stated: dict[str, float]) -> None:
    """Refuse a receipt whose counts are beyond what can be measured, or whose charges do not add up to what it says."""
    if not receipt.rows_per_person <= receipt.rows <= MOST_ROWS or len(receipt.charges) > MOST_CHARGES:
        raise ReleaseError(f"The receipt must name at most {MOST_ROWS:,} rows and {MOST_CHARGES:,} charges.")
    spent = receipt.spent
    if spent.epsilon > receipt.budget.epsilon or spent.delta > receipt.budget.delta:
        raise ReleaseError("The receipt's charges must be within its budget; together they cost more.")
    if not math.isclose(spent.epsilon, stated["epsilon"], rel_tol=1e-6) or spent.delta != stated["delta"]:
        raise ReleaseError("The receipt's charges must add up to what it says was spent; they do not.")


def _check_agreement(receipt: Receipt, measured: Measured) -> None:
    """Refuse moments of other rows, of columns that the schema does not have, or with another noise than was charged."""
    moments, subspace, search = measured.moments, measured.subspace, measured.found
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


def _check_form(stated: Stated, measured: Measured) -> None:
    """Refuse files that say more than a release, and, if this version wrote them, sentences that it does not write."""
    stated.check_form()
    measured.check_form()
    strange = [*strange_receipt(stated), *(strange_sentences(stated, measured) if stated.receipt.ours else ())]
    if strange:
        raise ReleaseError(strange[0])


def _same(one: Charge, other: Charge) -> bool:
    """Whether two charges are the same, up to the last digits of a sensitivity computed on another machine."""
    near = [math.isclose(getattr(one, name), getattr(other, name), rel_tol=1e-6) for name in _NEAR]
    exact = [name for name in (*CHARGE, "delta") if name not in _NEAR]
    return all(near) and all(getattr(one, name) == getattr(other, name) for name in exact)


def _read_rows(folder: Path, receipt: Receipt) -> pyarrow.Table:
    table = read_rows(plain_file(folder, ROWS_FILE), receipt.schema, receipt.synthetic_rows)
    if any(map(outside, receipt.schema.columns.values(), table.columns)):
        raise ReleaseError(f"{ROWS_FILE} must have a value that its column can take in every cell, and has not.")
    return table


def _check_hashes(folder: Path, hashes: dict[str, str]) -> None:
    for name in (ROWS_FILE, MOMENTS_FILE):
        if name not in hashes:
            raise ReleaseError(f"The receipt does not name {name}.")
    for name, digest in hashes.items():
        if sha256(plain_file(folder, name)) != digest:
            raise ReleaseError(f"{name!r:.80} is not the file that the receipt was written for.")
