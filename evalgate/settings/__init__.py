"""Every setting there is, once: the two doors, evalgate.yml, action.yml and the docs are all made from this table."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from evalgate.settings.values import AgentBudget, Bounded, Lines, Listed, Repeated, Runs, split_list

Blocking = Annotated[
    tuple[Literal["threshold", "regression", "not_measured", "inconclusive"], ...], BeforeValidator(split_list)
]

SHARD = r"^([1-9]\d{0,2}/[1-9]\d{0,2})?$"

DOORS_ONLY: dict[str, Any] = {"doors": ["cli", "action"]}


class Settings(BaseModel):
    """What a person, a workflow or evalgate.yml can set; the description is what all of them show.

    Times are seconds, sizes megabytes (10**6 bytes), shares 0..1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    paths: Lines = Field(
        default=(),
        description="What to evaluate: files, folders or globs, one per line; `file.evalset.json:case_1,case_2` "
        "picks cases. Default: all evaluation files of the repository.",
        json_schema_extra=DOORS_ONLY,
    )
    grep: str = Field(
        default="",
        description="Run only cases whose id or first user text matches this regular expression.",
        json_schema_extra=DOORS_ONLY,
    )
    root: str = Field(
        default=".",
        description="The repository root, or the subfolder to treat as one. `output` and other paths are relative to "
        "it (docs/settings.md).",
        json_schema_extra=DOORS_ONLY,
    )
    config: str = Field(
        default="",
        description="Path to evalgate.yml. Default: evalgate.yml or .github/evalgate.yml, if one exists.",
        json_schema_extra=DOORS_ONLY,
    )
    criteria: str = Field(
        default="",
        description="A test_config.json for all evaluation files. Default: the nearest one to each file.",
    )
    agent: str = Field(
        default="",
        description="The agent for all suites: a folder with an ADK agent, or `adk:FOLDER`, "
        "`python:module:function`, `command:COMMAND`, `http:URL`, `replay:PATH`. Default: found for each suite.",
    )
    runs: Repeated = Field(
        default=Runs(),
        description="How often each case runs. `2+3` (or `{start: 2, more: 3}`): twice, and three more times if the "
        "outcomes of a case differ, on both sides.",
    )
    budget: Bounded = Field(
        default=AgentBudget(),
        description="Spending limit for running agents, both sides together: `agent_calls=200, tokens=1000000, "
        "usd=2`; one run of a case is one call. If the budget ends a run, the verdict is inconclusive.",
    )
    baseline: str = Field(
        default="auto",
        pattern=r"^(auto|rerun|store|none|file:.+)$",
        description="What to compare with. `rerun`: run the base branch's agent alongside this one; `store`: results "
        "of earlier runs; `auto`: stored results where they are comparable, else a rerun; `file:PATH`: a "
        "results.json; `none`: no comparison.",
    )
    base: str = Field(
        default="",
        description="The commit or branch to compare with. Default: the base of the pull request, merge group or "
        "push; none when run locally.",
        json_schema_extra=DOORS_ONLY,
    )
    data_branch: str = Field(
        default="",
        description="A branch that stores the results of runs on the base branch. Pushes write it (needs `contents: "
        "write`), pull requests read it.",
    )
    baseline_folder: str = Field(
        default="",
        description="A folder below `root` that stores results of runs on the base branch; persist it with "
        "actions/cache.",
    )
    baseline_artifact: str = Field(
        default="",
        max_length=200,
        description="A workflow artifact that runs on the base branch upload, by its name, with results.json at its "
        "top (needs `actions: read`).",
    )
    max_baseline_age: float = Field(
        default=14, gt=0, description="Age in days after which stored results are marked as stale in the comment."
    )
    save_baseline: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether to store this run as a baseline in the data branch or folder. `auto`: on a push to the "
        "default branch.",
        json_schema_extra=DOORS_ONLY,  # a change must not have itself kept as what others are compared with
    )
    seed: int = Field(default=0, ge=0, description="Random seed, passed to the agent where its driver supports one.")
    concurrency: int = Field(
        default=8, ge=1, le=1024, description="Maximum number of conversations at once, over all agents."
    )
    workers: int = Field(default=2, ge=1, le=256, description="Maximum number of processes per agent.")
    isolation: Literal["worker", "case"] = Field(
        default="worker",
        description="`worker`: one process serves many cases, each in its own session; `case`: a new process for "
        "every run of a case.",
    )
    turn_timeout: float = Field(default=300, gt=0, description="Maximum seconds per turn.")
    case_timeout: float = Field(default=1800, gt=0, description="Maximum seconds of the agent's time per case.")
    start_timeout: float = Field(default=120, gt=0, description="Maximum seconds for an agent to start.")
    memory: int = Field(default=0, ge=0, description="Memory limit per agent process, in MB; 0: no limit.")
    max_output: int = Field(default=16, ge=1, description="Maximum agent output per turn, in MB.")
    retries: int = Field(
        default=2,
        ge=0,
        le=10,
        description="Retries of a run that ended in a rate limit, a 5xx or a lost connection. Wrong answers are "
        "never retried.",
    )
    env: Listed = Field(
        default=(),
        description="Environment variables passed to the agent (allow-list), such as `GOOGLE_API_KEY, "
        "GOOGLE_CLOUD_*`. Harmless ones (PATH, HOME, language, proxy, certificates) are always passed.",
    )
    python: str = Field(
        default="auto",
        description="The agent's Python: a path, or `auto`: an environment made from the agent's lock file, "
        "pyproject.toml or requirements.txt, else the Python on PATH.",
    )
    requirements: Lines = Field(
        default=(),
        description="What to install for the agent, one per line: requirement files or specifiers.",
    )
    tools: Literal["", "live", "record", "replay", "mock"] = Field(
        default="",
        description="Where the agents' tool results come from: `live` (tools run), `record` (tools run and are "
        "recorded in cassettes), `replay` (from cassettes), `mock` (from rules). Default: `tools` in evalgate.yml, "
        "else `live`.",
        json_schema_extra=DOORS_ONLY,
    )
    fail_on: Blocking = Field(
        default=("threshold", "regression", "not_measured"),
        description="Which results fail the job: `threshold` (cases below their thresholds), `regression` (worse "
        "than the base), `not_measured`, `inconclusive`.",
    )
    threshold: Literal["all", "new"] = Field(
        default="all",
        description="Which failing cases fail the gate: `all`, or only `new` ones, which pass on the base and fail "
        "again when rerun. Without a base it is `all`.",
    )
    confirm: int = Field(
        default=2,
        ge=1,
        le=20,
        description="With `threshold: new`: minimum number of confirming reruns before a new failure blocks.",
    )
    alpha: float = Field(
        default=0.05, gt=0, lt=0.5, description="False-positive rate of the comparison (significance level)."
    )
    max_drop: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Largest drop in a criterion's mean that is tolerated, on its scale; for tokens, calls and "
        "seconds a share of the base's mean.",
    )
    policy: Literal["head", "base"] = Field(
        default="head",
        description="Which version of the rules applies: the pull request's (`head`) or the base branch's (`base`). "
        "Relaxed rules are always reported.",
    )
    admission: int = Field(
        default=0,
        ge=0,
        description="New or flaky cases are quarantined (non-blocking) until they pass this many base runs; needs "
        "stored results. 0: no quarantine.",
    )
    pass_rate: float = Field(
        default=1.0, ge=0, le=1, description="Share of a suite's measured cases that must pass; ADK uses 1.0."
    )
    min_measured: float = Field(default=1.0, ge=0, le=1, description="Share of a suite's cases that must be measured.")
    adk_compat: bool = Field(
        default=False,
        description="Use ADK's arithmetic even where ADK is wrong (docs/adk-parity.md); may give false passes.",
    )
    skip_judged: bool = Field(
        default=False, description="Skip criteria that need an LLM judge (reported as not measured)."
    )
    name: str = Field(
        default="",
        max_length=60,
        description="Name of this gate in the comment and the check run, if a pull request has several.",
    )
    comment: Literal["always", "changes", "failures", "off"] = Field(
        default="always",
        description="When to comment on a pull request: `always`, on `changes` (a result changed, failed or could "
        "not be measured), on `failures`, or `off`. Unless `off`, an existing comment is always updated.",
        json_schema_extra={"doors": ["action", "file"]},
    )
    check_run: bool = Field(
        default=True,
        description="Also report as a check run named `evalgate`. Needs `checks: write`; skipped without it.",
        json_schema_extra={"doors": ["action", "file"]},
    )
    shard: str = Field(
        default="",
        pattern=SHARD,
        description="Run one shard of the cases: `2/8` is the second of eight. Shards report no verdict; merge them "
        "with `evalgate merge` (in a workflow: `mode: merge`).",
        json_schema_extra=DOORS_ONLY,
    )
    durations: str = Field(
        default="",
        description="Timings of an earlier run (results.json or durations.json), used to balance shards; use the "
        "same file for all shards. Default: the file of `baseline: file:PATH`, else all cases count the same.",
    )
    mode: Literal["run", "merge", "post"] = Field(
        default="run",
        description="`run`: run the gate; `merge`: merge the `results` of all shards into a verdict; `post`: in a "
        "workflow on `workflow_run`, post the results of a fork's pull request (docs/forks.md).",
        json_schema_extra={"doors": ["action"]},
    )
    results: Lines = Field(
        default=(),
        description="With `mode: merge`: files, or folders to search for results.json, one per line; in the workspace.",
        json_schema_extra={"doors": ["action"]},
    )
    artifact: str = Field(
        default="evalgate",
        min_length=1,
        max_length=200,
        description="With `mode: post`: name of the artifact with the run's report folder.",
        json_schema_extra={"doors": ["action"]},
    )
    allow_pull_request_target: bool = Field(
        default=False,
        description="Run on `pull_request_target`: the agent sees no variable and no judge is asked, unless a "
        "maintainer has approved the commit (`approve-label`, `approve-environment`).",
        json_schema_extra={"doors": ["action"]},
    )
    approve_label: str = Field(
        default="",
        max_length=50,
        description="A label by which a maintainer lets the one commit that is the head when it is added run with "
        "secrets; for `allow-pull-request-target` (docs/forks.md).",
        json_schema_extra={"doors": ["action"]},
    )
    approve_environment: str = Field(
        default="",
        max_length=255,
        description="The environment of the job, whose reviewers let the commit of this run go, which then runs with "
        "secrets; for `allow-pull-request-target` (docs/forks.md).",
        json_schema_extra={"doors": ["action"]},
    )
    strict: bool = Field(default=False, description="Treat warnings as errors.")
    output: str = Field(
        default="evalgate-report", description="Folder for reports, results and the journal, below `root`."
    )
    cache: str = Field(
        default="",
        description="Folder for the agents' environments and cached judge replies. Default: the user's cache folder.",
        json_schema_extra=DOORS_ONLY,
    )
    resume: bool = Field(
        default=False,
        description="Continue an interrupted run; completed runs are not repeated.",
        json_schema_extra=DOORS_ONLY,
    )
    debug: bool = Field(default=False, description="Show the traceback of an error.", json_schema_extra=DOORS_ONLY)


def doors_of(name: str) -> tuple[str, ...]:
    """Where a setting can be given: `cli`, `action`, `file`."""
    extra = Settings.model_fields[name].json_schema_extra
    if isinstance(extra, dict):
        doors = extra.get("doors")
        if isinstance(doors, list):
            return tuple(str(door) for door in doors)
    return ("cli", "action", "file")


def input_name(name: str) -> str:
    """A setting's name in a workflow and on the command line: `fail_on` -> `fail-on`."""
    return name.replace("_", "-")
