"""The synthesizer as SmartNoise creates it, against the real snsynth where it is installed."""

import numpy as np
import pandas as pd
import pytest

import smoothsynth as ss
from smoothsynth.adapters import smartnoise

# What snsynth and the libraries it brings warn about is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def snsynth():
    return pytest.importorskip(
        "snsynth", reason="smartnoise-synth is not installed (it needs PyTorch): pip install 'smoothsynth[smartnoise]'"
    )


@pytest.fixture
def create(snsynth, schema):
    smartnoise.register()
    return lambda **changes: snsynth.Synthesizer.create(
        "smoothsynth", **{"epsilon": 2, "schema": schema, "seed": 3, **changes}
    )


def test_it_is_on_the_list(snsynth, create):
    assert "smoothsynth" in snsynth.Synthesizer.list_synthesizers()
    assert type(create()) is smartnoise.SmoothSynthesizer
    assert isinstance(create(), snsynth.Synthesizer)
    by_class = snsynth.Synthesizer.create(smartnoise.SmoothSynthesizer, epsilon=1.0, schema=create().schema)
    assert by_class.epsilon == 1.0


def test_frames(create, frame):
    made = create()
    rows = made.fit_sample(frame, preprocessor_eps=0.0)
    assert isinstance(rows, pd.DataFrame)
    assert rows.shape == frame.shape
    assert made.release.receipt.budget.epsilon == 2
    assert abs(rows["age"].mean() - frame["age"].mean()) < 15
    assert len(made.sample(7)) == 7


def test_arrays_and_lists_of_tuples(create, frame):
    array = create().fit_sample(frame.to_numpy())
    assert isinstance(array, np.ndarray)
    assert array.shape == frame.shape
    tuples = create().fit_sample(list(frame.itertuples(index=False, name=None)))
    assert isinstance(tuples, list)
    assert len(tuples) == len(frame)
    assert type(tuples[0]) is tuple
    assert [type(cell) for cell in tuples[0]] == [float, float, int]


def test_conditions(create, frame):
    made = create(epsilon=5.0)
    made.fit(frame)
    rows = made.sample_conditional(10, "age > 50")
    assert len(rows) == 10
    assert (rows["age"] > 50).all()


def test_what_the_schema_replaces_is_refused(create, frame):
    with pytest.raises(ss.PlanError, match="Leave both out"):
        create().fit(frame, preprocessor_eps=0.5)
    with pytest.raises(ss.PlanError, match="Leave both out"):
        create().fit(frame, transformer={"age": "minmax"})
    create().fit(frame, categorical_columns=["visits"])


def test_a_lesson_for_what_is_missing(create, frame):
    with pytest.raises(ss.SchemaError, match="public knowledge"):
        create(schema=None)
    with pytest.raises(ss.PlanError, match="epsilon"):
        create(epsilon=None)
    with pytest.raises(ss.ReleaseError, match="fit"):
        create().sample(5)
    with pytest.raises(ss.DataError, match="3 columns"):
        create().fit([(1.0, 2.0)])
    with pytest.raises(ss.DataError, match="3 columns"):
        create().fit(np.zeros((5, 2)))
    with pytest.raises(ss.DataError, match="it is a set"):
        create().fit(set())


def test_without_smartnoise_the_remedy_is_said(monkeypatch):
    monkeypatch.setattr(smartnoise, "synth_map", None)
    with pytest.raises(ss.PlanError, match=r"smoothsynth\[smartnoise\]"):
        smartnoise.register()


def test_the_class_alone_needs_no_smartnoise(frame, schema):
    made = smartnoise.SmoothSynthesizer(epsilon=2.0, schema=schema, seed=3)
    made.fit(frame)
    assert made.sample(9).shape == (9, 3)
