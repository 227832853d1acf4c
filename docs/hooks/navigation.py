"""Let the navigation name pages by pattern: proofs/*.md is every page of that folder that is not named elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Replace each pattern in the navigation by the pages it stands for."""
    folder = Path(config["docs_dir"])
    config["nav"] = expand(config["nav"], folder, named=set(leaves(config["nav"])))
    return config


def leaves(entry: Any) -> list[str]:
    """Return the pages and patterns of a navigation, in order."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [leaf for part in parts for leaf in leaves(part)]


def expand(entry: Any, folder: Path, *, named: set[str]) -> Any:
    """Return a navigation in which every pattern is replaced by the pages that match it and have no place of their own."""
    if isinstance(entry, dict):
        return {title: expand(part, folder, named=named) for title, part in entry.items()}
    if isinstance(entry, str):
        return entry
    found: list[Any] = []
    for part in entry:
        if isinstance(part, str) and "*" in part:
            pages = sorted(path.relative_to(folder).as_posix() for path in folder.glob(part))
            found += [page for page in pages if page not in named]
        else:
            found.append(expand(part, folder, named=named))
    return found
