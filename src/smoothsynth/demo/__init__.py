"""The built-in tables: made-up hospital stays (`stays.py`), and the paper's WDBC.

Breast Cancer Wisconsin (Diagnostic), 569 rows of 30 measurements:

W. Wolberg, O. Mangasarian, N. Street and W. Street (1993), UCI Machine Learning Repository,
doi:10.24432/C5DW2B, licensed CC BY 4.0. The diagnosis label is left out and columns are renamed.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
DATA = FOLDER / "wdbc.csv.gz"
SCHEMA = FOLDER / "wdbc.toml"
