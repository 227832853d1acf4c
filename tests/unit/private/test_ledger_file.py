import math
import os
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothsynth as ss
from smoothsynth.accounting import ledger_store
from smoothsynth.accounting.charges import Usage, compose, gaussian_multiplier, gaussian_sigma, split_multiplier
from smoothsynth.accounting.filter import PrivacyFilter, admitted
from smoothsynth.accounting.ledger import Ledger, LedgerFile
from smoothsynth.accounting.statement import Line, Statement, rounded_down, rounded_up
from smoothsynth.errors import LedgerError
from smoothsynth.private import noise

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX")


def pure(epsilon, purpose="means"):
    return ss.Charge(purpose, "discrete laplace", "l1", 1.0, 2.0 / epsilon, 3, epsilon, None)


def gaussian(multiplier):
    return ss.Charge("pairs", "discrete gaussian", "l2", 8.0, gaussian_sigma(8, multiplier), 3, None, multiplier)


def costs(charges):
    return tuple((charge.epsilon, charge.multiplier) for charge in charges)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.ledger"


@pytest.fixture
def ledger(path):
    return LedgerFile.create(path, ss.Budget(1.0, 1e-6))


@pytest.fixture(params=["memory", "file", "reservation"])
def any_ledger(request, path):
    budget = ss.Budget(1.0, 1e-6)
    if request.param == "memory":
        return Ledger(budget)
    file = LedgerFile.create(path, budget)
    return file if request.param == "file" else file.reserve([pure(0.5)])


def test_the_contract_of_every_ledger(any_ledger):
    assert any_ledger.budget == ss.Budget(1.0, 1e-6)
    assert tuple(any_ledger.charges) == ()
    any_ledger.charge(pure(0.5))
    any_ledger.charge(pure(0.25))
    with pytest.raises(ss.BudgetError, match="epsilon"):
        any_ledger.charge(pure(0.26))
    assert tuple(any_ledger.charges) == (pure(0.5), pure(0.25))
    any_ledger.charge(pure(0.25))
    assert len(any_ledger.charges) == 3


def test_what_is_charged_is_read_by_another(ledger, path):
    charges = [pure(0.1), gaussian(30.1234567890123456)]
    ledger.charge_together(charges, label="first")
    statement = LedgerFile(path).read()
    assert list(statement.charges) == charges
    assert [line.label for line in statement.lines] == ["first", "first"]
    assert all(line.time.endswith("+00:00") for line in statement.lines)
    assert statement.spent == (compose(charges, delta=1e-6).epsilon, 1e-6)


def test_a_refusal_says_what_is_left_and_records_nothing(ledger):
    ledger.charge(pure(0.75))
    with pytest.raises(ss.BudgetError, match=r"epsilon = 1\.05; its total is epsilon = 1\. Left: epsilon = 0\.25"):
        ledger.charge_together([pure(0.1), pure(0.2)])
    assert ledger.charges == (pure(0.75),)


def statement_of(charges, total):
    return Statement(total, 1, tuple(Line("", "", c) for c in charges))


CHARGES = st.lists(st.floats(0.001, 0.3).map(pure) | st.floats(20, 500).map(gaussian), max_size=5)


@settings(deadline=None, max_examples=60)
@given(CHARGES, st.booleans(), st.sampled_from([0.0, 0.5]))
def test_what_is_said_to_be_left_can_be_had_and_no_more(charges, divided, kept):
    total = ss.Budget(3.0, 1e-6)
    parts = admitted(total, None, (), charges, pure_epsilon=kept) if charges and divided else None
    statement = replace(statement_of(charges, total), parts=parts, pure_epsilon=kept)
    statement.refuse([pure(statement.left)])
    statement.refuse([pure(float(rounded_down(statement.left)))])
    with pytest.raises(ss.BudgetError):
        statement.refuse([pure(statement.left * (1 + (1e-5 if parts else 1e-9)))])
    for epsilon in (statement.left_for_gaussian, float(rounded_down(statement.left_for_gaussian))):
        statement.refuse([gaussian(gaussian_multiplier(epsilon, total.delta))])
    with pytest.raises(ss.BudgetError):
        statement.refuse([gaussian(gaussian_multiplier(statement.left_for_gaussian * (1 + 1e-4), total.delta))])


@given(st.floats(1e-9, 1e9))
def test_rounding_goes_the_safe_way(value):
    assert float(rounded_down(value)) <= value <= float(rounded_up(value))
    assert float(rounded_up(value)) - float(rounded_down(value)) <= value * 2e-5


def test_gaussians_cost_less_together_than_one_by_one(ledger):
    ledger.charge(gaussian(gaussian_multiplier(0.6, 1e-6)))
    statement = ledger.read()
    assert statement.left < 0.16
    assert 0.75 < statement.left_for_gaussian < 0.85
    assert "for Gaussian noise" in statement.left_in_words()


# The division of a total between kinds of noise


def test_what_comes_after_a_gaussian_charge_cannot_choose_its_kind(path):
    """Both branches of an adaptive strategy were accepted once: their true delta is 1.7 times the total's."""
    total = ss.Budget(1.0, 1e-6)
    for branch in (pure(0.98499), gaussian(4.2256)):
        file = LedgerFile.create(path.with_suffix(f".{branch.mechanism[-3:]}"), total)
        file.charge(gaussian(211.2339))
        if branch.multiplier is not None:
            file.charge(branch)
            continue
        assert compose([*file.charges, branch], delta=1e-6).epsilon <= 1.0
        with pytest.raises(ss.BudgetError, match=r"part of the total for this kind.*Divided before the first Gaussian"):
            file.charge(branch)
        assert file.charges == (gaussian(211.2339),)


def test_pure_epsilon_that_was_kept_is_there_after_gaussian_charges(path):
    file = LedgerFile.create(path, ss.Budget(1.0, 1e-6), pure_epsilon=0.4)
    with pytest.raises(ss.BudgetError):
        file.charge(gaussian(gaussian_multiplier(0.7, 1e-6)))
    file.charge(gaussian(gaussian_multiplier(0.59, 1e-6)))
    file.charge(pure(0.4))
    with pytest.raises(ss.BudgetError):
        file.charge(pure(0.1))


def test_the_ledger_of_a_release_keeps_to_the_division_of_its_plan():
    budget, planned = ss.Budget(1.0, 1e-6), [pure(0.1), gaussian(gaussian_multiplier(0.9, 1e-6))]
    Ledger(budget, planned=planned).charge(pure(0.1))
    with pytest.raises(ss.BudgetError, match="kind of noise"):
        Ledger(budget, planned=planned).charge(pure(0.5))
    other = Ledger(budget, planned=planned)
    for multiplier in split_multiplier(planned[1].multiplier, [0.2, 0.8]):
        other.charge(gaussian(multiplier))
    with pytest.raises(ss.BudgetError, match="kind of noise"):
        other.charge(gaussian(1000.0))


def test_before_any_gaussian_charge_all_of_a_total_may_be_pure_and_the_rest_gaussian(ledger):
    ledger.charge(pure(0.25))
    ledger.charge(pure(0.25))
    assert ledger.read().parts is None
    ledger.charge(gaussian(gaussian_multiplier(0.5, 1e-6)))
    assert ledger.read().parts.epsilon == 0.5


def test_a_small_pure_charge_may_count_as_gaussian_privacy(ledger):
    ledger.charge(gaussian(gaussian_multiplier(0.9, 1e-6)))
    before = ledger.read()
    ledger.charge(pure(0.02))
    used = ledger.read().used
    assert used.epsilon == 0
    assert float(used.mu_squared - before.used.mu_squared) == pytest.approx(math.pi / 2 * 0.02**2, rel=1e-6)


def test_a_division_is_recorded_before_the_charge_and_survives(ledger, path):
    ledger.charge(gaussian(100.0))
    with ledger_store.opened(path) as book:
        assert [entry.kind for entry in book.entries] == ["total", "parts", "charge"]
    assert LedgerFile(path).read().parts == ledger.read().parts


def test_a_ledger_of_an_earlier_version_is_read_as_spent_and_divided_at_its_next_charge(ledger, path):
    with ledger_store.opened(path, write=True) as book:
        for charge in (pure(0.3), gaussian(20.0)):
            book.add("charge", charge.as_dict())
    statement = ledger.read()
    assert statement.parts is None
    assert statement.spent[0] == compose([pure(0.3), gaussian(20.0)], delta=1e-6).epsilon
    ledger.charge(gaussian(30.0))
    parts = ledger.read().parts
    assert parts.epsilon == 0.3
    assert parts.within(statement.total)
    with pytest.raises(ss.BudgetError):
        ledger.charge(pure(0.3))


def test_raising_a_total_gives_all_that_is_new_to_gaussian_noise(ledger):
    ledger.charge(pure(0.5))
    ledger.charge(gaussian(30.0))
    before = ledger.read().parts
    ledger.raise_total(ss.Budget(2.0, 1e-6))
    after = ledger.read().parts
    assert (after.epsilon, after.delta) == (before.epsilon, before.delta)
    assert after.multiplier == gaussian_multiplier(1.5, 1e-6)


def test_a_division_that_exceeds_its_total_is_refused(ledger, path):
    with ledger_store.opened(path, write=True) as book:
        book.add("parts", PrivacyFilter(0.5, 0.0, gaussian_multiplier(0.51, 1e-6)).as_dict())
    with pytest.raises(LedgerError, match="does not know"):
        LedgerFile(path)


@settings(deadline=None, max_examples=100)
@given(CHARGES.filter(bool), CHARGES, st.floats(0.0, 1.0), st.floats(0.5, 3.0))
def test_the_parts_of_a_total_cost_no_more_than_it_and_hold_what_was_planned(planned, before, kept, epsilon):
    total = ss.Budget(epsilon, 1e-6)
    try:
        parts = PrivacyFilter.divide(total, before, planned, pure_epsilon=min(kept, epsilon))
    except ss.BudgetError:
        needed = Usage.of([*before, *planned])
        needed = replace(needed, epsilon=max(needed.epsilon, Fraction(min(kept, epsilon))))
        # Refused only if it would not fit, but for a Gaussian part of next to nothing.
        assert needed.cost(1e-6).epsilon > total.epsilon - 2e-6
    else:
        assert parts.within(total)
        assert parts.use([*before, *planned]) is not None


def test_a_total_without_delta_takes_no_gaussian(path):
    ledger = LedgerFile.create(path, ss.Budget(1.0))
    with pytest.raises(ss.BudgetError, match="delta = 0"):
        ledger.charge(gaussian(100.0))
    assert ledger.charges == ()


def test_a_total_can_only_be_raised(ledger):
    ledger.charge(pure(0.9))
    for lower in (ss.Budget(0.95, 1e-6), ss.Budget(2.0), ss.Budget(1.0, 1e-6)):
        with pytest.raises(ss.BudgetError, match="only be raised"):
            ledger.raise_total(lower)
    ledger.raise_total(ss.Budget(2.0, 1e-6))
    ledger.charge(pure(0.9))
    assert ledger.budget == ss.Budget(2.0, 1e-6)


def test_a_ledger_for_persons_refuses_releases_for_rows(frame, schema, path):
    LedgerFile.create(path, ss.Budget(1.0), rows_per_person=3)
    with pytest.raises(ss.BudgetError, match="up to 3 rows"):
        ss.release(frame, schema=schema, epsilon=0.5, ledger=path)
    ss.release(frame, schema=schema, epsilon=0.5, ledger=path, rows_per_person=3)
    assert LedgerFile(path).read().spent[0] == pytest.approx(0.5)
    with pytest.raises(ss.BudgetError, match="up to 3 rows"):
        LedgerFile(path).charge(pure(0.1))
    with pytest.raises(ss.BudgetError, match="rows_per_person"):
        LedgerFile.create(path.with_suffix(".other"), ss.Budget(1.0), rows_per_person=0)


# Releases


@pytest.mark.parametrize("choices", [{}, {"delta": 1e-6}, {"method": ss.methods.Paper(features=4)}], ids=str)
def test_a_release_is_in_the_ledger_before_any_noise_is_drawn(frame, schema, ledger, path, monkeypatch, choices):
    seen = []
    for name in ("add_cube_noise", "add_laplace_noise", "add_gaussian_noise"):
        draw = getattr(noise, name)

        def spy(*args, draw=draw, **kwargs):
            seen.append(LedgerFile(path).charges)
            return draw(*args, **kwargs)

        monkeypatch.setattr(noise, name, spy)
    made = ss.release(frame, schema=schema, epsilon=0.5, ledger=path, label="a name", **choices)
    assert len(seen) == len(made.receipt.charges) > 0
    assert {costs(charges) for charges in seen} == {costs(made.receipt.charges)}
    assert {line.label for line in ledger.read().lines} == {"a name"}


def test_no_noise_without_a_durable_charge(frame, schema, ledger, path, monkeypatch):
    monkeypatch.setattr(noise, "_add", lambda *_: pytest.fail("noise was drawn"))
    monkeypatch.setattr(
        ledger_store.Book, "add", lambda *_, **__: (_ for _ in ()).throw(sqlite3.OperationalError("full"))
    )
    with pytest.raises(LedgerError, match="full"):
        ss.release(frame, schema=schema, epsilon=0.5, ledger=path)


def test_a_release_that_cannot_fit_reads_no_data(schema, ledger, path):
    ledger.charge(pure(0.75))
    with pytest.raises(ss.BudgetError, match=r"Left: epsilon = 0\.25\. No data was read"):
        ss.release("no-such-file.csv", schema=schema, epsilon=0.5, ledger=path)
    ledger.charge(pure(0.25))
    with pytest.raises(ss.BudgetError, match=r"Left: epsilon = 0\. No data was read"):
        ss.release("no-such-file.csv", schema=schema, epsilon=0.5, delta=1e-6, ledger=path)


def test_a_release_with_delta_needs_a_ledger_with_delta(schema, path):
    LedgerFile.create(path, ss.Budget(1.0))
    with pytest.raises(ss.BudgetError, match=r"delta = 0.*--delta"):
        ss.release("no-such-file.csv", schema=schema, epsilon=0.5, delta=1e-6, ledger=path)


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"method": "magic"}, {"synthetic_rows": 0}], ids=str)
def test_misuse_costs_nothing(frame, schema, ledger, path, wrong):
    with pytest.raises(ss.PlanError):
        ss.release(frame, schema=schema, epsilon=0.5, ledger=path, **wrong)
    assert ledger.charges == ()


def test_a_missing_ledger_is_not_made_up(schema, path):
    with pytest.raises(LedgerError, match="ledger set"):
        ss.release("no-such-file.csv", schema=schema, epsilon=0.5, ledger=path)
    assert not path.exists()


def test_what_the_plan_does_not_cover_is_charged_on_its_own(ledger):
    reservation = ledger.reserve([pure(0.25, "planned")])
    assert ledger.charges == ()
    reservation.charge(pure(0.25, "measured"))
    assert ledger.charges == (pure(0.25, "planned"),)
    reservation.charge(pure(0.25, "again"))
    assert ledger.charges == (pure(0.25, "planned"), pure(0.25, "again"))


def test_a_release_is_charged_as_a_whole_or_not_at_all(ledger):
    first, second = ledger.reserve([pure(0.4), pure(0.3)]), ledger.reserve([pure(0.2), pure(0.2)])
    first.charge(pure(0.4))
    with pytest.raises(ss.BudgetError):
        second.charge(pure(0.2))
    first.charge(pure(0.3))
    assert ledger.charges == (pure(0.4), pure(0.3))


RACER = """
import sys, time
from pathlib import Path
import smoothsynth as ss
from smoothsynth.accounting.ledger import LedgerFile
path = Path(sys.argv[1])
charge = ss.Charge("race", "discrete laplace", "l1", 1.0, 10.0, 3, 0.25, None)
ledger = LedgerFile(path)
print("ready", flush=True)
while not path.with_suffix(".go").exists():
    time.sleep(0.0005)
won = 0
for _ in range(3):
    try:
        ledger.charge(charge)
        won += 1
    except ss.BudgetError:
        pass
print(won)
"""


def test_racing_processes_cannot_both_have_the_last_epsilon(ledger, path):
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(6)
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    path.with_suffix(".go").touch()
    won = [int(racer.communicate(timeout=60)[0]) for racer in racers]
    assert sum(won) == 4
    assert ledger.read().spent[0] == 1.0


# The file


@posix
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_ledger_is_made_for_its_owner_only(path, mask):
    before = os.umask(mask)
    try:
        LedgerFile.create(path, ss.Budget(1.0)).charge(pure(0.5))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_a_ledger_that_others_can_open_is_refused(ledger, path, mode):
    path.chmod(mode)
    with pytest.raises(LedgerError, match="chmod 600"):
        ledger.charge(pure(0.1))


def test_every_transaction_is_synchronous_and_holds_the_lock_from_the_start(ledger, path):
    with ledger_store.opened(path, write=True) as book:
        assert book._connection.execute("PRAGMA synchronous").fetchone() == (3,)
        assert book._connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        other = sqlite3.connect(path, timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()
    ledger.charge(pure(0.1))


def test_a_locked_ledger_is_refused_in_words(ledger, path, monkeypatch):
    monkeypatch.setattr(ledger_store, "BUSY_SECONDS", 0.05)
    other = sqlite3.connect(path)
    other.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(LedgerError, match="locked"):
            ledger.charge(pure(0.1))
    finally:
        other.close()
    assert ledger.charges == ()


def test_an_existing_file_is_not_replaced(ledger, path):
    ledger.charge(pure(0.5))
    with pytest.raises(LedgerError, match="exists already"):
        LedgerFile.create(path, ss.Budget(1.0))
    assert ledger.charges == (pure(0.5),)


def test_a_ledger_is_made_whole_or_not_at_all(path, monkeypatch):
    monkeypatch.setattr(ledger_store.Book, "add", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        LedgerFile.create(path, ss.Budget(1.0))
    assert not list(path.parent.iterdir())


def by_hand(path, *statements):
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


TAMPERED = {
    "an epsilon": ["UPDATE entry SET document = replace(document, '0.25', '0.15')"],
    "a total": ["UPDATE entry SET document = replace(document, '\"epsilon\": 1.0', '\"epsilon\": 9.0')"],
    "the time": ["UPDATE entry SET time = '2020-01-01T00:00:00+00:00'"],
    "a label": ["UPDATE entry SET label = 'other'"],
    "the last entry": ["DELETE FROM entry WHERE number = 3"],
    "the first charge": ["DELETE FROM entry WHERE number = 2"],
    "everything": ["DELETE FROM entry"],
    "the head": ["DELETE FROM head"],
    "the number": ["UPDATE entry SET number = 9 WHERE number = 3"],
    "a type": ["UPDATE entry SET document = CAST(document AS BLOB)"],
    "a trigger": ["CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM entry; END"],
    "a table": ["DROP TABLE head"],
    "an older format": ["PRAGMA user_version = 0"],
    "another journal": ["PRAGMA journal_mode = WAL"],
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_ledger_that_was_changed_is_refused_and_left_as_it_is(ledger, path, what):
    ledger.charge_together([pure(0.25), pure(0.5)])
    by_hand(path, *TAMPERED[what])
    refused_as_it_is(path, "damaged")


def refused_as_it_is(path, words):
    before = path.read_bytes()
    for use in (LedgerFile, lambda p: LedgerFile.charge(with_path(p), pure(0.1))):
        with pytest.raises(LedgerError, match=words):
            use(path)
    assert path.read_bytes() == before


def with_path(path):
    ledger = object.__new__(LedgerFile)
    ledger._path = Path(path)
    return ledger


def test_a_ledger_of_format_1_is_read_and_becomes_one_of_format_2_when_written(ledger, path):
    by_hand(path, "PRAGMA user_version = 1")
    assert LedgerFile(path).charges == ()
    ledger.charge(pure(0.1))
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.close()


LEVELS = {
    "laplace": ss.Charge("levels", "stable histogram", "l1", 2.0, 20.0, 1, 0.1, None, 1e-8),
    "gaussian": ss.Charge("levels", "stable gaussian histogram", "l2", 1.5, 31.0, 1, None, 20.0, 1e-8),
}


@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
def test_as_many_equal_releases_with_levels_fit_as_could_be_planned_together(path, levels):
    one = [levels, gaussian(gaussian_multiplier(0.9, 9e-7))]
    file = LedgerFile.create(path, ss.Budget(3.0, 1e-6))
    most = next(k for k in range(1, 50) if compose(one * (k + 1), delta=1e-6).epsilon > 3.0)
    assert most > 3
    for _ in range(most):
        file.charge_together(one)
    with pytest.raises(ss.BudgetError):
        file.charge_together(one)


def test_gaussian_levels_use_both_their_delta_and_gaussian_noise():
    levels = LEVELS["gaussian"]
    ledger = Ledger(ss.Budget(1.0, 1e-6), planned=[levels, gaussian(gaussian_multiplier(0.9, 9e-7))])
    parts = PrivacyFilter.divide(ledger.budget, (), [levels, gaussian(gaussian_multiplier(0.9, 9e-7))])
    assert parts.epsilon == 0.0
    assert 1e-8 <= parts.delta < 1e-6
    assert parts.use([levels]) == Usage(0, Fraction(1e-8), Fraction(1, 400))
    while True:
        try:
            ledger.charge(levels)
        except ss.BudgetError:
            break
    assert Fraction(parts.delta) - Fraction(1e-8) < sum(Fraction(c.delta) for c in ledger.charges) <= parts.delta


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8), st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8))
@settings(deadline=None, max_examples=60)
def test_what_is_planned_again_with_other_shares_of_the_same_noise_fits(shares, others):
    whole = gaussian_multiplier(0.9, 9e-7)
    first = [gaussian(m) for m in split_multiplier(whole, shares)]
    ledger = Ledger(ss.Budget(1.0, 1e-6), planned=[pure(0.1), *first])
    for charge in [pure(0.1), *(gaussian(m) for m in split_multiplier(whole, others))]:
        ledger.charge(charge)


def test_a_newer_ledger_is_refused(ledger, path):
    by_hand(path, "PRAGMA user_version = 3")
    refused_as_it_is(path, "format 3.*Update")


def test_a_charge_of_an_unknown_mechanism_is_refused(ledger, path):
    with ledger_store.opened(path, write=True) as book:
        book.add("charge", {**pure(0.1).as_dict(), "mechanism": "staircase"})
    refused_as_it_is(path, "Update")


def test_an_unknown_kind_of_entry_is_refused(ledger, path):
    with ledger_store.opened(path, write=True) as book:
        book.add("refund", pure(0.1).as_dict())
    refused_as_it_is(path, "Update")


FOREIGN = {
    "empty": b"",
    "text": b"epsilon,delta\n1,0\n" * 100,
    "zeros": bytes(12288),
    "magic": b"SQLite format 3\0",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused_and_left_as_it_is(path, kind):
    path.write_bytes(FOREIGN[kind])
    path.chmod(0o600)
    refused_as_it_is(path, "not a ledger|damaged")


def test_a_foreign_database_is_refused_and_left_as_it_is(path):
    by_hand(path, "CREATE TABLE entry (number)", "INSERT INTO entry VALUES (1)")
    path.chmod(0o600)
    refused_as_it_is(path, "not a ledger")


@posix
def test_what_is_not_a_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo", 0o600)
    for wrong in (tmp_path, tmp_path / "fifo"):
        with pytest.raises(LedgerError, match="must be a file"):
            LedgerFile(wrong)


def test_a_truncated_ledger_is_refused_wherever_it_was_cut(ledger, path):
    ledger.charge_together([pure(0.01, "x" * 900)] * 12)
    whole = path.read_bytes()
    assert len(whole) > 5 * 4096
    for length in [*range(0, len(whole), 509), *range(0, len(whole), 4096), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(LedgerError):
            LedgerFile(path)
    path.write_bytes(whole)
    assert len(LedgerFile(path).charges) == 12


def test_a_flipped_byte_is_refused_or_changes_nothing(ledger, path):
    ledger.charge_together([pure(0.25), gaussian(40.0)])
    whole, statement = path.read_bytes(), ledger.read()
    refused = 0
    used = [i for i, byte in enumerate(whole) if byte]
    for position in used:
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x15]) + whole[position + 1 :])
        try:
            assert LedgerFile(path).read() == statement
        except LedgerError:
            refused += 1
    assert refused > 0.95 * len(used)


def test_labels_are_kept_short_and_printable_as_utf8(ledger):
    ledger.charge_together([pure(0.1)], label="\udc80" + "x" * 1000)
    assert ledger.read().lines[0].label == "?" + "x" * 199
