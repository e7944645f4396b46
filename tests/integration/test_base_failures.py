"""A base that does not work: what is its own fault stops nobody, what the change may have caused is
not measured."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from builders.gated_repository import AGENT, Repository

pytestmark = pytest.mark.integration

ANSWERS = 'answer = "nothing of the kind" if bad'


def agent(side: str, *, before: str = "", turn: str = "", wrong: str = "set()") -> str:
    """The agent of `Repository`, with code that runs when it starts, and in a turn."""
    text = AGENT.format(side=side, wrong=wrong, flaky="set()")
    return text.replace("WRONG, FLAKY", f"{before}\nWRONG, FLAKY", 1).replace(
        ANSWERS, f"{turn}\n            {ANSWERS}"
    )


def gate(*arguments: str, **more: Any) -> str:
    agents = [{"driver": "command", "command": [sys.executable, *(arguments or ["agent.py"])]}]
    return json.dumps({"agents": agents, "env": ["ASKED_LOG"], "workers": 1, **more})


def cases(*numbers: int, ask: str = "question") -> str:
    def content(text: str) -> dict[str, Any]:
        return {"parts": [{"text": text}]}

    turns = {
        f"case_{number}": {
            "user_content": content(f"{ask} {number}"),
            "final_response": content(f"answer {number}"),
        }
        for number in numbers
    }
    listed = [{"eval_id": name, "conversation": [turn]} for name, turn in turns.items()]
    return json.dumps({"eval_set_id": "desk", "eval_cases": listed})


SLOW = "import time; time.sleep(3 * (number % 2))"
CRASH = "assert number % 2 == 0, 'no odd numbers'"
NEEDS = "import os; os.environ['NEEDED']"
ENDED = "the base cannot start: the agent's process exited with code"
WORKFLOW = ".github/workflows/evalgate.yml"
DECIDE = "The thresholds decide."


@dataclass(frozen=True, kw_only=True)
class Row:
    """Files of both sides, None for one that is not there; else an agent that works, and its
    cases."""

    base: dict[str, str | None] = field(default_factory=dict)
    head: dict[str, str | None] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    code: int
    kind: str
    said: str


ROWS = {
    # --- its own fault ---
    "it ends when it is started": Row(
        base={"agent.py": "raise SystemExit('no such thing')"},
        code=0,
        kind="inconclusive",
        said=f"Not compared: {ENDED} 1, before it was ready. {DECIDE}",
    ),
    "its program is not there yet": Row(
        base={"agent.py": None},
        code=0,
        kind="inconclusive",
        said=f"Not compared: {ENDED} 2, before it was ready. {DECIDE}",
    ),
    "it needs a variable that nobody passes": Row(
        base={"agent.py": agent("base", before=NEEDS)},
        code=0,
        kind="inconclusive",
        said="KeyError: 'NEEDED'. The thresholds decide.",
    ),
    "its driver does not exist": Row(
        base={"evalgate.yml": json.dumps({"agents": [{"driver": "commnd", "command": ["x"]}]})},
        code=0,
        kind="inconclusive",
        said="Not compared: the base cannot start: the base's evalgate.yml names a driver that does not exist: commnd. "
        + DECIDE,
    ),
    "its driver lacks an option": Row(
        base={"evalgate.yml": json.dumps({"agents": [{"driver": "command", "comand": "x"}]})},
        code=0,
        kind="inconclusive",
        said="cannot start: the base's evalgate.yml: agent with driver command: command: required key is missing",
    ),
    "it fails in every run": Row(
        base={"agent.py": agent("base", turn="raise SystemExit(3)")},
        code=0,
        kind="inconclusive",
        said=f"Not compared: the base's agent failed in every run: the agent's process exited with code 3. {DECIDE}",
    ),
    "it fails in some cases": Row(
        base={"agent.py": agent("base", turn=CRASH)},
        code=0,
        kind="pass",  # a run that did not pass: head is no worse
        said="No regression seen in 2 compared cases",
    ),
    "it is too slow for half of the cases": Row(
        base={"agent.py": agent("base", turn=SLOW), "evalgate.yml": gate(turn_timeout=1)},
        head={"evalgate.yml": gate(turn_timeout=1)},
        code=0,
        kind="pass",
        said="No regression seen in 2 compared cases",
    ),
    # --- nothing that could have become worse, or nothing that is in the way ---
    "it has no evalgate.yml": Row(
        base={"evalgate.yml": None},
        code=0,
        kind="pass",
        said="Nothing to compare with yet: the base has no agent",
    ),
    "it has no criteria": Row(
        base={"test_config.json": None}, code=0, kind="pass", said="No regression seen in 4"
    ),
    "it has no evaluation files": Row(
        base={"desk.evalset.json": None},
        code=0,
        kind="pass",
        said="No regression seen in 4 compared cases",
    ),
    "it has no evaluation files and fails": Row(
        base={"desk.evalset.json": None, "agent.py": agent("base", turn="raise SystemExit(3)")},
        code=0,
        kind="inconclusive",
        said="the base's agent failed in every run",
    ),
    "its evaluation file is broken": Row(
        base={"desk.evalset.json": '{"eval_cases": ['},
        code=0,
        kind="pass",
        said="No regression seen in 4 compared cases",
    ),
    "its evaluation file is broken, and it has no evalgate.yml": Row(
        base={"desk.evalset.json": '{"eval_cases": [', "evalgate.yml": None},
        code=0,
        kind="pass",
        said="Nothing to compare with yet: the base has no agent",
    ),
    "the change moves the agent": Row(
        head={"agent.py": None, "bot/main.py": agent("head"), "evalgate.yml": gate("bot/main.py")},
        code=0,
        kind="pass",
        said="No regression seen in 4 compared cases",
    ),
    # --- what decides then ---
    "the thresholds say no": Row(
        base={"agent.py": "raise SystemExit(1)"},
        head={"agent.py": agent("head", wrong="{1}")},
        code=1,
        kind="inconclusive",
        said="Not compared: the base cannot start",
    ),
    "the policy blocks": Row(
        base={"agent.py": "raise SystemExit(1)"},
        options=("--fail-on", "inconclusive"),
        code=3,
        kind="inconclusive",
        said="before it was ready. `fail-on: inconclusive` blocks.",
    ),
    "the base's rules are to decide, and nobody knows them": Row(
        base={"evalgate.yml": "agents: [\n  - {driver: command\n"},
        options=("--policy", "base"),
        code=3,
        kind="not_measured",
        said="Not compared with the base: the base's own configuration cannot be read",
    ),
    "the base's rules are to decide, and its agent does not start": Row(
        base={"agent.py": "raise SystemExit(1)"},
        options=("--policy", "base"),
        code=0,
        kind="inconclusive",
        said="Not compared: the base cannot start",
    ),
    "head does not start either": Row(
        base={"agent.py": "raise SystemExit(1)"},
        head={"agent.py": "raise SystemExit(1)"},
        code=3,
        kind="inconclusive",
        said="4 of 4 cases could not be evaluated in desk.evalset.json.",
    ),
    # --- what the change may have caused ---
    "the change takes a variable away": Row(
        base={
            "agent.py": agent("base", before=NEEDS),
            "evalgate.yml": gate(env=["ASKED_LOG", "NEEDED"]),
        },
        code=3,
        kind="not_measured",
        said="KeyError: 'NEEDED'; the cause may be this change: `env` no longer names NEEDED.",
    ),
    "the change leaves less time": Row(
        base={"agent.py": agent("base", turn=SLOW)},
        head={"evalgate.yml": gate(turn_timeout=1)},
        code=3,
        kind="not_measured",
        said="the base's agent failed, and the cause may be this change: `turn-timeout` is 1, and 300 on the base",
    ),
    "the change leaves less time to start": Row(
        base={"agent.py": agent("base", before="import time; time.sleep(9)")},
        head={"evalgate.yml": gate(start_timeout=1)},
        code=3,
        kind="not_measured",
        said="; the cause may be this change: `start-timeout` is 1, and 300 on the base.",
    ),
    "the change asks what the base cannot bear": Row(
        base={"agent.py": agent("base", turn="if 'new' in text: sys.exit(1)")},
        head={
            "desk.evalset.json": cases(0, 1, 2, 3, ask="new question"),
            "agent.py": agent("head", turn="text = text[4:]"),
        },
        code=3,
        kind="not_measured",
        said="the agent's process exited with code 1; the cause may be this change: it changes the user messages.",
    ),
    "the change has other requirements, in one environment": Row(
        base={"agent.py": "raise SystemExit(1)", "requirements.txt": "shelf==1\n"},
        head={"requirements.txt": "shelf==2\n"},
        code=3,
        kind="not_measured",
        said="; the cause may be this change: both sides ran in one environment, and requirements.txt differs.",
    ),
    "the change edits the workflow that names the agent": Row(
        base={
            "agent.py": None,
            "old.py": agent("base"),
            "evalgate.yml": None,
            WORKFLOW: "evalgate: old.py",
        },
        head={WORKFLOW: "evalgate: agent.py"},
        options=("--agent", f"command:{sys.executable} agent.py", "--env", "ASKED_LOG"),
        code=3,
        kind="not_measured",
        said=f"`agent` and `env` may come from {WORKFLOW}, which it edits",
    ),
    "the change edits the workflow that names a folder, which the base lacks": Row(
        base={"evalgate.yml": None, WORKFLOW: "evalgate: old"},
        head={"new/agent.py": "root_agent = None", WORKFLOW: "evalgate: new"},
        options=("--agent", "new"),
        code=3,
        kind="not_measured",
        said=f"the base has no agent at `new`, which may come from {WORKFLOW}, which this change edits.",
    ),
    "the workflow names it as ever": Row(
        base={"agent.py": None, WORKFLOW: "evalgate: agent.py"},
        head={WORKFLOW: "evalgate: agent.py"},
        options=("--agent", f"command:{sys.executable} agent.py"),
        code=0,
        kind="inconclusive",
        said="Not compared: the base cannot start",
    ),
    "the workflow comes with this change": Row(
        base={"agent.py": "raise SystemExit(1)", "evalgate.yml": None},
        head={WORKFLOW: "evalgate: agent.py"},
        options=("--agent", f"command:{sys.executable} agent.py", "--env", "ASKED_LOG"),
        code=0,
        kind="inconclusive",
        said="Not compared: the base cannot start",
    ),
    "somebody killed it": Row(
        base={"agent.py": agent("base", turn="os.kill(os.getpid(), 9)")},
        code=3,
        kind="not_measured",
        said="Not compared with the base: the base's agent did not run: the agent's process was killed",
    ),
}


def put(repo: Repository, side: str, files: dict[str, str | None]) -> None:
    usual = {
        "agent.py": agent(side),
        "evalgate.yml": gate(),
        "desk.evalset.json": cases(0, 1, 2, 3),
        "test_config.json": json.dumps({"criteria": {"response_match_score": 0.9}}),
    }
    for name, text in {**usual, **files}.items():
        (repo.root / name).unlink(missing_ok=True)
        if text is not None:
            repo.write(name, text)


def repository(folder: Path, row: Row) -> Repository:
    repo = Repository(folder / "repo", folder / "asked.log")
    repo.write(".gitignore", "evalgate-report/\nparts/\n")
    put(repo, "base", row.base)
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    put(repo, "head", row.head)
    repo.commit("head")
    return repo


@pytest.mark.parametrize("name", ["it fails in some cases", "the change leaves less time to start"])
def test_parts_of_a_run_tell_the_same(tmp_path: Path, name: str) -> None:
    row = ROWS[name]
    repo = repository(tmp_path, row)
    for part in ("1", "2"):
        repo.run("--shard", f"{part}/2", "--output", f"parts/{part}")
    code, said = repo.call("merge", "parts")
    assert (code, row.said in said) == (row.code, True), said


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_base_that_does_not_work(tmp_path: Path, row: Row) -> None:
    repo = repository(tmp_path, row)
    code, said = repo.end(
        repo.start("run", "--base", "main", *row.options, environment={"NEEDED": "x"})
    )
    gates = {each["gate"]: each["kind"] for each in repo.results()["verdict"]["gates"]}
    assert (code, gates["regression"]) == (row.code, row.kind), said
    assert row.said in said
    assert said.count(row.said) == 1
    reports = repo.root / "evalgate-report"
    for name in ("comment.md", "summary.md"):
        text = (reports / name).read_text()
        assert [text.count(each) for each in ("The thresholds decide", "cause may be")] == [
            said.count(each) for each in ("The thresholds decide", "cause may be")
        ], text
    junit = ET.parse(reports / "junit.xml").getroot()
    answers = {each.get("name"): each.get("value") for each in junit.iter("property")}
    assert answers["regression"].startswith(row.kind.replace("_", " "))
