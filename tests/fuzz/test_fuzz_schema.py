"""Schema files of any content: a schema that can be used, or a SchemaError."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import smoothsynth as ss

ROOT = Path(__file__).resolve().parents[2]

NAMES = st.text(max_size=8) | st.sampled_from(["columns", "type", "lower", "upper", "age"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 10**400, "number", "integer"])
    | st.floats()
    | st.text(max_size=8)
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
TYPES = st.sampled_from(["number", "integer", "category", "boolean", "date", "datetime"])
TIMES = st.dates().map(str) | st.datetimes().map(str) | st.dates() | st.datetimes()
BOUND = LEAVES | TIMES
SOME = st.lists(LEAVES, max_size=4)
COLUMNS = st.fixed_dictionaries({}, optional={"type": TYPES | LEAVES, "lower": BOUND, "upper": BOUND, "x": LEAVES})
# Half of these are schemas.
TYPED = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("category"),
            "levels": st.lists(st.text(max_size=4), max_size=4) | st.lists(st.integers()) | SOME,
        },
        optional={"other": LEAVES, "nullable": st.booleans() | LEAVES},
    ),
    st.fixed_dictionaries({"type": st.just("boolean")}, optional={"nullable": st.booleans() | LEAVES}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["date", "datetime"]), "lower": TIMES, "upper": TIMES},
        optional={"nullable": st.booleans()},
    ),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["number", "integer"]),
            "lower": st.integers(-9, 9) | LEAVES,
            "upper": st.integers(0, 99) | LEAVES,
        },
        optional={
            "transform": st.sampled_from(["log", "asinh", "rank-to-public-quantiles"]) | LEAVES,
            "scale": st.floats(0.1, 10) | LEAVES,
            "quantiles": st.lists(st.integers(-9, 99), max_size=3).map(sorted) | SOME,
            "nullable": st.booleans() | LEAVES,
        },
    ),
)
FACTS = st.fixed_dictionaries({"columns": st.dictionaries(NAMES, TYPED | COLUMNS | VALUES, max_size=4)}) | VALUES
WORDS = ["[", "]", "columns", ".", "age", "type", "=", '"number"', '"integer"', "lower", "upper", "\n", "0", "1", "-",
         "1e999", "nan", "inf", "0x" + "f" * 5000, "9" * 5000, "'", '"', '"""', "#", "{", "}", ",", "\\", "\\ud800", "\0",
         "1979-05-27", "25:61:00", "[" * 2000, "a." * 2000, "true", "lower = 0\n", "upper = 1\n",
         '[columns.age]\ntype = "number"\n', '[columns.sex]\ntype = "category"\n', "levels = ['a', 'b']\n",
         "nullable = true\n", "transform = 'log'\n", "quantiles = [0.5]\n", "other = 'b'\n"]  # fmt: skip


def refusal(action):
    try:
        action()
    except ss.SchemaError as error:
        return error
    return None


def try_facts(facts):
    from benchmarks.robustness.fuzz import use_schema

    error = refusal(lambda: use_schema(ss.Schema.from_facts(facts)))
    assert error is None or (10 < len(str(error)) < 2_000 and error.__cause__ is None)


def try_text(text):
    from benchmarks.robustness.fuzz import use_schema

    error = refusal(lambda: use_schema(ss.Schema.parse(text)))
    assert error is None or error.__cause__ is error.__context__ is None


@given(facts=FACTS)
@example(facts=[])
@example(facts={1: 2, "a": 3})
@example(facts={"columns": {"a": {"type": "integer", "lower": 0, "upper": 2**53 + 1}}})
@example(facts={"columns": {"a": {"type": "category", "levels": ["a", "b", "\x00"], "other": "b", "nullable": True}}})
@example(facts={"columns": {"a": {"type": "category", "levels": [[], {}]}}})
@example(facts={"columns": {"a": {"type": "date", "lower": "0001-01-01", "upper": "9999-12-31", "nullable": True}}})
@example(facts={"columns": {"a": {"type": "datetime", "lower": "0001-01-01T00:00:00+23:00", "upper": "9999-12-31"}}})
@example(facts={"columns": {"a": {"type": "number", "lower": 0, "upper": 1, "transform": [], "quantiles": {}}}})
@example(facts={"columns": {"\ud800": {"type": "number", "lower": 0, "upper": 1}}})
@example(facts={"columns": {"a": {"type": "number", "lower": 0, "upper": 1, 3: 4, "b": 5}}})
def test_facts_of_any_kind(facts):
    try_facts(facts)


@given(text=st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=20).map("".join))
def test_text_of_any_kind(text):
    try_text(text)


@settings(max_examples=50)
@given(content=st.binary(max_size=200))
def test_files_of_any_content(content, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "schema.toml"
    path.write_bytes(content)
    with pytest.raises(ss.SchemaError) as caught:
        ss.Schema.load(path)
    assert caught.value.__context__ is None, "what hangs on the error holds the whole file"


@pytest.mark.parametrize("place", ["type", "lower", "upper", "x"])
def test_numbers_that_python_refuses_to_write(place):
    column = {"type": "number", "lower": 0, "upper": 1, place: -(16**5000)}
    with pytest.raises(ss.SchemaError):
        ss.Schema.from_facts({"columns": {"a": column}})
    with pytest.raises(ss.SchemaError):
        ss.Schema.parse(f'[columns.a]\ntype = "number"\nlower = 0\nupper = 0x{"f" * 5000}')


def test_a_path_that_is_none():
    for path in ("a\0b", "/", "", "x" * 5000):
        with pytest.raises(ss.SchemaError, match="cannot be read"):
            ss.Schema.load(path)


def harness(inputs, seed=1):
    command = [sys.executable, "-m", "benchmarks", "fuzz", "--inputs", str(inputs), "--seed", str(seed)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_harness_counts():
    shown = harness(40, seed=3)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    inputs, accepted, refused, unhandled = map(int, shown.stdout.split("\nall")[1].split())
    assert inputs == accepted + refused >= 40
    assert unhandled == 0
    assert accepted > 0
    assert refused > 0


def test_the_harness_notices_what_is_unhandled_and_what_leaks():
    from benchmarks.robustness.fuzz import SENTINEL, Count

    def leak():
        raise ss.DataError(f"found {SENTINEL}")

    count = Count("bad")
    count.tally(lambda: 1 / 0)
    count.tally(leak)
    count.tally(lambda: None)
    assert (count.inputs, count.accepted, count.refused) == (3, 1, 0)
    assert len(count.unhandled) == 2


@pytest.mark.slow
def test_a_hundred_thousand_damaged_inputs():
    shown = harness(100_000, seed=2)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert int(shown.stdout.split("\nall")[1].split()[0]) >= 100_000


@pytest.mark.slow
@settings(max_examples=5_000)
@given(facts=FACTS, text=st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=20).map("".join))
def test_many_schemas(facts, text):
    try_facts(facts)
    try_text(text)
