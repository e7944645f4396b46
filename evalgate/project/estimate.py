"""How many model calls a run will make at the least: what `evalgate list` shows before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass

from evalgate.model import Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A lower bound: an agent calls its model at least once a turn, and once more after each tool call. What judges
    are asked is not in it.
    """

    cases: int
    trials: int
    turns: int
    model_calls: int


def estimate(suite: Suite, *, repeats: int = 1) -> Estimate:
    """Trials, turns and model calls of a suite run `repeats` times; a scenario counts as one turn."""
    turns = sum(1 if case.conversation is None else len(case.conversation) for case in suite.eval_set.cases)
    cases = len(suite.eval_set.cases)
    return Estimate(cases=cases, trials=cases * repeats, turns=turns * repeats, model_calls=turns * repeats)
