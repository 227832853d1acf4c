"""What a release folder says, read without believing it: types and sizes are checked, nothing is compared yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import ReleaseError, SmoothsynthError
from smoothsynth.loading.documents import Measured, Stated, read_measured, read_receipt
from smoothsynth.loading.files import plain_file
from smoothsynth.loading.rows import read_rows
from smoothsynth.loading.sizes import check_sizes
from smoothsynth.release import MOMENTS_FILE, RECEIPT_FILE, ROWS_FILE, Release, sha256
from smoothsynth.schema import Schema

if TYPE_CHECKING:
    import pyarrow

    from smoothsynth.discovery.levels import LevelsMeasurement
    from smoothsynth.discovery.search import Found
    from smoothsynth.methods.paper import NoisySubspace, SubspaceMeasurement
    from smoothsynth.queries.measurement import Measurement, NoisyMoments
    from smoothsynth.queries.selection import PairChoice


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
        """The moments of the release whose views were kept, if there is one."""
        return self.measured.earlier

    @property
    def found(self) -> Found | None:
        """The noisy counts of private bounds and levels, if there are some."""
        return self.measured.found

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

    def release(self) -> Release:
        """Return the release that the folder says it is, if it can be one."""
        m = self.measured
        return Release(self.table, m.moments, self.stated.receipt, m.subspace, m.earlier, m.found)


def read_evidence(path: str | Path) -> Evidence:
    """Read receipt, moments and rows; a folder without a receipt that can be read is no release."""
    folder = Path(path)
    try:
        if not folder.is_dir():
            raise ReleaseError(f"{folder} is not a release folder: there is no such folder.")
        stated = read_receipt(folder)
        schema, fingerprint = Schema.from_facts(stated.facts["schema"]), sha256(plain_file(folder, RECEIPT_FILE))
        check_sizes(folder, schema, stated.facts["synthetic_rows"])
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
    return Evidence(folder, stated, schema, fingerprint, measured, table, unreadable)


def _words(name: str, error: Exception) -> str:
    return str(error) if isinstance(error, SmoothsynthError) else f"{name} cannot be read ({type(error).__name__})."
