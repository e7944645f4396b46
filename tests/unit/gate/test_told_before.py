"""What is told before anything is spent: the linter's checks reach `validate`, `list` and every
run."""

from __future__ import annotations

import json
from pathlib import Path

from evalgate.config import load
from evalgate.gate import prepare

CASE = {
    "eval_id": "a",
    "conversation": [
        {
            "user_content": {"parts": [{"text": "hi"}]},
            "final_response": {"parts": [{"text": "\N{SLIGHTLY SMILING FACE}"}]},
        }
    ],
}
CONFIG = {
    "criteria": {"mine": 0.5, "response_match_score": 0.5},
    "custom_metrics": {"mine": {"code_config": {"name": "metrics.mine"}}},
}


def test_what_can_never_block_or_be_measured_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.evalset.json").write_text(json.dumps({"eval_set_id": "x", "eval_cases": [CASE]}))
    (tmp_path / "test_config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "evalgate.yml").write_text(
        "pass-rate: 0\nfail-on: []\nagents:\n- driver: command\n  command: [python3, agent.py]\n"
    )
    prepared = prepare.prepare(load.load_settings({"root": str(tmp_path)}), environ={})
    codes = {problem.code for problem in prepared.problems}
    assert {"pass-rate-zero", "nothing-blocks", "metric-not-run", "reference-missing"} <= codes
