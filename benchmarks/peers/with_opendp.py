"""OpenDP's dp.mbi (MST and AIM): runs in OpenDP's own environment, on a table of bin numbers.

The bins are given as public cut points, so delta pays only for the conversion: the budget is spent as rho-zCDP, the
largest rho that OpenDP's own conversion says is within (epsilon, delta). Rows are drawn by rounding.py.
"""

import json
import sys
import time
from math import inf, nextafter
from pathlib import Path

import jax
import numpy as np
import opendp.prelude as dp
import polars as pl
from mbi import MarkovRandomField
from opendp.extras.mbi import _mst

# Last, so that nothing of this folder can stand before the peer's own packages.
sys.path.append(str(Path(__file__).parent))
from rounding import draw

dp.enable_features("contrib")


def rho_within(epsilon: float, delta: float) -> float:
    """Return the zCDP budget of the Gaussian mechanism that is just within (epsilon, delta)."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def make(scale):
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale)), delta)

    scale = dp.binary_search_param(make, d_in=1.0, d_out=(epsilon, delta))
    return dp.m.make_gaussian(*space, scale).map(1.0)


def with_room() -> None:
    """Let OpenDP 0.16's MST pay for its own selections, which it can else refuse with "insufficient budget".

    It gives each selection an equal share of what selections may spend, the next smaller float of it. The shares' sum is
    rounded up after each addition and passes the whole by a few units of the last digit, for most tables of 9, 17, 25, ...
    columns whatever the budget is. The refusal comes after half of the budget is spent. Here a share, and what the shares are
    shares of, is smaller by a part in 10^12 each; OpenDP's compositors check the sum as before.
    """
    _mst.prior = lambda x: nextafter(x * (1 - 1e-12), -inf)


def compile_once(folder: Path) -> None:
    """Let jax keep what it compiles in a folder: MST and AIM ask for the same small programs many times, by other names."""
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def synthesize(table: pl.DataFrame, algorithm, *, bins: list[int], rho: float) -> pl.DataFrame:
    """Return as many rows of bin numbers as the table has."""
    context = dp.Context.compositor(
        data=table.lazy().cast(pl.Float64),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    # Values are whole numbers and decoding is uniform between cuts: halves make bin k the interval (k - 1/2, k + 1/2].
    cuts = {name: [k + 0.5 for k in range(n - 1)] for name, n in zip(table.columns, bins, strict=True)}
    rows = (
        context.query(rho=rho).contingency_table(cuts=cuts, algorithm=algorithm).release().synthesize(rows=len(table))
    )
    clipped = [pl.col(name).round().clip(0, n - 1).cast(pl.Int64) for name, n in zip(table.columns, bins, strict=True)]
    return rows.select(clipped)


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    np.random.seed(job["round"])
    if not job.get("shipped"):
        MarkovRandomField.synthetic_data = draw
    table = pl.read_csv(job["table"])
    # The folder of this run alone: every run begins without programs.
    compile_once(Path(job["report"]).with_name("compiled"))
    started, clock = time.process_time(), time.perf_counter()
    rho = rho_within(job["epsilon"], job["delta"])
    if job.get("replacing"):
        # Replacing a row moves two cells of a table by 1, adding one moves one: Gaussian noise costs twice the rho.
        rho /= 2
    if job["method"] == "opendp-mst":
        with_room()
        algorithm = dp.mbi.MST()
    else:
        # Pairs, the default of the other two AIMs; every triple of 32 bins would hold 42 GB of counts for 100 columns.
        algorithm = dp.mbi.AIM(queries=job.get("order", 2), max_size=job["model_mb"])
    bins = job["bins"] if isinstance(job["bins"], list) else [job["bins"]] * len(table.columns)
    rows = synthesize(table, algorithm, bins=bins, rho=rho)
    took = {"seconds": time.process_time() - started, "wall": time.perf_counter() - clock}
    rows.select(table.columns).write_csv(job["output"])
    Path(job["report"]).write_text(json.dumps(took), encoding="utf-8")
