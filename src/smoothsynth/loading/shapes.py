"""The types of all values in the JSON files of a release, and what is refused for having others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothsynth.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What the files must hold: a type, [a shape] for each item of a list, {key: shape}, or one of (several shapes).
_MAYBE = (float, None)
CHARGE = {"purpose": str, "mechanism": str, "norm": str, "sensitivity": float, "scale": float, "coordinates": int,
          "epsilon": _MAYBE, "multiplier": _MAYBE}  # fmt: skip
RECEIPT = {"format": int, "software": str, "rows": int, "rows_per_person": int, "method": str, "candidates": str,
           "budget": {"epsilon": float, "delta": float}, "spent": {"epsilon": float, "delta": float},
           "charges": [CHARGE], "fit": {"method": str, "converged": bool, "outcome": str}, "synthetic_rows": int,
           "seed": (int, None), "schema": dict, "sha256": dict}  # fmt: skip
_NOISE = {"purpose": str, "epsilon": _MAYBE, "multiplier": _MAYBE, "rows_per_person": int, "rows": int}
MOMENTS = {**_NOISE, "mechanism": str, "features": [[[[int]]]], "weights": [int], "integers": [int],
           "view": ({"knots": [[int]], "radius": _MAYBE, "pooled": bool}, None),
           "exclusive": [[int]], "binary": [int]}  # fmt: skip
CHOICE = ({"count": int, "multiplier": float, "expected": [[int]]}, None)
FOUND = {"asked": dict, "rounds": [MOMENTS],
         "levels": [{"column": str, "epsilon": float, "delta": float, "rows": int, "counts": [[(str, int)]]}]}  # fmt: skip
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
