"""The workflows of a repository that run evalgate, and their problems: read, never run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from evalgate import errors
from evalgate.config import variables, yaml
from evalgate.config.settings import Settings, split_list
from evalgate.config.variables import AgentVariables
from evalgate.config.yaml import Locator
from evalgate.errors import Place, Problem
from evalgate.github.events import EventKind
from evalgate.github.forks import TARGET, TARGET_HINT
from evalgate.judges.clients import GOOGLE_KEYS
from evalgate.text import words
from evalgate.values import Json, elements, frozen_dataclass

FOLDER = ".github/workflows"
PLACEHOLDER = "OWNER"
"""The placeholder for the action's owner in our examples."""

CREDENTIALS = variables.CLOUD_FILE
_SIGN_IN_ACTION = f"{variables.CLOUD_LOGIN}@"
SIGN_IN_VARIABLES = (CREDENTIALS, "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
"""The variables that this action sets for the later steps."""

VERTEX = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
"""Variables that google-genai needs for Vertex AI, besides credentials."""

_USES = re.compile(r"[^/\s]+/evalgate(/gate)?(@.*)?")


@frozen_dataclass
class GateStep:
    """A step that uses the action.

    `inputs`: its `with`; `variables`: names that are set for it; `permissions`: of the job, else of
    the workflow, None if neither has any; `checkout`: the `with` of actions/checkout before it,
    None without a checkout."""

    place: Place
    uses: str
    events: frozenset[str] = frozenset()
    inputs: Mapping[str, str] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()
    permissions: Mapping[str, str] | str | None = None
    checkout: Json | None = None

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
    folder = top / FOLDER
    for path in sorted([*folder.glob("*.yml"), *folder.glob("*.yaml")]):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if "evalgate" not in text:
            continue
        document = yaml.load(text, file=f"{FOLDER}/{path.name}")
        if isinstance(document, Problem):
            yield document
        elif isinstance(document.raw, dict):
            yield from _steps(document.raw, document.places)


def _steps(workflow: Mapping[Any, Any], places: Locator) -> Iterator[GateStep]:
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
            yield GateStep(
                place=places("jobs", name, "steps", index, "uses"),
                uses=uses,
                events=events,
                inputs={
                    str(key): _value_text(setting)
                    for key, setting in _mapping(step.get("with")).items()
                },
                variables=frozenset((*sign_in_names, *map(str, names))),
                permissions=permissions if isinstance(permissions, str | dict) else None,
                checkout=checkout,
            )


def problems(step: GateStep) -> Iterator[Problem]:
    """The problems of a step's job and triggers, except variables."""
    if EventKind.PULL_REQUEST_TARGET in step.events:
        yield errors.error("workflow-event", TARGET, step.place, TARGET_HINT)
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


def unset(
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
    lines = [f"      {name}: {variables.secret(name)}" for name in names]
    return ["    env:", *lines] if names else []


def _mapping(node: Any) -> Mapping[Any, Any]:
    return node if isinstance(node, dict) else {}


def _value_text(node: Any) -> str:
    return str(node).lower() if isinstance(node, bool) else str(node)
