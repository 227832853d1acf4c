"""Run one program with a time limit and a memory limit, and say how it ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program ended: "ok", "failed: one line" or "stopped ..." with the limit; its time and peak memory."""

    status: str
    seconds: float
    memory_mb: float | None


def run_limited(command: list[str], *, seconds: float, memory_mb: float) -> Ending:
    """Run a command on one thread at low priority; end it, with its children, at the first limit it reaches."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    # XLA ignores OMP_NUM_THREADS.
    environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        started = time.perf_counter()
        child = subprocess.Popen(
            ["nice", "-n", "10", *command],
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            env=environment,
            start_new_session=True,
        )
        stopped, peak = _watch(child, seconds=seconds, memory_mb=memory_mb)
        took = time.perf_counter() - started
        complaints.seek(0)
        return Ending(stopped or _status(child.returncode, complaints.read()), took, peak)


def _watch(child: subprocess.Popen[bytes], *, seconds: float, memory_mb: float) -> tuple[str | None, float | None]:
    deadline, peak, stopped = time.perf_counter() + seconds, None, None
    while stopped is None:
        try:
            child.wait(PAUSE)
        except subprocess.TimeoutExpired:
            peak = _peak_mb(child.pid) or peak
            if time.perf_counter() > deadline:
                stopped = f"stopped after {seconds:g} s"
            elif peak is not None and peak > memory_mb:
                stopped = f"stopped above {memory_mb:g} MB"
        else:
            return None, peak
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return stopped, peak


def _peak_mb(pid: int) -> float | None:
    """Return the peak resident memory so far, or None where there is no /proc.

    Not ru_maxrss of wait4: that one starts from the parent's memory at the fork.
    """
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) / 1024 if found else None


def _status(code: int, complaints: str) -> str:
    if code == 0:
        return "ok"
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    # The exception, not the hints that some libraries print below it.
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|ERROR)\b", line)]
    last = (errors or lines or [f"exit code {code}"])[-1]
    return "failed: " + re.sub(r"/\S*/", "", last)[:160]
