"""A messy table, as tables of hospitals are: what `check` must name and what a draft must know."""

import csv

import numpy as np
import pytest

LEVELS = ["female", "male", "diverse"]
MEAN_HEIGHT = 170.0


def messy_rows(rows=1500, seed=3):
    """Return the names and the rows, all cells as text."""
    rng = np.random.default_rng(seed)
    first, last = [[f"{w}{i}" for i in range(40)] for w in ("Name", "Family")]
    columns = {
        "patient_id": [f"P{i:06d}" for i in range(rows)],
        "name": [f"{rng.choice(first)} {rng.choice(last)}" for _ in range(rows)],
        "admitted": [_day(rng) for _ in range(rows)],
        "height": [f"{x:.1f}".replace(".", ",") for x in rng.normal(MEAN_HEIGHT, 9, rows)],
        "age": np.where(rng.random(rows) < 0.03, 999, rng.integers(18, 95, rows)).astype(str),
        "sex": _with(rng, rng.choice(LEVELS, rows, p=[0.5, 0.48, 0.02]), 0.02, ["femal", "Male", " malle"]),
        "smoker": rng.choice(["yes", "no", "Y", "N"], rows),
        "cost": [
            f"{x:,.2f} €".replace(",", "_").replace(".", ",").replace("_", ".") for x in np.exp(rng.normal(7, 1, rows))
        ],
        "weight": _with(rng, [f"{x:.1f}" for x in rng.normal(75, 12, rows)], 0.1, ["NA", "-", ""]),
        "country": ["DE"] * rows,
        "diagnosis": [f"D{i:03d}" for i in rng.integers(0, 500, rows)],
        "lat": [f"{x:.5f}" for x in rng.normal(52.5, 0.1, rows)],
        "lon": [f"{x:.5f}" for x in rng.normal(13.4, 0.1, rows)],
        "visits": np.where(rng.random(rows) < 0.4, 0, rng.poisson(20, rows)).astype(str),
        "score": rng.integers(0, 11, rows).astype(str),
    }
    return list(columns), list(zip(*columns.values(), strict=True))


def _write(path, rows=1500, seed=3, delimiter=",", encoding="utf-8"):
    """Write the table as a CSV file."""
    names, cells = messy_rows(rows, seed)
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, lineterminator="\n", delimiter=delimiter)
        writer.writerow(names)
        writer.writerows(cells)
    return path


def _day(rng):
    year, month, day = rng.integers(2015, 2024), rng.integers(1, 13), rng.integers(1, 29)
    return f"{day:02d}.{month:02d}.{year}" if rng.random() < 0.7 else f"{year}-{month:02d}-{day:02d}"


def _with(rng, cells, share, others):
    return [str(rng.choice(others)) if rng.random() < share else str(cell) for cell in cells]


@pytest.fixture(scope="session")
def write_messy():
    """Give what writes the messy table to a path."""
    return _write
