"""`evalgate record`: a conversation that happened becomes a case, and everything else of its file
stays."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from builders import forked_command
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration

TRACE = Path(__file__).parents[1] / "data/spans/adk-1.18.otlp.json"
SET = """{"eval_set_id" :"desk",
\t"eval_cases": [
\t\t{ "eval_id":"s-1", "conversation": [ {"user_content": {"parts": [{"text": "hi"}]} }] }
\t]
}
"""


def session(asked: str, answered: str = "ok") -> str:
    """An ADK session of one turn."""
    events = [
        {
            "author": author,
            "invocationId": "e-1",
            "content": {"role": author, "parts": [{"text": text}]},
        }
        for author, text in (("user", asked), ("model", answered))
    ]
    return json.dumps({"id": "of mine", "appName": "desk", "userId": "u", "events": events})


def record(root: Path, *arguments: str, **environ: str) -> tuple[int, str]:
    done = forked_command.run(["record", *arguments], cwd=root, env={**os.environ, **environ})
    return done.returncode, done.stdout + done.stderr


def test_a_recorded_case_is_run_and_passes(tmp_path: Path) -> None:
    """From the session to a case that the same agent passes."""
    repo = Repository(tmp_path / "repo", tmp_path / "asked.log")
    repo.agent("head")
    repo.gate_file()
    repo.cases(0, threshold=1.0)
    repo.commit("first")
    (repo.root / "log.json").write_text(session("question 0", "answer 0"))
    code, said = record(
        repo.root, "tests/new.evalset.json", "--from", "log.json", "--case", "greeting"
    )
    assert (code, said.splitlines()[0]) == (
        0,
        "tests/new.evalset.json:greeting (1 turn, 0 tool calls)",
    )
    assert "right or wrong" in said
    code, hostile = record(
        repo.root, "tests/odd.evalset.json", "--from", "log.json", "--case", "x\n::error::y\x1b[2J"
    )
    assert (code, hostile.splitlines()[0]) == (
        0,
        "tests/odd.evalset.json:x ::error::y (1 turn, 0 tool calls)",
    )
    (repo.root / "tests/odd.evalset.json").unlink()
    code, said = repo.call("run", "tests/new.evalset.json")
    assert (code, "1 passed" in said or "1 case passed" in said) == (0, True), said


def test_what_stands_in_the_file_stays(tmp_path: Path) -> None:
    (tmp_path / "desk.evalset.json").write_text(SET)
    code, said = record(tmp_path, "desk.evalset.json", "--from", str(TRACE))
    assert (code, said.splitlines()[0]) == (0, "desk.evalset.json:s-1_2 (2 turns, 1 tool call)")
    text = (tmp_path / "desk.evalset.json").read_text()
    head, _, tail = SET.partition("] }\n\t]")
    assert text.startswith(f"{head}] }},\n\t\t{{")
    assert text.endswith(tail)
    (_, case) = json.loads(text)["eval_cases"]
    (first, second) = case["conversation"]
    assert first["intermediate_data"]["invocation_events"][0]["content"]["parts"] == [
        {"function_call": {"name": "look_up", "args": {"order": 42}}}
    ]
    assert second["final_response"]["parts"] == [{"text": "You are welcome."}]


def test_a_secret_is_not_recorded(tmp_path: Path) -> None:
    secret = 's3cret"and\\long'  # spelled otherwise in a file than in the environment
    (tmp_path / "log.json").write_text(session(f"my key is {secret}"))
    code, _ = record(tmp_path, "a.test.json", "--from", "log.json", SERVICE_TOKEN=secret)
    assert code == 0
    text = (tmp_path / "a.test.json").read_text()
    assert "s3cret" not in text
    assert "my key is ***" in text


@pytest.mark.parametrize(
    ("arguments", "there", "said"),
    [
        # nobody would find it
        (["new.json", "--from", "log.json"], None, "ends in neither .evalset.json nor .test.json"),
        # another session than those there are
        (
            ["a.test.json", "--from", "log.json", "--session", "of mie"],
            None,
            "Did you mean 'of mine'?",
        ),
        # an old format has no list to add to
        (
            ["a.test.json", "--from", "log.json"],
            '[{"query": "q", "reference": "r"}]',
            "evalgate migrate",
        ),
        # no conversation at all
        (["a.test.json", "--from", "empty.json"], None, "contains no conversations"),
        # what a server streams of a turn is without what it was asked
        (["a.test.json", "--from", "unasked.json"], None, "in turn 1 the user says nothing"),
        # two sessions, one name
        (["a.test.json", "--from", "two.jsonl", "--case", "x"], None, "holds 2 sessions"),
    ],
)
def test_what_cannot_be_recorded(
    tmp_path: Path, arguments: list[str], there: str | None, said: str
) -> None:
    (tmp_path / "log.json").write_text(session("hi"))
    (tmp_path / "empty.json").write_text('{"resourceSpans": []}')
    (tmp_path / "unasked.json").write_text(json.dumps(json.loads(session("hi"))["events"][1:]))
    turn = {"type": "turn", "content": {"role": "user", "parts": [{"text": "hi"}]}}
    messages = [{**each, "session": name} for name in "ab" for each in (turn, {"type": "turn_end"})]
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(each) + "\n" for each in messages))
    if there:
        (tmp_path / "a.test.json").write_text(there)
    code, output = record(tmp_path, *arguments)
    assert code == 2
    assert said in output
    assert [path.name for path in tmp_path.glob("*.test.json")] == (
        ["a.test.json"] if there else []
    )
    assert there is None or (tmp_path / "a.test.json").read_text() == there
