"""What a browser needs to put the same intervals around answers as `release.answer` does, in few bytes.

The test rows, and for every measured feature its noise, its released value and its residual; the transformation of
each round. The page's scripts repeat `answer/` from these; report/page/evidence.js is named like answer/evidence.py.

The synthetic rows as text inside the page, so that a browser can answer questions from them without a network.

Rows that fit are written as doubles, bit for bit. Larger tables are rounded to 2^16 places between the bounds of each
column, and tables larger still are thinned to every k-th row; the page says which.
"""

from __future__ import annotations

import base64
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.answer import answer, columns, envelopes, evidence, model_interval, query, spikes, statistics
from smoothsynth.answer import worst_case_interval as worst_case
from smoothsynth.queries.bases import LATTICE, HatBasis, HatCosines
from smoothsynth.queries.families import RowNorms
from smoothsynth.queries.soft_tables import SoftTables
from smoothsynth.queries.transformation import KNOTS
from smoothsynth.report.columns import own_units
from smoothsynth.schema.valued import to_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.pipeline.release import Release
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.families import Block

    Array = NDArray[np.float64]
    Blocks = Sequence[tuple[Block, Block]]


# Moments of the synthetic rows are taken over at most this many of them, evenly chosen; and so many at a time.
MOST_ROWS = 100_000
_CHUNK = 4096
# Fine enough for intervals to one part in a million; exact below this many cells.
_MOST_EXACT_CELLS = 60_000

CONFIDENCE = 0.95


def answering(release: Release, coordinates: Sequence[int]) -> dict[str, Any]:
    """Return plain values for the columns with these coordinates; the page numbers them from 0."""
    known = evidence.evidence_of(release)
    test = known.rows[:, coordinates].T
    kind = "float64" if test.size <= _MOST_EXACT_CELLS else "float32"
    points = known.points[_even(len(known.points))]
    numbers = {c: number for number, c in enumerate(coordinates)}
    held = [(one, blocks) for one in known.rounds if (blocks := _within(one, frozenset(coordinates)))]
    released = [one.released(block) for one, blocks in held for block, _ in blocks]
    return {
        "settings": _settings(model_interval.joint_scale(known)),
        "confidence": CONFIDENCE,
        "gaussian": all(m.measurement.mechanism == "discrete gaussian" for m in release.moments),
        "private_rows": release.receipt.rows,
        "synthetic_rows": len(known.points),
        "test_rows": test.shape[1],
        "test_encoding": kind,
        "test": _text(test.astype("<f8" if kind == "float64" else "<f4")),
        "variances": _doubles([variances for _, variances in released]),
        "released": _doubles([values for values, _ in released]),
        "residuals": _doubles([values for values, _ in released], less=[_moments_of(*one, points) for one in held]),
        "rounds": [_round(one, blocks, known.rows, numbers) for one, blocks in held],
        "pair_scales": _pair_scales(known, coordinates),
    }


def _settings(joint: float) -> dict[str, Any]:
    return {
        "relative": model_interval.RELATIVE,
        "least": model_interval.LEAST,
        "joint": joint,
        "rest": max(model_interval.LEAST, joint / 2.0),
        "rough": model_interval.OF_ROUGH,
        "unmet": query.UNMET,
        "spike": model_interval.SPIKE,
        "windows": list(spikes.WINDOWS),
        "ends": spikes.ENDS,
        "beyond": spikes.BEYOND,
        "degrees": model_interval.DEGREES,
        "pair_degrees": model_interval.PAIR_DEGREES,
        "triple_degrees": model_interval.TRIPLE_DEGREES,
        "open_degrees": model_interval.OPEN_DEGREES,
        "vague": evidence.VAGUE,
        "grid": worst_case.GRID,
        "nodes": columns.NODES,
        "most_tail": columns.MOST_TAIL,
        "steps": list(envelopes.STEPS),
        "places": answer.PLACES,
        "halvings": answer.HALVINGS,
        "most_uncertain": statistics.MOST_UNCERTAIN,
        "most_columns": query.MOST_COLUMNS,
        "vacuous": envelopes.VACUOUS,
        "most_of_all": envelopes.MOST_OF_ALL,
        "knots": KNOTS,
    }


def _within(one: evidence.Round, coordinates: frozenset[int]) -> list[tuple[Block, Block]]:
    """Return the blocks of columns that the page has, each with the one that is used instead where all its columns are."""
    if one.family == RowNorms():
        return []
    return [(block, found[0]) for found in one.blocks for block in found if block.read <= coordinates]


def _pair_scales(known: evidence.Evidence, coordinates: Sequence[int]) -> str | None:
    """Return how uncertain functions of each two columns are, if that is known of any two by themselves."""
    if not known.pair_misfit:
        return None
    pairs = itertools.combinations(coordinates, 2)
    return _doubles([np.array([model_interval.pair_scale(known, a, b) for a, b in pairs])])


def _round(one: evidence.Round, blocks: Blocks, rows: Array, numbers: Mapping[int, int]) -> dict[str, Any]:
    """Describe the blocks of one measurement and its transformation."""
    transformation = one.noisy.measurement.transformation
    features = [feature for block, _ in blocks for feature in block.features]
    if transformation is None:
        return {"features": [_terms(feature, numbers) for feature in features]}
    # A knot is a whole number from 0 to 2^17: its upper bits, and the two lowest ones packed with those of others.
    knots = (transformation.knots[list(numbers)] + LATTICE).ravel()
    lowest = np.stack([knots >> 1 & 1, knots & 1], axis=1).astype(np.uint8)
    facts: dict[str, Any] = {"knots": _text((knots >> 2).astype("<u2")), "bits": _text(np.packbits(lowest))}
    family = transformation.family
    if isinstance(family, SoftTables):
        return facts | _tables(family, blocks, numbers)
    facts["features"] = [_terms(feature, numbers) for feature in features]
    facts |= {
        "basis": family.basis.name,
        **({"cells": family.basis.cells} if isinstance(family.basis, (HatBasis, HatCosines)) else {}),
    }
    factors = family.shrink(transformation.unclipped(rows).T * LATTICE)
    return facts if factors is None else {**facts, "factors": _doubles([factors])}


def _tables(family: SoftTables, blocks: Blocks, numbers: Mapping[int, int]) -> dict[str, Any]:
    """Describe cells of tables: a factor is a column of the page and the place of a cell among its own.

    `instead` are, for each feature, the columns of the table that it sums up, if that is another one and on the page.
    """
    starts = zip(family.starts, family.columns, strict=False)
    cells = {
        start + k: (numbers.get(-1 if c.value is None else c.value, -1), k)
        for start, c in starts
        for k in range(c.cells)
    }
    terms = [[cells[factor] for factor, _ in feature.terms[0]] for block, _ in blocks for feature in block.features]
    held = {c.value: {"hats": c.hats, "atoms": list(c.atoms)} for c in family.columns}
    return {
        "features": [[number for factor in term for number in factor] for term in terms],
        "instead": [_instead(block, whole, numbers) for block, whole in blocks for _ in block.features],
        "basis": "cells",
        "cells": [held.get(c) for c in numbers],
        "unit": 1 << family.bits,
    }


def _instead(block: Block, whole: Block, numbers: Mapping[int, int]) -> list[int] | None:
    return None if block is whole or not whole.read <= numbers.keys() else sorted(numbers[c] for c in whole.read)


def _terms(feature: Feature, numbers: Mapping[int, int]) -> list[Any]:
    """Write a term as column, degree, column, degree, ...; a feature of one term as that term."""
    terms = [[number for c, k in term for number in (numbers[c], k)] for term in feature.terms]
    return terms[0] if len(terms) == 1 else terms


def _moments_of(one: evidence.Round, blocks: Blocks, points: Array) -> Array:
    """Return the moments of rows, a few rows at a time: all features of all rows would not fit into memory."""
    features, measurement = [feature for block, _ in blocks for feature in block.features], one.noisy.measurement
    total = np.zeros(len(features))
    for start in range(0, len(points), _CHUNK):
        part = points[start : start + _CHUNK]
        total += measurement.family.basis.evaluate(features, measurement.seen(part)).sum(axis=0)
    return total / len(points)


def _even(rows: int) -> NDArray[np.int64]:
    held = min(rows, MOST_ROWS)
    return ((2 * np.arange(held) + 1) * rows) // (2 * held)


def _doubles(arrays: list[Array], less: Sequence[Array] = ()) -> str:
    whole = np.concatenate([np.empty(0), *arrays])
    return _text((whole - np.concatenate([np.empty(0), *less]) if less else whole).astype("<f8"))


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


_PLACES = 2**16 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """Which rows and columns the page holds, how exactly, and their bytes, one column after another."""

    encoding: str
    chosen: NDArray[np.int64]
    rows: int
    columns: int
    data: bytes

    @property
    def whole(self) -> bool:
        """Whether the page holds every row to the last bit."""
        return self.encoding == "float64" and len(self.chosen) == self.rows

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the page."""
        return {
            "encoding": self.encoding,
            "held": len(self.chosen),
            "rows": self.rows,
            "base64": base64.b64encode(self.data).decode("ascii"),
        }


def embed(release: Release, names: Sequence[str], *, most_bytes: int) -> Embedding:
    """Choose the most exact form of the rows that fits into `most_bytes`, before base64, which adds a third."""
    rows = release.table.num_rows
    if 8 * rows * len(names) <= most_bytes:
        chosen = np.arange(rows)
        parts = [own_units(release, name).astype("<f8").tobytes() for name in names]
        return Embedding("float64", chosen, rows, len(names), b"".join(parts))
    held = min(rows, max(1, most_bytes // (2 * max(1, len(names)))))
    # The middle row of each of `held` equal parts.
    chosen = ((2 * np.arange(held) + 1) * rows) // (2 * held)
    parts = []
    for name in names:
        column = release.schema.columns[name]
        unit = to_unit(own_units(release, name)[chosen], column)  # type: ignore[arg-type]
        parts.append(np.rint((unit + 1.0) / 2.0 * _PLACES).astype("<u2").tobytes())
    return Embedding("uint16", chosen, rows, len(names), b"".join(parts))
