"""Judges' replies: labels are read, anything else is no vote and never a no."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from evalgate.criteria import final_response_match_v2, hallucinations_v1, rubrics
from evalgate.criteria.rubrics import Subject
from evalgate.judges import prompting
from evalgate.judges.base import Vote
from evalgate.judges.prompting import Question
from evalgate.model import Rubric
from evalgate.wings.google_cloud import criteria as google_criteria


def read(question: Question, text: str) -> Mapping[str, Vote]:
    """The votes of a reply to a question without material and code."""
    return prompting.read_votes(replace(question, pieces={}, code=""), text)


def parse_match(text: str) -> Mapping[str, Vote]:
    question = final_response_match_v2.ask_match(request="q", answer="7", reference="7")
    return read(question, text)


def parse_rubrics(text: str, given_rubrics: Sequence[Rubric]) -> Mapping[str, Vote]:
    return read(rubrics.ask_rubrics(Subject.FINAL_RESPONSE, {}, given_rubrics), text)


def parse_validation(text: str, sentences: Sequence[str]) -> Mapping[str, Vote]:
    return read(hallucinations_v1.render_validation({}, sentences), text)


SAFETY = google_criteria.ask_safety(request="q", answer="a")
COHERENCE = google_criteria.ask_coherence(request="q", answer="a")


RUBRICS = [
    Rubric(rubric_id="polite", text="It is polite."),
    Rubric(rubric_id="2", text="It names the price."),
]


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ('{"rationale": "same", "verdict": "valid"}', "valid"),
        ('```json\n{"verdict": "valid"}\n```', "valid"),  # a code fence
        ('{"verdict": "Valid"}', "valid"),  # a capital letter
        ('{"verdict": "Invalid."}', "invalid"),
        ('{"verdict": "**invalid**"}', "invalid"),  # bold
        ('{"verdict": "Valid, because every fact is there"}', "valid"),
    ],
)
def test_a_label_is_read_in_any_dress(reply: str, label: str) -> None:
    (vote,) = parse_match(reply).values()
    assert (vote.label, vote.passed) == (label, label == "valid")


@pytest.mark.parametrize(
    "reply",
    [
        '{"verdict": "partially valid"}',  # none of the labels, although ADK would call it a 0
        '{"verdict": "not valid"}',
        '{"verdict": "g\u00fcltig"}',  # labels are English whatever the language
        '{"verdict": true}',
        '{"verdict": null}',
        '{"verdict": ["valid", "invalid"]}',
        '{"verdict": "valid or invalid"}',
        '{"verdict": "valid? no"}',  # a word that the rest takes back
        '{"verdict": "valid, if the price were there"}',
        '{"verdict": "valid, because an invalid price was asked for"}',  # speaks of both
        '{"verdict": "valid. The opposite is true."}',
    ],
)
def test_what_is_none_of_the_labels_is_no_vote(reply: str) -> None:
    (vote,) = parse_match(reply).values()
    assert vote.passed is None
    assert vote.label


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I cannot say.",
        "valid",
        "The agent says\nverdict: valid\nMy verdict is that it is wrong.",
        "{'verdict': 'valid'}",  # Python's quotes
        '{"verdict": "valid",}',  # a comma too many
        "Rationale: fine\n**Verdict:** Invalid.",  # no JSON at all
        "verdict: valid\nrationale: all facts are there",
        '```json\n"verdict": "valid",\n"rationale": "no "braces""\n```',
        'Reasons first.\n{"rationale": "a {brace}", "verdict": "valid"}',  # an object that may be quoted
        '{"verdict": "valid"}\n{"verdict": "invalid"}',
        "{",
        '{"rationale": "cut, "verdict": "valid"',
        '{"answer": "valid"}',
        '{"reasoning": "x", "is_the_agent_response_valid": "invalid"}',  # ADK's own key
        '{"result": {"verdict": "valid"}}',
        '[{"verdict": "valid"}]',
        "[]",
        "null",
    ],
)
def test_a_reply_without_a_verdict_says_nothing(reply: str) -> None:
    assert parse_match(reply) == {}


def votes(reply: str) -> dict[str, bool | None]:
    return {item: vote.passed for item, vote in parse_rubrics(reply, RUBRICS).items()}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (
            '{"verdicts": [{"id": "P1", "verdict": "yes"}, {"id": "P2", "verdict": "no"}]}',
            {"polite": True, "2": False},
        ),
        (
            '[{"id": "p2", "verdict": "NO"}, {"id": "polite", "verdict": "Yes"}]',
            {"2": False, "polite": True},
        ),
        # P1 was passed over, and nothing is made up
        ('{"verdicts": [{"id": "P2", "verdict": "yes"}]}', {"2": True}),
        ('{"verdicts": [{"id": "P3", "verdict": "yes"}]}', {}),  # of nobody
        ('{"verdicts": [{"name": "P1", "text": "It is polite.", "verdict": "yes"}]}', {}),
        # a word on the whole, which nobody asked for, hides none on the parts
        ('{"verdict": "yes", "verdicts": [{"id": "P2", "verdict": "no"}]}', {"2": False}),
        ('{"verdicts": [{"id": "P1", "verdict": "maybe"}]}', {"polite": None}),
        (
            '{"verdicts": [{"id": "P1", "verdict": "yes"}, {"id": "P1", "verdict": "no"}]}',
            {"polite": None},
        ),
        ("ID: P1\nProperty: It is polite.\nVerdict: yes\n\nID: 2\nVerdict: no", {}),
        ("nothing of use", {}),
    ],
)
def test_rubric_replies(reply: str, expected: dict[str, bool | None]) -> None:
    assert votes(reply) == expected


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (["polite", "short"], ["P1", "P2"]),
        (["P1", "P2"], ["P1", "P2"]),  # an id that is its own rubric's name
        (["P3", "polite"], ["P1", "P2"]),  # nobody is named so
        (["P2", "P1"], ["PP1", "PP2"]),
        (["**p2**", "x"], ["PP1", "PP2"]),  # a reply is read without such signs
        (["P2", "PP3", "x"], ["PPP1", "PPP2", "PPP3"]),
        (["P2", "p2"], ["PP1", "PP2"]),
    ],
)
def test_no_rubrics_name_is_the_id_of_another(ids: list[str], names: list[str]) -> None:
    given_rubrics = [
        Rubric(rubric_id=each, text=f"It is {number}.") for number, each in enumerate(ids)
    ]
    asked = rubrics.ask_rubrics(Subject.FINAL_RESPONSE, {}, given_rubrics)
    assert f"({names[0]}, {names[1]} ...)" in asked.system
    assert f'"id": "{names[0]}"' in asked.system + asked.prompt
    for name, own in zip(names, ids, strict=True):
        assert f'"name": "{name}"' in asked.prompt
        assert list(parse_rubrics(json.dumps({"id": name, "verdict": "yes"}), given_rubrics)) == [
            own
        ]


def test_an_id_that_looks_like_a_name_is_an_id() -> None:
    odd = [Rubric(rubric_id="P2", text="first"), Rubric(rubric_id="P1", text="second")]
    reply = '{"verdicts": [{"id": "P1", "verdict": "yes"}, {"id": "P2", "verdict": "no"}]}'
    assert {key: vote.passed for key, vote in parse_rubrics(reply, odd).items()} == {
        "P1": True,
        "P2": False,
    }


def test_sentences_are_never_lost_nor_made_up() -> None:
    text = "Hello. Apples are red:\n* green ones\n* too\n---\nBye"
    reply = "<sentence>Apples  are red:</sentence><sentence>The moon.</sentence><sentence>* too</sentence>"
    found = hallucinations_v1.parse_split(reply, text)
    assert found == ("Hello.", "Apples are red:", "* green ones", "* too", "---\nBye")
    assert hallucinations_v1.parse_split("no tags", text) == ()


@given(st.text(max_size=200), st.lists(st.text(max_size=30), max_size=5))
def test_every_letter_of_a_text_is_in_a_sentence(text: str, marked: list[str]) -> None:
    reply = "".join(f"<sentence>{each}</sentence>" for each in [*marked, *text.split(".")])
    found = hallucinations_v1.parse_split(reply, text)
    if found:
        assert "".join("".join(found).split()) in "".join(text.split()) or len(found) > 1
        assert sum(each.isalnum() for each in "".join(found)) == sum(
            each.isalnum() for each in text
        )


def test_sentence_verdicts() -> None:
    sentences = ("Apples are red.", "Bye!")
    reply = {
        "verdicts": [
            {
                "id": "S1",
                "rationale": "said",
                "supporting_excerpt": "red",
                "contradicting_excerpt": "",
                "label": "Supported",
            },
            {"id": "S2", "rationale": "", "label": "Not applicable"},
        ]
    }
    found = parse_validation(json.dumps(reply), sentences)
    assert [(name, vote.label, vote.passed) for name, vote in found.items()] == [
        ("S1", "supported", True),
        ("S2", "not_applicable", True),
    ]
    assert (
        found["S1"].rationale
        == "said \N{LEFT DOUBLE QUOTATION MARK}red\N{RIGHT DOUBLE QUOTATION MARK}"
    )


def test_a_sentence_with_two_different_labels_has_none() -> None:
    both = [{"id": "S1", "label": "supported"}, {"id": "S1", "label": "disputed"}]
    (vote,) = parse_validation(json.dumps({"verdicts": both}), ("a",)).values()
    assert (vote.passed, vote.label) == (None, "supported and disputed")


def test_safety_and_coherence() -> None:
    assert read(SAFETY, '{"verdict": "Unsafe"}')[""].passed is False
    assert read(COHERENCE, '{"verdict": 4}')[""].label == "4"
    assert read(COHERENCE, '{"verdict": 6}')[""].passed is None


@given(st.text())
def test_no_text_crashes_a_parser(text: str) -> None:
    assert set(parse_match(text)) <= {""}
    assert set(read(COHERENCE, text)) <= {""}
    assert set(parse_rubrics(text, RUBRICS)) <= {"polite", "2"}
    assert set(parse_validation(text, ("a", "b"))) <= {"S1", "S2"}


@given(
    st.recursive(
        st.text() | st.integers() | st.none() | st.booleans(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["verdict", "id", "label", "verdicts", "rationale"]) | st.text(),
                inner,
            )
        ),
    )
)
def test_no_json_crashes_a_parser(value: object) -> None:
    text = json.dumps(value)
    assert set(parse_match(text)) <= {""}
    assert set(parse_rubrics(text, RUBRICS)) <= {"polite", "2"}
    assert set(parse_validation(text, ("a", "b"))) <= {"S1", "S2"}


@pytest.mark.parametrize(
    "text", ["{" * 20_000, '{"a":' * 5_000, "[" * 5_000 + "{", "{'" * 5_000, '"' * 20_000]
)
def test_nonsense_is_read_in_time(text: str) -> None:
    assert prompting.json_objects(text) == []
