"""Each fault of google-adk's judged criteria that evalgate does not repeat, shown on the installed
google-adk."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from parity import scripted
from parity.adk_child import AdkChild
from parity.scripted import Scripted

from evalgate.model import NotEvaluated, Reason, Score

pytestmark = pytest.mark.parity

MATCH = "final_response_match_v2"
ANSWER = "rubric_based_final_response_quality_v1"
CONVERSATION = "rubric_based_multi_turn_trajectory_quality_v1"
TOOLS = "rubric_based_tool_use_quality_v1"
HALLUCINATIONS = "hallucinations_v1"
TYPE = "FINAL_RESPONSE_QUALITY"

VALID = '{"reasoning": "so", "is_the_agent_response_valid": "valid"\n}'
INVALID = VALID.replace('"valid"\n', '"invalid"\n')
USER_VALID = '{"verdict": "valid", "is_valid": true}'
USER_INVALID = '{"verdict": "invalid", "is_valid": false}'


def turn(
    number: int, *rubrics: tuple[str, str | None], answer: str = "an answer"
) -> dict[str, Any]:
    return {
        "user_content": {"role": "user", "parts": [{"text": f"q @t{number}@"}]},
        "final_response": {"role": "model", "parts": [{"text": answer}] if answer else []},
        "rubrics": [
            {"rubric_id": name, "rubric_content": {"text_property": f"It is {name}."}}
            | ({"type": kind} if kind else {})
            for name, kind in rubrics
        ],
    }


def said(**verdicts: str) -> str:
    """ADK's lines on rubrics; `_` stands for a blank."""
    blocks = [
        f"ID: {name}\nProperty: It is {name}.\nRationale: so\nVerdict: {word}"
        for name, word in verdicts.items()
    ]
    return "\n\n".join(blocks).replace("_", " ")


def request(
    metric: str, turns: list[dict[str, Any]], *replies: list[str], samples: int, own: str = ""
) -> Scripted:
    """`replies`: one list a turn; `own`: ids of the criterion's rubrics."""
    rubrics = [
        {"rubric_id": name, "rubric_content": {"text_property": f"It is {name}."}}
        for name in own.split()
    ]
    judge = {"judge_model": "scripted-judge", "num_samples": samples}
    written = [
        [each if each == "raise" else [[each, False]] for each in replies_] for replies_ in replies
    ]
    return {
        "metric": metric,
        "criterion": {"threshold": 0.5, "judge_model_options": judge}
        | ({"rubrics": rubrics} if own else {}),
        "actual": turns,
        "expected": turns if metric == MATCH else None,
        "replies": {f"@t{number}@": replies_ for number, replies_ in enumerate(written)},
    }


def simulated(*replies: str, ended_by: str = "stop_signal") -> Scripted:
    """A conversation of as many turns as there are replies: on every message from the second on,
    and on the end."""
    turns = [
        {
            "user_content": {"role": "user", "parts": [{"text": f"m @u{number}@"}]},
            "final_response": {"role": "model", "parts": [{"text": f"a @a{number}@"}]},
        }
        for number in range(len(replies))
    ]
    marks = [*(f"@u{number}@" for number in range(1, len(turns))), f"@a{len(turns) - 1}@"]
    judge = {"judge_model": "scripted-judge", "num_samples": 1}
    return {
        "metric": "per_turn_user_simulator_quality_v1",
        "criterion": {"threshold": 0.5, "judge_model_options": judge},
        "actual": turns,
        "expected": None,
        "scenario": {"starting_prompt": "m @u0@", "conversation_plan": "Ask."},
        "ended_by": ended_by,
        "replies": {mark: [[[reply, False]]] for mark, reply in zip(marks, replies, strict=True)},
    }


def served(metric: str, *scores: float) -> Scripted:
    """What Google Cloud's service says of each turn."""
    turns = [turn(number, answer=f"an answer to @t{number}@") for number in range(len(scores))]
    replies = {f"@t{number}@": [score] for number, score in enumerate(scores)}
    return {
        "metric": metric,
        "criterion": {"threshold": 0.5},
        "actual": turns,
        "expected": turns,
        "replies": replies,
    }


def with_tool(made: Scripted, tool: dict[str, Any]) -> Scripted:
    agent = {"name": "desk", "instructions": "Help.", "tool_declarations": [tool]}
    turns = [{**each, "app_details": {"agent_details": {"desk": agent}}} for each in made["actual"]]
    return {**made, "actual": turns}


def sentences(*labels: str) -> list[str]:
    """The two replies on a text of three sentences."""
    fields = "rationale: so\nsupporting_excerpt: null\ncontradicting_excerpt: null"
    tags = "".join(f"<sentence>{name} @t0@</sentence>" for name in "ABC")
    blocks = [
        f"sentence: {name} @t0@\nlabel: {label}\n{fields}"
        for name, label in zip("ABC", labels, strict=False)
    ]
    return [tags, "\n\n".join(blocks)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A request, ADK's score of it, and ours: a number, or why there is none. `taken_back`: by
    `adk_compat`."""

    request: Scripted
    adk: float | None
    ours: float | Reason
    taken_back: bool = True


TEXT = {
    "user_content": {"parts": [{"text": "q"}]},
    "final_response": {"parts": [{"text": "A @t0@\nB @t0@\nC @t0@"}]},
}

FAULTS = {
    # four good samples and one that raised: the turn vanishes
    "sample-raises": Fault(
        request=request(MATCH, [turn(0)], [VALID, VALID, "raise", VALID, VALID], samples=5),
        adk=None,
        ours=1.0,
    ),
    "turn-unjudged": Fault(
        request=request(MATCH, [turn(0), turn(1)], [VALID], ["raise"], samples=1),
        adk=1.0,
        ours=Reason.JUDGE_UNAVAILABLE,
    ),
    # the no of turn 1 is looked for among the rubrics of turn 2
    "last-turn-rubrics": Fault(
        request=request(
            ANSWER,
            [turn(0, ("a", TYPE)), turn(1, ("b", TYPE))],
            [said(a="no")],
            [said(b="yes")],
            samples=1,
        ),
        adk=1.0,
        ours=0.5,
    ),
    "rubric-forgotten": Fault(
        request=request(ANSWER, [turn(0)], [said(a="yes"), said(a="yes")], samples=1, own="a b"),
        adk=1.0,
        ours=Reason.JUDGE_UNREADABLE,
    ),
    "rubric-untyped": Fault(
        request=request(
            ANSWER, [turn(0, ("a", None))], [said(kind="yes", a="no")], samples=1, own="kind"
        ),
        adk=1.0,
        ours=0.5,
    ),
    "rubric-of-earlier-turns": Fault(
        request=request(
            CONVERSATION,
            [turn(0, ("a", "TRAJECTORY_QUALITY")), turn(1, ("b", "TRAJECTORY_QUALITY"))],
            [],
            [said(a="no", b="yes")],
            samples=1,
        ),
        adk=1.0,
        ours=0.5,
    ),
    "word-with-no-in-it": Fault(
        request=request(ANSWER, [turn(0)], [said(a="unknown")] * 3, samples=1, own="a"),
        adk=0.0,
        ours=Reason.JUDGE_UNREADABLE,
        taken_back=False,
    ),
    "label-in-dress": Fault(
        request=request(MATCH, [turn(0)], [VALID.replace('"valid"\n', '"Valid"\n')], samples=1),
        adk=None,
        ours=1.0,
        taken_back=False,
    ),
    "almost-is-no": Fault(
        request=request(MATCH, [turn(0)], [VALID.replace('"valid"\n', '"almost"\n')], samples=1),
        adk=0.0,
        ours=Reason.JUDGE_UNREADABLE,
        taken_back=False,
    ),
    "one-sample-two-votes": Fault(
        request=request(
            ANSWER,
            [turn(0)],
            [said(a="yes"), "\n\n".join([said(a="no")] * 2), said(a="yes")],
            samples=3,
            own="a",
        ),
        adk=0.0,
        ours=1.0,
        taken_back=False,
    ),
    "reference-empty": Fault(
        request=request(MATCH, [turn(0), turn(1, answer="")], [VALID], [INVALID], samples=1),
        adk=0.5,
        ours=1.0,
    ),
    "hallucination-samples": Fault(
        request=request(
            HALLUCINATIONS,
            [TEXT],
            [
                *sentences("supported", "supported", "unsupported"),
                *[sentences(*["supported"] * 3)[1]] * 2,
            ],
            samples=3,
        ),
        adk=2 / 3,
        ours=1.0,  # the other two samples outvote the first
    ),
    "simulator-turn-unjudged": Fault(
        request=simulated('{"is_valid": "perhaps"}', USER_VALID),
        adk=0.5,
        ours=Reason.JUDGE_UNREADABLE,
    ),
    # the limit cut it: nobody said that it was over
    "simulator-cut": Fault(
        request=simulated(USER_VALID, USER_INVALID, ended_by="turn_limit"), adk=0.5, ours=1.0
    ),
    # both read the same verdicts from here on
    "steps-unrecorded-judged": Fault(
        request=request(TOOLS, [turn(0)], [said(a="yes")], samples=1, own="a"),
        adk=1.0,
        ours=Reason.NOTHING_RECORDED,
    ),
    "turn-without-rubrics": Fault(
        request=request(
            ANSWER, [turn(0, ("a", TYPE)), turn(1)], [said(a="yes")], [said(a="yes")], samples=1
        ),
        adk=None,
        ours=1.0,
    ),
    "rubric-type-spelled": Fault(
        request=request(
            ANSWER,
            [turn(0, ("a", TYPE.lower()))],
            [said(kind="yes", a="no")],
            samples=1,
            own="kind",
        ),
        adk=1.0,
        ours=0.5,
    ),
    "rubric-twice": Fault(
        request=request(ANSWER, [turn(0, ("a", TYPE))], [said(a="yes")], samples=1, own="a"),
        adk=None,
        ours=1.0,
    ),
    "float-dust-judged": Fault(
        request=served("safety_v1", 0.7, 0.8, 0.9), adk=0.7999999999999999, ours=0.8
    ),
    "tools-without-functions": Fault(
        request=with_tool(
            request(CONVERSATION, [turn(0)], [said(a="yes")], samples=1, own="a"),
            {"google_search": {}},
        ),
        adk=None,
        ours=1.0,
        taken_back=False,
    ),
    "sentence-left-out": Fault(
        request=request(
            HALLUCINATIONS, [TEXT], sentences("supported", "likely", "supported"), samples=1
        ),
        adk=1.0,
        ours=Reason.JUDGE_UNREADABLE,
    ),
}


@pytest.fixture(scope="module")
def answers(adk: AdkChild) -> dict[str, dict[str, Any]]:
    requests = [fault.request for fault in FAULTS.values()]
    return dict(zip(FAULTS, adk.ask("judged.py", requests), strict=True))


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_there_and_is_not_repeated(
    name: str, answers: dict[str, dict[str, Any]]
) -> None:
    fault, answer = FAULTS[name], answers[name]
    adk = None if answer["score"] is None else float.fromhex(answer["score"])
    assert adk == fault.adk, answer
    compat = scripted.grade(fault.request, adk_compat=True)
    assert ((compat.value if isinstance(compat, Score) else None) == adk) is fault.taken_back
    found = scripted.grade(fault.request, adk_compat=False)
    assert (found.reason if isinstance(found, NotEvaluated) else found.value) == fault.ours, found


def test_the_page_lists_these_faults_and_no_others() -> None:
    page = (Path(__file__).parents[2] / "docs/adk-parity.md").read_text("utf-8")
    section = page.split("## Judged scores")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)) == set(FAULTS)
