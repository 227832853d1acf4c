"""The owner's report of attacks on a release: what was found, beside what epsilon allows, in words and figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from smoothsynth.accounting.guessing import (
    difference,
    most_advantage,
    most_area,
    most_correct,
    most_true_positives,
    wilson,
)
from smoothsynth.errors import PlanError
from smoothsynth.pipeline.sample import chooser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from smoothsynth.pipeline.release import Release
    from smoothsynth.private.attack import Attacks
    from smoothsynth.private.pairs import Attack


MARK = "PRIVATE: computed from the private rows without noise; do not publish."
NOTHING, WITHIN, BEYOND = "no evidence of a leak", "within the promise", "MORE THAN PROMISED"
_NOT_A_PROOF = "An attack that finds nothing proves nothing: the promise rests on its proof, not on this report."
_NO_HOLDOUT = (
    "No holdout was given: rows of the same population that were not released. Without them nobody can say whether private "
    "rows are nearer to synthetic ones than other people's are, so membership and attributes were not attacked, and matches "
    "may be chance. Set rows aside before the next release, and give them as holdout= (--holdout)."
)
HEADS = ("attack", "private", "allowed", "others", "difference", "right", "epsilon", "")
CURVE_HEADS = ("membership", "area under the curve", "TPR at FPR 1 %", "TPR at FPR 10 %", "advantage")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttackReport:
    """Attacks on a release, for the owner of the private rows: as secret as the rows, never part of a release."""

    attacks: Attacks
    unit: str

    def __repr__(self) -> str:
        return "<private attack report>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("A report of attacks on private rows cannot be copied or pickled.")

    @property
    def passed(self) -> bool:
        """Whether no attack shows more than the promise allows."""
        return all(self.verdict(attack) != BEYOND for attack in self.attacks.found)

    def verdict(self, attack: Attack) -> str:
        """Say in words what an attack shows."""
        if attack.shown is None:
            return "cannot be told without a holdout"
        if attack.shown > self.attacks.budget.epsilon:
            return BEYOND
        return WITHIN if attack.shown > 0.0 else NOTHING

    def in_words(self) -> str:
        """Say in a few sentences, for whoever answers for the release, what was found."""
        budget, found = self.attacks.budget, self.attacks.found
        if self.attacks.holdout is None:
            return _NO_HOLDOUT
        worst = max(found, key=lambda attack: attack.shown or 0.0)
        promise = f"epsilon {budget.epsilon:g} for {self.unit}"
        if self.verdict(worst) == BEYOND:
            return (
                f"More than the promise allows: {_name(worst)} shows an epsilon of at least {worst.shown:.2f}, and "
                f"the promise is {promise}. Do not publish it. Either somebody has more rows than the receipt says, "
                "or the holdout is no random part of the same population, or the software is wrong: please report it."
            )
        if self.verdict(worst) == WITHIN:
            return (
                f"Attacks tell private rows from others, within the promise: {_name(worst)} shows an epsilon of at least "
                f"{worst.shown:.2f}, and the promise is {promise}."
            )
        first = found[0]
        return (
            f"No evidence of a leak: no attack tells private rows from others better than chance could. By their distance to "
            f"synthetic rows, {_share(first.correct, first.guesses)} of {first.guesses:,} guesses were right; the promise, "
            f"{promise}, allows {most_correct(budget):.0%}. {_NOT_A_PROOF}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values; the first says that they are private."""
        budget = self.attacks.budget
        return {
            "private": MARK,
            "in_words": self.in_words(),
            "passed": self.passed,
            "promise": {"epsilon": budget.epsilon, "delta": budget.delta, "protects": self.unit},
            "allowed": {
                "area": most_area(budget),
                "at_one_percent": most_true_positives(0.01, budget),
                "at_ten_percent": most_true_positives(0.1, budget),
                "advantage": most_advantage(budget),
                "right_guesses": most_correct(budget),
            },
            "holdout_rows": self.attacks.holdout,
            "attacks": [self._facts(attack) for attack in self.attacks.found],
        }

    def _facts(self, attack: Attack) -> dict[str, Any]:
        found = {**asdict(attack), "members_interval": list(wilson(attack.members, attack.rows))}
        if attack.others is not None:
            others = attack.others / attack.rows
            found["others_interval"] = list(wilson(attack.others, attack.rows))
            found["difference_interval"] = list(difference(attack.members, attack.others, attack.rows))
            found["allowed_members"] = most_true_positives(others, self.attacks.budget)
            # What the population does not tell, as a share of what it leaves open (Giomi et al. 2023, section 4).
            found["risk"] = (attack.members / attack.rows - others) / (1.0 - others) if others < 1.0 else 0.0
        return {**found, "verdict": self.verdict(attack)}

    def lines(self) -> list[tuple[str, ...]]:
        """Return one line of text for each attack, under the heads of the table."""
        return [self._line(attack) for attack in self.attacks.found]

    def _line(self, attack: Attack) -> tuple[str, ...]:
        start = (_name(attack), _share(attack.members, attack.rows))
        if attack.others is None:
            return (*start, "", "", "", "", "", self.verdict(attack))
        low, high = difference(attack.members, attack.others, attack.rows)
        return (
            *start,
            f"{most_true_positives(attack.others / attack.rows, self.attacks.budget):.1%}",
            _share(attack.others, attack.rows),
            f"{low:+.1%} to {high:+.1%}",
            _share(attack.correct, attack.guesses),
            f"{attack.shown:.2f}",
            self.verdict(attack),
        )

    def curves(self) -> list[tuple[str, ...]]:
        """Return lines for the attacks by a score, and one for what is allowed: area, two TPRs and the advantage."""
        budget = self.attacks.budget
        levels = [most_true_positives(level, budget) for level in (0.01, 0.1)]
        scored = [(a.about, asdict(a.curve).values()) for a in self.attacks.found if a.curve is not None]
        found = [(about, *(f"{value:.3f}" for value in values)) for about, values in scored]
        allowed = [most_area(budget), *levels, most_advantage(budget)]
        return [*found, ("allowed", *(f"{value:.3f}" for value in allowed))] if found else []


def attack(
    data: Any,
    release: Release,
    *,
    holdout: Any = None,
    secret: Sequence[str] | None = None,
    seed: int | None = 0,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> AttackReport:
    """Attack a release as its readers could, beside what epsilon allows; for the owner of the private rows only.

    `data` is the table that was released, `holdout` rows of the same population that were not, `secret` the columns that are
    guessed from all others (all of them by default). The report is not noisy and costs nothing: it must not be published.
    """
    from smoothsynth.private.attack import attack_rows

    if isinstance(secret, str):
        raise PlanError(f"secret must be a list of columns, such as [{secret!r:.80}]; it is a text.")
    receipt = release.receipt
    found = attack_rows(
        data,
        release.schema,
        rows=receipt.rows,
        synthetic=release.unit_rows(),
        budget=receipt.budget,
        choose=chooser(seed),
        holdout=holdout,
        secret=secret,
        progress=progress,
    )
    many, known = receipt.rows_per_person, release.schema.person is not None
    unit = "one person with all rows" if known else "one row" if many == 1 else f"one person with up to {many} rows"
    return AttackReport(found, unit)


def _name(attack: Attack) -> str:
    return f"{attack.family}: {attack.about}"


def _share(hits: int, rows: int) -> str:
    return f"{hits / rows:.1%}" if rows else "none"
