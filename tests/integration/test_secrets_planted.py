"""A key of the environment in all that an agent says: no file of a run and no line of its log shows
it or a part of it.

What the repository itself holds, names of files and ids of cases, stays in results.json, which
others are matched with."""

from __future__ import annotations

import base64
import json
import re
import sys
import zlib
from pathlib import Path

import pytest
from builders.gated_repository import Repository, content

pytestmark = pytest.mark.integration

KEY = "sk-live-0123456789abcdefghijklmnopqrstuv"
AGENT = '''
"""Says the key in all that it says."""
import json, os, sys

KEY = os.environ["DESK_API_KEY"]

def say(**message):
    print(json.dumps(message), flush=True)

def event(session, *parts, final=False):
    say(type="event", session=session, author="desk", content={"role": "model", "parts": list(parts)}, final=final)

for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session", "")
    match message["type"]:
        case "hello":
            say(type="ready", protocol=1, about={"framework": KEY}, sessions=1, description=[
                {"name": "desk", "kind": "Agent", "instruction": "y" * 19_980 + KEY}])
        case "start":
            say(type="started", session=session)
        case "turn":
            text = message["content"]["parts"][0]["text"]
            if text == "fail":
                print("stderr " + KEY, file=sys.stderr, flush=True)
                say(type="turn_failed", session=session, message="z" * 1980 + KEY, detail="Traceback " + KEY)
            elif text == "protocol":
                print("w" * 180 + KEY, flush=True)
            elif text == "exit":
                sys.stderr.write(KEY + "e" * (64 * 1024 - 20))
                sys.exit(3)
            else:
                call = {"id": "1", "name": "renew_" + KEY, "args": {KEY: KEY, "long": "a" * 70 + KEY}}
                event(session, {"function_call": call})
                response = {"url": "https://x/?key=" + KEY, KEY: ["x" * 100 + KEY]}
                event(session, {"function_response": {"id": "1", "name": call["name"], "response": response}})
                told = "".join("b" * width + " " + KEY + " " for width in range(0, 700, 40))
                event(session, {"text": told}, final=True)
                say(type="turn_end", session=session, state={"key": KEY}, trace=[{"said": "t" * 90 + KEY}],
                    agents=[{"name": "desk", "instructions": "with " + KEY}])
        case "end":
            say(type="ended", session=session)
        case "bye":
            break
'''


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write("agent.py", AGENT)
    agents = [{"driver": "command", "command": [sys.executable, "agent.py"]}]
    made.write(
        "evalgate.yml",
        json.dumps({"agents": agents, "env": ["DESK_API_KEY"], "runs": 2, "retries": 0}),
    )
    texts = ("hello", "fail", "protocol", "exit")
    cases = [
        {
            "eval_id": text,
            "conversation": [
                {
                    "user_content": content(text, "user"),
                    "final_response": content("good day", "model"),
                    "intermediate_data": {"tool_uses": [{"name": "renew", "args": {}}]},
                }
            ],
        }
        for text in texts
    ]
    made.write("desk.evalset.json", json.dumps({"eval_set_id": "desk", "eval_cases": cases}))
    criteria = {"response_match_score": 0.9, "tool_trajectory_avg_score": 1.0}
    made.write("test_config.json", json.dumps({"criteria": criteria}))
    made.write(".gitignore", "evalgate-report/\n.evalgate/\n")
    made.commit("first")
    return made


def shown(repo: Repository, said: str) -> dict[str, list[str]]:
    """Which texts of a run show the key, or a part of it, and what stands around it."""
    texts = {"log": said}
    folders = [repo.root / "evalgate-report", repo.root / ".evalgate", repo.log.parent / "cache"]
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        texts[str(path)] = path.read_text(encoding="utf-8", errors="replace")
    page = repo.root / "evalgate-report/report.html"
    texts["report.html, unpacked"] = unpacked(page.read_text())
    found = {}
    for name, text in texts.items():
        for part in (KEY[:12], KEY[-12:]):
            if (at := text.find(part)) >= 0:
                found.setdefault(name, []).append(text[max(at - 60, 0) : at + 60])
    return found


def unpacked(page: str) -> str:
    parts = re.findall(r'<script type="text/plain">([A-Za-z0-9+/=]*)</script>', page)
    return "\n".join(zlib.decompress(base64.b64decode(part), -15).decode() for part in parts)


@pytest.mark.parametrize("where", ["workflow", "terminal"])
def test_no_file_and_no_line_shows_a_key(repo: Repository, where: str) -> None:
    environment = {"DESK_API_KEY": KEY, **({"CI": "true"} if where == "workflow" else {"CI": ""})}
    code, said = repo.call("run", "--base", "main", environment=environment)
    assert code in (1, 3), said
    assert "***" in said
    assert shown(repo, said) == {}
    results = repo.results()
    assert results["suites"][0]["cases"][0]["trials"][0]["outcome"]["redacted"] is True


@pytest.mark.parametrize("key", [KEY, "ghp_0a1b2c3d_4e5f6a7b_8c9d*0e1f!"])
def test_no_report_shows_a_key_that_the_repository_holds(repo: Repository, key: str) -> None:
    """In a question, where Markdown would escape and part it."""
    path = repo.root / "desk.evalset.json"
    path.write_text(
        path.read_text().replace('"text": "hello"', f'"text": "my key is {key}, hello"')
    )
    environment = {"DESK_API_KEY": key, "CI": "true"}
    code, said = repo.call("run", "--base", "main", environment=environment)
    assert code in (1, 3), said
    plain = "".join(each for each in key if each.isalnum())
    for name in ("comment.md", "summary.md", "report.html", "junit.xml"):
        text = (repo.root / "evalgate-report" / name).read_text()
        text = text + unpacked(text) if name == "report.html" else text
        assert plain[-12:] not in re.sub(r"[\W_]", "", text), name
    assert "my key is \\*" in repo.comment() or "my key is ***" in repo.comment()
