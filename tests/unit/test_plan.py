import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.errors import PlanError
from smoothsynth.methods import layout as purposes
from smoothsynth.methods.layout import FOCUSES, purpose_of
from smoothsynth.methods.tables import LEAST_SPIKES, SHARE
from smoothsynth.pipeline.forecast import MISSED_TARGET, NO_DEPENDENCE, needed_epsilon, needed_rows
from smoothsynth.queries.bases import term_feature
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement
from smoothsynth.queries.soft_tables import Cells


def numbers(count):
    return ss.Schema({f"c{i}": ss.Number(0, 1) for i in range(count)})


@pytest.mark.parametrize("delta", [0.0, 1e-10, 1e-6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("columns", [1, 5, 30, 300])
@pytest.mark.parametrize("method", ["auto", "paper"])
def test_a_plan_costs_what_was_allowed_and_no_more(columns, epsilon, delta, method):
    plan = ss.plan(numbers(columns), 5_000, epsilon=epsilon, delta=delta, method=method)
    assert plan.cost.epsilon <= epsilon
    assert plan.cost.delta <= delta
    assert plan.cost.epsilon >= epsilon * (1 - 1e-6)


def test_pure_means_pure():
    plan = ss.plan(numbers(100), 5_000, epsilon=1.0)
    assert plan.cost.delta == 0.0
    assert {m.mechanism for m in plan.measurements} <= {"cube", "discrete laplace"}


def test_a_single_column_takes_the_mechanism_with_less_noise():
    def noise(plan):
        ranks = plan.measurements[plan.families.index("rank histogram")]
        summed = ranks.family.shares
        degrees = range(1, len(ranks.features) + (0 if summed else 1))
        cosines = ranks.deviations(plan.rows)[: len(degrees)] * math.sqrt(ranks.family.cells / 2 if summed else 1)
        return math.hypot(*(s / k for s, k in zip(cosines, degrees, strict=True)))

    for epsilon in (0.5, 1.0, 4.0):
        pure = ss.plan(numbers(1), 5_000, epsilon=epsilon)
        for delta in (1e-12, 1e-10, 1e-6, 1e-3):
            chosen = ss.plan(numbers(1), 5_000, epsilon=epsilon, delta=delta)
            assert noise(chosen) <= noise(pure) * 1.0001
    assert ss.plan(numbers(1), 50, epsilon=8.0, delta=1e-12).cost.delta == 0.0
    assert ss.plan(numbers(1), 5_000, epsilon=1.0, delta=1e-3).measurements[0].mechanism == "discrete gaussian"


def test_where_gaussian_noise_would_drown_the_first_stage_the_plan_is_pure():
    assert ss.plan(numbers(30), 569, epsilon=0.25, delta=1e-10).cost.delta == 0.0
    assert ss.plan(numbers(30), 569, epsilon=0.5, delta=1e-10).cost.delta == 1e-10


def test_stages_follow_from_public_facts():
    def plan(columns, rows, **budget):
        return ss.plan(numbers(columns), rows, method=ss.methods.Adaptive(tables=0), **budget)

    def families(made):
        return tuple(name for name in made.families if name != "soft tables")

    tiny = plan(30, 300, epsilon=1.0)
    small = plan(30, 569, epsilon=1.0)
    medium = plan(30, 5_000, epsilon=1.0)
    large = plan(30, 100_000, epsilon=1.0)
    assert families(tiny) == ("marginal moments", "marginal moments")
    assert families(small) == ("marginal moments", "marginal moments", "row norms")
    assert families(medium) == ("marginal moments", "marginal moments", "rank histogram", "row norms")
    assert families(large) == (
        "marginal moments",
        "marginal moments",
        "rank histogram",
        "clipped second moments",
        "row norms",
    )
    assert next(m for m in large.measurements if m.family.name == "clipped second moments").mechanism == "wishart"
    assert families(plan(30, 569, epsilon=1.0, delta=1e-6)) == (
        "marginal moments",
        "rank histogram",
        "clipped second moments",
        "row norms",
    )


def test_where_ranks_drown_in_noise_a_third_of_their_share_goes_to_pairs():
    def shares(rows):
        plan = ss.plan(numbers(30), rows, epsilon=1.0, delta=1e-6, method=ss.methods.Adaptive(tables=0))
        parts = {
            family: m.multiplier**-2
            for family, m in zip(plan.families, plan.measurements, strict=True)
            if family != "soft tables"
        }
        return {family: part / sum(parts.values()) for family, part in parts.items()}

    clear, drowned = shares(100_000), shares(500)
    assert drowned["rank histogram"] == pytest.approx(2 / 3 * clear["rank histogram"])
    assert drowned["rank histogram"] + drowned["clipped second moments"] == pytest.approx(
        clear["rank histogram"] + clear["clipped second moments"]
    )


def test_noise_falls_with_rows_and_epsilon_and_grows_with_rows_per_person():
    # So many rows that the shares no longer change.
    def noise(rows=10_000_000, **choices):
        return ss.plan(numbers(4), rows, **{"epsilon": 1.0, **choices}).measurements[0].deviations(rows)[0]

    assert noise(rows=20_000_000) == pytest.approx(noise() / 2, rel=1e-6)
    assert noise(epsilon=2.0) == pytest.approx(noise() / 2, rel=1e-6)
    assert noise(rows_per_person=3) == pytest.approx(noise() * 3, rel=1e-6)


def test_what_means_need_no_longer_goes_to_ranks_under_pure_epsilon():
    """Means that are known better than chance lets n rows know them give their share up, but never all of it."""

    def shares(rows, epsilon=1.0):
        plan = ss.plan(numbers(6), rows, epsilon=epsilon, method=ss.methods.Adaptive(tables=0))
        own = [m.epsilon for m in plan.measurements if m.family.name != "soft tables"]
        return dict(zip(("means", "square", "ranks"), [one / sum(own) for one in own], strict=False))

    few, many, most = shares(5_000), shares(60_000), shares(10_000_000)
    assert few["ranks"] < many["ranks"] < most["ranks"]
    assert few["means"] > many["means"] > most["means"] > few["means"] / 4
    assert sum(few.values()) == pytest.approx(sum(most.values()))
    # So all noise still falls without end as epsilon grows.
    assert shares(100_000, epsilon=100.0)["means"] == pytest.approx(most["means"])


def test_many_rows_have_soft_counts_of_ranks_under_pure_epsilon():
    def ranks(rows, columns=6, **choices):
        plan = ss.plan(numbers(columns), rows, epsilon=1.0, **choices)
        return plan.measurements[plan.families.index("rank histogram")]

    few, many = ranks(2_000), ranks(100_000)
    assert few.family.cells is None
    assert few.mechanism == "cube"
    assert many.mechanism == "discrete laplace"
    assert len(many.features) == 6 * many.family.cells
    assert "soft counts" in many.purpose
    # Whatever their number, one row moves the counts of a column by 2.
    assert many.sensitivity == pytest.approx(2 * 6 * FULL_WEIGHT, rel=1e-3)
    assert ranks(1_000_000).family.cells > many.family.cells
    assert ranks(1_000_000).deviations(1_000_000).max() < many.deviations(100_000).max()
    # Weights of candidates must match all moments: few cosines.
    assert ranks(100_000, method=ss.methods.Adaptive(candidates="hypercube")).family.cells is None
    # Counting a very wide table would take much memory.
    assert ranks(10_000_000, columns=128).family.cells is not None
    wide = ranks(10_000_000, columns=129)
    assert wide.family.cells is None
    assert 5 <= len(wide.features) / 129 <= 24


def tables_of(plan):
    """The rounds of tables of a plan: how many columns, how many tables, chosen or not."""
    return [
        (m.family.order, m.choice.count if m.choice else len(m.features.tables), m.choice is not None)
        for m in plan.measurements
        if m.family.name == "soft tables"
    ]


@pytest.mark.parametrize(("delta", "few", "many"), [(1e-6, 600, 20_000), (0.0, 1_000, 100_000)])
def test_tables_are_measured_where_their_noise_allows(delta, few, many):
    def plan(rows, schema=None, **choices):
        return ss.plan(schema or numbers(6), rows, epsilon=1.0, delta=delta, **choices)

    assert tables_of(plan(few)) == []
    found = tables_of(plan(many))
    assert {order for order, _, _ in found} >= {1, 2}
    assert sum(count for order, count, _ in found if order == 2) == 6
    more = plan(100 * many)
    assert {order for order, _, _ in tables_of(more)} == {1, 2, 3}
    spent = {False: lambda m: m.multiplier**-2, True: lambda m: m.epsilon}[delta == 0.0]
    chosen = [m for m in more.measurements if m.family.name == "soft tables" and m.family.order > 1]
    whole = sum(charge.epsilon if delta == 0.0 else charge.multiplier**-2 for charge in more.charges)
    costs = sum(spent(m) + (spent(m.choice) if m.choice else 0.0) for m in chosen)
    share = FOCUSES["balanced"].beside_tables[-1] if delta else SHARE
    assert costs / whole == pytest.approx((1.0 - LEAST_SPIKES) * share, rel=1e-6), "the share of tables"
    assert chosen[0].deviations(100 * many).max() < 0.1 * plan(many).measurements[-1].deviations(many).max()
    assert tables_of(plan(many, method=ss.methods.Adaptive(candidates="hypercube"))) == []
    assert [order for order, _, _ in tables_of(plan(many, numbers(1)))] == [1], "values that many rows share"
    assert [order for order, _, _ in tables_of(plan(many, method=ss.methods.Adaptive(tables=0)))] == [1]


def test_a_plan_without_dependence_says_so_in_words():
    alone = ss.plan(numbers(30), 100, epsilon=0.1)
    assert not alone.dependence
    assert NO_DEPENDENCE in " ".join(str(alone).split())
    for other in (ss.plan(numbers(6), 20_000, epsilon=1.0, delta=1e-6), ss.plan(numbers(1), 100, epsilon=0.1)):
        assert NO_DEPENDENCE not in " ".join(str(other).split())


def sets_of(plan):
    return {
        table
        for m in plan.measurements
        if m.family.name == "soft tables" and m.family.order > 1
        for table in m.features.tables
    }


def test_a_target_is_a_column_of_every_table():
    def plan(**options):
        return ss.plan(numbers(6), 50_000, epsilon=1.0, delta=1e-6, method=ss.methods.Adaptive(**options))

    names = list(numbers(6).names)
    every = sets_of(plan())
    assert sets_of(plan(target=names[2])) == {table for table in every if 2 in table}
    assert sets_of(plan(target=(names[2], names[4]))) == {table for table in every if {2, 4} & set(table)}
    assert len(sets_of(plan(target=names[2]))) < len(every)


def test_a_workload_names_the_tables_and_nothing_is_chosen():
    schema = numbers(6)
    names = list(schema.names)
    method = ss.methods.Adaptive(workload=((names[3], names[0], names[1]), (names[4], names[5])))
    found = ss.plan(schema, 50_000, epsilon=1.0, delta=1e-6, method=method)
    assert sets_of(found) == {(0, 1), (0, 3), (1, 3), (4, 5), (0, 1, 3)}
    assert all(m.choice is None for m in found.measurements)
    assert tables_of(found) == [(1, 6, False), (2, 4, False), (3, 1, False)]


@pytest.mark.parametrize("option", [{"target": "nobody"}, {"target": ("nobody",)}, {"workload": (("c0", "nobody"),)}])
def test_columns_that_are_not_there_are_refused(option):
    with pytest.raises(ss.SchemaError, match="nobody"):
        ss.plan(numbers(6), 50_000, epsilon=1.0, method=ss.methods.Adaptive(**option))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": 5}, "A target is"),
        ({"workload": 5}, "A workload is"),
        ({"workload": [5]}, "A workload is"),
        ({"workload": ["c0"]}, "A workload is"),
        ({"tables": -1}, "tables must be"),
        ({"tables": 1.5}, "tables must be"),
        ({"tables": True}, "tables must be"),
        ({"tables": 201}, "tables must be"),
        ({"workload": (("c0",),)}, "two or more"),
        ({"workload": (("c0", "c0"),)}, "two or more"),
        ({"target": "c0", "workload": (("c0", "c1"),)}, "Leave out one"),
    ],
)
def test_what_cannot_be_asked_of_tables_is_refused(options, words):
    with pytest.raises(ss.PlanError, match=words):
        ss.plan(numbers(6), 50_000, epsilon=1.0, method=ss.methods.Adaptive(**options))


def test_ranks_are_soft_counts_under_delta():
    def ranks(schema, rows=2_000, **choices):
        plan = ss.plan(schema, rows, epsilon=1.0, delta=1e-6, **choices)
        return plan.measurements[plan.families.index("rank histogram")]

    few, many = ranks(numbers(6)), ranks(numbers(6), 100_000)
    assert few.mechanism == many.mechanism == "discrete gaussian"
    assert 7 <= few.family.cells < many.family.cells <= 49
    assert (few.family.cosines, len(few.features)) == (False, 6 * few.family.cells)
    # Of many counts cosines are measured.
    assert (many.family.cosines, len(many.features)) == (True, 6 * (many.family.cells - 1))
    assert f"{few.family.cells} soft counts" in few.purpose
    # Whatever their number, one row moves the counts of a column by sqrt(2).
    assert few.sensitivity == pytest.approx(math.sqrt(2 * 6) * FULL_WEIGHT, rel=1e-3)
    # The first cosine has less noise than counts would leave it, which is the root of their number times that of a column.
    cells, noise = many.family.cells, many.deviations(100_000)
    assert noise[0] < 0.65 * many.multiplier * math.sqrt(6 * cells) / 100_000
    assert noise[0] < 0.5 * noise[-1]
    # Weights of candidates must match all moments, and counts take memory.
    assert ranks(numbers(6), method=ss.methods.Adaptive(candidates="hypercube")).family.cells is None
    assert ranks(numbers(128)).family.cells is not None
    assert ranks(numbers(129)).family.cells is None


def test_levels_and_missing_values_are_measured_beside_soft_counts():
    def ranks(levels, rows=2_000):
        mixed = {"x": ss.Number(0, 1), "y": ss.Number(0, 1, nullable=True), "c": ss.Category(levels)}
        plan = ss.plan(ss.Schema(mixed), rows, epsilon=1.0, delta=1e-6)
        return plan.measurements[plan.families.index("rank histogram")]

    found = ranks(["a", "b", "c"])
    counts = found.family.cells
    assert [feature.terms[0][0] for feature in found.features[2 * counts :]] == [
        (2, counts),
        *((c, counts) for c in (3, 4, 5)),
    ]
    # Two columns of counts, and a category like one more; where a value is missing nothing but its mark is moved.
    assert found.missing == ((1, 2),)
    assert found.sensitivity == pytest.approx(math.sqrt(2 + 2 + 2) * FULL_WEIGHT, rel=1e-3)
    assert "shares again" in found.purpose
    many = ranks(["a", "b", "c"], rows=100_000)
    assert many.family.cosines
    assert many.features[-1] == term_feature((5, many.family.cells))
    # Beside cosines levels have the noise that they have beside counts.
    assert many.deviations(1)[-1] == pytest.approx(many.multiplier * math.sqrt(2 + 2 + 2), rel=1e-2)
    assert ranks([str(level) for level in range(125)]).family.cells is not None
    assert ranks([str(level) for level in range(126)]).family.cells is None, "an engine counts coordinates in memory"


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_forecast_falls_with_epsilon(delta):
    """Products had been looked at in rows cut to length 1, whatever the plan would cut them to: no epsilon had helped."""
    forecasts = [ss.plan(numbers(4), 4_000, epsilon=e, delta=delta).forecast() for e in (1.0, 10.0, 100.0)]
    noise = np.array([[question.noise for question in forecast] for forecast in forecasts])
    assert (noise[1:] < 0.7 * noise[:-1]).all()


def test_a_plan_prints_and_is_json():
    plan = ss.plan(numbers(3), 20_000, epsilon=1.0)
    shown = " ".join(str(plan).split())
    assert "No data was read" in shown
    assert "20,000 rows x 3 columns" in shown
    document = json.loads(json.dumps(plan.as_dict()))
    assert document["cost"]["epsilon"] <= 1.0
    assert all(e["noise"] > 0 for e in document["expected_errors"])


def test_the_forecast_falls_with_rows():
    few, many = (ss.plan(numbers(3), rows, epsilon=1.0).forecast() for rows in (1_000, 100_000))
    assert all(b.noise < a.noise for a, b in zip(few, many, strict=True))


@pytest.mark.parametrize(
    ("choices", "error", "words"),
    [
        ({"epsilon": 0}, ss.BudgetError, "epsilon"),
        ({"epsilon": -1}, ss.BudgetError, "epsilon"),
        ({"epsilon": float("nan")}, ss.BudgetError, "epsilon"),
        ({"epsilon": 1, "delta": 1}, ss.BudgetError, "delta"),
        ({"epsilon": 1, "delta": -0.1}, ss.BudgetError, "delta"),
        ({"epsilon": 1, "method": "best"}, ss.PlanError, "'auto', 'paper'"),
        ({"epsilon": 1, "synthetic_rows": 0}, ss.PlanError, "synthetic_rows"),
        ({"epsilon": 1, "rows_per_person": 0}, ss.PlanError, "rows_per_person"),
        ({"epsilon": 1, "rows_per_person": 1001}, ss.PlanError, "rows_per_person"),
    ],
)
def test_bad_choices_are_explained(choices, error, words):
    with pytest.raises(error) as found:
        ss.plan(numbers(2), 1000, **choices)
    assert words in str(found.value)


@pytest.mark.parametrize("rows", [0, -5, 2**40, 1.5, True, "many"])
def test_bad_numbers_of_rows_are_refused(rows):
    with pytest.raises(ss.PlanError, match="rows"):
        ss.plan(numbers(2), rows, epsilon=1.0)


def test_more_columns_than_can_be_measured():
    with pytest.raises(ss.PlanError, match="Leave out columns"):
        ss.plan(numbers(6000), 1000, epsilon=1.0)


def test_a_measurement_is_one_mechanism_with_one_budget():
    from smoothsynth.queries.bases import lowest

    for wrong in (
        {"mechanism": "cube", "multiplier": 2.0},
        {"mechanism": "discrete gaussian", "epsilon": 1.0},
        {"mechanism": "discrete gaussian", "epsilon": 1.0, "multiplier": 2.0},
        {"mechanism": "magic", "epsilon": 1.0},
        {"mechanism": "cube", "epsilon": 1.0, "weights": (1,)},
        {"mechanism": "cube", "epsilon": 1.0, "weights": (0, 1, 1)},
    ):
        with pytest.raises(ss.PlanError):
            Measurement(purpose="test", features=lowest(3, 3), **wrong)


@pytest.mark.parametrize("delta", [0.0, 1e-8])
@pytest.mark.parametrize("focus", ["balanced", "queries", "marginals", "correlations"])
def test_every_focus_spends_the_budget_and_no_more(focus, delta):
    plan = ss.plan(numbers(8), 50_000, epsilon=1.0, delta=delta, method=ss.methods.Adaptive(focus=focus))
    assert 1.0 - 1e-6 <= plan.cost.epsilon <= 1.0


def test_a_focus_leans():
    def noise(family, focus):
        plan = ss.plan(numbers(8), 50_000, epsilon=1.0, delta=1e-8, method=ss.methods.Adaptive(focus=focus))
        return plan.measurements[plan.families.index(family)].deviations(50_000)[-1]

    assert (
        noise("rank histogram", "marginals") < noise("rank histogram", "balanced") < noise("rank histogram", "queries")
    )
    assert (
        noise("clipped second moments", "correlations")
        < noise("clipped second moments", "balanced")
        < noise("clipped second moments", "marginals")
    )


def test_rougher_queries_buy_more_degrees():
    def degrees(smoothness):
        plan = ss.plan(numbers(3), 1_500, epsilon=1.0, delta=1e-8, method=ss.methods.Adaptive(smoothness=smoothness))
        return max(f.degree for f in plan.measurements[1].features)

    assert degrees(4) > degrees(16) > degrees(64)


def test_the_inverse_of_a_plan():
    schema, target = numbers(3), 0.01
    epsilon = needed_epsilon(schema, 20_000, target)
    worst = max(f.noise for f in ss.plan(schema, 20_000, epsilon=epsilon).forecast())
    assert 0.9 * target < worst <= target
    rows = needed_rows(schema, target, epsilon=1.0)
    worst = max(f.noise for f in ss.plan(schema, rows, epsilon=1.0).forecast())
    assert 0.9 * target < worst <= target
    assert needed_epsilon(schema, 10, 1e-4) is None
    with pytest.raises(ss.PlanError, match="target"):
        needed_epsilon(schema, 10, 0.0)


def test_the_kind_of_noise_can_be_asked_for(schema):
    for noise, pure in (("pure", True), ("gaussian", False)):
        planned = ss.plan(schema, 5_000, epsilon=1.0, delta=1e-6, method=ss.methods.Adaptive(noise=noise))
        assert all((charge.multiplier is None) is pure for charge in planned.charges)
        assert planned.cost.epsilon <= 1.0
    with pytest.raises(ss.PlanError, match="delta"):
        ss.plan(schema, 5_000, epsilon=1.0, method=ss.methods.Adaptive(noise="gaussian"))
    with pytest.raises(ss.PlanError, match="noise must be one of"):
        ss.plan(schema, 5_000, epsilon=1.0, method=ss.methods.Adaptive(noise="loud"))


def test_a_plan_says_how_often_odds_are_exceeded_and_when_delta_is_large(schema):
    shown = " ".join(
        str(ss.plan(schema, 5_000, epsilon=1.0, delta=1e-6, method=ss.methods.Adaptive(noise="gaussian"))).split()
    )
    assert "may exceed e^1 : 1 with a probability of up to about 2e-05." in shown
    assert "advised" not in shown
    large = " ".join(str(ss.plan(schema, 50_000, epsilon=1.0, delta=1e-6)).split())
    assert "at most 1/(100 rows), 2e-07 for 50,000 rows" in large
    assert "exceed" not in str(ss.plan(schema, 5_000, epsilon=1.0))


def mixed(*, free=True):
    columns = {"x": ss.Number(0, 1), "y": ss.Number(0, 1, nullable=True), "c": ss.Category(["a", "b", "c"])}
    return ss.Schema({**columns, "z": ss.Integer(0, 9)}, constraints=[] if free else ["x <= z"])


PLANNED = {
    "few rows": (numbers(6), 500, {}),
    "many rows": (numbers(6), 200_000, {}),
    "one column": (numbers(1), 20_000, {}),
    "very wide": (numbers(130), 10_000_000, {"method": ss.methods.Adaptive(tables=0)}),
    "categories and missing values": (mixed(), 50_000, {}),
    "bound columns": (mixed(free=False), 50_000, {}),
    "levels alone": (ss.Schema({"c": ss.Category(["a", "b"]), "k": ss.Category(["x", "y", "z"])}), 5_000, {}),
    "many levels": (ss.Schema({"c": ss.Category(list(range(400)))}), 50_000, {}),
    "candidates that are weighed": (mixed(), 50_000, {"method": ss.methods.Adaptive(candidates="hypercube")}),
    "the paper's": (numbers(6), 5_000, {"method": ss.methods.Paper()}),
    "the paper's grid": (numbers(2), 500, {"method": ss.methods.Paper(candidates="grid")}),
    "chosen tables": (numbers(8), 50_000, {"method": ss.methods.Adaptive(tables=5)}),
    "minimax": (numbers(2), 2_000, {"method": ss.methods.Minimax()}),
}


def planned(name, noise):
    schema, rows, choices = PLANNED[name]
    method = replace(choices.get("method", ss.methods.Adaptive()), noise=noise)
    return ss.plan(schema, rows, epsilon=1.0, delta=1e-6 if noise else 0.0, method=method)


@pytest.mark.parametrize("noise", [None, "gaussian"])
@pytest.mark.parametrize("name", PLANNED)
def test_a_purpose_follows_from_what_is_measured(name, noise):
    found = planned(name, noise)
    for m in found.measurements:
        measured = m if m.choice is None else m.chosen(range(m.choice.count))
        assert purpose_of(measured, found.schema, method=found.method.name) == m.purpose
        if isinstance(m.features, Cells):
            other = replace(measured, features=m.features.only(m.features.tables[:1]), choice=None)
            alone = len(measured.features.tables) == 1
            assert (purpose_of(other, found.schema, method=found.method.name) == m.purpose) is alone
        elif m.mechanism == "wishart":
            with pytest.raises(PlanError, match="Wishart noise is for"):
                replace(measured, features=measured.features[::-1])
        elif len(m.features) > 1:
            other = replace(measured, features=measured.features[::-1])
            assert purpose_of(other, found.schema, method=found.method.name) is None


def test_every_purpose_is_that_of_some_plan_above():
    found = {m.purpose for name in PLANNED for noise in (None, "gaussian") for m in planned(name, noise).measurements}
    of_fits = (purposes.LEAST_SQUARES,)
    texts = [text for name, text in vars(purposes).items() if name.isupper() and isinstance(text, str)]
    words = [text for text in texts if text not in of_fits]
    assert len(words) == 15
    for text in words:
        assert any(all(part in purpose for part in text.split("{}")) for purpose in found), text


@pytest.mark.parametrize(
    ("columns", "rows", "mechanism"), [(4, 60, "cube"), (4, 400, "discrete gaussian"), (20, 150, "discrete gaussian")]
)
def test_a_delta_is_used_where_it_pays(columns, rows, mechanism):
    """With 60 rows of four columns Gaussian noise was kept, and errors were 1.4 times those without a delta."""
    schema = ss.Schema({f"c{i}": ss.Number(0, 1) for i in range(columns)})
    assert ss.plan(schema, rows, epsilon=1.0, delta=1e-6).charges[0].mechanism == mechanism


def test_a_target_that_no_table_can_hold_is_said():
    """The same rows came out as without a target, and nothing said so."""
    schema = ss.Schema({name: ss.Boolean() for name in "abc"})
    toward = ss.methods.Adaptive(target="c")
    few, many = (ss.plan(schema, rows, epsilon=1.0, method=toward) for rows in (1_000, 100_000))
    asked = ss.plan(schema, 1_000, epsilon=1.0, method=ss.methods.Adaptive(target="c", tables=1))
    words = " ".join(MISSED_TARGET.split())
    assert [words in " ".join(str(one).split()) for one in (few, asked, many)] == [True, False, False]
    table = pa.table({name: [True, False] * 100 for name in "abc"})
    with pytest.warns(UserWarning, match="the target changes nothing"):
        ss.release(table, schema=schema, epsilon=1.0, method=toward)
