"""The estimator against scikit-learn's own checks, and what scikit-learn does not ask for: rows, kinds, privacy."""

import collections
import pickle

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss

sklearn = pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install 'smoothsynth[sklearn]'")
from scipy.stats import wasserstein_distance  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency, check_estimator  # noqa: E402

from smoothsynth.adapters import frames  # noqa: E402

# Checks that scikit-learn leaves out by itself, and why.
LEFT_OUT = {
    "check_pipeline_consistency": "two fits differ: noise is drawn anew from the operating system, which no seed reaches",
    "check_array_api_input": "only run where SCIPY_ARRAY_API is set",
}


@pytest.fixture
def rows(frame):
    return frame.to_numpy()


def test_scikit_learn_finds_nothing_wrong():
    outcomes = check_estimator(ss.Synthesizer(bounds=(-10, 10)), on_fail=None, on_skip=None)
    others = {o["check_name"]: f"{o['status']}: {o['exception']!r}" for o in outcomes if o["status"] != "passed"}
    assert {name: words for name, words in others.items() if name not in LEFT_OUT} == {}
    assert sum(o["status"] == "passed" for o in outcomes) > 30


def test_scikit_learn_finds_nothing_wrong_with_names():
    """A check that scikit-learn has for its own estimators only."""
    check_dataframe_column_names_consistency("Synthesizer", ss.Synthesizer(bounds=(-10, 10)))


def test_fit_and_sample(frame, schema):
    model = ss.Synthesizer(epsilon=2, schema=schema, seed=3).fit(frame)
    assert model.release_.receipt.budget.epsilon == 2
    assert list(model.feature_names_in_) == ["age", "income", "visits"]
    assert model.n_features_in_ == 3
    made = model.sample()
    assert type(made) is type(frame)
    assert made.equals(model.release_.to_pandas())
    assert abs(made["age"].mean() - frame["age"].mean()) < 15
    assert len(model.sample(17)) == 17
    assert model.sample(17).equals(model.sample(17))


def test_new_rows_have_the_distribution_of_the_release(frame, schema):
    model = ss.Synthesizer(epsilon=5, schema=schema, seed=3).fit(frame)
    one, other = model.sample()["age"], model.sample(4000)["age"]
    assert abs(one.mean() - other.mean()) < 5
    assert abs(one.std() - other.std()) < 5


def test_rows_that_were_weighed_are_repeated(frame, schema):
    model = ss.Synthesizer(schema=schema, seed=3, method="paper", synthetic_rows=50).fit(frame)
    many = model.sample(120)
    counts = many.value_counts()
    assert len(many) == 120
    assert set(map(tuple, many.to_numpy())) == set(map(tuple, model.sample().to_numpy()))
    assert counts.min() >= 2


@pytest.mark.parametrize("wanted", [0, -1, 2.5, True, "10"])
@pytest.mark.parametrize("method", ["auto", "paper"])
def test_a_number_of_rows_must_be_one(frame, schema, wanted, method):
    model = ss.Synthesizer(schema=schema, method=method).fit(frame)
    with pytest.raises(ss.PlanError, match="whole number from 1"):
        model.sample(wanted)


def test_arrays_go_in_and_out(rows, schema):
    model = ss.Synthesizer(schema=schema, seed=1).fit(rows)
    made = model.sample(20)
    assert isinstance(made, np.ndarray)
    assert made.shape == (20, 3)
    assert not hasattr(model, "feature_names_in_")
    assert (made[:, 2] == np.rint(made[:, 2])).all()


def test_mixed_arrays_and_cells_that_cannot_be_read(schema):
    schema = ss.Schema({**schema.columns, "sex": ss.Category(["f", "m"])})
    cells = np.array([[40.0, 1e5, 3, "f"], ["no number", None, {}, 7]] * 50, dtype=object)
    made = ss.Synthesizer(schema=schema, seed=1).fit(cells).sample()
    assert made.dtype == object
    assert set(made[:, 3]) <= {"f", "m"}


def test_frames_of_integers_as_names(frame):
    frame.columns = [0, 1, 2]
    assert isinstance(ss.Synthesizer(bounds=(0, 1e6)).fit(frame).sample(5), np.ndarray)


def test_names_are_all_text_or_none(frame):
    with pytest.raises(ss.DataError, match="all have text"):
        ss.Synthesizer(bounds=(0, 1)).fit(frame.rename(columns={"age": 7}))


def test_polars_and_arrow(frame, schema):
    polars = pytest.importorskip("polars")
    for data in (polars.from_pandas(frame), pa.Table.from_pandas(frame)):
        model = ss.Synthesizer(schema=schema).fit(data)
        assert type(model.sample(5)) is type(data)
        assert list(model.feature_names_in_) == ["age", "income", "visits"]
    lazy = polars.from_pandas(frame).lazy()
    assert isinstance(ss.Synthesizer(schema=schema).fit(lazy).sample(5), polars.LazyFrame)


def test_without_public_facts_there_is_a_lesson(frame):
    with pytest.raises(ss.SchemaError, match="public knowledge"):
        ss.Synthesizer().fit(frame)
    with pytest.raises(ss.SchemaError, match="both are given"):
        ss.Synthesizer(schema=ss.Schema({"age": ss.Number(0, 1)}), bounds=(0, 1)).fit(frame)
    with pytest.raises(ss.SchemaError, match="must be a Schema"):
        ss.Synthesizer(schema={"age": (0, 120)}).fit(frame)
    with pytest.raises(ss.SchemaError, match="two numbers"):
        ss.Synthesizer(bounds=7).fit(frame)


def test_an_array_must_fit_the_schema(rows, schema):
    with pytest.raises(ss.SchemaError, match=r"each of the 3 .* it has 2"):
        ss.Synthesizer(schema=schema).fit(rows[:, :2])


def test_nothing_to_sample_before_fit():
    with pytest.raises(NotFittedError):
        ss.Synthesizer(bounds=(0, 1)).sample()
    with pytest.raises(NotFittedError):
        ss.Synthesizer(bounds=(0, 1)).score([[0.0]])


def test_the_score_is_minus_the_mean_wasserstein_distance(frame, schema):
    model = ss.Synthesizer(epsilon=5, schema=schema, seed=3).fit(frame)
    columns = {name: frame[name].to_numpy() for name in schema.names}
    pairs = zip(schema.to_unit(columns).T, model.release_.unit_rows().T, strict=True)
    expected = -np.mean([wasserstein_distance(one, other) for one, other in pairs])
    assert model.score(frame) == pytest.approx(expected, rel=1e-9)
    assert model.score(frame) > model.score(frame.assign(age=frame["age"] + 30)) + 0.05
    assert ss.Synthesizer(schema=schema, seed=1).fit(frame.to_numpy()).score(frame.to_numpy()) < 0


def test_parameters_are_kept_and_cloned(schema):
    model = ss.Synthesizer(epsilon=0.5, schema=schema, method=ss.methods.Adaptive(focus="marginals"))
    assert model.get_params()["method"].focus == "marginals"
    assert clone(model.set_params(epsilon=2)).epsilon == 2


def test_focus_is_an_option_of_the_method(frame, schema):
    with pytest.warns(DeprecationWarning, match=r"focus=... is now method=ss.methods.Adaptive\(focus=...\)"):
        ss.Synthesizer(schema=schema, focus="marginals").fit(frame)


def test_no_row_is_kept(frame, schema):
    frame = frame.copy()
    frame.loc[0, "age"] = 77.123456789
    model = ss.Synthesizer(schema=schema, seed=1).fit(frame)
    text = pickle.dumps(model)
    assert np.float64(77.123456789).tobytes() not in text
    assert pickle.loads(text).sample().equals(model.sample())


def test_a_ledger_counts_every_fit(frame, schema, tmp_path):
    from smoothsynth.accounting.ledger import LedgerFile

    path = tmp_path / "people.ledger"
    LedgerFile.create(path, ss.Budget(1.5, 0.0))
    model = ss.Synthesizer(epsilon=1, schema=schema, ledger=path).fit(frame)
    with pytest.raises(ss.BudgetError):
        model.fit(frame)


def test_no_error_about_the_shape_quotes_a_cell():
    for rows in (np.array([424242.75, 1.0]), [424242.75, 1.0], np.array(["SECRET", "x"], dtype=object)):
        with pytest.raises(ValueError, match="Expected 2D array") as caught:
            ss.Synthesizer(bounds=(0, 1)).fit(rows)
        assert "424242.75" not in str(caught.value)
        assert "SECRET" not in str(caught.value)
    for rows in (np.ma.masked_array([[424242.75]]), collections.deque([[424242.75]]), {"a": 424242.75}):
        with pytest.raises(TypeError, match="must be a frame, an array") as caught:
            ss.Synthesizer(bounds=(0, 1)).fit(rows)
        assert "424242.75" not in str(caught.value)


@pytest.mark.parametrize("odd", [[424242.75], None, "ab", [1.0, 2.0, 3.0]])
def test_a_row_of_another_length_is_missing(odd):
    rows = frames.array_of([[1.0, 2.0], odd, [3.0, 4.0]])
    assert rows.tolist() == [[1.0, 2.0], [None, None], [3.0, 4.0]]


def test_the_kind_of_what_comes_out_does_not_depend_on_cells():
    kinds = {frames.kind_of(np.array([[text]])) for text in ("a", "a longer text")}
    assert kinds == {frames.Kind("numpy")}
