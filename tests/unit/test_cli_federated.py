"""The commands for several owners and for new rows: the whole story, errors in words, no row anywhere."""

import stat

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.cli.main import app

OUTSIDE, INSIDE = "8675309.125", "47.11235813"


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert isinstance(result.exception, (SystemExit, type(None))), result.exception
    return result


def said(result):
    return result.output + (result.stderr if result.stderr_bytes else "")


@pytest.fixture
def place(tmp_path, schema_file):
    rng = np.random.default_rng(3)
    for name, rows in (("north", 300), ("south", 200)):
        run("federated", "key", tmp_path / f"{name}.key")
        frame = pd.DataFrame(
            {"age": rng.normal(50, 9, rows), "income": rng.lognormal(11, 0.5, rows), "visits": rng.poisson(3, rows)}
        )
        frame["age"] = frame["age"].astype(object)
        frame.loc[:2, "age"] = [OUTSIDE, INSIDE, INSIDE]
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    run("federated", "key", tmp_path / "coordinator.key")
    return tmp_path


def start(place, *more):
    return run(
        "federated", "start", place / "study", "-s", place / "schema.toml", "-e", 2, "--delta", "1e-6", "--seed", 5,
        "-k", place / "coordinator.key", "--site", f"north=300,{place / 'north.pub'}",
        "--site", f"south=200,{place / 'south.pub'}", *more,
    )  # fmt: skip


def answer(place, name, number, *more):
    return run(
        "federated", "sum", place / "study" / f"request-{number}.json", place / f"{name}.csv",
        "-k", place / f"{name}.key", "--coordinator", place / "coordinator.pub", "-o", place / f"{name}-{number}.sealed",
        "--schema", place / "schema.toml", *more,
    )  # fmt: skip


def add(place, number, *more):
    files = [place / f"{name}-{number}.sealed" for name in ("north", "south")]
    return run("federated", "add", place / "study", *files, "-k", place / "coordinator.key", *more)


def test_the_whole_story(place, monkeypatch):
    begun = start(place)
    assert begun.exit_code == 0, said(begun)
    assert "Round 1 of 4 waits" in said(begun)
    LedgerFile.create(place / "north.ledger", ss.Budget(3.0, 1e-6))
    seen = [said(begun)]
    for number in range(1, 5):
        one = answer(place, "north", number, "--ledger", place / "north.ledger")
        two = answer(place, "south", number)
        assert one.exit_code == two.exit_code == 0, said(one) + said(two)
        assert "PRIVATE" in said(one)
        assert "No ledger was named" in said(two)
        if number == 4:
            refused = add(place, number)
            assert refused.exit_code == 1
            assert "last round: name the release folder" in said(refused)
        made = add(place, number, "-o", place / "out", "--csv")
        assert made.exit_code == 0, said(made)
        seen += [said(one), said(two), said(made), said(run("federated", "status", place / "study"))]
        assert (place / "out").exists() is (number == 4)
    assert "All rounds are done" in seen[-1]
    assert "500 synthetic rows" in " ".join(seen[-2].split())
    assert LedgerFile(place / "north.ledger").read().spent[0] <= 2.0
    assert run("verify", place / "out").exit_code == 0
    again = run("federated", "add", place / "study", "-k", place / "coordinator.key", "-o", place / "again", "-q")
    assert again.exit_code == 0, said(again)
    assert (place / "again" / "synthetic.parquet").read_bytes() == (place / "out" / "synthetic.parquet").read_bytes()
    files = [p for p in place.rglob("*") if p.is_file() and p.suffix != ".csv"]
    texts = [*seen, *(p.read_bytes().decode("latin-1") for p in files)]
    assert not any(sentinel in text for sentinel in (OUTSIDE, INSIDE) for text in texts)


def test_a_missing_answer_in_the_last_round_leaves_nothing(place):
    start(place)
    for number in range(1, 5):
        answer(place, "north", number)
        if number < 4:
            answer(place, "south", number)
            add(place, number)
    result = add(place, 4, "-o", place / "out")
    assert result.exit_code == 1
    assert "There is no file" in said(result)
    assert not (place / "out").exists()
    assert not [p for p in place.iterdir() if "partial" in p.name]
    assert not (place / "study" / "moments-4.json").exists()


def test_keys_teach(place):
    result = run("federated", "key", place / "west.key")
    assert "west.pub: send this one" in said(result)
    assert "Fingerprint" in said(result)
    assert stat.S_IMODE((place / "west.key").stat().st_mode) == 0o600
    assert run("federated", "key", place / "west.key").exit_code == 1


@pytest.mark.parametrize("site", ["north", "north=300", "north=many,north.pub", "=300,north.pub", "north=-1,north.pub"])
def test_a_site_that_is_not_described_is_refused(site, place):
    result = start(place, "--site", site)
    assert result.exit_code == 1
    assert "NAME=ROWS,PUBFILE" in said(result)
    assert not (place / "study").exists()


def test_a_site_named_twice_is_refused(place):
    result = start(place, "--site", f"north=300,{place / 'north.pub'}")
    assert result.exit_code == 1
    assert "named twice" in said(result)


def test_an_error_of_a_table_shows_no_row(place):
    start(place)
    (place / "north.csv").write_text(f"age,income,visits\n{OUTSIDE},{INSIDE}\n")
    result = answer(place, "north", 1)
    assert result.exit_code == 1
    assert OUTSIDE not in said(result)
    assert INSIDE not in said(result)
    assert not (place / "north-1.sealed").exists()


@pytest.mark.parametrize("command", [[], ["key"], ["start"], ["sum"], ["add"], ["status"]])
def test_help_teaches(command):
    result = run("federated", *command, "--help")
    assert result.exit_code == 0
    assert ("Example" in said(result)) is bool(command)


def test_new_rows(place):
    settings = ["-e", 1, "--delta", "1e-6", "--ledger", place / "north.ledger"]
    LedgerFile.create(place / "north.ledger", ss.Budget(1.5, 1e-6))
    first = run("release", place / "north.csv", "-s", place / "schema.toml", *settings, "-o", place / "one",
                "--keep", place / "north.sums", "--key", place / "north.key")  # fmt: skip
    assert first.exit_code == 0, said(first)
    update = ["update", place / "north.sums"]
    cost = run(*update, *settings, "-k", place / "north.key", "--cost")
    assert "spends both" in said(cost)
    assert "allows epsilon = 1.5 in all." in said(cost)
    refused = run(*update, place / "south.csv", *settings, "-k", place / "north.key")
    assert refused.exit_code == 1
    assert "Name the release folder" in said(refused)
    before = len(LedgerFile(place / "north.ledger").charges)
    made = run(*update, place / "south.csv", *settings, "-k", place / "north.key", "-o", place / "two", "--seed", 1)
    assert made.exit_code == 0, said(made)
    assert said(made).index("spends both") < said(made).index("Wrote")
    assert "500 synthetic rows" in " ".join(said(made).split())
    assert len(LedgerFile(place / "north.ledger").charges) == 2 * before
    assert run("verify", place / "two").exit_code == 0
    beyond = run(*update, *settings, "-k", place / "north.key", "-o", place / "three")
    assert beyond.exit_code == 1
    assert "its total is epsilon = 1.5" in said(beyond)
    assert "does not fit" in said(run(*update, *settings, "-k", place / "north.key", "--cost"))
    assert not (place / "three").exists()
    texts = [said(made), said(first), *((place / "two" / n).read_text() for n in ("receipt.json", "moments.json"))]
    assert not any(sentinel in text for sentinel in (OUTSIDE, INSIDE) for text in texts)
