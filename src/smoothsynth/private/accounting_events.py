"""Charges as events of the dp_accounting library, so that another accountant can check the sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smoothsynth.privacy import Charge


def accounting_events(charges: Iterable[Charge]) -> list[dict[str, Any]]:
    """Name for each charge the event that it is or that dominates it, with the arguments of its constructor.

    For an accountant with the relation ADD_OR_REMOVE_ONE, where a multiplier is noise over the sensitivity of
    the sum; the sensitivity in a charge is already that of replacing rows. A discrete Laplace of sensitivity 1
    and parameter epsilon has the losses -epsilon and epsilon only: it is randomised response, which dominates
    every mechanism that is epsilon-private, so it stands for the cube, the ball and Laplace noise on many sums too
    (Kairouz, Oh and Viswanath 2015). A charge with a delta of its own is an epsilon-private one but for that probability:
    `plus_delta` is no argument, and has to be added to the delta of all others (docs/proofs/private-schema.md, section 4).
    """
    return [_event(charge) for charge in charges]


def _event(charge: Charge) -> dict[str, Any]:
    if charge.multiplier is not None:
        return {"event": "GaussianDpEvent", "noise_multiplier": charge.multiplier}
    pure = {"event": "DiscreteLaplaceDpEvent", "noise_parameter": charge.epsilon, "sensitivity": 1}
    return {**pure, "plus_delta": charge.delta} if charge.delta else pure
