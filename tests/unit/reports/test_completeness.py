"""Nothing is lost: what results.json and base.json say of a failing case is in the page, and what
differs is marked."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from builders import build, comparing, report_page
from builders.build import TOOLS, WORDS
from hypothesis import HealthCheck, given, settings, strategies as st

from evalgate.model import (
    AgentFailure,
    Attachment,
    Case,
    Content,
    Ending,
    Event,
    Exemption,
    ExemptionKind,
    FailureKind,
    Finding,
    GradedTrial,
    Invocation,
    NotEvaluated,
    Opinion,
    Purpose,
    Reason,
    Report,
    Rubric,
    Run,
    Score,
    SessionInput,
    Text,
    ToolCall,
    ToolResponse,
    Transcript,
    TrialKey,
    Usage,
)
from evalgate.reports import comment, html_report
from evalgate.results import file, shapes

BOOKKEEPING = {
    "fingerprint",  # of the content, to know it again
    "invocation_id",
    "behavior",  # a digest of what the agent did
    "agents",  # addresses in a table beside the cases
    "verdict",  # these four are words of ours, which the page says otherwise
    "label",
    "kind",
    "reason",
    "role",  # of a message that stands in the column of whoever said it
}

Draw = Callable[[st.SearchStrategy[Any]], Any]


class Texts:
    """Texts that differ from each other, whatever was drawn."""

    def __init__(self, draw: Draw) -> None:
        self._draw, self._number = draw, itertools.count()

    def __call__(self) -> str:
        return f"{self._draw(st.text(max_size=8))}~{next(self._number)}"

    def some(self, make: Callable[[], Any]) -> Any:
        """What `make` makes, or None."""
        return make() if self._draw(st.booleans()) else None

    def several(self, make: Callable[[], Any], most: int = 2) -> tuple[Any, ...]:
        return tuple(make() for _ in range(self._draw(st.integers(0, most))))

    def json(self) -> dict[str, Any]:
        return {self(): self(), "list": [self(), {self(): [self()]}]}

    def part(self) -> Any:
        makes = (
            lambda: Text(text=self(), thought=self._draw(st.booleans())),
            lambda: ToolCall(name=self(), args=self.some(self.json), id=self.some(self)),
            lambda: ToolResponse(name=self(), response=self.some(self.json), id=self.some(self)),
            lambda: Attachment(data={"inline_data": {"mime_type": self(), "data": self()}}),
        )
        return self._draw(st.sampled_from(makes))()

    def content(self) -> Content:
        return Content(parts=self.several(self.part, most=3), role="model")

    def turn(self) -> Invocation:
        return Invocation(
            trace=self.trace(),
            user_content=self.content(),
            final_response=self.some(self.content),
            events=self.some(lambda: self.several(self.event, most=3)),
            itemized=self._draw(st.booleans()),
            rubrics=self.several(self.rubric),
        )

    def trace(self) -> tuple[dict[str, Any], ...]:
        return self.several(lambda: {"kind": "event", "author": self(), "content": self.json()})

    def event(self) -> Event:
        return Event(
            author=self(),
            content=self.some(self.content),
            model_version=self.some(self),
            grounding=self.some(self.json),
            usage=self.some(lambda: Usage(total_tokens=3)),
        )

    def rubric(self) -> Rubric:
        return Rubric(
            rubric_id=self(), text=self(), description=self.some(self), type=self.some(self)
        )

    def grade(self) -> Score | NotEvaluated:
        found = self.several(self.finding)
        if self._draw(st.booleans()):
            return NotEvaluated(reason=Reason.JUDGE_UNAVAILABLE, message=self(), findings=found)
        return Score(
            value=0.0,
            turns=(0.0,),
            breakdown=dict.fromkeys(self.several(self), 1.0),
            findings=found,
        )

    def finding(self) -> Finding:
        opinions = self.several(lambda: Opinion(sample=0, label=self(), text=self()))
        return Finding(
            text=self(),
            turn=self._draw(st.sampled_from([None, 1, 9])),
            label=self(),
            subject=self(),
            opinions=opinions,
        )

    def case(self) -> Case:
        return Case(
            case_id=self(),
            conversation=(self.turn(), *self.several(self.turn)),
            session=self.some(
                lambda: SessionInput(app_name=self(), user_id=self(), state=self.json())
            ),
            rubrics=self.several(self.rubric),
            expects_state=self.some(self.json),
        )

    def outcome(self) -> Transcript | AgentFailure:
        done = self.several(self.turn)
        if self._draw(st.booleans()):
            return Transcript(
                invocations=done, final_state=self.some(self.json), ended_by=Ending.TURN_LIMIT
            )
        return AgentFailure(
            kind=FailureKind.RAISED,
            message=self(),
            detail=self(),
            partial=done,
            trace=self.trace(),
            turn=len(done) + 1,
        )


def written(report: Report, run: Run, outcomes: dict[TrialKey, Any]) -> Iterator[dict[str, Any]]:
    """The cases as results.json has them."""

    class Outcomes:
        def find_json(self, key: TrialKey) -> dict[str, Any]:
            return shapes.outcome_json(outcomes[key], agents_seen={})

        def agents(self) -> dict[str, Any]:
            return {}

    own = dataclasses.replace(report, run=run, comparison=None)
    whole = json.loads("".join(file.render_results(own, outcomes=Outcomes())))
    for suite in whole["suites"]:
        yield from suite["cases"]


@st.composite
def failing(draw: Draw) -> tuple[Report, list[dict[str, Any]]]:
    """A report on one case that fails on head, with texts in every place; and what the files say of
    it."""
    texts = Texts(draw)
    case = texts.case()
    suite = build.suite(case, criteria={TOOLS: 1.0, WORDS: 0.8})
    wrong = build.scores(build.turn("x"), **{TOOLS: 0.0, WORDS: 0.0})
    done = {(suite.key, case.case_id): [wrong]}
    report = comparing.beside([suite], done, done)
    assert report.comparison is not None
    assert report.comparison.base is not None
    sides, kept = [], []
    for run in (report.run, report.comparison.base):
        runs = ((Purpose.FIRST, 0), (Purpose.FIRST, 1), (Purpose.PAIR, 0))
        keys = [
            TrialKey(suite=suite.key, case_id=case.case_id, purpose=why, number=number)
            for why, number in runs
        ]
        made = {key: texts.outcome() for key in keys}
        trials = [
            GradedTrial(
                key=key,
                failure=outcome if isinstance(outcome, AgentFailure) else None,
                grades={TOOLS: Score(value=0.0), WORDS: texts.grade()},
            )
            for key, outcome in made.items()
        ]
        known = {key: each for key, each in made.items() if isinstance(each, Transcript)}.get
        sides.append(
            dataclasses.replace(
                run,
                trials=tuple(trials[:2]),
                confirmations=tuple(trials[2:]),
                transcripts=known,
                repeats=2,
            )
        )
        kept.append(made)
    held = texts.some(
        lambda: Exemption(kind=ExemptionKind.LISTED, owner=texts(), expires=texts(), reason=texts())
    )
    verdicts = tuple(
        dataclasses.replace(
            own, cases=tuple(dataclasses.replace(each, exemption=held) for each in own.cases)
        )
        for own in report.verdict.suites
    )
    report = dataclasses.replace(
        report,
        run=sides[0],
        comparison=dataclasses.replace(report.comparison, base=sides[1]),
        verdict=dataclasses.replace(report.verdict, suites=verdicts),
    )
    told = [
        each for run, made in zip(sides, kept, strict=True) for each in written(report, run, made)
    ]
    return report, told


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield name
            if name not in BOOKKEEPING or not isinstance(each, str | list):
                yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


@given(failing())
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_every_string_of_a_failing_case_is_in_the_page(
    made: tuple[Report, list[dict[str, Any]]],
) -> None:
    report, told = made
    found = report_page.read(html_report.render(report))
    # quarantined ones do not block
    assert [row["kind"] for row in found.index["cases"]] in (["fail"], ["allowed"])
    shown = "\0".join(
        (*strings(list(found.cases.values())), *strings(found.traces), *strings(found.index))
    )
    # the names of the fields are ours; every text that is drawn has a tilde
    assert sorted(each for each in strings(told) if "~" in each and each not in shown) == []


# --- what differs is marked ----------------------------------------------------------------------

FILLING = {
    "sentences": "The parcel leaves on Monday and arrives two days later. ",
    "lines": "- one more item of the list\n",
    "no blanks": "0123456789abcdef",
    "one word again and again": "again ",
    "another script": "荷物は月曜日に出発します。",
}
ONLY_HEAD_SAYS, ONLY_EXPECTED = "QQQ", "XXX"


@st.composite
def different(draw: Draw) -> tuple[str, str]:
    """Two texts of any length that differ in one place or in several."""
    filling = FILLING[draw(st.sampled_from(sorted(FILLING)))]
    pieces = draw(
        st.lists(
            st.integers(0, 2_000).map(lambda size: filling * (size // 20)), min_size=2, max_size=3
        )
    )
    return ONLY_EXPECTED.join(pieces), ONLY_HEAD_SAYS.join(pieces)


def marks(text: str) -> str:
    """All that stands struck out, underlined, or on a line with a sign."""
    found = re.findall(
        r"<(?:del|ins)>((?s:.*?))</(?:del|ins)>|^[-+] (.*)$", text, re.MULTILINE
    )  # a line of its own for each sign: what is wrapped goes on with the next
    return "\n".join(part for each in found for part in each if part)


def mended(marked: str) -> str:
    """Without the line ends that wrapping put in."""
    return marked.replace("\n", "")


@given(texts=different(), in_arguments=st.booleans(), nested=st.booleans())
@settings(max_examples=30, deadline=None)
def test_what_differs_anywhere_is_marked_in_comment_and_summary(
    texts: tuple[str, str], in_arguments: bool, nested: bool
) -> None:
    expected, actual = ({"of": [text]} if nested and in_arguments else text for text in texts)
    turns = [
        build.turn(
            "Where is it?", build.call("say", text=each if in_arguments else "x"), answer=said
        )
        for each, said in (
            (expected, "y" if in_arguments else texts[0]),
            (actual, "y" if in_arguments else texts[1]),
        )
    ]
    suite = build.suite(build.case("c", turns[0]))
    below = {TOOLS: [0.0], WORDS: [1.0]} if in_arguments else {TOOLS: [1.0], WORDS: [0.0]}
    report = build.run_report([suite], {(suite.key, "c"): [build.scores(turns[1], **below)]})
    for text in (comment.render(report), comment.render_summary(report)):
        told = mended(marks(text))
        assert ONLY_EXPECTED in told
        assert ONLY_HEAD_SAYS in told


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ("Yes.", "Yes. "),  # a blank at the end
        ("one two", "one  two"),
        ("Straße", "STRASSE"),
        ("a b", "a\u200b b"),  # nothing that anybody sees
        ("a\nb", "a\r\nb"),
        ("é", "e\u0301"),
    ],
)
def test_what_hardly_shows_is_marked_too(expected: str, actual: str) -> None:
    suite = build.suite(build.case("c", build.turn("x", answer=expected)))
    done = build.scores(build.turn("x", answer=actual), **{TOOLS: [1.0], WORDS: [0.0]})
    report = build.run_report([suite], {(suite.key, "c"): [done]})
    for text in (comment.render(report), comment.render_summary(report)):
        assert marks(text.partition("**Turn 1**")[2].partition("</details>")[0])
