"""What an agent needs from its surroundings: variables, keys of models, credentials, here and in a workflow."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalgate import errors
from evalgate.config import variables
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.config.variables import AgentVariables
from evalgate.criteria import judges as criteria_judges
from evalgate.discovery import agent_source
from evalgate.discovery.agent_source import AgentSource, NamedModel, Need, Read
from evalgate.errors import Problem
from evalgate.github import workflows
from evalgate.github.workflows import GateStep
from evalgate.model import AgentFailure, Suite
from evalgate.system import redact
from evalgate.text import words

LARGEST_SOURCE_BYTES = 4 * 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at: what it is called, what is known, or the problem. `detail`: lines to be shown with
    a problem."""

    label: str
    text: str = ""
    problem: Problem | None = None
    detail: str = ""


def reader(root: Path) -> agent_source.ReadText:
    """Reads files below the root; links that lead out of it are not followed."""
    root = root.resolve()

    def read(path: str) -> str | None:
        try:
            file = (root / path).resolve()
            if not file.is_file() or file.stat().st_size > LARGEST_SOURCE_BYTES or not file.is_relative_to(root):
                return None
            return file.read_text(encoding="utf-8", errors="replace")
        except (OSError, RuntimeError, ValueError):
            return None

    return read


class Surroundings:
    """The variables that an agent's source reads, beside what reaches it here."""

    def __init__(self, source: AgentSource, settings: Settings, context: Context, judge_keys: frozenset[str]) -> None:
        self._source = source
        self._settings = settings
        self._environ = context.environ
        self._in_workflow = bool(context.workflow_run)
        self._variables = AgentVariables.of(settings, context, judge_keys)
        self._passed = self._variables.environment()
        self._reads = [each for each in source.reads if each.need is not Need.OPTIONAL and each.name not in source.sets]
        self._missing: list[str] = []

    def checks(self, failure: AgentFailure | None) -> list[Check]:
        """First what models need, then what source reads without a default. `failure`: why the agent cannot be loaded,
        which a variable may explain."""
        found = list(self._models())
        told = set(self._missing)
        reads = [each for each in self._reads if each.name not in told]
        if there := [each.name for each in reads if self._has(each.name)]:
            by = [f"{name} (in {self._source.dotenv})" if self._is_in_file(name) else name for name in there]
            found.append(Check(label="variables", text=f"{words.listed(by, limit=20)}: set"))
        missing = [each for each in reads if not self._has(each.name)]
        self._missing += [each.name for each in missing]
        for each in (each for each in missing if each.need is Need.REQUIRED):
            stops = failure is not None and each.name in failure.message
            message = f"{each}, without which the source raises KeyError: {self._state(each.name)}"
            told_as = errors.error if stops else errors.warning
            found.append(Check(label="variables", problem=told_as("variable-missing", message)))
        wanted: dict[str, list[Read]] = {}
        for each in (each for each in missing if each.need is Need.WANTED):
            wanted.setdefault(self._state(each.name), []).append(each)
        for state, those in wanted.items():
            message = f"{words.listed(map(str, those), limit=20)}, read without a default: {state}"
            found.append(Check(label="variables", problem=errors.warning("variable-missing", message)))
        return self._mended(found)

    def _passes(self, name: str) -> bool:
        """Whether setting it is enough."""
        return self._variables.passes(name)

    def _models(self) -> Iterator[Check]:
        by_keys: dict[tuple[str, ...], list[NamedModel]] = {}
        for model in self._source.models:
            by_keys.setdefault(model.keys, []).append(model)
        for keys, named in by_keys.items():
            shown = f"{words.listed(each.name for each in named)} ({named[0].file}:{named[0].line})"
            if named[0].is_google and self._source.uses_vertex(self._passed):
                yield from self._vertex(shown, by="")
                continue
            if not keys or (self._source.has_own_key and not named[0].is_google):
                continue
            has = [key for key in keys if self._has(key)]
            if has or not self._source.sets.keys().isdisjoint(keys):
                where = f" in {self._source.dotenv}" if has and self._is_in_file(has[0]) else ""
                yield Check(label="model", text=f"{shown}: {has[0] if has else 'its key'} is set{where}")
            elif named[0].is_google and self._source.suggests_vertex and not any(map(self._environ.get, keys)):
                yield from self._vertex(shown, by=f" (as {self._source.example} has it)")
            else:
                self._missing.append(keys[0])
                message = f"no key for {shown}; {keys[0]}: {self._state(keys[0])}"
                yield Check(label="model", problem=errors.error("model-key-missing", message))

    def _vertex(self, shown: str, *, by: str) -> Iterator[Check]:
        missing = [name for name in agent_source.VERTEX if not self._has(name) and name not in self._source.sets]
        if missing:
            self._missing += missing
            message = f"{shown} by way of Vertex AI{by} needs {words.listed(missing)}: {self._state(missing[0])}"
            yield Check(label="model", problem=errors.error("model-key-missing", message))
            return
        yield Check(label="model", text=f"{shown} by way of Vertex AI: project and location are set")
        yield cloud_credentials({**self._source.values, **self._passed})

    def _has(self, name: str) -> bool:
        return bool(self._passed.get(name, "").strip()) or self._is_in_file(name)

    def _is_in_file(self, name: str) -> bool:
        return name not in self._passed and bool(self._source.values.get(name))

    def _state(self, name: str) -> str:
        """Why a variable does not reach the agent, in words that follow its name."""
        if not can_pass(name):
            return self._variables.why_absent(name)
        if self._environ.get(name, "").strip():
            return "set here, but `env` does not name it"
        return "empty here" if name in self._environ else "not set here"

    def _mended(self, found: list[Check]) -> list[Check]:
        """The checks with the lines that set what each misses; the last of them lets all through, where that takes a
        setting."""
        unnamed = [name for name in self._missing if not self._passes(name) and can_pass(name)]
        told = [
            each for each in found if each.problem and each.problem.code in ("model-key-missing", "variable-missing")
        ]
        for each in told:
            assert each.problem is not None
            names = [name for name in self._missing if re.search(rf"\b{name}\b", each.problem.message)]
            lines = [self._line(name) for name in names if can_pass(name) and not self._environ.get(name)]
            if unnamed and (each is told[-1] or not lines):
                listed = ", ".join([*self._settings.env, *unnamed])
                lines.append(f"env: {listed}   # in evalgate.yml")
            mended = dataclasses.replace(each, problem=dataclasses.replace(each.problem, hint="\n".join(lines)))
            found[found.index(each)] = mended
        return found

    def _line(self, name: str) -> str:
        if self._in_workflow:
            return f"{name}: {variables.secret(name)}   # below `env:` of the step"
        sample = self._source.samples.get(name, "")
        return f"export {name}={sample if is_sample(name, sample) else '...'}"


def needs_naming(name: str) -> bool:
    """Whether an agent in a workflow gets a variable only where `env` names it."""
    return not AgentVariables(environ={}).passes(name)


def can_pass(name: str) -> bool:
    """Whether any setting lets a variable through to an agent; those of the workflow and of installers never are."""
    return AgentVariables(environ={}, names=[name]).passes(name)


def is_sample(name: str, value: str) -> bool:
    """Whether a value of a `.env.example` can be used as it stands: neither a secret nor a place to fill in."""
    is_plain = re.fullmatch(r"[\w.:/@,+-]+", value) is not None
    is_blank = re.search(r"your|here|xxx|change|replace|todo|\.\.\.", value, re.IGNORECASE) is not None
    return is_plain and not is_blank and not redact.is_named(name)


def cloud_credentials(environ: Mapping[str, str]) -> Check:
    """Whether credentials of Google Cloud are in a file; a machine of Google Cloud has others, which are not asked."""
    named = environ.get("GOOGLE_APPLICATION_CREDENTIALS", "").strip()
    home = environ.get("HOME", "")
    file = Path(named) if named else Path(home, ".config", "gcloud", "application_default_credentials.json")
    if file.is_file():
        by = "GOOGLE_APPLICATION_CREDENTIALS" if named else "gcloud's application default"
        return Check(label="credentials", text=f"of Google Cloud: {by}")
    message = (
        "GOOGLE_APPLICATION_CREDENTIALS names a file that does not exist"
        if named
        else "no credentials of Google Cloud were found; only a machine of Google Cloud has them anyway"
    )
    hint = "gcloud auth application-default login"
    return Check(label="credentials", problem=errors.warning("cloud-credentials", message, hint=hint))


def needed_in_workflow(source: AgentSource) -> list[str]:
    """The variables that a workflow should give an agent: what its models are asked with, and what its source reads
    without a default."""
    names = [each.name for each in source.reads if each.need is not Need.OPTIONAL and each.name not in source.sets]
    if source.logs_in:
        names.append(workflows.CREDENTIALS)
    for model in source.models:
        if model.is_google and (source.uses_vertex({}) or source.suggests_vertex):
            names += (*agent_source.VERTEX, workflows.CREDENTIALS)
        elif not source.has_own_key or model.is_google:
            names += model.keys[:1]
    always = {name for name in names if variables.matches(name, variables.HARMLESS)}
    wanted = [name for name in dict.fromkeys(names) if name not in always and can_pass(name)]
    return [name for name in wanted if name not in source.sets]


def keys_of_judges(settings: Settings, suites: Sequence[Suite]) -> list[str]:
    """The variables with the keys that judges, and models that play users, are asked with."""
    own_key = settings.gate_file.judge.api_key_env
    if own_key:
        return [own_key] if own_key.isidentifier() else []
    names = () if settings.gate_file.judge.client == "replay" else criteria_judges.models_of(settings, suites)
    named = (NamedModel(name=name, file="", line=0) for name in names)
    return list(dict.fromkeys(key for model in named for key in model.keys[:1]))


def unset_in_workflow(
    step: GateStep, needed: Sequence[str], settings: Settings, *, for_judges: Sequence[str] = ()
) -> Iterator[Problem]:
    """A warning where a step does not give agents, or judges, what they need."""
    if not step.measures or step.inputs.keys() & {"paths", "root", "agent"}:
        return  # a part of the repository, whose agents may be others
    set_here = dict.fromkeys(step.variables, "set")
    passed = AgentVariables(environ=set_here, names=step.env or settings.env).environment()
    google = {"GOOGLE_API_KEY", "GEMINI_API_KEY", agent_source.VERTEX[0]}
    missing = [each for each in needed if each not in passed and not (each in google and google & passed.keys())]
    unset = [name for name in step.env if name not in step.variables and "*" not in name]
    absent = list(dict.fromkeys([*missing, *unset]))
    judges = [name for name in for_judges if name not in (*absent, *step.variables)]
    judges = [name for name in judges if not (name in google and google & step.variables)]
    if judges:
        lines = ["At the step:", "    env:", *(f"      {name}: {variables.secret(name)}" for name in judges)]
        message = f"judges would not get {words.listed(judges, limit=20)}"
        yield errors.warning("workflow-variable", message, step.place, "\n".join(lines))
    if not absent:
        return
    named = dict.fromkeys([*step.env, *(name for name in missing if needs_naming(name))])
    lines = ["At the step:", *(["    with:", f"      env: {', '.join(named)}"] if named else [])]
    secrets = [name for name in absent if name not in step.variables and name != workflows.CREDENTIALS]
    lines += ["    env:"] if secrets else []
    lines += [f"      {name}: {variables.secret(name)}" for name in secrets]
    if workflows.CREDENTIALS in absent and workflows.CREDENTIALS not in step.variables:
        lines.append("Before it, sign in to Google Cloud: google-github-actions/auth")
    message = f"the agent would not get {words.listed(absent, limit=20)}"
    yield errors.warning("workflow-variable", message, step.place, "\n".join(lines))
