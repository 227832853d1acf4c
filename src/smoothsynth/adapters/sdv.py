"""A synthesizer with the habits of SDV: `fit`, `sample(num_rows)`, `save`, `load`; and its metadata as a schema."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth.adapters import frames
from smoothsynth.adapters.drawing import draw
from smoothsynth.adapters.sdv_dates import iso_dates
from smoothsynth.adapters.sdv_metadata import date_formats, plain, read_metadata, write_metadata
from smoothsynth.errors import ReleaseError
from smoothsynth.pipeline.load import load
from smoothsynth.pipeline.release import CSV_FILE, MOMENTS_FILE, RECEIPT_FILE, REPORT_FILE, ROWS_FILE
from smoothsynth.pipeline.run import release

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smoothsynth.adapters.sdv_metadata import Metadata
    from smoothsynth.pipeline.release import Release

__all__ = ["SmoothSynthesizer", "read_metadata", "write_metadata"]

_DATES_FILE = "dates.json"
_FILES = {ROWS_FILE, MOMENTS_FILE, RECEIPT_FILE, CSV_FILE, REPORT_FILE, _DATES_FILE}
_MOST_BYTES = 2**32


class SmoothSynthesizer:
    """A synthesizer with SDV's habits: `fit(frame)`, `sample(num_rows=...)`, `save(path)`, `load(path)`.

    What the metadata does not say (`bounds`, `levels`, `nullable`, ...) is given as to `read_metadata`. The other choices are
    those of `smoothsynth.pipeline.release`. Each `fit` spends epsilon again.
    """

    def __init__(
        self,
        metadata: Metadata,
        epsilon: float = 1.0,
        *,
        delta: float = 0.0,
        bounds: Mapping[str, tuple[Any, Any]] | None = None,
        levels: Mapping[str, Sequence[str | int]] | None = None,
        nullable: Sequence[str] = (),
        whole: Sequence[str] = (),
        leave_out: Sequence[str] = (),
        table: str | None = None,
        ranges_are_public: bool = False,
        seed: int | None = None,
        **choices: Any,
    ) -> None:
        self.metadata = plain(metadata)
        self.schema = read_metadata(
            self.metadata,
            bounds=bounds,
            levels=levels,
            nullable=nullable,
            whole=whole,
            leave_out=leave_out,
            table=table,
            ranges_are_public=ranges_are_public,
        )
        self.release: Release | None = None
        self._formats = {
            name: form for name, form in date_formats(self.metadata, table).items() if name in self.schema.names
        }
        self._settings = {"epsilon": epsilon, "delta": delta, "seed": seed, **choices}
        self._kind = frames.Kind("pandas")
        # Dates that came as text, and go out as such.
        self._written: dict[str, str] = {}

    def fit(self, data: Any) -> None:
        """Make a release of a frame; dates that are text in pandas are read by the datetime_format of the metadata."""
        kind = frames.kind_of(data)
        texts = _text_columns(data) if kind.library == "pandas" else ()
        written = {name: form for name, form in self._formats.items() if name in texts}
        if written:
            import pandas

            # Each cell by itself: pandas.to_datetime takes one unit of time for all, as some cell needs it.
            dates = {name: iso_dates(data[name].tolist(), form) for name, form in written.items()}
            data = data.assign(**{name: pandas.Series(d, dtype=object, index=data.index) for name, d in dates.items()})
        self.release = release(data, schema=self.schema, **self._settings)
        self._kind, self._written = kind, written

    def sample(self, num_rows: int | None = None) -> Any:
        """Return rows as the kind of frame that was fitted: those of the release, or `num_rows` new ones, free of cost."""
        made = self._fitted()
        rows = self._kind.of(made.table if num_rows is None else draw(made, num_rows, seed=self._settings["seed"]))
        for name, form in self._written.items():
            import pandas

            rows[name] = pandas.to_datetime(rows[name]).dt.strftime(form)
        return rows

    def get_metadata(self) -> Mapping[str, Any]:
        """Return the metadata as it was given, or, after `load`, that of the schema."""
        return self.metadata

    def save(self, filepath: str | Path) -> None:
        """Write the release folder as one zip file, and how dates are written. Nothing in it is private.

        The metadata is left out: SDV may have detected ranges in the data.
        """
        made, target = self._fitted(), Path(filepath)
        try:
            with tempfile.TemporaryDirectory(dir=target.resolve().parent, prefix=".saving.") as place:
                folder, packed = Path(place) / "release", Path(place) / "packed"
                made.write(folder)
                (folder / _DATES_FILE).write_text(json.dumps(self._written), encoding="utf-8")
                with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
                    for part in sorted(folder.iterdir()):
                        file.write(part, part.name)
                packed.replace(target)
        except OSError as error:
            raise ReleaseError(f"{target} cannot be written: {error.strerror or error}.") from error

    @classmethod
    def load(cls, filepath: str | Path) -> SmoothSynthesizer:
        """Read what `save` wrote; the release in it is checked like any other. It is no pickle: no code in it is run."""
        with tempfile.TemporaryDirectory() as place:
            written = _unpack(Path(filepath), Path(place))
            made = load(place)
        receipt = made.receipt
        found = cls(
            write_metadata(made.schema),
            receipt.budget.epsilon,
            delta=receipt.budget.delta,
            ranges_are_public=True,
            seed=receipt.seed,
            method=receipt.method,
        )
        found.schema, found.release = made.schema, made
        found._formats |= written
        found._written = {name: form for name, form in written.items() if name in made.schema.names}
        return found

    def _fitted(self) -> Release:
        if self.release is None:
            raise ReleaseError("There is nothing to sample from or save yet. Call fit(frame) first.")
        return self.release


def _text_columns(frame: Any) -> frozenset[str]:
    """Return the columns that hold text or objects; a name that several columns have is refused later."""
    named = Counter(frame.columns)
    kinds = frame.dtypes.items()
    return frozenset(n for n, kind in kinds if named[n] == 1 and (kind.kind in "OU" or kind == "string"))


def _unpack(path: Path, folder: Path) -> dict[str, str]:
    """Put the known files of a zip file into a folder, and return how dates are written."""
    # Whatever is wrong with a file from outside, the answer is that it cannot be read.
    try:
        with zipfile.ZipFile(path) as file:
            parts = file.infolist()
            if {part.filename for part in parts} - _FILES or sum(part.file_size for part in parts) > _MOST_BYTES:
                raise ReleaseError(f"{path} holds something else than one release. It was not written by save.")
            for part in parts:
                (folder / part.filename).write_bytes(file.read(part))
        written = json.loads((folder / _DATES_FILE).read_text(encoding="utf-8"))
        (folder / _DATES_FILE).unlink()
        return {str(name): str(form) for name, form in written.items()}
    except ReleaseError:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or "it was not written by save, or is damaged"
    raise ReleaseError(f"{path} cannot be read: {reason}.")
