"""docs/tutorial.md, done: its commands in its order, its clicks in a browser, its keys at a
terminal."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from builders import chromium, demonstration, forked_command, keyboard
from playwright.sync_api import expect, sync_playwright

pytestmark = [pytest.mark.integration, pytest.mark.browser]

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.+)$", TEXT, re.MULTILINE)


def test_the_tutorial(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert " ".join(COMMANDS[:3]) == "make demo cd build/demo/repository evalgate accept"
    demo, _ = demonstration.copied(tmp_path / "demo", tmp_path_factory)
    repository = demo / "repository"
    with sync_playwright() as started:
        browser = started.chromium.launch(**chromium.launch_options())
        page = browser.new_page()
        page.goto((demo / "pull-request-report/report.html").as_uri())
        page.get_by_role("link", name="check_availability was not called").click()
        page.wait_for_selector("#title")
        first, case = page.locator("#title").inner_text(), page.locator("body").inner_text()
        assert re.search("expected.*base.*head", case, re.IGNORECASE | re.DOTALL)
        page.keyboard.press("n")
        expect(page.locator("#title")).not_to_have_text(first)
        browser.close()
    said = keyboard.typed(["accept"], "aaa", after=b"[q]uit: ", cwd=repository)
    assert "3 cases of 3 accepted" in said
    changed = subprocess.run(
        COMMANDS[3].split(), cwd=repository, capture_output=True, text=True, check=True
    ).stdout
    assert "evals/loans.evalset.json" in changed
    assert "1 file changed" in changed
    done = forked_command.run(COMMANDS[4].split()[1:], cwd=repository)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 cases: 3 passed" in done.stdout
