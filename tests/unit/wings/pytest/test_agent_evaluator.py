"""`AgentEvaluator` as far as it takes no agent (with agents: tests/parity/test_guest.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalgate import AgentEvaluator
from evalgate.errors import EvalgateError


def test_without_google_adk_the_test_is_told(tmp_path: Path) -> None:
    file = tmp_path / "desk.test.json"
    file.write_text("[]")
    with pytest.raises(EvalgateError, match="google-adk is not installed in the Python") as error:
        AgentEvaluator.evaluate("desk_agent", str(file))
    assert "`evalgate run`" in error.value.hint


def test_an_old_file_is_migrated_by_google_adks_call(tmp_path: Path) -> None:
    old, new, session = (tmp_path / name for name in ("old.test.json", "new.test.json", "s.json"))
    uses = [{"tool_name": "roll", "tool_input": {"sides": 6}}]
    turn = {"query": "Roll.", "expected_tool_use": uses, "reference": "Rolled."}
    old.write_text(json.dumps([turn]), encoding="utf-8")
    session.write_text(json.dumps({"state": {"city": "Oslo"}}), encoding="utf-8")
    AgentEvaluator.migrate_eval_data_to_new_schema(str(old), str(new), str(session))
    [case] = json.loads(new.read_text(encoding="utf-8"))["eval_cases"]
    [written] = case["conversation"]
    assert case["session_input"] == {"app_name": "", "user_id": "", "state": {"city": "Oslo"}}
    assert written["user_content"]["parts"] == [{"text": "Roll."}]
    assert written["final_response"]["parts"] == [{"text": "Rolled."}]
    calls = [{"name": "roll", "args": {"sides": 6}}]
    assert written["intermediate_data"]["tool_uses"] == calls


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (("", "new.json"), ValueError),
        (("old.json", ""), ValueError),
        (("absent.json", "new.json"), EvalgateError),
    ],
)
def test_what_cannot_be_migrated(names: tuple[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        AgentEvaluator.migrate_eval_data_to_new_schema(*names)
