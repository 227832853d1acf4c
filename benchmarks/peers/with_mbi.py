"""mbi on its own, on a table of bin numbers: independent columns.

The wheel of mbi has the inference, not the mechanisms (MST and AIM are scripts of its repository). So this is what mbi
makes of the simplest measurement: the histogram of every column with Gaussian noise. One row more or less changes d
cells by one, so the noise is sigma = multiplier * sqrt(d), with the multiplier of the job.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from mbi import Domain, LinearMeasurement, estimation


def synthesize(table: pd.DataFrame, *, bins: int, multiplier: float, seed: int) -> pd.DataFrame:
    """Return as many rows of bin numbers as the table has, its columns independent."""
    rng = np.random.default_rng(seed)
    names = list(table.columns)
    sigma = multiplier * np.sqrt(len(names))
    measured = []
    for name in names:
        counts = np.bincount(table[name], minlength=bins)
        measured.append(LinearMeasurement(counts + rng.normal(0, sigma, bins), (name,), stddev=sigma))
    domain = Domain(names, [bins] * len(names))
    model = estimation.MirrorDescent().estimate(domain, measured, known_total=len(table))
    return pd.DataFrame(model.synthetic_data(rows=len(table)).to_dict())[names]


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    np.random.seed(job["round"])
    table = pd.read_csv(job["table"])
    started, clock = time.process_time(), time.perf_counter()
    rows = synthesize(table, bins=job["bins"], multiplier=job["multiplier"], seed=job["round"])
    took = {"seconds": time.process_time() - started, "wall": time.perf_counter() - clock}
    rows.to_csv(job["output"], index=False)
    Path(job["report"]).write_text(json.dumps(took), encoding="utf-8")
