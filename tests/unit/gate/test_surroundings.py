"""What an agent's results are kept with says how it really ran."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from evalgate.baseline.rules import Rules
from evalgate.config.context import Context, Opening
from evalgate.config.settings import Settings
from evalgate.discovery.dotenv import JudgeEnvironment
from evalgate.discovery.project import Project
from evalgate.gate import measure
from evalgate.gate.measure import GateSession
from evalgate.gate.store import EarlierRuns
from evalgate.model import AgentUse, ConfigOrigin, CriteriaSource, EvalSet, Policy, RuleBook, Suite
from evalgate.results.history import History
from evalgate.results.journal import Journal
from evalgate.system.inputs import Snapshot

SUITE = Suite(
    key="a.evalset.json",
    eval_set=EvalSet(eval_set_id="a", cases=()),
    criteria=(),
    criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE),
    agent=AgentUse(driver="command", options={"command": ["true"]}),
)


def test_results_of_an_agent_that_is_kept_apart_are_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the door decides it, not a setting: the action always keeps agents apart."""
    monkeypatch.setattr(measure, "open_isolation", lambda *_, **__: contextlib.nullcontext())
    rules = Rules(
        settings=Settings(root=tmp_path), suites=(SUITE,), books=(RuleBook(policy=Policy()),)
    )
    environments = set()
    for isolate in (False, True):
        context = Context(environ={}, cache=tmp_path / "cache", opening=Opening(isolate=isolate))
        journal = Journal.create(tmp_path / "journal.jsonl", about={})
        session = GateSession(
            project=Project(settings=rules.settings, suites=(SUITE,), problems=()),
            rules=rules,
            base=None,
            judges=JudgeEnvironment(environ={}),
            history=History(settings=rules.settings, context=context),
            earlier=EarlierRuns(
                trees=(Snapshot(tmp_path),),
                store=None,
                entries=(),
                unchanged=frozenset(),
                unread=frozenset(),
            ),
            journals=[journal],
            write_files=None,
        )
        with contextlib.closing(journal), measure.open_session(session, context) as trials:
            (agent,) = trials.sides[0].agents.values()
            monkeypatch.setattr(agent, "about", lambda: {"python": "3"}, raising=False)
            environments.add(trials.sides[0].inputs.of(SUITE.agent.key).environment)
    assert len(environments - {""}) == 2
