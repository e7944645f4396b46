"""Our scores against google-adk's own, over the same JSON: equal under adk_compat, else different
as documented."""

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evalgate import criteria
from evalgate.criteria import response_match
from evalgate.criteria.base import CriterionServices
from evalgate.formats.adk_shapes import InvocationWire
from evalgate.model import (
    Case,
    CriterionUse,
    Grade,
    Invocation,
    NotEvaluated,
    Score,
    TrialView,
    turns,
)
from evalgate.model.deviations import under

pytestmark = pytest.mark.parity

TRAJECTORY = "tool_trajectory_avg_score"
RESPONSE = "response_match_score"
CONFIGS: list[dict[str, Any]] = [
    {RESPONSE: 0.8, TRAJECTORY: 1.0},
    *(
        {TRAJECTORY: {"threshold": 0.5, "match_type": match_type, "ignore_args": ignore_args}}
        for match_type, ignore_args in itertools.product((" exact", "In-Order", 2), (False, True))
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One criterion of one sample, as both sides judged it."""

    sample: Any
    evidence: TrialView
    name: str
    options: dict[str, Any]
    threshold: float | None
    adk: dict[str, Any]

    def ours(self, *, adk_compat: bool) -> Grade:
        use = CriterionUse(name=self.name, threshold=self.threshold, options=self.options)
        return criteria.build(use, CriterionServices(deviations=under(adk_compat=adk_compat)))(
            self.evidence
        )


@pytest.fixture(scope="module")
def judged(
    ask_adk: Callable[..., Any], corpus_samples: list[Any], seeded_samples: list[Any]
) -> list[Judged]:
    samples = [*corpus_samples, *seeded_samples]
    configs = [{"criteria": each} for each in CONFIGS]
    answers = ask_adk(
        {"configs": configs, "actual": each.actual, "expected": each.expected} for each in samples
    )
    found = []
    for sample, answer in zip(samples, answers, strict=True):
        assert "unreadable" not in answer, (sample.origin, answer)
        evidence = _evidence(sample)
        for config, result in zip(CONFIGS, answer["results"], strict=True):
            first = config is CONFIGS[0]
            names = result if first else config
            found.extend(
                _judged(sample, evidence, name, config.get(name), result[name]) for name in names
            )
    return found


def _judged(
    sample: Any, evidence: TrialView, name: str, criterion: Any, adk: dict[str, Any]
) -> Judged:
    options = dict(criterion) if isinstance(criterion, dict) else {"threshold": criterion}
    threshold = options.pop("threshold")
    return Judged(
        sample=sample, evidence=evidence, name=name, options=options, threshold=threshold, adk=adk
    )


def _evidence(sample: Any) -> TrialView:
    # through JSON text, as files and workers give it
    actual, expected = (
        None
        if side is None
        else tuple(InvocationWire.model_validate_json(json.dumps(each)).to_model() for each in side)
        for side in (sample.actual, sample.expected)
    )
    return TrialView(
        case=Case(case_id=sample.origin, conversation=expected),
        actual=actual or (),
        expected=expected,
    )


def _in_adks_words(grade: Grade, threshold: float | None) -> dict[str, Any]:
    """Our grade as ADK would put it, floats to the last bit; turns without any score are ADK's
    empty list."""
    turn_scores = [None if value is None else value.hex() for value in grade.turns]
    if isinstance(grade, NotEvaluated):
        return {"score": None, "status": "NOT_EVALUATED", "turns": turn_scores, "details": {}}
    status = (
        "INFORMATIONAL" if threshold is None else "PASSED" if grade.value >= threshold else "FAILED"
    )
    details = {key: value.hex() for key, value in grade.breakdown.items()}
    return {"score": grade.value.hex(), "status": status, "turns": turn_scores, "details": details}


def _adks(judged: Judged) -> dict[str, Any]:
    adk = {key: value for key, value in judged.adk.items() if key != "error"}
    adk["details"] = {key: value for key, value in adk["details"].items() if value is not None}
    if adk["score"] is None:  # ADK calls an informational criterion without a value INFORMATIONAL
        adk |= {"status": "NOT_EVALUATED", "details": {}}
    return adk


def test_under_adk_compat_every_number_is_adks(judged: list[Judged]) -> None:
    different = [
        (each.sample.origin, each.name, each.options, ours, _adks(each))
        for each in judged
        if (ours := _in_adks_words(each.ours(adk_compat=True), each.threshold)) != _adks(each)
    ]
    assert different == []


def test_the_inputs_are_worth_the_comparison(judged: list[Judged]) -> None:
    statuses = Counter((each.name, each.adk["status"]) for each in judged)
    for name in (TRAJECTORY, RESPONSE):
        for status in ("PASSED", "FAILED", "NOT_EVALUATED"):
            assert statuses[name, status] > 50, (name, status)
    scores = {each.adk["score"] for each in judged if each.name == RESPONSE}
    assert len(scores) > 400
    assert len({each.sample.origin for each in judged}) > 2500


# --- deviations: one predicate for each row of docs/adk-parity.md ---------------------------------


def _turns(judged: Judged) -> list[tuple[Invocation, Invocation]]:
    return list(zip(judged.evidence.actual, judged.evidence.expected or (), strict=False))


def _null_args(judged: Judged) -> bool:
    calls = [call for pair in _turns(judged) for turn in pair for call in turn.tool_calls]
    return (
        judged.name == TRAJECTORY
        and any(call.args is None for call in calls)
        and any(call.args == {} for call in calls)
    )


def _framework_calls(judged: Judged) -> bool:
    return judged.name == TRAJECTORY and any(
        call.name.startswith("adk_request_")
        for pair in _turns(judged)
        for turn in pair
        for call in turn.tool_calls
    )


def _steps_unrecorded(judged: Judged) -> bool:
    concerned = judged.name in (TRAJECTORY, "tool_call_count_v1")
    return concerned and any(turn.events is None for turn in judged.evidence.actual)


def _thoughts(judged: Judged) -> bool:
    return judged.name == RESPONSE and any(
        turns.answer(turn) != turns.answer(turn, with_thoughts=True)
        for pair in _turns(judged)
        for turn in pair
    )


def _reference_without_words(judged: Judged) -> bool:
    return judged.name == RESPONSE and any(
        not response_match.split(turns.answer(expected)) for _, expected in _turns(judged)
    )


def _float_dust(judged: Judged) -> bool:
    ours = judged.ours(adk_compat=False)
    if judged.name != RESPONSE or judged.adk["score"] is None or not isinstance(ours, Score):
        return False
    return math.isclose(ours.value, float.fromhex(judged.adk["score"]), rel_tol=1e-14, abs_tol=0.0)


def _model_calls_untold(judged: Judged) -> bool:
    return judged.name == "inference_call_count_v1" and any(
        turn.events is not None
        and not any(event.usage or event.model_version for event in turn.events)
        for turn in judged.evidence.actual
    )


def _usage_unreported(judged: Judged) -> bool:
    return judged.name == "token_usage_v1" and any(
        all(
            event.usage is None or event.usage == type(event.usage)() for event in turn.events or ()
        )
        for turn in judged.evidence.actual
    )


DEVIATIONS: dict[str, Callable[[Judged], bool]] = {
    "null-args": _null_args,
    "framework-calls": _framework_calls,
    "steps-unrecorded": _steps_unrecorded,
    "thoughts": _thoughts,
    "reference-without-words": _reference_without_words,
    "float-dust": _float_dust,
    "model-calls-untold": _model_calls_untold,
    "usage-unreported": _usage_unreported,
}


def test_otherwise_the_differences_are_the_documented_ones(judged: list[Judged]) -> None:
    unexplained, seen, lone = [], Counter(), Counter()
    for each in judged:
        ours = _in_adks_words(each.ours(adk_compat=False), each.threshold)
        if ours == _adks(each):
            continue
        reasons = [name for name, holds in DEVIATIONS.items() if holds(each)]
        seen.update(reasons)
        lone.update(reasons if len(reasons) == 1 else ())
        if not reasons:
            unexplained.append((each.sample.origin, each.name, each.options, ours, _adks(each)))
    assert unexplained == []
    assert set(lone) == set(DEVIATIONS), "each deviation shows alone somewhere, or it is none"


def test_the_page_lists_these_deviations_and_no_others() -> None:
    page = (Path(__file__).parents[2] / "docs/adk-parity.md").read_text("utf-8")
    _, scores, _ = re.split(r"^## ", page, maxsplit=2, flags=re.MULTILINE)
    assert set(re.findall(r"^\| `([a-z-]+)` \|", scores, re.MULTILINE)) == set(DEVIATIONS)
