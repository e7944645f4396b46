"""All settings. The doors, evalgate.yml, action.yml and the docs are made from this table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SkipValidation,
)
from pydantic_core import PydanticCustomError

from evalgate import config
from evalgate.errors import Place, Problem
from evalgate.model.deviations import ADKS, OURS, Deviations
from . import Decider, Door, Heading, Trait
from .gate_file import LONGEST_S, GateFile, RuleShape
from .yaml import Locator


def split_list(value: Any) -> Any:
    """A list from `a, b` or from one item per line, because inputs of a workflow are strings. Lists
    of texts are split in the same way."""
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        value = ",".join(value)
    if not isinstance(value, str):
        return value
    separators = value.replace("\n", ",")
    return tuple(text.strip() for text in separators.split(",") if text.strip())


def split_lines(value: Any) -> Any:
    """A list with one item per line, for items that may contain commas."""
    if not isinstance(value, str):
        return value
    return tuple(line.strip() for line in value.splitlines() if line.strip())


Listed = Annotated[tuple[str, ...], BeforeValidator(split_list)]
Lines = Annotated[tuple[str, ...], BeforeValidator(split_lines)]


class AgentBudget(RuleShape):
    """Limits on the runs of agents, both sides together; None: no limit."""

    agent_calls: int | None = Field(default=None, ge=1, description="Runs of a case.")
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value:g}" for name, value in self if value is not None)


def split_pairs(value: Any) -> Any:
    """A budget from `usd=2, tokens=100000` (or with colons, one per line)."""
    if isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        return value
    pairs = {}
    for pair in split_list(value):
        name, equals, amount = pair.replace(":", "=", 1).partition("=")
        if not equals:
            reason = "limits need names: `agent_calls`, `tokens` and `usd`, as in `agent_calls=200, usd=2`"
            raise PydanticCustomError("budget", "{reason}", {"reason": reason})
        pairs[name.strip().replace("-", "_")] = amount.strip().lstrip("$").replace("_", "")
    return pairs


def first_runs(value: Any) -> Any:
    """The number of runs. The former form, which also had a number of further runs, is an error
    that quotes the line to write."""
    count = value
    if isinstance(value, Mapping):
        count = value.get("start", 1)
    elif isinstance(value, str) and "+" in value:
        count = value.partition("+")[0].strip()
    if count is not value:
        reason = (
            f"has one number now, what fails is rerun by itself: write `runs: {str(count)[:10]}`"
        )
        raise PydanticCustomError("runs", "{reason}", {"reason": reason})
    return str(value) if isinstance(value, bool) else value


Bounded = Annotated[AgentBudget, BeforeValidator(split_pairs)]
Repeated = Annotated[int, BeforeValidator(first_runs)]

Blocking = Annotated[
    tuple[Literal["threshold", "regression", "not_measured", "inconclusive"], ...],
    BeforeValidator(split_list),
]

# `base` was the name of an earlier rule
Ruling = Annotated[
    Literal["head", "both"], BeforeValidator(lambda value: "both" if value == "base" else value)
]

# in YAML `off` is a boolean
Commenting = Annotated[
    Literal["always", "changes", "failures", "off"],
    BeforeValidator(lambda value: "off" if value is False else value),
]

MOST_DAYS = 100_000
"""Of an age: dates can count with it."""

SHARD = r"^([1-9]\d{0,2}/[1-9]\d{0,2})?$"

TERMINAL = Door.CLI
WORKFLOW = Door.ACTION
STARTER = TERMINAL | WORKFLOW
SETTING = TERMINAL | Door.FILE
INPUT = STARTER | Door.FILE
"""Ways to set a setting. An input of the action is for values that differ between workflows, jobs
or events."""
SELECTING, RUNNING, COMPARING, FAILING, SHOWING = Heading
DOOR, BASE, EITHER, HEAD = Decider
NONE = Trait.NONE
AGENT, MEASUREMENT, PATH, MACHINE = Trait

Value = TypeVar("Value")
Limit = Annotated[Value, SETTING, RUNNING, HEAD, AGENT]
Rule = Annotated[Value, SETTING, FAILING, HEAD, NONE]
Step = Annotated[Value, WORKFLOW, DOOR, NONE]


class Settings(BaseModel):
    """Settings of a person, a workflow or evalgate.yml. The first line of a description is a
    complete sentence, which messages quote. action.yml, docs/settings.md and `--help` show the
    whole description.

    Times are seconds, sizes megabytes (10**6 bytes), shares 0..1.

    Fields without a description are not settings; `load` adds them: evalgate.yml's own sections,
    the `places` in it and its `problems`, and the raw values from the door (`explicit_options`),
    which also apply to the base. `root` is then absolute."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    gate_file: GateFile = GateFile()
    problems: SkipValidation[tuple[Problem, ...]] = ()
    explicit_options: Mapping[str, Any] = Field(default_factory=dict)
    places: SkipValidation[Locator | None] = None

    paths: Annotated[Lines, STARTER, SELECTING, EITHER, NONE] = Field(
        default=(),
        description="What to evaluate: files, folders or globs, one per line.\n"
        "`file.evalset.json:case_1,case_2` picks cases. Default: all evaluation files.",
    )
    grep: Annotated[str, TERMINAL, SELECTING, EITHER, NONE] = Field(
        default="",
        description="Run only cases whose id or first user text matches this regular expression.",
    )
    root: Annotated[Path, STARTER, SELECTING, DOOR, MACHINE] = Field(
        default=Path(),
        description="The repository, or a folder in it to treat as one.\n"
        "`output` and other paths are relative to it (docs/settings.md).",
    )
    config: Annotated[str, STARTER, SELECTING, EITHER, PATH] = Field(
        default="",
        description="Path to evalgate.yml.\nDefault: evalgate.yml or .github/evalgate.yml, if there is one.",
    )
    criteria: Annotated[str, SETTING, SELECTING, EITHER, MEASUREMENT | PATH] = Field(
        default="",
        description="A test_config.json for all evaluation files. Default: the nearest one of each file.",
    )
    agent: Annotated[str, INPUT, SELECTING, HEAD, AGENT] = Field(
        default="",
        description="The agent: a folder, or `python:`, `command:`, `http:`, `replay:`.\n"
        "For all suites: a folder with an ADK agent, or `adk:FOLDER`, `python:module:function`, "
        "`python:FOLDER/module:function`, `command:COMMAND`, `http:URL`, `replay:PATH`. Default: found for each suite.",
    )
    runs: Annotated[Repeated, INPUT, RUNNING, HEAD, NONE] = Field(
        default=1,
        ge=1,
        le=1000,
        description="Number of runs per case.\nWhat fails is rerun by itself, on both sides (docs/statistics.md).",
    )
    budget: Annotated[Bounded, INPUT, RUNNING, BASE, NONE] = Field(
        default=AgentBudget(),
        description="Limit on what agents spend: `agent_calls=200, usd=2`.\n"
        "Limits are `agent_calls`, `tokens` and `usd`, for both sides together; one run of a case is one call. Once a "
        "case fails, first runs leave room to confirm it. A run that exceeds its budget stops and is inconclusive.",
    )
    baseline: Annotated[str, INPUT, COMPARING, BASE, NONE] = Field(
        default="auto",
        pattern=r"^(auto|rerun|store|none|file:.+)$",
        description="What to compare with: `auto`, `rerun`, `store`, `file:PATH`, `none`.\n"
        "`rerun`: run the base branch's agent alongside this one. `store`: results of "
        "earlier runs. `auto`: stored results if they are comparable, else a rerun. "
        "`file:PATH`: a results.json. `none`: no comparison.",
    )
    base: Annotated[str, STARTER, COMPARING, DOOR, NONE] = Field(
        default="",
        description="The commit or branch to compare with.\n"
        "Default: the base of the pull request, of the merge group or of the push; on the command line, none.",
    )
    baseline_folder: Annotated[str, SETTING, COMPARING, DOOR, PATH] = Field(
        default="",
        description="A folder below `root` that keeps results of runs on the base branch; persist it with "
        "actions/cache.",
    )
    max_baseline_age: Annotated[float, SETTING, COMPARING, BASE, NONE] = Field(
        default=14,
        gt=0,
        le=MOST_DAYS,
        description="Age in days from which the comment says that stored results are old.",
    )
    reuse_days: Annotated[float, SETTING, COMPARING, DOOR, NONE] = Field(
        default=7,
        ge=0,
        le=MOST_DAYS,
        description="Days for which results are reused if the agent's inputs and environment have not changed. 0: always run it.",
    )
    depends_on: Annotated[Listed, SETTING, COMPARING, DOOR, NONE] = Field(
        default=(),
        description="Globs of the files that an agent depends on, if its reads cannot be traced (no inotify).\n"
        "Default: the whole checkout. Results of an agent behind a URL are reused only with globs.",
    )
    save_baseline: Annotated[
        Literal["auto", "always", "never"], TERMINAL, COMPARING, DOOR, NONE
    ] = Field(
        default="auto",
        description="Store this run as a baseline in `baseline-folder`. `auto`: on a push to the "
        "default branch; workflows always use it.",
        # a change must not become a baseline for others by itself
    )
    seed: Annotated[int, SETTING, RUNNING, HEAD, AGENT] = Field(
        default=0,
        ge=0,
        description="Random seed, passed to the agent where its driver supports one.",
    )
    concurrency: Limit[int] = Field(
        default=8,
        ge=1,
        le=1024,
        description="Maximum number of conversations at the same time, over all agents.",
    )
    workers: Limit[int] = Field(
        default=2, ge=1, le=256, description="Maximum number of processes per agent."
    )
    isolation: Limit[Literal["worker", "case"]] = Field(
        default="worker",
        description="`worker`: one process runs many cases, each in its own session; `case`: a new process for "
        "every run of a case.",
    )
    turn_timeout: Limit[float] = Field(
        default=300, gt=0, le=LONGEST_S, description="Maximum seconds per turn."
    )
    case_timeout: Limit[float] = Field(
        default=1800,
        gt=0,
        le=LONGEST_S,
        description="Maximum seconds of the agent's time per case.",
    )
    start_timeout: Limit[float] = Field(
        default=300, gt=0, le=LONGEST_S, description="Maximum seconds for an agent to start."
    )
    memory: Limit[int] = Field(
        default=0,
        ge=0,
        le=10**9,
        description="Memory limit of one agent process, in MB; 0: no limit.",
    )
    max_output: Limit[int] = Field(
        default=16, ge=1, description="Maximum agent output per turn, in MB."
    )
    retries: Limit[int] = Field(
        default=2,
        ge=0,
        le=10,
        description="Maximum number of retries after a rate limit, a 5xx or a lost connection; a wrong answer is never "
        "retried.",
    )
    env: Annotated[Listed, INPUT, SELECTING, DOOR, AGENT] = Field(
        default=(),
        description="Environment variables that the agent needs, besides keys and settings of models.\n"
        "Names or globs: `DATABASE_URL, AWS_*`. In addition, the agent gets only harmless ones (PATH, HOME, language, "
        "proxy, certificates); at a terminal, if none is named, all of yours (docs/action.md).",
    )
    python: Annotated[str, INPUT, SELECTING, HEAD, AGENT] = Field(
        default="auto",
        coerce_numbers_to_str=True,
        description="The agent's Python: a path, a version (`3.12`) or `auto`.\n"
        "`auto`: a virtual environment made from the agent's lock file, pyproject.toml or requirements.txt, with a "
        "Python that fits them, else the Python on PATH.",
    )
    requirements: Annotated[Lines, SETTING, SELECTING, HEAD, AGENT] = Field(
        default=(),
        description="What to install for the agent: requirements files or specifiers, one per line.",
    )
    tools: Annotated[
        Literal["", "live", "record", "replay", "mock"], TERMINAL, SELECTING, HEAD, AGENT
    ] = Field(
        default="",
        description="Where tool responses come from: `live` (tools run), `record` (tools run, and their responses are "
        "recorded in cassettes), `replay` (from cassettes; no tool runs), `mock` (from rules). Default: "
        "`tools` of evalgate.yml, else `live`.",
    )
    on_platform: Annotated[bool, STARTER, RUNNING, DOOR, AGENT] = Field(
        default=False,
        description="Let the agent's platform run and judge its evaluations.\n"
        "For the driver `ces` (docs/ces.md). Its outcomes decide; evalgate's own criteria are informational.",
    )
    trace: Annotated[bool, TERMINAL, RUNNING, DOOR, AGENT] = Field(
        default=False,
        description="Record model requests and responses, events and tool calls of ADK agents, for report.html.\n"
        "Takes time and disk space (docs/reports.md#traces).",
    )
    fail_on: Annotated[Blocking, INPUT, FAILING, BASE, NONE] = Field(
        default=("threshold", "regression", "not_measured"),
        description="What fails the job; `inconclusive` can be added.\n"
        "`threshold`: cases below their thresholds. `regression`: worse than the base. `not_measured`: something could "
        "not be evaluated. `inconclusive`: not enough data to decide.",
    )
    threshold: Annotated[Literal["confirmed", "new", "all"], INPUT, FAILING, HEAD, NONE] = Field(
        default="confirmed",
        description="Which failed cases fail the gate: `confirmed`, `new` or `all`.\n"
        "`confirmed`: those that reruns confirm; a flaky case is shown and does not block. `new`: of these, none that "
        "fails on the base too. `all`: every one, after its first runs (the default with `adk-compat`).",
    )
    alpha: Rule[float] = Field(
        default=0.05,
        gt=0,
        lt=0.5,
        description="How often a change that does nothing may be called worse; 1 / alpha is the evidence that blocks.",
    )
    max_drop: Rule[float] = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Largest drop in a criterion's mean that is tolerated, on its scale; for tokens, calls and seconds "
        "a share of the base's mean.",
    )
    policy: Annotated[Ruling, INPUT, COMPARING, BASE, NONE] = Field(
        default="head",
        description="Whose rules decide: the change's (`head`) or the worse of `both`.\n"
        "Rules are thresholds and criteria. The base branch's are always applied; a pass by the "
        "change's alone is reported first. `base`, "
        "the former name, means `both`.",
    )
    pass_rate: Annotated[float, INPUT, FAILING, HEAD, NONE] = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Share of a suite's measured cases that must pass.\n1.0, as in ADK: all of them.",
    )
    min_measured: Rule[float] = Field(
        default=1.0, ge=0, le=1, description="Share of a suite's cases that must be measured."
    )
    adk_compat: Annotated[bool, SETTING, FAILING, HEAD, AGENT | MEASUREMENT] = Field(
        default=False,
        description="Use ADK's arithmetic even where ADK is wrong (docs/adk-parity.md); may give false passes.",
    )
    skip_judged: Annotated[bool, INPUT, FAILING, BASE, NONE] = Field(
        default=False,
        description="Skip criteria that need an LLM judge.\nThey are reported as not measured.",
    )
    name: Annotated[str, INPUT, SHOWING, HEAD, NONE] = Field(
        default="",
        max_length=60,
        description="Name of this gate, if a pull request has several.\nShown in the comment and the check run.",
    )
    comment: Annotated[Commenting, WORKFLOW | Door.FILE, DOOR, NONE] = Field(
        default="always",
        description="When to comment: `always`, `changes`, `failures`, `off`.\n"
        "`changes`: if a case failed, was fixed, got much worse or could not be measured, or a rule was relaxed. "
        "An existing comment is updated too, except with `off`.",
    )
    check_run: Annotated[bool, Door.FILE, DOOR, NONE] = Field(
        default=True,
        description="Also report as a check run named `evalgate`. Needs `checks: write`; skipped without it.",
    )
    shard: Annotated[str, STARTER, SELECTING, DOOR, NONE] = Field(
        default="",
        pattern=SHARD,
        description="Run one shard of the cases: `2/8`.\n"
        "Shards report no verdict; merge them with `evalgate merge` (in a workflow: `mode: merge`).",
    )
    durations: Annotated[str, SETTING, SELECTING, HEAD, PATH] = Field(
        default="",
        description="Timings of an earlier run, used to balance shards: a results.json or durations.json, the same for "
        "all shards. Default: the file of `baseline: file:PATH`, else all cases count as equally long.",
    )
    mode: Step[Literal["run", "merge", "post"]] = Field(
        default="run",
        description="`run` the gate, `merge` shards, or `post` a fork's results.\n"
        "`merge` joins the `results` of all shards and reports the verdict; `post`, in a workflow on `workflow_run`, "
        "posts the results of a run on a fork's pull request (docs/forks.md).",
    )
    results: Step[Lines] = Field(
        default=(),
        description="With `mode: merge`: files or folders with results.json, one per line.\n"
        "Paths are relative to the workspace; folders are searched.",
    )
    artifact: Step[str] = Field(
        default="evalgate",
        min_length=1,
        max_length=200,
        description="With `mode: post`: name of the artifact with the run's report folder.",
    )
    strict: Annotated[bool, SETTING, SELECTING, EITHER, NONE] = Field(
        default=False, description="Treat warnings about evaluation files as errors."
    )
    output: Annotated[str, INPUT, SHOWING, DOOR, PATH | MACHINE] = Field(
        default="evalgate-report",
        description="Folder for reports and results.\nRelative to `root`; it also holds the journal (for `--resume`).",
    )
    cache: Annotated[str, STARTER, SHOWING, DOOR, MACHINE] = Field(
        default="",
        description="Folder for caches; `gate` keeps it, else persist it with actions/cache.\n"
        "Holds the agents' environments and the judges' replies. Default: the user's cache folder; in the action "
        "`gate` `.cache/evalgate`.",
    )
    isolate: Annotated[bool, TERMINAL, RUNNING, DOOR, AGENT | MACHINE] = Field(
        default=False,
        description="Keep the agent's code apart: it sees a copy of the checkout and no other files of yours "
        "(docs/security.md). Takes bubblewrap, or root. In a workflow it is the default "
        "if it is possible; the action always does it.",
    )
    needs_evaluation_files: Annotated[bool, Door.FILE, BASE, AGENT] = Field(
        default=False,
        description="Give the isolated agent evaluation files, criteria, evalgate.yml and recordings as well.\n"
        "For an agent that does not start without them: it can read the answers that are expected of it, "
        "which the comment says.",
    )
    confirm: Annotated[bool, TERMINAL, FAILING, DOOR, MACHINE] = Field(
        default=False,
        description="Rerun failed cases also without a base, to see if the failures last. Workflows always do.",
    )
    resume: Annotated[bool, TERMINAL, RUNNING, DOOR, MACHINE] = Field(
        default=False,
        description="Continue an interrupted run: completed runs in its journal are not repeated.",
    )
    fresh: Annotated[bool, TERMINAL, RUNNING, DOOR, MACHINE] = Field(
        default=False,
        description="Run the agent again: no earlier run is used. A judge's verdict on the same text still is.",
    )
    debug: Annotated[bool, TERMINAL, SHOWING, DOOR, MACHINE] = Field(
        default=False, description="Show the traceback of an error."
    )

    @property
    def deviations(self) -> Deviations:
        """The rules for scoring, simulation and verdicts."""
        return ADKS if self.adk_compat else OURS

    def with_options(self, **values: object) -> Settings:
        """The settings with these values, as if the door had set them: they apply to the base,
        too."""
        options = {**self.explicit_options, **values}
        return self.model_copy(update={**values, "explicit_options": options})

    def locate(self, *path: str | int) -> Place:
        """The place of a part of evalgate.yml, or of its nearest parent there."""
        return Place("evalgate.yml") if self.places is None else self.places(*path)

    def place_of(self, name: str, *path: str | int) -> Place | None:
        """A setting's place in evalgate.yml, in any spelling; None if it is not set there."""
        if self.places is None:
            return None
        places = (self.places(spelling, *path) for spelling in (name, name.replace("_", "-")))
        return next((place for place in places if place.json_path != "$"), None)


REMOVED: Mapping[str, str] = {
    "data_branch": "Write `baseline-folder: .cache/evalgate/base` instead, which the action `gate` keeps.",
    "burn_in": "Delete the line: a new case that fails is rerun like any other.",
    "deterministic": "Write `threshold: all` instead: every failure counts, and nothing is rerun.",
}
"""Removed settings, and what to write instead."""

NAMES = tuple(config.rows(Settings))
OF_AGENTS = {*config.names_with(Settings, AGENT)} - {"agent"}
"""Settings that may change an agent's behavior. `agent` is not among them: an agent's own options
identify it."""


def of_agents(settings: Settings) -> Mapping[str, object]:
    """The values of settings that may change an agent's behavior."""
    values = settings.model_dump(mode="json", include=OF_AGENTS)
    return {**values, "tools_of_file": settings.gate_file.tools.model_dump(mode="json")}


def input_name(name: str) -> str:
    """A setting's name in a workflow and on the command line: `fail_on` -> `fail-on`."""
    return name.replace("_", "-")
