"""The package as one file that can be sent to the machines of a cluster."""

from __future__ import annotations

import tempfile
import zipfile
from functools import cache
from hashlib import sha256
from pathlib import Path

import smoothsynth

# Kept until this process ends: a machine that joins late still asks for the file.
_folders: list[tempfile.TemporaryDirectory[str]] = []


@cache
def packed_package() -> Path:
    """Write the sources of this package into a zip file; its name changes with its contents."""
    root = Path(smoothsynth.__file__).parent
    sources = [(path.relative_to(root.parent).as_posix(), path.read_bytes()) for path in sorted(root.rglob("*.py"))]
    digest = sha256(b"\0".join(part for name, text in sources for part in (name.encode(), text)))
    _folders.append(tempfile.TemporaryDirectory(prefix="smoothsynth-"))
    target = Path(_folders[-1].name) / f"smoothsynth-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sources:
            archive.writestr(name, text)
    return target
