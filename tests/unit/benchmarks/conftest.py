import sys
from pathlib import Path

# The benchmarks are not installed: they are found from the root of the repository, however pytest is started.
ROOT = str(Path(__file__).parents[3])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
