"""The sources of the agents' tool answers in a run, and the problems of their files."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from evalgate import agents, errors
from evalgate.agents.base import DriverTools, ToolMode
from evalgate.config import places
from evalgate.config.gate_file import ToolsRule
from evalgate.config.settings import Settings
from evalgate.errors import Place, Problem, UnavailableError
from evalgate.model import Case, CaseKey, Suite, TrialKey, TurnSetup
from evalgate.system import redact as system_redact
from evalgate.system.files import new_file
from evalgate.text import words
from evalgate.values import Environ, Redactor
from . import cassette, mocks as tools_mocks
from .cassette import Calls, CassetteError
from .mocks import ConversationTools, MockFile, MockReading, MockRules


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

    def open(self, key: TrialKey, case: Case | None = None) -> ConversationTools:
        """The tools of one trial."""
        name = file_of(self._rule.cassettes, key.suite, key.case_id)
        entries = None
        if self.mode is ToolMode.REPLAY:
            checkouts = dict.fromkeys((self._checkout, self._settings.root))
            groups = [read_entries(within(checkout, name)) for checkout in checkouts]
            known_groups = [group for group in groups if group is not None]
            entries = cassette.merge(*known_groups) if known_groups else None
        return ConversationTools(
            mode=self.mode,
            rules=MockRules(self._mocks, key=key, seed=self._settings.seed),
            entries=entries,
            cassette=name,
            keep=lambda entries: self._keep(key, name, entries),
            redact=self._redact,
            turn_rules=partial(self._case_rules, key, case)
            if case is not None and case.setups
            else None,
        )

    def _case_rules(self, key: TrialKey, case: Case, turn: int) -> tuple[TurnSetup, MockRules]:
        setup = case.setup_of(turn)
        rules = MockFile.model_validate(
            {"tools": {name: list(tool_rules) for name, tool_rules in setup.tools.items()}}
        )
        return setup, MockRules(rules, key=key, seed=self._settings.seed)

    def _keep(self, key: TrialKey, name: str, entries: Calls) -> None:
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
            calls = cassette.merge(
                *(repeats[repeat] for repeat in sorted(repeats)), self._earlier_calls.get(case, ())
            )
            if calls or path.exists():
                _write(path, cassette.render_cassette(calls, suite=key.suite, case=key.case_id))


def file_of(folder: str, suite: str, case_id: str) -> str:
    """The cassette of a case, relative to the checkout."""
    return f"{folder.rstrip('/')}/{cassette.file_name(suite, case_id)}"


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
    return cassette.parse_cassette(text)


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
    if mode is ToolMode.LIVE:
        return _mocking_problems(suites)
    refusals = {
        name[:200]: reason
        for name in (rule.cassettes, rule.mocks)
        if (reason := places.refusal_reason(root, name))
    }
    if refusals:
        return [
            errors.error("tools-place", f"`tools`: `{name}` {reason}")
            for name, reason in refusals.items()
        ]
    problems = _driver_problems(mode, suites)
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


def _mocking_problems(suites: Sequence[Suite]) -> list[Problem]:
    """A problem for each suite that mocks tools of an agent whose tools cannot be intercepted: they
    would run."""
    problems = []
    for suite in suites:
        mocking_cases = [
            case for case in suite.cases if any(setup.mocks or setup.fakes for setup in case.setups)
        ]
        if mocking_cases and _tools_of(suite.agent.driver) is DriverTools.UNSEEN:
            name = mocking_cases[0].case_id
            message = f"case `{name}` mocks tools, and evalgate cannot intercept those of the driver `{suite.agent.driver}`"
            hint = "Run it with another driver, remove the mocks, or exclude the file."
            problems.append(
                errors.error(
                    "tools-unseen", message, mocking_cases[0].place or Place(suite.key), hint
                )
            )
    return problems


def _driver_problems(mode: ToolMode, suites: Sequence[Suite]) -> list[Problem]:
    problems = []
    for name in dict.fromkeys(suite.agent.driver for suite in suites):
        if _tools_of(name) is DriverTools.UNSEEN:
            message = f"`tools: {mode}` is not possible with the driver `{name}`: evalgate cannot intercept its tools"
            hint = "Exclude these suites, or run them in a separate job with `--tools live`."
            problems.append(errors.error("tools-unseen", message, hint=hint))
    return problems


def _tools_of(driver: str) -> DriverTools | None:
    agent_driver = agents.DRIVERS.get(driver)
    return None if agent_driver is None else agent_driver.tools


def _cassette_problems(root: Path, rule: ToolsRule, suites: Sequence[Suite]) -> list[Problem]:
    replay_suites = [suite for suite in suites if _tools_of(suite.agent.driver) is DriverTools.ASKS]
    if replay_suites and not rule.mocks and not (root / rule.cassettes).is_dir():
        message = f"`tools: replay`: the cassette folder `{rule.cassettes}` does not exist"
        return [
            errors.error(
                "tool-cassette", message, hint="Record them once: `evalgate run --tools record`."
            )
        ]
    cases = [(suite.key, case.case_id) for suite in replay_suites for case in suite.cases]
    return check_files(root, rule.cassettes, cases)


def _mocks(root: Path, rule: ToolsRule) -> MockReading:
    if not rule.mocks:
        return MockReading()
    path = root / rule.mocks
    try:
        return tools_mocks.parse_mocks(path.read_text("utf-8-sig"), file=rule.mocks)
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
