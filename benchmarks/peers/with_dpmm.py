"""dpmm (MST, PrivBayes and AIM): runs in dpmm's own environment, on a table of bin numbers.

dpmm's own discretisation (PrivTree, with a part of epsilon) is off: the bins are public, so the whole budget is for
the marginals, as for the other peers. Its pipeline gives AIM no limit of size unless one is named, so one is.
"""

import json
import sys
import time
from pathlib import Path

import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline

PIPELINES = {"dpmm-mst": MSTPipeline, "dpmm-privbayes": PrivBayesPipeline, "dpmm-aim": AIMPipeline}


def synthesize(table: pd.DataFrame, pipeline, *, bins: list[int], seed: int) -> pd.DataFrame:
    """Return as many rows of bin numbers as the table has."""
    pipeline.fit(table, domain=dict(zip(table.columns, bins, strict=True)), random_state=seed)
    return pipeline.generate(n_records=len(table), random_state=seed)[table.columns]


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    table = pd.read_csv(job["table"])
    size = job["model_mb"] if job["method"] == "dpmm-aim" else None
    pipeline = PIPELINES[job["method"]](
        epsilon=job["epsilon"], delta=job["delta"], n_jobs=1, disable_processing=True, max_model_size=size
    )
    bins = job["bins"] if isinstance(job["bins"], list) else [job["bins"]] * len(table.columns)
    started, clock = time.process_time(), time.perf_counter()
    rows = synthesize(table, pipeline, bins=bins, seed=job["round"])
    took = {"seconds": time.process_time() - started, "wall": time.perf_counter() - clock}
    rows.astype(int).to_csv(job["output"], index=False)
    Path(job["report"]).write_text(json.dumps(took), encoding="utf-8")
