"""`evalgate run` on CES evaluations: real agents, the real google-genai client, no internet.

A local server judges and plays the user.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import forked_command, repositories
from builders.nightly import BY_NIGHT

from tests.integration.agents.line_client import forked_adk

pytestmark = pytest.mark.integration

TESTS = Path(__file__).parents[1]
DATA = TESTS / "data" / "ces"
GOLDEN, SCENARIO = "renew_loan_happy_path", "lost_card_scenario"
TALK = ("I lost my card on the tram.", "My patron id is P-2041.", "Thank you! </finished>")


class Judge(ThreadingHTTPServer):
    """Says the best word there is, `worst` where a prompt has these words, 500 where it has those
    of `broken`; a call with its retries may take `deadline_s`."""

    deadline_s = 300

    def __init__(self) -> None:
        self.worst = self.broken = "words that no prompt has"
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    def reply(self, body: dict[str, Any]) -> str:
        system = body["systemInstruction"]["parts"][0]["text"]
        prompt = body["contents"][0]["parts"][0]["text"]
        is_bad = self.worst in prompt
        if "You play a user" in system:
            return TALK[min(prompt.count('\n{"agent":'), 2)]
        self.asked.append(system)
        if '"verdicts"' in json.dumps(body["generationConfig"]):
            holds = {"rationale": "So.", "verdict": "no" if is_bad else "yes"}
            return json.dumps(
                {"verdicts": [{"id": f"P{number}", **holds} for number in range(1, 4)]}
            )
        words = system.rpartition("one of these words: ")[2].strip().rstrip(".").split(", ")
        is_graded = "partially_consistent" in words
        return json.dumps(
            {"rationale": "So.", "verdict": words[4 if is_graded else 1] if is_bad else words[0]}
        )


class _Handler(BaseHTTPRequestHandler):
    server: Judge

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/desk":  # the agent behind a URL
            told = body["messages"][:-1]
            said = (
                f"{len(told)} earlier, the last {told[-1]['content']}"
                if told
                else "The Harbour desk."
            )
            self.answer(200, {"text": said, "tool_calls": []})
            return
        status = 500 if self.server.broken in json.dumps(body) else 200
        reply: dict[str, Any] = {"error": {"code": status, "message": "no", "status": "INTERNAL"}}
        if status == 200:
            content = {"role": "model", "parts": [{"text": self.server.reply(body)}]}
            reply = {"candidates": [{"content": content, "finishReason": "STOP"}]}
        self.answer(status, reply)

    def answer(self, status: int, reply: dict[str, Any]) -> None:
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def judge() -> Iterator[Judge]:
    server = Judge()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def repository(
    root: Path, judge: Judge, *, agent: str = "command", names: tuple[str, ...] = (GOLDEN,)
) -> Path:
    files = {GOLDEN: "golden_library_renewal.json", SCENARIO: "scenario_lost_card.json"}
    for name in names:
        (root / "evaluations" / name).mkdir(parents=True)
        shutil.copy(DATA / files[name], root / "evaluations" / name / f"{name}.json")
    (root / "evaluationExpectations").mkdir()
    shutil.copy(
        DATA / "expectation_one_question.json",
        root / "evaluationExpectations" / "one-question-at-a-time.json",
    )
    desk = TESTS / "agents" / "ces_desk"
    if agent.startswith("adk"):
        shutil.copytree(
            desk, root / "desk", ignore=shutil.ignore_patterns("program.py", "__pycache__")
        )
        run: dict[str, Any] = {
            "driver": "adk",
            "path": "desk",
            "python": forked_adk("old" if agent == "adk old" else "new"),
        }
    else:
        shutil.copy(desk / "program.py", root / "desk.py")
        run = {"driver": "command", "command": f"{sys.executable} desk.py"}
    url = f"http://127.0.0.1:{judge.server_address[1]}/v1beta"
    rules = {
        "judge": {
            "base_url": url,
            "api_key_env": "MY_JUDGE_KEY",
            "call_deadline": judge.deadline_s,
        },
        "env": ["DESK_FAULT"],
        "agents": [run],
        "retries": 0,
    }
    (root / "evalgate.yml").write_text(yaml.safe_dump(rules))
    return root


def change(root: Path, name: str, make: Any) -> None:
    file = root / "evaluations" / name / f"{name}.json"
    raw = json.loads(file.read_text())
    make(raw)
    file.write_text(json.dumps(raw, indent=2))


def run(root: Path, *arguments: str, fault: str = "") -> tuple[int, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GOOGLE_", "GEMINI_"))
    }
    environment = {**inherited, "MY_JUDGE_KEY": "a-key", **({"DESK_FAULT": fault} if fault else {})}
    command = ["run", "--cache", str(root / "cache"), *arguments]
    done = forked_command.run(command, cwd=root, env=environment, timeout=120)
    return done.returncode, done.stdout + done.stderr


def grades(root: Path) -> dict[str, Any]:
    return {name: grade for trial in trials_in(root) for name, grade in trial["grades"].items()}


@pytest.mark.parametrize("agent", ["command", "adk", pytest.param("adk old", marks=BY_NIGHT)])
def test_the_examples_run_and_pass(tmp_path: Path, judge: Judge, agent: str) -> None:
    root = repository(tmp_path, judge, agent=agent, names=(GOLDEN, SCENARIO))
    code, said = run(root)
    assert code == 0, said + json.dumps(grades(root), indent=1)[:6000]


# --- without a judge ------------------------------------------------------------------------------

APP = "projects/p/locations/l/apps/desk"


def literal(text: str, **more: Any) -> dict[str, Any]:
    return {
        "expectation": {
            "agentResponse": {"chunks": [{"text": text}]},
            "comparisonType": "CONTAINS",
            **more,
        }
    }


def call(name: str, **args: Any) -> dict[str, Any]:
    # a text that differs would be compared by its meaning, for which a judge is needed
    expected = {"toolCall": {"tool": f"{APP}/tools/{name}", "args": args}}
    return {"expectation": {**expected, "comparisonType": "EQUALS"}}


def answers(name: str, kind: str = "mockToolResponse", **output: Any) -> dict[str, Any]:
    return {"expectation": {kind: {"tool": f"{APP}/tools/{name}", "response": {"output": output}}}}


def desk_golden(**more: Any) -> dict[str, Any]:
    """What the desk does, as text: nobody is asked. Its loan is known from what a tool is said to
    have answered."""
    turns = [
        [
            {"userInput": {"variables": {"branch": "harbour"}}},
            {"userInput": {"event": {"event": "welcome"}}},
            literal("the Harbour library desk"),
        ],
        [
            {"userInput": {"text": "Please renew it."}},
            call("find_loan", patron_id="P-2041"),
            answers("find_loan", loan_id="L-12"),
            {"expectation": {"agentTransfer": {"targetAgent": f"{APP}/agents/loans"}}},
            literal("I found L-12"),
        ],
        [
            {"userInput": {"text": "Yes, go ahead."}},
            call("renew_loan", loan_id="L-12", weeks=3),
            answers("renew_loan", "toolResponse", due="2027-03-25"),
            {"expectation": {"updatedVariables": {"last_renewed_loan": "L-12"}}},
            literal("25 March 2027"),
        ],
    ]
    return {
        "displayName": "desk",
        "golden": {"turns": [{"steps": steps} for steps in turns]},
        **more,
    }


def desk_repository(
    root: Path, evaluation: dict[str, Any], *, app: dict[str, Any] | None = None
) -> Path:
    (root / "evaluations" / "desk").mkdir(parents=True)
    (root / "evaluations" / "desk" / "desk.json").write_text(json.dumps(evaluation))
    shutil.copy(TESTS / "agents" / "ces_desk" / "program.py", root / "desk.py")
    run = {"driver": "command", "command": f"{sys.executable} desk.py"}
    (root / "evalgate.yml").write_text(yaml.safe_dump({"env": ["DESK_FAULT"], "agents": [run]}))
    if app is not None:
        (root / "app.json").write_text(json.dumps({"displayName": "desk", **app}))
    return root


def without_loan(evaluation: dict[str, Any]) -> dict[str, Any]:
    """What holds also where the desk does not know what was said before: the loan that it knows by
    itself."""
    return json.loads(json.dumps(evaluation).replace("L-12", "L-77"))


def skipped(evaluation: dict[str, Any]) -> dict[str, Any]:
    for turn in evaluation["golden"]["turns"]:
        for step in turn["steps"]:
            if "expectation" in step:
                step["expectation"]["skipEvaluation"] = True
    return evaluation


def one_turn(*steps: dict[str, Any], turns: list[Any] | None = None) -> dict[str, Any]:
    said = [{"steps": [{"userInput": {"text": "welcome"}}, *steps]}]
    return {"displayName": "desk", "golden": {"turns": said if turns is None else turns}}


def answers_with(chunk: dict[str, Any]) -> dict[str, Any]:
    return {"expectation": {"agentResponse": {"chunks": [chunk]}}}


OFF = {"enableToolCorrectnessMetrics": False}
METRICS_OFF = {
    "evaluationSettings": {
        "metricsConfig": {
            "goldenMetricsConfig": {
                "semanticSimilarityMetricsConfig": {"enableSemanticSimilarityMetrics": False},
                "toolCorrectnessMetricsConfig": OFF,
                "stepToolCorrectnessMetricsConfig": OFF,
            }
        }
    }
}
NAIVE = {"evaluationSettings": {"goldenRunMethod": "NAIVE"}}
FAKE = {"evaluationSettings": {"goldenEvaluationToolCallBehaviour": "FAKE"}}
LENIENT = {
    "goldenEvaluationMetricsThresholds": {
        "expectationLevelMetricsThresholds": {"toolInvocationParameterCorrectnessThreshold": 0.5}
    }
}
THRESHOLDS = {"evaluationMetricsThresholds": LENIENT}
RUNS = [
    ("stable", desk_golden(), None, "", 0, ""),
    # one session for all turns: the desk knows the loan by itself
    ("naive", without_loan(desk_golden()), NAIVE, "", 0, ""),
    # every turn is told what is expected of those before, though the agent says something else in
    # them
    (
        "naive does not tell what is expected",
        desk_golden(),
        NAIVE,
        "",
        1,
        "loan_id: expected 'L-12', got 'L-77'",
    ),
    (
        "an agent that takes no history",
        without_loan(desk_golden()),
        None,
        "no history",
        0,
        "goldens run in one session",
    ),
    ("tools are faked by what is expected", desk_golden(), FAKE, "", 0, ""),
    # the anchor calls both of these passed, where an evaluation has no custom expectation
    ("a failure", desk_golden(), None, "weeks", 1, "weeks: expected '3', got 2"),
    ("an error", desk_golden(), None, "raises", 3, "the desk is closed"),
    ("half of the parameters, by the app", desk_golden(), THRESHOLDS, "weeks", 0, ""),
    (
        "the evaluation before the app",
        desk_golden(
            evaluationMetricsThresholdOverride={
                "goldenEvaluationMetricsThresholds": {
                    "expectationLevelMetricsThresholds": {
                        "toolInvocationParameterCorrectnessThreshold": 1.0
                    }
                }
            }
        ),
        THRESHOLDS,
        "weeks",
        1,
        "",
    ),
    ("all is skipped", skipped(desk_golden()), None, "weeks", 4, "it skips every expectation"),
    # what asks for nothing, or for something that any agent does, is no pass
    ("no turns", one_turn(turns=[]), None, "", 2, "`turns` is missing or empty"),
    ("only what the user says", one_turn(), None, "", 1, "UNEXPECTED RESPONSE"),
    ("blanks, which any answer holds", one_turn(literal(" ")), None, "", 3, "all of it is skipped"),
    (
        "an answer that is no text",
        one_turn(answers_with({"payload": {"a": 1}})),
        None,
        "",
        3,
        "all of it is skipped",
    ),
    (
        "no variables",
        one_turn(answers_with({"payload": {}}), {"expectation": {"updatedVariables": {}}}),
        None,
        "",
        3,
        "all of it is skipped",
    ),
    (
        "every metric is off",
        one_turn(call("nope"), answers_with({"text": "x"})),
        METRICS_OFF,
        "",
        3,
        "all of it is",
    ),
    (
        "an enum that is none",
        one_turn(literal("desk", comparisonType="CONTAIN")),
        None,
        "",
        2,
        "mean `CONTAINS`",
    ),
]


@pytest.mark.parametrize(
    ("evaluation", "app", "fault", "code", "told"),
    [row[1:] for row in RUNS],
    ids=[row[0] for row in RUNS],
)
def test_goldens_on_the_command_protocol(
    tmp_path: Path,
    evaluation: dict[str, Any],
    app: dict[str, Any] | None,
    fault: str,
    code: int,
    told: str,
) -> None:
    root = desk_repository(tmp_path, evaluation, app=app)
    found, said = run(root, fault=fault)
    assert found == code, said
    comment = root / "evalgate-report/comment.md"
    assert told in said + (comment.read_text() if comment.exists() else "")


def test_accept_leaves_an_evaluation_as_it_is(tmp_path: Path) -> None:
    root = desk_repository(tmp_path, desk_golden())
    assert run(root, fault="weeks")[0] == 1
    before = (root / "evaluations" / "desk" / "desk.json").read_bytes()
    done = forked_command.run(["accept", "--yes"], cwd=root, env=dict(os.environ), timeout=60)
    assert "it is a CES evaluation" in done.stdout + done.stderr
    assert (root / "evaluations" / "desk" / "desk.json").read_bytes() == before


# --- other drivers --------------------------------------------------------------------------------

PYTHON_AGENT = """
def answer(text, messages, state):
    if "welcome" in text:
        return {"text": f"The {state['branch'].title()} desk."}
    state["asked"] = text
    told = [each["text"] for each in messages if each["role"] == "model"]
    return {"text": f"You were told: {told[-1]} ({state.get('caller', 'nobody')})"}
"""


def spoken(*turns: tuple[str, str], variables: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Turns of words alone: what the user says, and what the answer holds."""
    made = []
    for number, (text, answer) in enumerate(turns):
        given = [{"userInput": {"variables": variables[number]}}] if number in variables else []
        made.append({"steps": [*given, {"userInput": {"text": text}}, literal(answer)]})
    return {"displayName": "desk", "golden": {"turns": made}}


def test_a_python_callable_takes_what_was_to_be_said_before(tmp_path: Path) -> None:
    # the expected answer of the first turn is what the second one is told, and not the agent's own
    asked = spoken(
        ("welcome", "Harbour desk."), ("And?", "You were told: Harbour desk. (Ines)"),
        variables={0: {"branch": "harbour"}, 1: {"caller": "Ines"}},
    )  # fmt: skip
    root = desk_repository(tmp_path, asked)
    (root / "callable.py").write_text(PYTHON_AGENT)
    rule = {"driver": "python", "call": "callable:answer"}
    (root / "evalgate.yml").write_text(yaml.safe_dump({"agents": [rule]}))
    code, said = run(root)
    assert code == 0, said


def test_an_endpoint_that_is_given_the_messages(tmp_path: Path, judge: Judge) -> None:
    asked = spoken(
        ("welcome", "Harbour desk."), ("And?", "2 earlier, the last Harbour desk."), variables={}
    )
    root = desk_repository(tmp_path, asked)
    url = f"http://127.0.0.1:{judge.server_address[1]}/desk"
    rule = {
        "driver": "http",
        "url": url,
        "request": {"messages": "{messages}"},
        "response": {"text": "text"},
    }
    (root / "evalgate.yml").write_text(yaml.safe_dump({"agents": [rule]}))
    code, said = run(root)
    assert code == 0, said
    assert "matches no evaluation file" not in said
    # of this endpoint's tools nothing is known, so that none of them is a pass
    evaluation = json.loads((root / "evaluations" / "desk" / "desk.json").read_text())
    evaluation["golden"]["turns"][0]["steps"].append({"expectation": {"noToolCalls": True}})
    (root / "evaluations" / "desk" / "desk.json").write_text(json.dumps(evaluation))
    code, said = run(root)
    assert code == 3, said
    # its tools cannot be intercepted: nothing is run where they would have to be
    (root / "evaluations" / "desk" / "desk.json").write_text(json.dumps(desk_golden()))
    code, said = run(root)
    assert code == 2, said
    assert "mocks tools, and evalgate cannot intercept those of the driver `http`" in said


def test_adk_takes_variables_and_another_agent_in_the_middle_of_a_session(
    tmp_path: Path, judge: Judge
) -> None:
    root = repository(tmp_path, judge, agent="adk", names=())
    transfer = {"agentTransfer": {"targetAgent": f"{APP}/agents/loans"}}
    turns = [
        [{"userInput": {"text": "welcome"}}, literal("How can I help?")],
        # without the transfer, the desk would call `transfer_to_agent` first, and find_loan is its
        # own no more
        [
            transfer,
            {"userInput": {"variables": {"branch": "harbour"}}},
            {"userInput": {"text": "Please renew it."}},
            call("find_loan", patron_id="P-2041"),
            answers("find_loan", loan_id="L-12"),
            {"expectation": {"updatedVariables": {"branch": "harbour"}}},
            literal("I found L-12"),
        ],
    ]
    (root / "evaluations" / "desk").mkdir(parents=True)
    evaluation = {"displayName": "desk", "golden": {"turns": [{"steps": steps} for steps in turns]}}
    (root / "evaluations" / "desk" / "desk.json").write_text(json.dumps(evaluation))
    (root / "app.json").write_text(json.dumps(NAIVE))
    code, said = run(root)
    assert code == 0, said
    results = (root / "evalgate-report/results.json").read_text()
    assert set(re.findall(r'"function_call": ?{[^}]*"name": ?"(\w+)"', results)) == {"find_loan"}


def test_no_evaluation_is_no_pass(tmp_path: Path) -> None:
    """The anchor is green where it finds none."""
    root = desk_repository(tmp_path, desk_golden())
    (root / "evaluations" / "desk" / "desk.json").unlink()
    code, said = run(root)
    assert code == 4, said
    # a tool test is none that a driver can run
    (root / "tests.yml").write_text("tests:\n  - name: a\n    tool: find_loan\n    args: {id: 1}\n")
    code, said = run(root)
    assert code == 4, said
    assert "nothing that evalgate runs was found, only 1 CES evaluation" in said


def test_what_applies_and_cannot_be_read_stops_also_the_run_of_one_evaluation(
    tmp_path: Path,
) -> None:
    """With the defaults in its place, less than the app asks for would be a pass."""
    behavior = {"evaluationMetricsThresholds": {"goldenHallucinationMetricBehavior": "ENABLE"}}
    root = desk_repository(tmp_path, desk_golden(), app=behavior)
    code, said = run(root, "evaluations/desk")
    assert code == 2, said
    assert "app.json:1" in said
    (root / "app.json").write_text(json.dumps({"displayName": "desk", **THRESHOLDS}))
    (root / "app.yaml").write_text("evaluationSettings:\n  goldenRunMethod: NAIVE\n")
    code, said = run(root, "evaluations/desk")
    assert code == 2, said
    assert "app.json says already what applies" in said


def test_an_evaluation_that_is_not_text_is_not_run_and_told(tmp_path: Path) -> None:
    evaluation = desk_golden()
    evaluation["golden"]["turns"][0]["steps"][1]["userInput"] = {"dtmf": "1"}
    root = desk_repository(tmp_path, evaluation)
    code, said = run(root)
    assert code == 4, said
    assert "`dtmf` is not text" in said
    # who names it wants to know how it ends
    named = run(root, "evaluations/desk/desk.json")
    assert named[0] == 3, named[1]
    assert "is not run: `dtmf` is not text" in (root / "evalgate-report/comment.md").read_text()


@pytest.mark.parametrize(
    ("file", "text", "code", "said"),
    [
        # flow style, a typing error, a head longer than what is looked at first
        (
            "evaluations/flow/flow.yaml",
            "{displayName: flow, golden: {turns: [}",
            3,
            "evaluations/flow/flow.yaml:1",
        ),
        (
            "evaluations/typo/typo.yaml",
            "name: x\ngoldn:\n  turns: []\n",
            3,
            "evaluations/typo/typo.yaml",
        ),
        (
            "evaluations/long/long.json",
            '{"note": "' + "x" * 70_000 + '", "golden": 1}',
            3,
            "evaluations/long/long.json",
        ),
        # beside the layout, too
        ("evaluations/notes.yaml", "who: us\n", 3, "evaluations/notes.yaml:1:1 (who): error"),
        (
            "evaluations/desk/notes.json",
            '{"who": "us"}',
            3,
            "evaluations/desk/notes.json:1:2 (who): error",
        ),
        ("evaluations/list.yaml", "- displayName: x\n", 3, "expected an object, found a list"),
        ("evaluations/cut.json", '{"displayName": "x', 3, "it is truncated"),
        # of no app: another program's
        ("other/evaluations/x/x.json", '{"goldn": 1}', 0, ""),
    ],
)
def test_every_file_among_evaluations_is_read_or_named(
    tmp_path: Path, file: str, text: str, code: int, said: str
) -> None:
    root = desk_repository(tmp_path, desk_golden())
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text)
    found, told = run(root)
    assert (found, said in told) == (code, True), told
    assert said or file not in told


SIMULATION = """
evals:
  - name: lost_card
    steps:
      - {goal: The card is blocked., success_criteria: The agent says so.}
      - {goal: A branch is named., success_criteria: The agent names one.}
    expectations: [The agent is polite.]
"""


@pytest.mark.parametrize(
    ("worst", "code", "value"),
    [("words that no prompt has", 0, 1.0), ("A branch is named", 1, 0.0)],
)
def test_a_simulation_with_ordered_goals(
    tmp_path: Path, judge: Judge, worst: str, code: int, value: float
) -> None:
    root = repository(tmp_path, judge, names=())
    (root / "evals").mkdir()
    (root / "evals" / "cards.yaml").write_text(SIMULATION)
    judge.worst = worst
    found, said = run(root)
    assert found == code, said
    assert grades(root)["ces_goals"]["value"] == value
    assert "ces_user_goal" not in grades(root)


def moved(root: Path) -> None:
    (root / "elsewhere").mkdir()
    repositories.git(root, "mv", "evaluations/desk", "elsewhere/desk")


def replaced(file: str, old: str, new: str) -> Callable[[Path], None]:
    def change_it(root: Path) -> None:
        text = (root / file).read_text()
        assert old in text
        (root / file).write_text(text.replace(old, new, 1))

    return change_it


def written(file: str, content: dict[str, Any]) -> Callable[[Path], None]:
    return lambda root: (root / file).write_text(json.dumps(content)) and None


def renewals_skipped(root: Path) -> None:
    renewed = json.dumps(call("renew_loan", loan_id="L-12", weeks=3)["expectation"])
    for file in (DESK, OTHER):
        replaced(file, renewed, f'{renewed[:-1]}, "skipEvaluation": true}}')(root)


DESK, OTHER = "evaluations/desk/desk.json", "evaluations/other/other.json"
CHANGES: list[tuple[str, Callable[[Path], None], str, int, str]] = [
    # what a change does, the desk's fault on its side, the exit code, and what the comment tells
    ("a lower threshold", written(DESK, desk_golden(evaluationMetricsThresholdOverride=LENIENT)), "", 0,
     "toolInvocationParam"),
    ("a lower threshold of the app", written("app.json", {"displayName": "desk", **THRESHOLDS}), "", 0,
     "Threshold"),
    ("no app", lambda root: (root / "app.json").unlink(), "", 0, "-> (not set)"),
    ("an evaluation is gone", lambda root: (root / DESK).unlink(), "", 0, f"evaluation file `{DESK}` deleted"),
    ("an evaluation is called otherwise", replaced(DESK, '"displayName": "desk"', '"displayName": "d"'), "", 3,
     "this change no longer evaluates desk, which the base evaluates in this file"),
    # in another folder it fails as before, and is no new case
    ("an evaluation is in another folder", moved, "weeks", 1, "2 pre-existing"),
    ("an evaluation that is not text any more", replaced(DESK, '{"event": {"event": "welcome"}}', '{"dtmf": "1"}'), "",
     3, "this change no longer evaluates desk, which the base evaluates in this file"),
    ("an evaluation is excluded", replaced("evalgate.yml", "env:", 'exclude: ["evaluations/desk/**"]\nenv:'), "", 0,
     "`evalgate.yml` (+1, -0)"),
    ("an evaluation that cannot be read", replaced(DESK, '"golden"', '"bogus": 1, "golden"'), "", 3, "unknown key"),
    ("what fails is skipped", renewals_skipped, "weeks", 0, "skipEvaluation: (not set) -> true"),
    ("metrics are off", written("app.json", {"displayName": "desk", **METRICS_OFF}), "", 0,
     "semanticSimilarity"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "fault", "code", "told"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES]
)
def test_what_a_change_takes_away_is_told(
    tmp_path: Path, make: Callable[[Path], None], fault: str, code: int, told: str
) -> None:
    strict = {"turnLevelMetricsThresholds": {"semanticSimilaritySuccessThreshold": 4}}
    app = {"evaluationMetricsThresholds": {"goldenEvaluationMetricsThresholds": strict}}
    root = desk_repository(tmp_path, desk_golden(), app=app)
    (root / "evaluations" / "other").mkdir()
    (root / OTHER).write_text(json.dumps({**desk_golden(), "displayName": "other"}))
    repositories.git(root, "init", "-q", "-b", "main")
    (root / ".gitignore").write_text("evalgate-report/\ncache/\n")
    repositories.git(root, "add", "-A")
    repositories.git(root, "commit", "-qm", "base")
    make(root)
    repositories.git(root, "add", "-A")
    repositories.git(root, "commit", "-qm", "change")
    found, said = run(root, "--base", "HEAD~1", fault=fault)
    assert found == code, said
    assert "has no effect" not in said
    comment = (root / "evalgate-report/comment.md").read_text()
    assert told in comment, comment
    # evaluations are no part of the agent
    assert "**Agent changed**: `evaluations" not in comment


def test_what_is_kept_is_enough_to_score_it_again(tmp_path: Path) -> None:
    """A resumed run knows the variables of every turn, and `report` which criteria decide on a
    case."""
    root = desk_repository(tmp_path, desk_golden())
    assert run(root)[0] == 0
    code, said = run(root, "--resume")
    assert code == 0, said
    done = forked_command.run(
        ["report", "evalgate-report/results.json"], cwd=root, env=dict(os.environ), timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    states = [each["outcome"]["states"] for each in trials_in(root)]
    assert states[0][2]["last_renewed_loan"] == "L-12"


def trials_in(root: Path) -> list[dict[str, Any]]:
    results = json.loads((root / "evalgate-report/results.json").read_text())
    return [
        trial for suite in results["suites"] for case in suite["cases"] for trial in case["trials"]
    ]
