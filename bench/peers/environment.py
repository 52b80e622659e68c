"""The peers' own virtual environment, made from requirements.lock when it is missing or the lock has changed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from bench.plan import FOLDER

LOCK = Path(__file__).resolve().parent / "requirements.lock"


class PeerFailed(RuntimeError):
    """A peer could not be set up or did not do its work."""


def environment() -> Path:
    """Returns the folder of the environment's programs.

    Raises:
        PeerFailed: It cannot be made; carries what the installer said.
    """
    place = FOLDER / "peers"
    stamp = place / "lock.sha256"
    wanted = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        _make(place)
        stamp.write_text(wanted, encoding="utf-8")
    return place / "bin"


def _make(place: Path) -> None:
    python = str(place / "bin" / "python")
    if shutil.which("uv"):
        _run("uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(place))
        _run("uv", "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", str(LOCK))
    else:
        _run(sys.executable, "-m", "venv", "--clear", str(place))
        _run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(LOCK))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerFailed(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
