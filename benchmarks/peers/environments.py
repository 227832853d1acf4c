"""The peers: what each one installs, in an environment of its own, and which methods it has."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Peer:
    """One package: its pinned requirements, the script that drives it, its methods in the order they are run."""

    name: str
    requirements: tuple[str, ...]
    script: str
    methods: tuple[str, ...]


class InstallError(RuntimeError):
    """A peer could not be installed; the message is one line."""


# All four accept Python 3.11 and no other version does: mbi 2 needs 3.11 or later, dpmm 3.10 or 3.11.
PYTHON = "python3.11"
INSTALL_SECONDS = 1500
PEERS = (
    Peer("mbi", ("mbi==2.0.0", "pandas==3.1.1"), "with_mbi.py", ("mbi-independent",)),
    Peer("dpmm", ("dpmm==0.1.9",), "with_dpmm.py", ("dpmm-mst", "dpmm-privbayes", "dpmm-aim")),
    Peer("opendp", ("opendp[mbi]==0.16.0", "pandas==3.1.1"), "with_opendp.py", ("opendp-mst", "opendp-aim")),
    Peer(
        "smartnoise",
        ("torch==2.13.0+cpu", "smartnoise-synth==1.0.8", "mbi==1.1.0"),
        "with_smartnoise.py",
        ("smartnoise-mst", "smartnoise-aim"),
    ),
)


def python_of(peer: Peer, cache: Path, *, python: str) -> Path:
    """Return the interpreter of a peer's environment, making and filling the environment if it is not there."""
    folder = cache / peer.name
    interpreter, done = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(peer.requirements)
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return interpreter
    if shutil.which(python) is None:
        raise InstallError(f"{python} is not on the path (--python names another)")
    try:
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True, capture_output=True)
        pip = [str(interpreter), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *peer.requirements], check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise InstallError(f"pip did not finish in {INSTALL_SECONDS} s") from None
    except subprocess.CalledProcessError as error:
        lines = [line for line in (error.stderr or "").splitlines() if line.startswith("ERROR")]
        raise InstallError((lines or ["pip failed"])[-1][:160]) from None
    done.write_text(wanted, encoding="utf-8")
    return interpreter
