import numpy as np

from smoothsynth.audit.neighbours import codes, last_bit, leaf_codes, leaves


def test_integers_give_residues():
    assert codes(np.array([[-1, 16, 35]])).tolist() == [[15, 0, 3]]


def test_doubles_give_last_bits_and_where_they_stand():
    found = codes(np.array([[1.0, 0.1]]))
    assert found[0, :2].tolist() == [0, np.float64(0.1).view(np.int64) % 16]
    assert last_bit(np.array([1.0, 3.0, 0.75, -6.0, 0.0, 0.1, 2.0**-1074])).tolist() == [0, 0, -2, 1, 0, -55, -1074]


def test_every_leaf_of_a_document_is_looked_at():
    document = {"a": [1, 2.5], "b": {"c": "text", "d": None}, "e": True}
    assert list(leaves(document)) == [1, 2.5, "text", None, True]
    same, other = leaf_codes([document, document], width=7)
    assert same.tolist() == other.tolist()
    assert same[-4:].tolist() == [-1] * 4
    changed = leaf_codes([{**document, "a": [1, np.nextafter(2.5, 3)]}], width=7)[0]
    assert (changed != same).nonzero()[0].tolist() == [2, 3]
    assert (leaf_codes([{**document, "a": [17, 2.5]}], width=7)[0] != same).nonzero()[0].tolist() == [0]
