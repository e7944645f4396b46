"""Where the answers of the agents' tools come from in a run, and what is wrong with the files that give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from evalgate import agents, words
from evalgate.config import tool_mocks
from evalgate.config.gate_file import ToolsRule
from evalgate.config.tool_mocks import MockReading
from evalgate.errors import Place, Problem, Severity
from evalgate.model import Suite
from evalgate.plugins import ToolHandling, ToolMode
from evalgate.process import redaction
from evalgate.settings import Settings
from evalgate.tools import toolbox
from evalgate.tools.toolbox import Toolbox
from evalgate.wiring.choosing import Choice


def mode_of(settings: Settings, rule: ToolsRule) -> ToolMode:
    """What a door says, else evalgate.yml."""
    return ToolMode(settings.tools or rule.mode)


def check(choice: Choice, suites: Iterable[Suite]) -> list[Problem]:
    """All that forbids the mode, or makes it pointless, before anything runs."""
    rule, listed = choice.gate_file.tools, tuple(suites)
    mode = mode_of(choice.settings, rule)
    if mode is ToolMode.LIVE:
        return []
    outside = [named for named in (rule.cassettes, rule.mocks) if _is_outside(named)]
    if outside:
        return [_problem("tools-place", f"`tools`: `{named}` is not inside the repository") for named in outside]
    problems = _drivers(mode, listed)
    if mode is ToolMode.MOCK and not rule.mocks:
        hint = "Set it in evalgate.yml: `tools: {mode: mock, mocks: tools.yml}`."
        problems.append(_problem("tool-mocks", "`tools: mock` needs a file of rules", hint))
    if rule.mocks:
        reading = _mocks(choice.root, rule)
        problems += [*reading.problems, *_unknown_tools(reading, listed)]
    if mode is ToolMode.REPLAY:
        problems += _cassettes(choice.root, rule, listed)
    return problems


def source(
    settings: Settings, rule: ToolsRule, *, root: Path, own: Path, environment: Mapping[str, str]
) -> Toolbox | None:
    """What answers the tool calls of a side's agent, None where they just run.

    `root`: head's checkout, whose rules and cassettes answer both sides. `own`: the side's checkout, whose cassettes
    come first: a base made the calls that were recorded for it. Only head records. `environment`: the agent's own,
    whose secrets are kept out of cassettes.
    """
    mode = mode_of(settings, rule)
    if mode is ToolMode.LIVE or (mode is ToolMode.RECORD and own != root):
        return None
    return Toolbox(
        mode=mode,
        mocks=_mocks(root, rule).mocks,
        root=root,
        own=own,
        folder=rule.cassettes,
        redact=redaction.redactor(environment),
        seed=settings.seed,
        goes_on=settings.resume,
    )


def fingerprint(settings: Settings, rule: ToolsRule, *, root: Path, own: Path) -> str:
    """What has to be equal for an agent's tools to answer the same, to stand behind the fingerprint of its code; ""
    where they just run."""
    mode = mode_of(settings, rule)
    if mode is ToolMode.LIVE:
        return ""
    files = [rule.mocks] if rule.mocks else []
    files += [rule.cassettes] if mode is ToolMode.REPLAY else []
    digest = toolbox.digest(root, files)
    if own != root and mode is ToolMode.REPLAY:
        digest += toolbox.digest(own, [rule.cassettes])
    return f"+{mode}-{digest}"


def _drivers(mode: ToolMode, suites: tuple[Suite, ...]) -> list[Problem]:
    problems = []
    for name in dict.fromkeys(suite.agent.driver for suite in suites):
        driver = agents.DRIVERS.get(name)
        if driver is not None and driver.tools is ToolHandling.UNSEEN:
            message = f"`tools: {mode}` is not possible with the driver `{name}`: evalgate cannot intercept its tools"
            hint = "Exclude these suites, or run them in a separate job with `--tools live`."
            problems.append(_problem("tools-unseen", message, hint))
    return problems


def _cassettes(root: Path, rule: ToolsRule, suites: tuple[Suite, ...]) -> list[Problem]:
    asking = [suite for suite in suites if _asks(suite)]
    if asking and not rule.mocks and not (root / rule.cassettes).is_dir():
        message = f"`tools: replay`: the cassette folder `{rule.cassettes}` does not exist"
        return [_problem("tool-cassette", message, "Record them once: `evalgate run --tools record`.")]
    cases = [(suite.key, case.case_id) for suite in asking for case in suite.eval_set.cases]
    return toolbox.check_cassettes(root, rule.cassettes, cases)


def _asks(suite: Suite) -> bool:
    driver = agents.DRIVERS.get(suite.agent.driver)
    return driver is not None and driver.tools is ToolHandling.ASKS


def _mocks(root: Path, rule: ToolsRule) -> MockReading:
    if not rule.mocks:
        return MockReading()
    path = root / rule.mocks
    try:
        return tool_mocks.parse_mocks(path.read_text(encoding="utf-8-sig"), file=rule.mocks)
    except FileNotFoundError:
        siblings = [each.name for each in path.parent.glob("*.*") if each.is_file()]
        close = words.nearest(path.name, siblings)
        hint = f"Did you mean `{close}`?" if close else ""
        problem = _problem("tool-mocks", f"`tools`: there is no file `{rule.mocks}`", hint)
    except (OSError, UnicodeDecodeError) as error:
        problem = _problem("tool-mocks", f"cannot be read: {error}", place=Place(file=rule.mocks))
    return MockReading(problems=(problem,))


def _unknown_tools(reading: MockReading, suites: tuple[Suite, ...]) -> list[Problem]:
    """Rules for a tool that no case expects, where one is expected whose name is nearly the same."""
    turns = [turn for suite in suites for case in suite.eval_set.cases for turn in case.conversation or ()]
    expected = {call.name for turn in turns for call in turn.tool_calls}
    problems = []
    for name in reading.mocks.tools:
        close = words.nearest(name, expected, cutoff=0.75)
        if name not in expected and close is not None:
            message = f"rules for `{name}`, a tool that no case expects"
            problems.append(
                Problem(
                    severity=Severity.WARNING,
                    code="unknown-tool",
                    message=message,
                    place=reading.places.get(name),
                    hint=f"Did you mean `{close}`?",
                )
            )
    return problems


def _is_outside(named: str) -> bool:
    path = PurePosixPath(named)
    return path.is_absolute() or ".." in path.parts


def _problem(code: str, message: str, hint: str = "", place: Place | None = None) -> Problem:
    return Problem(severity=Severity.ERROR, code=code, message=message, place=place, hint=hint)
