"""A synthesizer that SmartNoise can create: `snsynth.Synthesizer.create("smoothsynth", epsilon=1.0, schema=schema)`.

SmartNoise looks a name up in its own list of synthesizers: `register` adds this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.adapters import frames
from smoothsynth.adapters.frames import draw
from smoothsynth.errors import DataError, PlanError, ReleaseError, SchemaError
from smoothsynth.pipeline.run import release
from smoothsynth.schema import WHY_PUBLIC, Schema

try:
    from snsynth.base import Synthesizer, synth_map
except ModuleNotFoundError as error:
    if error.name != "snsynth":
        raise
    # The page of the reference describes this class where SmartNoise, with PyTorch behind it, is not installed.
    Synthesizer, synth_map = object, None

if TYPE_CHECKING:
    import pyarrow

NAME = "smoothsynth"


def register() -> None:
    """Make `snsynth.Synthesizer.create("smoothsynth", ...)` known to SmartNoise, in this process."""
    if synth_map is None:
        raise PlanError("SmartNoise is not installed. Run: pip install 'smoothsynth[smartnoise]'")
    synth_map[NAME] = {"class": f"{SmoothSynthesizer.__module__}.{SmoothSynthesizer.__name__}"}


class SmoothSynthesizer(Synthesizer):  # type: ignore[misc]
    """A SmartNoise synthesizer for tables with a public schema; `fit_sample` and `sample_conditional` are SmartNoise's own.

    `schema` replaces SmartNoise's transformers: it says the type and the public bounds or levels of each column, so nothing
    is inferred from the data and no `preprocessor_eps` is spent. The other choices are those of `smoothsynth.release`.
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float = 0.0,
        *,
        schema: Schema | None = None,
        seed: int | None = None,
        **choices: Any,
    ) -> None:
        if epsilon is None:
            raise PlanError("A synthesizer needs a budget; give epsilon, such as epsilon=1.0.")
        if not isinstance(schema, Schema):
            raise SchemaError(f"Give schema=smoothsynth.Schema({{'age': Number(0, 120), ...}}). {WHY_PUBLIC}")
        self.epsilon, self.delta, self.schema, self.seed, self.choices = epsilon, delta, schema, seed, choices
        self.release: Any = None
        self._kind: frames.Kind | None = None

    def fit(
        self, data: Any, *_ignored: Any, transformer: Any = None, preprocessor_eps: float | None = 0.0, **_hints: Any
    ) -> None:
        """Make a release of a pandas frame, an array or a list of tuples; hints about the types of columns are not needed."""
        if transformer is not None or preprocessor_eps:
            raise PlanError(
                "The schema says what SmartNoise would learn with a transformer and preprocessor_eps. Leave both out, "
                "and put bounds and levels into the schema."
            )
        rows, kind = self._rows(data)
        self.release = release(
            rows, schema=self.schema, epsilon=self.epsilon, delta=self.delta, seed=self.seed, **self.choices
        )
        self._kind = kind

    def sample(self, n_rows: int) -> Any:
        """Return `n_rows` synthetic rows, free of cost, in the form of what was fitted."""
        if self.release is None:
            raise ReleaseError("There is nothing to sample from yet. Call fit(data) first.")
        table = draw(self.release, n_rows, seed=self.seed)
        if self._kind is not None:
            return self._kind.of(table)
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def _rows(self, data: Any) -> tuple[Any, frames.Kind | None]:
        """Return rows that can be released, and their kind; None stands for a list of tuples."""
        if frames.is_frame(data):
            return data, frames.kind_of(data)
        if isinstance(data, np.ndarray):
            return self._table(data), frames.kind_of(data)
        if not isinstance(data, list):
            raise DataError(
                f"Data must be a pandas frame, an array or a list of tuples; it is a {type(data).__name__}."
            )
        return self._table(frames.array_of(data)), None

    def _table(self, rows: Any) -> pyarrow.Table:
        self._check_width(rows.shape[1] if rows.ndim == 2 else 1)
        return frames.table_of(rows, self.schema)

    def _check_width(self, found: int) -> None:
        wanted = len(self.schema.names)
        if found != wanted:
            raise DataError(f"Rows must have the {wanted} columns of the schema, in that order; there are {found}.")
