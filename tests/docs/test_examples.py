"""Every example is followed as its page says, in a copy of its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from docs.pages import ROOT
from docs.session import Session

EXAMPLES = sorted(page.parent for page in (ROOT / "examples").glob("*/README.md"))


def test_the_index_has_every_example() -> None:
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    folders = [each for each in (ROOT / "examples").iterdir() if each.is_dir() and each.name != "__pycache__"]
    assert sorted(folders) == EXAMPLES, "a folder has no page"
    assert [each.name for each in EXAMPLES if f"({each.name}/README.md)" not in index] == []


@pytest.mark.timeout(400)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
async def test_an_example_does_what_it_says(example: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reader"
    shutil.copytree(example, folder)
    session = Session(folder)
    async with session.opened():
        assert await session.follow(folder / "README.md") >= 3
