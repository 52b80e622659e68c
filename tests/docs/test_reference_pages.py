"""The pages that are generated of the contract and of the command are whole and current."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import ROOT, without_blocks
from taskyard_scheduler import filters
from taskyard_service.gateway.openapi.comments import contract_files

CONTRACT, COMMANDS = ROOT / "docs" / "contract.md", ROOT / "docs" / "commands.md"
FILTERS = ROOT / "docs" / "filters.md"


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", text, re.MULTILINE)


@pytest.mark.parametrize("tool", ["make_reference", "make_filters"])
def test_they_are_current(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, f"tools/{tool}.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [CONTRACT, COMMANDS, FILTERS], ids=["contract", "commands", "filters"])
def test_links_within_a_page_lead_to_one_heading(page: Path) -> None:
    text = without_blocks(page)
    found = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings(text)]
    assert len(found) == len(set(found)), "two headings have one anchor"
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= set(found)


def test_every_call_message_and_enum_has_its_section() -> None:
    found = headings(CONTRACT.read_text(encoding="utf-8"))
    for file in contract_files():
        calls = [method.name for service in file.service for method in service.method]
        wanted = [*calls, *(each.name for part in (file.service, file.message_type, file.enum_type) for each in part)]
        assert [name for name in wanted if name not in found] == []


def test_every_command_can_be_found() -> None:
    found = headings(COMMANDS.read_text(encoding="utf-8"))
    assert {
        "taskyard submit",
        "taskyard workflow plan",
        "taskyard runs",
        "taskyard runs retry",
        "taskyard workers drain",
        "taskyard mark success",
        "taskyard pauses",
    } <= {*found}


def test_every_list_that_is_filtered_has_its_fields_on_a_page() -> None:
    _, *sections = re.split(r"^## ", FILTERS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    shown = [re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE) for section in sections]
    known = [list(fields) for name, fields in vars(filters).items() if name.endswith("_FIELDS")]
    assert sorted(shown) == sorted(known)


def test_the_filters_of_the_page_are_taken() -> None:
    found = re.findall(r"^taskyard (tasks|runs) --filter '(.+)'$", FILTERS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(found) == 3
    for which, text in found:
        assert filters.parse_filter(text, filters.TASK_FIELDS if which == "tasks" else filters.RUN_FIELDS)


def test_every_filter_option_names_the_page() -> None:
    told = re.findall(r"^\| `--filter <str>` \| (.+) \|$", COMMANDS.read_text(encoding="utf-8"), re.MULTILINE)
    assert told
    assert [each for each in told if "docs/filters.md" not in each] == []
