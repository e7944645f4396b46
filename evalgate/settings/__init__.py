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
        description="What to evaluate: files, folders or globs, one a line; `file.evalset.json:case_1,case_2` picks "
        "cases. Nothing: every evaluation file of the repository.",
        json_schema_extra=DOORS_ONLY,
    )
    grep: str = Field(
        default="",
        description="Only cases whose id or first user text matches this regular expression.",
        json_schema_extra=DOORS_ONLY,
    )
    root: str = Field(
        default=".",
        description="The repository, or the folder in it to treat as one, from which `output` and other paths are "
        "taken (docs/settings.md).",
        json_schema_extra=DOORS_ONLY,
    )
    config: str = Field(
        default="",
        description="The gate's own file. Nothing: evalgate.yml or .github/evalgate.yml where there is one.",
        json_schema_extra=DOORS_ONLY,
    )
    criteria: str = Field(
        default="",
        description="A test_config.json for every evaluation file. Nothing: the nearest one of each file.",
    )
    agent: str = Field(
        default="",
        description="The agent of every suite: a folder with an ADK agent, or `adk:FOLDER`, `python:module:function`, "
        "`command:COMMAND`, `http:URL`, `replay:PATH`. Nothing: found for each suite.",
    )
    runs: Repeated = Field(
        default=Runs(),
        description="How often each case runs. `2+3` (or `{start: 2, more: 3}`): twice, and three times more where the "
        "outcomes of a case differ, on both sides.",
    )
    budget: Bounded = Field(
        default=AgentBudget(),
        description="What running agents may cost, both sides together: `agent_calls=200, tokens=1000000, usd=2`; a "
        "run of a case is one call. A budget that ends a run makes its verdict inconclusive.",
    )
    baseline: str = Field(
        default="auto",
        pattern=r"^(auto|rerun|store|none|file:.+)$",
        description="What to compare with: `rerun` runs the base's agent beside the head's, `store` takes results of "
        "earlier runs, `auto` stored results where they are comparable and a rerun for the rest, `file:PATH` a "
        "results.json, `none` nothing.",
    )
    base: str = Field(
        default="",
        description="The commit or branch to compare with. Nothing: the base of the pull request, of the merge group "
        "or of the push; at a desk there is none.",
        json_schema_extra=DOORS_ONLY,
    )
    data_branch: str = Field(
        default="",
        description="A branch that keeps results of runs on the base branch, written by pushes to it (needs `contents: "
        "write`) and read by pull requests.",
    )
    baseline_folder: str = Field(
        default="",
        description="A folder below `root` that keeps results of runs on the base branch, for a cache to carry.",
    )
    max_baseline_age: float = Field(
        default=14, gt=0, description="Days after which stored results are called stale in the comment."
    )
    save_baseline: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether to keep this run's results in the data branch or folder. `auto`: on a push to the default "
        "branch.",
        json_schema_extra=DOORS_ONLY,  # a change must not have itself kept as what others are compared with
    )
    seed: int = Field(default=0, ge=0, description="Seed of everything random, handed to drivers that take one.")
    concurrency: int = Field(default=8, ge=1, le=1024, description="Conversations at once, over all agents.")
    workers: int = Field(default=2, ge=1, le=256, description="Processes an agent may have.")
    isolation: Literal["worker", "case"] = Field(
        default="worker",
        description="`worker`: a process serves many cases, each with a session of its own; `case`: a fresh process "
        "for every run of a case.",
    )
    turn_timeout: float = Field(default=300, gt=0, description="Seconds that one turn may take.")
    case_timeout: float = Field(default=1800, gt=0, description="Seconds that the agent may take for one case.")
    start_timeout: float = Field(default=120, gt=0, description="Seconds that an agent may take to start.")
    memory: int = Field(default=0, ge=0, description="Megabytes that one agent process may use; 0: no cap.")
    max_output: int = Field(default=16, ge=1, description="Megabytes that an agent may say in one turn.")
    retries: int = Field(
        default=2,
        ge=0,
        le=10,
        description="Further tries of a run that ended in a rate limit, a 5xx or a lost connection; a wrong answer is "
        "never retried.",
    )
    env: Listed = Field(
        default=(),
        description="Names of environment variables that the agent may see (`GOOGLE_API_KEY, GOOGLE_CLOUD_*`). It sees "
        "no others but the harmless ones (PATH, HOME, language, proxy, certificates).",
    )
    python: str = Field(
        default="auto",
        description="The agent's Python: a path, or `auto`: an environment made from the agent's lock file, "
        "pyproject.toml or requirements.txt, else the Python on PATH.",
    )
    requirements: Lines = Field(
        default=(),
        description="What to install for the agent, one a line: requirement files or specifiers.",
    )
    tools: Literal["", "live", "record", "replay", "mock"] = Field(
        default="",
        description="Where the answers of the agents' tools come from: `live` (they run), `record` (they run, and "
        "cassettes keep what they answer), `replay` (cassettes answer, nothing runs), `mock` (rules answer). Nothing: "
        "as `tools` of evalgate.yml says, else `live`.",
        json_schema_extra=DOORS_ONLY,
    )
    fail_on: Blocking = Field(
        default=("threshold", "regression", "not_measured"),
        description="What ends the job red: `threshold` (cases below their thresholds), `regression` (worse than the "
        "base), `not_measured`, `inconclusive`.",
    )
    threshold: Literal["all", "new"] = Field(
        default="all",
        description="Which cases below their thresholds fail the gate: `all`, or only `new` ones, which the base "
        "passes and which fresh runs confirm. Needs a base; without one it is `all`.",
    )
    confirm: int = Field(
        default=2, ge=1, le=20, description="With `threshold: new`: fresh runs of both sides that must agree, at least."
    )
    alpha: float = Field(
        default=0.05, gt=0, lt=0.5, description="How often a comparison with the base may be wrong by chance."
    )
    max_drop: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="The drop of a criterion's mean that is let pass, on its scale; a share of the base's mean for "
        "tokens, calls and seconds.",
    )
    policy: Literal["head", "base"] = Field(
        default="head",
        description="Whose thresholds, criteria and rules decide: the head's, or the base's. What head loosens is "
        "shown either way.",
    )
    admission: int = Field(
        default=0,
        ge=0,
        description="Runs on the base branch that a case must have been reliable in before it decides; needs stored "
        "results. 0: every case decides at once.",
    )
    pass_rate: float = Field(
        default=1.0, ge=0, le=1, description="Share of a suite's measured cases that must pass; 1.0 is ADK's meaning."
    )
    min_measured: float = Field(
        default=1.0, ge=0, le=1, description="Share of a suite's cases that must have been measured."
    )
    adk_compat: bool = Field(
        default=False,
        description="ADK's arithmetic also where ADK is wrong (docs/adk-parity.md); may be a false green.",
    )
    skip_judged: bool = Field(
        default=False, description="Ask no judge: judged criteria are not measured, and the verdict says so."
    )
    name: str = Field(
        default="",
        max_length=60,
        description="Name of this gate. Each has one comment and one check run: several gates of a pull request need "
        "different names.",
    )
    comment: Literal["always", "changes", "failures", "off"] = Field(
        default="always",
        description="When a pull request gets a comment: `always`, on `changes` (something turned, failed or could not "
        "be measured), on `failures`, or `off`. One that is there is kept up to date in any case but `off`.",
        json_schema_extra={"doors": ["action", "file"]},
    )
    check_run: bool = Field(
        default=True,
        description="Report as a check run `evalgate` as well; needs `checks: write`, and is left out without it.",
        json_schema_extra={"doors": ["action", "file"]},
    )
    shard: str = Field(
        default="",
        pattern=SHARD,
        description="Measure one part of the cases: `2/8` is the second of eight. A part decides nothing: `evalgate "
        "merge` (in a workflow `mode: merge`) joins the results of all parts.",
        json_schema_extra=DOORS_ONLY,
    )
    durations: str = Field(
        default="",
        description="A results.json or durations.json of an earlier run, by which parts are made equally long; the "
        "same file for all of them. Nothing: the file of `baseline: file:PATH`, else all cases count alike.",
    )
    mode: Literal["run", "merge", "post"] = Field(
        default="run",
        description="`run` is the gate; `merge` joins the `results` of all parts and decides; `post`, in a workflow on "
        "`workflow_run`, posts what a run on a fork's pull request found (docs/forks.md).",
        json_schema_extra={"doors": ["action"]},
    )
    results: Lines = Field(
        default=(),
        description="With `mode: merge`: files, or folders to search for results.json, one a line; in the workspace.",
        json_schema_extra={"doors": ["action"]},
    )
    artifact: str = Field(
        default="evalgate",
        min_length=1,
        max_length=200,
        description="With `mode: post`: the name of the artifact that holds the run's report folder.",
        json_schema_extra={"doors": ["action"]},
    )
    strict: bool = Field(default=False, description="Warnings about evaluation files stop the run as errors do.")
    output: str = Field(
        default="evalgate-report", description="Folder for reports, results and the journal, below `root`."
    )
    cache: str = Field(
        default="",
        description="Folder for the agents' environments and the judges' replies. Nothing: the user's cache folder.",
        json_schema_extra=DOORS_ONLY,
    )
    resume: bool = Field(
        default=False,
        description="Go on with an interrupted run: what its journal holds is not run again.",
        json_schema_extra=DOORS_ONLY,
    )
    debug: bool = Field(
        default=False, description="Show the traceback of what stops the run.", json_schema_extra=DOORS_ONLY
    )


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
