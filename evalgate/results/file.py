"""results.json: a measured side with its verdict, one line per case. The reader does not trust the
author of a file."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError, create_model

from evalgate.comparison import pairing
from evalgate.errors import ConfigError, Place, Problem
from evalgate.formats import adk_shapes, fingerprints, json_source
from evalgate.formats.adk_shapes import AgentDetailsWire, EvalCaseWire
from evalgate.model import (
    AgentDetails,
    AgentFailure,
    AgentUse,
    Book,
    Case,
    CaseComparison,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    Comparison,
    CriteriaSource,
    CriterionCalibration,
    CriterionUse,
    Edits,
    EvalSet,
    FailureCause,
    GradedTrial,
    Outcome,
    PlanPart,
    Policy,
    Purpose,
    Report,
    Run,
    SimulatorUse,
    Suite,
    Transcript,
    TrialKey,
    Verdict,
    VerdictKind,
    deviations,
)
from evalgate.model.deviations import OURS, Deviations
from evalgate.model.run import MOST_REPEATS
from evalgate.values import JsonObject, T, elements, frozen_dataclass, member
from . import labels, shapes
from .labels import CaseLabel
from .shapes import AnyGrade, Described, Entry, OutcomeEntry, described, fields_of

SCHEMA_VERSION = 6
"""Of results.json; a file with another one is refused."""
ShardIndex: TypeAlias = Annotated[int, Field(ge=1, le=1_000)]
"""From 1; also the number of shards."""
MOST_BYTES = 2 * 1024**3
"""Of a results.json that is read."""
NEEDED = "Use a results.json that `evalgate run` or the action wrote to its output folder."
"""The hint if a file is no results.json."""

# --- the layout: the fields of each noun, and additional fields -----------------------------------


@fields_of(GradedTrial, without={"key", "failure"})
class TrialEntry(Entry):
    """One run of a case: its cost, the agent's outcome (absent if it was not kept), its grades by
    criterion."""

    purpose: Purpose = described(
        "`first`: one of the runs of every case; reruns of a failure: a `pair` on both sides, or "
        "a `single` one on head alone.",
        Purpose.FIRST,
    )
    number: Annotated[int, Field(ge=0, le=MOST_REPEATS)] = described(
        "From 0, within each purpose.", 0
    )
    # parsed when it is read
    outcome: Annotated[JsonObject | None, Described(OutcomeEntry)] = None
    grades: dict[str, AnyGrade] = described(
        "By criterion: a score (`value`), or the `reason` why there is no score."
    )


@fields_of(
    CriterionCalibration,
    without={"criterion", "undecided", "clusters", "matrix", "agreement", "examples"},
)
class JudgedEntry(Entry):
    """Agreement of a criterion's judge with human labels."""

    labels: Annotated[int, Field(ge=0)] = described(
        "The decided labels; 0: none for this judge.", 0
    )


@fields_of(CriterionUse, without={"place"})
class CriterionEntry(Entry):
    """A criterion as configured."""

    fingerprint: str = described("Equal if scores can be compared; thresholds do not count.", "")
    calibration: JudgedEntry | None = described(
        "Agreement of its judge with human labels, if evalgate.yml names a calibration.", None
    )


@fields_of(AgentUse)
class AgentEntry(Entry):
    """The agent of a suite."""

    about: dict[str, str] = described("The agent's framework, versions and interpreter.", {})
    inputs: str = described("Equal if it read the same files of its checkout; absent: unknown.", "")


@fields_of(SimulatorUse)
class SimulatorEntry(Entry):
    """The simulated user: ADK's user_simulator_config as it was used."""


class _AnySuite(Entry):
    suite: str = described("Its path, relative to the repository.")
    eval_set_id: str
    agent: AgentEntry
    criteria: list[CriterionEntry]
    criteria_source: CriteriaSource
    simulator: SimulatorEntry | None = described(
        "The simulated user; absent if every user message is written down.", None
    )
    problem: str = described(
        "The reason why this file could not be measured; it then has no cases.", ""
    )


class PlannedCase(Entry):
    """A case of the plan."""

    case_id: str
    line: int | None = None
    fingerprint: str = ""
    shard: ShardIndex = described("The shard that runs it.")
    criteria: list[str] = Field(
        default_factory=list,
        description="The criteria of a CES evaluation; absent: all criteria of its suite.",
    )


class PlannedSuite(_AnySuite):
    """An evaluation file of the plan."""

    cases: list[PlannedCase]


@fields_of(PlanPart, without={"homes", "fingerprints"})
class ShardEntry(Entry):
    """The shard of a plan. `plan`: the complete plan, with the cases of other shards."""

    index: ShardIndex
    of: ShardIndex
    plan: list[PlannedSuite]
    fingerprint: str = described("Equal for shards that can be merged.")


class Quarantine(Entry):
    """Why a case does not block for a while: its owner, and the last day (`2026-02-01`, UTC)."""

    owner: str
    expires: str
    reason: str = ""


class CaseEntry(Entry):
    """One case and its trials."""

    case_id: str
    line: int | None = described("Line of the case in its evaluation file, from 1.", None)
    fingerprint: str = described(
        "Equal for equal content of the case, with its references and rubrics."
    )
    eval_case: EvalCaseWire | None = described("The case itself, as ADK's EvalCase.", None)
    criteria: list[str] = Field(
        default_factory=list,
        description="The criteria of a CES evaluation; absent: all criteria of its suite.",
    )
    verdict: VerdictKind
    reason: str = ""
    label: CaseLabel | None = described("The label that counts it; absent for a plain pass.", None)
    quarantined: bool = described("Shown, but non-blocking (docs/quarantine.md).", default=False)
    quarantine: Quarantine | None = described("The owner, and the date on which it expires.", None)
    shard: ShardIndex | None = described("The shard that ran it, if shards were merged.", None)
    trials: list[TrialEntry] = Field(default_factory=list)


class SuiteEntry(_AnySuite):
    """One evaluation file, the verdict on it, and its cases."""

    verdict: VerdictKind
    reason: str = ""
    required_pass_rate: float = 1.0
    advisory: bool = described("Shown, but non-blocking.", default=False)
    cases: list[CaseEntry]


@fields_of(Policy, without={"deviations", "exemptions"})
class PolicyEntry(Entry):
    """The rules of the gate."""


CaseCounts: Any = create_model(
    "CaseCounts",
    __base__=Entry,
    __doc__=labels.count.__doc__,
    **dict.fromkeys(labels.count(()), (int, 0)),  # type: ignore[call-overload]  # fields by name
)
"""Has a field for each label, so that no label is forgotten."""


@fields_of(Verdict, without={"suites", "book", "origins", "open"})
class VerdictEntry(Entry):
    """The verdict with its counts and evidence."""

    exit_code: int
    evidence: float = described(
        "The worth of bets that head is worse, from 1; `needed` blocks.", 1.0
    )
    failing: float = described("The same for bets that cases fail, whatever the base does.", 1.0)
    needed: float = described("The evidence that blocks: 1 / `alpha`.", 20.0)
    cases: CaseCounts = described(
        "The number of cases with each label. `passed` (`fixed` ones among them), `failed` (from `new` to "
        "`not_confirmed`), `flaky`, `quarantined`, `inconclusive` and `not_measured` add up to `total`.",
        CaseCounts(),
    )


@fields_of(CaseComparison, without={"listed"}, name="CaseComparison")
class ComparedCaseEntry(Entry):  # noqa: D101 - the noun's
    __doc__ = CaseComparison.__doc__

    quarantined: bool = described("Shown, and not counted elsewhere.", default=False)


@fields_of(Comparison, without={"base", "decided", "base_decided", "book"})
class ComparisonEntry(Entry):
    """Head compared with the base, whose trials are in a separate file. Cases that are equal on
    both sides are left out."""

    cases: list[ComparedCaseEntry] = Field(default=[])


@fields_of(
    Run,
    without={
        "trials",
        "transcripts",
        "confirmations",
        "agents",
        "fingerprints",
        "inputs",
        "part",
        "earlier_verdicts",
    },
    name="Results",
)
class ResultsFile(Entry):
    """The whole file. Fields with their default are left out."""

    schema_version: int
    evalgate: str = described("Version of evalgate.")
    models: list[str] = described("Names of the models that answered the agents.", [])
    adk_compat: bool = False
    shard: ShardEntry | None = described("The shard that was measured; absent: all cases.", None)
    shards: ShardIndex = 1
    verdict: VerdictEntry
    policy: PolicyEntry = described("The rules that decided.", PolicyEntry())
    causes: list[FailureCause] = described(
        "`new` first, then the most frequent; each case that does not pass is in one.", []
    )
    comparison: ComparisonEntry | None = described("Absent without a base.", None)
    edits: Edits = described("The change's edits to its own gate.", Edits())
    agent_details: Annotated[
        dict[str, list[JsonObject]], Described(dict[str, list[AgentDetailsWire]])
    ] = described("Instructions and tools of agents; transcripts refer to them by address.", {})
    problems: list[Problem] = described("Remarks about the evaluation files and inputs.", [])
    suites: list[SuiteEntry]


def schema() -> JsonObject:
    """The JSON schema of results.json."""
    return {"$schema": shapes.DIALECT} | TypeAdapter(ResultsFile).json_schema(by_alias=False)


# --- writing -------------------------------------------------------------------------------------


class RawOutcomes(Protocol):
    """A source of outcomes as they were written: the journal of a run, or a results.json."""

    def find_json(self, key: TrialKey) -> JsonObject | None:
        """Return the outcome of a trial as written, None if it is unknown."""

    def agents(self) -> Mapping[str, tuple[AgentDetails, ...]]:
        """Agents' instructions and tools, by the address that outcomes refer to."""


def render_results(
    report: Report, *, outcomes: RawOutcomes, causes: Sequence[FailureCause] = ()
) -> Iterator[str]:
    """The pieces of results.json in order; joined they are one JSON document, one line per case.

    The JSON of a run of many cases is never in memory as a whole."""
    run = report.run
    case_labels = labels.labels_of(report)
    header = shapes.written(
        _file_head(report, labels.count(case_labels.values()), outcomes, causes)
    )
    header.pop("suites")
    # the key that identifies the file comes first: `discovery.agents` looks for it there
    first_fields = {"schema_version": SCHEMA_VERSION, "evalgate": report.display.version}
    yield _open_list(first_fields | header, "suites")
    trials = pairing.by_case(run.all_trials)
    pairs = zip(run.suites, report.verdict.suites, strict=True)
    for number, (suite, suite_verdict) in enumerate(pairs):
        suite_entry = SuiteEntry.model_construct(
            **_suite_fields(suite, report),
            verdict=suite_verdict.kind,
            reason=str(suite_verdict.reason),
            required_pass_rate=suite_verdict.required_pass_rate,
            advisory=suite_verdict.advisory,
            cases=[],
        )
        suite_fields = shapes.written(suite_entry)
        suite_fields.pop("cases")
        yield (",\n" if number else "\n") + _open_list(suite_fields, "cases")
        case_pairs = zip(suite.cases, suite_verdict.cases, strict=True)
        for case_number, (case, case_verdict) in enumerate(case_pairs):
            yield ",\n" if case_number else "\n"
            yield _case_line(
                case,
                case_verdict,
                run,
                label=case_labels[case_verdict.key],
                trials=trials.get(case_verdict.key, ()),
                outcomes=outcomes,
            )
        yield "]}"
    yield "\n]}\n"


def _file_head(
    report: Report, counts: Mapping[str, int], outcomes: RawOutcomes, causes: Sequence[FailureCause]
) -> Entry:
    """The file without its suites."""
    run = report.run
    comparison = report.comparison
    book = report.verdict.book or Book()
    return shapes.entry_of(
        ResultsFile,
        run,
        schema_version=SCHEMA_VERSION,
        evalgate=report.display.version,
        seconds=round(run.seconds, 3),
        models=sorted(run.models),
        adk_compat=report.policy.deviations.is_adk_compat,
        shard=_shard(run.part, report) if run.part and run.is_part else None,
        shards=1 if run.part is None or run.is_part else run.part.of,
        verdict=shapes.entry_of(
            VerdictEntry,
            report.verdict,
            exit_code=int(report.exit_code),
            cases=CaseCounts(**counts),
            evidence=book.worse,
            failing=book.failing,
            needed=book.needed,
        ),
        policy=shapes.entry_of(PolicyEntry, report.policy),
        causes=list(causes),
        comparison=comparison
        and shapes.entry_of(
            ComparisonEntry,
            comparison,
            cases=[
                shapes.entry_of(ComparedCaseEntry, case, quarantined=case.listed)
                for case in comparison.cases
                if case.head is None
                or case.head != case.base
                or case.status is not CaseStatus.PAIRED
                or case.mixed
                or case.listed
                or case.origin is not None
            ],
        ),
        edits=report.edits,
        agent_details={
            key: shapes.agents_json(agents) for key, agents in sorted(outcomes.agents().items())
        },
        problems=list(report.problems),
        suites=[],
    )


def _open_list(fields: JsonObject, name: str) -> str:
    """The object as JSON, without the end of its last list, `name`."""
    return f'{shapes.encode(fields).decode()[:-1]},"{name}":['


def _case_line(
    case: Case,
    verdict: CaseVerdict,
    run: Run,
    *,
    label: CaseLabel,
    trials: Sequence[GradedTrial],
    outcomes: RawOutcomes,
) -> str:
    """One case of a suite as a line, without defaults; outcomes as they were written."""
    trial_entries = []
    for trial in trials:
        entry = shapes.entry_of(
            TrialEntry,
            trial,
            seconds=round(trial.seconds, 4),
            purpose=trial.key.purpose,
            number=trial.key.number,
            outcome=None,
        )
        outcome = outcomes.find_json(trial.key)
        trial_entries.append(
            shapes.written(entry) | ({} if outcome is None else {"outcome": outcome})
        )
    fields: JsonObject = {
        **_case_head(case),
        "fingerprint": run.fingerprints.get(verdict.key) or fingerprints.of_case(case),
        "eval_case": adk_shapes.case_json(case),
        "verdict": verdict.kind.value,
        "reason": verdict.reason,
        "label": "" if label is CaseLabel.PASSED else label.value,
        "quarantined": verdict.listing is not None,
        "quarantine": verdict.listing
        and shapes.written(shapes.entry_of(Quarantine, verdict.listing)),
        "shard": run.part.homes.get(verdict.key) if run.part and not run.is_part else None,
        "trials": trial_entries,
    }
    fields = {name: content for name, content in fields.items() if content}
    return shapes.encode(fields).decode()


def _case_head(case: Case) -> JsonObject:
    """The fields of a case with or without results."""
    line = case.place.line if case.place else None
    return {"case_id": case.case_id, "line": line, "criteria": sorted(case.criteria or ())}


def _suite_fields(suite: Suite, report: Report) -> JsonObject:
    """The fields of a suite with or without a verdict, except its cases; its criteria with their
    fingerprints and the calibrations of their judges."""
    key = suite.agent.key
    run = report.run
    calibrations = {
        judged.criterion: JudgedEntry.model_construct(judge=judged.judge)
        if judged.calibration is None
        else shapes.entry_of(
            JudgedEntry,
            judged.calibration,
            judge=judged.judge,
            labels=judged.calibration.matrix.total,
        )
        for judged in report.facts.judged
        if judged.suite == suite.key
    }
    return {
        "suite": suite.key,
        "eval_set_id": suite.eval_set.eval_set_id,
        "agent": shapes.entry_of(
            AgentEntry,
            suite.agent,
            about=dict(run.agents.get(key, {})),
            inputs=run.inputs.get(key, ""),
        ),
        "criteria": [
            shapes.entry_of(
                CriterionEntry,
                use,
                fingerprint=fingerprints.of_criterion(
                    use, version=report.display.version, deviations=report.policy.deviations
                ),
                calibration=calibrations.get(use.name),
            )
            for use in suite.criteria
        ],
        "criteria_source": suite.criteria_source,
        "simulator": shapes.entry_of(SimulatorEntry, suite.simulator)
        if suite.is_simulated
        else None,
        "problem": str(suite.problem),
    }


def _shard(shard: PlanPart, report: Report) -> Entry:
    """The shard with the complete plan."""
    plan = [
        PlannedSuite.model_construct(
            **_suite_fields(suite, report),
            cases=[
                PlannedCase.model_construct(
                    **_case_head(case),
                    fingerprint=shard.fingerprints.get((suite.key, case.case_id), ""),
                    shard=shard.homes[suite.key, case.case_id],
                )
                for case in suite.cases
            ],
        )
        for suite in shard.plan
    ]
    return shapes.entry_of(ShardEntry, shard, plan=plan)


# --- reading -------------------------------------------------------------------------------------


def merge(mappings: Iterable[Mapping[Any, T]]) -> dict[Any, T]:
    """The mappings as one; the first non-empty value of a key counts."""
    merged: dict[Any, T] = {}
    for mapping in mappings:
        for key, value in mapping.items():
            if not merged.get(key):
                merged[key] = value
    return merged


class StoredOutcomes:
    """The outcomes of a results.json (`RawOutcomes`, `Run.transcripts`). They are parsed when
    they are read."""

    def __init__(
        self, raw: Mapping[TrialKey, JsonObject], agents: Mapping[str, tuple[AgentDetails, ...]]
    ) -> None:
        """`raw`: each outcome as it was written. `agents`: by the address that outcomes refer
        to."""
        self.raw = raw
        """Each outcome as it was written."""
        self._agents = dict(agents)
        """By the address that outcomes refer to."""

    @classmethod
    def joined(cls, stored_outcomes: Sequence[StoredOutcomes]) -> StoredOutcomes:
        """The outcomes of several files that have no trial in common."""
        return cls(
            merge(outcomes.raw for outcomes in stored_outcomes),
            merge(outcomes.agents() for outcomes in stored_outcomes),
        )

    def find(self, key: TrialKey) -> Transcript | None:
        """See `Run.transcripts`; an unreadable outcome gives None."""
        raw = self.raw.get(key)
        if raw is None:
            return None
        try:
            outcome = shapes.parse_outcome(raw, agents_seen=self._agents)
        except ValidationError:
            return None
        return outcome if isinstance(outcome, Transcript) else None

    def find_json(self, key: TrialKey) -> JsonObject | None:
        """The outcome as it was written."""
        return self.raw.get(key)

    def agents(self) -> Mapping[str, tuple[AgentDetails, ...]]:
        """Agents' instructions and tools."""
        return self._agents


@frozen_dataclass
class Stored:
    """A results.json that was read: its run, its outcomes, and its other contents."""

    run: Run
    """Its trials, whose transcripts are read from `outcomes`."""
    outcomes: StoredOutcomes
    version: str
    """The version of evalgate that wrote it."""
    criteria: Mapping[tuple[str, str], str]
    """Fingerprint of a criterion by suite key and name; grades with an equal one can be reused."""
    deviations: Deviations = OURS
    """Ours or ADK's."""
    policy: Entry = PolicyEntry()
    """The rules by which it decided."""
    comparison: Comparison | None = None
    """As its run had it, without `base`; values computed from runs must be computed again."""
    edits: Edits = field(default_factory=Edits)
    """The change's edits to its own gate."""
    problems: tuple[Problem, ...] = ()
    """Remarks about the evaluation files and the inputs."""
    file: str = ""
    """Its path."""
    entries: Mapping[CaseKey, CaseEntry] = field(default_factory=dict)
    """Its cases, with their run's own verdicts."""

    def with_run(self, **fields: Any) -> Stored:
        """The same with other fields of its run."""
        return dataclasses.replace(self, run=dataclasses.replace(self.run, **fields))


def read_results(path: Path, *, shown_as: str = "", of: str = "") -> Stored:
    """Read a results.json. Raises ConfigError if it cannot be read, has another version, or does
    not fit.

    `of`: the owner of the results (`the base`), for the message."""
    place = Place(shown_as or str(path))
    try:
        return parse(read_json(path, place), place)
    except ConfigError as error:
        message = f"{of} {error.message}".lstrip()
        raise ConfigError(message, place=error.where, hint=error.hint) from error


def read_json(path: Path, place: Place, *, hint: str = NEEDED) -> Any:
    """The JSON in a file. Raises ConfigError if it is unreadable or too large."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"is larger than {MOST_BYTES >> 20:,} MB", place=place)
        content = path.read_bytes()
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        raise ConfigError(reason, place=place, hint=hint) from error
    return parse_json(content, place, hint=hint)


def parse_json(content: bytes, place: Place, *, hint: str = NEEDED) -> Any:
    """The JSON in the content of a file. Raises ConfigError."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"is not JSON: {error}", place=place, hint=hint) from error


def _drop_former_fields(raw: JsonObject) -> None:
    """Remove the two fields that only files of the version before have."""
    cases = [case for suite in elements(raw, "suites") for case in elements(suite, "cases")]
    outcomes = [member(trial, "outcome") for case in cases for trial in elements(case, "trials")]
    compared_cases = elements(member(raw, "comparison"), "cases")
    for entry_fields in (*cases, *outcomes, *compared_cases):
        if isinstance(entry_fields, dict):
            entry_fields.pop("not_finite", None)
            entry_fields.pop("divergence", None)


def parse(raw: Any, place: Place) -> Stored:
    """The content of a results.json. Raises ConfigError if it does not fit."""
    version = member(raw, "schema_version")
    if version is None:
        message = "does not fit results.json: `schema_version` is missing"
        raise ConfigError(message, place=place, hint=NEEDED)
    if version == SCHEMA_VERSION - 1:
        _drop_former_fields(raw)
    elif type(version) is not int or version != SCHEMA_VERSION:
        raise ConfigError(
            f"has schema_version {repr(version)[:40]}; this version of evalgate reads {SCHEMA_VERSION} and {SCHEMA_VERSION - 1}",
            place=place,
            hint="Run evalgate again to make a new one: results are not converted.",
        )
    try:
        return _stored(ResultsFile.model_validate(raw), file=place.file)
    except ValidationError as error:
        path, reason = shapes.first_fault(raw, error)
        raise ConfigError(
            f"does not fit results.json: {reason}",
            place=Place(place.file, json_path=json_source.path_text(path)),
            hint=NEEDED,
        ) from error


def _stored(results_file: Any, *, file: str) -> Stored:
    """The content of a checked ResultsFile. `file`: its name, for messages."""
    case_entries = {
        (suite.suite, case.case_id): case for suite in results_file.suites for case in suite.cases
    }
    run, outcomes = _run(results_file, case_entries)
    comparison = results_file.comparison
    return Stored(
        run=run,
        outcomes=outcomes,
        version=results_file.evalgate,
        criteria={
            (suite.suite, use.name): use.fingerprint
            for suite in results_file.suites
            for use in suite.criteria
        },
        deviations=deviations.under(adk_compat=results_file.adk_compat),
        policy=results_file.policy,
        comparison=comparison
        and shapes.restored(
            Comparison,
            comparison,
            cases=tuple(
                shapes.restored(CaseComparison, case, listed=case.quarantined)
                for case in comparison.cases
            ),
        ),
        edits=results_file.edits,
        problems=tuple(results_file.problems),
        file=file,
        entries=case_entries,
    )


def _run(
    results_file: Any, case_entries: Mapping[CaseKey, CaseEntry]
) -> tuple[Run, StoredOutcomes]:
    """The run of a checked ResultsFile, and the outcomes that its transcripts are read from."""
    entries = [
        (
            TrialKey(
                suite=suite.suite, case_id=case.case_id, purpose=trial.purpose, number=trial.number
            ),
            trial,
        )
        for suite in results_file.suites
        for case in suite.cases
        for trial in case.trials
    ]
    trials = [
        shapes.restored(GradedTrial, trial, key=key, failure=_failure(trial.outcome))
        for key, trial in entries
    ]
    outcomes = StoredOutcomes(
        {key: trial.outcome for key, trial in entries if trial.outcome is not None},
        {
            address: shapes.parse_agents(details)
            for address, details in results_file.agent_details.items()
        },
    )
    suites = tuple(_suite(suite) for suite in results_file.suites)
    agents = {
        suite.agent.key: entry.agent
        for suite, entry in zip(suites, results_file.suites, strict=True)
    }
    run = shapes.restored(
        Run,
        results_file,
        suites=suites,
        trials=tuple(trial for trial in trials if trial.key.is_first),
        confirmations=tuple(trial for trial in trials if not trial.key.is_first),
        transcripts=outcomes.find,
        models=frozenset(results_file.models),
        agents={key: agent.about for key, agent in agents.items()},
        inputs={key: agent.inputs for key, agent in agents.items()},
        fingerprints={key: case.fingerprint for key, case in case_entries.items()},
        part=_part(results_file, case_entries),
    )
    return run, outcomes


def _failure(outcome: JsonObject | None) -> AgentFailure | None:
    """The failure in an outcome as it was written; None for a conversation."""
    if outcome is None or outcome.get("kind") == "transcript":
        return None
    parsed_outcome: Outcome = shapes.parse_outcome(outcome, agents_seen={})
    return parsed_outcome if isinstance(parsed_outcome, AgentFailure) else None


def _suite(suite: Any) -> Suite:
    """The suite of an entry, also of one without cases."""
    return Suite(
        key=suite.suite,
        eval_set=EvalSet(
            eval_set_id=suite.eval_set_id,
            cases=tuple(_case(case, suite.suite) for case in suite.cases),
        ),
        criteria=tuple(shapes.restored(CriterionUse, use) for use in suite.criteria),
        criteria_source=suite.criteria_source,
        agent=shapes.restored(AgentUse, suite.agent),
        simulator=SimulatorUse(model="")
        if suite.simulator is None
        else shapes.restored(SimulatorUse, suite.simulator),
        problem=suite.problem,
    )


def _case(case: CaseEntry | PlannedCase, suite: str) -> Case:
    """The case of an entry; without its content if the entry has none."""
    place = Place(suite, case.line)
    criteria = frozenset(case.criteria) or None
    if isinstance(case, PlannedCase) or case.eval_case is None:
        return Case(
            case_id=case.case_id,
            conversation=(),
            place=place,
            criteria=criteria,
            fingerprint=case.fingerprint,
        )
    return dataclasses.replace(
        case.eval_case.to_model(place=place), case_id=case.case_id, criteria=criteria
    )


def _part(results_file: Any, case_entries: Mapping[CaseKey, CaseEntry]) -> PlanPart | None:
    """The shard of the file, or the shards that it was merged from."""
    shard_entry = results_file.shard
    if shard_entry is None:
        homes = {key: case.shard for key, case in case_entries.items() if case.shard}
        return PlanPart(of=results_file.shards, homes=homes) if homes else None
    cases = [(suite.suite, case) for suite in shard_entry.plan for case in suite.cases]
    return shapes.restored(
        PlanPart,
        shard_entry,
        plan=tuple(_suite(suite) for suite in shard_entry.plan),
        homes={(suite, case.case_id): case.shard for suite, case in cases},
        fingerprints={(suite, case.case_id): case.fingerprint for suite, case in cases},
    )


# --- results of an unknown author: reading them must not cost more than reading others of that size

MOST_DEPTH = 60
"""Levels of lists and objects."""
MOST_NODES = 5_000_000
"""Values and keys in all."""
MOST_TEXT = 1_000_000
"""The most characters of one text."""
MOST_NUMBER = 2**53
"""The largest absolute number; every reader of JSON stores whole ones up to it exactly."""
MOST_CASES = 10_000
"""Of all suites."""
MOST_TRIALS = 100_000
"""Of all cases, planned or present."""
MOST_RUNS = 1_000
"""The most repeats of one case."""


def read_untrusted(content: bytes, *, shown_as: str) -> Stored:
    """`read_results` for the content of a file that anybody may have written, unpacked within the
    limits of `github.artifacts`. Raises only ConfigError, whatever it is."""
    place = Place(shown_as)
    raw = parse_json(content, place)
    fault = _size_fault(raw)
    if not fault:
        stored = parse(raw, place)
        fault = _count_fault(stored.run)
        if not fault:
            return stored
    hint = "It is not used because it came from a pull request."
    raise ConfigError(fault, place=place, hint=hint)


def _size_fault(raw: Any) -> str:
    """Deep nesting, a huge text, or a number that is invalid or too large; "" if there is none."""
    level: list[Any] = [raw]
    nodes = 0
    for _ in range(MOST_DEPTH):
        next_level: list[Any] = []
        for node in level:
            nodes += 1
            match node:
                case dict():
                    next_level += node.values()
                    next_level += node.keys()
                case list():
                    next_level += node
                case str() if len(node) > MOST_TEXT:
                    return f"has a text of {len(node):,} characters"
                case float() if not math.isfinite(node) or abs(node) > MOST_NUMBER:
                    return "contains an invalid number"
                case int() if abs(node) > MOST_NUMBER:
                    return "contains a number that is too large"
        if nodes > MOST_NODES:
            return f"has more than {MOST_NODES:,} values"
        if not next_level:
            return ""
        level = next_level
    return f"is nested more than {MOST_DEPTH} levels deep"


def _count_fault(run: Run) -> str:
    """Repeats or cases beyond the limits, or two of one name; "" if there are none."""
    cases = [(suite.key, case.case_id) for suite in run.suites for case in suite.cases]
    trials = run.all_trials
    names: Mapping[str, list[Any]] = {
        "evaluation file": [suite.key for suite in run.suites],
        "case": cases,
        "criterion": [(suite.key, use.name) for suite in run.suites for use in suite.criteria],
        "run of a case": [trial.key for trial in trials],
    }
    part = run.part or PlanPart(of=1)
    most_trials = max(len(cases) * run.repeats, len(run.trials))
    faults = {
        "is a shard": run.is_part,
        f"has a case of a shard beyond the {part.of:,} that it names": any(
            home > part.of for home in part.homes.values()
        ),
        "has an invalid number of repeats": not 1 <= run.repeats <= MOST_RUNS,
        f"has {len(cases):,} cases, each {run.repeats:,} times, which exceeds the limit": (
            len(cases) > MOST_CASES or most_trials > MOST_TRIALS
        ),
        **{f"has the same {noun} twice": len({*keys}) < len(keys) for noun, keys in names.items()},
        "has a run of a case with an invalid repeat number": any(
            trial.key.number >= (run.repeats if trial.key.is_first else MOST_RUNS)
            for trial in trials
        ),
    }
    return next((fault for fault, applies in faults.items() if applies), "")
