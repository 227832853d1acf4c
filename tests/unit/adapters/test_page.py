"""The examples of docs/adapters.md run, in order, each with its library where that is installed."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

PAGE = Path(__file__).parents[3] / "docs" / "adapters.md"
SECTIONS = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
NEEDED = {
    "scikit-learn": "sklearn",
    "SmartNoise": "snsynth",
    "dpsynth": "yaml",
    "SDV": "narwhals",
    "Frames": "narwhals",
}
COLUMNS = {
    "guest_id": {"sdtype": "id"},
    "age": {"sdtype": "numerical"},
    "room": {"sdtype": "categorical"},
    "checkin": {"sdtype": "datetime", "datetime_format": "%d/%m/%Y"},
}


def blocks(section):
    return re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@pytest.fixture
def names(tmp_path, monkeypatch):
    import smoothsynth as ss

    monkeypatch.chdir(tmp_path)
    Path("metadata.json").write_text(json.dumps({"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": COLUMNS}))
    Path("domain.yaml").write_text("age: {min_value: 0, max_value: 120}\ncity: {}\nnote: {max_tokens: 50}\n")
    rng, n = np.random.default_rng(4), 300
    frame = pd.DataFrame(
        {
            "guest_id": np.arange(n),
            "age": rng.normal(50, 15, n),
            "sex": rng.choice(["f", "m"], n),
            "room": rng.choice(["basic", "suite"], n),
            "checkin": rng.choice(["01/02/2020", "24/12/2020"], n),
        }
    )
    schema = ss.Schema({"age": ss.Number(0, 120), "sex": ss.Category(["f", "m"])})
    release = ss.release(frame, schema=schema, epsilon=1.0, seed=1)
    return {"ss": ss, "frame": frame, "schema": schema, "release": release, "table": release.table}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("section", [s for s in SECTIONS if blocks(s)], ids=lambda s: s.split("\n")[0])
def test_the_example_runs(section, names):
    library = NEEDED[section.split("\n")[0]]
    pytest.importorskip(library, reason=f"{library} is not installed")
    for block in blocks(section):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102


def test_all_adapters_have_an_example():
    assert {s.split("\n")[0] for s in SECTIONS if blocks(s)} == set(NEEDED)
