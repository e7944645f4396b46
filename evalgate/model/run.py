"""One measured side: all trials and their grades."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, TypeAlias

from pydantic import Field

from evalgate.values import Wording, frozen_dataclass
from .case import Suite
from .conversation import Seconds
from .trial import AgentFailure, CaseKey, Grade, Reason, Transcript, TrialKey

MOST_COUNT = 2**53 - 1
"""The largest whole number that every reader of JSON stores exactly (RFC 8259, section 6)."""
MOST_REPEATS = 10_000
"""The most planned trials of each case."""

Count: TypeAlias = Annotated[int, Field(ge=0, le=MOST_COUNT)]
"""A number of calls, tokens or attempts in a results file."""
Sum: TypeAlias = Annotated[int, Field(ge=0, le=MOST_COUNT * 1_000_000_000)]
"""A sum of counts."""
Dollars: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""In US dollars."""


class VerdictKind(enum.StrEnum):
    """The four verdicts; every report distinguishes them."""

    PASS = "pass"  # noqa: S105 - a verdict, no password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    """There is not enough data."""
    NOT_MEASURED = "not_measured"
    """Something could not be evaluated."""


@frozen_dataclass
class GradedTrial:
    """A trial without its transcript, and its grades."""

    key: TrialKey
    failure: AgentFailure | None
    """None if there is a conversation."""
    grades: Mapping[str, Grade]
    """Of every criterion by name, in the suite's order."""
    seconds: Seconds = 0.0
    """The agent's time for its turns, over all attempts."""
    attempts: Count = 1
    """More than 1 if failures of the infrastructure were retried."""
    tokens: Count | None = None
    """Reported by its model calls; None if none reported any."""
    reused: bool = False
    """True if it is from an earlier run: this run did not pay for it."""
    apart: bool = False
    """True if it is of a base that ran at another time than head."""
    own_failure: bool = False
    """True if the base's agent failed by its own questions and settings, not by the change."""

    def with_grades(
        self, grades: Mapping[str, Grade], *, key: TrialKey | None = None
    ) -> GradedTrial:
        """The trial with other grades, and with another name if there is one."""
        return replace(self, key=key or self.key, grades=grades)

    def shared(self) -> GradedTrial:
        """The trial for another side, which did not pay for it."""
        return replace(self, reused=True)


USER_SIMULATOR = "user_simulator"
"""The criterion's name for the usage of simulated users."""


@frozen_dataclass
class JudgeUse:
    """The calls of one criterion, or of all simulated users, to one model during a run, on all
    sides."""

    criterion: str
    """Its name, or USER_SIMULATOR."""
    model: str
    """As it is configured."""
    calls: Count = 0
    """Answered calls."""
    cached: Count = 0
    """Replies from the cache."""
    retries: Count = 0
    """Repeated calls."""
    prompt_tokens: Sum = 0
    """Of calls that reported them."""
    output_tokens: Sum = 0
    """The same, including thoughts."""
    cost_usd: Dollars | None = None
    """Of calls with a known price; None if no call was priced."""
    unpriced: Count = 0
    """Paid calls without a known price, so that the cost is a lower bound."""
    failures: Mapping[str, Count] = field(default_factory=dict)
    """Calls without a reply, by kind."""


def total_of(uses: Sequence[JudgeUse], *, criterion: str = "", model: str = "") -> JudgeUse:
    """The sum of all uses; its cost is None only if no call was priced."""
    costs = [use.cost_usd for use in uses if use.cost_usd is not None]
    failures: Counter[str] = Counter()
    for use in uses:
        failures.update(use.failures)
    sums = ("calls", "cached", "retries", "prompt_tokens", "output_tokens", "unpriced")
    return JudgeUse(
        criterion=criterion,
        model=model,
        **{name: sum(getattr(use, name) for use in uses) for name in sums},
        cost_usd=sum(costs) if costs else None,
        failures=dict(sorted(failures.items())),
    )


@frozen_dataclass
class LoadedTool:
    """A tool as its agent loaded it: the description for models, and its parameters, each with type
    and default."""

    description: str = ""
    """What models read about it."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Each with type and default, by name."""


@frozen_dataclass
class LoadedAgent:
    """One of the loaded agents; fields that it does not set are ""."""

    name: str
    kind: str = ""
    """Its class, such as `LlmAgent`."""
    model: str = ""
    """Its name, as configured; "" for an inherited one."""
    description: str = ""
    """What other agents read about it."""
    instruction: str = ""
    """The system prompt, before placeholders are filled."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Its own and its model's, as JSON."""
    tools: Mapping[str, LoadedTool] = field(default_factory=dict)
    """By name."""
    sub_agents: tuple[str, ...] = ()
    """Their names."""


@frozen_dataclass
class AgentDescription:
    """The parts of an agent: the agents as loaded (only google-adk reports them), the packages in
    its Python by name with their versions, and its files by path with 12 hex digits over the
    content. Each is empty if unknown."""

    agents: tuple[LoadedAgent, ...] = ()
    """The agents as loaded; only google-adk reports them."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """The packages in its Python by name, with their versions."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Its files by path, with 12 hex digits over the content."""


@frozen_dataclass
class Inputs:
    """The environment of an agent, and its questions to its checkout with the answers: its trials
    are valid for every checkout with the same answers."""

    environment: str = ""
    """16 hex digits of its Python, packages, platform, settings and variables; "" if unknown."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """By question, see `system.inputs`."""

    @property
    def is_known(self) -> bool:
        """True if another checkout can be compared."""
        return bool(self.environment and self.answers)


@frozen_dataclass
class PlanPart:
    """One of `of` parts of a plan, each measured by a run of its own, or all of them together."""

    index: int = 0
    """From 1; 0: all parts, joined."""
    of: int
    """The number of parts."""
    plan: tuple[Suite, ...] = ()
    """Every suite with all its cases; without content if it was read from a file."""
    homes: Mapping[CaseKey, int] = field(default_factory=dict)
    """The index of the part with a case, by the case's key."""
    fingerprints: Mapping[CaseKey, str] = field(default_factory=dict)
    """Of the content of all cases."""
    fingerprint: str = ""
    """Equal for all parts of one plan."""

    def __str__(self) -> str:
        """As the setting `shard` writes it: `2/8`."""
        return f"{self.index}/{self.of}"


@frozen_dataclass
class CriterionVerdict:
    """One criterion of one case over its repeats."""

    name: str
    kind: VerdictKind | None
    """None for informational criteria, which never decide."""
    value: float | None
    """The mean over the repeats that have a score, or None."""
    threshold: float | None
    """None if it does not decide."""
    values: tuple[float | None, ...] = ()
    """One entry per repeat."""
    reason: Reason | None = None
    """Why it has no score; None if it has one."""
    message: Wording = ""
    """The same in words."""


class ExemptionKind(enum.StrEnum):
    """The kinds of reasons why a case does not block."""

    ALLOWED = "allowed"
    """It also fails on the base (`threshold: new`)."""
    FLAKY = "flaky"
    """It failed, or the agent crashed, and reruns do not confirm it."""
    LISTED = "listed"
    """evalgate.yml lists it for a while: it is shown, and counted separately."""


@frozen_dataclass
class Exemption:
    """Why a case does not block."""

    kind: ExemptionKind
    owner: str = ""
    """Of a listed case."""
    expires: str = ""
    """The last day of a listed case (`2026-02-01`, UTC)."""
    reason: Wording = ""
    """Why it is listed; "" if the list does not say it."""


@frozen_dataclass
class CaseVerdict:
    """One case: fail if any criterion fails, else not measured if any could not be measured, else
    pass."""

    suite: str
    """The key of its suite."""
    case_id: str
    kind: VerdictKind
    criteria: tuple[CriterionVerdict, ...]
    reason: Wording = ""
    """Why it has this kind, in words; "" for a plain pass."""
    second_kind: VerdictKind | None = None
    """A second kind, less important than `kind`."""
    exemption: Exemption | None = None
    """Why it does not block; None: it may."""

    def unmeasured(self, reason: Wording) -> CaseVerdict:
        """The verdict if the case counts as not measured."""
        return replace(self, kind=VerdictKind.NOT_MEASURED, second_kind=None, reason=reason)

    @property
    def doubtful(self) -> bool:
        """True if it was partly measured, and a measured score is below a threshold."""
        return self.second_kind is VerdictKind.FAIL

    @property
    def partial(self) -> bool:
        """True if it fails, and a part of it could not be measured."""
        return self.second_kind is VerdictKind.NOT_MEASURED

    @property
    def is_flaky(self) -> bool:
        """True if it failed, or its agent crashed, by chance."""
        return self.exemption is not None and self.exemption.kind is ExemptionKind.FLAKY

    @property
    def listing(self) -> Exemption | None:
        """Its exemption if it is listed, and so counted separately, however it ended."""
        is_listed = self.exemption is not None and self.exemption.kind is ExemptionKind.LISTED
        return self.exemption if is_listed else None

    @property
    def key(self) -> CaseKey:
        """Its suite and its name."""
        return self.suite, self.case_id


@frozen_dataclass
class Run:
    """All results of one side."""

    suites: tuple[Suite, ...]
    """As planned: also suites without any trial."""
    trials: tuple[GradedTrial, ...]
    """In the order of suites, cases and repeats, not of execution."""
    transcripts: Callable[[TrialKey], Transcript | None]
    """Finds a transcript; None if the agent failed or it was not stored."""
    repeats: Annotated[int, Field(ge=1, le=MOST_REPEATS)] = 1
    """Planned trials of each case."""
    confirmations: tuple[GradedTrial, ...] = ()
    """Reruns of failed cases; they are in no mean."""
    truncated: Wording = ""
    """The budget that ended the run early, in words."""
    seed: int = 0
    """Of everything random."""
    started_at: str = ""
    """ISO 8601, UTC."""
    seconds: Seconds = 0.0
    """The wall time of the run."""
    complete: bool = True
    """False: interrupted; cases without trials were not measured."""
    commit: str = ""
    """Its full SHA; "" if unknown."""
    dirty: bool | None = None
    """True: files differed from the commit; None if unknown."""
    agents: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Self-reported details, by agent key."""
    fingerprints: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Of the content of cases, if known."""
    judges: tuple[JudgeUse, ...] = ()
    """Without replies from a journal."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """By agent key: equal for agents with the same inputs."""
    models: frozenset[str] = frozenset()
    """The models that answered the agents."""
    descriptions: Mapping[str, AgentDescription] = field(default_factory=dict)
    """By agent key."""
    part: PlanPart | None = None
    """None: the whole plan."""
    earlier_verdicts: Mapping[CaseKey, CaseVerdict] = field(default_factory=dict)
    """Verdicts of earlier runs on their cases, if they still apply; they are final."""
    root: str | None = None
    """The folder in the repository, "" for its top; None if unknown."""
    workflow_run: str = ""
    """The writer: `o/r/actions/runs/99/attempts/1`; "" elsewhere."""

    @property
    def all_trials(self) -> tuple[GradedTrial, ...]:
        """The trials, then the reruns."""
        return (*self.trials, *self.confirmations)

    @property
    def is_part(self) -> bool:
        """True if other runs measure the other cases of the plan."""
        return self.part is not None and self.part.index > 0

    def tokens_beside(self, base: Run) -> tuple[int, int | None, int]:
        """The tokens of this run, the base's tokens for the same trials (None if it reports none),
        and the number of these trials."""
        base_tokens = {
            trial.key: trial.tokens for trial in base.all_trials if trial.tokens is not None
        }
        if not base_tokens:
            return sum(trial.tokens or 0 for trial in self.all_trials), None, 0
        pairs = [
            (trial.tokens, base_tokens[trial.key])
            for trial in self.all_trials
            if trial.tokens and trial.key in base_tokens
        ]
        return sum(tokens for tokens, _ in pairs), sum(tokens for _, tokens in pairs), len(pairs)
