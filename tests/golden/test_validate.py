"""What `evalgate validate` says of broken repositories, word for word: messages are our interface.

`make golden` rewrites the files in validate/; the diff is to be read.
"""

import json
from pathlib import Path

import pytest

from evalgate.config import load
from evalgate.config.gate_file import JudgeRule
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.discovery import discover, lint
from evalgate.errors import NothingToDo

HERE = Path(__file__).parent / "validate"
AGENT = "from google.adk.agents import Agent\nroot_agent = Agent(name='bot', model='m')\n"


def case(
    case_id, said="Where is my parcel?", answer="On its way.", tools=("track",), app="bot", **rest
):
    turn = {"user_content": {"role": "user", "parts": [{"text": said}]}}
    if answer:
        turn["final_response"] = {"role": "model", "parts": [{"text": answer}]}
    if tools:
        turn["intermediate_data"] = {
            "tool_uses": [{"name": name, "args": {"of": said}} for name in tools]
        }
    made = {"eval_id": case_id, "conversation": [turn], **rest}
    if app:
        made["session_input"] = {"app_name": app, "user_id": "u"}
    return made


def evalset(set_id, *cases):
    return {"eval_set_id": set_id, "eval_cases": list(cases)}


def scenario(case_id):
    plan = {"starting_prompt": "Hello", "conversation_plan": "Ask for a refund."}
    return {"eval_id": case_id, "conversation_scenario": plan}


SOUND = evalset("a", case("one"), case("two", "And the other one?"))
CONFIG = {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.7}}
BAD_SCENARIO = {
    "starting_prompt": "Hi </finished>",
    "conversation_plan": " ",
    "user_persona": "NOVICE",
}
BOT = {"bot/agent.py": AGENT, "bot/__init__.py": "from . import agent\n"}


def config(**criteria_given):
    return {"criteria": criteria_given}


REPOSITORIES = {
    # nothing to say
    "sound": {**BOT, "evals/a.evalset.json": SOUND, "evals/test_config.json": CONFIG},
    # no evaluation file, but one that git ignores and one under another name
    "nothing_found": {
        **BOT,
        ".gitignore": "*.evalset.json\n",
        "evals/a.evalset.json": SOUND,
        "evals/gold.json": SOUND,
    },
    # criteria in a file that ADK's tools are only told of
    "criteria_elsewhere": {
        **BOT,
        "evals/sets/a.evalset.json": SOUND,
        "evals/eval_config.json": CONFIG,
    },
    "default_criteria_plain": {
        **BOT,
        "a.evalset.json": SOUND,
        "b.evalset.json": evalset("b", case("x", "Hi")),
    },
    # configs that assert nothing
    "asserts_nothing": {
        **BOT,
        "one/a.evalset.json": SOUND,
        "one/test_config.json": {"metrics": [{"name": "response_match_score", "threshold": 0.8}]},
        "two/b.evalset.json": evalset("b", case("x", "Hi")),
        "two/test_config.json": {"criteria": {}},
        "three/c.evalset.json": evalset("c", case("x", "Hello")),
        "three/test_config.json": config(token_usage_v1={}),
    },
    # names and thresholds
    "criteria": {
        **BOT,
        "evals/a.evalset.json": SOUND,
        "evals/test_config.json": config(
            TOOL_TRAJECTORY_AVG_SCORE=1.0,
            response_match_score=7.0,
            final_session_state=0,
            per_turn_user_simulator_quality_v1=0.8,
            politeness=0.5,
            token_usage_v1=1000,
        ),
    },
    # options
    "options": {
        **BOT,
        "evals/a.evalset.json": SOUND,
        "evals/test_config.json": config(
            tool_trajectory_avg_score={
                "threshold": 1.0,
                "match_typ": "IN_ORDER",
                "ignore_args": "perhaps",
            },
            response_match_score={"threshold": 0.8, "weight": 0.3},
        ),
    },
    # cases
    "cases": {
        **BOT,
        "evals/a.evalset.json": evalset(
            "other",
            case("one"),
            case("one", "Something else"),
            case("silent", said="  "),
            {"eval_id": "empty", "conversation": []},
        ),
        "evals/b.evalset.json": evalset("b"),
        "evals/test_config.json": CONFIG,
    },
    # what criteria compare with
    "references": {
        **BOT,
        "none/a.evalset.json": evalset(
            "a", case("one", answer="", tools=()), case("two", "Hi", answer="", tools=())
        ),
        "some/b.evalset.json": evalset("b", case("one"), case("two", "Hi", answer="", tools=())),
        "any/c.evalset.json": evalset("c", case("one", tools=())),
        "any/test_config.json": config(
            tool_trajectory_avg_score={"threshold": 1.0, "match_type": "in order"}
        ),
        "test_config.json": CONFIG,
    },
    # simulated users
    "scenarios": {
        **BOT,
        "evals/a.evalset.json": evalset("a", scenario("led"), case("written")),
        "evals/test_config.json": CONFIG,
        "talks/b.evalset.json": evalset(
            "b", {"eval_id": "x", "conversation_scenario": BAD_SCENARIO}
        ),
        "talks/test_config.json": {
            "criteria": {"tool_call_count_v1": {}, "conversation_ended": 1},
            "user_simulator_config": {
                "type": "llm_baked",
                "max_invocations": 3,
                "max_allowed_invocations": 0,
                "custom_instructions": "Be a user until {{ stop_signal }}.",
            },
        },
    },
    # no agent, several agents, an app that is none
    "no_agent": {"evals/a.evalset.json": SOUND, "test_config.json": CONFIG},
    "no_agent_for_many": {
        "evals/a.evalset.json": SOUND,
        "evals/b.evalset.json": evalset("b", case("x", "Hi")),
        "test_config.json": CONFIG,
    },
    "ambiguous_agent": {
        "east/bot/agent.py": AGENT,
        "west/bot/agent.py": AGENT,
        "evals/a.evalset.json": SOUND,
        "test_config.json": CONFIG,
    },
    "app_names": {
        **BOT,
        "evals/a.evalset.json": evalset(
            "a", case("one", app="label"), case("two", "Hi", app="other")
        ),
        "test_config.json": CONFIG,
    },
    # criteria within the gate file
    "gate_file": {
        **BOT,
        "evals/a.evalset.json": SOUND,
        "evals/b.evalset.json": evalset("b", case("x", "Hi")),
        "evalgate.yml": "suites:\n"
        "  - match: [evals/a.evalset.json]\n"
        "    criteria: {response_mach_score: 0.8, per_turn_user_simulator_quality_v1: 0.5}\n"
        "  - match: [evals/b.evalset.json]\n    config: nowhere/test_config.json\n",
    },
    # a file that cannot be read hides neither the others nor its config
    "unreadable": {
        **BOT,
        "evals/a.evalset.json": '{"eval_set_id": "a", "eval_cases": [',
        "evals/b.evalset.json": evalset("b", case("x", "Hi")),
        "evals/test_config.json": config(response_match_score=80),
    },
}


def write(root, files):
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            content if isinstance(content, str) else json.dumps(content, indent=2), encoding="utf-8"
        )


def told(root):
    """Everything that is said of the repository, as plain lines."""
    rules = root / "evalgate.yml"
    read = load.parse_gate_file(rules.read_text() if rules.is_file() else "", file="evalgate.yml")
    try:
        settings = Settings(root=root, gate_file=read.gate_file, places=read.places)
        found = discover.discover(settings)
    except NothingToDo as error:
        return (
            "\n".join(
                [f"nothing to do: {error.message}", f"    {error.hint}", *map(str, error.problems)]
            )
            + "\n"
        )
    settled = judges.settle_suites(found.suites, JudgeRule())
    unasked = judges.missing(settled, JudgeRule(), {})
    problems = (*found.problems, *lint.lint(found.suites), *unasked)
    return "".join(f"{problem}\n" for problem in problems)


@pytest.mark.parametrize("name", REPOSITORIES)
def test_what_is_said(name, tmp_path, update_golden):
    write(tmp_path, REPOSITORIES[name])
    text = told(tmp_path)
    golden = HERE / f"{name}.txt"
    if update_golden:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over():
    assert {path.stem for path in HERE.glob("*.txt")} == set(REPOSITORIES)


def test_a_sound_repository_is_told_nothing():
    assert (HERE / "sound.txt").read_text() == ""
