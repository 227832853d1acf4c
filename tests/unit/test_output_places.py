"""What can be known about the place of an output is found out before data is read and before anything is charged."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.charges import Budget
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.cli.main import app

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert isinstance(result.exception, (SystemExit, type(None))), result.exception
    return result


def link_to(place, target, *, folder=True):
    if target is not None and folder:
        (place / target).mkdir()
    elif target is not None:
        (place / target).write_text("")
    (place / "link").symlink_to(place / (target or "nowhere"))
    return place / "link"


def link_to_a_release(place):
    ss.release(pa.table({"x": [0.5] * 30}), schema=ss.Schema({"x": ss.Number(0, 1)}), epsilon=1.0).write(place / "real")
    (place / "link").symlink_to(place / "real")
    return place / "link"


def _file(place):
    (place / "file").write_text("")
    return place / "file"


def _folder(place):
    (place / "above" / "below").mkdir(parents=True)
    return place / "above" / "below"


def _linked(place, target):
    (place / "link").symlink_to(target)
    return place / "link"


PLACES = {
    "a link to a folder": lambda place: link_to(place, "real"),
    "a link to a release": link_to_a_release,
    "a link to a file": lambda place: link_to(place, "real", folder=False),
    "a dangling link": lambda place: link_to(place, None),
    "below a dangling link": lambda place: link_to(place, None) / "out",
    "below a link to where nothing can be made": lambda place: _linked(place, "/proc/self") / "out",
    "below a file": lambda place: link_to(place, "real", folder=False) / "out",
    "a file": _file,
    "the folder above": lambda place: _folder(place) / "..",
    "a name that is too long": lambda place: place / ("x" * 250),
    "a name that is no text": lambda place: place / "x\udcff",
    "a name with a zero": lambda place: place / "x\0",
}


@pytest.fixture
def ledger(tmp_path):
    LedgerFile.create(tmp_path / "people.ledger", Budget(9.0, 1e-6))
    return tmp_path / "people.ledger"


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("name", PLACES)
def test_a_release_is_refused_before_anything_is_read_or_charged(name, force, schema_file, ledger, tmp_path):
    (tmp_path / "place").mkdir()
    output = PLACES[name](tmp_path / "place")
    before = sorted(tmp_path.rglob("*"))
    # There is no such table: an attempt to read it would be another error.
    result = run("release", tmp_path / "no.csv", "-s", schema_file, "-e", 1, "--ledger", ledger, "-o", output, *force)
    assert result.exit_code in (1, 2)
    assert "no.csv" not in result.output, result.output
    assert LedgerFile(ledger).charges == ()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_is_a_disk_of_its_own_is_refused(schema_file, tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda _: True)
    result = run("release", tmp_path / "no.csv", "-s", schema_file, "-e", 1, "-o", tmp_path / "disk")
    assert "cannot be moved" in result.output


def test_somebody_elses_folder_in_a_shared_one_is_refused(tmp_path, monkeypatch):
    from smoothsynth._files import write_whole

    shared = tmp_path / "shared"
    (shared / "out").mkdir(parents=True)
    shared.chmod(0o1777)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ss.ReleaseError, match="cannot be moved"), write_whole(shared / "out"):
        pass


def test_kept_sums_cannot_have_the_place_of_the_release(schema_file, tmp_path):
    ss.federated.make_key(tmp_path / "own.key")
    result = run("release", tmp_path / "no.csv", "-s", schema_file, "-e", 1, "-o", tmp_path / "out",
                 "--keep", tmp_path / "out", "--key", tmp_path / "own.key")  # fmt: skip
    assert "cannot be the release folder and the file" in result.output.replace("\n", " ")


@pytest.fixture
def kept(schema_file, csv_file, tmp_path):
    ss.federated.make_key(tmp_path / "own.key")
    made = run("release", csv_file, "-s", schema_file, "-e", 1, "-o", tmp_path / "first", "--keep", tmp_path / "sums",
               "--key", tmp_path / "own.key", "-q")  # fmt: skip
    assert made.exit_code == 0, made.output
    return tmp_path / "sums"


def test_an_update_is_refused_before_anything_is_read_or_charged(kept, ledger, tmp_path):
    (tmp_path / "link").symlink_to(kept)
    (tmp_path / "out link").symlink_to(tmp_path / "nowhere")
    common = ["-e", 1, "-k", tmp_path / "own.key", "--ledger", ledger, "-q"]
    for store, output in ((tmp_path / "link", tmp_path / "out"), (kept, tmp_path / "out link")):
        result = run("update", store, tmp_path / "no.csv", *common, "-o", output)
        assert result.exit_code == 1
        assert "is a symbolic link" in result.output
    assert LedgerFile(ledger).charges == ()


def test_sums_are_refused_before_anything_is_read_or_charged(schema, ledger, tmp_path):
    for name in ("coordinator", "north"):
        ss.federated.make_key(tmp_path / f"{name}.key")
    sites = {"north": ss.federated.Site(30, str(tmp_path / "north.pub"))}
    request = ss.federated.start(
        tmp_path / "study", schema=schema, sites=sites, epsilon=1.0, key=tmp_path / "coordinator.key"
    )
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for output in (tmp_path / "link", tmp_path / ("x" * 250), tmp_path / "none" / "x", tmp_path / "x\udcff"):
        result = run("federated", "sum", request, tmp_path / "no.csv", "-k", tmp_path / "north.key", "--coordinator",
                     tmp_path / "coordinator.pub", "--ledger", ledger, "-o", output)  # fmt: skip
        assert result.exit_code == 1
        assert "no.csv" not in result.output
    assert LedgerFile(ledger).charges == ()


def test_noise_of_a_round_is_not_drawn_if_it_cannot_be_written(schema, tmp_path, monkeypatch):
    from smoothsynth.federated import coordinator as verbs

    table = pa.table({name: [1.0] * 30 for name in schema.names})
    for name in ("coordinator", "north"):
        ss.federated.make_key(tmp_path / f"{name}.key")
    sites = {"north": ss.federated.Site(30, str(tmp_path / "north.pub"))}
    keys = {"key": tmp_path / "north.key", "coordinator": tmp_path / "coordinator.pub"}
    request = ss.federated.start(
        tmp_path / "study", schema=schema, sites=sites, epsilon=1.0, key=tmp_path / "coordinator.key"
    )
    sealed = ss.federated.sums(request, table, output=tmp_path / "n.sealed", **keys)
    (tmp_path / "study" / "moments-1.json").symlink_to(tmp_path / "nowhere")
    monkeypatch.setattr(verbs, "measure", lambda *_args, **_kwargs: pytest.fail("noise was drawn"))
    with pytest.raises(ss.SmoothsynthError, match="symbolic link"):
        ss.federated.add(tmp_path / "study", [sealed], key=tmp_path / "coordinator.key")


def test_a_page_is_refused_before_the_private_table_is_read(csv_file, schema, tmp_path):
    folder = ss.release(csv_file, schema=schema, epsilon=1.0).write(tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for output in (tmp_path / "link", tmp_path / "none" / "page.html", tmp_path / ("x" * 250)):
        result = run("report", folder, "--with-private", tmp_path / "no.csv", "-o", output, "--force")
        assert result.exit_code == 1
        assert "no.csv" not in result.output


def test_a_draft_is_refused_before_the_table_is_read(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for output in (tmp_path / "link", tmp_path / "none" / "schema.toml"):
        result = run("schema", tmp_path / "no.csv", "-o", output)
        assert result.exit_code == 1
        assert "no.csv" not in result.output


@pytest.mark.parametrize("command", ["tables", "rates"])
def test_the_folder_of_the_paper_is_made_first(command, tmp_path, monkeypatch):
    monkeypatch.setattr("smoothsynth.paper.tables.run", lambda *_args, **_kwargs: pytest.fail("it ran"))
    monkeypatch.setattr("smoothsynth.paper.rates.run_rates", lambda **_: pytest.fail("it ran"))
    monkeypatch.setattr("smoothsynth.paper.reproduction.available", lambda _folder, names: ({"wdbc": None}, []))
    (tmp_path / "file").write_text("")
    result = run("paper", command, "--quick", "-o", tmp_path / "file")
    assert result.exit_code == 1
    assert "must be a folder" in result.output


def test_a_release_beside_an_untouched_link_is_written(csv_file, schema, tmp_path):
    """A parent that is a link to a good place is followed: only the last step cannot be a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    ss.release(csv_file, schema=schema, epsilon=1.0).write(tmp_path / "link" / "out")
    assert json.loads((tmp_path / "real" / "out" / "receipt.json").read_text())["rows"] == 400


def test_a_full_disk_is_said_with_what_it_costs(tmp_path, monkeypatch):
    made = ss.release(pa.table({"x": [0.5] * 30}), schema=ss.Schema({"x": ss.Number(0, 1)}), epsilon=1.0)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(type(made), "write_files", full)
        with pytest.raises(ss.ReleaseError, match=r"No space left on device\. What it spent is spent"):
            made.write(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    made.write(tmp_path / "out")
