import json
import os
import stat

import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.charges import compose, gaussian_sigma
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.accounting.statement import rounded_down, rounded_up
from smoothsynth.cli.main import app


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def said(result):
    return " ".join((result.output + (result.stderr if result.stderr_bytes else "")).split())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.ledger"


@pytest.fixture
def spent(path, csv_file, schema_file, tmp_path):
    assert run("ledger", "set", path, "--epsilon", 2, "--delta", 1e-6).exit_code == 0
    for name, delta in (("[bold]one", 0), ("two", 1e-6)):
        made = run("release", csv_file, "-s", schema_file, "-e", 0.5, "--delta", delta, "-o", tmp_path / name,
                   "--ledger", path, "--quiet")  # fmt: skip
        assert made.exit_code == 0, said(made)
    return path


def test_help_teaches():
    for command in ("set", "show", "export"):
        shown = run("ledger", command, "--help")
        assert shown.exit_code == 0
        assert "smoothsynth ledger" in shown.output


def test_set_makes_a_ledger_for_its_owner_only(path):
    made = run("ledger", "set", path, "--epsilon", 1, "--delta", 1e-6)
    assert made.exit_code == 0
    assert "epsilon = 1, delta = 1e-06" in said(made)
    assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o600
    assert LedgerFile(path).budget == ss.Budget(1.0, 1e-6)


def test_a_total_is_changed_only_on_purpose_and_only_upwards(path):
    missing = run("ledger", "set", path, "--epsilon", 1, "--raise")
    assert missing.exit_code == 1
    assert "There is no ledger" in said(missing)
    run("ledger", "set", path, "--epsilon", 1)
    again = run("ledger", "set", path, "--epsilon", 2)
    assert again.exit_code == 1
    assert "--raise" in said(again)
    assert run("ledger", "set", path, "--epsilon", 2, "--raise").exit_code == 0
    lower = run("ledger", "set", path, "--epsilon", 1, "--raise")
    assert lower.exit_code == 1
    assert "only be raised" in said(lower)
    assert "cannot be changed" in said(run("ledger", "set", path, "--epsilon", 3, "--rows-per-person", 2, "--raise"))
    assert LedgerFile(path).budget == ss.Budget(2.0)


def test_show_says_what_was_spent_and_what_is_left(spent):
    shown = run("ledger", "show", spent)
    assert shown.exit_code == 0
    words = said(shown)
    assert "Total: epsilon = 2, delta = 1e-06, for one row." in words
    assert "[bold]" in words
    document = json.loads(run("ledger", "show", spent, "--json").output)
    assert document["total"] == {"epsilon": 2.0, "delta": 1e-6}
    assert {charge["label"] for charge in document["charges"]} == {"[bold]one", "two"}
    receipts = [ss.load(spent.parent / name).receipt for name in ("[bold]one", "two")]
    costs = [(charge.epsilon, charge.multiplier) for receipt in receipts for charge in receipt.charges]
    assert [(charge["epsilon"], charge["multiplier"]) for charge in document["charges"]] == costs
    everything = compose([c for r in receipts for c in r.charges], delta=1e-6)
    assert document["spent"]["epsilon"] == everything.epsilon <= 1.0 + 1e-9
    assert f"Spent: epsilon = {rounded_up(everything.epsilon)}" in words
    left = LedgerFile(spent).read()
    assert f"Left: epsilon = {rounded_down(left.left)} (for Gaussian noise" in words
    assert left.left < 2.0 - everything.epsilon < left.left_for_gaussian
    assert "Divided before the first Gaussian charge: epsilon = 0.5 for pure noise" in words
    assert document["parts"]["epsilon"] == 0.5


def test_an_empty_ledger_can_be_shown(path):
    run("ledger", "set", path, "--epsilon", 2, "--rows-per-person", 3)
    assert "Spent: epsilon = 0, delta = 0 Left: epsilon = 2" in said(run("ledger", "show", path))
    assert "one person (up to 3 rows)" in said(run("ledger", "show", path))
    assert json.loads(run("ledger", "export", path).output)["charges"] == []


def test_a_release_that_does_not_fit_is_refused_and_leaves_nothing(spent, csv_file, schema_file, tmp_path):
    refused = run("release", csv_file, "-s", schema_file, "-e", 1.5, "-o", tmp_path / "out", "--ledger", spent)
    assert refused.exit_code == 1
    assert "Left: epsilon" in said(refused)
    assert not [p for p in tmp_path.iterdir() if "out" in p.name]


@pytest.mark.parametrize("command", ["show", "export"])
def test_a_damaged_ledger_is_explained(path, command):
    path.write_bytes(b"not a ledger at all" * 500)
    path.chmod(0o600)
    result = run("ledger", command, path)
    assert result.exit_code == 1
    assert "damaged" in said(result)


def test_an_unknown_format_is_explained(spent):
    result = run("ledger", "export", spent, "--format", "xml")
    assert result.exit_code == 1
    assert "dp-accounting" in said(result)


def theirs(document, *, delta):
    from dp_accounting import NeighboringRelation, dp_event
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(NeighboringRelation[document["relation"]])
    for fields in document["events"]:
        kind = getattr(dp_event, fields["event"])
        accountant.compose(kind(**{name: value for name, value in fields.items() if name != "event"}))
    return accountant.get_epsilon(delta)


def exported(path):
    return json.loads(run("ledger", "export", path, "--format", "dp-accounting").output)


def charged(path, *charges):
    ledger = LedgerFile.create(path, ss.Budget(50.0, 1e-6))
    ledger.charge_together(charges)
    return exported(path)


def cube(epsilon):
    return ss.Charge("means", "cube", "linf", 1.0, 2.0 / epsilon, 3, epsilon, None)


def gaussian(multiplier):
    return ss.Charge("pairs", "discrete gaussian", "l2", 9.0, gaussian_sigma(9, multiplier), 3, None, multiplier)


def test_another_accountant_agrees_on_pure_charges(path):
    document = charged(path, cube(0.3), cube(0.7), cube(1.25))
    assert document["spent"] == {"epsilon": 2.25, "delta": 0.0}
    # Their losses are rounded up to steps of 1e-4, for each charge.
    assert theirs(document, delta=0.0) == pytest.approx(2.25, abs=4e-4)


def test_another_accountant_agrees_on_gaussian_charges(path):
    document = charged(path, *map(gaussian, (6.0, 7.5, 20.0)))
    assert theirs(document, delta=1e-6) == pytest.approx(document["spent"]["epsilon"], rel=2e-3)


def test_another_accountant_finds_no_more_in_a_mixture(path):
    document = charged(path, cube(0.5), gaussian(6.0), cube(0.25), gaussian(20.0))
    assert {event["event"] for event in document["events"]} == {"DiscreteLaplaceDpEvent", "GaussianDpEvent"}
    ours = document["spent"]["epsilon"]
    assert 0.85 * ours < theirs(document, delta=1e-6) <= ours + 4e-4
