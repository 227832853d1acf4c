"""Rows of a model of mbi 1.1.0, drawn by randomised rounding: runs in the environment of OpenDP or SmartNoise.

mbi 1.1.0 has a fault in its own draw. Among the rows that agree on the columns which a new column depends on, it gives
small values to the rows that stand first. Two columns that depend on the same one are then both ascending in every such
group, and their rows carry a dependence that the model does not have. mbi 2.0.0 mends it (github.com/ryan112358/mbi,
pull request 145), but OpenDP 0.16 and SmartNoise 1.0.8 do not accept that version. Here each group is shuffled for
each column, and a column depends on its neighbours in the junction tree, as in mbi 2.0.0.
"""

import numpy as np
from mbi import Dataset, MarkovRandomField, junction_tree, marginal_oracles


def draw(model: MarkovRandomField, rows: int | None = None, method: str = "round") -> Dataset:
    """Return rows of the model, column after column in the reverse order of elimination, given those already drawn."""
    if method != "round":
        raise ValueError(f"method must be 'round'; found {method!r}.")
    total = int(rows or model.total)
    tree, order = junction_tree.make_junction_tree(model.domain, [tuple(clique) for clique in model.cliques])
    marginals = marginal_oracles.message_passing_stable(model.potentials.expand(list(tree.nodes)), model.total)
    drawn: dict[str, np.ndarray] = {}
    for name in reversed(order):
        near = set().union(*(clique for clique in tree.nodes if name in clique))
        given = tuple(other for other in drawn if other in near)
        table = np.asarray(marginals.project((*given, name)).transpose((*given, name)).values, dtype=float)
        drawn[name] = _column(table, [drawn[other] for other in given], total)
    return Dataset({name: drawn[name] for name in model.domain}, model.domain)


def _column(table: np.ndarray, given: list[np.ndarray], total: int) -> np.ndarray:
    shares = table.reshape(-1, table.shape[-1])
    group = np.ravel_multi_index(given, table.shape[:-1]) if given else np.zeros(total, dtype=int)
    column = np.empty(total, dtype=int)
    for number in np.unique(group):
        members = np.flatnonzero(group == number)
        column[members] = _rounded(shares[number], len(members))
    return column


def _rounded(shares: np.ndarray, size: int) -> np.ndarray:
    """Return `size` values in random order: one draw from each of `size` equal strata of the distribution."""
    positive = np.maximum(shares, 0)
    share = positive / positive.sum() if positive.sum() > 0 else np.full(len(shares), 1 / len(shares))
    strata = (np.random.permutation(size) + np.random.random(size)) / size
    return np.minimum(np.searchsorted(np.cumsum(share), strata, side="right"), len(share) - 1)
