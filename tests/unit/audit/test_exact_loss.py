import math

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from smoothsynth.paper.audit_cases import laplace_epsilon_at_least


@pytest.mark.parametrize(("shift", "delta"), [(1.0, 0.1), (2.0, 1e-3), (0.5, 1e-9)])
def test_one_draw_has_a_closed_form(shift, delta):
    # delta(epsilon) = 1 - exp((epsilon - shift)/2)
    exact = shift + 2 * math.log1p(-delta)
    assert exact - shift / 100 < laplace_epsilon_at_least(shift, 1, delta=delta) <= exact


@pytest.mark.parametrize(("shift", "draws", "delta"), [(0.05, 69, 1e-10), (0.4, 8, 1e-3)])
def test_many_draws_agree_with_an_independent_accountant(shift, draws, delta):
    def accountant(*, pessimistic):
        one = pld.from_laplace_mechanism(
            1 / shift, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4
        )
        return one.self_compose(draws).get_epsilon_for_delta(delta)

    ours = laplace_epsilon_at_least(shift, draws, delta=delta)
    assert 0.97 * accountant(pessimistic=False) < ours <= accountant(pessimistic=True)
