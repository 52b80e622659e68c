"""Copies the google/ protos that our contract imports from their wheel into build/googleapis, for buf.

Not a copy in the repository: the wheel is the source, and build/ is thrown away.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DESTINATION = ROOT / "build" / "googleapis"
IMPORT = re.compile(r'^import\s+(?:public\s+|weak\s+)?"(google/[^"]+)";', re.MULTILINE)


def imports_of(proto: Path) -> set[str]:
    """Returns the google/ files that `proto` imports; google/protobuf comes with every compiler."""
    found: list[str] = IMPORT.findall(proto.read_text(encoding="utf-8"))
    return {name for name in found if not name.startswith("google/protobuf/")}


def closure(protos: list[Path], wheel: Path) -> set[str]:
    """Returns every google/ file that `protos` need, directly or through another.

    Raises:
        SystemExit: an import is not in the wheel.
    """
    needed: set[str] = set()
    waiting = {name for proto in protos for name in imports_of(proto)}
    while waiting:
        name = waiting.pop()
        if not (wheel / name).exists():
            raise SystemExit(f"{name} is imported, but the googleapis-common-protos wheel does not have it")
        needed.add(name)
        waiting |= imports_of(wheel / name) - needed
    return needed


def main() -> int:
    """Replaces build/googleapis; returns the exit code."""
    wheel = Path(sysconfig.get_path("purelib"))
    names = closure(sorted((ROOT / "proto").glob("taskyard/**/*.proto")), wheel)
    shutil.rmtree(DESTINATION, ignore_errors=True)
    DESTINATION.mkdir(parents=True)
    for name in sorted(names):
        target = DESTINATION / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wheel / name, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
