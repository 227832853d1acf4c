import numpy as np
import pytest
from hypothesis import settings

import smoothsynth as ss

# A slow machine is not a failure.
settings.register_profile("smoothsynth", deadline=None)
settings.load_profile("smoothsynth")


@pytest.fixture
def schema():
    return ss.Schema({"age": ss.Number(0, 120), "income": ss.Number(0, 1e6), "visits": ss.Integer(0, 20)})


@pytest.fixture
def frame():
    import pandas as pd

    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 15, 400),
            "income": rng.lognormal(11, 0.6, 400),
            "visits": rng.poisson(3, 400),
        }
    )


@pytest.fixture
def csv_file(frame, tmp_path):
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def schema_file(schema, tmp_path):
    path = tmp_path / "schema.toml"
    schema.save(path)
    return path
