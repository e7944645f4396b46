"""Seven seeded faults are seven causes, the same in every report."""

from __future__ import annotations

import html
import json
import sys
from pathlib import Path

import pytest
from builders import report_page
from builders.gated_repository import Repository, content

pytestmark = pytest.mark.integration

AGENT = '''
"""Refunds order N, with the fault that is seeded for it."""
import json, sys, time

FAULTS = json.load(open("faults.json"))

def say(**message):
    print(json.dumps(message), flush=True)

def call(session, name, **args):
    part = {"function_call": {"name": name, "args": args}}
    say(type="event", session=session, author="desk", content={"role": "model", "parts": [part]}, final=False)

def turn(session, number):
    fault = FAULTS.get(str(number), "")
    if fault == "crash":
        message = f"KeyError: order {number} at 0x{number:x}f"
        return say(type="turn_failed", session=session, kind="raised", message=message)
    if fault == "timeout":
        time.sleep(60)
    call(session, "find_order", order=number)
    if fault == "wrong tool":
        call(session, "cancel", order=number)
    elif fault != "missing call":
        call(session, "refund", order=number, amount=number * (2 if fault == "wrong argument" else 1))
    if fault == "extra call":
        call(session, "escalate", why=f"order {number}")
    answer = f"Sorry, not {number}." if fault == "wrong answer" else f"Order {number} is refunded."
    part = {"text": answer}
    say(type="event", session=session, author="desk", content={"role": "model", "parts": [part]}, final=True)
    say(type="turn_end", session=session)

for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session", "")
    match message["type"]:
        case "hello":
            say(type="ready", protocol=1, about={"framework": "test"}, sessions=1)
        case "start":
            say(type="started", session=session)
        case "turn":
            turn(session, int(message["content"]["parts"][0]["text"].split()[-1]))
        case "end":
            say(type="ended", session=session)
        case "bye":
            break
'''

CAUSES = {
    "wrong tool": "cancel was called instead of refund",
    "wrong argument": "refund was called with another amount",
    "missing call": "refund was not called",
    "extra call": "escalate was called and is not expected",
    "wrong answer": "response_match_score below its threshold",
    "crash": "the agent raised an exception: KeyError: order # at #",
    "timeout": "the agent timed out after # s (`turn-timeout`)",
}
EACH = 2


def case(number: int) -> dict[str, object]:
    calls = [("find_order", {"order": number}), ("refund", {"order": number, "amount": number})]
    return {
        "eval_id": f"order_{number}",
        "conversation": [
            {
                "user_content": content(f"Refund order {number}", "user"),
                "final_response": content(f"Order {number} is refunded.", "model"),
                "intermediate_data": {
                    "tool_uses": [{"name": name, "args": args} for name, args in calls]
                },
            }
        ],
    }


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """Eight cases on main, where all pass, of each fault two on the branch, and two without any."""
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(".gitignore", "evalgate-report/\n")
    made.write("agent.py", AGENT)
    made.write("faults.json", "{}")
    made.gate_file(
        **{
            "turn-timeout": 2,
            "retries": 0,
            "agents": [{"driver": "command", "command": [sys.executable, "agent.py"]}],
        }
    )
    numbers = range(11, 11 + EACH * (len(CAUSES) + 1))
    made.write(
        "desk.evalset.json",
        json.dumps({"eval_set_id": "desk", "eval_cases": [case(each) for each in numbers]}),
    )
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    made.write("test_config.json", json.dumps({"criteria": criteria}))
    made.commit("main")
    made.git("checkout", "-qb", "change")
    faults = [*CAUSES, ""]
    made.write(
        "faults.json", json.dumps({str(each): faults[each % len(faults)] for each in numbers})
    )
    made.commit("faults")
    return made


def test_seven_faults_are_seven_causes_in_every_report(repo: Repository) -> None:
    code, said = repo.run()
    assert code == 1, said
    told = repo.results()["causes"]
    assert {each["cause"]: len(each["cases"]) for each in told} == dict.fromkeys(
        CAUSES.values(), EACH
    )
    assert len(told) == len(CAUSES)
    assert [each["status"] for each in told] == ["new"] * 5 + ["not measured"] * 2
    folder = repo.root / "evalgate-report"
    page = report_page.read((folder / "report.html").read_text())
    assert [each["text"] for each in page.index["causes"]] == [each["cause"] for each in told]
    assert all(each["cause"] in said for each in told), said
    junit = html.unescape((folder / "junit.xml").read_text())
    assert all(junit.count(f"cause: {each['cause']}\n") == EACH for each in told)
    summary = (folder / "summary.md").read_text().replace("\\", "")
    assert all(
        f"- **{EACH} cases** ({each['status']}): {each['cause']}\n" in summary for each in told
    ), summary
    comment = repo.comment().replace("\\", "")
    assert all(
        f"- **{EACH} cases** ({each['status']}): {each['cause']}\n" in comment for each in told[:3]
    )
    assert "- ...and 4 more causes (8 cases)." in comment
