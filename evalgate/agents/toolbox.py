"""The tool calls of agents: recorded in cassettes, replayed from them, or answered by mock rules.

A cassette has the tool calls of one case and their results, as a file that people review."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, ValidationError, model_validator

from evalgate import agents, errors
from evalgate.agents.base import (
    CallAnswer,
    CallKind,
    DriverTools,
    PendingCall,
    ToolError,
    ToolFile,
    ToolMode,
    ToolReply,
)
from evalgate.config import places, yaml
from evalgate.config.gate_file import ToolsRule, short_form
from evalgate.config.settings import Settings
from evalgate.config.yaml import Locator
from evalgate.errors import Place, Problem, UnavailableError
from evalgate.model import (
    Case,
    CaseKey,
    Suite,
    ToolCall,
    TrialKey,
    TurnSetup,
    call_diff,
    cases_of,
    json_match,
    shapes,
)
from evalgate.model.json_match import Matcher
from evalgate.system import redact as system_redact
from evalgate.system.files import new_file
from evalgate.text import words
from evalgate.values import (
    Environ,
    Json,
    JsonObject,
    Redactor,
    canonical_text,
    digest_of,
    frozen_dataclass,
    json_text,
    mapped_json,
    mapped_texts,
    matches_any,
)

VERSION = 1
MAX_EXACT_FLOAT = 2.0**53
"""Below it a float represents every whole number exactly."""
MAX_LEVELS = 150
"""Levels of nested objects and lists in a cassette."""
MAX_LISTED = 4
"""Names in a message."""
NAME_LENGTH = 80
SUFFIXES = (".evalset.json", ".test.json", ".json", ".jsonl", ".yaml", ".yml")
RESERVED_NAMES = frozenset({"test_config", "test-config"})
"""File names that mean something else in a folder of evaluation files."""
REDACTED = "***"


def args_text(args: Json) -> str:
    """Arguments as one text, with sorted keys. Whole numbers are equal however they are written
    (2.0 is 2)."""
    return canonical_text(mapped_json(args, _whole_as_integer))


def matches(recorded: Any, actual: Any) -> bool:
    """True if two values are equal. `***` in a recorded text matches any removed text."""
    return json_match.includes(actual, recorded, is_equal=_is_same, subset=False)


def _is_same(actual: Any, recorded: Any) -> bool:
    if isinstance(recorded, str) and REDACTED in recorded:
        return isinstance(actual, str) and _has_pieces(recorded.split(REDACTED), actual)
    # as arguments, so that 2 equals 2.0
    return args_text({"": recorded}) == args_text({"": actual})


def _has_pieces(pieces: Sequence[str], text: str) -> bool:
    """True if a text consists of the pieces in this order, with any text between them."""
    prefix, *inner_pieces, suffix = map(re.escape, pieces)
    # the first place of a piece leaves the most room for the others: no other place is tried
    inner_patterns = (f"(?>.*?{piece})" for piece in inner_pieces)
    pattern = "".join((prefix, *inner_patterns, ".*", suffix))
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _whole_as_integer(value: Any) -> Any:
    """A whole float as an integer; other values are unchanged."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < MAX_EXACT_FLOAT
    return int(value) if is_whole else value


def spell_call(tool: str, args: Json) -> str:
    """A call such as `get_weather(city="Paris")`, in backticks."""
    return f"`{call_diff.spell(ToolCall(name=tool, args=args))}`"


def nearest_args(args: Json, recorded: Iterable[Json]) -> Json | None:
    """The recorded arguments with the fewest differences; the first if several have the fewest."""
    return min(
        recorded, key=lambda candidate: len(list(changed_args(args, candidate))), default=None
    )


def difference(actual: Json, recorded: Json) -> str:
    """The differences in words, such as ``argument `unit` differs`` or ``arguments `a` and `b.c`
    differ; argument `d` is new``."""
    changes = list(changed_args(actual, recorded))
    phrases = []
    for kind, plural in (
        ("differs", "differ"),
        ("is new", "are new"),
        ("is missing", "are missing"),
    ):
        names = [f"`{path}`" for change, path in changes if change == kind]
        if names:
            noun, verb = ("argument", kind) if len(names) == 1 else ("arguments", plural)
            phrases.append(f"{noun} {words.listed(names, limit=MAX_LISTED)} {verb}")
    return "; ".join(phrases)


def unknown_tool_message(tool: str, tools: Sequence[str]) -> str:
    """The message ``no call of `x` was recorded (recorded: `a` and `b`)``, with the nearest name,
    if there is one."""
    if not tools:
        return "no tool call was recorded for this case"
    nearest_tool = words.nearest(tool, tools, cutoff=0.75)
    names = words.listed_names(tools, limit=MAX_LISTED)
    hint = f", the nearest is `{nearest_tool}`" if nearest_tool else ""
    return f"no call of `{tool}` was recorded (recorded: {names}){hint}"


def changed_args(actual: Json, recorded: Json, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The differences of two calls, as (`differs` | `is new` | `is missing`, dotted path). Objects
    are compared by their keys."""
    for name in dict.fromkeys([*recorded, *actual]):
        path = f"{prefix}{name}"
        if name not in actual:
            yield "is missing", path
        elif name not in recorded:
            yield "is new", path
        elif isinstance(recorded[name], Mapping) and isinstance(actual[name], Mapping):
            yield from changed_args(actual[name], recorded[name], f"{path}.")
        elif not matches(recorded[name], actual[name]):
            yield "differs", path


class CassetteError(ValueError):
    """A file is not a valid cassette. The message is the reason."""


CallKey: TypeAlias = tuple[str, str, int]
"""A tool, the text of its arguments, and the number of the call among those that are equal."""


class RecordedCall(ToolReply, ToolFile):
    """One recorded call."""

    tool: str
    args: JsonObject = Field(default_factory=dict)
    nth: int = Field(default=1, ge=1)
    """Counts the calls of this tool with these arguments from 1."""

    @model_validator(mode="after")
    def _has_answer(self) -> Self:
        if ("response" in self.model_fields_set) == (self.error is not None):
            raise ValueError("a call has either `response` (which may be null) or `error`")
        return self

    @property
    def key(self) -> CallKey:
        """The key by which a call finds this answer."""
        return self.tool, args_text(self.args), self.nth


Calls: TypeAlias = tuple[RecordedCall, ...]


class CassetteWire(ToolFile):
    """The file."""

    evalgate_cassette: Literal[1]
    suite: str = ""
    case: str = ""
    calls: Calls


def parse_cassette(text: str) -> Calls:
    """The entries of a cassette's text. Raises CassetteError."""
    try:
        raw = json.loads(text)
        wire = CassetteWire.model_validate(raw)
    except ValidationError as error:
        raise CassetteError(words.fault_with_place(error.errors()[0])) from None
    except (ValueError, RecursionError) as error:
        raise CassetteError(f"not JSON: {error}") from None
    if shapes.is_deep(raw, levels=MAX_LEVELS):
        raise CassetteError("the values are nested too deeply")
    keys: set[CallKey] = set()
    for index, entry in enumerate(wire.calls):
        if entry.key in keys:
            raise CassetteError(
                f"calls.{index}: call {entry.nth} of `{entry.tool}` with these arguments is a duplicate"
            )
        keys.add(entry.key)
    return wire.calls


def render_cassette(entries: Iterable[RecordedCall], *, suite: str, case: str) -> str:
    """The file's text. Equal entries give equal bytes, whatever the order of the calls.

    The keys of arguments are sorted, because only their values count. Those of a response keep the
    tool's order, because a model reads them in that order."""
    calls = []
    for entry in sorted(entries, key=lambda entry: entry.key):
        args = json.loads(json.dumps(entry.args, sort_keys=True))
        call = {"tool": entry.tool, "args": args, "nth": entry.nth}
        calls.append(call | entry.outcome())
    file = {"evalgate_cassette": VERSION, "suite": suite, "case": case, "calls": calls}
    return json_text(file)


def merge(*groups: Iterable[RecordedCall]) -> Calls:
    """The entries of all groups. Of several entries for one call, the first counts."""
    merged: dict[CallKey, RecordedCall] = {}
    for entry in itertools.chain(*groups):
        merged.setdefault(entry.key, entry)
    return tuple(merged.values())


def file_name(suite: str, case_id: str) -> str:
    """The file `<suite slug>/<case id>.json`. Two cases never share a file, and a plain case id is
    the name of its file."""
    stem = next((suite[: -len(suffix)] for suffix in SUFFIXES if suite.endswith(suffix)), suite)
    slug = f"{_plain_name(stem)[:NAME_LENGTH]}-{digest_of(suite, 6)}"
    name = _plain_name(case_id)[:NAME_LENGTH]
    if name != case_id or name.lower() in RESERVED_NAMES:
        name = f"{name}-{digest_of(case_id, 8)}"
    return f"{slug}/{name}.json"


def _plain_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-") or "case"


# --- mock rules
# -----------------------------------------------------------------------------


LONGEST_LATENCY_S = 600.0
Delay: TypeAlias = Annotated[float, Field(ge=0, le=LONGEST_LATENCY_S, allow_inf_nan=False)]


class Latency(ToolFile):
    """The delay of an answer."""

    seconds: Delay = 0.0
    jitter: Delay = 0.0
    """The most further seconds, by the run's seed."""


class MockRule(ToolReply, ToolFile):
    """One rule: the calls that it answers, and their answer. The first matching rule of a tool
    answers."""

    args: JsonObject = Field(default_factory=dict)
    """These arguments have these values."""
    where: dict[str, Matcher] = Field(default_factory=dict)
    """These arguments satisfy these matchers."""
    exact: bool = False
    """There are no other arguments."""
    times: int | None = Field(default=None, ge=1)
    """The most calls that it answers in a conversation; None: all."""
    probability: float = Field(default=1.0, ge=0, le=1)
    """Of the rule, by the run's seed."""
    latency: Annotated[Latency, short_form("seconds", int, float)] = Field(default_factory=Latency)
    error: Annotated[ToolError | None, short_form("message", str)] = None
    run: Literal[True] | None = None
    """The tool runs."""

    @model_validator(mode="after")
    def _one_outcome(self) -> Self:
        outcomes = [name for name in ("response", "error", "run") if name in self.model_fields_set]
        if len(outcomes) != 1:
            raise ValueError(
                f"a rule needs exactly one of `response`, `error` and `run`, found {len(outcomes)}"
            )
        return self

    def match(self, args: Json) -> bool:
        """True if the arguments match."""
        if any(
            name not in args or not matches(value, args[name]) for name, value in self.args.items()
        ):
            return False
        for name, matcher in self.where.items():
            actual = args.get(name, json_match.MISSING)
            expected = self.args.get(name, json_match.MISSING)
            if not json_match.holds(matcher, actual, expected):
                return False
        return not self.exact or args.keys() <= self.args.keys() | self.where.keys()


class MockFile(ToolFile):
    """The whole file."""

    tools: dict[str, list[MockRule]] = Field(default_factory=dict)
    """The rules by tool; `*` and `?` in a tool's name match any text."""

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
    """By tool."""
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
    """The problem of a value in a mock file."""
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
    """The rules of a mock file or of a case in one conversation; counts the answers of each.
    `draws`: a text that its random numbers depend on."""

    def __init__(self, mocks: MockFile, *, draws: str) -> None:
        self._mocks = mocks
        self.draws = draws
        self._served: Counter[RuleName] = Counter()

    def answer(self, call: PendingCall, *, nth: int) -> CallAnswer | None:
        """The answer of the first rule that matches the `nth` such call, or None."""
        for name, rule in self.for_tool(call.tool):
            if rule.times is not None and self._served[name] >= rule.times:
                continue
            if not rule.match(call.args):
                continue
            draw_name = f"{self.draws}:{name}:{args_text(call.args)}:{nth}"
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
    return int(digest_of(text, 12), 16) / 16**12


class ConversationTools:
    """The tools of one conversation (agents.base.TrialTools).

    `rules`: of the mock file; those of the case for the turn come first. `entries`: the calls in
    the cassette `cassette`; None if it is missing. `keep`: receives the recorded calls at the end
    of the conversation. `redact`: removes secrets from texts."""

    def __init__(
        self,
        case: Case,
        *,
        mode: ToolMode,
        rules: MockRules,
        entries: Sequence[RecordedCall] | None,
        cassette: str,
        keep: Callable[[Calls], None],
        redact: Redactor,
    ) -> None:
        self.is_optional = mode is ToolMode.LIVE
        self._case = case
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
        setup = self._case.setup_of(number)
        if setup is not self._setup:  # a scenario has the same rules for all of its turns
            self._setup = setup
            tools = {name: list(rules) for name, rules in setup.tools.items()}
            mocks = MockFile.model_validate({"tools": tools})
            self._case_rules = MockRules(mocks, draws=self._rules.draws)

    def answer(self, call: PendingCall) -> CallAnswer:
        """See agents.base.TrialTools."""
        args: Json = mapped_texts(call.args, self._redact)
        call_key = (call.tool, args_text(args))
        self._counts[call_key] += 1
        nth = self._nth[call.number] = self._counts[call_key]
        is_fake = self._setup.fakes and self._mode in (ToolMode.LIVE, ToolMode.RECORD)
        file_rules = self._rules if self._mode is not ToolMode.LIVE or is_fake else None
        for rules in filter(None, (self._case_rules, file_rules)):
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
        exact_call = self._by_key.get((tool, args_text(args), nth))
        if exact_call is not None:
            return CallAnswer(reply=exact_call)
        tool_calls = [entry for entry in self._entries or () if entry.tool == tool]
        similar_calls = [entry for entry in tool_calls if matches(entry.args, args)]
        for entry in similar_calls:
            if entry.nth == nth:
                return CallAnswer(reply=entry)
        nearest = nearest_args(args, [entry.args for entry in tool_calls])
        if self._entries is None:
            reason = f" and there is no cassette {self._cassette}"
        elif similar_calls:
            recorded_times = words.counted(len(similar_calls), "time")
            reason = f" {words.counted(nth, 'time')}; it was recorded {recorded_times}"
        elif nearest is not None:
            nearest_text = spell_call(tool, nearest)
            reason = f", recorded only {nearest_text}: {difference(args, nearest)}"
        else:
            tools = list(dict.fromkeys(entry.tool for entry in self._entries))
            reason = f", {unknown_tool_message(tool, tools)}"
        call_text = f"called {spell_call(tool, args)}"
        return CallAnswer(
            refusal=f"{call_text}{reason}; if the call is right, record it with `--tools record`"
        )

    def _no_rule(self, tool: str, args: Json) -> CallAnswer:
        """The refusal of a call that no mock rule matches, with the nearest rule."""
        rules = [rule for _, rule in self._rules.for_tool(tool)]
        called = f"called {spell_call(tool, args)}"
        if not rules:
            return CallAnswer(refusal=f"{called}, but there is no mock rule for `{tool}`")
        nearest = nearest_args(args, [rule.args for rule in rules if rule.args and not rule.where])
        message = f"{called}, but none of the {len(rules)} mock rules for `{tool}` matches"
        if nearest is not None:
            message += f"; the nearest is for {spell_call(tool, nearest)}"
        return CallAnswer(refusal=message)


# --- all conversations
# -----------------------------------------------------------------------------


class Toolbox:
    """See agents.base.ToolSource.

    `settings`: head's. `checkout`: the side's own, whose cassettes come first. While recording, a
    case's cassette is written when one of its conversations ends: the calls of the lowest repeat,
    then those that only other repeats made. If an interrupted run is resumed, the cassette's calls
    are kept."""

    def __init__(
        self, settings: Settings, *, mode: ToolMode, checkout: Path, redact: Redactor
    ) -> None:
        self.mode = mode
        self._settings = settings
        self._rule = settings.gate_file.tools
        self._mocks = _mocks(settings.root, self._rule).mocks
        self._checkout = checkout
        self._redact = redact
        self._lock = threading.Lock()
        self._recorded: dict[CaseKey, dict[TrialKey, Calls]] = {}
        self._earlier_calls: dict[CaseKey, Calls] = {}

    def open(self, key: TrialKey, case: Case) -> ConversationTools:
        """The tools of one trial."""
        name = file_of(self._rule.cassettes, key.suite, key.case_id)
        entries = None
        if self.mode is ToolMode.REPLAY:
            checkouts = dict.fromkeys((self._checkout, self._settings.root))
            groups = [read_entries(within(checkout, name)) for checkout in checkouts]
            known_groups = [group for group in groups if group is not None]
            entries = merge(*known_groups) if known_groups else None
        return ConversationTools(
            case,
            mode=self.mode,
            rules=MockRules(self._mocks, draws=f"{self._settings.seed}:{key}"),
            entries=entries,
            cassette=name,
            keep=lambda entries: self._keep(key, name, entries),
            redact=self._redact,
        )

    def _keep(self, key: TrialKey, name: str, entries: Calls) -> None:
        """Add what a trial recorded, and write the case's cassette. Raises UnavailableError."""
        case = key.case
        try:
            path = within(self._settings.root, name)
        except CassetteError as error:
            raise UnavailableError(f"the cassette {name} cannot be written: {error}") from error
        with self._lock:
            if case not in self._recorded:
                with suppress(CassetteError):
                    self._earlier_calls[case] = (self._settings.resume and read_entries(path)) or ()
            repeats = self._recorded.setdefault(case, {})
            repeats[key] = entries
            calls = merge(
                *(repeats[repeat] for repeat in sorted(repeats)), self._earlier_calls.get(case, ())
            )
            if calls or path.exists():
                _write(path, render_cassette(calls, suite=key.suite, case=key.case_id))


def file_of(folder: str, suite: str, case_id: str) -> str:
    """The cassette of a case, relative to the checkout."""
    return f"{folder.rstrip('/')}/{file_name(suite, case_id)}"


def within(root: Path, name: str) -> Path:
    """The path of a file in a checkout. Raises CassetteError if a link leads outside."""
    reason = places.refusal_reason(root, name, trusted=True)
    if reason:
        raise CassetteError(f"its path {reason}")
    return root / name


def read_entries(path: Path) -> Calls | None:
    """The calls in a cassette; None if there is no file. Raises CassetteError."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CassetteError(f"cannot be read: {error}") from None
    return parse_cassette(text)


def check_files(root: Path, folder: str, cases: Iterable[CaseKey]) -> list[Problem]:
    """One problem for each invalid cassette of these cases (suite, case id)."""
    problems = []
    for suite, case_id in cases:
        name = file_of(folder, suite, case_id)
        try:
            read_entries(within(root, name))
        except CassetteError as error:
            message = f"the cassette of case `{case_id}`: {error}"
            hint = "Record it again with `--tools record`, or undo the changes to it."
            problems.append(errors.error("tool-cassette", message, Place(name, 1), hint))
    return problems


def digest(root: Path, paths: Iterable[str]) -> str:
    """16 hex digits of the names and contents of files and folders, relative to `root`."""
    hasher = hashlib.sha256()
    for name in paths:
        recordings = root / name
        files = (
            sorted(path for path in recordings.rglob("*.json") if path.is_file())
            if recordings.is_dir()
            else [recordings]
        )
        for path in files:
            with suppress(OSError):
                hasher.update(
                    os.fsencode(path.relative_to(root)) + b"\0" + path.read_bytes() + b"\0"
                )
    return hasher.hexdigest()[:16]


def _write(path: Path, text: str) -> None:
    """Write the file completely or not at all, so that a killed run leaves no partial file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path) as draft:
            draft.write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise UnavailableError(f"the cassette {path.name} cannot be written: {error}") from error


def mode_of(settings: Settings) -> ToolMode:
    """The mode of the command line or the action, else of evalgate.yml."""
    return ToolMode(settings.tools or settings.gate_file.tools.mode)


def check(settings: Settings, suites: Sequence[Suite]) -> list[Problem]:
    """All problems that make the mode impossible or useless, before anything runs."""
    mode = mode_of(settings)
    rule = settings.gate_file.tools
    root = settings.root
    problems: list[Problem] = []
    if mode is ToolMode.LIVE:
        # tools that a suite mocks would run if they cannot be intercepted
        for suite in suites:
            driver = suite.agent.driver
            case = next(
                (
                    case
                    for case in suite.cases
                    if any(setup.mocks or setup.fakes for setup in case.setups)
                ),
                None,
            )
            if case is not None and _tools_of(driver) is DriverTools.UNSEEN:
                message = f"case `{case.case_id}` mocks tools, and evalgate cannot intercept those of the driver `{driver}`"
                hint = "Run it with another driver, remove the mocks, or exclude the file."
                place = case.place or Place(suite.key)
                problems.append(errors.error("tools-unseen", message, place, hint))
        return problems
    refusals = [
        errors.error("tools-place", f"`tools`: `{name[:200]}` {reason}")
        for name in dict.fromkeys((rule.cassettes, rule.mocks))
        if (reason := places.refusal_reason(root, name))
    ]
    if refusals:
        return refusals
    problems += _driver_problems(mode, suites)
    if mode is ToolMode.MOCK and not rule.mocks:
        hint = "Set it in evalgate.yml: `tools: {mode: mock, mocks: tools.yml}`."
        problems.append(
            errors.error("tool-mocks", "`tools: mock` needs a file of rules", hint=hint)
        )
    if rule.mocks:
        reading = _mocks(root, rule)
        problems += [*reading.problems, *_unknown_tools(reading, suites)]
    if mode is ToolMode.REPLAY:
        problems += _cassette_problems(root, rule, suites)
    return problems


def source(
    settings: Settings,
    *,
    checkout: Path,
    environment: Environ,
    suites: Iterable[Suite] = (),
) -> Toolbox | None:
    """The toolbox for the tool calls of a side's agent; None if they go to the tools themselves.

    `settings`: head's; its rules and cassettes answer both sides. `checkout`: the side's checkout;
    its cassettes come first, because its own agent made them. Only head records. `environment`: the
    agent's own; its secrets are removed from cassettes. `suites`: those of the agent; their cases
    may answer tool calls."""
    mode = mode_of(settings)
    if mode is ToolMode.RECORD and checkout != settings.root:
        mode = ToolMode.LIVE
    if mode is ToolMode.LIVE and not any(
        setup.tools or setup.fakes
        for suite in suites
        for case in suite.cases
        for setup in case.setups
    ):
        return None
    redact = system_redact.redactor(environment)
    return Toolbox(settings, mode=mode, checkout=checkout, redact=redact)


def fingerprint(settings: Settings, checkout: Path) -> str:
    """The fingerprint of an agent's tool answers, to append to that of its code; "" if the tools
    answer themselves. Parameters as for `source`."""
    mode = mode_of(settings)
    rule = settings.gate_file.tools
    if mode is ToolMode.LIVE:
        return ""
    files = [rule.mocks] if rule.mocks else []
    files += [rule.cassettes] if mode is ToolMode.REPLAY else []
    checksum = digest(settings.root, files)
    if checkout != settings.root and mode is ToolMode.REPLAY:
        checksum += digest(checkout, [rule.cassettes])
    return f"+{mode}-{checksum}"


def _driver_problems(mode: ToolMode, suites: Sequence[Suite]) -> list[Problem]:
    """A problem for each driver whose tools cannot be intercepted."""
    names = dict.fromkeys(suite.agent.driver for suite in suites)
    return [
        errors.error(
            "tools-unseen",
            f"`tools: {mode}` is not possible with the driver `{name}`: evalgate cannot intercept its tools",
            hint="Exclude these suites, or run them in a separate job with `--tools live`.",
        )
        for name in names
        if _tools_of(name) is DriverTools.UNSEEN
    ]


def _tools_of(driver: str) -> DriverTools | None:
    agent_driver = agents.DRIVERS.get(driver)
    return None if agent_driver is None else agent_driver.tools


def _cassette_problems(root: Path, rule: ToolsRule, suites: Sequence[Suite]) -> list[Problem]:
    """The problems of the cassettes that a replay needs."""
    replay_suites = [suite for suite in suites if _tools_of(suite.agent.driver) is DriverTools.ASKS]
    if replay_suites and not rule.mocks and not (root / rule.cassettes).is_dir():
        message = f"`tools: replay`: the cassette folder `{rule.cassettes}` does not exist"
        return [
            errors.error(
                "tool-cassette", message, hint="Record them once: `evalgate run --tools record`."
            )
        ]
    return check_files(root, rule.cassettes, cases_of(replay_suites))


def _mocks(root: Path, rule: ToolsRule) -> MockReading:
    """The rules of the mock file, if one is set."""
    if not rule.mocks:
        return MockReading()
    path = root / rule.mocks
    try:
        return parse_mocks(path.read_text("utf-8-sig"), file=rule.mocks)
    except FileNotFoundError:
        siblings = [sibling.name for sibling in path.parent.glob("*.*") if sibling.is_file()]
        hint = words.did_you_mean(path.name, siblings)
        problem = errors.error("tool-mocks", f"`tools`: there is no file `{rule.mocks}`", hint=hint)
    except (OSError, UnicodeDecodeError) as error:
        problem = errors.error("tool-mocks", f"cannot be read: {error}", Place(rule.mocks))
    return MockReading(problems=(problem,))


def _unknown_tools(reading: MockReading, suites: Sequence[Suite]) -> list[Problem]:
    """Warnings for rules of a tool that no case expects, if an expected tool has a similar name."""
    turns = [turn for suite in suites for case in suite.cases for turn in case.turns]
    expected = {call.name for turn in turns for call in turn.tool_calls}
    problems = []
    for name in reading.mocks.tools:
        nearest_tool = words.nearest(name, expected, cutoff=0.75)
        if name not in expected and nearest_tool is not None:
            message = f"rules for `{name}`, a tool that no case expects"
            hint = f"Did you mean `{nearest_tool}`?"
            problems.append(errors.warning("unknown-tool", message, reading.places.get(name), hint))
    return problems
