"""evalgate's deviations from google-adk: one table, whose rows `adk_compat` disables."""

from __future__ import annotations

import dataclasses

from evalgate.values import frozen_dataclass


@frozen_dataclass
class Deviations:
    """The rules of evalgate that differ from ADK's: all apply, or with `adk_compat` none.

    A row names evalgate's rule; its docstring describes ADK's behavior, in brackets with ids of
    docs/adk-parity.md."""

    # computed scores
    null_args: bool = True
    """A call without arguments differs from one with `{}`."""
    framework_calls: bool = True
    """Calls by which the framework asks the user count."""
    steps_unrecorded: bool = True
    """A turn without recorded steps has no calls (also steps-unrecorded-judged)."""
    exact_overlap: bool = True
    """Thoughts count, no reference is 0.0, floats (thoughts, reference-without-words, ...)."""
    model_calls_untold: bool = True
    """A turn that reports no model call had 0."""
    usage_unreported: bool = True
    """A turn without usage counts as 0 tokens."""
    # judged scores
    spared_samples: bool = True
    """Every sample is asked, decided or not."""
    sample_raises: bool = True
    """One sample that fails voids its turn."""
    turn_unjudged: bool = True
    """Items without a verdict drop out of the mean (also sentence-left-out)."""
    item_forgotten: bool = True
    """Items that the judge omits are not asked again (rubric-forgotten)."""
    own_rubrics: bool = True
    """The last turn's rubrics count for all (last-turn-rubrics, rubric-of-earlier-turns)."""
    loose_rubrics: bool = True
    """Without a type, or with another one: dropped; listed twice: an error (rubric-untyped,
    -type-spelled, -twice)."""
    turn_without_rubrics: bool = True
    """One such turn prevents the whole evaluation."""
    reference_empty: bool = True
    """A missing reference is compared as an empty one."""
    answer_empty: bool = True
    """The judge is asked about an empty answer."""
    hallucination_samples: bool = True
    """One sample decides."""
    float_dust_judged: bool = True
    """Sums are rounded at each step."""
    simulator_turn_unjudged: bool = True
    """A turn without a verdict counts as 0."""
    simulator_cut: bool = True
    """A cut conversation is judged as if the user had ended it."""
    # simulated users
    turn_limit: bool = True
    """An endless conversation passes."""
    last_question: bool = True
    """At the limit the user is not asked if it would end."""
    quoted_signal: bool = True
    """A stop signal in quotes ends the conversation."""
    poor_quality: bool = True
    """A poor simulated user fails the case."""
    # gate and run
    criterion_unscored: bool = True
    """A criterion without a score is ignored if another one passes."""
    agent_failure: bool = True
    """An agent that fails fails its case."""
    failures_confirmed: bool = True
    """The first runs decide."""
    fitting_defaults: bool = True
    """The default criteria decide every case."""

    @property
    def is_adk_compat(self) -> bool:
        """True if all of ADK's rules apply."""
        return self == ADKS


OURS = Deviations()
"""All rules of evalgate apply."""
ADKS = Deviations(**{row.name: False for row in dataclasses.fields(Deviations)})
"""All rules of ADK apply, as with `adk_compat`."""


def under(*, adk_compat: bool) -> Deviations:
    """The rules for the setting."""
    return ADKS if adk_compat else OURS
