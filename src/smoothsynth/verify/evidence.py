"""What a release folder says, read without believing it: types and sizes are checked, nothing is compared yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import ReleaseError, SmoothsynthError
from smoothsynth.loading import (
    MOST_CHARGES,
    RECEIPT_SHAPE,
    check_shape,
    plain_file,
    read_earlier,
    read_found,
    read_json,
    read_moments,
)
from smoothsynth.release import FORMAT, MOMENTS_FILE, RECEIPT_FILE, ROWS_FILE, sha256
from smoothsynth.schema import Schema
from smoothsynth.verify.rows import read_rows

if TYPE_CHECKING:
    import pyarrow

    from smoothsynth.choice import PairChoice
    from smoothsynth.discovery.found import Found
    from smoothsynth.discovery.levels import LevelsMeasurement
    from smoothsynth.moments import Measurement, NoisyMoments
    from smoothsynth.subspace import NoisySubspace, SubspaceMeasurement


@dataclass(frozen=True, slots=True)
class Evidence:
    """The receipt as plain values, the schema in it, and the moments and rows; why some cannot be read."""

    folder: Path
    facts: dict[str, Any]
    schema: Schema
    fingerprint: str
    moments: tuple[NoisyMoments, ...]
    subspace: NoisySubspace | None
    table: pyarrow.Table
    unreadable: dict[str, str]
    earlier: tuple[NoisyMoments, ...] = ()
    found: Found | None = None

    @property
    def measurements(self) -> list[LevelsMeasurement | PairChoice | Measurement | SubspaceMeasurement]:
        """What was measured or chosen, once for each charge there should be."""
        measured: list[LevelsMeasurement | PairChoice | Measurement | SubspaceMeasurement] = []
        measured += [] if self.found is None else self.found.measurements
        for m in (noisy.measurement for noisy in self.moments):
            measured += [m] if m.choice is None else [m.choice, m]
        if self.subspace is not None:
            measured += [self.subspace.measurement] * self.subspace.measurement.iterations
        return measured

    @property
    def modelled(self) -> bool:
        """Whether the receipt says that rows were drawn from a model that learned from all moments."""
        return (self.facts["candidates"], self.facts["fit"]["method"]) == ("model", "maximum entropy")


def read_evidence(path: str | Path) -> Evidence:
    """Read receipt, moments and rows; a folder without a receipt that can be read is no release."""
    folder = Path(path)
    try:
        facts = _read_receipt(folder)
        schema, fingerprint = Schema.from_facts(facts["schema"]), sha256(plain_file(folder, RECEIPT_FILE))
    except ReleaseError:
        raise
    except SmoothsynthError as error:
        raise ReleaseError(f"{folder} is not a whole release: {error}") from error
    except (OSError, ValueError) as error:
        raise ReleaseError(f"{folder} cannot be read: {getattr(error, 'strerror', 'it is not a path')}.") from error
    moments: tuple[NoisyMoments, ...] = ()
    earlier: tuple[NoisyMoments, ...] = ()
    found: Found | None = None
    subspace: NoisySubspace | None = None
    table: pyarrow.Table = None
    unreadable: dict[str, str] = {}
    # Whatever is wrong with a file from outside, the answer is that it cannot be read.
    try:
        moments, subspace = read_moments(folder)
        earlier, found = read_earlier(folder, moments), read_found(folder)
    except Exception as error:
        unreadable["moments"] = _words(MOMENTS_FILE, error)
    try:
        table = read_rows(plain_file(folder, ROWS_FILE), facts["synthetic_rows"], schema=schema)
    except Exception as error:
        unreadable["rows"] = _words(ROWS_FILE, error)
    return Evidence(folder, facts, schema, fingerprint, moments, subspace, table, unreadable, earlier, found)


def _read_receipt(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise ReleaseError(f"{folder} is not a release folder: there is no such folder.")
    facts = read_json(folder, RECEIPT_FILE)
    if facts.get("format") != FORMAT:
        raise ReleaseError(
            f"The receipt must have format {FORMAT}, and has not. Verify it with the version that wrote it."
        )
    check_shape(facts, RECEIPT_SHAPE, "receipt")
    if len(facts["charges"]) > MOST_CHARGES:
        raise ReleaseError(f"A receipt has at most {MOST_CHARGES:,} charges; this one has more. It is not one of ours.")
    return facts


def _words(name: str, error: Exception) -> str:
    return str(error) if isinstance(error, SmoothsynthError) else f"{name} cannot be read ({type(error).__name__})."
