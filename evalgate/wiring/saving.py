"""Keeping a run on the base branch for later pull requests: its results, the history, the badge."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import fmean

from evalgate.baseline.store import Store
from evalgate.config.settings import Settings
from evalgate.errors import EvalgateError, Problem, Severity
from evalgate.gate import pairing
from evalgate.gate.pairing import CaseKey
from evalgate.model import CaseTally, History, Policy, Run, RunSummary, Suite
from evalgate.pipeline import fingerprints
from evalgate.results import history
from evalgate.system import git
from evalgate.system.git import Repository
from evalgate.wiring import stores

ADMITTED_RATE = 1.0
"""What a case must have passed at in its last base runs before it decides, where `admission` asks for any."""
UNKNOWN = "unknown"
"""What a case asks, where a run does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What keeping needs: the repository, and the stores that the settings name."""

    repo: Repository
    stores: list[Store]
    say: Callable[[str], None]

    def save(self, run: Run, results: Path, *, policy: Policy, now: datetime) -> tuple[Problem, ...]:
        """Keep a finished run in every store; what could not be kept."""
        commit = run.commit or self.repo.head
        summary = summary_of(run, commit, adk_compat=policy.adk_compat)
        problems = []
        for store in self.stores:
            try:
                store.save(commit, results, now=now, revise=history.adding(summary, warn=self.say))
            except EvalgateError as error:
                message = f"the results were not stored in the {store.name}: {error.message}"
                problems.append(Problem(severity=Severity.WARNING, code="not-kept", message=message, hint=error.hint))
            else:
                self.say(f"results of {commit[:7]} stored in the {store.name}")
        return tuple(problems)


@contextlib.contextmanager
def opened(
    settings: Settings,
    root: Path,
    *,
    environ: Mapping[str, str],
    token: str | None,
    cache: Path,
    say: Callable[[str], None],
) -> Iterator[Keeping | None]:
    """The stores of a run that is to be kept; None, with a line, where git does not know the folder."""
    with contextlib.ExitStack() as stack:
        try:
            repo = stack.enter_context(git.open_repository(root, environ=environ, token=token, under=cache / "bases"))
            named = stores.opened(settings, repo, root=root, say=say)
        except EvalgateError as error:
            say(f"the stores of base results cannot be used: {error.message}")
            yield None
            return
        yield Keeping(repo=repo, stores=named, say=say)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The first history that a store has; `known` False: there may be one, and it could not be read. `problems`: the
    histories that could not. `renamed`: the base's name of an evaluation file by head's, where they differ."""

    history: History = field(default_factory=History)
    known: bool = True
    problems: tuple[Problem, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)


def past_of(named: Sequence[Store], *, admission: int, say: Callable[[str], None]) -> Past:
    """What base runs of the past say, by the stores in their order. Without any store nothing is known of them."""
    unread: list[str] = []
    found = None
    for store in named:
        try:
            found = history.read_history(store)
        except EvalgateError as error:
            unread.append(f"the history of base runs in the {store.name} was not read: {error.message}")
        if found is not None:
            break
    if admission and not named:
        unread.append("no store of base results can be used, so there is no history of base runs")
    for each in unread:
        say(each)
    known = found is not None or not unread
    hint = "Until it is readable, no case is quarantined." if admission and not known else ""
    problems = (Problem(severity=Severity.WARNING, code="history-unread", message=each, hint=hint) for each in unread)
    return Past(history=found or History(), known=known, problems=tuple(problems))


def unreliable(past: Past, run: Run, *, policy: Policy, say: Callable[[str], None]) -> frozenset[CaseKey]:
    """The cases of a run that have not been reliable in the policy's `admission` base runs yet.

    A history that cannot be read lets no case off: an outage must not make a gate decide nothing.
    """
    if not past.known:
        say("no case is quarantined because the ledger is unknown")
        return frozenset()
    histories = history.by_case(past.history)
    return frozenset(
        (suite, case_id)
        for (suite, case_id), question in _questions(run).items()
        if not history.is_admitted(
            histories.get((past.renamed.get(suite, suite), case_id)),
            question=question,
            runs=policy.admission,
            pass_rate=ADMITTED_RATE,
        )
    )


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
