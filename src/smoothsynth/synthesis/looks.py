"""Views made of the current model: how the next measurement shall look at the rows. Public, since the model is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.view import View, knot_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]

# A share of the flat density keeps ranks from being constant where the model believes no row to be.
FLAT_SHARE = 0.1
# Standardised rows are cut to length sqrt(SHORT d): shorter rows mean less noise, and less is seen of far ones.
SHORT = 0.6


def rank_view(columns: Columns) -> View:
    """See each coordinate as cos(pi F(x)), F its distribution function: T_k of it is cos(k pi F(x)).

    A column that the model thinks crowded in a corner is spread over the whole cube.
    """
    mixed = columns.mixed(FLAT_SHARE)
    places = knot_places()
    return View.from_values(np.stack([np.cos(np.pi * mixed.probabilities(c, places)) for c in range(columns.count)]))


def score_view(columns: Columns) -> View:
    """See each coordinate as (x - m)/s, in units of the length sqrt(SHORT d) to which rows are cut."""
    length = np.sqrt(SHORT * columns.count)
    centred = knot_places()[None, :] - columns.means()[:, None]
    return View.from_values(centred / columns.deviations()[:, None] / length, radius=1.0)


def length_view(distribution: Array) -> View:
    """See the mean square t of a row as cos(pi F(t)); `distribution` is F at the knots, t from 0 to 1."""
    return View.from_values(np.cos(np.pi * distribution)[None, :], pooled=True)
