"""Two versions of a resource by field, and the changes that relax: the new one fails for less."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from evalgate.formats.json_source import Path, path_text
from evalgate.values import frozen_dataclass


class _Missing:
    """The value of a field that is not there, apart from null."""

    def __repr__(self) -> str:
        return "(not set)"


MISSING: Final = _Missing()
LONGEST_SHOWN: Final = 200


@frozen_dataclass
class FieldChange:
    """A field that differs. Places within lists are those of the old version; of what is added
    those of the new one. `is_last`: it is added behind all that was in the list."""

    path: Path
    old: Any
    new: Any
    is_last: bool = False

    def __str__(self) -> str:
        return (
            f"{path_text(self.path) or '(whole)'}: {value_text(self.old)} -> {value_text(self.new)}"
        )


@frozen_dataclass
class Relaxation:
    """A change after which less is asked, and why."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{path_text(self.path) or '(whole)'}: {self.reason}"


def value_text(value: Any) -> str:
    """A value in one line."""
    if value is MISSING:
        return repr(value)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def changes(old: Any, new: Any, path: Path = ()) -> Iterator[FieldChange]:
    """What differs, field by field; items of lists are paired so that an inserted one does not
    change all behind it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from changes(old.get(key, MISSING), new.get(key, MISSING), (*path, key))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(old, new, path)
    elif old is not new and (old is MISSING or new is MISSING or not same(old, new)):
        yield FieldChange(path=path, old=old, new=new)


def same(expected: Any, actual: Any) -> bool:
    """True if JSON values are equal: `3` is `3.0`, as in a Struct, and neither is `true`."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() == actual.keys() and all(
            same(value, actual[key]) for key, value in expected.items()
        )
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    return isinstance(expected, bool) == isinstance(actual, bool) and bool(expected == actual)


def _of_lists(old: Sequence[Any], new: Sequence[Any], path: Path) -> Iterator[FieldChange]:
    for start, end, begin, stop in differing(old, new):
        pairs = min(end - start, stop - begin)
        for number in range(pairs):
            yield from changes(old[start + number], new[begin + number], (*path, start + number))
        for number in range(start + pairs, end):
            yield FieldChange(path=(*path, number), old=old[number], new=MISSING)
        for number in range(begin + pairs, stop):
            yield FieldChange(
                path=(*path, number), old=MISSING, new=new[number], is_last=end == len(old)
            )


def differing(old: Sequence[Any], new: Sequence[Any]) -> Iterator[tuple[int, int, int, int]]:
    """The stretches of two lists that differ: start and end in the old list, and in the new one."""
    old_texts, right = (
        [json.dumps(element, sort_keys=True) for element in items] for items in (old, new)
    )
    for kind, start, end, begin, stop in difflib.SequenceMatcher(
        None, old_texts, right, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            yield start, end, begin, stop


# --- what relaxes ---------------------------------------------------------------------------------

_THRESHOLDS: Final[Mapping[str, float]] = {
    "semanticSimilaritySuccessThreshold": 3,
    "overallToolInvocationCorrectnessThreshold": 1.0,
    "toolInvocationParameterCorrectnessThreshold": 1.0,
}
"""With what an absent one means."""

_HALLUCINATION: Final = {"DISABLED": 0, "": 1, "ENABLED": 2}
_STRICTNESS: Final[Mapping[str, Mapping[str, int]]] = {
    # unspecified values have their documented meaning, if it is known
    "extraToolCallBehavior": {"ALLOW": 0, "FAIL": 1, "": 1},
    "comparisonType": {"": 0, "SEMANTIC_SIMILARITY": 0, "CONTAINS": 1, "EQUALS": 2},
    "hallucinationMetricBehavior": _HALLUCINATION,
    "goldenHallucinationMetricBehavior": _HALLUCINATION,
    "scenarioHallucinationMetricBehavior": _HALLUCINATION,
    "hallucinationMetricBehaviorOverride": _HALLUCINATION,
    "userGoalBehavior": {
        "USER_GOAL_IGNORED": 0,
        "USER_GOAL_REJECTED": 1,
        "USER_GOAL_SATISFIED": 1,
        "": 1,
    },
    "taskCompletionBehavior": {"TASK_REJECTED": 1, "TASK_SATISFIED": 1, "": 1},
    "goldenEvaluationToolCallBehaviour": {"FAKE": 0, "REAL": 1, "": 1},
    "scenarioEvaluationToolCallBehaviour": {"FAKE": 0, "REAL": 1, "": 1},
    "goldenRunMethod": {"STABLE": 1, "NAIVE": 1, "": 1},
    "scenarioConversationInitiator": {"USER": 1, "AGENT": 1, "": 1},
}
_GOALS: Final[Mapping[str, str]] = {
    "userGoalBehavior": "USER_GOAL_SATISFIED",
    "taskCompletionBehavior": "TASK_SATISFIED",
    "goldenRunMethod": "STABLE",
    "scenarioConversationInitiator": "USER",
}
"""Fields whose values never ask for less, but perhaps for something easier; with their defaults."""

_FREE: Final = frozenset(
    {
        "name",
        "displayName",
        "description",
        "tags",
        "note",
        "id",
        "eventTime",
        "rootSpan",
        "semanticSimilarityChannel",
    }
)
"""Fields that neither ask nor expect anything."""

_STRUCTS: Final = frozenset(
    {"args", "response", "variables", "updatedVariables", "payload", "variableOverrides"}
)
"""Fields whose keys are of the app, and mean nothing by their names."""
_ASKED: Final = frozenset(
    {"golden", "scenario", "llmCriteria", "evaluations", "evaluationPersonas"}
    # of simulations and tool tests
    | {"steps", "expectations", "session_parameters", "max_turns", "args"}
)
"""Fields whose whole content is required."""

_ONLY_MORE: Final = frozenset(
    {
        "golden",
        "scenario",
        "llmCriteria",
        "rubrics",
        "evaluationExpectations",
        "expectations",
        "evaluations",
    }
    | {"agentTransfer", "updatedVariables", "noToolCalls", "prompt"}
)
"""What may be added without letting anything pass that did not pass before."""


def relaxations(field_changes: Sequence[FieldChange]) -> list[Relaxation]:
    """The changes that relax.

    Lower thresholds, weaker comparisons, metrics that are switched off, and questions or
    expectations that are removed or replaced. Tightened rules do not count, nor do additions,
    unless they let something pass: a call or an answer that was not expected, a tool that gets a
    mocked answer, words of the user, variables."""
    return [
        Relaxation(path=change.path, reason=reason)
        for change in field_changes
        for reason in _reasons(change)
    ]


def removed(kind: str, path: Path = ()) -> Relaxation:
    """The relaxation that it is to delete a resource."""
    return Relaxation(path=path, reason=f"the {kind} is removed")


def _reasons(change: FieldChange) -> Iterator[str]:
    """The reasons why a change relaxes, if any."""
    keys = [step for step in change.path if isinstance(step, str)]
    last = keys[-1] if keys else ""
    within = isinstance(change.new, dict | list) or isinstance(change.old, dict | list)
    if _STRUCTS.intersection(keys[:-1]) and change.old is not MISSING:  # any name is allowed here
        yield _content_reason(change, keys)
    elif last in _THRESHOLDS and not within:
        old, new = (
            _THRESHOLDS[last] if threshold is MISSING else threshold
            for threshold in (change.old, change.new)
        )
        if new < old:
            yield f"the threshold is lowered from {old:g} to {new:g}"
    elif last in _STRICTNESS and not within:
        yield from _enum_reasons(last, change)
    elif last.startswith("enable") and not within:
        if change.new is not True and change.old is not False:
            yield "the metric is switched off"
    elif last == "skipEvaluation":
        if change.new is True:
            yield "the expectation is not evaluated"
    elif _is_setting(last) and within:
        yield from _settings_reasons(change)
    elif change.old is MISSING:
        yield from _addition_reasons(change, keys)
    elif _ASKED.intersection(keys) and not _FREE.intersection(keys[-1:]):
        yield _content_reason(change, keys)


def _is_setting(key: str) -> bool:
    return "Metrics" in key or key.startswith(
        ("toolMatching", "metricsConfig", "evaluationSettings")
    )


def _enum_reasons(name: str, change: FieldChange) -> Iterator[str]:
    old, new = (
        "" if choice is MISSING or "UNSPECIFIED" in str(choice) else str(choice)
        for choice in (change.old, change.new)
    )
    ranks = _STRICTNESS[name]
    if ranks.get(new, 0) < ranks.get(old, 0):
        yield f"{name} becomes {new or 'unspecified'}, was {old or 'unspecified'}"
    elif name in _GOALS and (new or _GOALS[name]) != (old or _GOALS[name]) and ranks.get(old, 0):
        goal = "another goal: " if name.endswith("Behavior") else ""
        yield f"{goal}{name} becomes {new or 'unspecified'}, was {old or 'unspecified'}"


def _settings_reasons(change: FieldChange) -> Iterator[str]:
    """Of settings that come or go whole: each value of theirs against what it means that it is
    absent."""
    old, new = ({} if settings is MISSING else settings for settings in (change.old, change.new))
    if str(change.path[-1]).endswith("MetricsConfig") and change.old is MISSING and not new:
        yield "the metric is switched off"  # the message without its `true`
        return
    if not isinstance(old, dict) or not isinstance(new, dict):
        return
    for setting_change in changes(old, new):
        inner = FieldChange(
            path=(*change.path, *setting_change.path),
            old=setting_change.old,
            new=setting_change.new,
        )
        if isinstance(setting_change.new, dict) or isinstance(setting_change.old, dict):
            yield from _settings_reasons(inner)
        elif not (
            setting_change.path
            and str(setting_change.path[-1]).startswith("enable")
            and setting_change.old is True
            and change.new is MISSING
        ):
            yield from _reasons(inner)


def _addition_reasons(change: FieldChange, keys: Sequence[str]) -> Iterator[str]:
    """What is added may let pass what did not pass before."""
    new = change.new
    last = keys[-1] if keys else ""
    fields = new if isinstance(new, dict) else {}
    if "args" in keys and keys[0] != "args":
        if "$matchType" in fields:
            yield "an argument is compared less strictly"
        return
    if (
        not _ASKED.intersection(keys)
        or last in _FREE | _ONLY_MORE
        or {"updatedVariables", "llmCriteria"} & {*keys}
    ):
        return
    # nothing comes after it
    if change.is_last and (last == "turns" or (last == "steps" and "goal" in fields)):
        return
    if last == "scenarioExpectations" and "mockToolResponse" not in fields.get(
        "toolExpectation", {}
    ):
        return  # other calls and answers do no harm there
    if not _ONLY_MORE.isdisjoint(fields.get("expectation", {})):
        return
    yield f"the {_noun(change.new, keys)} is added: what failed without it may pass"


def _content_reason(change: FieldChange, keys: Sequence[str]) -> str:
    """What was asked or expected and is not so any more."""
    noun = _noun(change.old, keys)
    return (
        f"the {noun} is removed" if change.new is MISSING else f"the {noun} is replaced by another"
    )


def _noun(value: Any, keys: Sequence[str]) -> str:
    """What a value is that is asked or expected."""
    last = keys[-1]
    if "args" in keys:
        return "expected argument"
    if last == "steps" and isinstance(value, dict) and "expectation" in value:
        return "expectation"
    nouns = {
        "turns": "turn",
        "steps": "step",
        "rubrics": "rubric",
        "userFacts": "fact",
        "evaluations": "evaluation",
        "golden": "golden",
        "scenario": "scenario",
        "prompt": "prompt",
        "maxTurns": "limit of turns",
        "max_turns": "limit of turns",
        "task": "task",
    }
    if last in nouns:
        return nouns[last]
    if "userInput" in keys:
        return "user input"
    return "persona" if "evaluationPersonas" in keys else "expectation"
