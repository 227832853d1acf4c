"""Values on the page, and what was spent.

What each charge was for and which share of the budget it took, in words that need no formula.

What the page of a release says: values only, from the release alone.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth._runtime import one_thread
from smoothsynth.model.contradictions import compared, contradictions
from smoothsynth.model.marginal_moments import unmatched
from smoothsynth.pipeline.release import MOMENTS_FILE, ROWS_FILE, Release, sha256
from smoothsynth.report.browser_data import Embedding, answering, embed
from smoothsynth.report.columns import Curve, Levels, Shape, axis_of, drawn, shapes
from smoothsynth.report.limits import Correlations, Limit, correlations, limits
from smoothsynth.report.questions import Question, Score, questions, score, stored

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from smoothsynth.accounting.charges import Charge
    from smoothsynth.model.contradictions import Contradiction
    from smoothsynth.pipeline.release import Receipt
    from smoothsynth.report.charts import Axis


_NOISE = {
    "cube": "noise uniform in a random cube",
    "wishart": "the difference of two random Wishart matrices",
    "ball": "noise in a random direction, of random length",
    "discrete laplace": "two-sided geometric (discrete Laplace) noise",
    "discrete gaussian": "discrete Gaussian noise",
    "pure noisy maxima": "the largest of scores with Gumbel noise: which they are, not how large",
    "noisy maxima": "the largest of scores with Gumbel noise: which they are, not how large",
    "stable gaussian histogram": "discrete Gaussian noise on counts, rare values left out",
    "stable histogram": "two-sided geometric (discrete Laplace) noise on counts, rare values left out",
}


@dataclass(frozen=True, slots=True)
class Spending:
    """One charge: its purpose, how many numbers it released, its share of the budget, its noise and its cost."""

    purpose: str
    numbers: int
    share: float
    noise: str
    cost: str
    in_words: str


def spending(release: Release) -> tuple[Spending, ...]:
    """Describe the charges in order.

    Shares of a pure budget are those of epsilon. With Gaussian noise of multipliers m_1, m_2, ... the whole release is
    one Gaussian release of 1/m^2 = sum 1/m_k^2, so the share of a charge is (1/m_k^2) / (1/m^2) of what pure ones leave.
    """
    charges = release.receipt.charges
    shares = _shares(charges, release.receipt.budget.epsilon)
    noise = _noise_of_moments(release)
    return tuple(
        Spending(
            purpose=charge.purpose,
            numbers=charge.coordinates,
            share=shares[k],
            noise=f"{_NOISE[charge.mechanism]}{noise[k]}",
            cost=_cost(charge),
            in_words=release.receipt.in_words(charge),
        )
        for k, charge in enumerate(charges)
    )


def _shares(charges: Sequence[Charge], epsilon: float) -> list[float]:
    pure = math.fsum(c.epsilon for c in charges if c.epsilon is not None)
    inverse = math.fsum(c.multiplier**-2 for c in charges if c.multiplier is not None)
    whole = epsilon if inverse else pure
    left = 1.0 - pure / whole
    return [
        c.epsilon / whole if c.epsilon is not None else left * float(c.multiplier or 1.0) ** -2 / inverse
        for c in charges
    ]


def _cost(charge: Charge) -> str:
    if charge.epsilon is not None:
        return f"ε = {charge.epsilon:.4g}" + (f", δ = {charge.delta:.2g}" if charge.delta else "")
    return f"1/{charge.multiplier:.4g}²" + (f", δ = {charge.delta:.2g}" if charge.delta else "")


def _noise_of_moments(release: Release) -> list[str]:
    """Say how large the noise of each charge is on the scale of its moments: from -1 to 1, those of counts from 0 to 1."""
    texts = [] if release.found is None else [""] * len(release.found.charges)
    for moments in release.moments:
        texts += [""] * (len(moments.measurement.charges) - 1)
        low, high = float(np.min(moments.deviations)), float(np.max(moments.deviations))
        spread = f"{low:.2g}" if high < low * 1.05 else f"{low:.2g} to {high:.2g}"
        shares = moments.measurement.family.shares
        scale = "a count is a share of the rows" if shares else "a moment lies between -1 and 1"
        texts.append(f", standard deviation {spread} where {scale}")
    return texts + [""] * (len(release.receipt.charges) - len(texts))


MOST_COLUMNS = 100
# The data of a page; with the texts, the script and the style around it the page stays below 3 MB.
MOST_LETTERS = 2_650_000


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """All values of the page; `hashes` are the SHA-256 of the other files of the release, by name."""

    receipt: Receipt
    rows: Embedding
    shapes: tuple[Shape, ...]
    drawn: tuple[Curve | Levels, ...]
    axes: tuple[Axis, ...]
    correlations: Correlations
    questions: tuple[Question, ...]
    stored: tuple[Question, ...]
    score: Score
    spending: tuple[Spending, ...]
    limits: tuple[Limit, ...]
    unmatched: Mapping[str, float]
    contradictions: tuple[Contradiction, ...]
    hashes: Mapping[str, str]
    answering: Mapping[str, Any]

    @property
    def curves(self) -> tuple[Shape, ...]:
        """The columns of which a curve is drawn."""
        return tuple(one.shape for one in self.drawn if isinstance(one, Curve))


def contents(release: Release, hashes: Mapping[str, str]) -> Contents:
    """Gather what the page says."""
    # Several threads add up in another order, and `verify` compares pages byte for byte.
    with one_thread():
        return _gathered(release, hashes)


def _gathered(release: Release, hashes: Mapping[str, str]) -> Contents:
    asked, all_columns = shapes(release, MOST_COLUMNS), drawn(release, MOST_COLUMNS)
    names = release.schema.names[:MOST_COLUMNS]
    found = correlations(release, names)
    facts = answering(release, [shape.coordinate for shape in asked])
    # Base64 makes four letters of three bytes; a column takes its chart and its axis, a pair a cell and two numbers.
    room = MOST_LETTERS - len(json.dumps(facts)) - 26 * len(names) ** 2 - 6_000 * len(names)
    return Contents(
        receipt=release.receipt,
        rows=embed(release, [shape.name for shape in asked], most_bytes=room * 3 // 4),
        shapes=asked,
        drawn=all_columns,
        axes=tuple(axis_of(release, one) for one in all_columns),
        correlations=found,
        questions=questions(release, all_columns, found),
        stored=stored(release, all_columns),
        score=score(release, all_columns),
        spending=spending(release),
        limits=limits(release, found),
        unmatched=unmatched(release.schema, release.moments),
        contradictions=contradictions(release.schema, release.moments, compared(release.schema, release.table)),
        hashes=dict(hashes),
        answering=facts,
    )


def file_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the rows and of the moments of a release folder."""
    return {name: sha256(folder / name) for name in (ROWS_FILE, MOMENTS_FILE)}
