"""Repositories as strangers lay them out: which criteria apply, and what becomes of a file that
nobody can read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from builders.gated_repository import Repository

from tests.integration import test_simulated_users as simulated

pytestmark = pytest.mark.integration

STARTER_PACK_CONFIG = {
    "criteria": {
        "rubric_based_final_response_quality_v1": {
            "threshold": 0.8,
            "judgeModelOptions": {"judgeModel": "gemini-flash-latest", "numSamples": 1},
            "rubrics": [
                {
                    "rubricId": "relevance",
                    "rubricContent": {"textProperty": "The response addresses the query."},
                },
            ],
        }
    }
}
AGENT = {"driver": "command", "command": [sys.executable, "agent.py"]}


def cases(*numbers: int, expects: bool = True) -> dict[str, Any]:
    """Cases that the agent of `Repository` answers as expected; without `expects` only
    questions."""
    listed = []
    for number in numbers:
        turn: dict[str, Any] = {"user_content": {"parts": [{"text": f"question {number}"}]}}
        if expects:
            turn["final_response"] = {"parts": [{"text": f"answer {number}"}]}
        listed.append({"eval_id": f"case_{number}", "conversation": [turn]})
    return {"eval_set_id": "basic", "eval_cases": listed}


@pytest.fixture
def stranger(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.agent("head")
    made.gate_file()
    return made


def put(repository: Repository, files: dict[str, Any]) -> None:
    for name, content in files.items():
        repository.write(name, content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def gemini() -> Iterator[simulated.Gemini]:
    yield from simulated.gemini.__wrapped__()


def test_the_starter_packs_layout(
    stranger: Repository, gemini: simulated.Gemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Criteria above `evalsets/`, under the name that agent-starter-pack gives them."""
    monkeypatch.setenv("MY_KEY", "a-secret-key")
    stranger.gate_file(judge={"base_url": gemini.url, "api_key_env": "MY_KEY", "deadline": 4})
    put(stranger, {"tests/eval/eval_config.json": STARTER_PACK_CONFIG})
    put(stranger, {"tests/eval/evalsets/basic.evalset.json": cases(0, 1, expects=False)})
    code, said = stranger.call("list")
    assert code == 0, said
    assert (
        "criteria  rubric_based_final_response_quality_v1 >= 0.8, from tests/eval/eval_config.json\n"
        in said
    )
    told = "criteria are read from `tests/eval/eval_config.json`; ADK itself reads only test_config.json"
    assert (
        f"tests/eval/eval_config.json: notice: {told} beside evaluation files [criteria-elsewhere]"
        in said
    )
    assert "warning" not in said
    code, said = stranger.run(base="")
    assert (code, gemini.judged > 0) == (0, True), said
    assert "criteria are read from" in stranger.comment()


METRICS = """
metrics_to_run: [words, names_the_case]
custom_metrics:
  - name: words
    custom_function_file: words.py
  - name: names_the_case
    custom_function: |
      def evaluate(instance):
          return {"score": float(instance["eval_case_id"] in instance["topic"])}
"""
WORDS = """
def evaluate(instance):
    said = instance["response"]["parts"][0]["text"].split()
    return {"score": len(said), "explanation": f"{len(said)} words"}
"""
PYTHON_AGENT = {"driver": "python", "call": "bot:reply", "python": sys.executable}
ECHO = "def reply(text):\n    return f'{text}, as you said'\n"


def agents_cli_project(repository: Repository, metrics: str = METRICS) -> None:
    listed = [
        {
            "eval_case_id": f"case_{number}",
            "prompt": {"role": "user", "parts": [{"text": f"question {number}"}]},
            "topic": f"of case_{number}",
        }
        for number in range(12)
    ]
    repository.gate_file(agents=[PYTHON_AGENT])
    put(repository, {"bot.py": ECHO, "tests/eval/datasets/mine.json": {"eval_cases": listed}})
    put(repository, {"tests/eval/eval_config.yaml": metrics, "tests/eval/words.py": WORDS})


def test_a_project_of_agents_cli(stranger: Repository) -> None:
    """Its metrics have no thresholds: without a base nothing decides, with one the base does."""
    agents_cli_project(stranger)
    code, said = stranger.run(base="")
    assert code == 3, said
    told = "have no threshold: only a comparison with a base can decide"
    assert told in said
    assert told in stranger.comment()
    suites = stranger.results()["suites"]
    scores = [
        trial["grades"] for suite in suites for case in suite["cases"] for trial in case["trials"]
    ]
    assert [grade["words"]["value"] for grade in scores] == [5.0] * 12
    assert [grade["names_the_case"]["value"] for grade in scores] == [1.0] * 12
    assert "5 words" in str(scores)


@pytest.mark.parametrize(
    ("reply", "code", "word"),
    [
        ("f'{text}, as you said'", 0, "PASS"),
        # fewer words on every case
        ("'yes'", 1, "FAIL"),
        # a crash where the base answers
        ("1 / 0", 1, "FAIL"),
    ],
)
def test_the_base_decides_what_has_no_threshold(
    stranger: Repository, reply: str, code: int, word: str
) -> None:
    agents_cli_project(stranger)
    stranger.commit("agents-cli")
    stranger.git("checkout", "-q", "-b", "change")
    put(stranger, {"bot.py": f"def reply(text):\n    return {reply}  # changed\n"})
    stranger.commit("change")
    ended, said = stranger.run()
    assert (ended, word in said) == (code, True), said
    if not ended:
        assert "the comparison with the base decides" in stranger.comment()


@pytest.mark.parametrize(
    ("threshold", "code"), [("    threshold: 5\n", 0), ("    threshold: 6\n", 1)]
)
def test_a_metric_with_a_threshold_of_its_own(
    stranger: Repository, threshold: str, code: int
) -> None:
    agents_cli_project(
        stranger, METRICS.replace("  - name: words\n", f"  - name: words\n{threshold}")
    )
    ended, said = stranger.run(base="")
    assert ended == code, said


def test_thresholds_of_the_gate_file(stranger: Repository) -> None:
    agents_cli_project(stranger)
    stranger.gate_file(
        agents=[PYTHON_AGENT],
        suites=[{"match": ["**/mine.json"], "criteria": {"words": 6}}],
    )
    ended, said = stranger.run(base="")
    assert (ended, "words" in said) == (1, True), said


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (
            '{"eval_set_id": "b",\n "eval_cases": [\n<<<<<<< HEAD\n',
            "line 3: unresolved merge conflict",
        ),
        ("", "line 1: the file is empty"),
        (
            [{"role": "user", "parts": []}],
            "line 1: this list is not an evaluation set: found chat messages",
        ),
        (
            {"eval_case_results": []},
            "line 1: this is not an evaluation set: there is no `eval_cases`; found results",
        ),
    ],
)
def test_a_monorepo_with_one_broken_file(stranger: Repository, broken: Any, reason: str) -> None:
    """It is an error of its own suite in every report; the other suite is measured."""
    put(stranger, {"a/desk.evalset.json": cases(0, 1), "b/broken.evalset.json": broken})
    put(stranger, {"a/test_config.json": {"criteria": {"response_match_score": 0.9}}})
    put(stranger, {"b/test_config.json": {"criteria": {"response_match_score": 0.9}}})
    code, said = stranger.run(base="")
    assert (code, stranger.asked("head")) == (3, 2), said
    assert f"not measured: b/broken.evalset.json: {reason}" in said
    assert (
        f"NOT MEASURED: 1 evaluation file could not be evaluated: b/broken.evalset.json: {reason}"
        in said
    )
    assert "2 passed, 0 failed, 0 not measured" in said
    suites = {suite["suite"]: suite for suite in stranger.results()["suites"]}
    assert {key: suite["verdict"] for key, suite in suites.items()} == {
        "a/desk.evalset.json": "pass",
        "b/broken.evalset.json": "not_measured",
    }
    assert suites["b/broken.evalset.json"]["problem"].startswith(reason)
    junit = ET.parse(stranger.root / "evalgate-report/junit.xml").getroot()
    (error,) = junit.iter("error")
    assert (junit.get("tests"), junit.get("errors")) == ("3", "1")
    assert error.get("message", "").startswith(reason)
    assert "1 evaluation file could not be evaluated" in stranger.comment()
    assert "- ⚠️ `b/broken.evalset.json`: " in stranger.comment()
    assert (
        "1 evaluation file could not be evaluated"
        in (stranger.root / "evalgate-report/report.html").read_text()
    )
    # the policy may say otherwise, and the verdict is no pass all the same
    code, said = stranger.run("--fail-on", "threshold", base="")
    assert (code, "NOT MEASURED: 1 evaluation file" in said) == (0, True), said
    code, said = stranger.run("b/broken.evalset.json", base="")
    assert (code, stranger.asked("head")) == (2, 0), said


def test_a_set_without_cases(stranger: Repository) -> None:
    """`adk web` makes them: nothing of them is unknown, unless the change took the cases away."""
    criteria = {"criteria": {"response_match_score": 0.9}}
    put(stranger, {"a/desk.evalset.json": cases(0, 1), "test_config.json": criteria})
    put(stranger, {"b/new.evalset.json": cases(), "b/old.evalset.json": cases(2)})
    stranger.agent("base")
    stranger.commit("base")
    stranger.git("checkout", "-qb", "change")
    stranger.agent("head")
    stranger.commit("head")
    code, said = stranger.run()
    assert (code, stranger.asked("head")) == (0, 3), said
    assert "b/new.evalset.json: warning: the evaluation set has no cases" in said
    assert "could not be evaluated" not in stranger.comment()
    put(stranger, {"b/old.evalset.json": cases()})
    stranger.commit("emptied")
    code, said = stranger.run()
    assert code == 3, said
    assert "b/old.evalset.json: this change no longer evaluates case_2" in said
    code, said = stranger.run("b/new.evalset.json", base="")
    assert code == 2, said
    assert "b/new.evalset.json: error: the evaluation set has no cases" in said


def test_a_file_that_the_change_breaks(stranger: Repository) -> None:
    """Its cases are unknown, not deleted; those of the other file are compared."""
    put(stranger, {"a/desk.evalset.json": cases(0), "b/other.evalset.json": cases(1)})
    put(stranger, {"test_config.json": {"criteria": {"response_match_score": 0.9}}})
    stranger.agent("base")
    stranger.commit("base")
    stranger.git("checkout", "-qb", "change")
    stranger.agent("head")
    stranger.write("b/other.evalset.json", "{")
    stranger.commit("head")
    code, said = stranger.run()
    assert (code, stranger.asked("base"), stranger.asked("head")) == (3, 1, 1), said
    assert "b/other.evalset.json: line 1: the file ends too early" in said
    assert "relaxed" not in said
    assert "only on the base" not in stranger.comment()


def test_only_scenarios_and_no_config(tmp_path: Path, gemini: simulated.Gemini) -> None:
    """Nobody chose ADK's defaults, which compare with turns that a scenario does not have."""
    root = simulated.repository(tmp_path, gemini)
    (root / "test_config.json").unlink()
    code, said = simulated.run(root)
    assert code == 0, said
    told = "no test_config.json next to or above the file, so the defaults apply: multi_turn_task_success_v1 0.8"
    assert f"desk.evalset.json: warning: {told} [default-criteria]" in said
    assert "error" not in said
    assert "desk.evalset.json\n  multi_turn_task_success_v1" in said
    assert "response_match_score" not in said
    assert (gemini.played, gemini.judged > 0) == (3, True)


@pytest.mark.parametrize(("answer", "expected"), [("For how many?", 0), ("", 3)])
def test_scenarios_beside_written_turns_and_no_config(
    tmp_path: Path, gemini: simulated.Gemini, answer: str, expected: int
) -> None:
    """Each case by what fits it: a judge is not asked of written turns, and that these end is no
    pass."""
    root = simulated.repository(tmp_path, gemini)
    (root / "test_config.json").unlink()
    written = json.loads((root / "desk.evalset.json").read_text())
    turn = {"user_content": {"parts": [{"text": "A table, please."}]}}
    turn |= {"final_response": {"parts": [{"text": answer}]}} if answer else {}
    written["eval_cases"].append({"eval_id": "written", "conversation": [turn]})
    (root / "desk.evalset.json").write_text(json.dumps(written))
    code, said = simulated.run(root)
    assert code == expected, said
    (suite,) = json.loads((root / "evalgate-report/results.json").read_text())["suites"]
    led, other = ({*case["trials"][0]["grades"]} for case in suite["cases"])
    assert "multi_turn_task_success_v1" in led - other
    assert [case["verdict"] for case in suite["cases"]] == [
        "pass",
        "pass" if answer else "not_measured",
    ]


@pytest.mark.parametrize(
    ("turn", "code", "words"),
    [
        # an answer and no word of tools: the answer decides
        ({"final_response": {"parts": [{"text": "answer 0"}]}}, 0, "PASS: The case passed."),
        (
            {"final_response": {"parts": [{"text": "no"}]}},
            1,
            "FAIL: 1 of 1 cases failed in desk.evalset.json.",
        ),
        # tools and no answer: the calls decide
        ({"intermediate_data": {"tool_uses": []}}, 0, "PASS: The case passed."),
        # neither: that is no test
        (
            {},
            2,
            "error: no case expects an answer or tool calls, so the criteria have nothing to assert",
        ),
    ],
)
def test_the_defaults_apply_where_they_can(
    stranger: Repository, turn: dict[str, Any], code: int, words: str
) -> None:
    case = {
        "eval_id": "c",
        "conversation": [{"user_content": {"parts": [{"text": "question 0"}]}, **turn}],
    }
    put(stranger, {"desk.evalset.json": {"eval_set_id": "desk", "eval_cases": [case]}})
    done, said = stranger.run(base="")
    assert done == code, said
    assert words in said


@pytest.mark.parametrize(
    ("answer", "calls", "code", "words"),
    [
        # the calls decide: an answer is not compared, and no score of it could fail
        ("", [], 0, "PASS: The case passed."),
        # as wrong calls show
        ("", [{"name": "look_up", "args": {}}], 1, "FAIL: 1 of 1 cases failed"),
        # a reference is compared with, although every score passes
        ("no", [], 0, "PASS: The case passed."),
        # nothing expected at all: that is no test
        ("", None, 2, "error: no case expects an answer or tool calls"),
    ],
)
def test_a_threshold_that_every_score_passes_needs_no_reference(
    stranger: Repository, answer: str, calls: list[Any] | None, code: int, words: str
) -> None:
    turn: dict[str, Any] = {
        "user_content": {"parts": [{"text": "question 0"}]},
        "final_response": {"parts": [{"text": answer}]},
    }
    turn |= {} if calls is None else {"intermediate_data": {"tool_uses": calls}}
    criteria: dict[str, float] = {"response_match_score": 0.0}
    criteria |= {} if calls is None else {"tool_trajectory_avg_score": 1.0}
    written = {
        "desk.evalset.json": {
            "eval_set_id": "desk",
            "eval_cases": [{"eval_id": "c", "conversation": [turn]}],
        },
        "test_config.json": {"criteria": criteria},
    }
    put(stranger, written)
    done, said = stranger.run(base="")
    assert done == code, said
    assert words in said
    assert "`response_match_score`: every score passes a threshold of 0" in said
    # neither in the progress of the run
    assert "1 not measured" not in said


def test_a_case_without_anything_to_assert_is_no_pass(stranger: Repository) -> None:
    both = cases(0)
    both["eval_cases"] += cases(1, expects=False)["eval_cases"]
    put(stranger, {"desk.evalset.json": both})
    code, said = stranger.run(base="")
    assert code == 3, said
    assert "warning: case case_1 does not expect an answer or tool calls" in said
    assert "not measured: case_1" in said


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("", 3, "line 1: the file is empty"),
        (" \n", 3, "line 1: the file is empty"),
        ("{", 3, "line 1: "),
        ('{"name": "desk",\n "eval_ca', 3, "line 2: "),
        ('[{"name": "desk", "data": [', 3, "line 1: "),
        ('{"compilerOptions": { // of TypeScript, not ours', 0, ""),
        ('{"users": []}', 0, ""),  # another program's
        ("[1, 2]", 0, ""),
    ],
)
def test_a_test_file_that_ends_too_early(
    stranger: Repository, text: str, code: int, reason: str
) -> None:
    """Its cases are gone, which is not a pass; the files of other programs are none of ours."""
    put(stranger, {"a/desk.evalset.json": cases(0, 1), "b/desk.test.json": text})
    put(stranger, {"a/test_config.json": {"criteria": {"response_match_score": 0.9}}})
    ended, said = stranger.run(base="")
    assert (ended, stranger.asked("head")) == (code, 2), said
    assert (f"not measured: b/desk.test.json: {reason}" in said) is bool(code), said


def test_a_live_model_is_not_asked_by_text(stranger: Repository) -> None:
    """Criteria that ask for live mode are not measured, beside a suite that is."""
    put(stranger, {"a/desk.evalset.json": cases(0, 1), "b/live.evalset.json": cases(2)})
    put(stranger, {"a/test_config.json": {"criteria": {"response_match_score": 0.9}}})
    live = {"criteria": {"response_match_score": 0.9}, "live_model_config": {"timeout_seconds": 60}}
    put(stranger, {"b/test_config.json": live})
    code, said = stranger.run(base="")
    assert (code, stranger.asked("head")) == (3, 2), said
    assert "live mode" in said
    assert "live mode" in stranger.comment()
