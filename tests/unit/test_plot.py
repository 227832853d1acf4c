"""Pictures of a release: what is drawn is what the synthetic rows and their intervals say."""

import sys

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

import smoothsynth as ss

EVIL = "cost in $x^{$"


@pytest.fixture(scope="module")
def release():
    rng, n = np.random.default_rng(4), 400
    table = pa.table(
        {
            "age": rng.normal(50, 9, n),
            EVIL: rng.normal(0, 1, n),
            "sex": rng.choice(["f", "m"], n),
            "ok": pa.array(rng.random(n) < 0.3, mask=rng.random(n) < 0.5),
            "day": (np.datetime64("2020-01-01") + rng.integers(0, 300, n)).astype("datetime64[D]"),
        }
    )
    schema = ss.Schema(
        {
            "age": ss.Number(0, 100),
            EVIL: ss.Number(-5, 5),
            "sex": ss.Category(["f", "m"]),
            "ok": ss.Boolean(nullable=True),
            "day": ss.Date("2020-01-01", "2021-01-01"),
        }
    )
    return ss.release(table, schema=schema, epsilon=3.0, delta=1e-6, seed=1)


@pytest.mark.parametrize("what", ["columns", "pairs", "correlations", "avg(age)"])
def test_each_picture_is_a_figure_that_a_notebook_shows(release, what):
    drawn = release.plot(what)
    assert isinstance(drawn, Figure)
    assert drawn._repr_png_().startswith(b"\x89PNG")


def test_columns_have_the_shares_of_all_rows(release):
    axes = release.plot().axes
    assert [one.get_title().split(",")[0] for one in axes] == ["age", r"cost in \$x^{\$", "sex", "ok", "day"]
    sizes = [sum(bar.get_height() for bar in one.patches) for one in axes[:2]]
    assert sizes == pytest.approx([1.0, 1.0])
    there = 1.0 - release.table["ok"].null_count / release.table.num_rows
    assert sum(bar.get_width() for bar in axes[3].patches) == pytest.approx(there)
    assert "% missing" in axes[3].get_title()


def test_pairs_are_of_the_columns_that_are_named(release):
    axes = release.plot("pairs", columns=["age", "sex"]).axes
    assert len(axes) == 4
    drawn = axes[1].lines[0]
    assert np.array_equal(drawn.get_ydata(), release.table["age"].to_numpy())
    assert set(drawn.get_xdata()) == {0.0, 1.0}


def test_correlations_below_their_noise_are_in_brackets(release):
    texts = [text.get_text() for text in release.plot("correlations", columns=["age", EVIL]).axes[0].texts]
    value = np.corrcoef(release.table["age"].to_numpy(), release.table[EVIL].to_numpy())[0, 1]
    assert texts[0] == texts[3] == "1.00"
    assert texts[1] == f"({value:.2f})"


def test_every_kind_of_column_has_correlations(release):
    assert len(release.plot("correlations").axes[0].texts) == len(release.schema.names) ** 2


def test_questions_are_drawn_with_their_intervals(release):
    questions = ["avg(age)", "avg(sex = 'f')"]
    axes = release.plot(questions, confidence=0.9).axes[0]
    (ends,) = [one.get_segments() for one in axes.collections]
    for question, segment in zip(questions, ends, strict=True):
        found = release.answer(question, confidence=0.9)
        assert segment[:, 0] == pytest.approx([found.low, found.high])


@pytest.mark.parametrize(
    ("what", "columns", "said"),
    [
        ("colums", None, "Did you mean 'columns'"),
        ("columns", ["aeg"], "Did you mean 'age'"),
        ("pairs", ["age"] * 7, "At most 6"),
        ("age", None, "columns=.'age'."),
    ],
)
def test_a_wrong_name_is_answered_in_words(release, what, columns, said):
    with pytest.raises(ss.PlanError, match=said):
        release.plot(what, columns=columns)


def test_without_matplotlib_the_extra_is_named(release, monkeypatch):
    monkeypatch.delitem(sys.modules, "smoothsynth.report.plot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"smoothsynth\[plot\]"):
        release.plot()


def test_days_below_a_narrow_picture_do_not_run_into_each_other(release):
    age, day = release.plot(columns=["age", "day"]).axes
    assert {label.get_rotation() for label in age.get_xticklabels()} == {0.0}
    assert {label.get_rotation() for label in day.get_xticklabels()} == {30.0}
