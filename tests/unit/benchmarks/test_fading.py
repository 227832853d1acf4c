"""benchmarks/accuracy/fading.py: kernels that see dependence, slopes of known powers, and a figure from the results file."""

import numpy as np
import pytest
from benchmarks.accuracy import fading
from benchmarks.accuracy.runs import BOOTSTRAP, OURS
from benchmarks.figures.fading import drawn


@pytest.mark.parametrize(("name", "columns"), [("clusters", 2), ("product", 3), ("shell", 3)])
def test_kernels_see_dependence_that_scrambled_columns_have_lost(name, columns):
    rng = np.random.default_rng(0)
    real = fading.TABLES[name](4_000, rng)
    judge = fading.Kernels(real, columns=columns, questions=40, rng=rng)
    assert judge(real[::-1]) == pytest.approx(0.0, abs=1e-9)
    alone = np.column_stack([rng.permutation(column) for column in real.T])
    assert judge(alone) > 2.0 * judge(fading.TABLES[name](4_000, rng))


def test_a_kernel_is_half_a_standard_deviation_wide():
    real = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    judge = fading.Kernels(real, columns=2, questions=1, rng=np.random.default_rng(0))
    # The spread of both columns is 1/2: a row at distance 1 is four widths away, one at distance 0 counts fully.
    near, far = 1.0, np.exp(-(4.0**2) / 2.0)
    true = (near + 2 * far + far**2) / 4.0
    assert judge(np.full((3, 2), 50.0)) == pytest.approx(1.0)
    assert judge._true[0] == pytest.approx(true)


def test_slopes_are_those_of_powers():
    assert fading.slope({n: 3.0 * n**-0.5 for n in (10, 100, 1000)}) == pytest.approx(-0.5)
    assert fading.slope({10: 0.2, 100: 0.2}) == pytest.approx(0.0, abs=1e-12)
    assert fading.slope({10: 0.2}) is None


def test_the_command_keeps_results_from_which_the_figure_is_drawn(tmp_path, capsys):
    path = tmp_path / "fading.csv"
    asked = ["--only", "shell", "--rounds", "1", "--questions", "10", "--output", str(path), "--quick"]
    for _ in range(2):
        fading.main([*asked, "--rows", "300", "600", "1000000"])
    shown = capsys.readouterr().out
    assert "smoothsynth" in shown
    assert "1,000,000" not in shown
    found = fading.read(path)
    assert [(line["rows"], line["method"]) for line in found] == [(n, m) for n in (300, 600) for m in (OURS, BOOTSTRAP)]
    figure = drawn(found)
    assert figure.count("<polyline") == 4
    assert f"{fading.slope(fading.curve(found, 'shell', OURS, 'triples')):.2f}" in figure
