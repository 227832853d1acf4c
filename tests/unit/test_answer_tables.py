"""Released tables as evidence: cells are moments of a question on their columns, whole or summed up to two of them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import smoothsynth as ss
from smoothsynth.answer.evidence import Evidence
from smoothsynth.queries.soft_tables import SoftTables

ROWS = 3000
LEVELS = [*"abcdefgh"]
SCHEMA = ss.Schema(
    {
        "kind": ss.Category(LEVELS),
        "place": ss.Category(LEVELS),
        "side": ss.Category(["left", "right"]),
        "x": ss.Number(-1, 1),
    }
)


@pytest.fixture(scope="module")
def people():
    """The first two categories are never of the same level, and each has levels that few rows have."""
    rng = np.random.default_rng(2)
    shares = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.02, 0.015, 0.005])
    kind = rng.choice(8, ROWS, p=shares)
    place = (kind + 1 + rng.choice(7, ROWS, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02])) % 8
    side = (kind + place + (rng.random(ROWS) < 0.1)) % 2
    x = np.clip(0.3 * (kind % 3 - 1) * np.where(side, 1, -1) + 0.2 * rng.normal(size=ROWS), -1, 1)
    named = np.array(LEVELS)
    return pd.DataFrame({"kind": named[kind], "place": named[place], "side": np.where(side, "right", "left"), "x": x})


@pytest.fixture(scope="module")
def release(people):
    method = ss.methods.Adaptive(workload=[["kind", "place"], ["kind", "side", "x"]])
    return ss.release(people, schema=SCHEMA, epsilon=3.0, delta=1e-6, seed=5, method=method)


def only(release, *orders):
    """Return the same release, had of several columns no tables but those of these orders been measured."""
    kept = tuple(m for m in release.moments if getattr(m.measurement.family, "order", 1) in (1, *orders))
    assert len(kept) < len(release.moments)
    return replace(release, moments=kept)


def coordinates(*names):
    return [c for name in names for c in range(SCHEMA.coordinates_of(name).start, SCHEMA.coordinates_of(name).stop)]


def tables_in(known, columns):
    found = known.blocks_within(columns)
    return [(r, block) for r, block in found if isinstance(known.rounds[r].family, SoftTables) and len(block.read) > 2]


def test_a_share_of_two_levels_has_the_noise_of_its_cell(people, release):
    noise = max(m.deviations[0] for m in release.moments if getattr(m.measurement.family, "order", 1) == 2)
    for kind, place in ("ab", "bc", "ac", "bd"):
        text = f"avg(kind = '{kind}' and place = '{place}')"
        told, untold = (one.answer(text, confidence=0.9999) for one in (release, only(release)))
        assert told.low <= np.mean((people["kind"] == kind) & (people["place"] == place)) <= told.high
        assert told.half_width < min(1.2 * 3.9 * noise, 0.65 * untold.half_width)


def test_a_table_of_three_columns_is_used_whole_or_summed_up_but_never_twice(release):
    known = Evidence(only(release, 3))
    for columns in (coordinates("kind", "side", "x"), coordinates("kind", "place", "side", "x")):
        places = [(r, place) for r, block in tables_in(known, columns) for place in block.places.ravel().tolist()]
        assert len(set(places)) == len(places)
    ((r, whole),) = tables_in(known, coordinates("kind", "side", "x"))
    ((again, summed),) = tables_in(known, coordinates("kind", "side"))
    assert again == r
    assert sorted(summed.places.ravel()) == sorted(whole.places.ravel())
    values, variances = known.rounds[r].released(summed)
    assert variances == pytest.approx(summed.places.shape[1] * known.rounds[r].deviations[0] ** 2)
    assert values.sum() == pytest.approx(known.rounds[r].values[whole.places].sum())
    measurement = known.rounds[r].noisy.measurement
    factors = measurement.factors(known.points)
    means = measurement.family.means(factors, whole)[summed.places - whole.places.min()].sum(axis=1)
    np.testing.assert_allclose(measurement.family.means(factors, summed), means, atol=1e-12)


def test_two_columns_of_a_table_of_three_are_told(people, release):
    told, untold = (
        one.answer("avg(kind = 'b' and side = 'left')", confidence=0.9999) for one in (only(release, 3), only(release))
    )
    assert told.half_width < 0.8 * untold.half_width
    assert told.low <= np.mean((people["kind"] == "b") & (people["side"] == "left")) <= told.high


def test_two_rare_levels_together_are_not_taken_to_be_known_exactly(people, release):
    """No synthetic row has some of them, and intervals of no width held three in four of such shares."""
    few = replace(only(release), table=release.table.slice(0, 1000))
    kinds = [(a, b) for a in "efgh" for b in LEVELS]
    found = [few.answer(f"avg(kind = '{a}' and place = '{b}')") for a, b in kinds]
    truths = [np.mean((people["kind"] == a) & (people["place"] == b)) for a, b in kinds]
    assert any(one.value == 0.0 for one in found)
    widths = [one.half_width for one in found]
    assert min(widths) > 0.0
    assert np.quantile(widths, 0.1) > 1.0 / ROWS
    assert np.mean([one.low <= truth <= one.high for one, truth in zip(found, truths, strict=True)]) > 0.9


def test_missing_values_and_truth_values_are_looked_at_together_too():
    rng = np.random.default_rng(0)
    schema = ss.Schema({"ill": ss.Boolean(), "y": ss.Number(0, 1, nullable=True)})
    table = pd.DataFrame({"ill": rng.random(800) < 0.01, "y": np.where(rng.random(800) < 0.01, np.nan, 0.5)})
    made = ss.release(table, schema=schema, epsilon=4.0, delta=1e-6, seed=1)
    known = Evidence(made)
    states = known.about((0, 2)).rows[:, [0, 2]]
    assert {tuple(state) for state in states.tolist()} >= {(1.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (-1.0, 0.0)}
    assert known.about((0,)) is known.about((1,)) is known
