"""Every report of each kind of content as it was last reviewed; `make golden` rewrites them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import report_page
from builders.scenarios import KINDS, SCENARIOS

from evalgate import reports
from evalgate.model import Report

HERE = Path(__file__).parent
LARGE = {"base_many"}
"""Too large to review: their comment only."""


def rendered(scenario: str, report: Report) -> dict[str, str]:
    texts = {
        row.file_name: text for row in reports.RENDERERS.values() if (text := row.render(report))
    }
    texts["report.html"] = report_page.reviewable(texts["report.html"])
    texts["annotations.txt"] = "".join(f"{line}\n" for line in reports.render_annotations(report))
    texts["outputs.json"] = (
        json.dumps(dict(reports.render_outputs(report)), indent=2, ensure_ascii=False) + "\n"
    )
    texts["terminal.txt"] = reports.render_terminal(report)
    return {
        name: text for name, text in texts.items() if scenario not in LARGE or name == "comment.md"
    }


@pytest.mark.parametrize("scenario", KINDS)
def test_reports_read_as_reviewed(scenario: str, update_golden: bool) -> None:
    texts = rendered(scenario, SCENARIOS[scenario]())
    folder = HERE / scenario
    if update_golden:
        folder.mkdir(exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")
    reviewed = {path.name: path.read_bytes().decode() for path in folder.iterdir()}
    assert sorted(reviewed) == sorted(texts)
    for name, text in texts.items():
        assert text == reviewed[name], f"{scenario}/{name} changed: review it, then `make golden`"


def test_no_scenario_is_left_behind() -> None:
    assert {
        path.name for path in HERE.iterdir() if path.is_dir() and path.name != "__pycache__"
    } == set(KINDS)
