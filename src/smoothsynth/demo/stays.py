"""A made-up table of hospital stays, the same on every machine: numbers, days, categories, missing cells, dependence.

Nobody is in it. Wards depend on age and sex, nights and costs on the ward, costs bend with age, blood pressure follows age
and is missing more often in some wards, and whether a patient comes back depends on three columns together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.schema import Boolean, Category, Date, Integer, Number, Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

ROWS = 20_000
WARDS = ("surgery", "cardiology", "maternity", "paediatrics", "geriatrics", "oncology")
SCHEMA = Schema(
    {
        "age": Number(0, 110, description="Age at admission", unit="years"),
        "sex": Category(["f", "m"], description="Sex as registered"),
        "ward": Category(WARDS, description="Ward of the first night"),
        "admitted": Date("2025-01-01", "2025-12-31", description="Day of admission"),
        "nights": Integer(0, 60, description="Nights stayed; 0 is a day case"),
        "systolic": Integer(70, 230, nullable=True, description="Blood pressure at admission, if taken", unit="mmHg"),
        "creatinine": Number(0.2, 12, transform="log", description="Creatinine in blood", unit="mg/dL"),
        "smoker": Boolean(description="Says that he or she smokes"),
        "cost": Number(100, 100_000, transform="log", description="Cost of the stay", unit="EUR"),
        "returned": Boolean(description="Came back within 30 days"),
    },
    about={
        "title": "Hospital stays (synthetic rows of a made-up table)",
        "description": "A demonstration: the private rows were drawn by a program, so nobody is in them.",
        "licence": "CC0-1.0",
    },
)


def stays(rows: int = ROWS) -> pa.Table:
    """Return the table."""
    import pyarrow as pa

    rng = np.random.default_rng(2025)
    old = rng.random(rows) < 0.6
    age = np.clip(np.where(old, rng.normal(68, 13, rows), rng.gamma(3.0, 10.0, rows)), 0, 109)
    woman = rng.random(rows) < 0.52
    ward = _wards(rng, age, woman)
    smoker = rng.random(rows) < np.where((age > 16) & (age < 75), 0.27, 0.05)
    creatinine = np.exp(rng.normal(-0.25 + 0.18 * ~woman + 0.00008 * age**2, 0.28))
    systolic = rng.normal(104 + 0.45 * age + 6 * smoker, 13)
    stay = np.exp(0.1 + 0.015 * age + 0.6 * (ward == 4) + 0.3 * (ward == 5) + 0.25 * np.log(creatinine))
    nights = np.minimum(rng.poisson(stay * rng.gamma(1.5, 0.67, rows)), 60)
    dear = np.array([7.6, 7.9, 7.2, 6.8, 7.1, 8.2])[ward]
    cost = np.exp(rng.normal(dear + 0.55 * np.log1p(nights), 0.35) + 0.25 * np.sin(age / 18.0))
    returned = rng.random(rows) < _share(
        -3.2 + 0.9 * (nights > 6) + 1.6 * np.log(creatinine) * (age > 60) + 0.5 * smoker
    )
    taken = rng.random(rows) > np.where(ward == 3, 0.4, 0.06)
    day = np.minimum((364 * (0.5 + (rng.beta(0.8, 0.8, rows) - 0.5))).astype(int), 364)
    return pa.table(
        {
            "age": np.round(age, 1),
            "sex": np.where(woman, "f", "m"),
            "ward": np.array(WARDS)[ward],
            "admitted": pa.array((np.datetime64("2025-01-01") + day).astype("datetime64[D]")),
            "nights": nights,
            "systolic": pa.array(np.clip(systolic, 70, 230).astype(int), mask=~taken),
            "creatinine": np.round(np.clip(creatinine, 0.2, 12), 2),
            "smoker": smoker,
            "cost": np.round(np.clip(cost, 100, 100_000), 2),
            "returned": returned,
        }
    )


def _wards(rng: np.random.Generator, age: NDArray[np.float64], woman: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Draw wards: children and mothers have their own, and geriatrics takes over with age."""
    weights = np.stack(
        [
            np.where(age > 16, 3.0, 0.6),
            2.2 * _share((age - 55) / 9),
            4.0 * woman * np.exp(-(((age - 31) / 6) ** 2)),
            6.0 * (age < 17),
            4.0 * _share((age - 79) / 4),
            1.2 * _share((age - 45) / 12),
        ]
    )
    steps = np.cumsum(weights / weights.sum(axis=0), axis=0)
    return np.argmax(rng.random(len(age)) < steps, axis=0)


def _share(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1.0 / (1.0 + np.exp(-odds))
