"""Kill or interrupt a release or a charge: at random moments, and at every system call."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import smoothsynth as ss
from benchmarks.robustness.fault_site import Site, Tally
from smoothsynth.accounting.ledger import LedgerFile

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

# Charges and says so, again and again: what it has said must be in the file, whenever it is killed.
CHARGER = """
import os, sys
import smoothsynth as ss
from smoothsynth.accounting.ledger import LedgerFile
ledger, early = LedgerFile(sys.argv[1]), sys.argv[3] == "early"
charge = ss.Charge("x", "discrete laplace", "l1", 1.0, 1e6, 1, 1e-5, None)
os.write(1, b"go\\n")
for _ in range(int(sys.argv[2])):
    if early:
        os.write(1, b"n")
    ledger.charge_together([charge] * 3)
    if not early:
        os.write(1, b"n")
"""


def killed(site: Site, times: int, rng: np.random.Generator) -> Tally:
    """Kill a release at random moments of its life."""
    return _signalled(site, times, rng, Tally("killed"), signal.SIGKILL)


def interrupted(site: Site, times: int, rng: np.random.Generator) -> Tally:
    """Press Ctrl-C at random moments."""
    return _signalled(site, times, rng, Tally("interrupted (Ctrl-C)"), signal.SIGINT)


def killed_replacing(site: Site, times: int, rng: np.random.Generator) -> Tally:
    """Kill a release that replaces another one: the old or the new one must be there, whole."""
    tally = Tally("killed while replacing")
    kept = site.work.parent / "kept"
    moments = Moments(rng, *site.undisturbed(tally, keep=kept))
    while moments.more(tally, times):
        shutil.copytree(kept, site.out)
        process, reading = site.start("--force")
        moments.strike(site, process, signal.SIGKILL)
        site.end(process, reading, tally)
        tally.struck += process.returncode == -signal.SIGKILL
        # What stood aside would be put back, and the copy for the next round would be in its way.
        for aside in site.work.glob(".out.*.old"):
            shutil.rmtree(aside)
    if tally.absent:
        tally.wrong.append("release lost")
    shutil.rmtree(kept)
    site.undisturbed(tally)
    return tally


def _signalled(site: Site, times: int, rng: np.random.Generator, tally: Tally, number: signal.Signals) -> Tally:
    moments = Moments(rng, *site.undisturbed(tally))
    codes: Counter[tuple[int, bool]] = Counter()
    while moments.more(tally, times):
        process, reading = site.start()
        moments.strike(site, process, number)
        whole = tally.whole
        complaint = site.end(process, reading, tally)
        codes[process.returncode, tally.whole > whole] += 1
        tally.struck += process.returncode != 0
        # An interpreter that is still starting has no better answer to Ctrl-C than to die of it.
        if process.returncode not in (0, 130, -number):
            tally.wrong.append(f"exit code {process.returncode}: {complaint[-300:]}")
    shown = {True: "whole", False: "absent"}
    tally.note = ", ".join(f"exit {code} {shown[whole]}: {count}" for (code, whole), count in sorted(codes.items()))
    site.undisturbed(tally)
    return tally


class Moments:
    """When to strike: uniform over the whole life of a release, or, every other time, over its second part.

    A release that ends before it is struck tells how long its parts take now, and does not count.
    """

    def __init__(self, rng: np.random.Generator, before: float, after: float) -> None:
        self._rng, self._before, self._after, self._turn = rng, before, after, 0

    def more(self, tally: Tally, times: int) -> bool:
        """Whether more releases must be struck; not for ever, if they keep getting away."""
        return tally.struck < times and tally.runs < 4 * times + 10

    def strike(self, site: Site, process: subprocess.Popen, number: signal.Signals) -> None:
        """Wait for the moment and send the signal."""
        self._turn += 1
        begin = time.monotonic()
        second = self._turn % 2 == 0
        if second:
            site.wait_until_staged(process)
        part = self._after if second else self._before + self._after
        staged = time.monotonic()
        try:
            process.wait(self._rng.uniform(0.0, 1.02 * part))
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        else:
            if second:
                self._before, self._after = staged - begin, time.monotonic() - staged


def killed_charging(place: Path, times: int, rng: np.random.Generator, *, early: bool = False) -> Tally:
    """Kill a process that does nothing but charge; one that says so too early must be caught."""
    tally = Tally("killed while charging", note="3 charges in each transaction")
    path = place / "charging.ledger"
    for _ in range(times):
        _new_ledger(path)
        process = subprocess.Popen(_charger(path, 100_000, early=early), stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.15))
        process.kill()
        tally.struck += 1
        _judge_charges(path, process.communicate()[0].count(b"n"), tally)
    return tally


def killed_at_each_call(place: Path) -> Tally:
    """Kill one charge at each of its system calls on the ledger, in turn, where strace is there to do it."""
    tally = Tally("killed at each system call")
    path = place / "traced.ledger"
    for call in ("openat", "fcntl", "pwrite64", "fdatasync", "unlink"):
        when, code = 1, -signal.SIGKILL
        while code == -signal.SIGKILL:
            _new_ledger(path)
            traced = ["strace", "-qq", "-o", str(place / "trace"), "-P", str(path), "-P", f"{path}-journal",
                      "-P", str(place), "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={when}"]  # fmt: skip
            try:
                ran = subprocess.run([*traced, *_charger(path, 1)], capture_output=True, check=False)
            except OSError:
                tally.note = "skipped: no strace"
                return tally
            when, code = when + 1, ran.returncode
            if code == -signal.SIGKILL:
                tally.struck += 1
                _judge_charges(path, ran.stdout.count(b"n"), tally)
        if code or when == 2:
            tally.note = "skipped: strace cannot trace here"
    return tally


def _charger(path: Path, times: int, *, early: bool = False) -> list[str]:
    return [sys.executable, "-c", CHARGER, str(path), str(times), "early" if early else "right"]


def _new_ledger(path: Path) -> None:
    for file in (path, path.with_name(path.name + "-journal")):
        file.unlink(missing_ok=True)
    LedgerFile.create(path, ss.Budget(1e6))


def _judge_charges(path: Path, said: int, tally: Tally) -> None:
    tally.runs += 1
    tally.drawn += said > 0
    try:
        recorded = len(LedgerFile(path).charges)
    except ss.SmoothsynthError as error:
        tally.wrong.append(f"ledger cannot be read: {error}")
        return
    if recorded < 3 * said:
        tally.wrong.append("ledger shows less than was drawn")
    if recorded % 3 or recorded > 3 * said + 3:
        tally.wrong.append("ledger holds a part of a release")
