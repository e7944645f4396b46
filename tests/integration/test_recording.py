"""`evalgate record`: a conversation that happened becomes a case, and everything else of its file
stays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

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


SPANS = TRACE.parent
DESK = {
    "Where is my order 42?": [[["look_up", {"order": 42}]], "Order 42 ships on Monday."],
    "Thanks!": [[], "You are welcome."],
}
# three calls of the model, the first and the last of them for tools side by side
STEPS = [[name, {"n": n}] for n, name in enumerate(("first", "second", "third") * 2, 1)]


def content(role: str, **part: Any) -> dict[str, Any]:
    return {"role": role, "parts": [part]}


EVENTS = [
    [
        {"author": "user", "content": content("user", text=asked), "invocationId": asked},
        *(
            {"author": "desk", "content": content("model", function_call={"name": name, "args": args}), "invocationId": asked}
            for name, args in calls
        ),
        {"author": "desk", "content": content("model", text=answered), "invocationId": asked},
    ]
    for asked, (calls, answered) in DESK.items()
]  # fmt: skip
RESULTS = [
    {
        "actual_invocation": {
            "user_content": content("user", text=asked),
            "final_response": content("model", text=answered),
            "intermediate_data": {"tool_uses": [{"name": name, "args": args} for name, args in calls]},
        }
    }
    for asked, (calls, answered) in DESK.items()
]  # fmt: skip
WRITTEN = {
    "a session of ADK": {"id": "s", "events": [event for turn in EVENTS for event in turn]},
    "results of adk eval": {
        "eval_set_id": "desk",
        "eval_case_results": [{"eval_id": "s", "eval_metric_result_per_invocation": RESULTS}],
    },
    "a trace of agents-cli": {
        "eval_cases": [{"eval_case_id": "s", "agent_data": {"turns": [{"events": turn} for turn in EVENTS]}}]
    },
}  # fmt: skip
TRACER = """
import json, sys

def say(**message):
    print(json.dumps(message), flush=True)

def event(session, **part):
    say(type="event", session=session, author="desk", content={"role": "model", "parts": [part]})

ANSWERS = json.loads(ANSWERS_HERE)
for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session", "")
    match message["type"]:
        case "hello":
            say(type="ready", protocol=1, about={"framework": "test"}, sessions=1)
        case "start":
            say(type="started", session=session)
        case "turn":
            calls, answer = ANSWERS[message["content"]["parts"][0]["text"]]
            for number, (name, args) in enumerate(calls):
                event(session, function_call={"id": str(number), "name": name, "args": args})
                event(session, function_response={"id": str(number), "name": name, "response": {}})
            say(type="event", session=session, author="desk", final=True,
                content={"role": "model", "parts": [{"text": answer}]})
            say(type="turn_end", session=session)
        case "end":
            say(type="ended", session=session)
        case "bye":
            break
"""


def traced(tmp_path: Path, answers: dict[str, Any]) -> Repository:
    """A repository whose agent calls and answers so."""
    repo = Repository(tmp_path / "repo", tmp_path / "asked.log")
    repo.gate_file()
    repo.write("agent.py", TRACER.replace("ANSWERS_HERE", repr(json.dumps(answers))))
    repo.commit("first")
    return repo


@pytest.mark.parametrize(
    ("log", "answers"),
    [
        ("adk-1.18.otlp.json", DESK),
        ("adk-2.13.spans.jsonl", DESK),
        ("openinference.otlp.json", DESK),
        ("openinference-adk-2.13.spans.jsonl", {"go": [STEPS, "done"]}),
        *((name, DESK) for name in WRITTEN),
    ],
)
def test_what_a_tracer_wrote_of_an_agent_passes_with_that_agent(
    tmp_path: Path, log: str, answers: dict[str, Any]
) -> None:
    repo = traced(tmp_path, answers)
    path = tmp_path / "log.json" if log in WRITTEN else SPANS / log
    if log in WRITTEN:
        path.write_text(json.dumps(WRITTEN[log]))
    recorded_code, shown = record(repo.root, "new.evalset.json", "--from", str(path))
    assert recorded_code == 0, shown
    code, said = repo.call("run")
    assert (code, "1 passed" in said) == (0, True), said


def test_arguments_that_differ_in_each_run_are_told(tmp_path: Path) -> None:
    code, said = record(tmp_path, "desk.evalset.json", "--from", str(TRACE))
    assert (code, "differs in each run" in said) == (0, True), said
    assert [path.name for path in tmp_path.iterdir()] == ["desk.evalset.json"]
    (tmp_path / "log.json").write_text(session("hi"))
    code, said = record(tmp_path, "desk.evalset.json", "--from", "log.json")
    assert (code, "differs in each run" in said) == (0, False), said


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
        (["new.json", "--from", "log.json"], None, "end its name in .evalset.json or .test.json"),
        # another session than those there are
        (
            ["a.test.json", "--from", "log.json", "--session", "of mie"],
            None,
            "Did you mean `of mine`?",
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
        (["a.test.json", "--from", "two.json", "--case", "x"], None, "holds 2 sessions"),
    ],
)
def test_what_cannot_be_recorded(
    tmp_path: Path, arguments: list[str], there: str | None, said: str
) -> None:
    (tmp_path / "log.json").write_text(session("hi"))
    (tmp_path / "empty.json").write_text('{"resourceSpans": []}')
    (tmp_path / "unasked.json").write_text(json.dumps(json.loads(session("hi"))["events"][1:]))
    turn = {
        "user_content": {"parts": [{"text": "hi"}]},
        "final_response": {"parts": [{"text": "ok"}]},
    }
    cases = [{"eval_id": name, "conversation": [turn]} for name in "ab"]
    (tmp_path / "two.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": cases}))
    if there:
        (tmp_path / "a.test.json").write_text(there)
    code, output = record(tmp_path, *arguments)
    assert code == 2
    assert said in output
    assert [path.name for path in tmp_path.glob("*.test.json")] == (
        ["a.test.json"] if there else []
    )
    assert there is None or (tmp_path / "a.test.json").read_text() == there
