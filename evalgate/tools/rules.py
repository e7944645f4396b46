"""Which mock rule answers a call, and how long that takes: chances come from a seed, never from a clock."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TypeAlias

from evalgate import matching
from evalgate.config.tool_mocks import MockFile, MockRule
from evalgate.model import Json, TrialKey
from evalgate.plugins import AskedCall, Replied, RunTool, ToolError, ToolReply
from evalgate.tools import canonical

RuleName: TypeAlias = tuple[str, int]


class Rules:
    """The mock file at work in one conversation: it counts how often a rule has answered."""

    def __init__(self, mocks: MockFile, *, key: TrialKey, seed: int) -> None:
        self._mocks = mocks
        self._luck = f"{seed}:{key}"
        self._served: dict[RuleName, int] = {}

    def answer(self, call: AskedCall, *, nth: int) -> Replied | RunTool | None:
        """What the first rule that holds says of the `nth` such call; None where none holds."""
        for name, rule in self.for_tool(call.tool):
            if rule.times is not None and self._served.get(name, 0) >= rule.times:
                continue
            if not holds(rule, call.args):
                continue
            luck = f"{self._luck}:{name}:{canonical.text(call.args)}:{nth}"
            if rule.probability < 1.0 and chance(f"{luck}:holds") >= rule.probability:
                continue
            self._served[name] = self._served.get(name, 0) + 1
            delay_s = rule.latency.seconds + rule.latency.jitter * chance(f"{luck}:latency")
            return _outcome(rule, delay_s)
        return None

    def for_tool(self, tool: str) -> Iterator[tuple[RuleName, MockRule]]:
        """The rules of a tool in order: those under its own name, then those under patterns that fit it."""
        names = [name for name in self._mocks.tools if name == tool]
        names += [name for name in self._mocks.tools if name != tool and matching.named(tool, [name])]
        for name in names:
            for number, rule in enumerate(self._mocks.tools[name]):
                yield (name, number), rule


def holds(rule: MockRule, args: Json) -> bool:
    """Whether a rule is meant for these arguments."""
    if any(name not in args or not canonical.covers(value, args[name]) for name, value in rule.args.items()):
        return False
    if any(
        not matching.holds(matcher, args.get(name, matching.MISSING), rule.args.get(name, matching.MISSING))
        for name, matcher in rule.where.items()
    ):
        return False
    return not rule.exact or args.keys() <= rule.args.keys() | rule.where.keys()


def chance(text: str) -> float:
    """A number in [0, 1) that is the same for the same text, everywhere and always."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:6], "big") / 2**48


def _outcome(rule: MockRule, delay_s: float) -> Replied | RunTool:
    if rule.run:
        return RunTool(report=False, delay_s=delay_s)
    error = ToolError(type=rule.error.type, message=rule.error.message) if rule.error else None
    return Replied(reply=ToolReply(response=rule.response, error=error, effects=rule.effects), delay_s=delay_s)
