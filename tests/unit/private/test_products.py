"""The plan of matrix products: few of them, nothing vastly more than is wanted, and no limits on shape."""

import time

import numpy as np
import pytest

from smoothsynth.errors import DataError, PlanError
from smoothsynth.private.engines import kernel as kernel_module
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.private.engines.products import MOST_DEGREE, recipe
from smoothsynth.queries.bases import lowest, pooled, tensor, term_feature, total_degree
from smoothsynth.queries.measurement import LATTICE as S
from smoothsynth.schema import Number, Schema


def unit_schema(dimensions):
    return Schema({f"x{i}": Number(-1, 1) for i in range(dimensions)})


def test_degree_two_is_one_product():
    plan = recipe(total_degree(2, 20), 20)
    assert len(plan.steps) == 1
    assert [p.shape for p in plan.steps[0].products] == [(21, 20)]


def test_single_columns_form_no_pairs():
    plan = recipe([term_feature((c, 10)) for c in range(100)], 100)
    assert plan.size == 100
    assert plan.factors.count == 201


def test_pairs_that_are_wanted_on_the_diagonal_only():
    plan = recipe([pooled(2, range(50))], 50)
    # A product of twenty rows with themselves is faster than twenty small ones.
    assert [p.shape for p in plan.steps[0].products] == [(21, 21), (21, 21), (8, 8)]


def test_large_products_are_cut_to_the_size_that_is_multiplied_fast():
    shapes = [p.shape for p in recipe(total_degree(2, 100), 100).steps[0].products]
    assert max(m * n for m, n in shapes) <= 976
    assert sum(m * n for m, n in shapes) < 1.2 * 5150


@pytest.mark.parametrize("chosen", [total_degree(3, 20), tensor(4, 5), tensor(2, 9), lowest(5000, 12)])
def test_prefixes_are_computed_once(chosen):
    plan = recipe(chosen, 20)
    assert plan.size <= 2 * len(chosen) + 40 * len(plan.steps)
    prefixes = {term[:-1] for f in chosen for term in f.terms if len(term) > 2}
    longest = max(map(len, prefixes), default=0)
    needed = {p[:length] for p in prefixes for length in range(2, longest + 1) if length <= len(p)}
    assert sum(step.size for step in plan.steps if step.level) == len(needed)


def test_many_prefixes_are_held_in_parts():
    chosen = [term_feature((0, 1), (c, 1), (199, 1)) for c in range(1, 199)]
    assert recipe(chosen, 200).widths == (64,)
    points = np.random.default_rng(0).choice([-1.0, 1.0], size=(200, 50))
    kernel = Kernel(unit_schema(200), chosen)
    sums = kernel.start()
    sums.add_columns([points[int(name[1:])] for name in kernel.names], 50)
    expected = [int(points[0] @ (points[c] * points[199])) * S * S for c in range(1, 199)]
    assert sums.totals() == expected


def test_a_term_may_have_hundreds_of_factors():
    chosen = [term_feature(*((c, 1) for c in range(250)))]
    kernel = Kernel(unit_schema(250), chosen)
    sums = kernel.start()
    sums.add_columns([np.array([-1.0])] * 250, 1)
    assert sums.totals() == [S * S]


def test_large_sets_are_planned_in_seconds():
    start = time.process_time()
    recipe(total_degree(3, 60), 60)
    assert time.process_time() - start < 10


def test_degrees_beyond_the_proof_are_refused():
    recipe([term_feature((0, MOST_DEGREE))], 1)
    with pytest.raises(PlanError, match="degree"):
        recipe([term_feature((0, MOST_DEGREE), (1, 1))], 2)


def test_the_highest_degree_is_as_near_as_the_proof_says():
    x = np.unique(np.rint(S * np.cos(np.linspace(0, np.pi, 4001)))) / S
    truth = np.cos(MOST_DEGREE * np.arccos(x.astype(np.longdouble)))
    kernel = Kernel(unit_schema(1), [term_feature((0, MOST_DEGREE))])
    sums, before = kernel.start(), 0
    for value, true in zip(x[::40], truth[::40], strict=True):
        sums.add_columns([np.array([value])], 1)
        (after,) = sums.totals()
        assert abs((after - before) / S - S * true) <= 0.5 + 0.5e-6
        before = after


def test_sums_beyond_the_exact_range_of_doubles():
    # The square of 2^16 - 1 is odd, so a sum of 2^21 and more of them does not fit in a double.
    rows = 2**21 + 4097
    kernel = Kernel(unit_schema(1), total_degree(2, 1))
    sums = kernel.start()
    sums.add_columns([np.full(rows, (S - 1) / S)], rows)
    square = rows * (S - 1) ** 2
    assert int(float(square)) != square
    assert sums.totals() == [rows * (S - 1) * S, 2 * square - rows * S * S]


def test_too_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr(kernel_module, "MOST_ROWS", 10)
    sums = Kernel(unit_schema(1), total_degree(1, 1)).start()
    sums.add_columns([np.zeros(10)], 10)
    with pytest.raises(DataError, match="At most 10 rows"):
        sums.add_columns([np.zeros(1)], 1)
