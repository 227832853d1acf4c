import math
import pickle

import numpy as np
import pytest

import smoothsynth as ss


def test_the_cube_is_the_span_of_the_bounds():
    age = ss.Number(0, 120)
    assert age.to_unit(np.array([0.0, 60.0, 120.0])).tolist() == [-1.0, 0.0, 1.0]
    assert age.from_unit(np.array([-1.0, 0.5, 1.0])).tolist() == [0.0, 90.0, 120.0]


def test_every_value_has_a_place():
    values = np.array([-math.inf, math.inf, math.nan, -1e300, 1e300])
    assert ss.Number(0, 10).to_unit(values).tolist() == [-1.0, 1.0, 0.0, -1.0, 1.0]


def test_huge_bounds_do_not_overflow():
    wide = ss.Schema({"x": ss.Number(-1.7e308, 1.7e308)}).columns["x"]
    assert wide.to_unit(np.array([-1.7e308, 0.0, 1.7e308])).tolist() == [-1.0, 0.0, 1.0]
    assert np.all(np.isfinite(wide.from_unit(np.array([-1.0, 1.0]))))


def test_integers_stay_integers():
    visits = ss.Integer(0, 4)
    assert visits.from_unit(np.array([-1.0, -0.4, 0.1, 1.0])).tolist() == [0, 1, 2, 4]
    assert visits.snap(np.array([0.1, 0.3])).tolist() == [0.0, 0.5]
    assert visits.levels(5).tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert visits.levels(4) is None


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (ss.Number(), "lower bound is missing"),
        (ss.Number(0), "upper bound is missing"),
        (ss.Number(5, 3), "larger than"),
        (ss.Number(5, 5), "both 5"),
        (ss.Number(0, math.inf), "finite"),
        (ss.Number(math.nan, 1), "finite"),
        (ss.Number(0, 10**400), "finite"),
        (ss.Number("0", 1), "must be a number"),
        (ss.Number(False, 1), "must be a number"),
        (ss.Number(1e16, 1e16 + 2), "too close"),
        (ss.Integer(0.5, 2), "whole numbers"),
        (ss.Integer(0, 2**60), "2^53"),
        ("number", "must be described by"),
    ],
)
def test_bad_bounds_name_the_column(column, words):
    with pytest.raises(ss.SchemaError, match="'age'") as found:
        ss.Schema({"age": column})
    assert words in str(found.value)


def test_a_schema_needs_columns_with_names():
    with pytest.raises(ss.SchemaError, match="at least one column"):
        ss.Schema({})
    with pytest.raises(ss.SchemaError, match="column name"):
        ss.Schema({"": ss.Number(0, 1)})


NAMES = ["age", 'quo"te', "dot.ted", "grüße 🙂", "tab\tbed", "del\x7f", "a#b", "[x]"]


def test_what_is_saved_is_what_is_loaded(tmp_path):
    columns = {name: ss.Number(-0.1 * i, 1e-300 if i == 0 else 1e16 * i) for i, name in enumerate(NAMES)}
    columns["visits"] = ss.Integer(-3, 7)
    schema = ss.Schema(columns)
    schema.save(tmp_path / "schema.toml")
    assert ss.Schema.load(tmp_path / "schema.toml") == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "No columns"),
        ("columns = 3", "No columns"),
        ("[columns.age]\nlower = 0\nupper = 1", "type None"),
        ('[columns.age]\ntype = "nmber"\nlower = 0\nupper = 1', "'nmber'"),
        ('[columns.age]\ntype = "number"\nlwer = 0\nupper = 1', "'lwer'"),
        ('[columns.age]\ntype = "number"\nupper = 1', "lower bound is missing"),
        ("[columns]\nage = 1", "section"),
        ('[columns.age]\ntype = "number"\n[columns.age]\ntype = "number"', "valid schema file"),
        ('[colums.age]\ntype = "number"', "'colums'"),
        ("[[[", "valid schema file"),
    ],
)
def test_a_bad_file_says_what_and_where(tmp_path, text, words):
    path = tmp_path / "schema.toml"
    path.write_text(text)
    with pytest.raises(ss.SchemaError, match=r"schema\.toml") as found:
        ss.Schema.load(path)
    assert words in str(found.value)


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(ss.SchemaError, match="cannot be read"):
        ss.Schema.load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes("# gr\xfc\xdfe".encode("latin-1"))
    with pytest.raises(ss.SchemaError, match="UTF-8"):
        ss.Schema.load(tmp_path / "latin.toml")


def test_a_mistyped_column_is_recognised():
    schema = ss.Schema({"weight": ss.Number(0, 1), "height": ss.Number(0, 1)})
    assert schema.coordinates_of("height") == slice(1, 2)
    with pytest.raises(ss.SchemaError, match="Did you mean 'weight'"):
        schema.coordinates_of("wieght")
