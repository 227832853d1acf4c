"""How far one row can move the sums of weighted features.

All bounds are for tables of the same size that differ in one row (replace-one), for the *sums* over
rows, with features scaled by weights w_r >= 0. The derivations are in docs/proofs/sensitivity.md.
"""

from smoothsynth.sensitivity.bounds import l1_sensitivity, l2_sensitivity, linf_sensitivity
from smoothsynth.sensitivity.marks import Marks
from smoothsynth.sensitivity.short_rows import short_rows_l1, short_rows_l2
from smoothsynth.sensitivity.soft_counts import soft_counts_l1, soft_counts_l2
from smoothsynth.sensitivity.waves import waves_l1, waves_l2

__all__ = [
    "Marks",
    "l1_sensitivity",
    "l2_sensitivity",
    "linf_sensitivity",
    "short_rows_l1",
    "short_rows_l2",
    "soft_counts_l1",
    "soft_counts_l2",
    "waves_l1",
    "waves_l2",
]
