"""Attacks on a release: leaks are seen, their absence is too, and nothing of the report looks fit for publication."""

import copy
import dataclasses
import json
import math
import pickle
import stat

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.charges import Budget
from smoothsynth.accounting.guessing import (
    chance_of_more,
    difference,
    most_advantage,
    most_area,
    most_correct,
    most_true_positives,
    shown_epsilon,
    wilson,
)
from smoothsynth.audit.case import proportion_at_least
from smoothsynth.cli.main import app
from smoothsynth.pipeline.attack import BEYOND, MARK, NOTHING
from smoothsynth.report.attack import attack_page

SCHEMA = ss.Schema(
    {
        "age": ss.Number(0, 120),
        "sex": ss.Category(["f", "m"]),
        "income": ss.Number(0, 100_000),
        "visits": ss.Integer(0, 20, nullable=True),
    }
)


def people(seed, count=1500):
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 15, count).clip(0, 120)
    visits = rng.poisson(3, count).astype(object)
    visits[rng.random(count) < 0.1] = None
    return pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], count),
            "income": np.exp(rng.normal(7 + age / 40, 0.5)),
            "visits": visits,
        }
    )


MEMBERS, OTHERS = people(1), people(2)


@pytest.fixture(scope="module")
def release():
    return ss.release(MEMBERS, schema=SCHEMA, epsilon=1.0, delta=1e-6, seed=1)


def leaking(release, copied):
    """Return the release with private rows in the place of some synthetic ones: as a broken software would make it."""
    table = release.table
    rows = pa.Table.from_pandas(MEMBERS.head(copied), preserve_index=False).cast(table.schema)
    return dataclasses.replace(release, table=pa.concat_tables([rows, table.slice(copied)]))


def by_name(report):
    return {attack.about: attack for attack in report.attacks.found}


def test_an_honest_release_shows_nothing(release):
    report = ss.attack(MEMBERS, release, holdout=OTHERS)
    assert report.passed
    assert {report.verdict(attack) for attack in report.attacks.found} == {NOTHING}
    assert report.in_words().startswith("No evidence of a leak")
    assert "epsilon 1 for one row, allows 73%" in report.in_words()
    found = by_name(report)
    assert set(found) == {
        *("nearest synthetic row", "nearer than to other people"),
        *("the same in all columns", "near in all columns", *SCHEMA.names),
    }
    assert 0.45 < found["nearest synthetic row"].curve.area < 0.55
    # What the population tells is no leak: sex is guessed as well for others.
    assert found["sex"].members > 0.4 * found["sex"].rows


def test_copied_rows_are_caught_by_every_attack(release):
    report = ss.attack(MEMBERS, leaking(release, 1200), holdout=OTHERS)
    found = by_name(report)
    assert not report.passed
    for name in ("nearest synthetic row", "nearer than to other people", "the same in all columns", "income"):
        assert report.verdict(found[name]) == BEYOND, name
    assert found["nearest synthetic row"].curve.advantage > most_advantage(Budget(1.0))
    assert found["the same in all columns"].others == 0
    assert report.in_words().startswith("More than the promise allows")


def test_a_few_copied_rows_are_caught_by_a_guesser_who_may_pass(release):
    report = ss.attack(MEMBERS, leaking(release, 60), holdout=OTHERS)
    score = by_name(report)["nearest synthetic row"]
    assert score.guesses < 0.2 * score.rows
    assert report.verdict(by_name(report)["the same in all columns"]) == BEYOND
    assert score.shown > 0.0
    # Their share is too small for the area to show anything.
    assert score.curve.area < 0.56


def test_without_a_holdout_it_is_said_what_cannot_be_told(release):
    report = ss.attack(MEMBERS, leaking(release, 300))
    assert [attack.family for attack in report.attacks.found] == ["match", "match"]
    assert report.attacks.found[0].members == 300
    assert report.attacks.found[0].shown is None
    assert "Without them nobody can say" in report.in_words()
    assert report.passed
    json.dumps(report.as_dict())
    assert MARK in attack_page(report)


def test_only_secret_columns_are_guessed_and_the_same_rows_every_time(release):
    first = ss.attack(MEMBERS, release, holdout=OTHERS, secret=["income"])
    assert [a.about for a in first.attacks.found if a.family == "attribute"] == ["income"]
    assert first.as_dict() == ss.attack(MEMBERS, release, holdout=OTHERS, secret=["income"]).as_dict()
    assert first.as_dict() != ss.attack(MEMBERS, release, holdout=OTHERS, secret=["income"], seed=5).as_dict()


def test_no_more_rows_are_looked_at_than_the_limit(release, monkeypatch):
    monkeypatch.setattr("smoothsynth.private.attack.MOST_PAIRS", 200)
    monkeypatch.setattr("smoothsynth.private.attack.MOST_SYNTHETIC", 300)
    looked = []
    report = ss.attack(MEMBERS, release, holdout=OTHERS, progress=lambda *done: looked.append(done))
    assert {attack.rows for attack in report.attacks.found} == {200}
    assert looked[-1] == ("attacking with the holdout", 200, 200)


def test_a_holdout_of_released_rows_is_refused(release):
    """They would be matched as often as private rows are, and a leak would look like chance."""
    leak = leaking(release, 1200)
    for mixed in (MEMBERS, pd.concat([OTHERS, MEMBERS.head(200)]), pd.concat([OTHERS, MEMBERS.head(38)])):
        with pytest.raises(ss.DataError, match="must be of other people"):
            ss.attack(MEMBERS, leak, holdout=mixed)


def test_the_chance_of_more_hits_is_that_of_a_fair_coin():
    assert chance_of_more(20, 0) == 2.0**-20
    assert chance_of_more(3, 1) == 5 / 16
    assert chance_of_more(4, 4) == chance_of_more(0, 0) == 1.0


def test_a_holdout_of_people_who_are_equal_by_chance_is_taken():
    rng = np.random.default_rng(4)
    ours, theirs = (pa.table({"a": rng.integers(0, 3, 400), "b": rng.integers(0, 2, 400)}) for _ in range(2))
    schema = ss.Schema({"a": ss.Integer(0, 2), "b": ss.Integer(0, 1)})
    report = ss.attack(ours, ss.release(ours, schema=schema, epsilon=1.0, seed=1), holdout=theirs)
    same = by_name(report)["the same in all columns"]
    assert same.members == same.others == same.rows
    assert report.passed


def test_chance_is_taken_for_a_leak_once_in_twenty_reports():
    """Scores and matches that tell nothing: all bounds of a report together are above 0 in at most 5 % of reports."""
    from smoothsynth.private.attack import _paired, _Seen

    rng = np.random.default_rng(6)

    def seen(count=300):
        flags = rng.random((3, count)) < np.array([[0.02], [0.3], [0.5]])
        return _Seen(rng.normal(size=(count, 2)), rng.gamma(1, 1, count), flags[0], flags[1], flags[2:].T)

    reports = [_paired(seen(), seen(), rng.normal(size=(50, 2)), ("income",), 1e-6) for _ in range(300)]
    alarms = sum(any(attack.shown > 0.0 for attack in found) for found in reports)
    assert 1 <= alarms <= 24


def test_rows_are_picked_in_the_order_of_their_places():
    from smoothsynth.private.attack import _picked
    from smoothsynth.private.table import open_table

    schema = ss.Schema({"x": ss.Number(0, 100)})
    places = np.array([7, 99, 0, 42])
    points = _picked(open_table(pa.table({"x": np.arange(100.0)}), schema), places)
    assert points[:, 0] == pytest.approx(places / 50 - 1)


def test_what_cannot_be_attacked_is_said(release):
    with pytest.raises(ss.DataError, match=r"made from 1,500 rows; this table has 1,499"):
        ss.attack(MEMBERS.head(1499), release, holdout=OTHERS)
    with pytest.raises(ss.DataError, match="at least 30 rows"):
        ss.attack(MEMBERS, release, holdout=OTHERS.head(20))
    with pytest.raises(ss.SchemaError, match="Did you mean 'income'"):
        ss.attack(MEMBERS, release, holdout=OTHERS, secret=["incme"])
    with pytest.raises(ss.PlanError, match="must be a list"):
        ss.attack(MEMBERS, release, holdout=OTHERS, secret="income")  # noqa: S106
    with pytest.raises(ss.DataError, match="income"):
        ss.attack(MEMBERS, release, holdout=OTHERS.drop(columns="income"))


def test_a_report_shows_nothing_by_accident(release):
    report = ss.attack(MEMBERS, release, holdout=OTHERS, secret=[])
    assert repr(report) == "<private attack report>"
    assert repr(report.attacks) == "<private attacks>"
    for secret in (report, report.attacks):
        with pytest.raises(TypeError, match="cannot be copied"):
            copy.copy(secret)
        with pytest.raises(TypeError, match="cannot be copied"):
            pickle.dumps(secret)
    assert next(iter(report.as_dict().items())) == ("private", MARK)


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def files(release, tmp_path_factory):
    place = tmp_path_factory.mktemp("attack")
    MEMBERS.to_csv(place / "members.csv", index=False)
    OTHERS.to_csv(place / "others.csv", index=False)
    release.write(place / "out")
    leaking(release, 1200).write(place / "leaking")
    return place


def test_the_command_marks_what_it_prints_and_writes(files, tmp_path):
    common = ("attack", files / "members.csv", files / "out", "--holdout", files / "others.csv", "--secret", "age")
    shown = run(*common, "-o", tmp_path / "report.html")
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith(MARK)
    assert "no evidence of a leak" in shown.output
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.index(MARK) < page.index("<h1>")
    assert "<title>PRIVATE" in page
    assert "<script" not in page
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o600
    said = run(*common, "--json", "-o", tmp_path / "report.json")
    document = json.loads(said.stdout)
    assert document == json.loads((tmp_path / "report.json").read_text())
    assert document["private"] == MARK
    assert document["allowed"]["advantage"] == pytest.approx(most_advantage(Budget(1.0, 1e-6)))


def test_the_command_refuses_places_where_it_would_be_published(files, tmp_path):
    common = ("attack", files / "members.csv", files / "out", "--holdout", files / "others.csv")
    refused = run(*common, "-o", files / "out" / "report.html")
    assert refused.exit_code == 1
    assert "inside a release folder" in refused.stderr
    assert not (files / "out" / "report.html").read_text(encoding="utf-8").startswith(MARK)
    assert run(*common, "-o", tmp_path / "report.txt").exit_code == 1
    (tmp_path / "kept.html").write_text("kept")
    assert "exists already" in run(*common, "-o", tmp_path / "kept.html").stderr
    assert (tmp_path / "kept.html").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.html"]


def test_the_command_ends_with_3_if_the_promise_is_broken(files):
    shown = run(
        "attack", files / "members.csv", files / "leaking", "--holdout", files / "others.csv", "--secret", "age"
    )
    assert shown.exit_code == 3
    assert "MORE THAN PROMISED" in shown.output


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_bounds_are_those_of_the_trade_off_curve(epsilon, delta):
    budget, places = Budget(epsilon, delta), np.linspace(0, 1, 5_001)
    grown = math.exp(epsilon)
    curve = np.array([most_true_positives(p, budget) for p in places])
    expected = np.minimum(np.minimum(grown * places + delta, 1 - (1 - delta - places) / grown), 1.0)
    assert curve == pytest.approx(expected)
    assert (curve - places).max() == pytest.approx(most_advantage(budget), abs=1e-3)
    assert most_advantage(budget) == pytest.approx((grown - 1 + 2 * delta) / (grown + 1))
    assert curve.mean() == pytest.approx(most_area(budget), abs=1e-3)
    assert most_correct(budget) == pytest.approx(grown / (1 + grown))


@pytest.mark.parametrize(("correct", "guesses"), [(60, 80), (700, 1000), (40, 40), (3000, 5000)])
def test_without_delta_the_bound_is_that_of_clopper_and_pearson(correct, guesses):
    share = proportion_at_least(correct, guesses, alpha=0.05)
    shown = shown_epsilon(correct, guesses, pairs=5000, delta=0.0, alpha=0.05)
    assert shown == pytest.approx(math.log(share / (1 - share)), abs=1e-6)


def test_delta_makes_the_bound_smaller_and_chance_shows_nothing():
    bounds = [shown_epsilon(700, 1000, pairs=1000, delta=delta, alpha=0.05) for delta in (0.0, 1e-6, 1e-4, 1e-2)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] > bounds[2] > 0.0
    assert shown_epsilon(510, 1000, pairs=1000, delta=0.0, alpha=0.05) == 0.0
    assert shown_epsilon(0, 0, pairs=1000, delta=1e-6, alpha=0.05) == 0.0


def test_guesses_at_randomised_response_are_within_the_bound():
    """The best guesser at coins of epsilon 1 is too good once in twenty times, and rarely far below."""
    rng = np.random.default_rng(3)
    counts = rng.binomial(2000, most_correct(Budget(1.0)), 1000)
    bound_of = {c: shown_epsilon(c, 2000, pairs=2000, delta=0.0, alpha=0.05) for c in set(counts.tolist())}
    bounds = np.array([bound_of[c] for c in counts.tolist()])
    assert 0.02 < (bounds > 1.0).mean() < 0.08
    assert np.median(bounds) > 0.85


def test_intervals_of_shares():
    assert wilson(10, 100) == pytest.approx((0.0552, 0.1744), abs=1e-4)
    assert wilson(0, 50)[0] == 0.0
    # Newcombe 1998, table II, example (a): 56/70 and 48/80; here as many of each.
    low, high = difference(56, 42, 70)
    assert low < 0.2 < high
    assert (low, high) == pytest.approx((0.0473, 0.3396), abs=2e-3)


def test_a_release_of_persons_is_attacked_with_one_row_of_each():
    rng = np.random.default_rng(3)
    schema = ss.Schema({"x": ss.Number(-1, 1), "k": ss.Category(["a", "b"])}, person="id")

    def visits(first):
        ids = np.repeat(np.arange(first, first + 200), 3)
        return pa.table({"id": ids, "x": rng.uniform(-1, 1, 600), "k": rng.choice(["a", "b"], 600)})

    private, others = visits(0), visits(1000)
    release = ss.release(private, schema=schema, epsilon=1.0, delta=1e-6, seed=1, rows_per_person=3)
    report = ss.attack(private, release, holdout=others)
    assert report.passed
    assert (report.attacks.holdout, report.as_dict()["promise"]["protects"]) == (200, "one person with all rows")
    with pytest.raises(ss.DataError, match="holds rows of the private table"):
        ss.attack(private, release, holdout=private)
    with pytest.raises(ss.DataError, match="was made from 200 persons; this table has 100"):
        ss.attack(private.slice(0, 300), release)
