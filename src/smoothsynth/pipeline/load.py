"""Read a release folder, trusting nothing in it.

Free text in a release: what stands where a text may stand must be one that the software writes.

How large released sums can be:  |Z| <= n w + 40 deviations of the noise.  Larger ones could carry anything.

Load a release folder: its files by themselves first, then each against the others.

Read a release folder, trusting nothing in it: no code, sizes and types checked, everything held against the receipt.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import ReleaseError, SmoothsynthError
from smoothsynth.fit.result import is_outcome
from smoothsynth.methods.layout import CANDIDATES, FITS, LEAST_SQUARES, purpose_of
from smoothsynth.methods.options import METHODS
from smoothsynth.pipeline.documents import CHARGE, MOST_CHARGES, plain_file, read_measured, read_receipt
from smoothsynth.pipeline.metadata import METADATA_FILES
from smoothsynth.pipeline.release import (
    CSV_FILE,
    MOMENTS_FILE,
    PRIOR_FILE,
    REPORT_FILE,
    ROWS_FILE,
    Receipt,
    Release,
    sha256,
)
from smoothsynth.pipeline.stored_rows import check_sizes, read_prior, read_rows
from smoothsynth.queries.measurement import FULL_WEIGHT, MOST_ROWS, check_indicators
from smoothsynth.queries.soft_tables import Cells
from smoothsynth.schema.encoding import outside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow

    from smoothsynth.accounting.charges import Charge
    from smoothsynth.discovery.levels import NoisyLevels
    from smoothsynth.methods.paper import NoisySubspace
    from smoothsynth.pipeline.documents import Measured, Stated
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.schema import Schema

    Reached = tuple[str, Sequence[int], Sequence[float]]


NEEDED = {ROWS_FILE, MOMENTS_FILE}
KNOWN = NEEDED | METADATA_FILES | {CSV_FILE, REPORT_FILE, PRIOR_FILE}
# Versions of a source tree that is not installed have the second form.
_PART = r"(0|[1-9]\d{0,3})"
_SOFTWARE = re.compile(
    rf"smoothsynth ({_PART}(\.{_PART}){{2}}((a|b|rc){_PART})?(\.dev{_PART})?|0\.0\.0\+source)", re.ASCII
)
_MOST_SEED = 2**128


def strange_receipt(stated: Stated) -> Iterator[str]:
    """Say what a receipt has that no version writes: another software, a seed that is none, other files."""
    if not _SOFTWARE.fullmatch(stated.facts["software"]):
        yield "The receipt must say that smoothsynth wrote it, and which version; it says something else."
    if stated.facts["seed"] is not None and not 0 <= stated.facts["seed"] < _MOST_SEED:
        yield "The seed must be a whole number from 0 to 2^128 - 1; it is none."
    facts = stated.facts
    fits = (*FITS, LEAST_SQUARES)
    choices = ((facts["method"], tuple(METHODS)), (facts["candidates"], CANDIDATES), (facts["fit"]["method"], fits))
    for name in (name for name, known in choices if name not in known):
        yield f"The receipt names {name!r:.80}, which is no way to make rows."
    for name in stated.facts["sha256"]:
        if name not in KNOWN:
            yield f"The receipt names {name!r:.80}, which no release has."


def strange_sentences(stated: Stated, measured: Measured) -> Iterator[str]:
    """Say which sentences, beside those that follow from figures, this version does not write.

    The purposes of a search follow from its schema.
    """
    fit, schema = stated.facts["fit"], stated.receipt.schema
    if not is_outcome(fit["outcome"], schema.names, method=fit["method"], converged=fit["converged"]):
        yield "The outcome of the fit must be one of the sentences that say how such a fit ended; it is another."
    counted = any(m.measurement.family.shares for m in measured.moments)
    if counted and (stated.facts["candidates"], fit["method"]) != ("model", "maximum entropy"):
        yield "Soft counts tell a model of the columns; the receipt names another way to make rows."
    if measured.subspace is not None and stated.facts["candidates"] != "ellipsoid":
        yield "Candidates of a release with a subspace must be those of its ellipsoid; the receipt names others."
    for number, noisy in enumerate(measured.moments, start=1):
        if noisy.measurement.purpose != purpose_of(noisy.measurement, schema, method=stated.facts["method"]):
            yield f"The purpose of measurement {number} must be the one of such features in a plan; it is another."


# P(noise beyond 40 deviations) is below e^-50 for every mechanism.
DEVIATIONS = 40.0


def check_reach(measured: Measured) -> int:
    """Refuse sums that rows and noise cannot reach, of an earlier release too; return how many sums there are."""
    total = 0
    for name, sums, most in _reached(measured):
        total += len(sums)
        if beyond := sum(abs(z) > bound for z, bound in zip(sums, most, strict=True)):
            raise ReleaseError(f"Sums must be within what rows and noise can reach; {beyond:,} {name} are not.")
    return total


def _reached(measured: Measured) -> Iterator[Reached]:
    if measured.found is not None:
        yield from (_of_moments(f"of round {i} of the bounds", m) for i, m in enumerate(measured.found.rounds, start=1))
        yield from map(_of_levels, measured.found.levels)
        yield from () if measured.found.codes is None else [_of_moments("of the codes", measured.found.codes)]
    yield from (_of_moments(f"of measurement {i}", m) for i, m in enumerate(measured.moments, start=1))
    yield from (_of_moments(f"of earlier measurement {i}", m) for i, m in enumerate(measured.earlier, start=1))
    if measured.subspace is not None:
        yield _of_products(measured.subspace)


def _of_moments(name: str, noisy: NoisyMoments) -> Reached:
    noise = DEVIATIONS * noisy.measurement.charge().deviation
    return name, noisy.integers, (noisy.rows * noisy.measurement.all_weights + noise).tolist()


def _of_levels(levels: NoisyLevels) -> Reached:
    most = levels.rows + DEVIATIONS * levels.measurement.charge().deviation
    return "counts of levels", [count for _, count in levels.counts], [most] * len(levels.counts)


def _of_products(subspace: NoisySubspace) -> Reached:
    m = subspace.measurement
    # Entries of a covariance are at most 1, directions have length 1 (up to the lattice).
    longest = 1.01 * subspace.rows * FULL_WEIGHT * math.sqrt(m.dimensions)
    products = [z for product in subspace.products for z in product]
    return "products of the subspace iteration", products, [longest + DEVIATIONS * m.charge().deviation] * len(products)


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
        check_sizes(folder, receipt.schema, receipt.synthetic_rows, prior_rows=receipt.prior_rows)
        _check_hashes(folder, stated.facts["sha256"])
        table, prior = _read_rows(folder, receipt), prior_of(folder, receipt.schema, receipt.prior_rows)
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
    return Release(table, measured.moments, receipt, measured.subspace, measured.earlier, measured.found, prior)


def _check_spent(receipt: Receipt, stated: dict[str, float]) -> None:
    """Refuse a receipt whose counts are beyond what can be measured, or whose charges do not add up to what it says."""
    if not receipt.together[0] <= receipt.rows <= MOST_ROWS or len(receipt.charges) > MOST_CHARGES:
        raise ReleaseError(f"The receipt must name at most {MOST_ROWS:,} rows and {MOST_CHARGES:,} charges.")
    spent = receipt.spent
    if spent.epsilon > receipt.budget.epsilon or spent.delta > receipt.budget.delta:
        raise ReleaseError("The receipt's charges must be within its budget; together they cost more.")
    if not math.isclose(spent.epsilon, stated["epsilon"], rel_tol=1e-6) or spent.delta != stated["delta"]:
        raise ReleaseError("The receipt's charges must add up to what it says was spent; they do not.")


def _check_agreement(receipt: Receipt, measured: Measured) -> None:
    """Refuse moments of other rows, of columns that the schema does not have, or with another noise than was charged."""
    moments, subspace, search = measured.moments, measured.subspace, measured.found
    d = receipt.schema.dimensions
    found: list[Any] = [*moments, *([subspace] if subspace else ())]
    found += [] if search is None else search.noisy
    if any(one.rows != receipt.rows or together(one.measurement) != receipt.together for one in found):
        raise ReleaseError("The moments must be of as many rows as the receipt names; they are not.")
    for m in moments:
        check_indicators(m.measurement, receipt.schema)
    for transformation, features in ((m.measurement.transformation, m.features) for m in moments):
        cells = isinstance(features, Cells)
        used = [] if cells else [c for feature in features for term in feature.terms for c, _ in term]
        if not (all(0 <= c < d for c in used) if transformation is None else transformation.sees(d, used)):
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
    # What an earlier format has of pairs of columns, and is left out, came last: it must have been charged too.
    if len(charges) + measured.left_out != len(receipt.charges) or not all(map(_same, charges, receipt.charges)):
        raise ReleaseError("The receipt's charges must be those of the moments, one for one; they are not.")


def together(measurement: Any) -> tuple[int, int]:
    """Return how many rows a measurement protects together, and how many of a person it averages."""
    return measurement.rows_per_person, getattr(measurement, "averaged", 1)


def _check_form(stated: Stated, measured: Measured) -> None:
    """Refuse files that say more than a release, and, if this version wrote them, sentences that it does not write."""
    stated.check_form()
    measured.check_form(stated.receipt.format)
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


def prior_of(folder: Path, schema: Schema, count: int) -> pyarrow.Table | None:
    """Read the public rows of a prior, if the receipt says that there are some."""
    if count:
        return read_prior(plain_file(folder, PRIOR_FILE), schema, count)
    if (folder / PRIOR_FILE).exists():
        raise ReleaseError(f"{PRIOR_FILE} is there, and the receipt says nothing of a prior.")
    return None


def _check_hashes(folder: Path, hashes: dict[str, str]) -> None:
    for name in (ROWS_FILE, MOMENTS_FILE):
        if name not in hashes:
            raise ReleaseError(f"The receipt does not name {name}.")
    for name, digest in hashes.items():
        if sha256(plain_file(folder, name)) != digest:
            raise ReleaseError(f"{name!r:.80} is not the file that the receipt was written for.")
