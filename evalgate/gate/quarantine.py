"""`evalgate quarantine`: put a case with mixed results on the list that people review, and show how those on it do."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from evalgate.comparison import pairing
from evalgate.config import quarantine
from evalgate.config.context import Context
from evalgate.config.quarantine import Entry
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError
from evalgate.formats import fingerprints
from evalgate.gate import prepare
from evalgate.model import CaseKey, Quarantine
from evalgate.results import file as results_file
from evalgate.results import history as results_history
from evalgate.results.history import PastRuns
from evalgate.results.output import RESULTS
from evalgate.text import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """How often a case passed, among the runs of it that were measured."""

    passed: int = 0
    measured: int = 0

    def __str__(self) -> str:
        return f"passed {self.passed} of {words.counted(self.measured, 'known run')}"


def add(settings: Settings, context: Context, key: CaseKey, given: Quarantine) -> Known:
    """Write the entry of a case; what is known of its runs. Raises ConfigError where there is no such case, it is
    listed already, or its runs do not differ: a case that always fails is broken."""
    prints = _prints(settings, context)
    name = ":".join(key)
    if key not in prints:
        hint = words.did_you_mean(name, [":".join(each) for each in prints], otherwise=_FORM)
        raise ConfigError(f"there is no case `{name}`", hint=hint)
    reading = quarantine.read(settings.root)
    if reading.problems:
        raise ConfigError.collected(reading.problems)
    if entry := reading.by_case().get(key):
        raise ConfigError(f"`{name}` is listed already", where=entry.place, hint="Edit that entry.")
    known = _known(settings, context, key, prints[key])
    more = f"Run it more often: `evalgate run {name} --runs 10`."
    if not known.passed and known.measured:
        message = f"`{name}` failed all {words.counted(known.measured, 'known run')}: it is broken"
        raise ConfigError(message, hint="A broken case is not quarantined. Fix the agent or the case.")
    if known.passed == known.measured:
        shown = f"{known}, so its results are not mixed" if known.measured else "has no known run"
        raise ConfigError(f"`{name}` {shown}", hint=more)
    path = settings.root / quarantine.NAME
    made = quarantine.with_entry(path.read_text(encoding="utf-8") if path.is_file() else "", key, given)
    if problems := quarantine.parse(made).problems:
        raise ConfigError.collected(problems)
    path.write_text(made, encoding="utf-8")
    return known


_FORM = "Name it as `evalgate run` does: `evals/loans.evalset.json:renewal`."


def listed(settings: Settings, context: Context) -> Iterator[str]:
    """A line for each entry: whose it is, until when, how its case did on the base branch, whether it counts."""
    reading = quarantine.read(settings.root)
    if reading.problems:
        raise ConfigError.collected(reading.problems)
    prints, today = _prints(settings, context), context.now.date()
    with results_history.opened(settings, context) as history:
        past = history.past or PastRuns()
    for entry in sorted(reading.entries, key=lambda each: each.quarantine.expires):
        why, state = entry.quarantine, _state(entry, past, is_there=entry.key in prints, today=today)
        yield f"{entry.name}  {why.owner}  until {why.expires}  {state}{f'  {why.reason}' if why.reason else ''}"


def _state(entry: Entry, past: PastRuns, *, is_there: bool, today: dt.date) -> str:
    case = past.by_case().get(entry.key)
    if not is_there:
        return "no such case: delete the entry"
    if not entry.counts(today):
        left = entry.days_left(today)
        return "expired: the case can block" if left < 0 else f"more than {quarantine.MOST_DAYS} days: does not count"
    if case is not None and results_history.is_broken(case):
        return f"broken: failed its last {results_history.BROKEN_RUNS} base runs, so the case can block"
    known = Known() if case is None else _of_history(past, entry.key)
    return f"quarantined ({known})" if known.measured else "quarantined"


def _prints(settings: Settings, context: Context) -> dict[CaseKey, str]:
    """The fingerprints of all cases."""
    project = prepare.prepare(settings.model_copy(update={"paths": (), "grep": ""}), environ=context.environ)
    return fingerprints.of_cases(project.suites)


def _known(settings: Settings, context: Context, key: CaseKey, content: str) -> Known:
    """From the history of base runs, and from the last run here, if that was of the same case."""
    with results_history.opened(settings, context) as history:
        past = history.past or PastRuns()
    found = _of_history(past, key)
    path = settings.root / settings.output / RESULTS
    if not path.is_file():
        return found
    run = results_file.read_results(path).run
    if run.fingerprints.get(key) != content or run.started_at in {each.at for each in past.runs}:
        return found
    uses = pairing.deciding(pairing.uses_by_case(run)[key])
    trials = [each for each in (*run.trials, *run.confirmations) if (each.key.suite, each.key.case_id) == key]
    outcomes = [pairing.passes(pairing.pattern_of(trial, uses)) for trial in trials]
    passed, measured = outcomes.count(True), len(outcomes) - outcomes.count(None)
    return Known(passed=found.passed + passed, measured=found.measured + measured)


def _of_history(past: PastRuns, key: CaseKey) -> Known:
    case = past.by_case().get(key)
    outcomes = () if case is None else case.outcomes[-results_history.RECENT :]
    return Known(passed=sum(each.passes for each in outcomes), measured=sum(each.measured for each in outcomes))


def until(context: Context, *, days: int) -> str:
    """The last day of an entry that is made now."""
    return (context.now.date() + dt.timedelta(days=days)).isoformat()
