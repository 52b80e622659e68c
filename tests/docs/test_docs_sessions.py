"""What pages tell a reader to do is done here, in order, with what they say that it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import ROOT, missing
from docs.session import Session, Unlike


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("docs/tutorial.md", 29),
        ("README.md", 2),
        ("docs/production.md", 3),
        ("docs/client.md", 16),
        ("docs/http.md", 15),
        ("docs/artifacts.md", 6),
        ("docs/operations.md", 11),
        ("docs/top.md", 3),
        ("docs/worker.md", 9),
        ("docs/task-types.md", 9),
        ("docs/write-a-worker.md", 3),
        ("docs/workflows-from-elsewhere.md", 5),
    ],
)
async def test_a_page_does_what_it_says(page: str, least: int, tmp_path: Path) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    session = Session(folder)
    async with session.opened():
        assert await session.follow(ROOT / page) >= least


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("```sh run\necho one\n```\n\n```text expect\ntwo\n```\n", "`two` was not printed"),
        ("```sh run\nfalse\n```\n", "ended with 1 and not 0"),
        ("```sh run exit=3\ntrue\n```\n", "ended with 0 and not 3"),
        ("```sh run\necho error: bad\n```\n", "error: bad"),
        ("```python run\nprint(1)\n```\n\n```text expect\n2\n```\n", "`2` was not printed"),
        ("```python run\na = 1\n```\n\n```python run\nawait a\n```\n", "ended TypeError"),
        ("```python run raises=ValueError\n1\n```\n", "ended well"),
    ],
)
async def test_a_page_that_says_otherwise_is_found(block: str, complaint: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(block)
    session = Session(tmp_path)
    async with session.opened():
        with pytest.raises(Unlike, match=complaint):
            await session.follow(page)


@pytest.mark.parametrize(
    ("expected", "line"),
    [("a … c\nd", ""), ("d\na", "a"), ("a … d", "a … d"), ("a b c", ""), ("", "")],
)
def test_expected_lines_come_in_order(expected: str, line: str) -> None:
    assert missing(expected, "a b c\nd\n") == line
