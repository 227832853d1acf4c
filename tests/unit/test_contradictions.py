"""Rows that contradict what was released are found out, and named; rows that do not are left in peace."""

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.model.contradictions import _is_cut, _moments, contradictions, listed, remarks

ROWS = 6_000
SCHEMA = ss.Schema(
    {
        "g": ss.Number(0, 16, nullable=True),
        "u": ss.Number(-5, 5),
        "k": ss.Integer(0, 12),
        "c": ss.Category(["A", "B", "C"]),
    }
)


def table(unmatched=0.0):
    rng = np.random.default_rng(3)
    g = rng.normal(5.5, 1, ROWS)
    level = np.where(g + rng.normal(0, 1, ROWS) > 5.5, "A", rng.choice(["B", "C"], ROWS, p=[0.7, 0.3]))
    return pa.table(
        {
            "g": np.where(rng.random(ROWS) < 0.1, np.nan, g),
            "u": (g - 5.5) + rng.normal(0, 0.7, ROWS),
            "k": rng.poisson(3, ROWS),
            "c": np.where(rng.random(ROWS) < unmatched, "typo", level),
        }
    )


@pytest.fixture(scope="module", params=[1e-6, 0.0], ids=["gaussian", "pure"])
def release(request):
    return ss.release(table(), schema=SCHEMA, epsilon=4.0, delta=request.param, seed=1)


def found(release, change=lambda unit: unit):
    return contradictions(release.schema, release.moments, change(release.unit_rows().copy()))


def test_rows_of_a_clean_table_contradict_nothing(release):
    assert found(release) == ()
    assert remarks(release.schema, release.moments, release.unit_rows()) == ""
    assert "agree with the noisy moments within their noise" in release.receipt.outcome
    assert "contradict" not in release.receipt.outcome


def shuffled(unit):
    unit[:, 2] = np.random.default_rng(0).permutation(unit[:, 2])
    return unit


def halved(unit):
    unit[:, 2] = unit[:, 2].mean() + (unit[:, 2] - unit[:, 2].mean()) / 2
    return unit


def moved(unit):
    unit[:, 3] = np.minimum(unit[:, 3] + 0.3, 1.0)
    return unit


def swapped(unit):
    unit[:, [4, 6]] = unit[:, [6, 4]]
    return unit


def there(unit):
    unit[:, 1] = 0.0
    return unit


@pytest.mark.parametrize(
    ("change", "columns"),
    [(shuffled, ("g", "u")), (halved, ("u",)), (moved, ("k",)), (swapped, ("c",)), (there, ("g",))],
)
def test_rows_that_were_changed_are_found_out_and_the_columns_named(release, change, columns):
    named = found(release, change)
    assert columns in {one.columns for one in named}
    innocent = {("u",), ("k",), ("c",), ("g",)} - {columns}
    assert not innocent & {one.columns for one in named}
    assert repr(columns[0]) in listed(named)
    for one in named:
        assert abs(one.found - one.released) > 6 * one.noise
        assert one.far > 1


def test_what_was_released_is_said_with_its_noise(release):
    (one,) = [one for one in found(release, swapped) if one.columns == ("c",)]
    assert one.what == "share of a level"
    assert {round(one.released, 1), round(one.found, 1)} <= {0.1, 0.2, 0.3, 0.4, 0.5}


def test_products_are_compared_as_they_are_measured(release):
    unit = release.unit_rows()[:500]
    for noisy in release.moments:
        mean, spread, most = _moments(noisy.measurement, unit, [])
        seen = noisy.measurement.evaluate(unit)
        compared = [not (_is_cut(noisy.measurement) and len(feature.terms[0]) == 1) for feature in noisy.features]
        np.testing.assert_allclose(mean[compared], seen.mean(axis=0)[compared], atol=1e-4)
        assert np.all(spread[compared] >= seen.std(axis=0)[compared] - 1e-4)
        assert np.all(most[compared] >= np.abs(seen).max(axis=0)[compared] - 1e-4)


def test_a_few_rows_contradict_less_than_many(release):
    many = shuffled(release.unit_rows().copy())
    assert contradictions(SCHEMA, release.moments, many)
    assert contradictions(SCHEMA, release.moments, many[:30]) == ()
    # Where a level is rare, few rows may have none of it.
    assert contradictions(SCHEMA, release.moments, release.unit_rows()[release.unit_rows()[:, 6] == 0][:60]) == ()


@pytest.fixture
def collapsed(monkeypatch):
    """A release whose model takes rows without a level for rows with one, as it once did."""
    monkeypatch.setattr("smoothsynth.model.marginal_moments._BEYOND_NOISE", np.inf)
    rng = np.random.default_rng(4)
    values = {
        "g": np.where(rng.random(ROWS) < 0.1, np.nan, rng.normal(5.5, 1, ROWS)),
        "u": rng.random(ROWS),
        "c": np.where(rng.random(ROWS) < 0.43, "typo", rng.choice(["A", "B", "C"], ROWS)),
    }
    schema = {"g": ss.Number(0, 30, nullable=True), "u": ss.Number(0, 1), "c": SCHEMA.columns["c"]}
    return ss.release(pa.table(values), schema=ss.Schema(schema), epsilon=8.0, delta=1e-6, seed=1)


def test_columns_that_collapsed_are_named_by_the_receipt_the_page_and_verify(collapsed, tmp_path):
    assert any("g" in one.columns for one in found(collapsed))
    assert "But the rows contradict what was released about " in collapsed.receipt.outcome
    assert "'g'" in collapsed.receipt.outcome
    collapsed.write(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert 'class="warning"' in page
    assert "<strong>The rows contradict what was released.</strong>" in page
    assert "&#x27;g&#x27;" in page
    check = ss.verify(tmp_path / "out")["moments"]
    assert check.outcome == "warning"
    assert "'g'" in check.sentence


def test_cells_that_are_no_level_are_told_in_the_receipt_and_on_the_page(tmp_path):
    release = ss.release(table(0.3), schema=SCHEMA, epsilon=4.0, delta=1e-6, seed=1)
    said = remarks(SCHEMA, release.moments, release.unit_rows())
    assert said.startswith("About ")
    assert float(said.split("%")[0].removeprefix("About ")) == pytest.approx(30, abs=2)
    assert said.endswith("% of the cells of 'c' are no level: give it an `other`, or make it nullable.")
    assert release.receipt.outcome.endswith(said)
    release.write(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "% of the cells of c are no level.</strong>" in page
    assert "<strong>The rows contradict" not in page
    check = ss.verify(tmp_path / "out")["moments"]
    assert check.outcome == "passed"


def test_a_clean_page_has_no_warning(release, tmp_path):
    release.write(tmp_path / "out")
    assert 'class="warning"' not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
