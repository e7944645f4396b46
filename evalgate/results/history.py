"""The history of the base branch: what its last runs did, whether its model moved, how a finished run joins it."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from evalgate import errors
from evalgate.comparison import drift, pairing
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError, Problem, UnavailableError
from evalgate.formats import fingerprints
from evalgate.model import CaseKey, Drift, PastCase, Report, Run, Suite, Trend, VerdictKind
from evalgate.model.run import Count
from evalgate.model.trial import MOST
from evalgate.results import shapes
from evalgate.results import stores as results_stores
from evalgate.results.shapes import entry
from evalgate.results.stores import BADGE, HISTORY, Revise, Store, Warn
from evalgate.system import git
from evalgate.system.git import Repository
from evalgate.text import words

SCHEMA_VERSION: Final = 2
LAST_RUNS: Final = 50
"""How many base runs are remembered; a case that none of them had is forgotten."""
RECENT: Final = 20
"""How many of them tell how reliable a case is, and make a trend."""
SCORED: Final = 20
"""How many of them keep their scores, which a drift of graded ones is seen by."""
MOST_SCORES: Final = 20_000
"""A run with more of them keeps none: history.json is to stay small."""
DRIFT_DAYS: Final = 14
"""How long after it began a drift is told of."""
ENVIRONMENT: Final = ("framework_version", "python", "requirements")
"""What workers tell of their environment that may change what an agent does though its files are the same."""
UNKNOWN: Final = "unknown"
"""The content of a case, where a run does not tell."""

Mean: TypeAlias = Annotated[float, Field(ge=-MOST, le=MOST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run of the base branch; `number` counts all that ever were. `at`: ISO 8601, UTC; `means`: by criterion.

    `agent`: equal for the same agents in the same environment, "" where that is not known. `drift`: what was found when
    this run was added.
    """

    number: Count
    commit: str
    at: str
    means: Mapping[str, Mean] = field(default_factory=dict)
    agent: str = ""
    drift: Drift | None = None


class PastOutcome(NamedTuple):
    """What a case did in the run of this number: repeats that passed, that were measured, that were asked for."""

    number: Count
    passes: Count
    measured: Count
    runs: Count


class PastScores(NamedTuple):
    """The scores that a criterion gave the repeats of a case in the run of this number."""

    number: Count
    values: tuple[Mean, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseHistory:
    """Outcomes of a case, oldest first, since its content or its criteria were last changed.

    `question`: equal for equal content of the case. `fingerprint`: equal for an equal question and equal deciding
    criteria, thresholds included; outcomes of different ones are never counted together. `scores`: by criterion that
    decides, of the last `SCORED` runs.
    """

    suite: str
    case_id: str
    question: str = ""
    fingerprint: str
    outcomes: Annotated[tuple[PastOutcome, ...], Field(min_length=1)]
    scores: Mapping[str, tuple[PastScores, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """The last runs of the base branch, oldest first, and what their cases did."""

    runs: tuple[PastRun, ...] = ()
    cases: tuple[CaseHistory, ...] = ()

    def by_case(self) -> dict[CaseKey, CaseHistory]:
        """The cases by suite and case id."""
        return {(case.suite, case.case_id): case for case in self.cases}


# --- around a run --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What the stores remember of base runs, and where a finished run is kept.

    `past` None: nobody knows, as there is no store, or none that can be read. `problems`: what could not be read.
    """

    settings: Settings
    context: Context
    repo: Repository | None = None
    stores: Sequence[Store] = ()
    past: PastRuns | None = None
    problems: tuple[Problem, ...] = ()

    def trends(self, run: Run) -> tuple[Trend, ...]:
        """How each criterion of this run went in the last base runs; a shard shows none."""
        return () if self.settings.shard else trends(self.past or PastRuns(), means_of(run))

    def of_cases(self) -> dict[CaseKey, tuple[PastCase, ...]]:
        """How each case ended in the last base runs, oldest first."""
        past = self.past or PastRuns()
        runs = {run.number: run for run in past.runs[-RECENT:]}
        return {
            key: tuple(_past_case(each, runs[each.number]) for each in case.outcomes if each.number in runs)
            for key, case in past.by_case().items()
        }

    def drift(self, run: Run, *, adk_compat: bool = False) -> Drift | None:
        """What the unchanged agent of the base branch does otherwise than before, where that is recent; with this run,
        where it is to be kept."""
        past = self.past or PastRuns()
        if self.is_wanted and not self.settings.shard and run.complete and not run.truncated:
            past = update(past, summary_of(run, run.commit, adk_compat=adk_compat))
        found = recent_drift(past)
        is_recent = found is not None and (self.context.now - results_stores.moment(found.since)).days <= DRIFT_DAYS
        return found if is_recent else None

    @property
    def is_wanted(self) -> bool:
        """Whether the run is one of the base branch, which others are compared with."""
        wanted = self.settings.save_baseline
        return wanted == "always" or (wanted == "auto" and self.context.on_base_branch)

    def keep(self, report: Report) -> Report:
        """Keep a complete run on the base branch, whatever its verdict; the report, with what could not be kept."""
        run, settings, results = report.run, self.settings, report.files.get("results")
        # a shard is no base for anybody
        if not self.stores or results is None or settings.shard or not self.is_wanted or not run.complete:
            return report
        if run.truncated:  # it would take the place of a whole run
            self.context.say(f"the results are not stored: {run.truncated}")
            return report
        if not results_stores.has_conversation(run):  # an outage: nothing could be compared with it
            self.context.say("the results are not stored: the agent failed in every run")
            return report
        commit = run.commit or (self.repo.head if self.repo is not None else "")
        revise = add_run(summary_of(run, commit, adk_compat=report.policy.adk_compat), warn=self.context.say)
        unkept = []
        for store in self.stores:
            try:
                store.save(commit, Path(results), now=self.context.now, revise=revise)
            except EvalgateError as error:
                message = f"the results were not stored in the {store.name}: {error.message}"
                unkept.append(errors.warning("not-kept", message, hint=error.hint))
            else:
                self.context.say(f"results of {commit[:7]} stored in the {store.name}")
        return replace(report, problems=(*report.problems, *unkept))


@contextlib.contextmanager
def opened(settings: Settings, context: Context) -> Iterator[History]:
    """The stores that the settings name and what they remember, before any agent runs; says what cannot be used."""
    unknown = History(settings=settings, context=context)
    if not (settings.data_branch or settings.baseline_folder):
        yield unknown
        return
    with contextlib.ExitStack() as stack:
        try:
            found = git.open_repository(
                settings.root, environ=context.environ, token=context.token, under=context.cache / "bases"
            )
            repo = stack.enter_context(found)
            stores = results_stores.opened(settings, repo, root=settings.root, say=context.say)
        except EvalgateError as error:
            context.say(f"stored base results cannot be used: {error.message}")
            yield unknown
            return
        past, problems = read_first(stores)
        for problem in problems:
            context.say(problem.message)
        yield History(settings=settings, context=context, repo=repo, stores=stores, past=past, problems=problems)


def read_first(stores: Sequence[Store]) -> tuple[PastRuns | None, tuple[Problem, ...]]:
    """The first history that a store has, and a warning for each that could not be read. An empty one where no store
    has any; None where there may be one that could not be read, or no store."""
    unread: list[str] = []
    found = None
    for store in stores:
        try:
            found = read_history(store)
        except EvalgateError as error:
            unread.append(f"the history of base runs in the {store.name} was not read: {error.message}")
        if found is not None:
            break
    if found is None and not unread and stores:
        found = PastRuns()
    return found, tuple(errors.warning("history-unread", each) for each in unread)


# --- what it says --------------------------------------------------------------------------------


def _past_case(outcome: PastOutcome, run: PastRun) -> PastCase:
    kind = VerdictKind.PASS if outcome.passes == outcome.runs else VerdictKind.FAIL
    said = f"{outcome.passes} of {words.counted(outcome.runs, 'run')} passed"
    if not outcome.measured:
        kind, said = VerdictKind.NOT_MEASURED, "not measured"
    return PastCase(at=run.at, commit=run.commit, kind=kind, where="base branch", said=said)


BROKEN_RUNS: Final = 3
"""After so many base runs without a pass a case is broken, not unreliable."""


def is_broken(case: CaseHistory) -> bool:
    """Whether no repeat of the last measured base runs passed, by the base's own criteria."""
    measured = [outcome for outcome in case.outcomes if outcome.measured][-BROKEN_RUNS:]
    return len(measured) == BROKEN_RUNS and not any(outcome.passes for outcome in measured)


def is_mixed(outcomes: Sequence[PastOutcome]) -> bool:
    """Whether repeats of one run differed, or consecutive outcomes of a case turned twice, passed over what was not
    measured; a single turn may be a true change. Outcomes are compared with the last run whose repeats agreed."""
    turns = 0
    before: bool | None = None
    for outcome in outcomes:
        if not outcome.measured:
            continue
        if outcome.passes not in {0, outcome.measured}:
            return True
        passed = outcome.passes > 0
        turns += before is not None and passed is not before
        before = passed
    return turns > 1


def trends(past: PastRuns, now: Mapping[str, float], *, recent: int = RECENT) -> tuple[Trend, ...]:
    """How each criterion of this run went in the last base runs, where at least two of them have it.

    `now`: this run's means, in the order of the answer.
    """
    runs = past.runs[-recent:]
    found = [
        Trend(
            criterion=name,
            means=tuple(run.means.get(name) for run in runs),
            now=mean,
            since=runs[0].at if runs else "",
            until=runs[-1].at if runs else "",
        )
        for name, mean in now.items()
    ]
    return tuple(each for each in found if sum(mean is not None for mean in each.means) >= 2)


def render_badge(past: PastRuns) -> str:
    """How the cases of the newest run stand, as shields.io's endpoint reads it:
    `{"schemaVersion":1,"label":"evalgate","message":"42/45 · 2 mixed","color":"yellow"}`.

    A case that was not measured counts as not passed, and is named. Source: shields.io, endpoint badge.
    """
    newest = past.runs[-1].number if past.runs else 0
    cases = [case for case in past.cases if case.outcomes[-1].number == newest]
    last = [case.outcomes[-1] for case in cases]
    passed = sum(outcome.passes == outcome.runs > 0 for outcome in last)
    unmeasured = sum(outcome.measured < outcome.runs or not outcome.runs for outcome in last)
    mixed = sum(is_mixed(case.outcomes[-RECENT:]) for case in cases)
    message = f"{passed}/{len(cases)}" if cases else "no cases"
    message += f" · {mixed} mixed" if mixed else ""
    message += f" · {unmeasured} not measured" if unmeasured else ""
    if unmeasured == len(cases):
        color = "lightgrey"
    elif passed == len(cases):
        color = "green" if mixed else "brightgreen"
    else:
        share = passed / len(cases)
        color = "yellow" if share >= 0.9 else "orange" if share >= 0.7 else "red"
    badge = {"schemaVersion": 1, "label": "evalgate", "message": message, "color": color}
    return json.dumps(badge, ensure_ascii=False) + "\n"


# --- one run more --------------------------------------------------------------------------------


def summary_of(run: Run, commit: str, *, adk_compat: bool = False) -> PastRuns:
    """A run as the history of nothing else."""
    by_case = pairing.trials_by_case(run)
    rules = {suite.key: _rules(suite, adk_compat=adk_compat) for suite in run.suites}
    cases = []
    for key, uses in pairing.uses_by_case(run).items():
        deciding = pairing.deciding(uses)
        outcomes = [pairing.passes(pairing.pattern_of(trial, deciding)) for trial in by_case.get(key, ())]
        question = run.fingerprints.get(key) or UNKNOWN
        outcome = PastOutcome(1, outcomes.count(True), len(outcomes) - outcomes.count(None), run.repeats)
        fingerprint = fingerprints.digest([question, rules[key[0]]])
        known = {
            use.name: pairing.known(pairing.value_of(trial, use.name) for trial in by_case.get(key, ()))
            for use in deciding
        }
        cases.append(
            CaseHistory(
                suite=key[0],
                case_id=key[1],
                question=question,
                fingerprint=fingerprint,
                outcomes=(outcome,),
                # rounded, as what is tested; few digits, as there are many
                scores={
                    name: (PastScores(1, tuple(float(f"{value:.4g}") for value in values)),)
                    for name, values in known.items()
                    if values
                },
            )
        )
    if sum(len(each[0].values) for case in cases for each in case.scores.values()) > MOST_SCORES:
        cases = [replace(case, scores={}) for case in cases]
    this = PastRun(number=1, commit=commit, at=run.started_at, means=means_of(run), agent=_agent(run))
    return PastRuns(runs=(this,), cases=tuple(cases))


def _agent(run: Run) -> str:
    """The agents' own files and what they ran in, as one; "" where the files of one are not known."""
    if not run.codes or not all(run.codes.values()):
        return ""
    ran_in = {key: [about.get(name, "") for name in ENVIRONMENT] for key, about in run.agents.items()}
    return fingerprints.digest([sorted(run.codes.items()), ran_in])


def means_of(run: Run) -> dict[str, float]:
    """Each criterion's mean over all trials that have a score."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for trial in run.trials:
        for name in trial.grades:
            value = pairing.value_of(trial, name)
            if value is not None:
                values[name].append(value)
    return {name: fmean(each) for name, each in values.items()}


def update(past: PastRuns, new: PastRuns, *, last: int = LAST_RUNS) -> PastRuns:
    """The history with one more run (`summary_of`). The history of a case whose fingerprint changed starts anew."""
    number = past.runs[-1].number + 1 if past.runs else 1
    runs = (*past.runs, replace(new.runs[0], number=number))[-last:]
    cases = past.by_case()
    for case in new.cases:
        before = cases.get((case.suite, case.case_id))
        same = before is not None and before.fingerprint == case.fingerprint
        kept = [each for each in before.outcomes if each.number < number] if before is not None and same else []
        outcomes = (*kept, case.outcomes[0]._replace(number=number))
        then = before.scores if before is not None and same else {}
        scores = {name: (*then.get(name, ()), own[0]._replace(number=number)) for name, own in case.scores.items()}
        cases[case.suite, case.case_id] = replace(case, outcomes=outcomes, scores={**then, **scores})
    recent = []
    for _, case in sorted(cases.items()):
        outcomes = tuple(each for each in case.outcomes if each.number >= runs[0].number)
        if outcomes:
            recent.append(replace(case, outcomes=outcomes, scores=_last(case.scores, runs)))
    made = PastRuns(runs=runs, cases=tuple(recent))
    return replace(made, runs=(*runs[:-1], replace(runs[-1], drift=_look(made))))


def _last(scores: Mapping[str, Sequence[PastScores]], runs: Sequence[PastRun]) -> dict[str, tuple[PastScores, ...]]:
    """Those of the last runs."""
    since = runs[-SCORED:][0].number
    kept = {name: tuple(each for each in own if each.number >= since) for name, own in scores.items()}
    return {name: own for name, own in kept.items() if own}


# --- drift ---------------------------------------------------------------------------------------


def _look(past: PastRuns) -> Drift | None:
    """Whether the last runs differ from those before, of the same agent: looked at by the first run of a day, once, and
    since the last drift."""
    *before, last = past.runs
    if not last.agent or any(run.at[:10] == last.at[:10] for run in before):
        return None
    stretch = [last]
    for run in reversed(before):
        if run.agent != last.agent or run.drift is not None:
            break
        stretch.insert(0, run)
    by_number: dict[int, dict[CaseKey, tuple[int, int]]] = {run.number: {} for run in stretch}
    for case in past.cases:
        for outcome in case.outcomes:
            if outcome.number in by_number:
                by_number[outcome.number][case.suite, case.case_id] = (outcome.passes, outcome.measured)
    scores: dict[int, dict[str, dict[CaseKey, Sequence[float]]]] = {run.number: {} for run in stretch}
    for case in past.cases:
        for name, own in case.scores.items():
            for number, values in own:
                if number in scores:
                    scores[number].setdefault(name, {})[case.suite, case.case_id] = values
    return drift.look([drift.PastRun(run.at, by_number[run.number], scores[run.number]) for run in stretch])


def recent_drift(past: PastRuns) -> Drift | None:
    """The last drift that was found, of the agent that the base branch still has."""
    found = next((run for run in reversed(past.runs) if run.drift is not None), None)
    return found.drift if found is not None and past.runs[-1].agent in ("", found.agent) else None


def drifted_at(past: PastRuns | None) -> datetime | None:
    """Before when no stored result may be compared with: when the provider last moved; None where it did not."""
    drifts = [run.drift for run in (past.runs if past is not None else ()) if run.drift is not None]
    return results_stores.moment(drifts[-1].since) if drifts else None


def _rules(suite: Suite, *, adk_compat: bool) -> list[object]:
    """Equal for equal criteria: what passed a lower threshold has not passed a higher one."""
    uses = sorted(pairing.deciding(suite.criteria), key=lambda use: use.name)
    return [adk_compat] + [
        [use.name, float(use.threshold or 0), dict(use.options), use.code, use.lower_is_better, use.endpoint]
        for use in uses
    ]


# --- history.json --------------------------------------------------------------------------------


class UnreadableHistory(Exception):  # noqa: N818 - it says what is the matter
    """The text is no history. `newer`: it is one of a later version of evalgate, which must not be overwritten."""

    def __init__(self, message: str, *, newer: bool = False) -> None:
        super().__init__(message)
        self.newer = newer


HistoryFile: Any = entry(
    "HistoryFile",
    PastRuns,
    doc="The whole file. An outcome is four numbers: the run, repeats that passed, were measured, were asked for.",
    schema_version=(int, ...),
)
_RUNS: Final = TypeAdapter(list[PastRun])
_CASES: Final = TypeAdapter(list[CaseHistory])


class _Version(BaseModel):
    schema_version: int


def schema() -> dict[str, Any]:
    """The JSON schema of history.json."""
    return {"$schema": shapes.DIALECT} | TypeAdapter(HistoryFile).json_schema(by_alias=False)


def render_history(past: PastRuns) -> bytes:
    """history.json, one case a line so that its own history diffs well."""
    runs = _lines(_RUNS.dump_python(list(past.runs), mode="json", exclude_defaults=True))
    cases = _lines(_CASES.dump_python(list(past.cases), mode="json", exclude_defaults=True))
    text = f'{{"schema_version":{SCHEMA_VERSION},"runs":[\n{runs}\n],"cases":[\n{cases}\n]}}\n'
    return text.encode("utf-8", "replace")  # lone surrogates, which JSON readers refuse


def _lines(values: Iterable[Any]) -> str:
    return ",\n".join(json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values)


def parse_history(text: bytes) -> PastRuns:
    """The history in a file. Raises UnreadableHistory."""
    with contextlib.suppress(ValidationError):
        version = _Version.model_validate_json(text).schema_version
        if version != SCHEMA_VERSION:
            newer = version > SCHEMA_VERSION
            when = "a later" if newer else "an earlier"
            raise UnreadableHistory(f"schema_version {version} was written by {when} version of evalgate", newer=newer)
    try:
        past = shapes.restored(PastRuns, HistoryFile.model_validate_json(text))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"][:4])
        raise UnreadableHistory(f"{where}: {first['msg']}" if where else first["msg"]) from None
    for case in past.cases:
        if any(not passes <= measured <= runs for _, passes, measured, runs in case.outcomes):
            raise UnreadableHistory(f"{case.case_id[:80]}: more passed than were measured, or more than were asked for")
    by_case = [[outcome.number for outcome in case.outcomes] for case in past.cases]
    by_case += [[each.number for each in own] for case in past.cases for own in case.scores.values()]
    for numbers in ([run.number for run in past.runs], *by_case):
        if any(later <= earlier for earlier, later in itertools.pairwise(numbers)):
            raise UnreadableHistory("the runs are not in order")
    return past


def read_history(store: Store) -> PastRuns | None:
    """The history of a store; None where there is none.

    Raises UnavailableError where the store is out of reach or what it has cannot be read: that is not the same as none.
    """
    stored = store.read(HISTORY)
    if stored is None:
        return None
    try:
        return parse_history(stored)
    except UnreadableHistory as error:
        raise UnavailableError(f"it is damaged: {error}" if not error.newer else str(error)) from error


def add_run(run: PastRuns, *, warn: Warn = lambda _: None) -> Revise:
    """What `Store.save` is to do with the history: add this run.

    An unreadable history starts anew, with a warning; that of a later evalgate stays as it is, with one.
    """

    def revise(stored: bytes | None) -> Mapping[str, bytes]:
        try:
            past = parse_history(stored) if stored is not None else PastRuns()
        except UnreadableHistory as error:
            if error.newer:
                warn(f"this run is not in the history: {error}")
                return {}
            warn(f"the history cannot be read and starts over: {error}")
            past = PastRuns()
        past = update(past, run)
        return {HISTORY: render_history(past), BADGE: render_badge(past).encode()}

    return revise
