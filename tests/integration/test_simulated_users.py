"""`evalgate run` on conversation scenarios: real agents, the real google-genai client, a local
server, no internet.

The server plays the user and judges it: what it says to the agent's n-th answer is the n-th line of
a script."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import forked_command, gemini_double
from builders.gemini_double import GeminiDouble

from tests.integration.agents.line_client import forked_adk

pytestmark = pytest.mark.integration

QUALITY = "per_turn_user_simulator_quality_v1"
TALK = ("For two.", "At seven.", "Thank you! </finished>")

COMMAND_AGENT = """
import json, sys

ANSWERS = ["For how many?", "At what time?", "Your table is booked.", "Anything else?"]
turns = {}
for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session")
    def say(type, **more):
        print(json.dumps({"type": type, **({"session": session} if session else {}), **more}), flush=True)
    match message["type"]:
        case "hello": say("ready", protocol=1, sessions=8)
        case "start": turns[session] = 0; say("started")
        case "turn":
            answer = ANSWERS[min(turns[session], 3)]
            turns[session] += 1
            say("event", author="desk", final=True, content={"role": "model", "parts": [{"text": answer}]})
            say("turn_end")
        case "end": say("ended", state={"turns": turns.pop(session)})
        case "bye": break
"""

ADK_AGENT = """
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

ANSWERS = ["For how many?", "At what time?", "Your table is booked.", "Anything else?"]


class AsksBack(BaseLlm):
    model: str = "asks-back"

    async def generate_content_async(self, llm_request, stream=False):
        said = sum(content.role == "user" for content in llm_request.contents)
        part = types.Part(text=ANSWERS[min(said - 1, 3)])
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


root_agent = LlmAgent(name="desk", model=AsksBack(), instruction="Book tables.")
"""


PYTHON_AGENT = """
ANSWERS = ["For how many?", "At what time?", "Your table is booked.", "Anything else?"]

class Desk:
    turns = 0

    def __call__(self, text):
        self.turns += 1
        return ANSWERS[min(self.turns, 4) - 1]
"""


def as_planned(answers: int, prompt: str) -> str:
    """What the user says when all goes well."""
    return TALK[answers - 1]


class Gemini(GeminiDouble):
    """Plays the user by `talk` (the text for the number of answers so far and the prompt), judges
    it by `verdict`.

    `status`: of every answer; `broken`: words in a prompt that is answered with 500 instead.
    """

    def __init__(self) -> None:
        self.talk: Callable[[int, str], str] = as_planned
        self.broken = ""
        self.verdict = "valid"
        self.scenarios = ""
        self.asked_for: list[str] = []
        self.played = self.judged = 0
        self.lock = threading.Lock()
        super().__init__()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "/desk":  # the agent behind a URL
            return 200, {"text": WHOLE[body["turn"] - 1][1]}
        if self.broken and self.broken in json.dumps(body):
            return gemini_double.failed(500)
        return super().answer(path, body)

    def reply(self, body: dict[str, Any]) -> str:
        system = body["systemInstruction"]["parts"][0]["text"]
        prompt = body["contents"][0]["parts"][0]["text"]
        if "You design tests" in system:
            self.asked_for.append(prompt)
            return self.scenarios
        plays = "You play a user" in system
        with self.lock:
            self.played += plays
            self.judged += not plays
        if plays:
            return self.talk(prompt.count('\n{"agent":'), prompt)
        if '"verdicts"' in json.dumps(body["generationConfig"]):  # of several properties
            holds = {"evidence": "", "rationale": "So.", "verdict": "yes"}
            return json.dumps(
                {"verdicts": [{"id": f"P{number}", **holds} for number in range(1, 4)]}
            )
        return json.dumps({"rationale": "It follows the plan.", "verdict": self.verdict})


@pytest.fixture
def gemini() -> Iterator[Gemini]:
    with gemini_double.served(Gemini()) as server:
        yield server


def repository(
    root: Path,
    gemini: Gemini,
    *,
    agent: str = "command",
    personas: tuple[str | None, ...] = (None,),
    prompts: tuple[str, ...] = (),
    criteria: dict[str, Any] | None = None,
    simulator: dict[str, Any] | None = None,
    rule: dict[str, Any] | None = None,
) -> Path:
    (root / "desk").mkdir(exist_ok=True)
    code = {"command": COMMAND_AGENT, "adk": ADK_AGENT, "python": PYTHON_AGENT, "http": ""}[agent]
    (root / "desk" / "agent.py").write_text(code)
    run: dict[str, Any]
    match agent:
        case "adk":
            run = {"driver": "adk", "path": "desk", "python": forked_adk("new")}
        case "python":
            run = {"driver": "python", "call": "desk.agent:Desk"}
        case "http":
            answer = {"request": {"turn": "{turn}", "text": "{text}"}, "response": {"text": "text"}}
            run = {"driver": "http", "url": gemini.url.replace("/v1beta", "/desk"), **answer}
        case _:
            run = {"driver": "command", "command": [sys.executable, "desk/agent.py"]}
    judge = {"base_url": gemini.url, "api_key_env": "MY_KEY", "deadline": 4}
    gate = {"agents": [run], "judge": judge, "simulator": rule or {}, "threshold": "all"}
    (root / "evalgate.yml").write_text(yaml.safe_dump(gate))
    config: dict[str, Any] = {"criteria": criteria or {QUALITY: {"threshold": 0.8}}}
    if simulator is not None:
        config["user_simulator_config"] = simulator
    (root / "test_config.json").write_text(json.dumps(config))
    cases = []
    for number, (persona, prompt) in enumerate(
        itertools.zip_longest(personas, prompts or ["A table, please."] * len(personas))
    ):
        scenario = {"starting_prompt": prompt, "conversation_plan": "For two, at seven."}
        scenario |= {"user_persona": persona} if persona else {}
        cases.append({"eval_id": f"case_{number}", "conversation_scenario": scenario})
    (root / "desk.evalset.json").write_text(
        json.dumps({"eval_set_id": "desk", "eval_cases": cases})
    )
    return root


def run(root: Path, *arguments: str, command: str = "run") -> tuple[int, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GOOGLE_", "GEMINI_"))
    }
    words = [command, "--cache", str(root / "cache"), *arguments]
    done = forked_command.run(
        words, cwd=root, env={**inherited, "MY_KEY": "a-secret-key"}, timeout=180
    )
    return done.returncode, done.stdout + done.stderr


def outcomes(root: Path) -> list[dict[str, Any]]:
    results = json.loads((root / "evalgate-report/results.json").read_text())
    return [case["trials"][0]["outcome"] for case in results["suites"][0]["cases"]]


def dialogue(outcome: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (turn["user_content"]["parts"][0]["text"], turn["final_response"]["parts"][0]["text"])
        for turn in outcome.get("invocations", outcome.get("partial", []))
    ]


WHOLE = [
    ("A table, please.", "For how many?"),
    ("For two.", "At what time?"),
    ("At seven.", "Your table is booked."),
]


@pytest.mark.parametrize("agent", ["python", "http"])
def test_a_conversation_is_led_with_agents_of_other_kinds(
    tmp_path: Path, gemini: Gemini, agent: str
) -> None:
    root = repository(tmp_path, gemini, agent=agent)
    code, said = run(root)
    assert code == 0, said
    (only,) = outcomes(root)
    assert (dialogue(only), only["ended_by"]) == (WHOLE, "stop_signal")


@pytest.mark.parametrize("agent", ["command", "adk"])
def test_a_conversation_is_led_to_its_end_and_then_again_without_a_call(
    tmp_path: Path, gemini: Gemini, agent: str
) -> None:
    root = repository(tmp_path, gemini, agent=agent, personas=(None, "NOVICE"))
    code, said = run(root, "--runs", "2")
    assert code == 0, said
    first = outcomes(root)
    assert [dialogue(each) for each in first] == [WHOLE, WHOLE]
    assert [each["ended_by"] for each in first] == ["stop_signal"] * 2
    assert gemini.played == 2 * 2 * 3  # repeats have users of their own
    # two messages and the end, three samples each; each repeat for itself
    assert gemini.judged == 2 * 2 * 3 * 3
    # the agent talks anew, its users and judges are remembered
    code, said = run(root, "--runs", "2", "--fresh")
    assert code == 0, said
    assert [dialogue(each) for each in outcomes(root)] == [WHOLE, WHOLE]
    assert (gemini.played, gemini.judged) == (2 * 2 * 3, 2 * 2 * 3 * 3)
    assert uses(root)["user_simulator"]["cached"] == 2 * 2 * 3
    written = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert b"a-secret-key" not in written
    if agent == "command":
        assert run(root, "--seed", "1")[0] == 0  # another seed: others
        assert gemini.played == 2 * 2 * 3 + 2 * 3


def test_with_a_base_the_user_is_asked_once_until_the_conversations_part(
    tmp_path: Path, gemini: Gemini
) -> None:
    """Head's agent does not ask for the time, and its user never comes to an end."""

    def talk(answers: int, prompt: str) -> str:
        return f"Not at six! ({answers})" if "at six" in prompt else TALK[answers - 1]

    gemini.talk = talk
    success = "multi_turn_task_success_v1"
    criteria = {"conversation_ended": 1.0, success: {"threshold": 0.5, "judge": "llm"}}
    limit = {"max_allowed_invocations": 4}
    root = repository(tmp_path, gemini, criteria=criteria, simulator=limit)
    (root / ".gitignore").write_text("cache/\nevalgate-report/\n")
    git = (
        "git",
        "-C",
        str(root),
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@t.example",
        "-c",
        "commit.gpgsign=false",
    )
    for command in (
        ("init", "-qb", "main"),
        ("add", "-A"),
        ("commit", "-qm", "base"),
        ("checkout", "-qb", "change"),
    ):
        subprocess.run([*git, *command], check=True, capture_output=True)
    (root / "desk/agent.py").write_text(
        COMMAND_AGENT.replace("At what time?", "Booked for two, at six.")
    )
    subprocess.run([*git, "commit", "-qam", "change"], check=True, capture_output=True)

    code, said = run(root, "--base", "main")
    assert code == 1, said
    (outcome,) = outcomes(root)
    assert (len(outcome["invocations"]), outcome["ended_by"]) == (4, "turn_limit")
    # "For two." for both; the base's "At seven." and end; head's two complaints, and once more at
    # the limit
    assert gemini.played == 1 + 2 + 3
    assert (uses(root)["user_simulator"]["calls"], uses(root)["user_simulator"]["cached"]) == (6, 1)
    results = json.loads((root / "evalgate-report/results.json").read_text())
    (case,) = results["suites"][0]["cases"]
    assert case["trials"][0]["grades"][success]["value"] == 1.0  # judged as one conversation
    assert uses(root)[success]["calls"] == 2 * 3  # each side's, three of five samples
    comment = (root / "evalgate-report/comment.md").read_text()
    assert "The conversations diverge in turn 2; from turn 3 on" in comment
    assert (
        "The conversations diverge in turn 2" in (root / "evalgate-report/report.html").read_text()
    )


def uses(root: Path) -> dict[str, dict[str, Any]]:
    """What was asked of models, by who asked."""
    results = json.loads((root / "evalgate-report/results.json").read_text())
    return {use["criterion"]: use for use in results["judges"]}


def test_a_simulator_that_fails_is_no_failure_of_the_agent_and_is_asked_again_on_resuming(
    tmp_path: Path, gemini: Gemini
) -> None:
    def talk(answers: int, prompt: str) -> str:
        return "" if "silently" in prompt and answers == 2 else TALK[answers - 1]

    gemini.talk, gemini.broken = talk, "Broken"
    root = repository(
        tmp_path, gemini, prompts=("A table, silently.", "Broken table.", "A table, please.")
    )
    code, said = run(root)
    assert code == 3, said
    assert "NOT MEASURED" in said
    silent, broken, well = outcomes(root)
    assert (silent["kind"], broken["kind"]) == ("simulator", "simulator")
    assert "empty" in silent["message"]
    assert "server_error" in broken["message"]
    assert ([len(dialogue(each)) for each in (silent, broken, well)]) == [2, 1, 3]
    told = (root / "evalgate-report/comment.md").read_text()
    assert "simulated user" in told
    assert "agent failed" not in told
    gemini.talk, gemini.broken = as_planned, ""
    code, said = run(root, "--resume")
    assert code == 0, said


ENDS = {
    "First.": (["</finished>"], 1),  # in its first reply: one turn
    # it goes on
    "Quoted.": (['Mail me "</finished>" when you are done, please.', "</finished>"], 2),
    "Loud.": (["Bye </FINISHED> bye"], 1),
    "Endless.": ([f"And more, number {number}." for number in range(5)], 4),
}


def test_where_a_conversation_ends_and_that_skipping_judges_does_not_silence_the_user(
    tmp_path: Path, gemini: Gemini
) -> None:
    def talk(answers: int, prompt: str) -> str:
        (begun,) = [name for name in ENDS if name in prompt]
        return ENDS[begun][0][answers - 1]

    gemini.talk = talk
    root = repository(
        tmp_path,
        gemini,
        prompts=tuple(ENDS),
        simulator={"max_allowed_invocations": 4},
        rule={"on_turn_limit": "not_measured"},
    )
    code, said = run(root, "--skip-judged")
    assert code == 3, said  # skipped is not passed
    assert gemini.judged == 0
    found = [(len(each["invocations"]), each["ended_by"]) for each in outcomes(root)]
    assert found == [
        (turns, "turn_limit" if turns == 4 else "stop_signal") for _, turns in ENDS.values()
    ]


def test_a_poor_simulator_makes_the_case_unmeasured(tmp_path: Path, gemini: Gemini) -> None:
    gemini.verdict = "invalid"
    # the latter fails for certain, and says nothing here
    criteria = {QUALITY: 0.8, "final_session_state": 1.0}
    root = repository(tmp_path, gemini, criteria=criteria)
    sets = json.loads((root / "desk.evalset.json").read_text())
    sets["eval_cases"][0]["final_session_state"] = {"turns": 99}
    (root / "desk.evalset.json").write_text(json.dumps(sets))
    code, said = run(root)
    assert code == 3, said
    assert "invalid test run" in (root / "evalgate-report/comment.md").read_text()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"personas": ("NOVISE",), "simulator": {"max_allowed_invocations": 0}},
            ["NOVISE", "did you mean `NOVICE`?", "never called"],
        ),
        ({"criteria": {"response_match_score": 0.8}}, ["criterion-needs-reference"]),
    ],
)
def test_what_cannot_work_is_told_before_anything_runs(
    tmp_path: Path, gemini: Gemini, given: dict[str, Any], words: list[str]
) -> None:
    root = repository(tmp_path, gemini, **given)
    code, said = run(root)
    assert code == 2, said
    assert all(word in said for word in words), said
    assert gemini.played == gemini.judged == 0
    assert not (root / "evalgate-report").exists()


def test_without_credentials_nothing_is_run(tmp_path: Path, gemini: Gemini) -> None:
    root = repository(tmp_path, gemini)
    gate = yaml.safe_load((root / "evalgate.yml").read_text())
    gate["judge"]["api_key_env"] = "ANOTHER_KEY"
    (root / "evalgate.yml").write_text(yaml.safe_dump(gate))
    code, said = run(root, "--skip-judged")
    assert code == 2, said
    assert "simulator-credentials" in said


def test_a_recording_plays_the_user_without_an_account(tmp_path: Path, gemini: Gemini) -> None:
    root = repository(tmp_path, gemini)
    gate = yaml.safe_load((root / "evalgate.yml").read_text())
    (root / "evalgate.yml").write_text(
        yaml.safe_dump(gate | {"judge": gate["judge"] | {"record": "replies.jsonl"}})
    )
    assert run(root)[0] == 0
    asked = gemini.played + gemini.judged
    (root / "evalgate.yml").write_text(
        yaml.safe_dump(gate | {"judge": {"replay": "replies.jsonl"}})
    )
    code, said = run(root, "--cache", str(tmp_path / "another"))
    assert code == 0, said
    assert gemini.played + gemini.judged == asked


# --- evalgate generate ----------------------------------------------------------------------------

WRITTEN = [
    {
        "starting_prompt": "A table, please.",
        "conversation_plan": "For two, at seven.",
        "user_persona": "NOVICE",
    },
    {
        "starting_prompt": "I want to eat.",
        "conversation_plan": "Alone, at eight.",
        "user_persona": "nobody",
    },
    {"starting_prompt": "", "conversation_plan": "no prompt"},
]


@pytest.mark.parametrize("agent", ["command", "adk"])
def test_scenarios_are_generated_reviewed_and_run(
    tmp_path: Path, gemini: Gemini, agent: str
) -> None:
    gemini.scenarios = json.dumps({"scenarios": WRITTEN})
    root = repository(tmp_path, gemini, agent=agent)
    code, said = run(root, "--count", "2", "--instruction", "Only dinners.", command="generate")
    assert code == 0, said
    (file,) = (root / "generated").glob("scenarios_*.evalset.json")
    before = file.read_bytes()
    cases = json.loads(before)["eval_cases"]
    assert [case["conversation_scenario"]["starting_prompt"] for case in cases] == [
        "A table, please.",
        "I want to eat.",
    ]
    assert [case["conversation_scenario"].get("user_persona") for case in cases] == ["NOVICE", None]
    (prompt,) = gemini.asked_for
    assert "Only dinners." in prompt
    assert "For how many?" in prompt  # what the agent says of itself
    # its instructions, where its driver tells
    assert ("Book tables." in prompt) is (agent == "adk")
    if agent == "adk":  # what follows is the same for every agent
        return
    code, said = run(root, "--count", "2", "--instruction", "Only dinners.", command="generate")
    assert code == 2, said
    assert "exists already" in said
    assert file.read_bytes() == before
    (root / "generated/test_config.json").write_text(json.dumps({"criteria": {QUALITY: 0.8}}))
    code, said = run(root, str(file))
    assert code == 0, said


@pytest.mark.parametrize(("scenarios", "status"), [("Sorry, no.", 200), ("", 403)])
def test_a_model_that_writes_nothing_leaves_no_file(
    tmp_path: Path, gemini: Gemini, scenarios: str, status: int
) -> None:
    gemini.scenarios, gemini.status = scenarios, status
    root = repository(tmp_path, gemini)
    code, said = run(root, command="generate")
    assert code == 3, said
    assert not (root / "generated").exists()


def test_scenarios_for_an_agent_that_is_not_there(tmp_path: Path, gemini: Gemini) -> None:
    root = repository(tmp_path, gemini)
    (root / "desk/agent.py").write_text("raise SystemExit(3)")
    code, said = run(root, command="generate")
    assert code == 3, said
    assert gemini.asked_for == []
