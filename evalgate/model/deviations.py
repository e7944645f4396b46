"""evalgate's deviations from google-adk: one table, whose rows `adk_compat` disables."""

from __future__ import annotations

import dataclasses

from evalgate.values import frozen_dataclass


@frozen_dataclass
class Deviations:
    """The rules of evalgate that differ from ADK's: all apply, or with `adk_compat` none.

    A row names evalgate's rule; its comment describes ADK's behavior (docs/adk-parity.md, with ids
    there in brackets)."""

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
    # items without a verdict drop out of the mean (also sentence-left-out)
    turn_unjudged: bool = True
    # items that the judge omits are not asked again (rubric-forgotten)
    item_forgotten: bool = True
    # the last turn's rubrics count for all (last-turn-rubrics, rubric-of-earlier-turns)
    own_rubrics: bool = True
    loose_rubrics: bool = (
        True  # no or another type: dropped; twice: an error (rubric-untyped, -type-spelled, -twice)
    )
    turn_without_rubrics: bool = True  # one such turn prevents the whole evaluation
    reference_empty: bool = True  # a missing reference is compared as an empty one
    answer_empty: bool = True  # the judge is asked about an empty answer
    hallucination_samples: bool = True  # one sample decides
    float_dust_judged: bool = True  # sums are rounded at each step
    simulator_turn_unjudged: bool = True  # a turn without a verdict counts as 0
    simulator_cut: bool = True  # a cut conversation is judged as if the user had ended it
    # simulated users
    turn_limit: bool = True  # an endless conversation passes
    last_question: bool = True  # at the limit the user is not asked if it would end
    quoted_signal: bool = True  # a stop signal in quotes ends the conversation
    poor_quality: bool = True  # a poor simulated user fails the case
    # gate and run
    criterion_unscored: bool = True  # a criterion without a score is ignored if another one passes
    agent_failure: bool = True  # an agent that fails fails its case
    failures_confirmed: bool = True  # the first runs decide
    fitting_defaults: bool = True  # the default criteria decide every case

    @property
    def is_adk_compat(self) -> bool:
        """True if all of ADK's rules apply."""
        return self == ADKS


OURS = Deviations()
ADKS = Deviations(**{row.name: False for row in dataclasses.fields(Deviations)})


def under(*, adk_compat: bool) -> Deviations:
    """The rules for the setting."""
    return ADKS if adk_compat else OURS
