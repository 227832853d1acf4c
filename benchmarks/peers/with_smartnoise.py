"""SmartNoise (MST and AIM): runs in SmartNoise's own environment, on a table of bin numbers.

The bins are declared with SmartNoise's own BinTransformer and public bounds, so no budget is spent on preprocessing.
Rows are drawn by rounding.py.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from mbi import MarkovRandomField
from snsynth import Synthesizer, TableTransformer
from snsynth.transform import BinTransformer

# Last, so that nothing of this folder can stand before the peer's own packages.
sys.path.append(str(Path(__file__).parent))
from rounding import draw


def synthesize(table: pd.DataFrame, synthesizer, *, bins: list[int]) -> pd.DataFrame:
    """Return as many rows of bin numbers as the table has."""
    # Bins are decoded to their middle: bin k of these bounds is (k - 1/2, k + 1/2), so the middle is its number.
    transformers = [BinTransformer(bins=count, lower=-0.5, upper=count - 0.5) for count in bins]
    synthesizer.fit(table, transformer=TableTransformer(transformers), preprocessor_eps=0.0)
    rows = pd.DataFrame(synthesizer.sample(len(table)))
    return rows.set_axis(table.columns, axis=1).round().astype(int)


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    np.random.seed(job["round"])
    if not job.get("shipped"):
        MarkovRandomField.synthetic_data = draw
    table = pd.read_csv(job["table"]).astype(float)
    name = job["method"].removeprefix("smartnoise-")
    size = {"max_model_size": job["model_mb"]} if name == "aim" else {}
    synthesizer = Synthesizer.create(name, epsilon=job["epsilon"], delta=job["delta"], **size)
    started, clock = time.process_time(), time.perf_counter()
    bins = job["bins"] if isinstance(job["bins"], list) else [job["bins"]] * table.shape[1]
    rows = synthesize(table, synthesizer, bins=bins)
    took = {"seconds": time.process_time() - started, "wall": time.perf_counter() - clock}
    rows.to_csv(job["output"], index=False)
    Path(job["report"]).write_text(json.dumps(took), encoding="utf-8")
