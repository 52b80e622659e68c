"""Makes the character tables of the text operations; copies them and the word lists into the Python worker.

The tables pin one Unicode version, because runtimes differ in theirs. The classes are defined in
docs/text-operations.md; this is the only code that asks a runtime about Unicode properties.
"""

from __future__ import annotations

import argparse
import json
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "tests" / "conformance" / "text"
PACKAGED = ROOT / "workers" / "python" / "taskyard_worker" / "text" / "data"
UNICODE = "14.0.0"
CLASSES = "character-classes.json"
WORDS = "words.json"

# Classes that are plain lists of code points. They come first: a code point has the first that takes it.
LISTED: dict[str, str] = {
    "line_end": "\n\x85\u2028\u2029",
    "carriage_return": "\r",
    "zero_width_space": "\u200b",
    "full_stop": ".\uff0e",
    "comma": ",",
    "low_line": "_\uff3f",
    "apostrophe": "'\u2019\uff07",
    "ellipsis": "\u2026\u22ef",
    "terminator": "!?\u0589\u061f\u06d4\u0964\u0965\u1362\u203c\u203d\u2047\u2048\u2049",
    "wide_terminator": "\u3002\uff01\uff1f\uff61\ufe12\ufe15\ufe16\ufe52\ufe56\ufe57",
}
INVISIBLE_RANGES = (
    (0x00AD, 0x00AD),
    (0x061C, 0x061C),
    (0x180E, 0x180E),
    (0x200E, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
)
# Variation selectors and emoji skin tones change how the character before them looks, never what it says.
TRANSPARENT_RANGES = (
    (0x180B, 0x180D),
    (0x180F, 0x180F),
    (0xFE00, 0xFE0F),
    (0x1F3FB, 0x1F3FF),
    (0xE0100, 0xE01EF),
)
CATEGORIES = {
    "Cc": "control",
    "Cf": "format",
    "Mc": "mark",
    "Me": "mark",
    "Mn": "mark",
    "Nd": "digit",
    "Pe": "closer",
    "Pf": "closer",
    "Zs": "space",
}
CJK_RANGES = ((0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B))
CJK_NAMES = (
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "HIRAGANA",
    "HENTAIGANA",
    "KATAKANA",
    "HALFWIDTH KATAKANA",
    "BOPOMOFO",
)


def _is_cjk(code: int) -> bool:
    listed = any(first <= code <= last for first, last in CJK_RANGES)
    return listed or unicodedata.name(chr(code), "").startswith(CJK_NAMES)


def _listed() -> dict[int, str]:
    """Returns the code points whose class is a list's, not a property's."""
    listed = {ord(char): name for name, members in LISTED.items() for char in members}
    for name, ranges in (("invisible", INVISIBLE_RANGES), ("format", TRANSPARENT_RANGES)):
        for first, last in ranges:
            listed.update((code, name) for code in range(first, last + 1) if code not in listed)
    return listed | {0x09: "space", 0x0B: "space", 0x0C: "space", 0x22: "closer"}


def _by_category(code: int) -> str | None:
    category = unicodedata.category(chr(code))
    if category[0] == "L" or category == "Nl":
        return "cjk" if _is_cjk(code) else "letter"
    return CATEGORIES.get(category)


def _classes() -> dict[str, list[list[int]]]:
    ranges: dict[str, list[list[int]]] = {}
    listed = _listed()
    for code in range(0x110000):
        name = listed.get(code) or _by_category(code)
        if name is None:
            continue
        runs = ranges.setdefault(name, [])
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return dict(sorted(ranges.items()))


def _lower_pairs() -> Iterator[tuple[int, int]]:
    """Yields the simple lower-case mapping: one code point to one code point."""
    for code in range(0x110000):
        lowered = chr(code).lower()
        # The one letter whose full mapping is longer than one code point: I with dot above.
        target = 0x69 if code == 0x130 else ord(lowered) if len(lowered) == 1 else code
        if target != code:
            yield code, target


def _lower() -> list[list[int]]:
    """Packs the mapping as [first, last, step, delta]."""
    packed: list[list[int]] = []
    for code, target in _lower_pairs():
        delta = target - code
        if packed and packed[-1][3] == delta:
            first, last, step, _ = packed[-1]
            gap = code - last
            if gap <= 2 and (first == last or gap == step):
                packed[-1] = [first, code, gap, delta]
                continue
        packed.append([code, code, 1, delta])
    return packed


def tables() -> str:
    """Returns the text of the table file, as the running Python's Unicode data gives it."""
    parts = [f'  "unicode": "{unicodedata.unidata_version}"', _section("classes", _classes())]
    parts.append('  "lower": [\n' + _rows(_lower(), "    ") + "\n  ]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _section(name: str, classes: dict[str, list[list[int]]]) -> str:
    body = ",\n".join(f'    "{key}": [\n{_rows(rows, "      ")}\n    ]' for key, rows in classes.items())
    return f'  "{name}": {{\n{body}\n  }}'


def _rows(rows: list[list[int]], indent: str) -> str:
    cells = [json.dumps(row, separators=(",", ":")) for row in rows]
    return ",\n".join(indent + ",".join(cells[at : at + 8]) for at in range(0, len(cells), 8))


def stale() -> list[str]:
    """Names each generated file that differs from what would be written now."""
    wanted = {PACKAGED / name: (SOURCE / name).read_text("utf-8") for name in (CLASSES, WORDS)}
    if unicodedata.unidata_version == UNICODE:
        wanted[SOURCE / CLASSES] = tables()
    return [
        str(path.relative_to(ROOT))
        for path, text in wanted.items()
        if not path.exists() or path.read_text("utf-8") != text
    ]


def write() -> None:
    """Writes the table file and the package's copies; another Unicode version is refused."""
    if unicodedata.unidata_version != UNICODE:
        raise SystemExit(
            f"these tables are of Unicode {UNICODE}, this Python has {unicodedata.unidata_version}: "
            "run this with Python 3.11"
        )
    (SOURCE / CLASSES).write_text(tables(), "utf-8", newline="\n")
    for name in (CLASSES, WORDS):
        (PACKAGED / name).write_bytes((SOURCE / name).read_bytes())


def main() -> int:
    """Writes the tables, or with --check says which are not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is not current")
    if not parser.parse_args().check:
        write()
        return 0
    names = stale()
    for name in names:
        sys.stderr.write(f"{name} is not current: run python tools/make_text_tables.py\n")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
