"""A clock that a test holds in its hands, and judges that say what a test wrote down."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from evalgate.config.gate_file import BudgetRule, JudgeRule
from evalgate.judges import rate_limit
from evalgate.judges.base import (
    Asker,
    JudgeFailed,
    JudgeFailure,
    JudgeFailureKind,
    JudgeReply,
    JudgeRequest,
    JudgeSetting,
    Vote,
)
from evalgate.judges.clients import Clients
from evalgate.judges.panel import JudgeBudget, UsageLedger, VotingPanel
from evalgate.model import NotEvaluated, Reason, Text, Usage
from evalgate.values import Wording

USAGE = Usage(prompt_tokens=100, candidates_tokens=10, total_tokens=110)


class HeldClock:
    """Time moves only by sleeping; chance is what the test says."""

    def __init__(self, chance: float = 0.5) -> None:
        self.chance = chance
        self.called_off = False
        self.slept: list[float] = []
        self._now = 1000.0
        self._lock = threading.Lock()

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> bool:
        with self._lock:
            self.slept.append(seconds)
            self._now += max(0.0, seconds)
        return not self.called_off

    def call_off(self) -> None:
        self.called_off = True

    def random(self) -> float:
        return self.chance

    def pass_by(self, seconds: float) -> None:
        self._now += seconds


def failure(
    kind: str, *, retry_after_s: float | None = None, usage: Usage | None = None
) -> JudgeFailure:
    return JudgeFailure(
        kind=JudgeFailureKind(kind),
        message=f"{kind} happened",
        retry_after_s=retry_after_s,
        usage=usage,
    )


def reply(text: str, usage: Usage | None = USAGE) -> JudgeReply:
    return JudgeReply(parts=(Text(text=text),), usage=usage, finish="STOP")


def request(
    prompt: str = "is it valid?", *, criterion: str = "c", version: str = "1", **fields: object
) -> JudgeRequest:
    asker = Asker(criterion=criterion, version=version)
    return JudgeRequest(**{"model": "gemini-2.5-flash", "prompt": prompt, "asker": asker, **fields})


def requests(
    prompt: str = "is it valid?", *, count: int = 5, **fields: object
) -> tuple[JudgeRequest, ...]:
    """One for each sample."""
    return tuple(request(prompt, sample=sample, **fields) for sample in range(count))


class ScriptedJudge:
    """Says what `script` makes of a request: a text, a reply, or a failure kind in angle brackets
    (`<timeout>`)."""

    name = "scripted"

    def __init__(
        self, script: Callable[[JudgeRequest], str | JudgeReply], *, lacking: str = ""
    ) -> None:
        self.script = script
        self.lacking = lacking
        self.requests: list[JudgeRequest] = []
        self.settings: list[JudgeSetting] = []
        self.closed = 0
        self._lock = threading.Lock()

    def missing(self, setting: JudgeSetting) -> str:
        return self.lacking

    def open(self, setting: JudgeSetting) -> ScriptedJudge:
        self.settings.append(setting)
        return self

    def ask(self, request: JudgeRequest) -> JudgeReply:
        with self._lock:
            self.requests.append(request)
            said = self.script(request)
        if isinstance(said, JudgeReply):
            return said
        if said.startswith("<") and said.endswith(">"):
            raise JudgeFailed(failure(said[1:-1]))
        return reply(said)

    def close(self) -> None:
        self.closed += 1


def panel(
    judge: ScriptedJudge,
    *,
    limits: BudgetRule | None = None,
    environment: Mapping[str, str] | None = None,
    defaults: JudgeRule | None = None,
    clock: HeldClock | None = None,
    ledger: UsageLedger | None = None,
    calls_at_once: int = 4,
    **options: object,
) -> VotingPanel:
    """A panel whose every model is `judge`; one call at once keeps the order of the questions."""
    roster = Clients(
        {"gemini": judge, "openai": judge, "replay": judge, "vertex_evaluation": judge},
        defaults=defaults or JudgeRule(),
        environment=environment or {},
        limiters=rate_limit.limiters_for(defaults or JudgeRule(), clock or HeldClock()),
    )
    budget = JudgeBudget(limits or BudgetRule())
    return VotingPanel(
        roster,
        budget=budget,
        ledger=ledger or UsageLedger(),
        calls_at_once=calls_at_once,
        **options,
    )


def votes_in(reply: JudgeReply) -> Mapping[str, Vote]:
    """Reads `a=yes b=no c=what`; a word alone speaks of the item ""."""
    labels = {"yes": True, "valid": True, "no": False, "invalid": False}
    pairs = (word.partition("=") for word in reply.text.split())
    return {
        (item if sign else ""): Vote(
            passed=labels.get(label if sign else item), label=label or item
        )
        for item, sign, label in pairs
    }


class Seen(NamedTuple):
    """The verdict on an item, taken apart."""

    passed: bool | None
    undecided: Reason | None = None
    message: Wording = ""
    vote: Vote | None = None


def seen(item: Vote | NotEvaluated) -> Seen:
    if isinstance(item, Vote):
        return Seen(item.passed, vote=item)
    return Seen(None, item.reason, item.message)


def rule_of(build: Any) -> Any:
    """What grades, or what builds it: the function in a partial one, a judged criterion's rule."""
    while isinstance(build, functools.partial):
        build = build.keywords.get("rule", build.func)
    return build
