"""Which cases are new: what the base's files do not have, as far as these can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate.agents import opening
from evalgate.baseline import base as baseline_base
from evalgate.baseline.base import Base, BaseProject, BaseRules
from evalgate.model import (
    AgentUse,
    BaseOrigin,
    BaseSource,
    Case,
    ConfigOrigin,
    CriteriaSource,
    EvalSet,
    Policy,
    Suite,
)

AGENT = AgentUse(driver="command")


def suites(files: dict[str, str]) -> tuple[Suite, ...]:
    return tuple(
        Suite(
            key=key,
            eval_set=EvalSet(
                eval_set_id=key, cases=tuple(Case(case_id=each, conversation=()) for each in cases)
            ),
            criteria=(),
            criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS, file=""),
            agent=AGENT,
        )
        for key, cases in files.items()
    )


@pytest.mark.parametrize(
    ("before", "unread", "renamed", "now", "new"),
    [
        ({"f": "12"}, "", {}, {"f": "12"}, ""),
        ({"f": "1"}, "", {}, {"f": "12"}, "f2"),
        ({"f": "1"}, "", {}, {"f": "1", "g": "1"}, "g1"),
        ({"f": "1"}, "", {"g": "f"}, {"g": "12"}, "g2"),
        ({}, "", {}, {"f": "1"}, "f1"),  # the base has files, and nothing of what is selected
        (None, "", {}, {"f": "1"}, ""),  # no file at all: its agent can be asked all the same
        ({"f": "1"}, "g", {}, {"f": "12", "g": "1"}, "f2"),  # what it has of g cannot be read
        ({"f": "1"}, "g", {}, {"f": "1", "h": "1"}, ""),  # h may be g under another name
        ({"f": "1"}, "g", {}, {"f": "1", "g": "1", "h": "1"}, "h1"),
        ({"f": "1"}, "", {}, {"f": "1", "a": "1"}, "a1"),
    ],
)
def test_new_cases(
    before: dict[str, str] | None,
    unread: str,
    renamed: dict[str, str],
    now: dict[str, str],
    new: str,
) -> None:
    known = baseline_base.under_head_names(
        suites({**(before or {}), **dict.fromkeys(unread, "")}), renamed
    )
    rules = (
        None
        if before is None
        else BaseRules(suites=known, policy=Policy(), unread=frozenset(unread))
    )
    base = Base(
        origin=BaseOrigin(source=BaseSource.RERUN),
        root=Path(),
        project=BaseProject(agents=dict.fromkeys(now, AGENT), rules=rules, renamed=renamed),
    )
    found = baseline_base.new_cases(suites(now), base)
    assert ["".join(key) for key in found] == ([new] if new else [])


def test_where_the_base_has_no_agent_every_case_is_new() -> None:
    agents = {"f": AGENT, "g": opening.missing()}
    files = suites({"f": "1", "g": "1"})
    rules = BaseRules(suites=files, policy=Policy())
    base = Base(
        origin=BaseOrigin(source=BaseSource.RERUN),
        root=Path(),
        project=BaseProject(agents=agents, rules=rules),
    )
    assert baseline_base.new_cases(files, base) == [("g", "1")]
