"""The first files of a repository: its workflow, and an evalgate.yml if the defaults do not fit."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from evalgate import agents, errors
from evalgate.config import gate_file as config_gate_file, variables, yaml
from evalgate.config.settings import Settings
from evalgate.config.variables import AgentVariables
from evalgate.criteria import judges as criteria_judges
from evalgate.discovery import agent_source, agents as discovery_agents
from evalgate.discovery.agent_source import AgentSource, ImportGraph
from evalgate.discovery.agents import AgentFolders, Ambiguous
from evalgate.discovery.project import Project
from evalgate.discovery.walk import Tree
from evalgate.errors import ConfigError, Problem, UnavailableError
from evalgate.formats import fingerprints
from evalgate.gate import doctor, prepare
from evalgate.github import workflows
from evalgate.judges.clients import GOOGLE_KEYS
from evalgate.model import AgentUse
from evalgate.results import output
from evalgate.system import git, isolation, redact
from evalgate.values import Environ, frozen_dataclass, without

WORKFLOW = f"{workflows.FOLDER}/evalgate.yml"
ACTION = f"{workflows.PLACEHOLDER}/evalgate/gate@v1"
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

OTHER_AGENTS = (
    "# or driver: python, call: package.module:function",
    "# or driver: command, command: ./agent",
    "# or driver: http, url: http://localhost:8000/ask",
)
"""Suggestions for a file that has no known agent."""

_ORIGIN = re.compile(r"github\.com[/:]([\w.-]+)/evalgate(?:\.git)?/?(?:@\S*)?$", re.MULTILINE)


@frozen_dataclass
class Starter:
    """The files to write, and the steps left to do by hand.

    `files`: texts by their path below `top`. `secrets`: names of repository secrets, by the
    variable that each one sets. `elsewhere`: a workflow that already runs evalgate; a second
    workflow would run it twice. `uses_cloud`: the agents use Google Cloud, which needs
    credentials."""

    top: Path
    project: Project
    files: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict)
    elsewhere: str = ""
    uses_cloud: bool = False
    action: str = ACTION
    undecided: tuple[str, ...] = field(default=())


def plan(settings: Settings, *, environ: Environ, action: str = "") -> Starter:
    """The files for the project. Raises NothingToDo if there is nothing to evaluate."""
    project = prepare.prepare(settings, environ=environ)
    top = isolation.top_of(settings.root)
    read_source = discovery_agents.reader(settings.root)
    uses = {fingerprints.agent_key(suite.agent): suite.agent for suite in project.suites}
    known_uses = [use for use in uses.values() if use.found_by != discovery_agents.UNKNOWN.found_by]
    action = action or publisher() or ACTION
    rules, chosen_uses, undecided = render_rules(settings, project, action)
    sources = [agent_source.of_agent(use, read_source) for use in (*known_uses, *chosen_uses)]
    if any(environ.get(key) for key in GOOGLE_KEYS):  # a key here says more than an example
        flag = agent_source.VERTEX[0]
        sources = [
            replace(
                source,
                samples=without(source.samples, (flag,)),
            )
            for source in sources
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
        files[path] = _with_agents(rules, old_text=_text_of(file) or "")
    steps = (step for step in workflows.steps_of(top) if isinstance(step, workflows.GateStep))
    elsewhere = next((step.place.file for step in steps if step.place.file != WORKFLOW), "")
    return Starter(
        top=top,
        project=project,
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
    lines = [f"  - suites: [{', '.join(map(json.dumps, suites))}]"]
    rule = "\n".join([*lines, *(f"    {option}" for option in _options(use))])
    old_text = _text_of(file) or ""
    text = _with_agents(f"agents:\n{rule}\n", old_text=old_text)
    if not text.startswith(old_text.rstrip()):  # the file has agents, perhaps as its last key
        text = f"{old_text.rstrip()}\n{rule}\n"
        old_agents, new_agents = (_agents_of(source) for source in (old_text, text))
        if new_agents[:-1] != old_agents or not old_agents:
            raise ConfigError(f"{path} has agents already", hint=f"Add this one to it:\n{rule}")
    problem = output.write_file(file, [text])
    if problem is not None:
        raise UnavailableError(f"{path} {problem.message}")
    return path


def _agents_of(text: str) -> list[Any]:
    document = yaml.load(text, file="")
    agents_list = None if isinstance(document, Problem) else (document.raw or {}).get("agents")
    return agents_list if isinstance(agents_list, list) else []


def _variables_for(
    settings: Settings, project: Project, sources: Iterable[AgentSource]
) -> tuple[dict[str, str], dict[str, str], bool]:
    """The variables that the workflow sets for agents, and those for judges alone; and whether it
    must sign in to Google Cloud."""
    variable_values = values_of(sources)
    models = criteria_judges.models_of(settings, project.suites)
    uses_cloud = workflows.CREDENTIALS in variable_values or any(
        name.startswith("vertex") for name in models
    )
    if not uses_cloud:
        variable_values = {
            name: text or variables.secret(name) for name, text in variable_values.items()
        }
    keys = doctor.keys_of_judges(settings, project.suites)
    return (
        variable_values,
        {key: variables.secret(key) for key in keys if key not in variable_values},
        uses_cloud,
    )


def needed_by(source: AgentSource) -> list[str]:
    """The variables that a workflow should give an agent: those of its models, and those that its
    source reads without a default."""
    names = {*source.needs, *([workflows.CREDENTIALS] if source.logs_in else [])}
    for model in source.models:
        is_google = agent_source.is_google(model)
        if is_google and source.uses_vertex:
            names |= {*agent_source.VERTEX, workflows.CREDENTIALS}
        elif is_google or not source.has_own_key:
            names |= {*agent_source.keys_of(model)[:1]}
    candidates = (
        name
        for name in names - source.sets.keys()
        if AgentVariables(environ={}, names=[name]).passes(name)
    )
    return sorted(name for name in candidates if not variables.matches(name, variables.HARMLESS))


def values_of(sources: Iterable[AgentSource]) -> dict[str, str]:
    """The variables that agents need in a workflow, with their values: a secret, unless an example
    has one."""
    flag, _, location = agent_source.VERTEX
    variable_values = {}
    for source in sources:
        for name in needed_by(source):
            sample = source.samples.get(name, "") or (
                source.values.get(name, "") if name == location else ""
            )
            if name in workflows.SIGN_IN_VARIABLES and not sample:
                variable_values[name] = ""  # set by the sign-in step, if there is one
            elif name == flag:
                variable_values[name] = '"true"'
            else:
                variable_values[name] = (
                    json.dumps(sample) if _is_usable(name, sample) else variables.secret(name)
                )
    return variable_values


def _is_usable(name: str, sample: str) -> bool:
    """True if a value of a `.env.example` can be used as it is: neither a secret nor a
    placeholder."""
    is_plain = re.fullmatch(r"[\w.:/@,+-]+", sample) is not None
    is_placeholder = (
        re.search(r"your|here|xxx|change|replace|todo|\.\.\.", sample, re.IGNORECASE) is not None
    )
    return is_plain and not is_placeholder and not redact.is_named(name)


@functools.cache
def template() -> str:
    """The workflow as it is in the README."""
    return Path(__file__).with_name("workflow.yml").read_text(encoding="utf-8")


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
        "env": ", ".join(name for name in variable_values if doctor.needs_naming(name)),
    }
    text = template()
    step = text[text.index(f"      - uses: {ACTION}") :]
    new_step = (
        f"      - uses: {action}\n"
        + _lines("with", inputs)
        + _lines("env", {**variable_values, **(judge_variables or {})})
    )
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
            url = (source.common_dir / "config").read_text(encoding="utf-8", errors="replace")
    except (metadata.PackageNotFoundError, OSError, ValueError, AttributeError, UnavailableError):
        return ""
    match = _ORIGIN.search(url)
    return f"{match[1]}/evalgate/gate@v1" if match else ""


def page_url(action: str, page: str) -> str:
    """The address of a page of the documentation, as the action's publisher has it."""
    return f"https://github.com/{action.partition('/')[0]}/evalgate/blob/v1/docs/{page}"


# --- evalgate.yml ---------------------------------------------------------------------------------


def render_rules(
    settings: Settings, project: Project, action: str
) -> tuple[str, list[AgentUse], tuple[str, ...]]:
    """The text of evalgate.yml, the first agent of each of its rules, and the suites for which the
    user must still choose one.

    Suites without an agent that have the same candidates share a rule. Its first candidate counts,
    the others are written as comments. The text is "" if every suite has an agent."""
    unknown_agent = discovery_agents.UNKNOWN.found_by
    unassigned_keys = [
        suite.key
        for suite in (*project.suites, *project.unread)
        if suite.agent.found_by == unknown_agent
    ]
    if not unassigned_keys or settings.gate_file.agents:
        return "", [], ()
    page = page_url(action, "agents")
    lines = [f"# Which agent each evaluation file runs: {page}", "agents:"]
    undecided: list[str] = []
    chosen_uses: list[AgentUse] = []
    for texts, (uses, keys) in _candidates(settings, unassigned_keys).items():
        first_use = (
            uses[0] if uses else AgentUse(driver=agents.DEFAULT, options={"path": "path/to/agent"})
        )
        chosen_uses.append(first_use)
        is_example = any(
            agent_source.is_example(str(option)) for option in first_use.options.values()
        )
        undecided += keys if len(texts) != 1 or is_example else []
        suite_lines = [f"      - {json.dumps(key)}" for key in keys]
        lines += (
            ["  - suites:", *suite_lines]
            if len(keys) > 1
            else [f"  - suites: [{json.dumps(keys[0])}]"]
        )
        lines += [
            f"    {line}"
            for line in (*_options(first_use), *(texts[1:] if texts else OTHER_AGENTS))
        ]
    return "\n".join(lines) + "\n", chosen_uses, tuple(undecided)


def _candidates(
    settings: Settings, keys: Iterable[str]
) -> dict[tuple[str, ...], tuple[list[AgentUse], list[str]]]:
    """The suites without an agent, grouped by candidates: the comments with the candidates for
    evalgate.yml, the candidates, and the keys of their suites."""
    tree = Tree(settings.root, exclude=settings.gate_file.exclude)
    folders = AgentFolders(tree.agent_files, tree.read_source)
    framework_agents = list(
        agent_source.find_frameworks(
            discovery_agents.code_files(settings.root),
            ImportGraph(discovery_agents.reader(settings.root)),
        )
    )
    groups: dict[tuple[str, ...], tuple[list[AgentUse], list[str]]] = {}
    for key in keys:
        choice = discovery_agents.find_agent(key, folders=folders)
        candidates = framework_agents
        if isinstance(choice, Ambiguous):
            candidates = [
                AgentUse(driver=agents.DEFAULT, options={"path": path})
                for path in choice.candidates
            ]
        # the text is the comment of a candidate, and tells candidates apart
        uses_by_text = {f"# or {', '.join(_options(use))}": use for use in candidates}
        groups.setdefault(tuple(uses_by_text), ([*uses_by_text.values()], []))[1].append(key)
    return groups


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


def _text_of(file: Path) -> str | None:
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else None


def changes(starter: Starter, *, force: bool) -> Iterator[tuple[str, str, str | None]]:
    """The path, new text and current text (None if missing) of each file that needs a change."""
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
        is_lost = file.is_file() and not text.startswith((_text_of(file) or "").rstrip())
        if is_lost:
            file.replace(f"{file}{BACKUP_SUFFIX}")
        file.write_text(text, encoding="utf-8")
    return f"{path}{BACKUP_SUFFIX}" if is_lost else ""
