"""Writes requirements.lock: every third-party package of the workspace with its version and hashes.

Not uv.lock, which records download addresses and stays out of git: this is its export without our members.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEADER = "# Written by `make lock`. `make setup` installs this, then our own packages with --no-deps.\n"
EXPORT = [
    "uv", "export", "--quiet", "--frozen", "--format", "requirements-txt", "--no-emit-workspace",
    "--all-packages", "--all-extras", "--all-groups", "--no-header", "--no-annotate",
]  # fmt: skip


def main() -> int:
    """Resolves anew and exports; returns the exit code."""
    subprocess.run(["uv", "lock", "--quiet", *sys.argv[1:]], cwd=ROOT, check=True)
    exported = subprocess.run(EXPORT, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lines = [line for line in exported.splitlines() if not line.startswith("--")]
    address = next((line for line in lines if "://" in line), None)
    if address is not None:
        raise SystemExit(f"requirements.lock must not hold an address, but uv exported: {address}")
    LOCK.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"wrote {LOCK.name}: {sum(not line.startswith(' ') for line in lines)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
