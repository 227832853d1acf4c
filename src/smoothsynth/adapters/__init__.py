"""The tools people already use: scikit-learn, SDV, SmartNoise, dpsynth, and frames of any library (docs/adapters.md).

One file for each; its library is imported only there, and only when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["dpsynth", "frames", "scikit_learn", "sdv", "smartnoise"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"There is no adapter {name!r}; there are {', '.join(__all__)}.")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return __all__
