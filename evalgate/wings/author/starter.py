"""The first files of a repository: its workflow, an evalgate.yml if the defaults do not fit, and
its first case, for which the agent answers one question."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

from evalgate import agents, errors
from evalgate.agents import opening
from evalgate.agents.base import AgentFailed
from evalgate.agents.pool import PythonOptions
from evalgate.config import gate_file as config_gate_file, variables, yaml
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.config.variables import AgentVariables
from evalgate.criteria import judges as criteria_judges
from evalgate.discovery import agents as discovery_agents, candidates, dotenv
from evalgate.discovery.agent_source import ImportGraph
from evalgate.discovery.agents import AgentFolders
from evalgate.discovery.project import Project
from evalgate.discovery.walk import Tree
from evalgate.errors import ConfigError, Problem, UnavailableError
from evalgate.formats import rewrite
from evalgate.formats.recordings import Recording
from evalgate.gate import doctor, edit, prepare
from evalgate.github import forks
from evalgate.judges import models
from evalgate.judges.base import ADK_MODEL
from evalgate.judges.clients import GOOGLE_KEYS, Clients
from evalgate.model import (
    AgentFailure,
    AgentUse,
    FailureKind,
    Invocation,
    SessionInput,
    Transcript,
)
from evalgate.results import output
from evalgate.system import git, python_needs, redact
from evalgate.system.files import top_of
from evalgate.system.python_needs import EXCLUDE_NEWER, OVERRIDE, NeedKind, Needs
from evalgate.text import words
from evalgate.values import (
    Json,
    JsonObject,
    elements,
    frozen_dataclass,
    grouped,
    json_text,
    matches_any,
    without,
)
from . import source as author_source
from .source import AgentSource

WORKFLOW = f"{doctor.WORKFLOWS}/evalgate.yml"
ACTION = f"{doctor.PLACEHOLDER}/evalgate/gate@v1"
DISTRIBUTION = "evalgate-action"

BACKUP_SUFFIX = ".orig"
"""Suffix of the backups of files that `--force` replaces."""

CLOUD_VARIABLES = ("GCP_WORKLOAD_IDENTITY_PROVIDER", "GCP_SERVICE_ACCOUNT")
"""Repository variables with the identity for Google Cloud; they are not secret."""

SIGN_IN_PAGE = "action.md#vertex-ai"
SIGN_IN_STEP = f"""\
      # a fork's pull request gets no id-token: {{page}}
      - if: github.event.pull_request.head.repo.full_name == github.repository
        uses: google-github-actions/auth@7c6bc770dae815cd3e89ee6cdf493a5fab2cc093 # v3.0.0
        with:
          workload_identity_provider: ${{{{ vars.{CLOUD_VARIABLES[0]} }}}}
          service_account: ${{{{ vars.{CLOUD_VARIABLES[1]} }}}}
"""

_ORIGIN = re.compile(r"github\.com[/:]([\w.-]+)/evalgate(?:\.git)?/?(?:@\S*)?$", re.MULTILINE)


@frozen_dataclass
class Starter:
    """The files to write, and the steps left to do by hand."""

    top: Path
    """The repository's folder."""
    files: Mapping[str, str]
    """Texts by their path below `top`."""
    secrets: Mapping[str, str]
    """Names of repository secrets, by the variable that each one sets."""
    elsewhere: str
    """A workflow that already runs evalgate, or "": a second one would run it twice."""
    uses_cloud: bool
    """The agents use Google Cloud, which needs credentials."""
    action: str
    """As a step of the workflow names it."""
    undecided: tuple[str, ...]
    """Suites for which the user must still choose an agent."""


def plan(settings: Settings, *, action: str = "") -> Starter:
    """The files for the project. Raises NothingToDo if there is nothing to evaluate."""
    project = prepare.prepare(settings)
    top = top_of(settings.root)
    read_source = discovery_agents.reader(settings.root)
    uses = {suite.agent.key: suite.agent for suite in project.suites}
    known_uses = [use for use in uses.values() if use.found_by != discovery_agents.UNKNOWN.found_by]
    action = action or publisher() or ACTION
    rules, chosen_uses, undecided = render_rules(settings, project, action)
    # a key here says more than an example
    ignored_samples = doctor.VERTEX[:1] if any(map(os.environ.get, GOOGLE_KEYS)) else ()
    sources = [
        author_source.of_agent(use, read_source, ignored_samples=ignored_samples)
        for use in (*known_uses, *chosen_uses)
    ]
    variable_values, judge_values, uses_cloud = _variables_for(settings, project, sources)
    root = "" if settings.root == top else settings.root.relative_to(top).as_posix()
    files = {
        WORKFLOW: render_workflow(
            variable_values,
            judge_variables=judge_values,
            root=root,
            action=action,
            signs_in=uses_cloud,
        )
    }
    if rules:
        file = gate_file_of(settings.root)
        path = file.relative_to(top).as_posix()
        files[path] = _with_agents(rules, old_text=_text_of(file))
    steps = (step for step in doctor.steps_of(top) if isinstance(step, doctor.GateStep))
    elsewhere = next((step.place.file for step in steps if step.place.file != WORKFLOW), "")
    return Starter(
        top=top,
        files=files,
        secrets={
            name: variables.secret_name(name)
            for name, text in {**variable_values, **judge_values}.items()
            if text == variables.secret(name) and name != "GITHUB_TOKEN"  # which every workflow has
        },
        elsewhere=elsewhere,
        uses_cloud=uses_cloud,
        action=action,
        undecided=undecided,
    )


def gate_file_of(root: Path) -> Path:
    """The existing evalgate.yml, or the path of a new one."""
    names = config_gate_file.NAMES
    return root / next((name for name in names if (root / name).is_file()), names[0])


def add_rule(settings: Settings, suites: Sequence[str], use: AgentUse) -> str:
    """Add the agent of these suites to evalgate.yml; return the path of the file. Raises
    ConfigError if the file cannot simply be extended, UnavailableError."""
    file = gate_file_of(settings.root)
    path = file.relative_to(settings.root).as_posix()
    rule = "\n    ".join([f"  - suites: [{', '.join(map(json.dumps, suites))}]", *_options(use)])
    old_text = _text_of(file)
    text = _with_agents(f"agents:\n{rule}\n", old_text=old_text)
    if not text.startswith(old_text.rstrip()):  # the file has agents, perhaps as its last key
        text = f"{old_text.rstrip()}\n{rule}\n"
        old_agents, new_agents = (_agents_of(source) for source in (old_text, text))
        if new_agents[:-1] != old_agents or not old_agents:
            raise ConfigError(f"{path} has agents already", hint=f"Add this one to it:\n{rule}")
    output.save(file, [text], shown_as=path)
    return path


def _agents_of(text: str) -> list[Any]:
    document = yaml.load(text, file="")
    return [] if isinstance(document, Problem) else elements(document.raw, "agents")


def _variables_for(
    settings: Settings, project: Project, sources: Iterable[AgentSource]
) -> tuple[dict[str, str], dict[str, str], bool]:
    """The variables that the workflow sets for agents, and those for judges alone; and whether it
    must sign in to Google Cloud. A value is a secret, unless an example has one; it is "" if the
    sign-in step sets it."""
    flag, _, location = doctor.VERTEX
    samples: dict[str, str] = {}
    for source in sources:
        for name in needed_by(source):
            sample = source.samples.get(name, "")
            samples[name] = sample or (source.values.get(name, "") if name == location else "")
    judges = criteria_judges.models_of(settings, project.suites)
    uses_cloud = doctor.CREDENTIALS in samples or any(name.startswith("vertex") for name in judges)
    values: dict[str, str] = {}
    for name, sample in samples.items():
        if uses_cloud and name in doctor.SIGN_IN_VARIABLES and not sample:
            values[name] = ""
        elif name == flag:
            values[name] = '"true"'
        else:  # a value that is neither a secret nor a placeholder can be used as it is
            is_plain = re.fullmatch(r"[\w.:/@,+-]+", sample) and not redact.is_named(name)
            is_usable = is_plain and not _PLACEHOLDER.search(sample)
            values[name] = json.dumps(sample) if is_usable else variables.secret(name)
    keys = doctor.keys_of_judges(settings, project.suites)
    judge_values = {key: variables.secret(key) for key in keys if key not in values}
    return values, judge_values, uses_cloud


def needed_by(source: AgentSource) -> list[str]:
    """The variables that a workflow should give an agent: those of its models, and those that its
    source reads without a default."""
    names = {*source.needs, *([doctor.CREDENTIALS] if source.logs_in else [])}
    for model in source.models:
        is_google = models.parse_name(model).client == "gemini"
        if is_google and source.uses_vertex:
            names |= {*doctor.VERTEX, doctor.CREDENTIALS}
        elif is_google or not source.has_own_key:
            names |= {*doctor.keys_of(model)[:1]}
    return sorted(
        name
        for name in names - source.sets.keys()
        if AgentVariables(environ={}, names=[name]).passes(name)
        and not matches_any(name, variables.HARMLESS)
    )


_PLACEHOLDER = re.compile(r"(?i)your|here|xxx|change|replace|todo|\.\.\.")


def template() -> str:
    """The workflow as it is in the README."""
    return Path(__file__).with_name("workflow.yml").read_text("utf-8")


def render_workflow(
    variable_values: Mapping[str, str],
    *,
    judge_variables: Mapping[str, str] | None = None,
    root: str = "",
    action: str = ACTION,
    signs_in: bool = False,
) -> str:
    """The template with these variables for the agent, and `judge_variables` for judges. Another
    step of the workflow sets variables without a value. `root`: the folder below the repository's
    top, "" for the top. `signs_in`: the workflow signs in to Google Cloud without a key."""
    inputs = {
        "root": root and _scalar(root),
        "env": ", ".join(filter(doctor.needs_naming, variable_values)),
    }
    text = template()
    step = text[text.index(f"      - uses: {ACTION}") :]
    env_lines = _lines("env", {**variable_values, **(judge_variables or {})})
    new_step = f"      - uses: {action}\n{_lines('with', inputs)}{env_lines}"
    if signs_in:
        text = text.replace("checks: write}", "checks: write, id-token: write}")
        new_step = SIGN_IN_STEP.replace("{page}", page_url(action, SIGN_IN_PAGE)) + new_step
    return text.replace(step, new_step)


def _lines(name: str, lines: Mapping[str, str]) -> str:
    entry_lines = "".join(f"          {key}: {value}\n" for key, value in lines.items() if value)
    return f"        {name}:\n{entry_lines}" if entry_lines else ""


def _scalar(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z][\w./-]*(:[\w.]+)?", text) else json.dumps(text)


def publisher() -> str:
    """The action of the repository that this evalgate was installed from, if it is on GitHub; else
    ""."""
    try:
        direct_url = json.loads(
            metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}"
        )
        url = str(direct_url.get("url", ""))
        if url.startswith("file://"):
            source = git.find_source(Path(url.removeprefix("file://")))
            url = (source.common_dir / "config").read_text("utf-8", "replace")
    except (metadata.PackageNotFoundError, OSError, ValueError, AttributeError, UnavailableError):
        return ""
    match = _ORIGIN.search(url)
    return f"{match[1]}/evalgate/gate@v1" if match else ""


def page_url(action: str, page: str) -> str:
    """The address of a page of the documentation, as the action's publisher has it."""
    return f"https://github.com/{action.partition('/')[0]}/evalgate/blob/v1/docs/{page}"


# --- evalgate.yml ---------------------------------------------------------------------------------


EXAMPLE = AgentUse(driver=agents.DEFAULT, options={"path": "path/to/agent"})
"""The agent of a rule without a candidate."""


def render_rules(
    settings: Settings, project: Project, action: str
) -> tuple[str, list[AgentUse], tuple[str, ...]]:
    """The text of evalgate.yml, the first agent of each of its rules, and the suites for which the
    user must still choose one.

    Suites without an agent that have the same candidates share a rule. Its first candidate counts,
    the others are written as comments. The text is "" if every suite has an agent."""
    unassigned_keys = [
        suite.key
        for suite in project.all_suites
        if suite.agent.found_by == discovery_agents.UNKNOWN.found_by
    ]
    if not unassigned_keys or settings.gate_file.agents:
        return "", [], ()
    page = page_url(action, "agents")
    lines = [f"# Which agent each evaluation file runs: {page}", "agents:"]
    undecided: list[str] = []
    chosen_uses: list[AgentUse] = []
    uses_by_key = dict(_candidates(settings, unassigned_keys))
    groups = grouped((tuple(uses), key) for key, uses in uses_by_key.items())
    for texts, keys in groups.items():
        first_use = next(iter(uses_by_key[keys[0]].values()), EXAMPLE)
        chosen_uses.append(first_use)
        is_example = any(
            candidates.is_example(str(option)) for option in first_use.options.values()
        )
        undecided += keys if len(texts) != 1 or is_example else []
        if len(keys) > 1:
            lines += ["  - suites:", *(f"      - {json.dumps(key)}" for key in keys)]
        else:
            lines.append(f"  - suites: [{json.dumps(keys[0])}]")
        other_lines = texts[1:] if texts else discovery_agents.OTHER_AGENTS
        lines += [f"    {line}" for line in (*_options(first_use), *other_lines)]
    return "\n".join(lines) + "\n", chosen_uses, tuple(undecided)


def _candidates(
    settings: Settings, keys: Iterable[str]
) -> Iterator[tuple[str, dict[str, AgentUse]]]:
    """For the key of each suite without an agent, the candidates, by their comments for
    evalgate.yml, which tell them apart."""
    tree = Tree(settings.root, exclude=settings.gate_file.exclude)
    folders = AgentFolders(tree.agent_files, tree.read_source)
    files = discovery_agents.code_files(settings.root)
    graph = ImportGraph(discovery_agents.reader(settings.root))
    framework_agents = list(candidates.find_frameworks(files, graph))
    for key in keys:
        found_agents = discovery_agents.find_agent(key, folders=folders)
        uses = framework_agents
        if len(found_agents.folders) > 1:
            uses = [
                AgentUse(driver=agents.DEFAULT, options={"path": path})
                for path in found_agents.folders
            ]
        yield key, {f"# or {', '.join(_options(use))}": use for use in uses}


def _options(use: AgentUse) -> list[str]:
    return [
        f"{name}: {json.dumps(option) if isinstance(option, list) else _scalar(str(option))}"
        for name, option in {"driver": use.driver, **use.options}.items()
    ]


def _with_agents(rules: str, *, old_text: str) -> str:
    """The text of a file with the agents appended; only the agents if they cannot simply be
    appended."""
    text = f"{old_text.rstrip()}\n\n{rules}" if old_text.strip() else rules
    old_document, new_document = (yaml.load(source, file="") for source in (old_text, text))
    if (
        isinstance(old_document, Problem)
        or isinstance(new_document, Problem)
        or not isinstance(new_document.raw, dict)
    ):
        return rules
    other_settings = without(new_document.raw, ("agents",))
    return text if other_settings == (old_document.raw or {}) else rules


def _text_of(file: Path) -> str:
    return file.read_text("utf-8", "replace") if file.is_file() else ""


def changes(starter: Starter, *, force: bool) -> Iterator[tuple[str, str, str]]:
    """The path, new text and current text ("" if missing) of each file that needs a change."""
    for path, text in starter.files.items():
        file = starter.top / path
        current_text = _text_of(file)
        if current_text != text and not (path == WORKFLOW and starter.elsewhere and not force):
            yield path, text, current_text


def write(starter: Starter, path: str, text: str) -> str:
    """Write one file. Return the path of the backup, or "" if nothing is lost. Raises
    UnavailableError."""
    file = starter.top / path
    if not file.resolve().is_relative_to(starter.top.resolve()):
        raise UnavailableError(f"{path} leads out of the repository by a symbolic link")
    with errors.unavailable(f"{path} cannot be written"):
        file.parent.mkdir(parents=True, exist_ok=True)
        is_lost = file.is_file() and not text.startswith(_text_of(file).rstrip())
        if is_lost:
            file.replace(f"{file}{BACKUP_SUFFIX}")
        file.write_text(text, encoding="utf-8")
    return f"{path}{BACKUP_SUFFIX}" if is_lost else ""


# --- the first case -------------------------------------------------------------------------------


RUBRIC = "The answer is a useful reply to the user's message: it answers it, or asks for what is missing."
LIKENESS = 0.3
"""The threshold for an answer that no judge can read, in words: low, since one answer says little
about the next."""

JUDGES = (ADK_MODEL, "openai/gpt-4o-mini", "anthropic/claude-3-5-haiku-latest", "groq/llama-3.3-70b-versatile",
          "mistral/mistral-small-latest", "deepseek/deepseek-chat")  # fmt: skip
"""Models that may judge if the agent's own model cannot: the first one with a key."""


@frozen_dataclass
class FirstTurn:
    """The turn of an agent for one question."""

    use: AgentUse
    turn: Invocation
    state: Json
    """Made up for its session."""
    judge: str
    """A model that can judge; "" if none can."""
    lack: str
    """The configuration that the first of the models lacks if none can judge; else ""."""


def ask(uses: Sequence[AgentUse], question: str, settings: Settings, context: Context) -> FirstTurn:
    """The turn of the first agent that answers the question: as they are, then with requirements
    that may mend their failures. Raises UnavailableError if none answers."""
    forks.refuse_change(context.environ, "evalgate init --ask")
    failures: list[tuple[AgentUse, AgentFailure]] = []
    uninstallable: dict[Needs | str, AgentFailure] = {}
    for use in uses[:MOST_TRIED]:
        needs = needs_of(use, settings) or use.driver
        is_new = needs not in uninstallable
        outcome = (
            _first_turn(use, {}, question, settings, context) if is_new else uninstallable[needs]
        )
        if isinstance(outcome, FirstTurn):
            return outcome
        failures.append((use, outcome))
        if not _is_before_turns(outcome):
            break
        if outcome.kind is FailureKind.INSTALL:
            uninstallable[needs] = outcome
        if is_new:
            context.say(f"{discovery_agents.label(use)} does not start: {outcome.message}")
    for index, (use, failure) in enumerate(failures[:MOST_MENDED]):
        attempt = mended(use, {}, failure, settings, context)
        while attempt is not None:
            mended_use, state = attempt
            requirements = words.listed(mended_use.options.get("requirements", ()), limit=9)
            changes = [f"other requirements: {requirements}"] if requirements else []
            changes += [f"a made-up session state: {json.dumps(state)}"] if state else []
            label = discovery_agents.label(use)
            context.say(f"trying {label} with {', and '.join(changes)}")
            outcome = _first_turn(mended_use, state, question, settings, context)
            if isinstance(outcome, FirstTurn):
                return outcome
            context.say(f"{label} gave no answer: {outcome.message}")
            failures[index] = (use, outcome)
            attempt = mended(mended_use, state, outcome, settings, context)
        if not _is_before_turns(failures[index][1]):
            failures = [failures[index]]
            break
    _, failure = failures[0] if _is_before_turns(failures[-1][1]) else failures[-1]
    raise UnavailableError(
        f"the agent gave no answer: {failure.message}",
        hint="`evalgate doctor` shows what it lacks.",
    )


def _first_turn(
    use: AgentUse, state: Json, question: str, settings: Settings, context: Context
) -> FirstTurn | AgentFailure:
    """The turn of an agent for the question, in a session with this state."""
    suite = candidates.suite_of(use, settings, state)
    try:
        agent, turn = opening.ask_once(suite, question, settings, context)
    except AgentFailed as error:
        return error.failure
    assert turn is not None
    surroundings = agent.surroundings()
    source = author_source.of_agent(use, discovery_agents.reader(settings.root))
    # the configured judge, the agent's own models, or another one with a key
    defaults = criteria_judges.defaults_of(settings)
    models_of_agent = (*(surroundings.models if surroundings else ()), *sorted(source.models))
    names = list(filter(None, (defaults.model, *models_of_agent, *JUDGES)))
    environment = dotenv.of_judges(settings, [use], context.environ).environ
    missing = Clients(defaults=defaults, environment=environment).missing(names)
    judge = next((name for name in names if name not in missing), "")
    lack = "" if judge else missing[names[0]]
    return FirstTurn(use=use, turn=turn, state=state, judge=judge, lack=lack)


def _is_before_turns(failure: AgentFailure) -> bool:
    """True if the agent could not even be made, so that another one may answer."""
    return failure.kind in (FailureKind.START, FailureKind.INSTALL) or failure.turn is None


MOST_TRIED = 5
MOST_MENDED = 2


def argument(use: AgentUse) -> str:
    """The value of `--agent` for an agent."""
    return f"{use.driver}:{agents.DRIVERS[use.driver].short_form(use.options)}"


def criteria_of(first_turn: FirstTurn) -> JsonObject:
    """The criteria of the first case: the tools that were called, and for the answer a rubric, if
    there is a judge with a key, else some of its words."""
    criteria: JsonObject = {}
    if first_turn.turn.tool_calls:
        # a model phrases the arguments differently each time
        trajectory = {"threshold": 1.0, "match_type": "ANY_ORDER", "ignore_args": True}
        criteria["tool_trajectory_avg_score"] = trajectory
    judge = first_turn.judge
    if judge:
        rubric = {"rubric_id": "useful", "rubric_content": {"text_property": RUBRIC}}
        options = {"judge_model_options": {"judge_model": judge}} if judge != ADK_MODEL else {}
        quality = {"threshold": 0.8, **options, "rubrics": [rubric]}
        criteria["rubric_based_final_response_quality_v1"] = quality
    else:
        criteria["response_match_score"] = LIKENESS
    return criteria


def write_case(first_turn: FirstTurn, settings: Settings) -> Iterator[str]:
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
    edit.add(
        file,
        [recording],
        name=candidates.NAME,
        session=SessionInput(state=first_turn.state) if first_turn.state else None,
    )
    yield file.relative_to(settings.root).as_posix()
    config = folder / "test_config.json"
    if not config.exists():
        text = json_text({"criteria": criteria_of(first_turn)})
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
    if chosen_agents[suite.key].key != first_turn.use.key:
        yield add_rule(settings, [f"{candidates.folder_of(settings)}/**"], first_turn.use)


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
_CHANGED = re.compile(
    r"cannot be loaded: (?:ImportError|AttributeError|TypeError)|there is no module named|"
    r"is made for|^(?:ImportError|AttributeError)|unexpected keyword argument"
)
"""Failures that a package causes whose newer versions have lost or renamed something."""


def needs_of(use: AgentUse, settings: Settings) -> Needs | None:
    """The declared needs of an agent's environment; None if nothing declares them."""
    return agents.needs_of(agents.with_defaults(use, settings), settings.root)


def requirements_of(use: AgentUse, needs: Needs | None, settings: Settings) -> list[str] | None:
    """The requirements of an agent, as the option of this name lists them; None if they cannot be
    extended: a lock decides, or a Python is named. `needs`: those that it declares."""
    options = agents.with_defaults(use, settings).options
    is_python = issubclass(agents.DRIVERS[use.driver].options, PythonOptions)
    if not is_python or options.get("python"):
        return None
    if needs is None or needs.kind is NeedKind.NAMED:
        return [*options.get("requirements", ())]
    if needs.kind is NeedKind.POETRY and not Path(needs.folder, "poetry.lock").exists():
        with suppress(python_needs.PoetryFailed):  # the environment's failure says it
            return python_needs.poetry_requirements(Path(needs.folder))
    if needs.kind not in (NeedKind.REQUIREMENTS, NeedKind.PROJECT):
        return None
    return [os.path.relpath(file, settings.root) for file in needs.files]


def mended(
    use: AgentUse, state: Json, failure: AgentFailure, settings: Settings, context: Context
) -> tuple[AgentUse, Json] | None:
    """The agent with requirements, and the session's state with values, that may mend its failure;
    None if none are known."""
    values = made_up(failure.message)
    if values and state.keys().isdisjoint(values):
        return use, {**state, **values}
    needs = needs_of(use, settings)
    requirements = requirements_of(use, needs, settings)
    if requirements is not None:
        addition = next(_additions(use, requirements, failure, settings, context), "")
        requirements = [*requirements, addition] if addition else None
    elif needs is not None and needs.kind is NeedKind.LOCK and "is made for" in failure.message:
        # the lock has a framework that is too old; the project may take a newer one
        requirements = [os.path.relpath(Path(needs.folder, "pyproject.toml"), settings.root)]
    if requirements is None:
        return None
    return use.with_options({**use.options, "requirements": requirements}), state


def made_up(message: str) -> JsonObject:
    """Values for the names that an agent's session state needs, by their types, from the message of
    a failure; empty if one of them is no plain value."""
    match = re.search(r"which needs ([^:]+): ", message)
    values: JsonObject = {}
    for name, kind in re.findall(r"(?<!\w)(\w++) \(([^()]*+)\)", match[1]) if match else ():
        plain_kind = kind.partition("[")[0].lower()
        is_optional = plain_kind.endswith("optional") or "None" in kind
        if not is_optional and plain_kind not in PLAIN:
            return {}
        value = None if is_optional else PLAIN[plain_kind]
        values[name] = name if value == "" else value
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
    message = failure.message
    match = _PACKAGE.search(message)
    package = (match["named"] or match["advised"]) if match else ""
    is_absent = "is not installed for" in message
    driver = agents.DRIVERS[use.driver]
    framework = driver.package
    if (is_absent and framework not in requirements) or (
        not requirements and failure.kind is FailureKind.INSTALL
    ):
        package = framework
    if package and package not in requirements and len(requirements) <= MOST_PACKAGES:
        yield package
    for gone_name, foreign_name in _GONE.findall(message):
        condition = "" if gone_name else f"; sys_platform != {sys.platform!r}"
        option = f"{OVERRIDE}{gone_name or foreign_name}{condition}"
        if requirements and option not in requirements:
            yield option
    is_dated = any(entry.startswith(EXCLUDE_NEWER) for entry in requirements)
    may_be_newer = failure.kind is not FailureKind.INSTALL and _CHANGED.search(message)
    day = git.day_of(settings.root, context.environ)
    if may_be_newer and requirements and not is_dated and day:
        next_day = date.fromisoformat(day) + timedelta(days=1)
        if next_day < context.moment.date() - SETTLED:
            yield f"{EXCLUDE_NEWER}{next_day}"
    # the code is newer than the framework that it pins
    option = f"{OVERRIDE}{framework}"
    is_of_framework = any(f"from '{name}'" in message for name in driver.modules)
    if is_dated and is_of_framework and option not in requirements:
        yield option
