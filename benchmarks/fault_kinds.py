"""The faults: kill, interrupt, a full disk, missing permissions, truncated tables, a race for the last epsilon."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import smoothsynth as ss
from benchmarks.fault_site import NAME, NUMBER, PATIENCE, ROOT, Site, Tally
from smoothsynth.private.ledger_file import LedgerFile

NOBODY = 65534
# Charges and says so, again and again: what it has said must be in the file, whenever it is killed.
CHARGER = """
import os, sys
import smoothsynth as ss
from smoothsynth.private.ledger_file import LedgerFile
ledger, late = LedgerFile(sys.argv[1]), sys.argv[2] == "late"
charge = ss.Charge("x", "discrete laplace", "l1", 1.0, 1e6, 1, 1e-5, None)
os.write(1, b"go\\n")
for _ in range(100_000):
    if late:
        os.write(1, b"n")
    ledger.charge_together([charge] * 3)
    if not late:
        os.write(1, b"n")
"""


def killed(site: Site, times: int, rng: np.random.Generator) -> Tally:
    """Kill a release at random moments of its life: half of them after its folder is prepared."""
    return _signalled(site, times, rng, Tally("killed"), signal.SIGKILL)


def killed_replacing(site: Site, times: int, rng: np.random.Generator) -> Tally:
    """Kill a release that replaces another one: the old or the new one must be there, whole."""
    tally = Tally("killed while replacing")
    process, reading = site.start()
    process.communicate(timeout=PATIENCE)
    os.close(reading)
    shutil.copytree(site.out, site.work / "first")
    first = ss.load(site.out).receipt
    before, after = _durations(site)
    for k in range(times):
        if not site.out.exists():
            shutil.copytree(site.work / "first", site.out)
        process, reading = site.start("--force")
        _sleep_until(site, process, k, rng, before, after)
        process.kill()
        process.communicate()
        os.close(reading)
        tally.runs += 1
        aside = [p for p in site.work.glob(".out.*.old")]
        where = site.out if site.out.exists() else aside[0] if aside else None
        tally.whole += where is not None
        tally.absent += where is None
        if where is None or ss.load(where).receipt.rows != first.rows:
            tally.wrong.append("release lost")
    tally.leftovers = site.leftovers()
    shutil.rmtree(site.work / "first")
    _undisturbed(site, tally, "--force")
    return tally


def interrupted(site: Site, times: int, rng: np.random.Generator) -> Tally:
    """Press Ctrl-C at random moments."""
    return _signalled(site, times, rng, Tally("interrupted (Ctrl-C)"), signal.SIGINT)


def _signalled(site: Site, times: int, rng: np.random.Generator, tally: Tally, number: int) -> Tally:
    before, after = _durations(site)
    codes: dict[int, int] = {}
    for k in range(times):
        process, reading = site.start()
        _sleep_until(site, process, k, rng, before, after)
        process.send_signal(number)
        complaint = site.end(process, reading, tally)
        codes[process.returncode] = codes.get(process.returncode, 0) + 1
        # An interpreter that is still starting has no better answer to Ctrl-C than to die of it.
        if process.returncode not in (0, 130, -number):
            tally.wrong.append(f"exit code {process.returncode}: {complaint[-300:]}")
    tally.leftovers = site.leftovers()
    tally.note = ", ".join(f"{count} x exit {code}" for code, count in sorted(codes.items()))
    if number == signal.SIGINT and tally.leftovers:
        tally.note += f", {tally.leftovers} folders left"
    _undisturbed(site, tally)
    return tally


def _undisturbed(site: Site, tally: Tally, *options: str) -> None:
    """Make one release without a fault: it must succeed and clear away what the others left."""
    aside = Tally(tally.fault)
    process, reading = site.start(*options)
    complaint = site.end(process, reading, aside)
    tally.wrong += aside.wrong
    if aside.whole != 1:
        tally.wrong.append(f"release failed after the faults: {complaint[-300:]}")
    if site.leftovers():
        tally.wrong.append("folders in preparation were not cleared away")


def _durations(site: Site) -> tuple[float, float]:
    """Time an undisturbed release: until its folder is prepared, and from there to the end."""
    shutil.rmtree(site.out, ignore_errors=True)
    start = time.monotonic()
    process, reading = site.start()
    site.wait_until_staged(process)
    staged = time.monotonic()
    process.communicate(timeout=PATIENCE)
    os.close(reading)
    shutil.rmtree(site.out, ignore_errors=True)
    return staged - start, time.monotonic() - staged


def _sleep_until(
    site: Site, process: subprocess.Popen, k: int, rng: np.random.Generator, before: float, after: float
) -> None:
    if k % 2:
        site.wait_until_staged(process)
        time.sleep(rng.uniform(0.0, 1.1 * after))
    else:
        time.sleep(rng.uniform(0.0, 1.05 * (before + after)))


def killed_charging(place: Path, times: int, rng: np.random.Generator, *, late: bool = False) -> Tally:
    """Kill a process that does nothing but charge; `late` says so before it has charged, and must be caught."""
    tally = Tally("killed while charging", note="3 charges in each transaction")
    path = place / "charging.ledger"
    path.unlink(missing_ok=True)
    LedgerFile.create(path, ss.Budget(1e6))
    recorded = 0
    for _ in range(times):
        command = [sys.executable, "-c", CHARGER, str(path), "late" if late else "right"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"go\n"
        time.sleep(rng.uniform(0.0, 0.03))
        process.kill()
        said = len(process.communicate()[0])
        tally.runs += 1
        tally.drawn += said > 0
        now = len(LedgerFile(path).charges)
        if now < recorded + 3 * said:
            tally.wrong.append("ledger shows less than was drawn")
        if now % 3 or now > recorded + 3 * said + 3:
            tally.wrong.append("ledger holds a part of a release")
        recorded = now
        if recorded > 600:  # a long ledger only makes the next steps slower
            path.unlink()
            LedgerFile.create(path, ss.Budget(1e6))
            recorded = 0
    return tally


def truncated(site: Site, times: int, rng: np.random.Generator) -> Tally:
    """Cut the table, before it is read or while it is."""
    import pyarrow.csv
    import pyarrow.parquet

    tally = Tally("truncated table")
    columnar = site.data.with_suffix(".parquet")
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(site.data), columnar)
    before, after = _durations(site)
    for k in range(times):
        whole = (site.data, columnar)[k % 2]
        cut = site.data.with_name(f"cut{whole.suffix}")
        size = whole.stat().st_size
        shutil.copy(whole, cut)
        during = k % 4 > 1
        if not during:
            os.truncate(cut, int(rng.integers(size)))
        process, reading = site.start(data=cut)
        if during:
            site.wait_until_staged(process)
            time.sleep(rng.uniform(0.0, after))
            os.truncate(cut, int(rng.integers(size)))
        site.end(process, reading, tally)
        cut.unlink()
    tally.leftovers = site.leftovers()
    _undisturbed(site, tally)
    return tally


def without_permission(site: Site) -> Tally:
    """Take away permissions one by one, as a user who is not root."""
    tally = Tally("permissions removed")
    as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    if as_user:
        for path in (site.work.parent, site.work, *site.work.rglob("*"), site.data, site.schema):
            os.chown(path, NOBODY, NOBODY)
    cases = [(site.ledger, 0o400), (site.ledger, 0o000), (site.ledger, 0o644), (site.work, 0o500), (site.data, 0o000),
             (site.schema, 0o000)]  # fmt: skip
    for path, mode in cases:
        before = path.stat().st_mode & 0o777
        process, reading = _denied(site, path, mode, as_user)
        process.wait(PATIENCE)
        path.chmod(before)
        complaint = site.end(process, reading, tally)
        if process.returncode != 1 or "Error: " not in complaint or "Traceback" in complaint:
            tally.wrong.append(f"mode {mode:o} of {path.name} is not explained: {complaint[-300:]}")
    if tally.whole or tally.drawn:
        tally.wrong.append("a release without permission")
    process, reading = site.start(**as_user)
    site.end(process, reading, after := Tally(""))
    tally.wrong += after.wrong if after.whole else ["release failed once permissions were back"]
    return tally


def _denied(site: Site, path: Path, mode: int, as_user: dict) -> tuple[subprocess.Popen, int]:
    recorded = len(LedgerFile(site.ledger).charges)
    path.chmod(mode)
    real = LedgerFile.charges
    # The ledger that is about to be denied cannot be counted by an owner without permission either.
    try:
        LedgerFile.charges = property(lambda _: (None,) * recorded)
        original = LedgerFile.__init__
        LedgerFile.__init__ = lambda self, path: None
        return site.start(**as_user)
    finally:
        LedgerFile.charges, LedgerFile.__init__ = real, original


def racing(place: Path, rows: int, times: int) -> Tally:
    """Let three releases race for a total that is enough for one."""
    tally = Tally("racing for the last epsilon", note="3 releases, enough for 1")
    for k in range(times):
        site = Site(place, rows=rows, work=place / f"race{k}", total=1.0)
        sites = [site, *(Site(place, rows=rows, work=site.work) for _ in range(2))]
        for i, other in enumerate(sites):
            other.out = site.work / f"out{i}"
        started = [other.start() for other in sites]
        won = 0
        for (process, reading), _ in zip(started, sites, strict=True):
            process.communicate(timeout=PATIENCE)
            os.close(reading)
            won += process.returncode == 0
        whole = [other for other in sites if other.out.exists() and ss.load(other.out)]
        tally.runs += 3
        tally.whole += len(whole)
        tally.absent += 3 - len(whole)
        spent = LedgerFile(site.ledger).read().spent[0]
        if won != 1 or len(whole) != 1 or abs(spent - 1.0) > 1e-9:
            tally.wrong.append(f"ledger gave {won} releases the last epsilon, spent {spent}")
    return tally


def disk_full(place: Path, times: int) -> Tally:
    """Make releases on a disk with less and less space: a small disk in memory, or a limit on the size of files."""
    tally = Tally("disk full")
    small = place / "small"
    small.mkdir()
    inside = [sys.executable, "-m", "benchmarks.faults", "--inside", str(place), "--kills", str(times)]
    script = 'mount -t tmpfs -o size=4m none "$0" && exec "$@"'
    try:
        ran = subprocess.run(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", script, str(small), *inside],
            cwd=ROOT, capture_output=True, text=True, timeout=10 * PATIENCE, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return limited_files(Site(place, rows=2_000, work=small / "work"), times, tally)
    import json

    return Tally(**json.loads(ran.stdout.splitlines()[-1]))


def on_small_disk(place: Path, times: int) -> Tally:
    """Fill the small disk that is mounted at `place`/small but for a few kilobytes, again and again."""
    tally = Tally("disk full", note="tmpfs of 4 MB")
    site = Site(place, rows=2_000, work=place / "small" / "work")
    filler = place / "small" / "filler"
    for kilobytes in np.unique(np.geomspace(1, 1_000, times).astype(int)) - 1:
        free = os.statvfs(site.work)
        filler.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - 1024 * int(kilobytes))))
        process, reading = site.start()
        process.wait(PATIENCE)
        filler.unlink()
        complaint = site.end(process, reading, tally)
        if process.returncode not in (0, 1) or "Traceback" in complaint:
            tally.wrong.append(f"{kilobytes} KB free is not explained: {complaint[-300:]}")
    tally.leftovers = site.leftovers()
    _undisturbed(site, tally)
    return tally


def limited_files(site: Site, times: int, tally: Tally) -> Tally:
    """Limit the size of files instead, where no small disk can be mounted."""
    tally.note = "limit on the size of files"
    for size in np.geomspace(1_000, 200_000, times).astype(int):
        limit = int(size)
        process, reading = site.start(preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit,) * 2))
        complaint = site.end(process, reading, tally)
        if process.returncode not in (0, 1) or "Traceback" in complaint:
            tally.wrong.append(f"{limit} bytes are not explained: {complaint[-300:]}")
    _undisturbed(site, tally)
    return tally


def each_system_call(place: Path) -> Tally:
    """Kill one charge at each of its system calls, in turn, where strace is there to do it."""
    tally = Tally("killed at each system call")
    if shutil.which("strace") is None:
        tally.note = "skipped: no strace"
        return tally
    path = place / "traced.ledger"
    code = CHARGER.replace("100_000", "1")
    for call in ("openat", "fcntl", "pwrite64", "fdatasync", "unlink"):
        for when in range(1, 1_000):
            path.unlink(missing_ok=True)
            LedgerFile.create(path, ss.Budget(1e6))
            ran = subprocess.run(
                ["strace", "-qq", "-o", str(place / "trace"), "-P", str(path), "-P", f"{path}-journal", "-P", str(place),
                 "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={when}",
                 sys.executable, "-c", code, str(path), "right"],
                capture_output=True, check=False,
            )  # fmt: skip
            if ran.returncode == 0:
                break
            if ran.returncode not in (-signal.SIGKILL, 128 + signal.SIGKILL):
                tally.note = "skipped: strace cannot trace here"
                return tally
            said = ran.stdout.count(b"n")
            tally.runs += 1
            tally.drawn += said > 0
            now = len(LedgerFile(path).charges)
            if now < 3 * said:
                tally.wrong.append("ledger shows less than was drawn")
            if now not in (0, 3):
                tally.wrong.append("ledger holds a part of a release")
    return tally


__all__ = ["NAME", "NUMBER"]
