"""Try an installed package: its version, its first page of help, the demo, a release, a verification, an answer.

python tests/package/smoke.py 0.1.0        run by the interpreter that has the package, anywhere but in the source tree
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Run all steps in an empty folder; stop with an error at the first that fails."""
    import smoothsynth as ss

    expected, here = sys.argv[1], Path(ss.__file__).resolve()
    assert ss.__version__ == expected, f"the package says {ss.__version__}, the project {expected}"
    assert "site-packages" in here.parts, f"{here} is not the installed package"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        command = Path(sys.executable).with_name("smoothsynth")
        for words in (["--help"], ["demo", "--quiet", "--output", "demo"], ["verify", "demo"]):
            subprocess.run([command, *words], check=True, cwd=place, stdout=subprocess.DEVNULL)
        _release(ss, place)
    print(f"smoothsynth {expected} works on Python {sys.version.split()[0]}.")


def _release(ss, place: Path) -> None:
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(0)
    table = pa.table({"age": rng.normal(50, 10, 500), "sex": rng.choice(["f", "m"], 500)})
    schema = ss.Schema({"age": ss.Number(0, 120), "sex": ss.Category(["f", "m"])})
    folder = ss.release(table, schema=schema, epsilon=1.0, delta=1e-6, seed=7).write(place / "out")
    assert ss.verify(folder).passed
    answer = ss.load(folder).answer("avg(age)")
    assert answer.low <= answer.value <= answer.high


if __name__ == "__main__":
    main()
