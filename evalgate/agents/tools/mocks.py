"""The answer to each tool call of one conversation: from a mock rule, else from the cassette or the
real tool."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, ValidationError, model_validator

from evalgate import errors
from evalgate.agents.base import (
    CallAnswer,
    CallKind,
    PendingCall,
    ToolError,
    ToolFile,
    ToolMode,
    ToolReply,
)
from evalgate.config import yaml
from evalgate.config.gate_file import short_form
from evalgate.config.yaml import Locator
from evalgate.errors import Place, Problem
from evalgate.model import TrialKey, TurnSetup, json_match
from evalgate.model.json_match import Matcher
from evalgate.text import words
from evalgate.values import (
    Json,
    JsonObject,
    Redactor,
    frozen_dataclass,
    mapped_texts,
    matches_any,
)
from . import cassette
from .cassette import Calls, RecordedCall

LONGEST_LATENCY_S = 600.0
Delay: TypeAlias = Annotated[float, Field(ge=0, le=LONGEST_LATENCY_S, allow_inf_nan=False)]


class Latency(ToolFile):
    """The delay of an answer: `seconds`, and up to `jitter` seconds more, by the run's seed."""

    seconds: Delay = 0.0
    jitter: Delay = 0.0


class CallPattern(ToolFile):
    """The calls that a rule answers.

    `args`: these arguments have these values; others may have any, unless `exact`. `where`: these
    arguments satisfy these matchers. `times`: the most calls that it answers in a conversation.
    `probability`: of the rule, by the run's seed."""

    args: JsonObject = Field(default_factory=dict)
    where: dict[str, Matcher] = Field(default_factory=dict)
    exact: bool = False
    times: int | None = Field(default=None, ge=1)
    probability: float = Field(default=1.0, ge=0, le=1)

    def match(self, args: Json) -> bool:
        """True if the arguments match."""
        if any(
            name not in args or not cassette.matches(value, args[name])
            for name, value in self.args.items()
        ):
            return False
        for name, matcher in self.where.items():
            actual = args.get(name, json_match.MISSING)
            expected = self.args.get(name, json_match.MISSING)
            if not json_match.holds(matcher, actual, expected):
                return False
        return not self.exact or args.keys() <= self.args.keys() | self.where.keys()


class MockRule(ToolReply, CallPattern):
    """One rule: the calls that it answers, and their answer. The first matching rule of a tool
    answers."""

    latency: Annotated[Latency, short_form("seconds", int, float)] = Field(default_factory=Latency)
    error: Annotated[ToolError | None, short_form("message", str)] = None
    run: Literal[True] | None = None

    @model_validator(mode="after")
    def _one_outcome(self) -> Self:
        outcomes = [name for name in ("response", "error", "run") if name in self.model_fields_set]
        if len(outcomes) != 1:
            raise ValueError(
                f"a rule needs exactly one of `response`, `error` and `run`, found {len(outcomes)}"
            )
        return self


class MockFile(ToolFile):
    """The whole file: rules by tool; `*` and `?` in a tool's name match any text."""

    tools: dict[str, list[MockRule]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _run_alone(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("tools"), dict):
            return value
        tools = {
            name: [{"run": True}] if rules == "run" else rules
            for name, rules in value["tools"].items()
        }
        return {**value, "tools": tools}


@frozen_dataclass
class MockReading:
    """The rules, and all problems of the file."""

    mocks: MockFile = dataclasses.field(default_factory=MockFile)
    places: dict[str, Place] = dataclasses.field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def parse_mocks(text: str, *, file: str) -> MockReading:
    """Read a mock file, YAML or JSON. `places`: the place of each tool in the file."""
    document = yaml.load(text, file=file)
    if isinstance(document, Problem):
        return MockReading(
            problems=(errors.error("tool-mocks", document.message, document.place, document.hint),)
        )
    if document.raw is None:
        return MockReading()
    locate = document.places
    try:
        mocks = MockFile.model_validate(document.raw)
    except ValidationError as error:
        value_problems = (_of_error(detail, locate) for detail in error.errors())
        return MockReading(problems=(*value_problems, *document.warnings))
    places = {name: locate("tools", name) for name in mocks.tools}
    return MockReading(mocks=mocks, places=places, problems=document.warnings)


def _of_error(detail: Any, locate: Locator) -> Problem:
    path = detail["loc"]
    hint = ""
    if detail["type"] == "extra_forbidden":
        models = (MockRule, MockFile, Latency)
        fields = [name for model in models for name in model.model_fields]
        fields += [member.name for member in dataclasses.fields(ToolError)]
        hint = words.did_you_mean(str(path[-1]), fields)
    location = ".".join(str(step) for step in path)
    message = words.fault(detail)
    return errors.error(
        "tool-mocks", f"`{location}`: {message}" if location else message, locate(*path), hint
    )


RuleName = tuple[str, int]


class MockRules:
    """The mock file in one conversation; counts the answers of each rule."""

    def __init__(self, mocks: MockFile, *, key: TrialKey, seed: int) -> None:
        self._mocks = mocks
        self._draw_prefix = f"{seed}:{key}"
        self._served: Counter[RuleName] = Counter()

    def answer(self, call: PendingCall, *, nth: int) -> CallAnswer | None:
        """The answer of the first rule that matches the `nth` such call, or None."""
        for name, rule in self.for_tool(call.tool):
            if rule.times is not None and self._served[name] >= rule.times:
                continue
            if not rule.match(call.args):
                continue
            draw_name = f"{self._draw_prefix}:{name}:{cassette.args_text(call.args)}:{nth}"
            if rule.probability < 1.0 and chance(f"{draw_name}:holds") >= rule.probability:
                continue
            self._served[name] += 1
            delay_s = rule.latency.seconds + rule.latency.jitter * chance(f"{draw_name}:latency")
            return CallAnswer(reply=None if rule.run else rule, delay_s=delay_s)
        return None

    def for_tool(self, tool: str) -> Iterator[tuple[RuleName, MockRule]]:
        """The rules of a tool in order: those under its own name, then those under patterns that
        match it."""
        matching_names = [name for name in self._mocks.tools if matches_any(tool, [name])]
        names = sorted(matching_names, key=lambda name: name != tool)
        for name in names:
            for number, rule in enumerate(self._mocks.tools[name]):
                yield (name, number), rule


def chance(text: str) -> float:
    """A number in [0, 1) that is always the same for the same text."""
    return (
        int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:6], "big")
        / 2**48
    )


class ConversationTools:
    """The tools of one conversation (agents.base.TrialTools).

    `entries`: the calls in the cassette `cassette`; None if it is missing. `keep`: receives the
    recorded calls at the end of the conversation. `redact`: removes secrets from texts.
    `turn_rules`: the case's rules for the tools of a turn, which come first."""

    def __init__(
        self,
        *,
        mode: ToolMode,
        rules: MockRules,
        entries: Sequence[RecordedCall] | None,
        cassette: str,
        keep: Callable[[Calls], None],
        redact: Redactor,
        turn_rules: Callable[[int], tuple[TurnSetup, MockRules]] | None = None,
    ) -> None:
        self.is_optional = mode is ToolMode.LIVE
        self._turn_rules = turn_rules
        self._case_rules: MockRules | None = None
        self._setup = TurnSetup()
        self._mode = mode
        self._rules = rules
        self._entries = entries
        self._by_key = {entry.key: entry for entry in entries or ()}
        self._cassette = cassette
        self._keep = keep
        self._redact = redact
        self._counts: Counter[tuple[str, str]] = Counter()
        self._nth: dict[int, int] = {}
        self._recorded: list[RecordedCall] = []

    def turn(self, number: int) -> None:
        """See agents.base.TrialTools."""
        if self._turn_rules is not None:
            setup, rules = self._turn_rules(number)
            if setup is not self._setup:  # a scenario has the same rules for all of its turns
                self._setup = setup
                self._case_rules = rules

    def answer(self, call: PendingCall) -> CallAnswer:
        """See agents.base.TrialTools."""
        args: Json = mapped_texts(call.args, self._redact)
        call_key = (call.tool, cassette.args_text(args))
        self._counts[call_key] += 1
        nth = self._nth[call.number] = self._counts[call_key]
        is_fake = self._setup.fakes and self._mode in (ToolMode.LIVE, ToolMode.RECORD)
        all_rules = [self._case_rules] if self._case_rules else []
        if self._mode is not ToolMode.LIVE or is_fake:
            all_rules.append(self._rules)
        for rules in all_rules:
            answer = rules.answer(call, nth=nth)
            if answer is not None:
                return answer
        mode = ToolMode.MOCK if is_fake else self._mode
        if mode is ToolMode.REPLAY and call.kind is not CallKind.AGENT:
            return self._replayed(call.tool, args, nth)
        if mode is ToolMode.MOCK and call.kind is CallKind.TOOL:
            return self._no_rule(call.tool, args)
        return CallAnswer(report=mode is ToolMode.RECORD and call.kind is not CallKind.AGENT)

    def keep(self, call: PendingCall, reply: ToolReply) -> None:
        """See agents.base.TrialTools."""
        outcome = reply.outcome().items()
        recorded_call = RecordedCall(
            tool=call.tool,
            args=mapped_texts(call.args, self._redact),
            nth=self._nth[call.number],
            **{name: mapped_texts(part, self._redact) for name, part in outcome},
        )
        self._recorded.append(recorded_call)

    def finish(self) -> None:
        """See agents.base.TrialTools."""
        if self._mode is ToolMode.RECORD:
            self._keep(tuple(self._recorded))

    def _replayed(self, tool: str, args: Json, nth: int) -> CallAnswer:
        """The answer of the cassette."""
        exact_call = self._by_key.get((tool, cassette.args_text(args), nth))
        if exact_call is not None:
            return CallAnswer(reply=exact_call)
        tool_calls = [entry for entry in self._entries or () if entry.tool == tool]
        similar_calls = [entry for entry in tool_calls if cassette.matches(entry.args, args)]
        for entry in similar_calls:
            if entry.nth == nth:
                return CallAnswer(reply=entry)
        nearest = cassette.nearest_args(args, [entry.args for entry in tool_calls])
        if self._entries is None:
            reason = f" and there is no cassette {self._cassette}"
        elif similar_calls:
            recorded_times = words.counted(len(similar_calls), "time")
            reason = f" {words.counted(nth, 'time')}; it was recorded {recorded_times}"
        elif nearest is not None:
            nearest_text = cassette.spell_call(tool, nearest)
            reason = f", recorded only {nearest_text}: {cassette.difference(args, nearest)}"
        else:
            tools = list(dict.fromkeys(entry.tool for entry in self._entries))
            reason = f", {cassette.unknown_tool_message(tool, tools)}"
        call_text = f"called {cassette.spell_call(tool, args)}"
        return CallAnswer(
            refusal=f"{call_text}{reason}; if the call is right, record it with `--tools record`"
        )

    def _no_rule(self, tool: str, args: Json) -> CallAnswer:
        rules = [rule for _, rule in self._rules.for_tool(tool)]
        called = f"called {cassette.spell_call(tool, args)}"
        if not rules:
            return CallAnswer(refusal=f"{called}, but there is no mock rule for `{tool}`")
        nearest = cassette.nearest_args(
            args, [rule.args for rule in rules if rule.args and not rule.where]
        )
        message = f"{called}, but none of the {len(rules)} mock rules for `{tool}` matches"
        if nearest is not None:
            message += f"; the nearest is for {cassette.spell_call(tool, nearest)}"
        return CallAnswer(refusal=message)
