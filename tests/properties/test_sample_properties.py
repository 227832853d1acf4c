import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from smoothsynth.model.sampling import generator, systematic

weights = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-12, 1.0), st.sampled_from([0.1, 0.2, 0.25, 0.5, 1.0])), min_size=1, max_size=60
).filter(lambda values: sum(values) > 0)


@given(values=weights, rows=st.integers(0, 5000), seed=st.integers(0, 2**32))
@example(values=[0.1] * 10, rows=3, seed=0)
@example(values=[1.0] * 49, rows=49, seed=0)
@example(values=[1e-12, 1.0], rows=5000, seed=0)
def test_each_candidate_appears_floor_or_ceil_times(values, rows, seed):
    given_weights = np.array(values)
    chosen = systematic(given_weights, rows, generator=generator(seed))
    counts = np.bincount(chosen, minlength=len(values))
    expected = rows * (given_weights / given_weights.sum())
    assert len(chosen) == rows
    assert chosen.dtype == np.int64
    assert (counts >= np.floor(expected)).all()
    assert (counts <= np.ceil(expected)).all()
