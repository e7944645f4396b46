"""Agents, criteria and suites that behave as a test tells them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from evalgate.agents.base import Agent, AgentFailed
from evalgate.model import (
    AgentDescription,
    AgentDetails,
    AgentFailure,
    AgentUse,
    Case,
    ConfigOrigin,
    Content,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    Event,
    FailureKind,
    Grade,
    Invocation,
    Need,
    NotEvaluated,
    Reason,
    Score,
    Suite,
    Text,
    ToolCall,
    TrialKey,
    TrialView,
    Usage,
)
from evalgate.runner.inputs import SideInputs
from evalgate.system.inputs import Snapshot

AGENTS = (AgentDetails(name="desk", instructions="Answer.", tool_declarations=({"name": "look"},)),)


def case(case_id: str, *turns: str) -> Case:
    said = tuple(
        Invocation(user_content=Content(role="user", parts=(Text(text=turn),)))
        for turn in turns or ("hi",)
    )
    return Case(case_id=case_id, conversation=said)


JUDGED = frozenset({Need.JUDGE})  # so that grades are kept


def suite(key: str, *cases: Case, criteria: Sequence[str] = ("m",)) -> Suite:
    return Suite(
        key=key,
        eval_set=EvalSet(eval_set_id=key, cases=cases),
        criteria=tuple(CriterionUse(name=name, threshold=0.5, needs=JUDGED) for name in criteria),
        criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE, file="test_config.json"),
        agent=AgentUse(driver="python", options={"path": "agent"}),
    )


def inputs_of(
    suites: Sequence[Suite], agent: FakeAgent, top: Path, *, environment: str = "v1"
) -> SideInputs:
    """Of a side with one agent that is all suites', in the checkout `top`."""
    uses = {suite.agent.key: suite.agent for suite in suites}
    return SideInputs(
        tree=Snapshot(top),
        uses=uses,
        agents=cast("dict[str, Agent]", dict.fromkeys(uses, agent)),
        environment_of=lambda _: environment,
        trusts_workers=True,
    )


class FakeAgent:
    """Answers every turn; `misbehave(key, turn number)` may raise AgentFailed or anything else."""

    def __init__(self, misbehave: Callable[[TrialKey, int], None] | None = None) -> None:
        self.misbehave = misbehave or (lambda key, turn: None)
        self.asked: list[TrialKey] = []
        self.closed = False
        self.tokens: int | None = None
        self._lock = threading.Lock()

    @contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator[FakeConversation]:
        with self._lock:
            self.asked.append(key)
        yield FakeConversation(self, key)

    def run_metric(self, code: str, use: CriterionUse, evidence: TrialView) -> Grade:
        return NotEvaluated(reason=Reason.NOT_APPLICABLE, message="fake")

    def start(self) -> None:
        pass

    def play(self, case: Case, key: TrialKey) -> None:
        return None

    def inputs(self) -> frozenset[str]:
        return frozenset({"file agent.py"})

    def about(self) -> Mapping[str, str]:
        return {"framework": "fake"}

    def description(self) -> AgentDescription | None:
        return AgentDescription(packages={"fake": "1.0"})

    def close(self) -> None:
        self.closed = True


class FakeConversation:
    def __init__(self, agent: FakeAgent, key: TrialKey) -> None:
        self._agent, self._key, self._turn = agent, key, 0

    def send(self, user_content: Content) -> Invocation:
        self._turn += 1
        self._agent.misbehave(self._key, self._turn)
        usage = None if self._agent.tokens is None else Usage(total_tokens=self._agent.tokens)
        look = ToolCall(name="look", args={"n": self._turn})
        call = Event(author="desk", content=Content(parts=(look,)), usage=usage)
        answer = Content(
            role="model", parts=(Text(text=f"{self._key.case_id} {self._turn} 한국어 \ud83d"),)
        )
        return Invocation(
            user_content=user_content, final_response=answer, events=(call,), agents=AGENTS
        )

    def finish(self) -> Mapping[str, object] | None:
        return {"turns": self._turn}


def failed(kind: FailureKind, message: str = "no") -> AgentFailed:
    return AgentFailed(AgentFailure(kind=kind, message=message))


def all_calls(evidence: TrialView) -> Grade:
    """The share of turns with a tool call."""
    turns = tuple(1.0 if turn.tool_calls else 0.0 for turn in evidence.actual)
    return Score(value=sum(turns) / len(turns), turns=turns)
