"""All checks of a run that need no model call: `evalgate doctor`.

The agent's environment is made and the agent imported in it, as in a run, and a conversation is
opened. The loaded agent names the models whose keys and credentials are checked."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evalgate import agents, errors
from evalgate.agents import opening
from evalgate.agents.base import Agent, AgentFailed, Surroundings
from evalgate.agents.pool import PythonOptions
from evalgate.baseline import base as baseline_base, rules as baseline_rules
from evalgate.config import variables, yaml
from evalgate.config.context import Audience, Context
from evalgate.config.settings import Settings, split_list
from evalgate.config.variables import AgentVariables
from evalgate.config.yaml import Locator
from evalgate.criteria import judges as criteria_judges
from evalgate.discovery import (
    agents as discovery_agents,
    candidates,
    dotenv,
)
from evalgate.discovery.project import OF_ENVIRONMENT, Project
from evalgate.errors import (
    ExitCode,
    NoEvaluationFile,
    Place,
    Problem,
    Severity,
    UnavailableError,
    errors_in,
)
from evalgate.github import forks
from evalgate.github.events import EventKind
from evalgate.judges import models
from evalgate.judges.clients import GOOGLE_KEYS
from evalgate.judges.models import ENDPOINTS
from evalgate.model import AgentFailure, AgentUse, ConfigOrigin, FailureKind, Suite
from evalgate.simulation import user
from evalgate.system import git, http, isolation, python_env
from evalgate.system.files import top_of
from evalgate.system.python_needs import Needs
from evalgate.text import words
from evalgate.values import Environ, Json, Sentence, Wording, elements, frozen_dataclass, grouped
from . import measure, prepare
from .store import HEAD

LEAST_DISK_BYTES = 2 * 10**9
"""The least free space below the cache: an environment with google-adk needs up to half of it, and
is unpacked twice."""

ENVIRONMENT_CODES = frozenset({
    "agent-environment", "agent-start", "cloud-credentials", "model-key-missing", "no-connection",
    "not-writable",
})  # fmt: skip
"""Codes of errors outside files and settings."""

AGENT_CODES = discovery_agents.CODES | {"agent-missing", "agent-options"}
"""Codes of problems with an agent's place and options, which the check `agent` reports."""
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
"""A frame in a Python traceback: the file and the line."""


@frozen_dataclass
class Section:
    """The checks of a suite, or of all suites together, in order."""

    title: str
    """The evaluation file, or what all suites share."""
    checks: tuple[Check, ...]
    is_suite: bool = False
    """False for sections that all suites share, which the last line does not count."""

    @property
    def exit_code(self) -> ExitCode:
        """The best exit code that a run could have: 2 if files or settings are wrong, as in
        `validate`; 3 if cases could not be measured."""
        error_codes = {
            problem.code
            for problem in errors_in(check.problem for check in self.checks if check.problem)
        }
        if error_codes == {NO_CASE}:
            return ExitCode.NOTHING_TO_DO
        if error_codes - ENVIRONMENT_CODES - {NO_CASE}:
            return ExitCode.CONFIG
        return ExitCode.NOT_MEASURED if error_codes else ExitCode.PASS


@dataclass(slots=True)
class _DoctorState:
    """State shared by sections; it shows each problem once."""

    context: Context
    project: Project
    """Also with suites that cannot run: their problems are checks."""
    judge_environ: Environ
    """The variables of judges, perhaps with those of a `.env`."""
    judge_keys: frozenset[str]
    """Names of variables with keys of judges."""
    isolated: isolation.Isolation | None = None
    """None until sandboxes are open, and if agents run with our rights."""
    reported_problems: set[Problem] = field(default_factory=set)
    """Of all sections so far."""
    agents: dict[str, str] = field(default_factory=dict)
    """The suite in whose section each agent was checked, by `AgentUse.key`."""
    needed: set[str] = field(default_factory=set)
    """Names of the variables that agents should get in a workflow."""

    def report(self, label: str, problems: Iterable[Problem]) -> Iterator[Check]:
        """Checks with the problems that no check had before."""
        for problem in problems:
            if problem not in self.reported_problems:
                self.reported_problems.add(problem)
                yield Check(label, problem=problem)


def diagnose(settings: Settings, context: Context) -> Iterator[Section]:
    """The sections, one after another. Raises NothingToDo, ConfigError."""
    forks.refuse_event(context.environ, settings.root)
    try:
        project = prepare.prepare(settings, environ=context.environ)
    except NoEvaluationFile:
        project = _empty_project(settings)
    uses = [suite.agent for suite in project.suites]
    environment = dotenv.of_judges(settings, uses, context.environ)
    keys = criteria_judges.key_names(settings, project.suites, environment.environ)
    state = _DoctorState(context, project, environment.environ, keys)
    with ExitStack() as stack:
        hidden_paths = baseline_rules.measurement_paths(settings, project.all_suites)
        isolation = measure.open_isolation(
            settings, [settings.root], context, hidden_paths=hidden_paths
        )
        state.isolated = stack.enter_context(isolation)
        for suite in sorted(project.all_suites, key=lambda suite: suite.key):
            checks = [*_files(suite, state), *_judges(suite, state), *_agent(suite, state)]
            yield Section(title=suite.key, checks=tuple(checks), is_suite=True)
    problems = (
        problem
        for problem in project.problems
        if problem.code not in OF_ENVIRONMENT and problem.severity is not Severity.NOTE
    )
    yield Section(
        title="shared by all suites",
        checks=(*state.report("project", problems), *_machine(settings, context, project)),
    )
    yield Section(title=WORKFLOWS, checks=tuple(_workflows(state)))


NO_CASE = "no-evaluation-file"
"""The only error that leads to neither exit code 2 nor 3: there is no evaluation file yet."""


def _empty_project(settings: Settings) -> Project:
    """A project with the case that `evalgate init` would write. Raises ConfigError without an
    agent."""
    use, *_ = candidates.find_agents(settings)
    suite = candidates.suite_of(use, settings)
    hint = f"evalgate init --ask {shlex.quote(candidates.QUESTION)}"
    place = Place(suite.key)
    problem = errors.error(NO_CASE, "there is no evaluation file yet", place, hint)
    return Project(settings=settings, suites=(suite,), problems=(*settings.problems, problem))


# --- a suite --------------------------------------------------------------------------------------


def _files(suite: Suite, state: _DoctorState) -> Iterator[Check]:
    """The evaluation file and its criteria, with the problems that `validate` reports."""
    source = suite.criteria_source
    origin = "the defaults" if source.origin is ConfigOrigin.DEFAULTS else source.file
    cases = suite.cases
    turns = sum(case.turn_count for case in cases)
    problems_by_label: dict[str, list[Problem]] = {"cases": [], "criteria": []}
    for problem in state.project.problems:
        place = problem.place.file if problem.place else ""
        is_of_suite = (
            place in (suite.key, source.file) and problem.code not in OF_ENVIRONMENT | AGENT_CODES
        )
        if is_of_suite and problem.severity is not Severity.NOTE:
            is_of_criteria = place == source.file or "criteria" in problem.code
            problems_by_label["criteria" if is_of_criteria else "cases"].append(problem)
    criteria_names = ", ".join(use.name for use in suite.criteria if not use.informational)
    if not criteria_names:  # the suite does not exist yet
        problems_by_label.pop("criteria")
    texts = {
        "cases": f"{len(cases)} ({words.counted(turns, 'turn')})",
        "criteria": f"{criteria_names}, from {origin}",
    }
    for label, problems in problems_by_label.items():
        if not errors_in(problems):
            yield Check(label, texts[label])
        yield from state.report(label, problems)


def _judges(suite: Suite, state: _DoctorState) -> Iterator[Check]:
    """Check that every model that judges or plays users can be used."""
    settings = state.project.settings
    environ = state.judge_environ
    defaults = criteria_judges.defaults_of(settings)
    missing = [] if settings.skip_judged else criteria_judges.missing([suite], defaults, environ)
    missing += user.missing([suite], defaults, environ)
    yield from state.report("judge", missing)
    model_names = criteria_judges.models_of(settings, [suite])
    if model_names and not missing:
        keys = sorted(criteria_judges.key_names(settings, [suite], environ))
        source = (
            "recorded replies"
            if defaults.client == "replay"
            else f"key in {words.listed(keys)}"
            if keys
            else "no key"
        )
        yield Check("judge", f"{words.listed(model_names)}: {source}")
        if not keys and any(name.startswith("vertex") for name in model_names):
            yield cloud_credentials(environ)


def _agent(suite: Suite, state: _DoctorState) -> Iterator[Check]:
    """The suite's agent: its place, its environment, its tools and models, and whether it can be
    imported."""
    use = suite.agent
    key = use.key
    project = state.project
    settings = project.settings
    if key in state.agents:
        yield Check("agent", f"{discovery_agents.title(use)}, checked for {state.agents[key]}")
        return
    agent_problems = [
        problem
        for problem in project.problems
        if problem.code in AGENT_CODES
        and _is_of(problem, suite)
        and problem.severity is not Severity.NOTE
        and problem not in state.reported_problems
    ]
    yield from state.report("agent", agent_problems)
    if baseline_base.is_unknown(use):
        if not agent_problems:
            yield Check("agent", "none found, see above")
        return
    if errors_in(agent_problems):  # no agent can be opened
        state.agents[key] = suite.key
        return
    yield Check("agent", discovery_agents.label(use))
    try:
        options = agents.options_of(use)
    except (KeyError, ValidationError):  # reported for evalgate.yml
        return
    if not suite.cases:  # a conversation needs a question
        return
    state.agents[key] = suite.key
    agent = _open_agent(suite, state)
    needs = None
    python = ""
    if isinstance(options, PythonOptions):
        needs = agents.needs_of(use, settings.root)
        python = "" if options.python == python_env.AUTO else options.python
        yield _environment(agent, needs, python)
    if isinstance(agent, AgentFailure):
        if agent.kind is not FailureKind.INSTALL:
            yield Check("start", problem=_start_problem(agent, settings.root))
        return
    yield from _tools_and_context(agent, use)
    if surroundings := agent.surroundings():
        yield from _models(surroundings, use, state)
    if url := use.options.get("url"):
        yield _connection("start", str(url), state.context.environ)
    else:
        yield Check("start", "loaded, and a conversation was opened")


def _connection(label: str, url: str, environ: Environ) -> Check:
    """Check that an address accepts connections."""
    message = http.connection_problem(url, environ)
    if not message:
        return Check(label, "not asked: a run asks its address")
    hint = "Start the server, or correct the address in evalgate.yml."
    return Check(label, problem=errors.error("no-connection", message, hint=hint))


def _is_of(problem: Problem, suite: Suite) -> bool:
    """True if a problem with agents concerns this suite's agent."""
    place = problem.place
    if baseline_base.is_unknown(suite.agent):
        return place is None or place.file == suite.key
    # agents[0], if a rule of evalgate.yml names it
    rule = f"$.{suite.agent.found_by.rpartition(' ')[2]}."
    return (
        problem.code == "agent-missing" and place is not None and place.json_path.startswith(rule)
    )


def _open_agent(suite: Suite, state: _DoctorState) -> Agent | AgentFailure:
    """The agent, closed after a conversation, or the failure to open it."""
    sandboxes = None if state.isolated is None else state.isolated.sides[HEAD]
    try:
        agent, _ = opening.ask_once(
            suite,
            "",
            state.project.settings,
            state.context,
            judge_keys=state.judge_keys,
            sandboxes=sandboxes,
        )
    except AgentFailed as error:
        return error.failure
    return agent


def _tools_and_context(agent: Agent, use: AgentUse) -> Iterator[Check]:
    """The agent's tools, and the object that they get."""
    description = agent.description()
    loaded_agents = description.agents if description is not None else ()
    names = dict.fromkeys(name for agent in loaded_agents for name in agent.tools)
    if names:
        yield Check("tools", words.listed(names, limit=20))
    if use.options.get("context"):
        yield Check("context", f"{use.options['context']}")


def _environment(agent: Agent | AgentFailure, needs: Needs | None, python: str) -> Check:
    """The agent's Python and its requirements; `python`: as configured, "" for none."""
    if isinstance(agent, AgentFailure) and agent.kind is FailureKind.INSTALL:
        hint = "" if needs is None else (
            f"Correct {needs}, or name a Python that has everything, in evalgate.yml:\n    python: .venv/bin/python"
        )  # fmt: skip
        if "certificate" in agent.detail:
            hint = "export SSL_CERT_FILE=/path/to/the/proxy.pem   # or add it to the system's certificates"
        problem = errors.error("agent-environment", agent.message, hint=hint)
        return Check("environment", problem=problem, detail=agent.detail)
    details = {} if isinstance(agent, AgentFailure) else agent.about()
    without_needs = "as configured" if python else "as it is: no file lists its requirements"
    texts = (
        details.get("python") and f"Python {details['python']}",
        details.get("framework_version")
        and f"{details.get('framework')} {details['framework_version']}",
        f"from {needs}" if needs else without_needs,
    )
    return Check("environment", ", ".join(filter(None, texts)))


def _start_problem(failure: AgentFailure, root: Path) -> Problem:
    """The cause and its line, with advice."""
    frames = _FRAME.findall(failure.detail.replace(f"{root}{os.sep}", ""))
    places = [Place(path, int(line)) for path, line in frames if not path.startswith(("/", "<"))]
    message = failure.message
    hint = ""
    if "there is no module named" in message:  # the worker advises
        message, _, hint = message.partition(". ")
    elif "DefaultCredentialsError" in message:
        hint = "gcloud auth application-default login"
    return errors.error("agent-start", message, places[-1] if places else None, hint)


# --- the machine, git, workflows ------------------------------------------------------------------


def _machine(settings: Settings, context: Context, project: Project) -> Iterator[Check]:
    """Checks of the judges' address, the base, writable folders, free space, and isolation."""
    judge = criteria_judges.defaults_of(settings)
    is_asked = judge.base_url and judge.client != "replay"
    if is_asked and criteria_judges.models_of(settings, project.suites):
        yield _connection("judge", judge.base_url, context.environ)
    yield _base(settings, context, project)
    for label, place in (("reports", settings.root / settings.output), ("cache", context.cache)):
        existing_folder = next(folder for folder in (place, *place.parents) if folder.exists())
        name = os.path.relpath(place) if place.is_relative_to(Path.cwd()) else str(place)
        if existing_folder.is_dir() and os.access(existing_folder, os.W_OK):
            yield Check(label, f"{name} is writable")
        else:
            hint = f"Choose another folder (`{'output' if label == 'reports' else 'cache'}`), or make it writable."
            problem = errors.error("not-writable", f"{name} cannot be written to", hint=hint)
            yield Check(label, problem=problem)
        if label == "cache":
            free_bytes = shutil.disk_usage(existing_folder).free
            message = f"{words.size(free_bytes)} free for environments"
            hint = f"Make room, or choose a cache on another disk (`--cache`): {words.size(LEAST_DISK_BYTES)} are safe."
            warning = errors.warning("disk-space", f"only {message}", hint=hint)
            yield Check("disk", message, warning if free_bytes < LEAST_DISK_BYTES else None)
    reason = isolation.refusal_reason()
    if context.opening.isolate:
        yield Check("isolation", "agents run as other users, apart from evalgate")
    elif context.workflow_run and reason:
        message = f"agents run with the rights of this step and can read what it can read: {reason}"
        hint = "Use the action, or a job that runs as root."
        yield Check("isolation", problem=errors.warning("not-isolated", message, hint=hint))
    else:
        possibility = f"not possible here: {reason}" if reason else "possible here: --isolate"
        text = f"agents run with your rights ({possibility}); the action keeps them apart"
        yield Check("isolation", text)


def _base(settings: Settings, context: Context, project: Project) -> Check:
    """Check that there is a base to compare with."""
    if settings.baseline == "none" or settings.baseline.startswith("file:"):
        return Check("base", f"`baseline: {settings.baseline}`")
    try:
        source = git.find_source(settings.root)
    except UnavailableError as error:
        return _no_base(error.message, "git init && git add --all && git commit")
    if not project.sound():
        return Check("base", "not checked: no evaluation file can be run")
    is_shallow = (source.common_dir / "shallow").is_file()
    silent_context = replace(context, audience=Audience())
    settings = settings.with_options(baseline="rerun")
    with baseline_base.open_bases(settings, project.sound(), silent_context) as (base, _):
        assert base is not None
    commit, notes = base.origin.commit, "; ".join(map(str, base.origin.notes))
    if not commit or notes:
        hint = "git fetch --unshallow   # in a workflow `fetch-depth: 0` at actions/checkout"
        return _no_base(notes or base.problem, hint if is_shallow else "")
    text = f"{commit[:7]} has nothing to compare with: {base.problem}"
    uses = [suite.agent for suite in project.suites if not settings.baseline_folder]
    labels = [
        agents.DRIVERS[use.driver].label(use.options) for use in uses if agents.is_remote(use)
    ]
    endpoint = Sentence("base_one_endpoint", labels[0]) if labels else ""
    if endpoint or (base.problem and not base.no_agent):
        hint = "" if endpoint else "Only thresholds decide until it is merged."
        return _no_base(endpoint or text, hint)
    is_named = settings.base or context.trigger.base
    note = "" if is_named else " (a run here compares with it only by --base)"
    return Check("base", text if base.problem else f"{commit[:7]}{note}")


def _no_base(message: Wording, hint: str) -> Check:
    """A warning, not an error: without a base the thresholds decide."""
    return Check("base", problem=errors.warning("base-unknown", message, hint=hint))


def _workflows(state: _DoctorState) -> Iterator[Check]:
    """The workflows that run evalgate: permissions, the token, and the variables of agents in
    them."""
    settings = state.project.settings
    steps = list(steps_of(top_of(settings.root)))
    if not steps:
        problem = errors.note(
            "workflow-missing", "no workflow runs evalgate yet", hint="evalgate init"
        )
        yield Check("workflow", problem=problem)
    keys = [] if settings.skip_judged else keys_of_judges(settings, state.project.suites)
    for step in steps:
        if isinstance(step, Problem):
            yield Check("workflow", problem=step)
            continue
        problems = [
            *problems_of_step(step),
            *unset_in_step(step, sorted(state.needed), settings, for_judges=keys),
        ]
        yield from (Check("workflow", problem=problem) for problem in problems)
        if not problems:
            place = f"{step.place.file}:{step.place.line}"
            yield Check("workflow", f"{place}: permissions and variables are set")


# --- keys and credentials of models
# -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its label, its result in words, or its problem."""

    label: str
    """At most eleven characters, as its column is that wide."""
    text: str = ""
    """Not shown beside a problem."""
    problem: Problem | None = None
    """Its severity decides the mark and the exit code; None if all is well."""
    detail: str = ""
    """Lines to show with a problem."""


def _models(surroundings: Surroundings, use: AgentUse, state: _DoctorState) -> Iterator[Check]:
    """Check that a loaded agent's models can be used: by a key, or through Vertex AI."""
    variables = AgentVariables.of(state.project.settings, state.context, state.judge_keys)
    passed_variables = variables.environment()
    present_names = surroundings.variables
    outside_variables = {**dotenv.of_agent(use, state.project.settings.root), **passed_variables}
    models_by_keys = grouped((keys_of(name), name) for name in surroundings.models)
    flag, *vertex_names = VERTEX
    for keys, names in models_by_keys.items():
        model_names = words.listed(names)
        if keys == GOOGLE_KEYS and flag in present_names:
            missing = [name for name in vertex_names if name not in present_names]
            state.needed |= {
                name for name in VERTEX if name not in present_names or name in outside_variables
            } | {CREDENTIALS}
            yield _model(
                f"{model_names} through Vertex AI",
                missing,
                "project and location are set",
                variables,
            )
            if not missing and (
                CREDENTIALS in passed_variables or CREDENTIALS not in present_names
            ):
                yield cloud_credentials(passed_variables)
        elif keys:
            key = next((key for key in keys if key in present_names), "")
            state.needed |= {key} & outside_variables.keys() if key else {keys[0]}
            yield _model(model_names, () if key else keys, f"{key} is set", variables)
        elif any(name.startswith("bedrock/") for name in names):
            yield aws_credentials(outside_variables)


def _model(model_names: str, missing: Sequence[str], text: str, variables: AgentVariables) -> Check:
    """An error if variables are missing, else the check with `text`."""
    if not missing:
        return Check("model", f"{model_names}: {text}")
    reason, _, hint = variables.why_lacking(missing).partition("; ")
    message = f"{model_names} cannot be asked: {reason}"
    return Check("model", problem=errors.error("model-key-missing", message, hint=hint))


def cloud_credentials(environ: Environ) -> Check:
    """Check that Google Cloud credentials are in a file. The credentials of a Google Cloud machine
    are not checked."""
    path = environ.get("GOOGLE_APPLICATION_CREDENTIALS", "").strip()
    file = Path(environ.get("HOME", ""), ".config/gcloud/application_default_credentials.json")
    source = "gcloud's application default"
    message = "no credentials of Google Cloud were found; machines of Google Cloud have their own"
    hint = "gcloud auth application-default login"
    if path:  # gcloud would not change what the variable names
        file = Path(path)
        source = "GOOGLE_APPLICATION_CREDENTIALS"
        message = f"{source} names a file that does not exist"
        hint = f"Correct its path, or unset {source}"
    if file.is_file():
        return Check("credentials", f"of Google Cloud: {source}")
    return Check("credentials", problem=errors.warning("cloud-credentials", message, hint=hint))


AWS_VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip
"""Variables that lead boto3 to credentials, in the order in which they are shown."""


def aws_credentials(environ: Environ) -> Check:
    """Check that boto3 finds credentials in a variable or a file. Those of a machine of AWS are not
    checked."""
    folder = Path(environ.get("HOME", ""), ".aws")
    sources = [name for name in AWS_VARIABLES if environ.get(name)]
    sources += [f"~/.aws/{name}" for name in ("credentials", "config") if (folder / name).is_file()]
    if sources:
        return Check("credentials", f"of AWS: {sources[0]}")
    message = "no credentials of AWS reach the agent; machines of AWS have their own"
    hint = "aws configure   # or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in a workflow with `env: AWS_*`"
    return Check("credentials", problem=errors.warning("cloud-credentials", message, hint=hint))


def keys_of(model: str) -> tuple[str, ...]:
    """The variables that may hold the key of a model; empty if it needs no key."""
    model_name = models.parse_name(model)
    if model_name.client == "gemini":
        return () if model_name.vertex else GOOGLE_KEYS
    endpoint = ENDPOINTS.get(model_name.provider)
    return () if endpoint is None or "localhost" in endpoint.base_url else (endpoint.key,)


def keys_of_judges(settings: Settings, suites: Sequence[Suite]) -> list[str]:
    """The variables with the keys of judges and of models that play users."""
    judge = settings.gate_file.judge
    if judge.api_key_env:
        return [judge.api_key_env] if judge.api_key_env.isidentifier() else []
    names = () if judge.client == "replay" else criteria_judges.models_of(settings, suites)
    return list(dict.fromkeys(key for name in names for key in keys_of(name)[:1]))


# --- the workflows that run evalgate: read, never run ---------------------------------------------


WORKFLOWS = ".github/workflows"
"""From the top of the repository."""
PLACEHOLDER = "OWNER"
"""The placeholder for the action's owner in our examples."""

CREDENTIALS = variables.CLOUD_FILE
"""The variable that names a file with credentials of Google Cloud."""
_SIGN_IN_ACTION = f"{variables.CLOUD_LOGIN}@"
"""The beginning of `uses` in a step that signs in to Google Cloud."""
SIGN_IN_VARIABLES = (CREDENTIALS, "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
"""The variables that this action sets for the later steps."""

VERTEX = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
"""Variables that google-genai needs for Vertex AI, besides credentials."""

_USES = re.compile(r"[^/\s]+/evalgate(/gate)?(@.*)?")
"""The action in a step's `uses`: any owner, the repository or its folder `gate`, any version."""


@frozen_dataclass
class GateStep:
    """A step of a workflow that uses the action."""

    place: Place
    """The line of its `uses`."""
    uses: str
    """As it is written, with owner and version."""
    events: frozenset[str]
    """The triggers of its workflow, without their filters."""
    inputs: Mapping[str, str]
    """Its `with`."""
    variables: frozenset[str]
    """Names that are set for it."""
    permissions: Mapping[str, str] | str | None
    """Of the job, else of the workflow; None if neither has any."""
    checkout: Json | None
    """The `with` of actions/checkout before it; None without a checkout."""

    @property
    def env(self) -> tuple[str, ...]:
        """The names in its input `env`."""
        return tuple(split_list(self.inputs.get("env", "")))

    @property
    def measures(self) -> bool:
        """True if it runs agents."""
        return self.inputs.get("mode", "run") == "run"


def steps_of(top: Path) -> Iterator[GateStep | Problem]:
    """The steps of all workflows below `top` that use the action, and an error for each unreadable
    workflow."""
    folder = top / WORKFLOWS
    for path in sorted([*folder.glob("*.yml"), *folder.glob("*.yaml")]):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if "evalgate" not in text:
            continue
        document = yaml.load(text, file=f"{WORKFLOWS}/{path.name}")
        if isinstance(document, Problem):
            yield document
        elif isinstance(document.raw, dict):
            yield from _steps(document.raw, document.places)


def _steps(workflow: Mapping[Any, Any], places: Locator) -> Iterator[GateStep]:
    """The gate's steps in a parsed workflow, each with the checkout and the sign-in before it in
    its job."""
    triggers = workflow.get("on", workflow.get(True))  # which YAML reads as true
    events = frozenset(
        str(trigger) for trigger in (triggers if isinstance(triggers, list | dict) else [triggers])
    )
    for name, job in _mapping(workflow.get("jobs")).items():
        checkout: Json | None = None
        sign_in_names: tuple[str, ...] = ()
        for index, step in enumerate(elements(job, "steps")):
            uses = str(_mapping(step).get("uses", ""))
            if uses.startswith("actions/checkout@"):
                checkout = _mapping(step.get("with"))
            elif uses.startswith(_SIGN_IN_ACTION):
                sign_in_names = SIGN_IN_VARIABLES
            if not _USES.fullmatch(uses):
                continue
            permissions = job.get("permissions", workflow.get("permissions"))
            names = (key for level in (workflow, job, step) for key in _mapping(level.get("env")))
            input_items = _mapping(step.get("with")).items()
            yield GateStep(
                place=places("jobs", name, "steps", index, "uses"),
                uses=uses,
                events=events,
                inputs={str(key): _value_text(setting) for key, setting in input_items},
                variables=frozenset((*sign_in_names, *map(str, names))),
                permissions=permissions if isinstance(permissions, str | dict) else None,
                checkout=checkout,
            )


def problems_of_step(step: GateStep) -> Iterator[Problem]:
    """The problems of a step's job and triggers, except variables."""
    if EventKind.PULL_REQUEST_TARGET in step.events:
        yield errors.error("workflow-event", forks.TARGET, step.place, forks.TARGET_HINT)
    if step.uses.startswith(f"{PLACEHOLDER}/"):
        message = f"`{step.uses}` names no owner yet: {PLACEHOLDER} stands for the publisher of the action"
        yield errors.warning(
            "workflow-owner", message, step.place, f"Write the publisher in place of {PLACEHOLDER}."
        )
    if missing_permissions := tuple(_missing(step)):
        permissions = ", ".join(
            f"`{name}: {right}` ({purpose})" for name, right, purpose in missing_permissions
        )
        lines = "\n".join(f"      {name}: {right}" for name, right, _ in missing_permissions)
        message = f"the job has no permission {permissions}"
        yield errors.warning(
            "workflow-permissions",
            message,
            step.place,
            f"Add to the job:\n    permissions:\n{lines}",
        )
    if not step.measures:
        return
    if step.checkout is None:
        message = "no step before it checks the repository out"
        yield errors.error("workflow-checkout", message, step.place, "- uses: actions/checkout@v5")
    elif _value_text(step.checkout.get("persist-credentials")) != "false":
        message = "actions/checkout leaves the job's token in git's configuration, where the job's other steps can read it"
        hint = "Set at actions/checkout:\n    with:\n      persist-credentials: false"
        yield errors.warning("token-in-checkout", message, step.place, hint)


def _missing(step: GateStep) -> Iterator[tuple[str, str, str]]:
    """The permissions that a job lacks: name, right and purpose."""
    permissions = [("contents", "read", "the checkout")] if step.measures else []
    if "shard" not in step.inputs and step.inputs.get("comment") != "off":
        permissions += [
            ("pull-requests", "write", "the comment"),
            ("checks", "write", "the check run"),
        ]
    job_permissions = step.permissions
    if job_permissions is None:  # the repository's setting decides, mostly read-only
        job_permissions = {"contents": "read"}
    for name, right, purpose in permissions:
        if isinstance(job_permissions, str):
            is_granted = job_permissions == "write-all" or (
                job_permissions == "read-all" and right == "read"
            )
        else:
            is_granted = job_permissions.get(name) in (right, "write")
        if not is_granted:
            yield name, right, purpose


def needs_naming(name: str) -> bool:
    """True if an agent in a workflow gets a variable only if `env` names it."""
    return not AgentVariables(environ={}).passes(name)


def unset_in_step(
    step: GateStep, needed: Sequence[str], settings: Settings, *, for_judges: Sequence[str] = ()
) -> Iterator[Problem]:
    """A warning if a step does not give agents or judges their variables."""
    if not step.measures or step.inputs.keys() & {"paths", "root", "agent"}:
        return  # the step runs a part of the repository, whose agents may differ
    passed_variables = AgentVariables(
        environ=dict.fromkeys(step.variables, "set"), names=step.env or settings.env
    ).environment()
    missing_names = _missing_names(needed, passed_variables.keys())
    unset_names = (name for name in step.env if name not in step.variables and "*" not in name)
    absent_names = dict.fromkeys([*missing_names, *unset_names])
    judge_names = _missing_names(
        [name for name in for_judges if name not in absent_names], step.variables
    )
    if judge_names:
        message = f"judges would not get {words.listed(judge_names, limit=20)}"
        hint = "\n".join(["At the step:", *_env(judge_names)])
        yield errors.warning("workflow-variable", message, step.place, hint)
    if not absent_names:
        return
    names = dict.fromkeys([*step.env, *(name for name in missing_names if needs_naming(name))])
    lines = ["At the step:", *(["    with:", f"      env: {', '.join(names)}"] if names else [])]
    lacking_names = [name for name in absent_names if name not in step.variables]
    lines += _env([name for name in lacking_names if name != CREDENTIALS])
    if CREDENTIALS in lacking_names:
        lines.append("Before it, sign in to Google Cloud: google-github-actions/auth")
    message = f"the agent would not get {words.listed(absent_names, limit=20)}"
    yield errors.warning("workflow-variable", message, step.place, "\n".join(lines))


def _missing_names(names: Iterable[str], present_names: Collection[str]) -> list[str]:
    """The names of missing variables; a Google variable is not missing if another one serves the
    same models."""
    google = {*GOOGLE_KEYS, VERTEX[0]}
    served_names = google if not google.isdisjoint(present_names) else set[str]()
    return [name for name in names if name not in {*present_names, *served_names}]


def _env(names: Sequence[str]) -> list[str]:
    """Lines that give a step these variables from secrets; none if there are no names."""
    lines = [f"      {name}: {variables.secret(name)}" for name in names]
    return ["    env:", *lines] if names else []


def _mapping(node: Any) -> Mapping[Any, Any]:
    """The node, or an empty mapping if it is anything else."""
    return node if isinstance(node, dict) else {}


def _value_text(node: Any) -> str:
    """A value as an action gets it: YAML's booleans are in lower case."""
    return str(node).lower() if isinstance(node, bool) else str(node)
