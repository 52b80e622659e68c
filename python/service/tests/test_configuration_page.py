from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_configuration_page_is_what_the_settings_say() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "make_configuration.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_every_service_is_on_the_page_with_what_it_needs() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert "\n## Scheduler\n" in page
    assert "\n## Worker\n" in page
    for line in page.splitlines():
        if line.startswith("| `TASKYARD_"):
            assert line.count("|") == 5, line
