"""What the page of a release says: values only, from the release alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothsynth._threads import one_thread
from smoothsynth.model.contradictions import contradictions
from smoothsynth.model.marginal_moments import unmatched
from smoothsynth.release import MOMENTS_FILE, ROWS_FILE, Release, sha256
from smoothsynth.report.answering import answering
from smoothsynth.report.columns import Plain, Shape, others, shapes
from smoothsynth.report.correlations import Correlations, correlations
from smoothsynth.report.embedding import Embedding, embed
from smoothsynth.report.limits import Limit, limits
from smoothsynth.report.questions import Question, questions
from smoothsynth.report.spending import Spending, spending

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from smoothsynth.model.contradictions import Contradiction
    from smoothsynth.release import Receipt


MOST_COLUMNS = 100
# The data of a page; with the texts, the script and the style around it the page stays below 3 MB.
MOST_LETTERS = 2_650_000


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """All values of the page; `hashes` are the SHA-256 of the other files of the release, by name."""

    receipt: Receipt
    rows: Embedding
    shapes: tuple[Shape, ...]
    others: tuple[Plain, ...]
    correlations: Correlations
    questions: tuple[Question, ...]
    spending: tuple[Spending, ...]
    limits: tuple[Limit, ...]
    unmatched: Mapping[str, float]
    contradictions: tuple[Contradiction, ...]
    hashes: Mapping[str, str]
    answering: Mapping[str, Any]


def contents(release: Release, hashes: Mapping[str, str]) -> Contents:
    """Gather what the page says."""
    # Several threads add up in another order, and `verify` compares pages byte for byte.
    with one_thread():
        return _gathered(release, hashes)


def _gathered(release: Release, hashes: Mapping[str, str]) -> Contents:
    drawn = shapes(release, MOST_COLUMNS)
    coordinates = [shape.coordinate for shape in drawn]
    found = correlations(release, coordinates)
    facts = answering(release, coordinates)
    # Base64 makes four letters of three bytes; a pair of columns takes about twenty letters.
    room = MOST_LETTERS - len(json.dumps(facts)) - 10 * len(drawn) ** 2
    return Contents(
        receipt=release.receipt,
        rows=embed(release, [shape.name for shape in drawn], most_bytes=room * 3 // 4),
        shapes=drawn,
        others=others(release, MOST_COLUMNS),
        correlations=found,
        questions=questions(release, drawn, found),
        spending=spending(release),
        limits=limits(release, found),
        unmatched=unmatched(release.schema, release.moments),
        contradictions=contradictions(release.schema, release.moments, release.unit_rows()),
        hashes=dict(hashes),
        answering=facts,
    )


def file_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the rows and of the moments of a release folder."""
    return {name: sha256(folder / name) for name in (ROWS_FILE, MOMENTS_FILE)}
