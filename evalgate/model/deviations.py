"""Where evalgate deviates from google-adk: the one table, which `adk_compat` takes back row by
row."""

from __future__ import annotations

import dataclasses

from evalgate.values import frozen_dataclass


@frozen_dataclass
class Deviations:
    """Which of evalgate's rules hold where ADK has others: all of them, or under `adk_compat` none.

    A row names evalgate's rule; its comment says what ADK does (docs/adk-parity.md, with ids there
    in brackets)."""

    # computed scores
    null_args: bool = True  # a call without arguments differs from one with `{}`
    framework_calls: bool = True  # calls by which the framework asks the user count
    # a turn without recorded steps has no calls (also steps-unrecorded-judged)
    steps_unrecorded: bool = True
    # thoughts count, no reference is 0.0, floats (thoughts, reference-without-words, ...)
    exact_overlap: bool = True
    model_calls_untold: bool = True  # a turn that reports no model call had 0
    usage_unreported: bool = True  # a turn without usage counts as 0 tokens
    # judged scores
    spared_samples: bool = True  # every sample is asked, decided or not
    sample_raises: bool = True  # one sample that fails voids its turn
    turn_unjudged: bool = True  # what has no verdict drops out of the mean (also sentence-left-out)
    # what the judge passes over is not asked for again (rubric-forgotten)
    item_forgotten: bool = True
    # the last turn's rubrics count for all (last-turn-rubrics, rubric-of-earlier-turns)
    own_rubrics: bool = True
    loose_rubrics: bool = (
        True  # no or another type: dropped; twice: an error (rubric-untyped, -type-spelled, -twice)
    )
    turn_without_rubrics: bool = True  # one such turn, and nothing is evaluated
    reference_empty: bool = True  # no reference is compared as an empty one
    answer_empty: bool = True  # the judge is asked about an empty answer
    hallucination_samples: bool = True  # one sample decides
    float_dust_judged: bool = True  # sums are rounded at each step
    simulator_turn_unjudged: bool = True  # a turn without a verdict counts as 0
    simulator_cut: bool = True  # a conversation that was cut is judged as if the user had ended it
    # simulated users
    turn_limit: bool = True  # an endless conversation passes
    last_question: bool = True  # at the limit the user is not asked whether it would end
    quoted_signal: bool = True  # a stop signal in quotes ends the conversation
    poor_quality: bool = True  # a poor simulated user fails the case
    # gate and run
    criterion_unscored: bool = True  # a criterion without a score vanishes beside one that passes
    agent_failure: bool = True  # an agent that fails fails its case
    failures_confirmed: bool = True  # the first runs decide
    fitting_defaults: bool = True  # the default criteria decide every case

    @property
    def are_taken_back(self) -> bool:
        """True if ADK's rules hold throughout."""
        return self == ADKS


OURS = Deviations()
ADKS = Deviations(**{row.name: False for row in dataclasses.fields(Deviations)})


def under(*, adk_compat: bool) -> Deviations:
    """The rules by the setting."""
    return ADKS if adk_compat else OURS
