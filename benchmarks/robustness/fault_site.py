"""A place where releases are disturbed: a private table, a ledger, an output; and the judgement afterwards."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import smoothsynth as ss
from smoothsynth.accounting.ledger import LedgerFile

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
# Values of one person that nothing but the table may hold: a name, and a number beyond the bounds.
NAME, NUMBER = "Wilhelmine Quastenberg", 8675309.125
TRACES = (NAME.encode(), str(NUMBER).encode(), struct.pack("<d", NUMBER), struct.pack(">d", NUMBER))
SCHEMA = ss.Schema({"age": ss.Number(0, 120), "income": ss.Number(0, 1e6), "visits": ss.Integer(0, 20)})


@dataclass
class Tally:
    """What was seen after all runs of one kind of fault."""

    fault: str
    runs: int = 0
    struck: int = 0
    whole: int = 0
    absent: int = 0
    drawn: int = 0
    wrong: list[str] = field(default_factory=list)
    note: str = ""

    @property
    def mismatches(self) -> int:
        """How often the ledger was not right."""
        return sum(text.startswith("ledger") for text in self.wrong)


class Site:
    """One folder with everything a release needs; `work` may be on another disk than the table."""

    def __init__(self, place: Path, *, rows: int, work: Path | None = None, total: float = 1e6) -> None:
        self.data, self.schema = place / "people.csv", place / "schema.toml"
        self.work = work or place / "work"
        self.temporary, self.ledger, self.out = self.work / "tmp", self.work / "people.ledger", self.work / "out"
        self.recorded = self.run = 0
        self.before: tuple[str, ...] = ()
        self.known: set[str] = set()
        if not self.data.exists():
            write_table(self.data, rows)
            SCHEMA.save(self.schema)
        if not self.work.exists():
            self.temporary.mkdir(parents=True)
            LedgerFile.create(self.ledger, ss.Budget(total))

    def start(self, *options: str, data: Path | None = None, **popen) -> tuple[subprocess.Popen, int]:
        """Start a release with a witness; return the process and the reading end of its pipe."""
        self.run, self.known = self.run + 1, self.leftovers()
        reading, writing = os.pipe()
        process = subprocess.Popen(
            [*self.before, sys.executable, "-m", "benchmarks.robustness.witness", str(writing), "release",
             str(data or self.data), "--schema", str(self.schema), "--epsilon", "1", "--ledger", str(self.ledger),
             "-o", str(self.out), "--seed", str(self.run), "--csv", "--quiet", *options],
            cwd=ROOT, pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}, **popen,
        )  # fmt: skip
        os.close(writing)
        return process, reading

    def wait_until_staged(self, process: subprocess.Popen) -> None:
        """Wait until the release prepares its folder, with all modules loaded and nothing read, or ends."""
        limit = time.monotonic() + PATIENCE
        while self.leftovers() <= self.known and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.001)

    def end(self, process: subprocess.Popen, reading: int, tally: Tally) -> str:
        """Wait for the process, judge what it left, and remove its release; return its complaint."""
        try:
            complaint = process.communicate(timeout=PATIENCE)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            complaint = process.communicate()[1]
            tally.wrong.append("release hung")
        with os.fdopen(reading, "rb") as pipe:
            drawn = len(pipe.read())
        self.judge(tally, drawn=drawn, succeeded=process.returncode == 0)
        if NAME in complaint or str(NUMBER) in complaint:
            tally.wrong.append("private value in a message")
        shutil.rmtree(self.out, ignore_errors=True)
        return complaint

    def undisturbed(self, tally: Tally, *, keep: Path | None = None) -> tuple[float, float]:
        """Make a release without a fault: it must succeed and clear away what others left; time its two parts."""
        begin = time.monotonic()
        process, reading = self.start()
        self.wait_until_staged(process)
        staged = time.monotonic()
        process.wait(PATIENCE)
        finished = time.monotonic()
        if keep is not None:
            shutil.copytree(self.out, keep)
        seen = Tally(tally.fault)
        complaint = self.end(process, reading, seen)
        tally.wrong += seen.wrong
        if seen.whole != 1:
            tally.wrong.append(f"release failed without a fault: {complaint[-300:]}")
        if self.leftovers():
            tally.wrong.append("folders in preparation were not cleared away")
        return staged - begin, finished - staged

    def judge(self, tally: Tally, *, drawn: int, succeeded: bool) -> None:
        """Count a release whole or absent; note a broken one, a wrong ledger, a private value left behind."""
        tally.runs += 1
        tally.drawn += drawn > 0
        receipt = None
        # A release that was being replaced may stand aside until the next writer puts it back.
        aside = [*self.work.glob(".out.*.old")]
        found = self.out if self.out.exists() else aside[0] if aside else None
        try:
            receipt = ss.load(found).receipt if found else None
        except ss.ReleaseError as error:
            tally.wrong.append(f"release half written: {error}")
        tally.whole += receipt is not None
        tally.absent += found is None
        fresh = receipt if receipt is not None and receipt.seed == self.run else None
        if succeeded and fresh is None:
            tally.wrong.append("release absent after success")
        self._judge_ledger(tally, fresh, drawn=drawn)
        self._judge_traces(tally)

    def _judge_ledger(self, tally: Tally, receipt: ss.Receipt | None, *, drawn: int) -> None:
        try:
            charges = LedgerFile(self.ledger).charges
        except ss.SmoothsynthError as error:
            tally.wrong.append(f"ledger cannot be read: {error}")
            return
        new, self.recorded = charges[self.recorded :], len(charges)
        # Whatever was drawn or published must be recorded, and a release is recorded as a whole or not at all.
        spent = sum(charge.epsilon for charge in new)
        if drawn and not new:
            tally.wrong.append("ledger shows less than was drawn")
        if drawn > len(new) or (new and abs(spent - 1.0) > 1e-9):
            tally.wrong.append("ledger holds a part of a release")
        if receipt is not None and sorted(c.epsilon for c in receipt.charges) != sorted(c.epsilon for c in new):
            tally.wrong.append("ledger and receipt differ")

    def _judge_traces(self, tally: Tally) -> None:
        if any(self.temporary.iterdir()):
            tally.wrong.append("temporary files left")
        for path in self.work.rglob("*"):
            if path.is_file() and any(trace in path.read_bytes() for trace in TRACES):
                tally.wrong.append(f"private value in {path.name}")

    def leftovers(self) -> set[str]:
        """Return the names of folders in preparation."""
        return {path.name for path in self.work.glob(".out.*")}


def write_table(path: Path, rows: int) -> None:
    """Write a table with names and impossible values in it."""
    rng = np.random.default_rng(7)
    ages, incomes, visits = rng.normal(50, 15, rows), rng.lognormal(11, 0.6, rows), rng.poisson(3, rows)
    incomes[::5] = NUMBER
    with path.open("w", encoding="utf-8") as file:
        file.write("name,age,income,visits\n")
        for row in zip(ages, incomes, visits, strict=True):
            file.write(f"{NAME},{row[0]:.3f},{row[1]:.3f},{row[2]}\n")
