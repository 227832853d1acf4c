"""One release, one bootstrap and the peers that were asked for, on one table: rows, time and memory.

What fading.py, nist.py and learning.py share. A peer sees categories as they are and numbers as 32 bins of equal width
(--bins names another number) between public bounds, and cells of their own for values that may be crowded or are few
(mixed_tables.Cells); it spends rho-zCDP, so it runs only where delta is not 0.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import smoothsynth as ss
from benchmarks.accuracy import ratios
from benchmarks.accuracy.mixed_tables import Binned, unit_points
from benchmarks.peers.environments import PEERS
from benchmarks.peers.run import run_peer
from smoothsynth.paper.reproduction import data_folder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    Points = NDArray[np.float64]

OURS, BOOTSTRAP = "smoothsynth", "bootstrap (not private)"
OPENDP = ("opendp-mst", "opendp-aim")


@dataclass(frozen=True, slots=True)
class Run:
    """The rows that a method made, as points of the cube; None, and why, if it made none."""

    method: str
    points: Points | None
    seconds: float | None = None
    memory_mb: float | None = None
    status: str = "ok"


def runs(
    frame: pd.DataFrame, schema: ss.Schema, given: argparse.Namespace, *, delta: float, seed: int, order: int = 2
) -> Iterator[Run]:
    """Yield the rows of a release, of each peer (AIM over sets of `order` columns), and of a bootstrap."""
    real, rng = unit_points(frame, schema), np.random.default_rng(seed)
    started = time.process_time()
    made = ss.release(frame, schema=schema, epsilon=given.epsilon, delta=delta, seed=seed)
    yield Run(OURS, made.unit_rows(), time.process_time() - started)
    binned = Binned.of(schema, given.bins)
    job = {"epsilon": given.epsilon, "delta": delta, "bins": binned.sizes(), "round": seed}
    job |= {"model_mb": given.model_mb, "order": order, "replacing": given.replacing}
    for method in asked_peers(given) if delta else ():
        peer = next(peer for peer in PEERS if method in peer.methods)
        ending, rows = run_peer(peer, method, numbers=binned.codes(real).T, job=job, given=given)
        points = None if rows is None else binned.points(rows.T, rng)
        name = f"{method}, replacing" if given.replacing else method
        name = name if given.bins == ratios.BINS else f"{name}, {given.bins} bins"
        yield Run(name, points, ending.seconds, ending.memory_mb, ending.status)
    yield Run(BOOTSTRAP, real[rng.integers(0, len(real), len(real))])


def parser(description: str | None, *, rounds: int, delta: Sequence[float]) -> argparse.ArgumentParser:
    """Return a command line with the choices that these runs have; --peers without names is OpenDP's MST and AIM."""
    made = ratios.parser(description, rounds=rounds)
    made.set_defaults(delta=list(delta), peers=None)
    return made


def asked_peers(given: argparse.Namespace) -> Sequence[str]:
    """Return the methods to run beside ours."""
    return () if given.peers is None else given.peers or OPENDP


def there(folder: str | None, names: Sequence[str]) -> tuple[Path, list[str]]:
    """Return the folder of the data and the tables that are in it; say which are not."""
    found = data_folder(folder)
    for name in names:
        if not (found / f"{name}.csv.gz").is_file():
            print(f"skipped: {name} is not in {found} (--data or SMOOTHSYNTH_DATA names another folder)")
    return found, [name for name in names if (found / f"{name}.csv.gz").is_file()]


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of what is there, or None."""
    found = [value for value in values if value is not None]
    return float(np.mean(found)) if found else None


def shown(value: float | None, form: str) -> str:
    """Return a figure in words, or nothing."""
    return "" if value is None else format(value, form)
