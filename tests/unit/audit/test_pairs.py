import math

import numpy as np

from smoothsynth.audit.neighbours import pair


def test_neighbours_differ_in_the_rows_that_are_said_to_change():
    tables = pair((1.0, math.nan), (-1.0, math.inf), rows=5, changed=2)
    differ = [(one != other).any() for one, other in zip(*tables.tables, strict=True)]
    assert differ == [False, False, False, True, True]
    assert tables.words == "(1, missing) / (-1, inf), 2 rows"


def test_missing_values_are_null_and_at_the_centre():
    tables = pair((1.0, math.nan), (-7.0, math.inf), rows=2)
    assert tables.arrow(0)["c1"].null_count == 1
    assert np.array_equal(tables.unit(0)[-1], [1.0, 0.0])
    assert np.array_equal(tables.unit(1)[-1], [-1.0, 1.0])
    assert tables.tables[1][-1].tolist() == [-7.0, math.inf]
