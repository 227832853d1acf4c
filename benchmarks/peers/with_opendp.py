"""OpenDP's dp.mbi (MST and AIM): runs in OpenDP's own environment, on a table of bin numbers.

The bins are given as public cut points, so delta pays only for the conversion: the budget is spent as rho-zCDP, the
largest rho that OpenDP's own conversion says is within (epsilon, delta).
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")


def rho_within(epsilon: float, delta: float) -> float:
    """Return the zCDP budget of the Gaussian mechanism that is just within (epsilon, delta)."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def make(scale):
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale)), delta)

    scale = dp.binary_search_param(make, d_in=1.0, d_out=(epsilon, delta))
    return dp.m.make_gaussian(*space, scale).map(1.0)


def synthesize(table: pl.DataFrame, algorithm, *, bins: int, rho: float) -> pl.DataFrame:
    """Return as many rows of bin numbers as the table has."""
    context = dp.Context.compositor(
        data=table.lazy().cast(pl.Float64),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    # Values are whole numbers and decoding is uniform between cuts: halves make bin k the interval (k - 1/2, k + 1/2].
    cuts = [k + 0.5 for k in range(bins - 1)]
    query = context.query(rho=rho).contingency_table(cuts=dict.fromkeys(table.columns, cuts), algorithm=algorithm)
    rows = query.release().synthesize(rows=len(table))
    return rows.select(pl.all().round().clip(0, bins - 1).cast(pl.Int64))


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    np.random.seed(job["round"])
    # Pairs, the default of the other two AIMs; every triple of 32 bins would hold 42 GB of counts for 100 columns.
    algorithm = {"opendp-mst": dp.mbi.MST(), "opendp-aim": dp.mbi.AIM(queries=2)}[job["method"]]
    table = pl.read_csv(job["table"])
    started = time.process_time()
    rows = synthesize(table, algorithm, bins=job["bins"], rho=rho_within(job["epsilon"], job["delta"]))
    seconds = time.process_time() - started
    rows.select(table.columns).write_csv(job["output"])
    Path(job["report"]).write_text(json.dumps({"seconds": seconds}), encoding="utf-8")
