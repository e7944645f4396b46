"""The properties that stand for Google Cloud's multi-turn metrics where its evaluation service is not asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evalgate.model import Rubric

VERSION: Final = "1"


def _rubrics(**texts: str) -> tuple[Rubric, ...]:
    return tuple(Rubric(rubric_id=name, text=text) for name, text in texts.items())


PROPERTIES: Final[Mapping[str, tuple[Rubric, ...]]] = {
    "multi_turn_task_success_v1": _rubrics(
        goals_reached="Every goal that the user set in the conversation and did not drop was reached by its end, or "
        "could not be reached for a reason that the agent named and that the tool outputs bear out.",
        constraints_kept="Every condition that the user set (a date, a price, a format, a thing not to do) was kept.",
        outcome_true="What the agent told the user about the outcome agrees with what the tools returned.",
    ),
    "multi_turn_trajectory_quality_v1": _rubrics(
        towards_the_goal="Each step of the agent served what the user wanted at that point of the conversation.",
        nothing_twice="The agent did not repeat steps or questions whose result it already had.",
        in_order="Steps that depend on others came after them.",
        mistakes_mended="Where a step failed, the agent noticed it and tried another way or told the user.",
        context_kept="The agent remembered what had been said and found out in earlier turns.",
    ),
    "multi_turn_tool_use_quality_v1": _rubrics(
        right_tools="Wherever a tool was needed, the agent called one that fits, and it called none without need.",
        right_arguments="The arguments of every call follow from the conversation or from earlier tool outputs, and "
        "none that the tool needs is missing.",
        outputs_used="The agent used the tool outputs as they are: it neither ignored nor changed nor made them up.",
    ),
}
"""What is checked, by metric; the share of properties that hold is the score."""
