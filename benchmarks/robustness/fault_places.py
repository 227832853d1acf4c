"""Take something away from a release: the disk's space, permissions, a part of its table, the last epsilon."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

import smoothsynth as ss
from benchmarks.robustness.fault_site import PATIENCE, ROOT, Site, Tally
from smoothsynth.accounting.ledger import LedgerFile

if TYPE_CHECKING:
    from pathlib import Path

FEW_ROWS = 2_000


def truncated(site: Site, times: int, rng: np.random.Generator) -> Tally:
    """Cut the table at a random place, before it is read or while it is."""
    import pyarrow.csv
    import pyarrow.parquet

    tally = Tally("table truncated")
    columnar = site.data.with_suffix(".parquet")
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(site.data), columnar)
    _, after = site.undisturbed(tally)
    for k in range(times):
        whole = (site.data, columnar)[k % 2]
        cut, length = site.data.with_name(f"cut{whole.suffix}"), int(rng.integers(whole.stat().st_size))
        shutil.copy(whole, cut)
        if k % 4 < 2:
            os.truncate(cut, length)
            process, reading = site.start(data=cut)
        else:
            process, reading = site.start(data=cut)
            site.wait_until_staged(process)
            time.sleep(rng.uniform(0.0, after))
            os.truncate(cut, length)
        complaint = site.end(process, reading, tally)
        if process.returncode not in (0, 1) or "Traceback" in complaint:
            tally.wrong.append(f"not explained (exit {process.returncode}): {complaint[-300:]}")
    site.undisturbed(tally)
    return tally


def permissions_removed(place: Path) -> Tally:
    """Take away permissions one by one; root must first lay down the power to ignore them."""
    tally = Tally("permissions removed")
    site = Site(place, rows=FEW_ROWS, work=place / "denied")
    if os.geteuid() == 0:
        site.before = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
        if shutil.which("setpriv") is None:
            tally.note = "skipped: root, and no setpriv"
            return tally
    cases = ((site.ledger, 0o400), (site.ledger, 0o000), (site.ledger, 0o644), (site.work, 0o500), (site.data, 0o000),
             (site.schema, 0o000))  # fmt: skip
    for path, mode in cases:
        before = path.stat().st_mode & 0o777
        path.chmod(mode)
        process, reading = site.start()
        process.wait(PATIENCE)
        path.chmod(before)
        complaint = site.end(process, reading, tally)
        if process.returncode not in (1, 2) or "Error" not in complaint or "Traceback" in complaint:
            tally.wrong.append(f"mode {mode:o} of {path.name} is not explained: {complaint[-300:]}")
    if tally.whole or tally.drawn or site.recorded:
        tally.wrong.append("a release without permission")
    site.undisturbed(tally)
    return tally


def racing(place: Path, times: int) -> Tally:
    """Let three releases race for a total that is enough for one."""
    tally = Tally("race for the last epsilon", note="3 releases, enough for 1")
    for k in range(times):
        sites = [Site(place, rows=FEW_ROWS, work=place / f"race{k}", total=1.0) for _ in range(3)]
        for i, site in enumerate(sites):
            site.out = site.work / f"out{i}"
        for process, reading in [site.start() for site in sites]:
            process.communicate(timeout=PATIENCE)
            os.close(reading)
        whole = sum(site.out.exists() and ss.load(site.out) is not None for site in sites)
        tally.runs, tally.whole, tally.absent = tally.runs + 3, tally.whole + whole, tally.absent + 3 - whole
        spent = LedgerFile(sites[0].ledger).read().spent[0]
        if whole != 1 or abs(spent - 1.0) > 1e-9:
            tally.wrong.append(f"ledger let {whole} releases have the last epsilon and shows {spent}")
    return tally


def disk_full(place: Path, times: int) -> Tally:
    """Make releases with less space than they need: on a small disk in memory, or else with a limit on the size of files."""
    small, files = place / "small", _written(Site(place, rows=FEW_ROWS, work=place / "roomy"))
    small.mkdir()
    size = f"size={2 * sum(files)}"
    mounted = ["unshare", "--map-root-user", "--mount", "sh", "-c", f'mount -t tmpfs -o {size} none "$0" && exec "$@"']
    inside = [sys.executable, "-m", "benchmarks", "faults", "--inside", str(place), "--kills", str(times)]
    try:
        ran = subprocess.run([*mounted, str(small), *inside], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return files_limited(Site(place, rows=FEW_ROWS, work=small / "work"), times, largest=max(files))
    return Tally(**json.loads(ran.stdout))


def on_small_disk(place: Path, times: int) -> Tally:
    """Fill the disk that is mounted at `place`/small but for a part of its space, again and again."""
    site, filler = Site(place, rows=FEW_ROWS, work=place / "small" / "work"), place / "small" / "filler"
    kilobytes = _free(site.work) // 1024
    tally = Tally("disk full", note=f"a disk of {kilobytes:,} KB, twice what a release takes")
    for left in np.unique(np.geomspace(1, kilobytes, times).astype(int)) - 1:
        filler.write_bytes(bytes(max(0, _free(site.work) - 1024 * int(left))))
        process, reading = site.start()
        process.wait(PATIENCE)
        filler.unlink()
        _explained(site.end(process, reading, tally), process, f"{left} KB", tally)
    site.undisturbed(tally)
    return tally


def files_limited(site: Site, times: int, *, largest: int) -> Tally:
    """Limit the size of files, which writers see as an error of the same kind as a full disk."""
    tally = Tally("disk full", note="a limit on the size of files")
    for size in np.geomspace(1_000, 2 * largest, times):
        limits = (int(size), int(size))
        process, reading = site.start(
            preexec_fn=lambda limits=limits: resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        )
        _explained(site.end(process, reading, tally), process, f"{size:.0f} bytes", tally)
    site.undisturbed(tally)
    return tally


def _written(site: Site) -> list[int]:
    """Return the sizes of the files that a release writes where there is space."""
    kept = site.work / "kept"
    site.undisturbed(Tally("none"), keep=kept)
    return [path.stat().st_size for path in (site.ledger, *kept.iterdir())]


def _free(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _explained(complaint: str, process: subprocess.Popen, what: str, tally: Tally) -> None:
    if process.returncode not in (0, 1) or "Traceback" in complaint:
        tally.wrong.append(f"{what} are not explained (exit {process.returncode}): {complaint[-300:]}")
