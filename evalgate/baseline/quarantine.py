"""The quarantine of a run, from evalgate.yml's `quarantine`: the list that decides, and cases that
this pull request adds or edits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

from evalgate import errors
from evalgate.config.context import Context
from evalgate.config.gate_file import QuarantineRule
from evalgate.config.settings import Settings
from evalgate.errors import Place, Problem
from evalgate.formats import fingerprints
from evalgate.model import CaseKey, Quarantine, Suite, cases_of
from evalgate.results import history
from evalgate.results.history import PastRuns
from evalgate.text import words
from .base import Base, BaseProject

EXPIRED = "quarantine-expired"
UNKNOWN = "quarantine-unknown-case"
EXPIRES = "quarantine-expires"
TOO_LONG = "quarantine-too-long"
MOST_DAYS = 90
"""The longest quarantine."""
NOTICE_DAYS = 7
"""A notice is given this long before a quarantine ends."""


QuarantineInForce: TypeAlias = tuple[Mapping[CaseKey, Quarantine], tuple[Problem, ...]]
"""The quarantined cases, and the problems to report for the other entries."""


def in_force(
    settings: Settings,
    suites: tuple[Suite, ...],
    base: Base | None,
    context: Context,
    *,
    past: PastRuns | None,
) -> QuarantineInForce:
    """The quarantined cases of `suites`. A change cannot quarantine its own failures: the base's
    list applies, and only to cases that the change does not edit. On the base branch, and without a
    base, this checkout's list applies.

    `base`: the base with known rules. `past`: the results of base runs; None if unknown."""
    entries = settings.gate_file.quarantine
    if context.on_base_branch or (base is None and not context.is_pull_request):
        return _in_force(settings, suites, None, context.moment.date(), past=past)
    base_settings = None if base is None else base.project.settings
    if base is None or base_settings is None:
        message = "`quarantine` does not count: the base branch's evalgate.yml is not known"
        notice = errors.note("quarantine-of-change", message, hint="Every case can block.")
        return {}, (notice,) if entries else ()
    cases, problems = _in_force(
        base_settings, suites, base.project, context.moment.date(), past=past
    )
    if entries == base_settings.gate_file.quarantine:
        return cases, problems
    message = "`quarantine`: the base's evalgate.yml counts, not this change's"
    notice = errors.note(
        "quarantine-of-change",
        message,
        settings.place_of("quarantine"),
        "It counts once it is merged.",
    )
    return cases, (notice, *problems)


def of_checkout(
    settings: Settings, suites: tuple[Suite, ...], *, today: dt.date
) -> Mapping[CaseKey, Quarantine]:
    """The quarantined cases of existing results, by the checkout's own list."""
    return _in_force(settings, suites, None, today, past=None)[0]


def lint(settings: Settings, suites: Iterable[Suite], today: dt.date) -> Iterator[Problem]:
    """Problems with entries: expired, about to expire, too late, or of no case in `suites`, if
    these are all."""
    names = {":".join(key) for key in cases_of(suites)}
    for number, rule in enumerate(settings.gate_file.quarantine):
        place = settings.place_of("quarantine", number)
        yield from _dated(rule, (rule.until - today).days, place)
        if not (rule.case in names or settings.paths or settings.grep):
            message = f"`quarantine`: there is no case `{rule.case}`"
            yield errors.warning(UNKNOWN, message, place, words.did_you_mean(rule.case, names))


def _dated(rule: QuarantineRule, remaining_days: int, place: Place | None) -> Iterator[Problem]:
    until = f"the quarantine of `{rule.case}` ({rule.owner})"
    hint = "Fix the case and delete the entry, or renew it in a pull request."
    if remaining_days < 0:
        message = f"{until} expired on {rule.until}: the case can block again"
        yield errors.warning(EXPIRED, message, place, hint)
    elif remaining_days > MOST_DAYS:
        message = f"{until} lasts until {rule.until}, more than {MOST_DAYS} days: it does not count"
        yield errors.warning(TOO_LONG, message, place, "Choose an earlier date; it can be renewed.")
    elif remaining_days <= NOTICE_DAYS:
        days = "today" if not remaining_days else f"in {words.counted(remaining_days, 'day')}"
        message = f"{until} expires {days}, at the end of {rule.until} (UTC)"
        yield errors.warning(EXPIRES, message, place, hint)


def _in_force(
    settings: Settings,
    suites: tuple[Suite, ...],
    base: BaseProject | None,
    today: dt.date,
    *,
    past: PastRuns | None,
) -> QuarantineInForce:
    """`settings`: with the list that applies. `base`: its checkout; None: that of the cases."""
    rules = {rule.case: (number, rule) for number, rule in enumerate(settings.gate_file.quarantine)}
    runs_by_case = {} if past is None else past.by_case()
    base_cases = {} if base is None else cases_of(base.suites.values())
    cases: dict[CaseKey, Quarantine] = {}
    problems: list[Problem] = []
    for suite in suites if rules else ():
        for case in suite.cases:
            key = (suite.key if base is None else base.name_of(suite.key), case.case_id)
            if ":".join(key) not in rules:
                continue
            number, rule = rules[":".join(key)]
            remaining_days = (rule.until - today).days
            place = settings.place_of("quarantine", number)
            problems += _dated(rule, remaining_days, place)
            if not 0 <= remaining_days <= MOST_DAYS:
                continue
            base_case = base_cases.get((suite.key, case.case_id))
            of_case = partial(fingerprints.of_case, simulator=suite.simulator)
            if base is not None and (base_case is None or of_case(base_case) != of_case(case)):
                message = (
                    f"`{rule.case}` is quarantined, but this change edits the case, so it can block"
                )
                problems.append(errors.note("quarantine-changed-case", message, case.place))
            elif key in runs_by_case and history.is_broken(runs_by_case[key]):
                message = f"`{rule.case}` is quarantined, but failed its last {history.BROKEN_RUNS} base runs"
                hint = f"It is broken ({rule.owner}), so it can block again."
                problems.append(errors.warning("quarantine-broken", message, place, hint))
            else:
                until = rule.until.isoformat()
                owner = rule.owner.strip()
                cases[suite.key, case.case_id] = Quarantine(
                    owner=owner, expires=until, reason=rule.reason
                )
    if cases and past is None:
        message = "it is unknown if quarantined cases have broken: there is no history of base runs"
        hint = "Set `baseline-folder` (docs/quarantine.md)."
        problems.append(errors.note("quarantine-unwatched", message, hint=hint))
    return cases, tuple(problems)
