"""What is found before a run, and what is not told twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalgate.config import load
from evalgate.gate import prepare

CASE = {
    "eval_id": "c",
    "conversation": [
        {"user_content": {"parts": [{"text": "hi"}]}, "final_response": {"parts": [{"text": "hello"}]}},
    ],
}
RIGHT = "agents: [{driver: command, command: sh agent.sh}]"


@pytest.mark.parametrize(
    ("gate_file", "codes"),
    [
        (RIGHT, set()),
        ("runs: 2", {"no-agent"}),
        # a mistake elsewhere: the agent is named all the same
        (f"{RIGHT}\nexclude: evals/drafts", {"gate-file-shape"}),
        (f"{RIGHT}\njudge: gpt-4", {"gate-file-shape"}),
        # the mistake is where the agent is named, or may be: that none was found says nothing
        ("agents: [{driver: command, command: sh agent.sh, suites: evals}]", {"gate-file-shape"}),
        ("agnets: [{driver: command, command: sh agent.sh}]", {"unknown-setting"}),
        ("agents: [", {"yaml-syntax"}),
        # and where it certainly is not
        ("runz: 3", {"unknown-setting", "no-agent"}),
    ],
)
def test_no_agent_is_missed_where_evalgate_yml_may_name_it(gate_file: str, codes: set[str], tmp_path: Path) -> None:
    (tmp_path / "evalgate.yml").write_text(gate_file)
    (tmp_path / "agent.sh").write_text("")
    (tmp_path / "a.evalset.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": [CASE]}))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.5}}')
    prepared = prepare.prepare(load.load_settings({"root": str(tmp_path)}), environ={})
    assert {problem.code for problem in prepared.problems} == codes
