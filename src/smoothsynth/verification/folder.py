"""Read files without believing them.

What a release folder says, read without believing it: types and sizes are checked, nothing is compared yet.

Hold the files against the receipt: those it was written for, and no others; and against what the writer writes.

Hold the synthetic rows against the schema in the receipt.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import ReleaseError, SmoothsynthError
from smoothsynth.pipeline.documents import Measured, Stated, plain_file, read_measured, read_receipt
from smoothsynth.pipeline.load import KNOWN, NEEDED, prior_of
from smoothsynth.pipeline.release import MOMENTS_FILE, PRIOR_FILE, RECEIPT_FILE, ROWS_FILE, Release, sha256
from smoothsynth.pipeline.stored_rows import check_sizes, read_rows
from smoothsynth.queries.measurement import Choosing
from smoothsynth.schema import Category, Schema
from smoothsynth.schema.constraints import broken
from smoothsynth.schema.encoding import as_numbers, outside
from smoothsynth.verification.check import Check, verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow

    from smoothsynth.discovery.levels import LevelsMeasurement
    from smoothsynth.discovery.search import Found
    from smoothsynth.methods.paper import NoisySubspace, SubspaceMeasurement
    from smoothsynth.queries.measurement import Measurement, NoisyMoments
    from smoothsynth.schema import Column


@dataclass(frozen=True, slots=True)
class Evidence:
    """The receipt as plain values, the schema in it, and the moments and rows; why some cannot be read."""

    folder: Path
    stated: Stated
    schema: Schema
    fingerprint: str
    measured: Measured
    table: pyarrow.Table
    unreadable: dict[str, str]
    prior: pyarrow.Table | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The receipt as plain values."""
        return self.stated.facts

    @property
    def moments(self) -> tuple[NoisyMoments, ...]:
        """The released moments."""
        return self.measured.moments

    @property
    def subspace(self) -> NoisySubspace | None:
        """The products of a subspace iteration, if there was one."""
        return self.measured.subspace

    @property
    def earlier(self) -> tuple[NoisyMoments, ...]:
        """The moments of the release whose transformations were kept, if there is one."""
        return self.measured.earlier

    @property
    def found(self) -> Found | None:
        """The noisy counts of private bounds, levels and codes, if there are some."""
        return self.measured.found

    @property
    def measurements(self) -> list[LevelsMeasurement | Choosing | Measurement | SubspaceMeasurement]:
        """What was measured or chosen, once for each charge there should be."""
        measured: list[LevelsMeasurement | Choosing | Measurement | SubspaceMeasurement] = []
        measured += [] if self.found is None else self.found.measurements
        for m in (noisy.measurement for noisy in self.moments):
            measured += [m] if m.choice is None else [Choosing(m), m]
        if self.subspace is not None:
            measured += [self.subspace.measurement] * self.subspace.measurement.iterations
        return measured

    @property
    def modelled(self) -> bool:
        """Whether the receipt says that rows were drawn from a model that learned from all moments."""
        return (self.facts["candidates"], self.facts["fit"]["method"]) == ("model", "maximum entropy")

    def release(self) -> Release:
        """Return the release that the folder says it is, if it can be one."""
        m = self.measured
        return Release(self.table, m.moments, self.stated.receipt, m.subspace, m.earlier, m.found, self.prior)


def read_evidence(path: str | Path) -> Evidence:
    """Read receipt, moments and rows; a folder without a receipt that can be read is no release."""
    folder = Path(path)
    try:
        if not folder.is_dir():
            raise ReleaseError(f"{folder} is not a release folder: there is no such folder.")
        stated = read_receipt(folder)
        schema, fingerprint = Schema.from_facts(stated.facts["schema"]), sha256(plain_file(folder, RECEIPT_FILE))
        check_sizes(folder, schema, stated.facts["synthetic_rows"], prior_rows=stated.prior_rows)
    except ReleaseError:
        raise
    except SmoothsynthError as error:
        raise ReleaseError(f"{folder} is not a whole release: {error}") from error
    except (OSError, ValueError) as error:
        raise ReleaseError(f"{folder} cannot be read: {getattr(error, 'strerror', 'it is not a path')}.") from error
    except MemoryError as error:
        raise ReleaseError(f"{folder} cannot be read: its receipt does not fit into memory.") from error
    measured = Measured("", (), None, (), None)
    table: pyarrow.Table = None
    unreadable: dict[str, str] = {}
    # Whatever is wrong with a file from outside, the answer is that it cannot be read.
    try:
        measured = read_measured(folder)
    except Exception as error:
        unreadable["moments"] = _words(MOMENTS_FILE, error)
    try:
        table = read_rows(plain_file(folder, ROWS_FILE), schema, stated.facts["synthetic_rows"])
    except Exception as error:
        unreadable["rows"] = _words(ROWS_FILE, error)
    prior: pyarrow.Table = None
    try:
        prior = prior_of(folder, schema, stated.prior_rows)
    except Exception as error:
        unreadable["prior"] = _words(PRIOR_FILE, error)
    return Evidence(folder, stated, schema, fingerprint, measured, table, unreadable, prior)


def _words(name: str, error: Exception) -> str:
    return str(error) if isinstance(error, SmoothsynthError) else f"{name} cannot be read ({type(error).__name__})."


def check_files(evidence: Evidence) -> list[Check]:
    """Hold the names in the folder against those in the receipt; links and unknown files are refused."""
    named = set(evidence.facts["sha256"])
    found = {path.name for path in evidence.folder.iterdir()} - {RECEIPT_FILE}
    problems = [f"The receipt does not name {name}." for name in sorted(NEEDED - named)]
    problems += [f"The receipt names {name!r:.80}, which no release has." for name in sorted(named - KNOWN)]
    problems += [f"{name!r:.80} is named in the receipt and is not there." for name in sorted(named - found)]
    problems += [f"{name!r:.80} is there and not named in the receipt." for name in sorted(found - named)]
    for name in sorted({*(found & named), RECEIPT_FILE}):
        path = evidence.folder / name
        if path.is_symlink() or not path.is_file():
            problems.append(f"{name!r:.80} is a link or no plain file.")
    return verdict("files", problems, f"{len(found) + 1} files, each named in the receipt, and nothing else.")


def check_hashes(evidence: Evidence) -> list[Check]:
    """Compute the SHA-256 of every file that the receipt names."""
    hashes = evidence.facts["sha256"]
    problems, size = [], 0
    for name, digest in sorted(hashes.items()):
        path = plain_file(evidence.folder, name)
        size += path.stat().st_size
        if sha256(path) != digest:
            problems.append(f"{name!r:.80} is not the file that the receipt was written for.")
    return verdict("hashes", problems, f"{len(hashes)} files ({size:,} bytes) have the SHA-256 in the receipt.")


def check_form(evidence: Evidence) -> list[Check]:
    """Write receipt and moments again from the values in them, and compare: nothing else may be in the files."""
    problems = []
    checks: list[Callable[[], None]] = [evidence.stated.check_form]
    if "moments" not in evidence.unreadable:
        checks.append(partial(evidence.measured.check_form, evidence.stated.receipt.format))
    for check in checks:
        try:
            check()
        except SmoothsynthError as error:
            problems.append(str(error))
    if "moments" not in evidence.unreadable and evidence.measured.left_out and not problems:
        words = "Receipt and moments, written again, are the same; some moments are of an earlier format, and were left out."
        return [Check("form", "note", words, compared=False)]
    return verdict(
        "form", problems, "Receipt and moments, written again from their values, are the same byte for byte."
    )


def check_rows(evidence: Evidence) -> list[Check]:
    """Look at every value: each is one that its column can take."""
    table = evidence.table
    problems = [
        f"Column {name!r:.80}: {problem}."
        for name, column in evidence.schema.columns.items()
        if (problem := _problem(column, table[name]))
    ]
    size = f"{table.num_rows:,} rows x {table.num_columns} columns"
    return verdict("rows", problems, f"{size} of the right types; every value is there and within its bounds.")


def check_prior(evidence: Evidence) -> list[Check]:
    """Say that there are public rows which the model began with: nothing here can show that they were public."""
    if evidence.prior is None:
        return []
    words = (
        f"The model began with the {evidence.prior.num_rows:,} rows of {PRIOR_FILE}, public by the word of its owner."
    )
    return [Check("prior", "note", words)]


def check_constraints(evidence: Evidence) -> list[Check]:
    """Hold the rows against the constraints of the schema, if it has any: no row breaks a relation."""
    schema = evidence.schema
    if not schema.constraints:
        return []
    table = {name: evidence.table[name] for name in schema.names}
    relations = () if schema.rules is None else schema.rules.relations
    counts = [(relation.text, int(broken(relation, table, schema.columns).sum())) for relation in relations]
    if schema.edits is not None:
        values = {name: as_numbers(column, table[name]) for name, column in schema.columns.items()}
        counts += schema.edits.broken(values).items()
    problems = [f"{count:,} rows break the constraint {text!r:.200}." for text, count in counts if count]
    words = (
        f"No row breaks one of {len(counts):,} relations." if counts else "There are public moments only, no relations."
    )
    return verdict("constraints", problems, words)


def _problem(column: Column, values: pyarrow.ChunkedArray) -> str | None:
    if values.null_count and not column.nullable:
        return f"{values.null_count:,} values are missing"
    beyond = outside(column, values)
    if not beyond:
        return None
    if isinstance(column, Category):
        return f"{beyond:,} values are none of its levels"
    return f"{beyond:,} values are not within {column.lower} to {column.upper}"
