"""The public data sets of the paper, read from a folder that is not part of the project."""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.schema import Number, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAMES = ("wdbc", "ctg", "pks", "crm", "pam", "pam_sub_dsads")
LABELS = {
    "pam": "PAM (5,934 of the paper's 20,000 rows)",
    "pam_sub_dsads": "DSADS (stand-in for PAM, 20,000 x 40)",
}


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """A public table, its public bounds as a schema, and its rows as points of the cube."""

    name: str
    path: Path
    schema: Schema
    points: NDArray[np.float64]

    @property
    def label(self) -> str:
        """How the data set is called in tables."""
        return LABELS.get(self.name, self.name.upper())


def data_folder(given: str | None = None) -> Path:
    """Return the folder with the data sets: the argument, SMOOTHSYNTH_DATA, or ../shared/data."""
    return Path(given or os.environ.get("SMOOTHSYNTH_DATA") or "../shared/data")


def read(name: str, folder: Path) -> DataSet:
    """Read one data set, with its public bounds (not its own range)."""
    with (folder / f"{name}.bounds.csv").open(encoding="utf-8") as file:
        bounds = {row["name"]: (float(row["lower"]), float(row["upper"])) for row in csv.DictReader(file)}
    schema = Schema({column: Number(lower, upper) for column, (lower, upper) in bounds.items()})
    path = folder / f"{name}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        header = next(csv.reader(file))
        values = np.loadtxt(file, delimiter=",", ndmin=2)
    points = schema.to_unit({column: values[:, header.index(column)] for column in schema.names})
    return DataSet(name, path, schema, points)


def available(folder: Path, names: tuple[str, ...] = NAMES) -> tuple[list[DataSet], list[str]]:
    """Read the data sets that are there; return the names of the others too."""
    there = [name for name in names if (folder / f"{name}.csv.gz").is_file()]
    return [read(name, folder) for name in there], [name for name in names if name not in there]
