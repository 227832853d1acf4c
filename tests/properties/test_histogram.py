"""Levels that are tallied have the very sums that matrix products give."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothsynth as ss
from smoothsynth.private.engines import kernel as kernels
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.queries.bases import Feature, term_feature
from smoothsynth.schema.category import Intervals
from smoothsynth.schema.schema import Schema

CELLS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "z", None]), st.floats(-5, 5) | st.none()), min_size=1, max_size=40
)


@settings(deadline=None, max_examples=40)
@given(CELLS, st.integers(1, 7))
def test_tallies_are_the_sums_of_products(cells, size):
    schema = Schema({"c": ss.Category(["a", "b", "c"]), "x": Intervals((-1.0, 0.0, 2.5), "number")})
    features = [*(term_feature((c, 1)) for c in range(schema.dimensions)), Feature((((0, 1),), ((4, 1),)))]
    texts, numbers = zip(*cells, strict=True)
    batch = pa.record_batch({"c": pa.array(texts, pa.string()), "x": pa.array(numbers, pa.float64())})

    def totals(*, tallied):
        kernel = Kernel(schema, features)
        assert kernel.tallied
        kernel.tallied = tallied
        sums = kernel.start()
        for start in range(0, len(cells), size):
            sums.add(batch.slice(start, size))
        return sums.totals()

    assert totals(tallied=True) == totals(tallied=False)
    counted = np.array(totals(tallied=True)) // kernels.LATTICE**2
    assert counted[0] == texts.count("a")
    assert counted[: len(features) - 1].max() <= len(cells)


def test_only_levels_by_themselves_are_tallied():
    schema = ss.Schema({"c": ss.Category(["a", "b"]), "n": ss.Number(0, 1)})
    assert Kernel(schema, [term_feature((0, 1))]).tallied
    assert not Kernel(schema, [term_feature((0, 1), (1, 1))]).tallied
    assert not Kernel(schema, [term_feature((2, 1))]).tallied
    assert not Kernel(schema, [term_feature((0, 2))]).tallied
