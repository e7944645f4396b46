"""Which cases are quarantined in this run, by whose word, and which are new or changed in this pull request."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

from evalgate import errors
from evalgate.baseline.base import Base
from evalgate.config import quarantine
from evalgate.config.context import Context
from evalgate.config.quarantine import Reading
from evalgate.config.settings import Settings
from evalgate.errors import Problem, Severity
from evalgate.formats import fingerprints
from evalgate.model import CaseKey, Quarantine, Suite
from evalgate.results import history
from evalgate.results.history import PastRuns

NOT_HEADS, CHANGED = "quarantine-of-change", "quarantine-changed-case"
BROKEN, UNWATCHED = "quarantine-broken", "quarantine-unwatched"


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The cases that are quarantined, and what is to be told of the others that are listed."""

    cases: Mapping[CaseKey, Quarantine] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def in_force(
    settings: Settings, suites: tuple[Suite, ...], base: Base | None, context: Context, *, past: PastRuns | None
) -> InForce:
    """The quarantined cases of `suites`. A change cannot quarantine its own failures: the base's file counts, and only
    for cases that the change leaves as they are. On the base branch, and where there is no base, it is this checkout's.

    `base`: the one whose rules are known. `past`: what base runs did, None where that is not known.
    """
    reading, today = quarantine.read(settings.root), context.now.date()
    if context.on_base_branch or (base is None and not context.is_pull_request):
        return _in_force(reading, suites, {}, None, today, past=past)
    theirs = None if base is None else base.project.quarantine
    if base is None or theirs is None:
        if not reading.entries:
            return InForce()
        message = f"{quarantine.NAME} does not count: the base branch's is not known"
        return InForce(problems=(errors.note(NOT_HEADS, message, hint="Every case can block."),))
    found = _in_force(theirs, suites, base.project.renamed, _contents(base), today, past=past)
    # on the base nobody can mend them here
    unread = (dataclasses.replace(each, severity=Severity.WARNING) for each in theirs.problems)
    return dataclasses.replace(found, problems=(*unread, *found.problems))


def of_checkout(settings: Settings, suites: tuple[Suite, ...], *, today: dt.date) -> Mapping[CaseKey, Quarantine]:
    """The quarantined cases of results at hand, by the checkout's own list."""
    return _in_force(quarantine.read(settings.root), suites, {}, None, today, past=None).cases


def _in_force(
    reading: Reading,
    suites: tuple[Suite, ...],
    renamed: Mapping[str, str],
    contents: Mapping[CaseKey, str] | None,
    today: dt.date,
    *,
    past: PastRuns | None,
) -> InForce:
    """`contents`: fingerprints of the base's own cases by its own names; None: these are the cases."""
    listed = reading.by_case()
    known = {} if past is None else past.by_case()
    cases: dict[CaseKey, Quarantine] = {}
    problems: list[Problem] = []
    for suite in suites:
        for case in suite.eval_set.cases:
            key = (renamed.get(suite.key, suite.key), case.case_id)
            if key not in listed:
                continue
            entry = listed[key]
            problems += quarantine.dated([entry], today)
            if not entry.counts(today):
                continue
            if contents is not None and contents.get(key) != fingerprints.of_case(case):
                message = f"`{entry.name}` is quarantined, but this change edits the case, so it can block"
                problems.append(errors.note(CHANGED, message, case.place))
            elif key in known and history.is_broken(known[key]):
                message = f"`{entry.name}` is quarantined, but failed its last {history.BROKEN_RUNS} base runs"
                hint = f"It is broken ({entry.quarantine.owner}), so it can block again."
                problems.append(errors.warning(BROKEN, message, entry.place, hint))
            else:
                cases[suite.key, case.case_id] = entry.quarantine
    if cases and past is None:
        message = "nobody can tell whether quarantined cases have broken: there is no history of base runs"
        hint = "Set `data-branch` or `baseline-folder` (docs/quarantine.md)."
        problems.append(errors.note(UNWATCHED, message, hint=hint))
    return InForce(cases=cases, problems=tuple(problems))


def _contents(base: Base) -> dict[CaseKey, str]:
    """The base's own cases by its own names, as far as they are known."""
    suites = () if base.project.rules is None else base.project.rules.suites
    return {(suite.key, case.case_id): fingerprints.of_case(case) for suite in suites for case in suite.eval_set.cases}


def touched(suites: tuple[Suite, ...], base: Base | None) -> frozenset[CaseKey]:
    """The cases that are new in this change, or changed by it. None where the base has no evaluation file at all, or
    one that cannot be read and may have had them."""
    if base is None or base.project.rules is None or base.project.rules.unread:
        return frozenset()
    then = _contents(base)
    return frozenset(
        (suite.key, case.case_id)
        for suite in suites
        for case in suite.eval_set.cases
        if then.get((base.project.renamed.get(suite.key, suite.key), case.case_id)) != fingerprints.of_case(case)
    )
