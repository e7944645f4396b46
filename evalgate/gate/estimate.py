"""How many model calls a run makes at the least, and what its judges cost at the least."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from evalgate import agents
from evalgate.config.settings import Settings
from evalgate.criteria import judges as criteria_judges
from evalgate.judges import models
from evalgate.model import Case, CriterionUse, Need, Suite, ToolCall, Usage
from evalgate.runner.trials import Task
from evalgate.text import words

LEAST = Usage(prompt_tokens=100, candidates_tokens=5)
"""Fewer tokens than the shortest question of any judge and its answer have."""


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


def of_suite(suite: Suite, settings: Settings) -> Estimate:
    """Trials, turns and calls of the first runs of a suite; a scenario counts as one turn."""
    cases, repeats = suite.eval_set.cases, settings.runs.start
    questions = sum(count for case in cases for _, count in _questions(suite, case, settings))
    return Estimate(
        cases=len(cases),
        trials=len(cases) * repeats,
        turns=sum(1 if case.conversation is None else len(case.conversation) for case in cases) * repeats,
        model_calls=sum(map(_calls, cases)) * repeats,
        judge_calls=questions * repeats,
    )


def told(tasks: Iterable[Task], settings: Settings) -> str:
    """What is expected of these trials, in a sentence; "" where no model is asked."""
    calls, asked, least_usd = 0, 0, 0.0
    replayed = criteria_judges.defaults_of(settings).client == "replay"
    for task in tasks:
        calls += _calls(task.case) if agents.is_asked(task.suite.agent) else 0
        for model, count in () if replayed else _questions(task.suite, task.case, settings):
            name = models.parse_name(model)
            asked += count
            least_usd += count * (models.cost_usd(model=name.name, provider=name.priced_as, usage=LEAST) or 0.0)
    cost = f"{words.dollars(least_usd)} or more; " if least_usd else ""
    said = (
        words.counted(calls, "agent model call") if calls else "",
        f"{words.counted(asked, 'judge call')} ({cost}cached replies are free)" if asked else "",
    )
    expected = " and ".join(each for each in said if each)
    return f"expecting at least {expected}" if expected else ""


def _questions(suite: Suite, case: Case, settings: Settings) -> Iterator[tuple[str, int]]:
    """The judge's model and the number of calls of each judged criterion of a case."""
    for use in () if settings.skip_judged else suite.criteria_of(case):
        count = _samples(use, all_samples=settings.adk_compat)  # under which no judge stops early
        written = use.options.get("judge_model_options")
        model = written.get("judge_model") if isinstance(written, Mapping) else None
        if count:
            yield str(model or ""), count


def _calls(case: Case) -> int:
    """A call a turn, and one more for each expected event that calls tools: calls of one event are made together."""
    if case.conversation is None:
        return 1
    contents = (event.content for turn in case.conversation for event in turn.events or ())
    steps = sum(any(isinstance(part, ToolCall) for part in content.parts) for content in contents if content)
    return len(case.conversation) + steps


def _samples(use: CriterionUse, *, all_samples: bool) -> int:
    """How often a judge is asked one question at the least; half of the samples decide where all agree."""
    if not use.is_judged or use.code is not None:
        return 0
    if Need.VERTEX in use.needs:
        return 1
    written = use.options.get("judge_model_options")
    samples = written.get("num_samples") if isinstance(written, Mapping) else None
    if not isinstance(samples, int):
        return 1
    return samples if all_samples or use.options.get("exhaustive") else -(-samples // 2)
