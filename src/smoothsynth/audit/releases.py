"""The cases of the whole pipeline: `release` on neighbouring tables, seen through everything it publishes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.audit import likelihood, low_bits
from smoothsynth.audit.case import Case
from smoothsynth.audit.claim import claim_of
from smoothsynth.audit.mechanisms import DELTA
from smoothsynth.audit.pairs import EDGE, pair
from smoothsynth.errors import PlanError, SmoothsynthError
from smoothsynth.pipeline.run import release

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.audit.case import Looks
    from smoothsynth.audit.pairs import Pair
    from smoothsynth.pipeline.release import Release

# One seed for all trials: if it reached the noise, every release of a table would be the same.
SEED = 7
# Whether a table is refused is seen by everybody: it must not depend on a row.
REFUSED = -(2**62)
_SYNTHETIC_ROWS = 20
_CELLS = 4


def release_cases() -> list[Case]:
    """Return whole releases on worst-case neighbouring tables: pure and with delta, automatic and the paper's."""
    corners = pair((1.0, 1.0), (-EDGE, -EDGE), rows=2)
    # With so many rows Gaussian noise is small enough for its plan to be the better one.
    many = pair((1.0, 1.0), (-EDGE, -EDGE), rows=24)
    # With so many a pure plan has a second stage, that sees them through what the first one released.
    strange = pair((math.inf, math.nan), (-1e300, -1e300), rows=100)
    paper: dict[str, Any] = {"method": "paper", "candidate_count": 100}
    return [
        release_case("automatic", corners, epsilon=3.0),
        release_case("automatic, two stages", strange, epsilon=3.0),
        release_case("automatic, four stages", many, epsilon=8.0, delta=DELTA, share=0.03),
        release_case("paper, hypercube", corners, epsilon=3.0, candidates="hypercube", **paper),
        release_case("paper, ellipsoid", corners, epsilon=8.0, delta=DELTA, candidates="ellipsoid", **paper),
    ]


def release_case(words: str, tables: Pair, *, epsilon: float, share: float = 0.1, **choices: Any) -> Case:
    """Release two neighbouring tables again and again with one seed; what is claimed is what the receipt says."""
    data, points = (tables.arrow(0), tables.arrow(1)), (tables.unit(0), tables.unit(1))
    choices = {"epsilon": epsilon, "synthetic_rows": _SYNTHETIC_ROWS, **choices}

    def attempt(side: int) -> Release | None:
        try:
            return release(data[side], schema=tables.schema, seed=SEED, **choices)
        except SmoothsynthError:
            return None

    first = attempt(0) or attempt(1)
    if first is None:
        raise PlanError("The audit needs a release of one of the two tables at least; both were refused.")
    width = len(list(low_bits.leaves(document(first)))) + 16
    refused = {look: np.full_like(line, REFUSED) for look, line in _look(first, points, width).items()}

    def draw(side: int, count: int) -> Looks:
        made = [attempt(side) for _ in range(count)]
        seen = [refused if one is None else _look(one, points, width) for one in made]
        return {look: np.concatenate([one[look] for one in seen]) for look in refused}

    claim = claim_of(first.receipt.charges, delta=first.receipt.budget.delta)
    reach = likelihood.release_reach(first, *points)
    return Case(f"release: {words}", tables.words, claim, reach, draw, share)


def _look(made: Release, points: tuple[NDArray[np.float64], NDArray[np.float64]], width: int) -> Looks:
    return {
        "numbers": np.array([[likelihood.release_loss(made, *points)]]),
        "rows": row_scores(made)[None],
        "low bits": low_bits.codes(made.unit_rows()[:_CELLS].reshape(1, -1)),
        "files": low_bits.leaf_codes([document(made)], width=width),
    }


def document(made: Release) -> dict[str, Any]:
    """Return what the JSON files of a release say."""
    subspace = None if made.subspace is None else made.subspace.as_dict()
    return {**made.receipt.as_dict(), "moments": [m.as_dict() for m in made.moments], "subspace": subspace}


def row_scores(made: Release) -> NDArray[np.float64]:
    """Summarise the synthetic rows alone: means, mean squares, mean products, the ends."""
    x = made.unit_rows()
    products = (x.T @ x)[np.triu_indices(x.shape[1])] / len(x)
    return np.concatenate([[x.mean()], x.mean(axis=0), [np.mean(x * x)], products, x.min(axis=0), x.max(axis=0)])
