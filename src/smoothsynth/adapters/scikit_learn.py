"""A synthesizer with the habits of scikit-learn: `fit`, `sample`, `score`, `get_params`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from smoothsynth.adapters import frames
from smoothsynth.adapters.frames import draw
from smoothsynth.errors import DataError, SchemaError
from smoothsynth.pipeline.run import release
from smoothsynth.schema import WHY_PUBLIC, Number, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from smoothsynth.methods.options import Method


class Synthesizer(BaseEstimator):  # type: ignore[misc]
    """A differentially private synthetic table, as a scikit-learn estimator; each `fit` spends epsilon again.

    `schema` says what is public of the columns. For an array of numbers that all have the same public bounds,
    `bounds=(lower, upper)` is enough. The other parameters are those of `smoothsynth.pipeline.release`; `focus` is an option
    of the method now, and warns. With a `ledger`, what every `fit` spends is recorded there (a grid search fits many times).
    After `fit` there are `release_`, `n_features_in_` and, for frames, `feature_names_in_`. The estimator keeps no row: it
    can be pickled.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        schema: Schema | None = None,
        bounds: tuple[float, float] | None = None,
        method: str | Method = "auto",
        focus: str | None = None,
        seed: int | None = None,
        synthetic_rows: int | None = None,
        rows_per_person: int = 1,
        ledger: str | Path | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.bounds = bounds
        self.method = method
        self.focus = focus
        self.seed = seed
        self.synthetic_rows = synthetic_rows
        self.rows_per_person = rows_per_person
        self.ledger = ledger

    def fit(self, X: Any, y: Any = None) -> Synthesizer:
        """Make a release of the rows X, a frame or an array; `y` is ignored: a target is a column of X."""
        rows, names = self._checked(X, reset=True)
        kind = frames.Kind(frames.ARRAY) if names is None and frames.is_frame(rows) else frames.kind_of(rows)
        schema = self._schema(names)
        if names is None:
            self._check_width(schema)
            rows = frames.named(rows, schema.names) if frames.is_frame(rows) else frames.table_of(rows, schema)
        old: dict[str, Any] = {} if self.focus is None else {"focus": self.focus}
        made = release(
            rows,
            schema=schema,
            epsilon=self.epsilon,
            delta=self.delta,
            method=self.method,
            seed=self.seed,
            synthetic_rows=self.synthetic_rows,
            rows_per_person=self.rows_per_person,
            ledger=self.ledger,
            **old,
        )
        self.release_, self.kind_ = made, kind
        return self

    def sample(self, n_rows: int | None = None) -> Any:
        """Return rows as the kind of frame that `fit` got: those of the release, or `n_rows` new ones, free of cost."""
        check_is_fitted(self, "release_")
        table = self.release_.table if n_rows is None else draw(self.release_, n_rows, seed=self.seed)
        return self.kind_.of(table)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean Wasserstein distance of the coordinates, synthetic against X; each is in [-1, 1], 0 is best.

        NOT PRIVATE: it looks at the rows X without noise. For development on public data, not for publication.
        """
        check_is_fitted(self, "release_")
        (rows, names), schema = self._checked(X, reset=False), self.release_.schema
        if frames.is_frame(rows):
            rows = frames.named(rows, schema.names) if names is None else rows
            columns = {name: frames.column_of(rows, name) for name in schema.names}
        else:
            columns = dict(zip(schema.names, rows.T, strict=True))
        pairs = zip(schema.to_unit(columns).T, self.release_.unit_rows().T, strict=True)
        return -float(np.mean([_wasserstein(real, made) for real, made in pairs]))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "release_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A missing or infinite cell has a place in the cube; an error would tell that somebody has one.
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.non_deterministic = True
        return tags

    def _checked(self, X: Any, *, reset: bool) -> tuple[Any, list[str] | None]:
        """Check names and shape, which are public, and no value; return the rows, and the names that they have.

        An error must not depend on a value, nor quote it, and no value may decide how others are read: scikit-learn is
        shown an empty array of the same shape and type.
        """
        if not frames.is_frame(X):
            rows = frames.array_of(X) if isinstance(X, (list, tuple)) else _array(X)
            shown = np.broadcast_to(np.zeros((), rows.dtype), rows.shape)
            validate_data(self, shown, reset=reset, dtype=None, ensure_all_finite=False)
            return rows, None
        names = frames.names_of(X)
        if all(isinstance(name, str) for name in names):
            validate_data(self, frames.header(names), reset=reset, skip_check_array=True)
            return X, names
        if any(isinstance(name, str) for name in names):
            raise DataError(
                "The columns of a frame must all have text as names, or none; some have. Rename the others."
            )
        shown = np.broadcast_to(np.zeros(()), (len(X), len(names)))
        validate_data(self, shown, reset=reset, dtype=None, ensure_all_finite=False)
        return X, None

    def _schema(self, names: Sequence[str] | None) -> Schema:
        if (self.schema is None) == (self.bounds is None):
            found = "neither is given" if self.schema is None else "both are given"
            raise SchemaError(
                "A Synthesizer needs either schema=Schema({'age': Number(0, 120), ...}) or, for numbers that all have the "
                f"same bounds, bounds=(lower, upper); {found}. {WHY_PUBLIC}"
            )
        if self.schema is not None:
            if not isinstance(self.schema, Schema):
                raise SchemaError(f"schema must be a Schema, not a {type(self.schema).__name__}. See Schema.load.")
            return self.schema
        try:
            lower, upper = self.bounds  # type: ignore[misc]
        except (TypeError, ValueError):
            raise SchemaError("bounds must be two numbers, (lower, upper).") from None
        known = names or [f"x{place}" for place in range(self.n_features_in_)]
        return Schema({name: Number(lower, upper) for name in known})

    def _check_width(self, schema: Schema) -> None:
        if len(schema.names) != self.n_features_in_:
            raise SchemaError(
                f"An array must have one column for each of the {len(schema.names)} of the schema, in that order; it has "
                f"{self.n_features_in_}. Give a frame with names, or another schema."
            )


def _array(rows: Any) -> NDArray[Any]:
    """Return what is an array by its type; for anything else a type would be chosen by looking at cells."""
    if isinstance(rows, np.ma.MaskedArray) or not hasattr(rows, "__array__"):
        raise TypeError(
            f"The rows must be a frame, an array without a mask, or a list of lists; they are a {type(rows).__name__}. "
            "Sparse data is not supported."
        )
    return np.asarray(rows)


def _wasserstein(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the distance of two empirical distributions,  int |F - G| dx."""
    places = np.sort(np.concatenate([one, other]))
    shares = [np.searchsorted(np.sort(rows), places[:-1], side="right") / len(rows) for rows in (one, other)]
    return float(np.sum(np.abs(shares[0] - shares[1]) * np.diff(places)))
