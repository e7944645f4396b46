"""What becomes of each tool call of one conversation: a mock rule, then the cassette or the real tool."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import assert_never

from evalgate.model import Json
from evalgate.plugins import AskedCall, CallKind, Replied, RunTool, ToolAnswer, ToolMode, ToolReply, Unmatched
from evalgate.tools import canonical, differing
from evalgate.tools.cassette import Entry
from evalgate.tools.rules import Rules

RECORD_HINT = "record it with `--tools record`"


class ConversationTools:
    """The tools of one conversation (plugins.TrialTools).

    `entries`: what the cassette `cassette` holds, None where there is none. `keep`: is given what was recorded when
    the conversation has come to its end. `redact`: takes secrets out of texts.
    """

    def __init__(
        self,
        *,
        mode: ToolMode,
        rules: Rules,
        entries: Sequence[Entry] | None,
        cassette: str,
        keep: Callable[[tuple[Entry, ...]], None],
        redact: Callable[[str], str],
    ) -> None:
        self._mode = mode
        self._rules = rules
        self._entries = entries
        self._by_address = {entry.address: entry for entry in entries or ()}
        self._cassette = cassette
        self._keep = keep
        self._redact = redact
        self._counts: Counter[tuple[str, str]] = Counter()
        self._nth: dict[int, int] = {}
        self._recorded: list[Entry] = []

    def answer(self, call: AskedCall) -> ToolAnswer:
        """See plugins.TrialTools."""
        args: Json = canonical.redacted(call.args, self._redact)
        same = (call.tool, canonical.text(args))
        self._counts[same] += 1
        nth = self._nth[call.number] = self._counts[same]
        ruled = self._rules.answer(call, nth=nth)
        if ruled is not None:
            return ruled
        if call.kind is CallKind.AGENT:
            return RunTool(report=False)
        match self._mode:
            case ToolMode.LIVE:
                return RunTool(report=False)
            case ToolMode.RECORD:
                return RunTool(report=True)
            case ToolMode.REPLAY:
                entry = self._find(call.tool, args, nth)
                return Replied(reply=entry.reply) if entry is not None else self._not_recorded(call.tool, args, nth)
            case ToolMode.MOCK:
                return RunTool(report=False) if call.kind is CallKind.LISTING else self._no_rule(call.tool, args)
            case _:
                assert_never(self._mode)

    def keep(self, call: AskedCall, reply: ToolReply) -> None:
        """See plugins.TrialTools."""
        entry = Entry(
            tool=call.tool,
            args=canonical.redacted(call.args, self._redact),
            nth=self._nth[call.number],
            reply=_redacted(reply, self._redact),
        )
        self._recorded.append(entry)

    def finish(self) -> None:
        """See plugins.TrialTools."""
        if self._mode is ToolMode.RECORD:
            self._keep(tuple(self._recorded))

    def _find(self, tool: str, args: Json, nth: int) -> Entry | None:
        exact = self._by_address.get((tool, canonical.text(args), nth))
        if exact is not None:
            return exact
        return next((one for one in self._of(tool) if one.nth == nth and canonical.covers(one.args, args)), None)

    def _of(self, tool: str) -> list[Entry]:
        return [entry for entry in self._entries or () if entry.tool == tool]

    def _not_recorded(self, tool: str, args: Json, nth: int) -> Unmatched:
        called = f"called {differing.spell(tool, args)}"
        same_tool = self._of(tool)
        times = sum(1 for entry in same_tool if canonical.covers(entry.args, args))
        if self._entries is None:
            why = f"and there is no cassette {self._cassette}: {RECORD_HINT}"
        elif times:
            word = "once" if times == 1 else f"{times} times"
            why = f"for the {_ordinal(nth)} time; it was recorded {word}"
        elif (nearest := differing.nearest(args, [entry.args for entry in same_tool])) is not None:
            why = f"recorded was {differing.spell(tool, nearest)}: {differing.sentence(args, nearest)}"
        else:
            known = list(dict.fromkeys(entry.tool for entry in self._entries))
            why = differing.unknown_tool(tool, known, verb="recorded")
        joint = " " if why.startswith(("for ", "and ")) else ", "
        return Unmatched(message=f"{called}{joint}{why}")

    def _no_rule(self, tool: str, args: Json) -> Unmatched:
        rules = [rule for _, rule in self._rules.for_tool(tool)]
        called = f"called {differing.spell(tool, args)}"
        if not rules:
            return Unmatched(message=f"{called}, but there is no mock rule for `{tool}`")
        nearest = differing.nearest(args, [rule.args for rule in rules if rule.args and not rule.where])
        told = f"; the nearest is for {differing.spell(tool, nearest)}" if nearest is not None else ""
        return Unmatched(message=f"{called}, but none of the {len(rules)} mock rules for `{tool}` matches{told}")


def _redacted(reply: ToolReply, redact: Callable[[str], str]) -> ToolReply:
    error = reply.error
    return ToolReply(
        response=canonical.redacted(reply.response, redact),
        error=dataclasses.replace(error, message=redact(error.message)) if error else None,
        effects=canonical.redacted(reply.effects, redact),
    )


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
