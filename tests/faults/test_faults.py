"""Disturb releases, look at what is left; and disturb the judgement, which must notice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import smoothsynth as ss

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")

ROOT = Path(__file__).resolve().parents[2]


def harness(*arguments):
    command = [sys.executable, "-m", "benchmarks", "faults", "--json", *map(str, arguments)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    tallies = json.loads(ran.stdout)
    assert [text for tally in tallies for text in tally["wrong"]] == []
    assert ran.returncode == 0
    return {tally["fault"]: tally for tally in tallies}


def test_killed_and_interrupted_there_is_a_whole_release_or_none_and_the_ledger_is_right():
    seen = harness("--kills", 2, "--rows", 1_000, "--only", "kill", "interrupt")
    assert seen["killed"]["struck"] == 2
    assert seen["interrupted (Ctrl-C)"]["struck"] == 2
    assert all(tally["whole"] + tally["absent"] == tally["runs"] for tally in seen.values())


def test_killed_while_charging_the_ledger_never_shows_less_than_was_spent():
    seen = harness("--kills", 3, "--rows", 100, "--only", "charge")["killed while charging"]
    assert seen["runs"] == 3
    assert seen["drawn"] > 0


@pytest.mark.slow
def test_a_full_disk_has_room_for_a_release_where_nothing_is_at_fault():
    seen = harness("--kills", 30, "--rows", 50_000, "--only", "disk")["disk full"]
    assert seen["whole"] > 0
    assert seen["absent"] > 0


@pytest.mark.slow
def test_every_kind_of_fault():
    seen = harness("--kills", 200)
    kills = seen["killed"]
    assert kills["struck"] == 200
    assert kills["drawn"] > kills["whole"] > 0
    assert kills["absent"] > 0
    assert seen["race for the last epsilon"]["whole"] * 3 == seen["race for the last epsilon"]["runs"]


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.robustness.fault_site import Site

    site = Site(tmp_path, rows=300)
    site.run = 5
    site.release = ss.release(
        str(site.data), schema=ss.Schema.load(site.schema), epsilon=1.0, seed=5, ledger=site.ledger
    )
    site.release.write(site.out)
    return site


def judged(site, **seen):
    from benchmarks.robustness.fault_site import Tally

    tally = Tally("test")
    site.judge(tally, **{"drawn": 2, "succeeded": True, **seen})
    return tally


def test_a_release_as_it_should_be_is_not_blamed(site):
    tally = judged(site, drawn=len(site.release.receipt.charges))
    assert tally.wrong == []
    assert (tally.runs, tally.whole, tally.absent) == (1, 1, 0)


def test_the_judgement_notices_a_half_written_release(site):
    (site.out / "synthetic.parquet").write_bytes(b"half")
    assert "half written" in judged(site).wrong[0]
    (site.out / "moments.json").unlink()
    assert "half written" in judged(site, drawn=0).wrong[0]


def test_the_judgement_notices_a_ledger_that_shows_less(site):
    site.recorded = len(site.release.receipt.charges)
    assert any("less than was drawn" in text for text in judged(site).wrong)
    assert any("receipt differ" in text for text in judged(site).wrong)
    site.ledger.write_bytes(site.ledger.read_bytes()[:5_000])
    assert "ledger cannot be read" in judged(site).wrong[0]


def test_the_judgement_notices_a_part_of_a_release(site):
    site.recorded = 1
    assert any("part of a release" in text for text in judged(site).wrong)


def test_the_judgement_notices_private_values(site):
    from benchmarks.robustness.fault_site import NAME, NUMBER

    staging = site.work / ".out.abcdefgh.partial"
    staging.mkdir()
    (staging / "cache").write_text(f"1,{NAME},2")
    assert judged(site).wrong == ["private value in cache"]
    (staging / "cache").write_bytes(np.array([1.0, NUMBER]).tobytes())
    assert judged(site, drawn=0).wrong[-1] == "private value in cache"
    (staging / "cache").unlink()
    (site.temporary / "spool").touch()
    assert judged(site, drawn=0).wrong[-1] == "temporary files left"


@pytest.mark.slow
def test_a_ledger_that_is_charged_too_late_is_caught(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.robustness.fault_kills import killed_charging

    tally = killed_charging(tmp_path, 12, np.random.default_rng(3), early=True)
    assert tally.mismatches > 0
