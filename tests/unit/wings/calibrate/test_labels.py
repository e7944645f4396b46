"""labels.jsonl: every spelling of a yes and a no, every bad line with its place, nothing read
wrongly in silence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from evalgate.errors import Severity
from evalgate.model import Text
from evalgate.wings.calibrate import labels
from evalgate.wings.calibrate.labels import LabelsReading

MATCH, RUBRICS = "final_response_match_v2", "rubric_based_final_response_quality_v1"
TOOLS, WORDS = "rubric_based_tool_use_quality_v1", "hallucinations_v1"
TEXTS = {"user": "how much?", "answer": "seven", "reference": "7"}
TURN = {
    "user_content": {"parts": [{"text": "how much?"}]},
    "final_response": {"parts": [{"text": "seven"}]},
}


def line(**keys: Any) -> dict[str, Any]:
    return {"criterion": MATCH, "label": "valid", **TEXTS, **keys}


def read(*lines: Any) -> LabelsReading:
    text = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
    return labels.parse_labels(text, file="labels.jsonl")


@pytest.mark.parametrize(
    ("word", "human"),
    [
        ("valid", True),
        ("Valid", True),
        (" **valid** ", True),  # as people copy it from a report
        ("yes", True),
        ("PASS", True),
        (True, True),
        (1, True),
        ("invalid", False),
        ("no", False),
        ("failed", False),
        ("Incorrect.", False),
        (False, False),
        (0, False),
    ],
)
def test_a_yes_and_a_no_in_many_spellings(word: object, human: bool) -> None:
    (label,) = read(line(label=word)).labels
    assert label.human is human


def test_a_judges_own_words_are_understood() -> None:
    found = [
        read({"criterion": WORDS, "label": word, **TEXTS})
        for word in ("Not applicable", "disputed")
    ]
    assert [each.labels[0].human for each in found] == [True, False]


@pytest.mark.parametrize("word", ["", None, "?", "unsure", "  "])
def test_what_nobody_decided_is_no_label(word: object) -> None:
    found = read(line(label=word), line())
    assert (len(found.labels), found.unlabelled, found.problems) == (1, 1, [])


def test_texts_become_one_turn_of_evidence() -> None:
    (label,) = read(line(note="rounded")).labels
    evidence = label.evidence
    assert evidence is not None
    assert evidence.expected is not None
    assert evidence.case.conversation == evidence.expected
    (actual,), (expected,) = evidence.actual, evidence.expected
    assert actual.final_response is not None
    assert expected.final_response is not None
    assert actual.final_response.parts == (Text(text="seven"),)
    assert expected.final_response.parts == (Text(text="7"),)
    assert (label.line.note, label.place.line) == ("rounded", 1)


def test_a_conversation_and_a_place_in_results() -> None:
    rubric = {"rubric_id": "kind", "rubric_content": {"text_property": "It is kind."}}
    whole, placed = read(
        {
            "criterion": TOOLS,
            "label": "no",
            "rubric": "kind",
            "turn": 2,
            "conversation": [TURN, TURN],
            "rubrics": [rubric],
        },
        {
            "criterion": TOOLS,
            "label": "no",
            "rubric": "kind",
            "suite": "a.json",
            "case": "c",
            "repeat": 1,
            "answer": "x",
        },
    ).labels
    assert whole.evidence is not None
    assert (len(whole.evidence.actual), whole.evidence.expected, whole.line.turn) == (2, None, 2)
    assert whole.evidence.case.rubrics[0].text == "It is kind."
    assert placed.evidence is None
    assert (str(placed.line.trial_key), placed.line.answer) == ("a.json:c#1", "x")


def test_texts_that_are_not_all_leave_the_place_to_tell() -> None:
    placed = {"suite": "a.json", "case": "c", "user": "how much?", "answer": "seven"}
    without_reference, without_steps = read(
        {"criterion": MATCH, "label": "yes", **placed},
        {"criterion": TOOLS, "label": "yes", "rubric": "r", **placed},
    ).labels
    assert (without_reference.evidence, without_steps.evidence) == (None, None)


@pytest.mark.parametrize(
    ("bad", "code", "words"),
    [
        (line(label="vallid"), "unknown-label", "Did you mean `valid`?"),
        (line(label="blue"), "unknown-label", "valid, invalid, yes, no, pass, fail"),
        (
            line(criterion="final_respnse_match_v2"),
            "unknown-criterion",
            "Did you mean `final_response_match_v2`?",
        ),
        (
            line(criterion="response_evaluation_score"),
            "label-without-verdict",
            "does not answer yes or no",
        ),
        (
            {"criterion": MATCH, "label": "valid"},
            "label-without-evidence",
            "does not identify what was judged",
        ),
        ({**line(), "reference": None}, "label-without-evidence", "expected answer"),
        (
            {"criterion": MATCH, "label": "yes", "conversation": [TURN]},
            "label-without-evidence",
            "`expected`",
        ),
        (
            {"criterion": TOOLS, "label": "yes", **TEXTS},
            "label-without-evidence",
            "do not show tool use",
        ),
        (line(rubric="kind"), "label-subject-unknown", "no verdict on a rubric"),
        (
            {"criterion": RUBRICS, "label": "no", "sentence": "x", **TEXTS},
            "label-subject-unknown",
            "a sentence",
        ),
        (
            {"criterion": RUBRICS, "label": "no", "rubric": "r", "conversation": [TURN], "turn": 2},
            "label-place-unknown",
            "the conversation has 1 turn",
        ),
        (line(lable="valid"), "unknown-key", "`lable` is not known here"),
        (line(turn=0), "wrong-value", "greater than or equal to 1"),
        (line(user=7), "wrong-type", "expected text, found the number 7"),
        (line(conversation=[]), "wrong-type", ""),
        ({"label": "valid", **TEXTS}, "missing-key", "`criterion` is missing"),
        ("[1, 2]", "wrong-type", "expected an object, found a list"),
        ("{'label': 'valid'}", "json-syntax", "write one JSON object per line"),
    ],
)
def test_a_bad_line_is_told_with_its_place(bad: Any, code: str, words: str) -> None:
    found = read(line(), "", bad, line(answer="eight"))
    assert len(found.labels) == 2  # the others are read all the same
    (problem,) = found.problems
    assert (problem.code, problem.severity) == (code, Severity.ERROR)
    assert problem.place is not None
    assert (problem.place.file, problem.place.line) == ("labels.jsonl", 3)
    assert words in f"{problem.message} {problem.hint}"


@given(
    st.lists(
        st.one_of(
            st.text(), st.recursive(st.none() | st.booleans() | st.text(), st.lists).map(json.dumps)
        )
    )
)
def test_any_text_gives_labels_or_problems(lines: list[str]) -> None:
    found = labels.parse_labels("\n".join(lines), file="f")
    written = [each for each in "\n".join(lines).removeprefix("\ufeff").split("\n") if each.strip()]
    assert len(found.labels) + found.unlabelled + len(found.problems) == len(written)


@given(
    st.dictionaries(
        st.sampled_from([*labels.LabelLine.model_fields, "lable"]),
        st.none() | st.text() | st.integers(),
    )
)
def test_any_object_gives_labels_or_problems(raw: dict[str, Any]) -> None:
    found = read(raw)
    assert bool(found.labels) + bool(found.unlabelled) + bool(found.problems) == 1
