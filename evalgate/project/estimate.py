"""How many model calls a run will make at the least: what `evalgate list` shows before anything is spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evalgate.criteria.base import CriterionSpec, Need
from evalgate.model import Case, CriterionUse, Invocation, Suite, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A lower bound for an agent that does what its cases expect: it calls its model once a turn, and once more after
    each step of tool calls. `judge_calls`: each judged criterion asks one question of a trial or more, and of every
    question as many samples as can decide it; replies that are cached cost none.
    """

    cases: int
    trials: int
    turns: int
    model_calls: int
    judge_calls: int = 0


def estimate(
    suite: Suite, *, repeats: int = 1, specs: Mapping[str, CriterionSpec], all_samples: bool = False
) -> Estimate:
    """Trials, turns and calls of a suite run `repeats` times; a scenario counts as one turn. `specs`: the criteria that
    will be asked. `all_samples`: no judge stops early, as under `adk-compat`."""
    cases = suite.eval_set.cases
    questions = sum(_samples(use, specs, all_samples=all_samples) for use in suite.criteria)
    return Estimate(
        cases=len(cases),
        trials=len(cases) * repeats,
        turns=sum(1 if case.conversation is None else len(case.conversation) for case in cases) * repeats,
        model_calls=sum(map(_calls, cases)) * repeats,
        judge_calls=questions * len(cases) * repeats,
    )


def judged(specs: Mapping[str, CriterionSpec], *, skipped: bool) -> Mapping[str, CriterionSpec]:
    """The criteria that ask a model or a service; none of them with `skipped`."""
    return {name: spec for name, spec in specs.items() if not skipped and spec.needs & {Need.JUDGE, Need.VERTEX}}


def _calls(case: Case) -> int:
    return 1 if case.conversation is None else sum(1 + _steps(turn) for turn in case.conversation)


def _steps(turn: Invocation) -> int:
    """Expected events that call tools: calls of one event are made together."""
    return sum(_calls_tools(event.content.parts) for event in turn.events or () if event.content is not None)


def _calls_tools(parts: Iterable[object]) -> bool:
    return any(isinstance(part, ToolCall) for part in parts)


def _samples(use: CriterionUse, specs: Mapping[str, CriterionSpec], *, all_samples: bool) -> int:
    """How often a judge is asked one question at the least; half of the samples decide where all agree."""
    spec = specs.get(use.name)
    if spec is None or use.code is not None:
        return 0
    if Need.VERTEX in spec.needs:
        return 1
    written = use.options.get("judge_model_options")
    samples = written.get("num_samples") if isinstance(written, Mapping) else None
    if not isinstance(samples, int):
        return 1
    return samples if all_samples or use.options.get("exhaustive") else -(-samples // 2)
