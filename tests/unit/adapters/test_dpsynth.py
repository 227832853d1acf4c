"""A domain.yaml in the form in which dpsynth writes it: plain fields for each column, sorted, with its type."""

import dataclasses

import pytest

import smoothsynth as ss
from smoothsynth.adapters.dpsynth import read_domain

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'smoothsynth[dpsynth]'")

DOMAIN = """
age:
  clip_to_range: true
  description: null
  dtype: int
  interval_handling: midpoint
  max_value: 120.0
  min_value: 0.0
  sentinel: null
  type: NumericalAttribute
income:
  clip_to_range: false
  dtype: float
  max_value: 1000000.0
  min_value: 0.0
  type: NumericalAttribute
tier:
  out_of_domain_index: 1
  possible_values:
  - FREE
  - PRO
  type: CategoricalAttribute
member:
  out_of_domain_index: 0
  possible_values: [false, true]
  type: CategoricalAttribute
code:
  possible_values: [1, 2, 9]
"""
EXPECTED = ss.Schema(
    {
        "age": ss.Integer(0, 120),
        "income": ss.Number(0.0, 1e6, nullable=True),
        "tier": ss.Category(["FREE", "PRO"], other="PRO"),
        "member": ss.Boolean(),
        "code": ss.Category([1, 2, 9], other=1),
    }
)


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "domain.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_domain_is_a_schema(write):
    assert read_domain(write(DOMAIN)) == EXPECTED
    assert read_domain(yaml.safe_load(DOMAIN)) == EXPECTED


def test_open_sets_need_levels_and_text_is_left_out(write):
    path = write("city: {type: OpenSetCategoricalAttribute, default_value: other}\nnote: {max_tokens: 9}\nage: {}\n")
    with pytest.raises(ss.SchemaError, match=r"'city' is an open set.*levels=\{'city'"):
        read_domain(path)
    with pytest.raises(ss.SchemaError, match=r"FreeFormTextAttribute.*leave_out=\['note'\]"):
        read_domain(path, levels={"city": ["Rome"]})
    found = read_domain(path, levels={"city": ["Rome", "Oslo"]}, leave_out=["note", "age"])
    assert found == ss.Schema({"city": ss.Category(["other", "Rome", "Oslo"], other="other")})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n- b\n", "by name"),
        ("", "by name"),
        ("a: [", "not plain YAML"),
        ("a: !!python/object/apply:os.system ['true']", "not plain YAML"),
        ("a: 5", "must have attributes"),
        ("a: {min_value: 5, max_value: 5}", "Column 'a'"),
        ("a: {min_value: 5, type: NumericalAttribute}", "upper"),
        ("a: {min_value: 0.5, max_value: 2, dtype: int}", "whole numbers"),
        ("a: {min_value: 0, max_value: 2, dtype: complex}", "int or float"),
        ("a: {possible_values: [x, y], out_of_domain_index: 2}", "place in it"),
        ("a: {possible_values: [0.5, 1.5]}", "fraction"),
        ("a: {possible_values: [x]}", "levels"),
        ("a: {possible_values: nothing}", "must be a list"),
    ],
)
def test_what_is_wrong_is_said(write, text, words):
    with pytest.raises(ss.SchemaError, match=words):
        read_domain(write(text))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ss.SchemaError, match="cannot be read"):
        read_domain(tmp_path / "none.yaml")


def test_leaving_out_what_is_not_there():
    with pytest.raises(ss.SchemaError, match="'height'"):
        read_domain({"age": {"min_value": 0, "max_value": 1}}, leave_out=["height"])


def test_attributes_in_memory():
    @dataclasses.dataclass(frozen=True)
    class NumericalAttribute:
        min_value: float
        max_value: float
        dtype: str = "float"

    assert read_domain({"age": NumericalAttribute(0.0, 120.0, "int")}) == ss.Schema({"age": ss.Integer(0, 120)})


def test_the_real_dpsynth(tmp_path):
    dpsynth = pytest.importorskip("dpsynth", reason="dpsynth is not installed: get it from GitHub, google/dpsynth")
    domain = {
        "age": dpsynth.domain.NumericalAttribute(0, 120, dtype="int"),
        "tier": dpsynth.domain.CategoricalAttribute(["FREE", "PRO"], out_of_domain_index=1),
    }
    dpsynth.domain.to_yaml_file(domain, tmp_path / "domain.yaml")
    expected = ss.Schema({"age": ss.Integer(0, 120), "tier": ss.Category(["FREE", "PRO"], other="PRO")})
    assert read_domain(tmp_path / "domain.yaml") == read_domain(domain) == expected
