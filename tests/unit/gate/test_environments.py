"""What is said of a base that was answered by other models than head, and of a stored base's
environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders import sides

from evalgate.agents import opening
from evalgate.baseline import base as baseline_base, failures
from evalgate.baseline.base import Base, BaseProject
from evalgate.comparison.book import Sides
from evalgate.model import AgentUse, BaseOrigin, BaseSource, Policy, Run
from evalgate.results.file import Stored, StoredOutcomes
from evalgate.runner.session import Checkout, Side

AGENT = AgentUse(driver="adk")
KEY = AGENT.key
OLD, NEW = (
    {"framework_version": "1.18", "python": "3.11"},
    {"framework_version": "2.13", "python": "3.11"},
)


def side(*, code: str, about: Mapping[str, str], models: str = "", use: AgentUse = AGENT) -> Run:
    run, _ = sides.sides("P/P")
    return dataclasses.replace(
        run,
        suites=tuple(dataclasses.replace(suite, agent=use) for suite in run.suites),
        inputs={use.key: code},
        agents={use.key: about},
        models=frozenset(models.split()),
    )


def base_of(stored: Run | None, *, renamed: Mapping[str, str] | None = None) -> Base:
    return Base(
        origin=BaseOrigin(source=BaseSource.STORE if stored else BaseSource.RERUN),
        root=Path(),
        reusable=frozenset({sides.SUITE}),
        project=BaseProject(renamed=renamed or {}),
        stored=stored
        and Stored(run=stored, outcomes=StoredOutcomes({}, {}), version="1", criteria={}),
    )


@pytest.mark.parametrize(
    ("rerun", "use", "renamed", "told"),
    [
        ({}, AGENT, {}, {KEY: OLD}),
        (NEW, AGENT, {}, {KEY: NEW}),  # some of it ran just now
        ({}, AGENT, {sides.SUITE: "before"}, {KEY: OLD}),
        # nothing of the base can be run
        (
            {},
            opening.absent("no"),
            {},
            {KEY: OLD, opening.absent("no").key: OLD},
        ),
    ],
)
def test_a_stored_base_tells_its_environment(
    rerun: Mapping[str, str],
    use: AgentUse,
    renamed: Mapping[str, str],
    told: Mapping[str, Mapping[str, str]],
) -> None:
    then = side(code="c", about=OLD)
    named = tuple(
        dataclasses.replace(suite, key=renamed.get(suite.key, suite.key)) for suite in then.suites
    )
    base = base_of(dataclasses.replace(then, suites=named), renamed=renamed)
    run = side(code="c", about=rerun, use=use)
    stored_agents = baseline_base.stored_agents(base, run.suites)
    checkout = Checkout(root=Path(), suites=run.suites, stored_agents=stored_agents)
    agents = {use.key: SimpleNamespace(about=lambda: rerun)}
    known: Any = SimpleNamespace(agents=agents, checkout=checkout)
    assert Side.environments(known) == told


@pytest.mark.parametrize(
    ("code", "source", "models", "said"),
    [
        ("same", BaseSource.RERUN, ("m-1", "m-2"), "the same agent used other models"),
        ("other", BaseSource.RERUN, ("m-1", "m-2"), ""),
        ("other", BaseSource.STORE, ("m-1", "m-2"), "the agent used other models"),
        ("other", BaseSource.MIXED, ("m-1 m-2", "m-2"), "the agent used other models"),
        ("other", BaseSource.FILE, ("m-1", "m-1"), ""),
        ("other", BaseSource.STORE, ("m-1", ""), ""),  # not known
    ],
)
def test_other_models(code: str, source: BaseSource, models: tuple[str, str], said: str) -> None:
    both = Sides(
        head=side(code=code, about=NEW, models=models[1]),
        base=side(code="same", about=NEW, models=models[0]),
        policy=Policy(),
        is_together=source is BaseSource.RERUN,
    )
    comparison = failures.compare(both, origin=BaseOrigin(source=source))
    assert [str(note).partition(" on the base")[0] for note in comparison.origin.notes] == (
        [said] if said else []
    )
