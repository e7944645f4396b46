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
from evalgate.model import AgentDescription, AgentUse, BaseOrigin, BaseSource, Policy, Run
from evalgate.results.file import Stored, StoredOutcomes
from evalgate.runner.session import Checkout, Side
from evalgate.values import Sentence

AGENT = AgentUse(driver="http", options={"url": "https://example.com"})
NOT_STORED = opening.absent(str(Sentence("base_not_stored_case")))
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


def base_of(stored: Run, *, root: Path | None, renamed: Mapping[str, str]) -> Base:
    return Base(
        origin=BaseOrigin(source=BaseSource.STORE),
        root=root,
        project=BaseProject(renamed=renamed, agents={sides.SUITE: AGENT}),
        stored=Stored(run=stored, outcomes=StoredOutcomes({}, {}), version="1", criteria={}),
    )


@pytest.mark.parametrize(
    ("rerun", "root", "renamed", "told"),
    [
        ({}, Path(), {}, {KEY: OLD}),
        (NEW, Path(), {}, {KEY: NEW}),  # some of it ran just now
        ({}, Path(), {sides.SUITE: "before"}, {KEY: OLD}),
        # nothing of the base can be run
        ({}, None, {}, {KEY: OLD, NOT_STORED.key: OLD}),
    ],
)
def test_a_stored_base_tells_its_environment(
    rerun: Mapping[str, str],
    root: Path | None,
    renamed: Mapping[str, str],
    told: Mapping[str, Mapping[str, str]],
) -> None:
    then = side(code="c", about=OLD)
    named = tuple(
        dataclasses.replace(suite, key=renamed.get(suite.key, suite.key)) for suite in then.suites
    )
    base = base_of(dataclasses.replace(then, suites=named), root=root, renamed=renamed)
    head = side(code="c", about=rerun).suites
    checkout = Checkout(
        root=Path(),
        suites=baseline_base.with_agents(head, base),
        stored_agents=baseline_base.stored_agents(base, head),
    )
    agents = {suite.agent.key: SimpleNamespace(about=lambda: rerun) for suite in checkout.suites}
    known: Any = SimpleNamespace(agents=agents, checkout=checkout)
    assert Side.about(known) == told


def test_of_a_base_that_is_not_run_the_first_known_agent_is_told() -> None:
    """The first suite's agent did not start when the base was measured."""
    run = side(code="c", about={})
    other = AgentUse(driver="http", options={"url": "https://example.org"})
    second = tuple(dataclasses.replace(suite, key="second", agent=other) for suite in run.suites)
    description = AgentDescription(packages={"pydantic": "2.12"})
    stored = dataclasses.replace(
        run,
        suites=(*run.suites, *second),
        agents={other.key: OLD},
        descriptions={other.key: description},
    )
    base = base_of(stored, root=None, renamed={})
    known = baseline_base.stored_agents(base, stored.suites)
    assert known[NOT_STORED.key] == known[other.key] == (OLD, description)
    assert known[KEY] == ({}, None)


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
