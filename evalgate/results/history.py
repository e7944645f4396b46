"""The history of the base branch: what its runs add to it, what it says of a case, a criterion, a branch; its file."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter, ValidationError

from evalgate.comparison import pairing
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError, Problem, Severity, UnavailableError
from evalgate.formats import fingerprints
from evalgate.model import (
    CaseHistory,
    CaseKey,
    CaseTally,
    Health,
    History,
    PastOutcome,
    PastRun,
    Policy,
    Reliability,
    Report,
    Run,
    RunSummary,
    Suite,
    Trend,
)
from evalgate.results import shapes
from evalgate.results import stores as results_stores
from evalgate.results.shapes import entry
from evalgate.results.stores import BADGE, HISTORY, Revise, Store, Warn
from evalgate.system import git
from evalgate.system.git import Repository

LAST_RUNS = 50
"""How many base runs the history remembers; a case that none of them had is forgotten."""

RECENT = 20
"""How many of them tell how reliable a case is, and make a trend."""


def update(history: History, summary: RunSummary, *, last: int = LAST_RUNS) -> History:
    """The history with one more run. The history of a case whose fingerprint changed starts anew."""
    number = history.runs[-1].number + 1 if history.runs else 1
    run = PastRun(number=number, commit=summary.commit, at=summary.at, means=dict(summary.means))
    runs = (*history.runs, run)[-last:]
    oldest = runs[0].number
    histories = by_case(history)
    for tally in summary.cases:
        key = (tally.suite, tally.case_id)
        histories[key] = _continued(histories.get(key), tally, number=number)
    kept = (_since(history, oldest) for _, history in sorted(histories.items()))
    return History(runs=runs, cases=tuple(history for history in kept if history.outcomes))


def by_case(history: History) -> dict[tuple[str, str], CaseHistory]:
    """The histories by suite and case id."""
    return {(history.suite, history.case_id): history for history in history.cases}


def judge(outcomes: Sequence[PastOutcome]) -> Reliability:
    """What consecutive outcomes of one case, oldest first, say; usually the `RECENT` last of a history."""
    measured = [outcome for outcome in outcomes if outcome.measured]
    mixed = flips = 0
    before: bool | None = None  # whether all repeats passed, the last time that they agreed
    for outcome in measured:
        agreed = outcome.passes in {0, outcome.measured}
        passed = outcome.passes == outcome.measured
        mixed += not agreed
        flips += agreed and before is not None and passed is not before
        before = passed if agreed else before
    passes = sum(outcome.passes for outcome in measured)
    repeats = sum(outcome.measured for outcome in measured)
    return Reliability(
        base_runs=len(measured),
        passes=passes,
        failures=repeats - passes,
        unmeasured=sum(outcome.runs - outcome.measured for outcome in outcomes),
        pass_rate=passes / repeats if repeats else None,
        mixed_runs=mixed,
        flips=flips,
    )


def is_admitted(history: CaseHistory | None, *, question: str, runs: int, pass_rate: float) -> bool:
    """Whether a case may gate: its last `runs` measured base runs passed at least at `pass_rate`, by the base's own
    criteria. By which criteria it is judged now plays no part, or a change could switch the gate off by raising a bar.

    A case that the base does not have, has with another content, or has measured too rarely may not: nobody knows.
    """
    if history is None or history.question != question:
        return runs <= 0
    measured = [outcome for outcome in history.outcomes if outcome.measured]
    if len(measured) < runs:
        return False
    rate = judge(measured[-runs:] if runs > 0 else ()).pass_rate
    return rate is None or rate >= pass_rate


def trends(history: History, now: Mapping[str, float], *, recent: int = RECENT) -> tuple[Trend, ...]:
    """How each criterion of this run went in the last base runs, where at least two of them have it.

    `now`: this run's means, in the order of the answer.
    """
    runs = history.runs[-recent:]
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


def examine(history: History, *, recent: int = RECENT) -> Health:
    """How the cases of the newest run stand."""
    newest = history.runs[-1].number if history.runs else 0
    present = [history for history in history.cases if history.outcomes[-1].number == newest]
    last = [history.outcomes[-1] for history in present]
    return Health(
        total=len(present),
        passed=sum(outcome.passes == outcome.runs > 0 for outcome in last),
        unmeasured=sum(outcome.measured < outcome.runs or not outcome.runs for outcome in last),
        flaky=sum(judge(history.outcomes[-recent:]).is_flaky for history in present),
    )


def _continued(history: CaseHistory | None, tally: CaseTally, *, number: int) -> CaseHistory:
    same = history is not None and history.fingerprint == tally.fingerprint
    # a case that a run names twice counts once
    before = [each for each in history.outcomes if each.number < number] if history is not None and same else []
    outcome = PastOutcome(number=number, passes=tally.passes, measured=tally.measured, runs=tally.runs)
    return CaseHistory(
        suite=tally.suite,
        case_id=tally.case_id,
        question=tally.question,
        fingerprint=tally.fingerprint,
        outcomes=(*before, outcome),
    )


def _since(history: CaseHistory, oldest: int) -> CaseHistory:
    if history.outcomes[0].number >= oldest:
        return history
    return CaseHistory(
        suite=history.suite,
        case_id=history.case_id,
        question=history.question,
        fingerprint=history.fingerprint,
        outcomes=tuple(outcome for outcome in history.outcomes if outcome.number >= oldest),
    )


# --- history.json ---------------------------------------------------------------------------------


SCHEMA_VERSION: Final = 2


class UnreadableHistory(Exception):  # noqa: N818 - it says what is the matter
    """The text is no history. `newer`: it is one of a later version of evalgate, which must not be overwritten."""

    def __init__(self, message: str, *, newer: bool = False) -> None:
        super().__init__(message)
        self.newer = newer


HistoryFile: Any = entry(
    "HistoryFile",
    History,
    doc="The whole file. An outcome is four numbers: the run, repeats that passed, were measured, were asked for.",
    schema_version=(int, ...),
)
_RUN: Final = TypeAdapter(PastRun)
_CASE: Final = TypeAdapter(CaseHistory)


def render_history(history: History) -> str:
    """history.json, one case a line so that its own history diffs well."""
    runs = ",\n".join(_RUN.dump_json(run).decode() for run in history.runs)
    cases = ",\n".join(_CASE.dump_json(_writable(case)).decode() for case in history.cases)
    return f'{{"schema_version":{SCHEMA_VERSION},"runs":[\n{runs}\n],"cases":[\n{cases}\n]}}\n'


def parse_history(text: bytes) -> History:
    """The history in a file. Raises UnreadableHistory."""
    version = _version(text)
    if version is not None and version != SCHEMA_VERSION:
        newer = version > SCHEMA_VERSION
        when = "a later" if newer else "an earlier"
        raise UnreadableHistory(f"schema_version {version} was written by {when} version of evalgate", newer=newer)
    try:
        history = shapes.restored(History, HistoryFile.model_validate_json(text))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"][:4])
        raise UnreadableHistory(f"{where}: {first['msg']}" if where else first["msg"]) from None
    for case in history.cases:
        if any(not passes <= measured <= runs for _, passes, measured, runs in case.outcomes):
            raise UnreadableHistory(f"{case.case_id[:80]}: more passed than were measured, or more than were asked for")
    for numbers in ([run.number for run in history.runs], *map(_numbers, history.cases)):
        if any(later <= earlier for earlier, later in itertools.pairwise(numbers)):
            raise UnreadableHistory("the runs are not in order")
    return history


def _numbers(case: CaseHistory) -> list[int]:
    return [outcome.number for outcome in case.outcomes]


def schema() -> dict[str, Any]:
    """The JSON schema of history.json."""
    return {"$schema": shapes.DIALECT} | TypeAdapter(HistoryFile).json_schema(by_alias=False)


class _Version(BaseModel):
    schema_version: int


def _version(text: bytes) -> int | None:
    try:
        return _Version.model_validate_json(text).schema_version
    except ValidationError:
        return None


def _writable(case: CaseHistory) -> CaseHistory:
    """Named without lone surrogates, which JSON readers refuse."""
    suite, case_id = (text.encode("utf-8", "replace").decode() for text in (case.suite, case.case_id))
    return case if (suite, case_id) == (case.suite, case.case_id) else replace(case, suite=suite, case_id=case_id)


# --- badge.json: how the base branch stands, as shields.io's endpoint reads it --------------------


LABEL = "evalgate"


def render_badge(health: Health) -> str:
    """`{"schemaVersion":1,"label":"evalgate","message":"42/45 · 2 flaky","color":"yellow"}`.

    A case that was not measured counts as not passed, and is named. Source: shields.io, endpoint badge.
    """
    parts = [f"{health.passed}/{health.total}" if health.total else "no cases"]
    if health.flaky:
        parts.append(f"{health.flaky} flaky")
    if health.unmeasured:
        parts.append(f"{health.unmeasured} not measured")
    badge = {"schemaVersion": 1, "label": LABEL, "message": " · ".join(parts), "color": _color(health)}
    return json.dumps(badge, ensure_ascii=False) + "\n"


def _color(health: Health) -> str:
    if not health.total or health.unmeasured == health.total:
        return "lightgrey"
    if health.passed == health.total:
        return "green" if health.flaky else "brightgreen"
    share = health.passed / health.total
    return "yellow" if share >= 0.9 else "orange" if share >= 0.7 else "red"


# --- in a store -----------------------------------------------------------------------------------


def adding(summary: RunSummary, *, warn: Warn = lambda _: None) -> Revise:
    """What `Store.save` is to do with the history: add this run.

    An unreadable history starts anew, with a warning; that of a later evalgate stays as it is, with one.
    """

    def revise(stored: bytes | None) -> Mapping[str, bytes]:
        try:
            history = parse_history(stored) if stored is not None else History()
        except UnreadableHistory as error:
            if error.newer:
                warn(f"this run is not in the history: {error}")
                return {}
            warn(f"the history is unreadable and starts anew: {error}")
            history = History()
        updated = update(history, summary)
        return {
            HISTORY: render_history(updated).encode("utf-8", "replace"),
            BADGE: render_badge(examine(updated)).encode(),
        }

    return revise


def read_history(store: Store) -> History | None:
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


# -- Keeping a run on the base branch for later pull requests --

ADMITTED_RATE = 1.0
"""What a case must have passed at in its last base runs before it decides, where `admission` asks for any."""
UNKNOWN = "unknown"
"""What a case asks, where a run does not tell."""


class BaseRuns:
    """What the stores of base results remember, read before any agent runs, and where a finished run is kept.

    `problems`: histories that could not be read. `renamed`: the base's name of an evaluation file by head's, where they
    differ.
    """

    def __init__(
        self,
        settings: Settings,
        context: Context,
        *,
        repo: Repository | None = None,
        stores: Sequence[Store] = (),
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._context = context
        self._repo = repo
        self._stores = stores
        self._renamed = renamed or {}
        self._history = History()
        self._is_known = True
        self.problems: tuple[Problem, ...] = ()

    def read(self, *, admission: int) -> None:
        """Read the first history that a store has. Without any store nothing is known of base runs."""
        unread: list[str] = []
        found = None
        for store in self._stores:
            try:
                found = read_history(store)
            except EvalgateError as error:
                unread.append(f"the history of base runs in the {store.name} was not read: {error.message}")
            if found is not None:
                break
        if admission and not self._stores:
            unread.append("no store of base results can be used, so there is no history of base runs")
        for each in unread:
            self._context.say(each)
        self._history = found or History()
        self._is_known = found is not None or not unread
        hint = "" if self._is_known or not admission else "Until it is readable, no case is quarantined."
        self.problems = tuple(
            Problem(severity=Severity.WARNING, code="history-unread", message=each, hint=hint) for each in unread
        )

    def trends(self, run: Run) -> tuple[Trend, ...]:
        """Each criterion's means over the last base runs, and this run's."""
        return trends(self._history, means_of(run))

    def quarantined(self, questions: Mapping[CaseKey, str], policy: Policy) -> frozenset[CaseKey]:
        """The cases that have not been reliable in the policy's `admission` base runs yet; `questions`: the
        fingerprints of all cases.

        A history that cannot be read lets no case off: an outage must not make a gate decide nothing.
        """
        if self._repo is None or not policy.admission:
            return frozenset()
        if not self._is_known:
            self._context.say("no case is quarantined: the history of base runs is unknown")
            return frozenset()
        histories = by_case(self._history)
        return frozenset(
            (suite, case_id)
            for (suite, case_id), question in questions.items()
            if not is_admitted(
                histories.get((self._renamed.get(suite, suite), case_id)),
                question=question or UNKNOWN,
                runs=policy.admission,
                pass_rate=ADMITTED_RATE,
            )
        )

    def keep(self, report: Report) -> Report:
        """Keep a complete run on the base branch, whatever its verdict: later runs are compared with what is there."""
        results, run = report.files.get("results"), report.run
        if self._repo is None or results is None or not run.complete or not self._is_kept():
            return report
        if run.truncated:  # it would take the place of a whole run
            self._context.say(f"the results are not stored: {run.truncated}")
            return report
        if not results_stores.has_conversation(run):  # an outage: nothing could be compared with it
            self._context.say("the results are not stored: the agent failed in every run")
            return report
        problems = self._saved(run, Path(results), commit=run.commit or self._repo.head, policy=report.policy)
        return dataclasses.replace(report, problems=(*report.problems, *problems))

    def _is_kept(self) -> bool:
        if self._settings.shard:  # a shard is no base for anybody
            return False
        wanted = self._settings.save_baseline
        return wanted == "always" or (wanted == "auto" and self._context.on_base_branch)

    def _saved(self, run: Run, results: Path, *, commit: str, policy: Policy) -> Iterator[Problem]:
        """Keep it in every store; what could not be kept."""
        summary = summary_of(run, commit, adk_compat=policy.adk_compat)
        for store in self._stores:
            try:
                store.save(commit, results, now=self._context.now, revise=adding(summary, warn=self._context.say))
            except EvalgateError as error:
                message = f"the results were not stored in the {store.name}: {error.message}"
                yield Problem(severity=Severity.WARNING, code="not-kept", message=message, hint=error.hint)
            else:
                self._context.say(f"results of {commit[:7]} stored in the {store.name}")


@contextlib.contextmanager
def opened(
    settings: Settings, context: Context, *, admission: int, renamed: Mapping[str, str] | None = None
) -> Iterator[BaseRuns]:
    """The stores that the settings name, to be kept in and for their history; of no store, with a line, where git does
    not know the folder."""
    named = bool(settings.data_branch or settings.baseline_folder)
    with contextlib.ExitStack() as stack:
        found = BaseRuns(settings, context)
        if named and (settings.admission or not settings.shard):  # a shard is not kept, and shows no trend
            try:
                root, under = settings.root, context.cache / "bases"
                repo = stack.enter_context(
                    git.open_repository(root, environ=context.environ, token=context.token, under=under)
                )
                stores = results_stores.opened(settings, repo, root=root, say=context.say)
            except EvalgateError as error:
                context.say(f"the stores of base results cannot be used: {error.message}")
            else:
                found = BaseRuns(settings, context, repo=repo, stores=stores, renamed=renamed)
                found.read(admission=admission)
        yield found


def _questions(run: Run) -> dict[CaseKey, str]:
    """Equal for equal content of a case."""
    keys = ((suite.key, case.case_id) for suite in run.suites for case in suite.eval_set.cases)
    return {key: run.fingerprints.get(key, "") or UNKNOWN for key in keys}


def _bar(suite: Suite, *, adk_compat: bool) -> list[object]:
    """Equal for equal criteria: what passed a lower bar has not passed a higher one."""
    uses = sorted(pairing.deciding(suite.criteria), key=lambda use: use.name)
    return [
        adk_compat,
        *(
            [use.name, float(use.threshold or 0), dict(use.options), use.code, use.lower_is_better, use.endpoint]
            for use in uses
        ),
    ]


def summary_of(run: Run, commit: str, *, adk_compat: bool = False) -> RunSummary:
    """What the history keeps of a run."""
    by_case = pairing.trials_by_case(run)
    questions = _questions(run)
    bars = {suite.key: _bar(suite, adk_compat=adk_compat) for suite in run.suites}
    tallies = []
    for key, uses in pairing.uses_by_case(run).items():
        deciding = pairing.deciding(uses)
        outcomes = [pairing.passes(pairing.pattern_of(trial, deciding)) for trial in by_case.get(key, ())]
        tally = CaseTally(
            suite=key[0],
            case_id=key[1],
            question=questions[key],
            fingerprint=fingerprints.digest([questions[key], bars[key[0]]]),
            passes=outcomes.count(True),
            measured=len(outcomes) - outcomes.count(None),
            runs=run.expected(*key),
        )
        tallies.append(tally)
    return RunSummary(commit=commit, at=run.started_at, cases=tuple(tallies), means=means_of(run))


def means_of(run: Run) -> dict[str, float]:
    """Each criterion's mean over all trials that have a score."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for trial in run.trials:
        for name in trial.grades:
            value = pairing.value_of(trial, name)
            if value is not None:
                values[name].append(value)
    return {name: fmean(each) for name, each in values.items()}
