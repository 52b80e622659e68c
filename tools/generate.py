"""Writes python/contract from proto/: messages, gRPC stubs, their types, and an image that keeps the comments.

Not a build step: the result is checked in, and `--check` fails when it is not what proto/ gives.
"""

from __future__ import annotations

import argparse
import filecmp
import importlib.resources
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
TARGET = ROOT / "python" / "contract" / "taskyard"
IMAGE = "taskyard/v1/contract.binpb"
"""Our files as one FileDescriptorSet with source info: generated code drops the comments, which documents show."""
PACKAGE_DOCS = {
    "": '"""The Taskyard contract. Generated from proto/ by `make proto`; do not edit."""\n',
    "v1": '"""Messages and services of taskyard.v1. Generated from proto/ by `make proto`; do not edit."""\n',
}


def our_protos() -> list[str]:
    """Returns the contract's files relative to proto/, sorted: the output must not depend on the disk."""
    return sorted(path.relative_to(PROTO).as_posix() for path in PROTO.glob("taskyard/**/*.proto"))


def include_paths() -> list[Path]:
    """Returns where protoc looks: our own files, protobuf's own, google/api from its wheel."""
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    return [PROTO, Path(str(well_known)), Path(sysconfig.get_path("purelib"))]


def generate(destination: Path) -> None:
    """Writes the whole package `taskyard` into the folder `destination`.

    Raises:
        SystemExit: protoc refused a file; it has said why on stderr.
    """
    (destination / IMAGE).parent.mkdir(parents=True, exist_ok=True)
    kinds = {"python": "", "grpc_python": "", "mypy": "quiet:", "mypy_grpc": "quiet:"}
    outputs = [f"--{kind}_out={option}{destination}" for kind, option in kinds.items()]
    outputs += ["--include_source_info", f"--descriptor_set_out={destination / IMAGE}"]
    includes = [f"-I{path}" for path in include_paths()]
    # protoc finds plugins by PATH, and this interpreter may have been started without its environment's.
    scripts = sysconfig.get_path("scripts")
    plugins = [f"--plugin=protoc-gen-{name}={scripts}/protoc-gen-{name}" for name in ("mypy", "mypy_grpc")]
    command = [sys.executable, "-m", "grpc_tools.protoc", *includes, *plugins, *outputs, *our_protos()]
    done = subprocess.run(command, check=False)
    if done.returncode:
        raise SystemExit(f"protoc failed on proto/ (exit code {done.returncode})")
    package = destination / "taskyard"
    for folder, text in PACKAGE_DOCS.items():
        (package / folder).mkdir(parents=True, exist_ok=True)
        (package / folder / "__init__.py").write_text(text, encoding="utf-8")
    (package / "py.typed").touch()


def contents(package: Path) -> dict[str, Path]:
    """Returns the package's files by their name relative to it, leaving out what Python writes itself."""
    return {
        path.relative_to(package).as_posix(): path
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def differences(fresh: Path, current: Path) -> list[str]:
    """Returns the names of files that are missing, left over or different in `current`."""
    wanted, present = contents(fresh), contents(current)
    both = wanted.keys() & present.keys()
    stale = {name for name in both if not filecmp.cmp(wanted[name], present[name], shallow=False)}
    return sorted(stale | (wanted.keys() ^ present.keys()))


def main() -> int:
    """Regenerates, or with --check only compares; returns the exit code."""
    parser = argparse.ArgumentParser(description="Generate python/contract from proto/.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the code is stale")
    arguments = parser.parse_args()
    if not our_protos():
        raise SystemExit("no .proto file below proto/taskyard: nothing to generate from")
    with tempfile.TemporaryDirectory(prefix="taskyard-generate-") as scratch:
        generate(Path(scratch))
        fresh = Path(scratch) / "taskyard"
        changed = differences(fresh, TARGET)
        if arguments.check:
            for name in changed:
                print(f"stale: python/contract/taskyard/{name}")
            return 1 if changed else 0
        for name in changed:
            source, target = fresh / name, TARGET / name
            if not source.exists():
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            print(f"wrote {target.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
