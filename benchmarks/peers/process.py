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
# The priority of nice(1) that a command has at least; it is not added to that of the caller.
NICE = 10
WALL = 5


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program ended: "ok", "failed: one line" or "stopped ..." with the limit; its times and peak memory."""

    status: str
    seconds: float
    memory_mb: float | None
    wall: float | None = None


@dataclass(frozen=True, slots=True)
class _Used:
    seconds: float
    memory_mb: float | None


def run_limited(command: list[str], *, seconds: float, memory_mb: float) -> Ending:
    """Run a command on one thread at low priority; end it, with its children, at the first limit it reaches.

    Seconds are the command's processor time, so that a busy machine is not held against it; the clock on the wall
    may show WALL times as many.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    # XLA ignores OMP_NUM_THREADS.
    environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        child = subprocess.Popen(
            ["nice", "-n", str(max(NICE - os.nice(0), 0)), *command],
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            env=environment,
            start_new_session=True,
        )
        stopped, used = _watch(child, seconds=seconds, memory_mb=memory_mb)
        complaints.seek(0)
        return Ending(stopped or _status(child.returncode, complaints.read()), used.seconds, used.memory_mb)


def _watch(child: subprocess.Popen[bytes], *, seconds: float, memory_mb: float) -> tuple[str | None, _Used]:
    deadline, used, stopped = time.perf_counter() + WALL * seconds, _Used(0.0, None), None
    while stopped is None:
        try:
            child.wait(PAUSE)
        except subprocess.TimeoutExpired:
            used = _used(child.pid) or used
            if used.seconds > seconds:
                stopped = f"stopped after {seconds:g} s"
            elif used.memory_mb is not None and used.memory_mb > memory_mb:
                stopped = f"stopped above {memory_mb:g} MB"
            elif time.perf_counter() > deadline:
                stopped = f"stopped after {WALL * seconds:g} s on a busy machine ({used.seconds:.0f} s of its own)"
        else:
            return None, used
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return stopped, used


def _used(pid: int) -> _Used | None:
    """Return processor time and peak resident memory so far, or None where there is no /proc or no process.

    Not ru_maxrss of wait4: that one starts from the parent's memory at the fork.
    """
    try:
        # Fields 14 to 17 of proc(5): user and system time, its own and its children's; the name may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    except OSError:
        return None
    seconds = sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return _Used(seconds, int(found[1]) / 1024) if found else None


def _status(code: int, complaints: str) -> str:
    if code == 0:
        return "ok"
    if code < 0:
        return f"failed: ended by signal {-code}"
    lines = [line.strip() for line in complaints.splitlines() if line.strip()] or [f"exit code {code}"]
    # The exception, not the hints that some libraries print below it; its text may begin on the next line.
    errors = [i for i, line in enumerate(lines) if re.match(r"[\w.]*(Error|Exception|ERROR)\b", line)]
    at = errors[-1] if errors else len(lines) - 1
    words = " ".join(lines[at : at + 2]) if lines[at].endswith(":") else lines[at]
    return "failed: " + re.sub(r"/\S*/", "", words)[:160]
