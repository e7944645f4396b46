"""final_session_state: the session state at the end, compared with the expected state of the
case."""

from __future__ import annotations

import enum
import json
from functools import partial
from typing import Any

from pydantic import Field

from evalgate.model import (
    Finding,
    Grade,
    Reason,
    Score,
    TrialView,
    json_match,
    not_evaluated,
    turns,
)
from evalgate.model.shapes import Wire
from evalgate.text import plain
from evalgate.values import Json, Sentence, matches_any
from .base import CriterionSpec


class StateMatch(enum.StrEnum):
    """How the two states are compared."""

    SUBSET = "subset"  # keys that the case does not name may have any value, at every depth
    EXACT = "exact"


class StateOptions(Wire):
    """The object form without its threshold. `ignore`: patterns of keys (with `*` and `?`) that are
    not compared."""

    match: StateMatch = StateMatch.SUBSET
    ignore: list[str] = Field(default_factory=list)
    matchers: dict[str, json_match.Matcher] = Field(default_factory=dict)


def grade(view: TrialView, *, options: StateOptions) -> Grade:
    """The share of top-level keys that are as expected: 1.0 if all are.

    With `exact`, keys that the case does not name are wrong. If a case expects no state, or the
    driver cannot report it, there is no score."""
    if view.case.expects_state is None:
        return not_evaluated(Reason.REFERENCE_MISSING, "no_expected_state")
    if view.final_state is None:
        return not_evaluated(Reason.NOTHING_RECORDED, "state_unrecorded")
    expected = _without(view.case.expects_state, options.ignore)
    actual = _without(view.final_state, options.ignore)
    is_subset = options.match is StateMatch.SUBSET
    compared_keys = dict.fromkeys([*expected, *options.matchers, *(() if is_subset else actual)])
    if not compared_keys and is_subset:
        return not_evaluated(Reason.REFERENCE_MISSING, "no_compared_state")
    wrong_keys = json_match.entries_differing(
        actual, expected, matchers=options.matchers, subset=is_subset
    )
    share = turns.mean([0 if key in wrong_keys else 1 for key in compared_keys] or [1])
    findings = []
    for key in wrong_keys:
        expectation = _value_text(expected.get(key, json_match.MISSING))
        if key in options.matchers:
            expectation = json.dumps(options.matchers[key].compact(), ensure_ascii=False)
        text = Sentence(
            "state_differs", expectation, _value_text(actual.get(key, json_match.MISSING))
        )
        findings.append(Finding(text=text, label=key))
    return Score(value=share, findings=tuple(findings))


def _without(state: Json, ignored: list[str]) -> Json:
    return {key: value for key, value in state.items() if not matches_any(key, ignored)}


def _value_text(value: Any) -> str:
    return "" if value is json_match.MISSING else plain.short_json(value)


SPEC = CriterionSpec(
    name="final_session_state",
    summary="share of the expected session state present at the end",
    options=StateOptions,
    build=lambda options, _use, _services: partial(grade, options=options),
    is_beyond_adk=True,
)
