"""A replay of a large file: read once, each case when it is wanted."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from evalgate.agents import DRIVERS
from evalgate.agents.base import AgentSetting
from evalgate.model import Case, Content, Text, TrialKey
from evalgate.system.python_env import InstallSetup

pytestmark = pytest.mark.integration

CASES = 20_000


def write(path: Path) -> None:
    with path.open("w") as file:
        file.write('{"eval_set_id": "big", "eval_case_results": [')
        for number in range(CASES):
            step = {"author": "a", "content": {"parts": [{"text": "x" * 900}]}}
            turn = {
                "user_content": {"role": "user", "parts": [{"text": f"case {number} \N{SNOWMAN}"}]},
                "final_response": {"role": "model", "parts": [{"text": f"answer {number}"}]},
                "intermediate_data": {"invocation_events": [step]},
            }
            case = {
                "eval_id": f"c{number}",
                "eval_metric_result_per_invocation": [{"actual_invocation": turn}],
            }
            file.write(("," if number else "") + json.dumps(case, ensure_ascii=False))
        file.write("]}")


def test_twenty_thousand_recordings_are_read_fast_and_every_one_is_found(tmp_path: Path) -> None:
    file = tmp_path / "big.json"
    write(file)
    driver = DRIVERS["replay"]
    setting = AgentSetting(root=str(tmp_path), world=InstallSetup(environment={}, cache="/nowhere"))
    agent = driver.open(driver.options.model_validate({"path": file.name}), setting)
    began = time.monotonic()
    for number in (0, CASES // 2, CASES - 1):
        case = Case(case_id=f"c{number}", conversation=())
        with agent.converse(case, TrialKey(suite="s", case_id=case.case_id)) as talk:
            invocation = talk.send(Content(parts=(Text(text=f"case {number} \N{SNOWMAN}"),)))
        assert invocation.final_response is not None
        assert invocation.final_response.parts == (Text(text=f"answer {number}"),)
    assert time.monotonic() - began < 10
    agent.close()
