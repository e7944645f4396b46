"""Replies that google-adk and evalgate read alike: without adk_compat, scores differ by the rows of
the page alone, and under it not at all, also where calls fail and where replies say nothing.

docs/adk-parity.md, "Judged scores": one predicate for each row that needs no odd reply to show.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from builders.nightly import NIGHTLY
from parity import scripted, test_judged_faults as faults
from parity.adk_child import AdkChild
from parity.scripted import Scripted

from evalgate.model import Grade, Score

pytestmark = pytest.mark.parity

EACH = 160 if NIGHTLY else 60
"""How many requests of each metric."""
TYPES = {
    faults.ANSWER: faults.TYPE,
    faults.TOOLS: "TOOL_USE_QUALITY",
    faults.CONVERSATION: "TRAJECTORY_QUALITY",
}
SERVED = ("safety_v1", "response_evaluation_score", "multi_turn_task_success_v1")
SIMULATOR = "per_turn_user_simulator_quality_v1"
METRICS = (*TYPES, faults.MATCH, faults.HALLUCINATIONS, SIMULATOR, *SERVED)


# --- conversations and replies --------------------------------------------------------------------


def made(metric: str) -> Iterator[Scripted]:
    rng = random.Random(f"clean {metric}")
    makers: dict[str, Callable[[random.Random], Scripted]] = {
        **dict.fromkeys(TYPES, lambda rng: _rubrics(rng, metric)),
        **dict.fromkeys(SERVED, lambda rng: _served(rng, metric)),
        faults.MATCH: _match,
        faults.HALLUCINATIONS: _hallucinations,
        SIMULATOR: lambda rng: faults.simulated(
            *rng.choices((faults.USER_VALID, faults.USER_INVALID), k=_few(rng))
        ),
    }
    for _ in range(EACH):
        yield makers[metric](rng)


def _few(rng: random.Random) -> int:
    return rng.choice((1, 1, 2, 3, 6))


def _rubrics(rng: random.Random, metric: str) -> Scripted:
    kinds: list[str | None] = [TYPES[metric]] * 6 + [None, "OTHER", TYPES[metric].lower()]
    own = [f"own{number}" for number in range(rng.choice((0, 1, 1, 2)))]
    case = [(f"case{number}", rng.choice(kinds)) for number in range(rng.choice((0, 0, 0, 1)))]
    turns = []
    for number in range(_few(rng)):
        given = [
            (f"t{number}x{each}", rng.choice(kinds)) for each in range(rng.choice((0, 0, 1, 2)))
        ]
        if own and rng.random() < 0.1:
            given.append((own[0], TYPES[metric]))
        steps = {"intermediate_data": {"invocation_events": []}} if rng.random() < 0.9 else {}
        turns.append({**faults.turn(number, *given), **steps})
    names = [
        *own,
        *(name for name, _ in case),
        *(each["rubric_id"] for turn in turns for each in turn["rubrics"]),
    ]
    lean = {name: rng.choice(("yes", "no")) for name in names}
    samples = rng.choice((1, 2, 3, 4, 5))
    replies = []
    # a reply speaks of what its turn asks about, no matter what of it either side then counts
    for turn in turns:
        asked = {
            *own,
            *(name for name, _ in case),
            *(each["rubric_id"] for each in turn["rubrics"]),
        }
        words = {
            name: word
            for name, word in lean.items()
            if metric == faults.CONVERSATION or name in asked
        }
        replies.append(
            [
                faults.said(
                    **{name: rng.choice((word, "yes", "no")) for name, word in words.items()}
                )
                for _ in range(samples)
            ]
        )
    request = faults.request(metric, turns, *replies, samples=samples, own=" ".join(own))
    return {**request, "case_rubrics": faults.turn(0, *case)["rubrics"]}


def _match(rng: random.Random) -> Scripted:
    turns = [faults.turn(number) for number in range(_few(rng))]
    samples = rng.choice((1, 2, 3, 4, 5))
    replies = [rng.choices((faults.VALID, faults.INVALID), k=samples) for _ in turns]
    request = faults.request(faults.MATCH, turns, *replies, samples=samples)
    references = [
        faults.turn(number, answer=rng.choice(("7", "7", "7", ""))) for number in range(len(turns))
    ]
    return {**request, "expected": references if rng.random() < 0.3 else turns}


def _hallucinations(rng: random.Random) -> Scripted:
    turns, replies = [], []
    samples = rng.choice((1, 1, 1, 3))
    for number in range(_few(rng)):
        names = [f"S{each} @t{number}@" for each in range(rng.choice((1, 2, 3, 6)))]
        turns.append(faults.turn(number, answer="\n".join(names)))
        tags = "".join(f"<sentence>{name}</sentence>" for name in names)
        replies.append([tags, *(_validated(rng, names) for _ in range(samples))])
    return faults.request(faults.HALLUCINATIONS, turns, *replies, samples=samples)


def _validated(rng: random.Random, names: list[str]) -> str:
    labels = ("supported", "supported", "unsupported", "not_applicable", "contradictory")
    fields = "rationale: so\nsupporting_excerpt: null\ncontradicting_excerpt: null"
    return "\n\n".join(f"sentence: {name}\nlabel: {rng.choice(labels)}\n{fields}" for name in names)


def _served(rng: random.Random, metric: str) -> Scripted:
    return faults.served(
        metric, *(rng.choice((0.0, 0.1, 0.7, 1.0, rng.random())) for _ in range(_few(rng)))
    )


def rough(request: Scripted, rng: random.Random) -> Scripted:
    """The same where some calls fail and some replies say nothing."""
    silent = None if request["metric"] in SERVED else [["I cannot say.", False]]
    replies = {
        mark: [rng.choice(("raise", silent)) if rng.random() < 0.12 else each for each in given]
        for mark, given in request["replies"].items()
    }
    return {**request, "replies": replies}


# --- one predicate a row --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One request as both sides scored it; None: no score."""

    request: Scripted
    adk: float | None
    ours: Grade

    @property
    def score(self) -> float | None:
        return self.ours.value if isinstance(self.ours, Score) else None

    @property
    def metric(self) -> str:
        return str(self.request["metric"])

    @property
    def type(self) -> str:
        return TYPES.get(self.metric, "")

    @property
    def own(self) -> list[str]:
        return [each["rubric_id"] for each in self.request["criterion"].get("rubrics", ())]

    def written(self) -> list[list[dict[str, Any]]]:
        """Rubrics of the case and of the turn, by turn."""
        case = self.request.get("case_rubrics", [])
        return [[*case, *turn.get("rubrics", ())] for turn in self.request["actual"]]

    def typed(self) -> list[list[str]]:
        """Those that ADK counts."""
        return [
            [each["rubric_id"] for each in rubrics if each.get("type") == self.type]
            for rubrics in self.written()
        ]


def _spelled(pair: Pair, rubric: dict[str, Any]) -> bool:
    return rubric.get("type") == pair.type.lower()


def _asked_about(pair: Pair) -> list[dict[str, Any]]:
    return [each for rubrics in pair.written() for each in rubrics]


ROWS: dict[str, Callable[[Pair], bool]] = {
    "last-turn-rubrics": lambda pair: (
        pair.metric in (faults.ANSWER, faults.TOOLS)
        and pair.adk is not None
        and len({tuple(sorted(each)) for each in pair.typed()}) > 1
    ),
    "rubric-untyped": lambda pair: (
        bool(pair.type) and any(not each.get("type") for each in _asked_about(pair))
    ),
    "rubric-type-spelled": lambda pair: (
        bool(pair.type) and any(_spelled(pair, each) for each in _asked_about(pair))
    ),
    "rubric-of-earlier-turns": lambda pair: (
        pair.metric == faults.CONVERSATION
        and pair.adk is not None
        and any(set(each) - set(pair.typed()[-1]) for each in pair.typed())
    ),
    "rubric-twice": lambda pair: (
        bool(pair.type) and any(set(pair.own) & set(each) for each in pair.typed())
    ),
    "turn-without-rubrics": lambda pair: (
        bool(pair.type)
        and not pair.own
        and not all(pair.typed()[-1:] if pair.metric == faults.CONVERSATION else pair.typed())
    ),
    "steps-unrecorded-judged": lambda pair: (
        pair.metric == faults.TOOLS
        and any("intermediate_data" not in turn for turn in pair.request["actual"])
    ),
    "reference-empty": lambda pair: (
        pair.metric == faults.MATCH
        and any(not turn["final_response"]["parts"] for turn in pair.request["expected"])
    ),
    "hallucination-samples": lambda pair: (
        pair.metric == faults.HALLUCINATIONS
        and pair.request["criterion"]["judge_model_options"]["num_samples"] > 1
    ),
    "float-dust-judged": lambda pair: (
        pair.metric in (faults.HALLUCINATIONS, "safety_v1", "response_evaluation_score")
        and None not in (pair.adk, pair.score)
        and math.isclose(pair.adk or 0.0, pair.score or 0.0, rel_tol=1e-14, abs_tol=0.0)
    ),
}


@pytest.fixture(scope="module")
def pairs(adk: AdkChild) -> list[Pair]:
    requests = [request for metric in METRICS for request in made(metric)]
    scores = [answer["score"] for answer in adk.ask("judged.py", requests)]
    return [
        Pair(
            request=request,
            adk=None if score is None else float.fromhex(score),
            ours=scripted.grade(request, adk_compat=False),
        )
        for request, score in zip(requests, scores, strict=True)
    ]


def test_the_differences_are_the_documented_ones(pairs: list[Pair]) -> None:
    unexplained, lone = [], Counter[str]()
    for pair in pairs:
        if pair.score == pair.adk:
            continue
        reasons = [name for name, holds in ROWS.items() if holds(pair)]
        lone.update(reasons if len(reasons) == 1 else ())
        if not reasons:
            unexplained.append((pair.request, pair.adk, pair.ours))
    assert unexplained == []
    assert set(lone) == set(ROWS), "each row shows alone somewhere, or it is none"


def test_the_rows_are_the_pages(pairs: list[Pair]) -> None:
    assert set(ROWS) <= set(faults.FAULTS)
    equal = Counter(pair.metric for pair in pairs if pair.score == pair.adk is not None)
    assert all(equal[metric] > EACH / 20 for metric in METRICS), equal


def _compat(request: Scripted) -> float | None:
    grade = scripted.grade(request, adk_compat=True)
    return grade.value if isinstance(grade, Score) else None


def test_adk_compat_takes_each_of_them_back(pairs: list[Pair]) -> None:
    assert [pair.request for pair in pairs if _compat(pair.request) != pair.adk] == []


def test_adk_compat_gives_adks_scores_where_calls_fail_too(adk: AdkChild) -> None:
    rng = random.Random("rough")
    requests = [rough(request, rng) for metric in METRICS for request in made(metric)]
    scores = [answer["score"] for answer in adk.ask("judged.py", requests)]
    theirs = [None if score is None else float.fromhex(score) for score in scores]
    assert [
        (each, adk) for each, adk in zip(requests, theirs, strict=True) if _compat(each) != adk
    ] == []
    assert len(theirs) / 14 < theirs.count(None) < len(theirs) * 0.7
