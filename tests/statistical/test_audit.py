"""The audit finds no leak in what is released, and finds the one in every variant that is broken on purpose.

A bound above its claim would be a false alarm with probability at most 1e-6 for all bounds of a run together
(docs/audit.md); a mutant is missed by chance with a probability that was not seen in repeated runs.
"""

import importlib.util
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from smoothsynth.audit import mechanisms, releases, run
from smoothsynth.audit import releases as found
from smoothsynth.audit.neighbours import of_persons, pair
from smoothsynth.paper import audit_cases as printed
from smoothsynth.pipeline.run import release

spec = importlib.util.spec_from_file_location("mutants", Path(__file__).with_name("mutants.py"))
mutants = sys.modules["mutants"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mutants)

pytestmark = pytest.mark.fresh_noise


# One of each kind every time; `make audit` and `make slow` have them all.
OFTEN = (
    "half the noise, Laplace",
    "half the sensitivity, cube",
    "noise in doubles",
    "nothing charged",
    "every level shown",
    "all rows of a person",
)


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(m, id=m.name, marks=() if m.name in OFTEN else pytest.mark.slow) for m in mutants.MUTANTS],
)
def test_broken_variants_are_caught(mutant):
    finding = mutants.attack(mutant)
    assert finding.exceeds, f"{finding.bound:.2f} of {finding.claimed:.2f} by {finding.look} of {finding.mechanism}"


@pytest.mark.parametrize("lax", mutants.LAX_CHECKS, ids=lambda lax: lax.name)
def test_a_forgery_passes_only_if_verify_is_broken(lax):
    assert mutants.passes(lax, broken=True)
    assert not mutants.passes(lax, broken=False)


@pytest.mark.parametrize("case", printed.printed_cases(), ids=lambda case: case.mechanism)
def test_printed_constants_are_caught(case):
    # With 3,000 trials the bound on the noise with log(1/delta) came down to 1.06 times its claim in one of 120 runs.
    trials = 20_000 if "log(1/delta)" in case.mechanism else 3_000
    assert any(finding.exceeds for finding in run.examine_all([case], trials=trials))


def test_ours_keep_their_claims():
    cases = [
        *mechanisms._noise_cases(),
        *mechanisms._cube_cases()[1:2],
        *found.found_cases(),
        *mechanisms.person_cases(),
        *mechanisms._histogram_cases(),
    ]
    for finding in run.examine_all(cases, trials=120):
        assert not finding.exceeds, finding


STRANGE = (pair((math.inf, math.nan), (-1e300, -1e300), rows=100), {})
PERSON = (of_persons(pair((1.0, 1.0), (-1.0, -1.0), rows=2), 9), {"rows_per_person": 3})


@pytest.mark.parametrize(("tables", "choices"), [STRANGE, PERSON], ids=["strange rows", "a person with 9 rows"])
@pytest.mark.parametrize("trials", [15, pytest.param(400, marks=pytest.mark.slow)])
def test_whole_releases_keep_their_claim(tables, choices, trials):
    whole = replace(releases.release_case("automatic", tables, epsilon=3.0, share=1.0, **choices), fewest=1)
    for finding in run.examine_all([whole], trials=trials):
        assert not finding.exceeds, finding


def test_noise_itself_is_told_to_within_a_few_percent():
    case = mechanisms.noise_case("discrete laplace", [2**17 - 1], epsilon=1.0, share=mechanisms.MANY)
    numbers, low_bits = run.examine_all([case], trials=4_000)
    assert 0.85 < numbers.bound <= 1.0
    assert low_bits.bound < 0.1


def test_one_seed_gives_different_noise_each_time():
    tables = pair((1.0, 1.0), (-1.0, -1.0), rows=2)
    made = [release(tables.arrow(0), schema=tables.schema, epsilon=1.0, seed=7) for _ in range(5)]
    # Numbers spread over 2^17: a coincidence of all of them has probability below 1e-9.
    assert len({one.moments[0].integers for one in made}) == 5


@pytest.mark.slow
def test_the_whole_audit_passes():
    report = run.run(trials=run.QUICK_TRIALS)
    assert not report.exceeding
    assert not report.missed
