"""A site answers each round of a study once: no other request, no other sums, whatever restarts, copies or races."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth import federated as fed
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.federated import coordinator as verbs
from smoothsynth.private.sites.envelope import taken_apart
from smoothsynth.private.sites.keys import read_key
from smoothsynth.private.sites.protocol import read_request, write_request
from smoothsynth.private.sites.store import AnswerRecord
from smoothsynth.queries.transformation import Transformation

ROWS = 60
TABLE = pa.table({"age": [float(k % 90) for k in range(ROWS)], "visits": [k % 7 for k in range(ROWS)]})
SCHEMA = ss.Schema({"age": ss.Number(0, 120), "visits": ss.Integer(0, 20)})


@pytest.fixture
def place(tmp_path):
    for name in ("coordinator", "north"):
        fed.make_key(tmp_path / f"{name}.key")
    sites = {"north": fed.Site(ROWS, str(tmp_path / "north.pub"))}
    # Rounds that follow from what was released before: with so few rows and no Gaussian noise, the second does not.
    method, budget = ss.methods.Adaptive(noise="gaussian"), {"epsilon": 2.0, "delta": 1e-6}
    fed.start(tmp_path / "study", schema=SCHEMA, sites=sites, method=method, key=tmp_path / "coordinator.key", **budget)
    return tmp_path


def answer(place, request="study/request-1.json", table=TABLE, *, site=None, output="sealed", **more):
    site = site or place
    keys = {"key": site / "north.key", "coordinator": site / "coordinator.pub"}
    return fed.sums(place / request, table, output=site / output, **keys, **more)


def other_request(place, **changes):
    """A request for the same round of the same study, signed by its coordinator, that asks for something else."""
    first = read_request(place / "study" / "request-1.json")
    changes = changes or {"transformation": Transformation.straight(first.study.schema.dimensions)}
    other = replace(first, measurement=replace(first.measurement, **changes))
    write_request(place / "other.json", other, key=read_key(place / "coordinator.key"))
    return "other.json"


def refused(place, words, **more):
    """Nothing is read, charged or written."""
    before = sorted(place.rglob("*"))
    with pytest.raises(ss.FederatedError, match=words):
        answer(place, table=place / "there-is-no-table.csv", output="second", **more)
    assert sorted(place.rglob("*")) == before


def test_the_same_round_with_another_view_is_refused(place):
    answer(place)
    refused(place, "answered round 1 of this study before", request=other_request(place))


def test_features_that_the_plan_does_not_have_are_refused(place):
    measured = read_request(place / "study" / "request-1.json").measurement
    features = (*measured.features[1:], measured.features[0])
    refused(place, "asks for other features", request=other_request(place, features=features))


def test_the_first_request_counts_whichever_it_was(place):
    answer(place, other_request(place))
    refused(place, "answered round 1 of this study before")


def test_the_same_request_is_answered_again_with_the_same_sums(place):
    one, two = (answer(place, output=name) for name in ("one", "two"))
    key, features = read_key(place / "coordinator.key"), read_request(place / "study" / "request-1.json").measurement
    opened = [taken_apart(path.read_text()).open(key).sums([features.features])[0] for path in (one, two)]
    assert opened[0].unseal() == opened[1].unseal()
    assert one.read_text() != two.read_text(), "sealed anew, under another key"


def test_a_table_that_changed_is_not_answered_again(place):
    answer(place)
    changed = TABLE.set_column(0, "age", pa.array([99.0, *TABLE["age"].to_pylist()[1:]]))
    with pytest.raises(ss.FederatedError, match="your table has changed since"):
        answer(place, table=changed, output="second")
    assert not (place / "second").exists()


def test_a_copied_folder_takes_the_record_along(place):
    answer(place)
    shutil.copytree(place, place.with_name("copy"))
    refused(
        place.with_name("copy"), "answered round 1 of this study before", request=other_request(place.with_name("copy"))
    )


def test_a_later_round_needs_the_record_of_the_earlier_ones(place):
    fed.add(place / "study", [answer(place)], key=place / "coordinator.key")
    shutil.move(place / "north.answered", place / "lost")
    (place / "north.answered").mkdir()
    refused(place, "no record that you answered round 1", request="study/request-2.json")
    shutil.rmtree(place / "north.answered")
    shutil.move(place / "lost", place / "north.answered")
    answer(place, "study/request-2.json", output="two")


def test_a_study_that_is_carried_on_twice_gets_one_answer(place):
    """Noise drawn twice gives other transformations: of the two second rounds, a site answers one."""
    sealed = answer(place)
    shutil.copytree(place / "study", place / "again")
    for study in ("study", "again"):
        fed.add(place / study, [sealed], key=place / "coordinator.key")
    answer(place, "study/request-2.json", output="two")
    refused(place, "answered round 2 of this study before", request="again/request-2.json")


def test_nothing_is_charged_for_what_is_refused(place):
    LedgerFile.create(place / "people.ledger", ss.Budget(9.0, 1e-6))
    answer(place)
    refused(place, "before", request=other_request(place), ledger=place / "people.ledger")
    assert LedgerFile(place / "people.ledger").charges == ()


def test_the_round_is_taken_before_anything_is_charged_or_written(place, monkeypatch):
    LedgerFile.create(place / "people.ledger", ss.Budget(9.0, 1e-6))

    def crash(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs.StudyAccount, "record", crash)
    with pytest.raises(KeyboardInterrupt):
        answer(place, ledger=place / "people.ledger")
    monkeypatch.undo()
    refused(place, "answered round 1 of this study before", request=other_request(place))


RACER = """
import sys, smoothsynth as ss
place, request = sys.argv[1:]
try:
    ss.federated.sums(f"{place}/{request}", f"{place}/rows.parquet", output=f"{place}/{request}.sealed",
                      key=f"{place}/north.key", coordinator=f"{place}/coordinator.pub")
except ss.FederatedError as error:
    sys.exit(str(error))
"""


def test_of_two_processes_with_different_requests_one_answers(place):
    import pyarrow.parquet

    pyarrow.parquet.write_table(TABLE, place / "rows.parquet")
    other_request(place)
    shutil.copy(place / "study" / "request-1.json", place / "first.json")
    racing = [subprocess.Popen([sys.executable, "-c", RACER, place, name], stderr=subprocess.PIPE, text=True)
              for name in ("first.json", "other.json")]  # fmt: skip
    said = [process.communicate(timeout=120)[1] for process in racing]
    assert sorted(process.returncode for process in racing) == [0, 1], said
    assert len(list(place.glob("*.sealed"))) == 1
    assert "answered round 1 of this study before" in "".join(said)


def test_a_claim_that_was_lost_by_a_moment_is_not_overlooked(place, monkeypatch):
    """Another process takes the round after this one has looked, and before it writes."""
    request, other = (read_request(place / name) for name in ("study/request-1.json", other_request(place)))
    record = AnswerRecord.beside(place / "north.key")
    record.refuse(request)
    record.claim(other, "digest")
    with pytest.raises(ss.FederatedError, match="answered round 1 of this study before"):
        record.claim(request, "digest")


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_the_record_is_the_owners_and_tells_nothing_of_the_sums(place):
    answer(place)
    (file,) = (place / "north.answered").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    request, digest = file.read_text().split()
    assert request == read_request(place / "study" / "request-1.json").identity
    # The same sums under another key have another digest: guesses cannot be tried.
    fed.make_key(place / "guess.key")
    keys = [read_key(place / f"{name}.key") for name in ("north", "guess")]
    assert len({key.digest(b"sums") for key in keys} | {keys[0].digest(b"other sums")}) == 3
    assert len(digest) == 64


def test_a_record_that_cannot_be_kept_is_found_before_anything_is_read(place):
    (place / "north.answered").write_text("a file")
    refused(place, "cannot be made")
