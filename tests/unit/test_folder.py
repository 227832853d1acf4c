import os
import subprocess
import sys
import time

import pytest

import smoothsynth as ss
from smoothsynth import _files as folder
from smoothsynth._files import write_whole

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX locks")

WRITER = """
import sys, time
from smoothsynth._files import write_whole
with write_whole(sys.argv[1]) as staging:
    (staging / "half").write_text("half")
    print(staging, flush=True)
    time.sleep(60)
"""


def names(place):
    return sorted(p.name for p in place.iterdir())


def write(target, text, *, force=False):
    with write_whole(target, force=force) as staging:
        (staging / "receipt.json").write_text(text)


@pytest.fixture
def killed(tmp_path):
    """A writer that was killed while it prepared the folder `out`."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip().endswith(".partial")
    process.kill()
    process.wait()
    process.stdout.close()
    assert len(names(tmp_path)) == 1
    return tmp_path


def test_what_a_killed_writer_left_is_cleared_by_the_next(killed):
    write(killed / "out", "new")
    assert names(killed) == ["out"]
    assert names(killed / "out") == ["receipt.json"]


def test_only_leftovers_of_the_same_folder_are_cleared(killed):
    kept = (
        ".out.abc.partial",
        ".out2.abcdefgh.partial",
        ".out.x.abcdefgh.old",
        ".outXabcdefgh.partial",
        "out.abcdefgh.old",
    )
    for name in kept:
        (killed / name).mkdir()
    (killed / ".out.12345678.partial").write_text("a file")
    (killed / ".out.87654321.partial").symlink_to(killed / ".out.abc.partial")
    write(killed / "out", "new")
    assert set(names(killed)) == {*kept, "out", ".out.12345678.partial", ".out.87654321.partial"}


def test_the_folder_of_a_running_writer_is_left_alone(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True)
    try:
        busy = process.stdout.readline().strip()
        write(tmp_path / "out", "new")
        assert os.path.exists(os.path.join(busy, "half"))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_of_two_writers_at_once_the_first_to_finish_wins(tmp_path):
    slow = write_whole(tmp_path / "a")
    (slow.__enter__() / "receipt.json").write_text("slow")
    write(tmp_path / "a", "quick")
    with pytest.raises(ss.ReleaseError, match="exists already"):
        slow.__exit__(None, None, None)
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a" / "receipt.json").read_text() == "quick"


def test_a_release_that_was_being_replaced_is_put_back(tmp_path):
    write(tmp_path / "out", "old")
    (tmp_path / "out").rename(tmp_path / ".out.abcdefgh.old")
    with pytest.raises(ss.ReleaseError, match="exists already"):
        write(tmp_path / "out", "new")
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "receipt.json").read_text() == "old"


def test_a_release_that_was_replaced_is_not_put_back(tmp_path):
    write(tmp_path / "out", "new")
    (tmp_path / ".out.abcdefgh.old").mkdir()
    write(tmp_path / "out", "newer", force=True)
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "receipt.json").read_text() == "newer"


def test_a_staging_folder_taken_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    made = []
    locked = folder._lock

    def lock(path, held):
        made.append(path)
        if len(made) == 1:
            path.rmdir()
        return locked(path, held)

    monkeypatch.setattr(folder, "_lock", lock)
    write(tmp_path / "out", "new")
    assert len(made) == 2
    assert names(tmp_path) == ["out"]


def test_killed_at_any_moment_of_a_replacement_a_whole_release_is_there_after_the_next_look(tmp_path):
    code = (
        "import sys\nfrom smoothsynth._files import write_whole\nprint('go', flush=True)\n"
        "for i in range(100000):\n"
        "    with write_whole(sys.argv[1], force=True) as s:\n"
        "        for name in ('receipt.json', 'a', 'b'):\n"
        "            (s / name).write_text(str(i))\n"
    )
    for wait in (0.0005, 0.002, 0.004, 0.007, 0.011, 0.016):
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "out")], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(0.05 + wait)
        process.kill()
        process.wait()
        process.stdout.close()
        with pytest.raises(ss.ReleaseError, match="exists already"), write_whole(tmp_path / "out"):
            pass
        assert names(tmp_path) == ["out"]
        assert len({(tmp_path / "out" / name).read_text() for name in ("receipt.json", "a", "b")}) == 1
