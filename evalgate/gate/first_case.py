"""The first case of a repository: its agent answers one question, and the conversation becomes an
evaluation set."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from datetime import date, timedelta
from pathlib import Path

from evalgate import agents
from evalgate.agents import opening
from evalgate.agents.base import AgentFailed
from evalgate.agents.python_process import PythonOptions
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.criteria import judges as criteria_judges
from evalgate.discovery import agent_source, agents as discovery_agents, candidates, dotenv
from evalgate.discovery.walk import Tree
from evalgate.errors import ConfigError, UnavailableError
from evalgate.formats import fingerprints, rewrite
from evalgate.formats.recordings import Recording
from evalgate.gate import record, starter
from evalgate.github import forks
from evalgate.judges.base import ADK_MODEL
from evalgate.judges.clients import Clients
from evalgate.model import (
    AgentFailure,
    AgentUse,
    FailureKind,
    Invocation,
    SessionInput,
    Transcript,
)
from evalgate.system import git, python_needs, redact
from evalgate.system.python_needs import EXCLUDE_NEWER, OVERRIDE, NeedKind, Needs
from evalgate.text import words
from evalgate.values import Environ, Json, JsonObject, frozen_dataclass

CONFIG = "test_config.json"
RUBRIC = "The answer is a useful reply to the user's message: it answers it, or asks for what is missing."
LIKENESS = 0.3
"""The threshold for an answer that no judge can read, in words: low, since one answer says little
about the next."""

JUDGES = (ADK_MODEL, "openai/gpt-4o-mini", "anthropic/claude-3-5-haiku-latest", "groq/llama-3.3-70b-versatile",
          "mistral/mistral-small-latest", "deepseek/deepseek-chat")  # fmt: skip
"""Models that may judge if the agent's own model cannot: the first one with a key."""


@frozen_dataclass
class FirstTurn:
    """The turn of the agent `use` for one question; `models`: the models that it calls; `state`:
    made up for its session."""

    use: AgentUse
    turn: Invocation
    models: tuple[str, ...] = ()
    state: Json = field(default_factory=dict)


def ask(uses: Sequence[AgentUse], question: str, settings: Settings, context: Context) -> FirstTurn:
    """The turn of the first agent that answers the question: as they are, then with requirements
    that may mend their failures. Raises UnavailableError if none answers, ConfigError if there is
    none."""
    forks.refuse_change(context.environ, "evalgate init --ask")
    if not uses:
        raise candidates.no_agent()
    failures: list[tuple[AgentUse, AgentFailure]] = []
    uninstallable: dict[Needs | str, AgentFailure] = {}
    for use in uses[:MOST_TRIED]:
        needs = needs_of(use, settings) or use.driver
        if needs in uninstallable:
            failures.append((use, uninstallable[needs]))
            continue
        try:
            return _first_turn(use, {}, question, settings, context)
        except AgentFailed as error:
            failures.append((use, error.failure))
            if not _is_before_turns(error.failure):
                break
            if error.failure.kind is FailureKind.INSTALL:
                uninstallable[needs] = error.failure
            context.say(f"{label(use)} does not start: {error.failure.message}")
    for index, (use, failure) in enumerate(failures[:MOST_MENDED]):
        attempt = mended(use, {}, failure, settings, context)
        while attempt is not None:
            mended_use, state = attempt
            requirements = words.listed(mended_use.options.get("requirements", ()), limit=9)
            context.say(f"trying {label(use)} with {_changes_text(requirements, state)}")
            try:
                return _first_turn(mended_use, state, question, settings, context)
            except AgentFailed as error:
                context.say(f"{label(use)} gave no answer: {error.failure.message}")
                failures[index] = (use, error.failure)
                attempt = mended(mended_use, state, error.failure, settings, context)
        if not _is_before_turns(failures[index][1]):
            failures = [failures[index]]
            break
    use, failure = failures[0] if _is_before_turns(failures[-1][1]) else failures[-1]
    hint = _missing_names(use, failure, settings, context.environ)
    hint = hint or "`evalgate doctor` shows what it lacks."
    raise UnavailableError(f"the agent gave no answer: {failure.message}", hint=hint)


def _missing_names(
    use: AgentUse, failure: AgentFailure, settings: Settings, environ: Environ
) -> str:
    """The variables to set for an agent that failed, in a sentence; "" for none."""
    source = agent_source.of_agent(use, discovery_agents.reader(settings.root))
    has_example = bool(source.samples) and not source.values
    names = [
        name
        for name in (source.samples if has_example else starter.needed_by(source))
        if name not in {**source.values, **environ} and name not in failure.message
    ]
    if not names or failure.kind is FailureKind.INSTALL:
        return ""
    listed_names = words.listed(names, limit=20)
    if has_example:
        return f"Perhaps: cp {source.example} .env, and fill in {listed_names}."
    return f"Variables that its code reads and that are not set here: {listed_names}."


def _changes_text(requirements: str, state: Json) -> str:
    state_text = f"a made-up session state: {json.dumps(state)}" if state else ""
    parts = [f"other requirements: {requirements}" if requirements else "", state_text]
    return ", and ".join(filter(None, parts))


def _first_turn(
    use: AgentUse, state: Json, question: str, settings: Settings, context: Context
) -> FirstTurn:
    """The turn of an agent for the question, in a session with this state. Raises AgentFailed."""
    suite = candidates.suite_of(use, settings, state)
    agent, turn = opening.ask_once(suite, lambda _: question, settings, context)
    assert turn is not None
    surroundings = agent.surroundings()
    source = agent_source.of_agent(use, discovery_agents.reader(settings.root))
    models = (*(surroundings.models if surroundings else ()), *sorted(source.models))
    return FirstTurn(use=use, turn=turn, models=tuple(dict.fromkeys(models)), state=state)


def _is_before_turns(failure: AgentFailure) -> bool:
    """True if the agent could not even be made, so that another one may answer."""
    return failure.kind in (FailureKind.START, FailureKind.INSTALL) or failure.turn is None


MOST_TRIED = 5
MOST_MENDED = 2


def label(use: AgentUse) -> str:
    """An agent in a few words: its driver, its name, and its origin."""
    found_by = f" ({use.found_by})" if use.found_by else ""
    return f"{use.driver} {agents.DRIVERS[use.driver].label(use.options)}{found_by}"


def argument(use: AgentUse) -> str:
    """The value of `--agent` for an agent."""
    return f"{use.driver}:{agents.DRIVERS[use.driver].short_form(use.options)}"


def criteria_of(first_turn: FirstTurn, settings: Settings, environ: Environ) -> JsonObject:
    """The criteria of the first case: the tools that were called, and for the answer a rubric, if
    there is a judge with a key, else some of its words."""
    criteria: JsonObject = {}
    if first_turn.turn.tool_calls:
        # a model phrases the arguments differently each time
        trajectory = {"threshold": 1.0, "match_type": "ANY_ORDER", "ignore_args": True}
        criteria["tool_trajectory_avg_score"] = trajectory
    judge, _ = find_judge(first_turn, settings, environ)
    if judge:
        rubric = {"rubric_id": "useful", "rubric_content": {"text_property": RUBRIC}}
        options = {"judge_model_options": {"judge_model": judge}} if judge != ADK_MODEL else {}
        criteria["rubric_based_final_response_quality_v1"] = {
            "threshold": 0.8,
            **options,
            "rubrics": [rubric],
        }
    else:
        criteria["response_match_score"] = LIKENESS
    return criteria


def find_judge(first_turn: FirstTurn, settings: Settings, environ: Environ) -> tuple[str, str]:
    """A model that can judge: the configured one, the agent's, or another one with a key; or "",
    and the configuration that the first of them lacks."""
    defaults = criteria_judges.defaults_of(settings)
    environment = dotenv.of_judges(environ, defaults, [first_turn.use], root=settings.root).environ
    models = [model for model in (defaults.model, *first_turn.models, *JUDGES) if model]
    missing = Clients(defaults=defaults, environment=environment).missing(models)
    judge = next((model for model in models if model not in missing), "")
    return judge, "" if judge else missing[models[0]]


def write(first_turn: FirstTurn, settings: Settings, environ: Environ) -> Iterator[str]:
    """Write the evaluation set, its criteria, and a rule for an agent that a run would not find;
    yield the written paths. Raises ConfigError if the set exists, UnavailableError."""
    folder = settings.root / candidates.folder_of(settings)
    file = folder / candidates.FILE
    if file.exists():
        raise ConfigError(f"{file.relative_to(settings.root)} exists already")
    folder.mkdir(parents=True, exist_ok=True)
    recording = Recording(
        case_id=candidates.NAME,
        eval_set_id=None,
        transcript=Transcript(invocations=(first_turn.turn,)),
    )
    record.add(
        file,
        [recording],
        name=candidates.NAME,
        redact=redact.redactor_of_files(environ),
        session=SessionInput(state=first_turn.state) if first_turn.state else None,
    )
    yield file.relative_to(settings.root).as_posix()
    config = folder / CONFIG
    if not config.exists():
        text = json.dumps({"criteria": criteria_of(first_turn, settings, environ)}, indent=2) + "\n"
        rewrite.create(config, text, root=settings.root)
        yield config.relative_to(settings.root).as_posix()
    suite = candidates.suite_of(first_turn.use, settings)
    rules = settings.gate_file
    if settings.agent:  # which is in no file
        rules = rules.model_copy(update={"agents": []})
    tree = Tree(settings.root, exclude=rules.exclude)
    chosen_agents, _ = discovery_agents.choose_agents(
        {suite.key: suite.eval_set}, gate_file=rules, tree=tree
    )
    if fingerprints.agent_key(chosen_agents[suite.key]) != fingerprints.agent_key(first_turn.use):
        yield starter.add_rule(settings, [f"{candidates.folder_of(settings)}/**"], first_turn.use)


# --- other requirements, or a session state, for an agent that gives no answer --------------------


MOST_PACKAGES = 4
"""The number of packages that are added for one agent."""

SETTLED = timedelta(days=14)
"""The age of a commit from which its packages may have changed since."""

_PACKAGE = re.compile(
    r"[Aa]dd `(?P<named>[^`]+)` to the (?:agent's )?requirements|"
    r"pip install (?:-U |--upgrade )?['\"`]?(?P<advised>[A-Za-z][\w.-]*(?:\[[\w,-]+\])?)"
)
_GONE = re.compile(
    r"there is no version of ([\w.-]+)==|"
    r"(?:Because |Failed to build `)([\w.-]+)==\S+(?: has no wheels with a matching platform|`)"
)
_NEEDED = re.compile(r"which needs ([^:]+): ")
_CHANGED = re.compile(
    r"cannot be loaded: (?:ImportError|AttributeError|TypeError)|there is no module named|"
    r"is made for|^(?:ImportError|AttributeError)|unexpected keyword argument"
)
"""Failures that a package causes whose newer versions have lost or renamed something."""


def needs_of(use: AgentUse, settings: Settings) -> Needs | None:
    """The declared needs of an agent's environment; None if nothing declares them."""
    return agents.needs_of(agents.with_defaults(use, settings), settings.root)


def requirements_of(use: AgentUse, settings: Settings) -> list[str] | None:
    """The requirements of an agent, as the option of this name lists them; None if they cannot be
    extended: a lock decides, or a Python is named."""
    driver = agents.DRIVERS[use.driver]
    options = agents.with_defaults(use, settings).options
    if not issubclass(driver.options, PythonOptions) or options.get("python"):
        return None
    needs = needs_of(use, settings)
    if needs is None or needs.kind is NeedKind.NAMED:
        return [*options.get("requirements", ())]
    if needs.kind is NeedKind.POETRY and not Path(needs.folder, "poetry.lock").exists():
        return python_needs.poetry_requirements(Path(needs.folder))
    extensible = needs.kind in (NeedKind.REQUIREMENTS, NeedKind.PROJECT)
    return [os.path.relpath(file, settings.root) for file in needs.files] if extensible else None


def mended(
    use: AgentUse, state: Json, failure: AgentFailure, settings: Settings, context: Context
) -> tuple[AgentUse, Json] | None:
    """The agent with requirements, and the session's state with values, that may mend its failure;
    None if none are known."""
    values = made_up(failure.message)
    if values and state.keys().isdisjoint(values):
        return use, {**state, **values}
    requirements = requirements_of(use, settings)
    needs = needs_of(use, settings)
    if requirements is not None:
        addition = next(_additions(use, requirements, failure, settings, context), "")
        requirements = [*requirements, addition] if addition else None
    elif needs is not None and needs.kind is NeedKind.LOCK and "is made for" in failure.message:
        # the lock has a framework that is too old; the project may take a newer one
        requirements = [os.path.relpath(Path(needs.folder, "pyproject.toml"), settings.root)]
    options = {**use.options, "requirements": requirements}
    return None if requirements is None else (replace(use, options=options), state)


def made_up(message: str) -> JsonObject:
    """Values for the names that an agent's session state needs, by their types, from the message of
    a failure; empty if one of them is no plain value."""
    match = _NEEDED.search(message)
    values: JsonObject = {}
    for name, kind in re.findall(r"(?<!\w)(\w++) \(([^()]*+)\)", match[1]) if match else ():
        plain_kind = kind.partition("[")[0].lower()
        is_optional = plain_kind.endswith("optional") or "None" in kind
        if not is_optional and plain_kind not in PLAIN:
            return {}
        values[name] = None if is_optional else PLAIN[plain_kind]
        values[name] = name if values[name] == "" else values[name]
    return values


PLAIN: JsonObject = {
    "str": "",
    "int": 1,
    "float": 1.0,
    "bool": False,
    "list": [],
    "dict": {},
}
"""Values by their types; a text becomes its own name."""


def _additions(
    use: AgentUse,
    requirements: list[str],
    failure: AgentFailure,
    settings: Settings,
    context: Context,
) -> Iterator[str]:
    match = _PACKAGE.search(failure.message)
    package = (match["named"] or match["advised"]) if match else ""
    is_absent = "is not installed for" in failure.message
    driver = agents.DRIVERS[use.driver]
    framework = driver.package
    if (is_absent and framework not in requirements) or (
        not requirements and failure.kind is FailureKind.INSTALL
    ):
        package = framework
    if package and package not in requirements and len(requirements) <= MOST_PACKAGES:
        yield package
    for gone_name, foreign_name in _GONE.findall(failure.message):
        condition = "" if gone_name else f"; sys_platform != {sys.platform!r}"
        option = f"{OVERRIDE}{gone_name or foreign_name}{condition}"
        if requirements and option not in requirements:
            yield option
    is_dated = any(entry.startswith(EXCLUDE_NEWER) for entry in requirements)
    may_be_newer = failure.kind is not FailureKind.INSTALL and _CHANGED.search(failure.message)
    day = git.day_of(settings.root, context.environ)
    if may_be_newer and requirements and not is_dated and day:
        next_day = date.fromisoformat(day) + timedelta(days=1)
        if next_day < context.moment.date() - SETTLED:
            yield f"{EXCLUDE_NEWER}{next_day}"
    # the code is newer than the framework that it pins
    option = f"{OVERRIDE}{framework}"
    is_of_framework = any(f"from '{name}'" in failure.message for name in driver.modules)
    if is_dated and is_of_framework and option not in requirements:
        yield option
