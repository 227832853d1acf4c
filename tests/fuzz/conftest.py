import sys
from pathlib import Path

import pytest

# The benchmarks are not installed: they are found from the root of the repository, however pytest is started.
ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)


@pytest.fixture(scope="session")
def releases(tmp_path_factory):
    from benchmarks.robustness.fuzz import make_releases

    return make_releases(tmp_path_factory.mktemp("whole"))
