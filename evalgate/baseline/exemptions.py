"""evalgate.yml's `quarantine`, cases that do not block for a while: the list that applies, which of
its entries count today, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from functools import partial

from evalgate import errors
from evalgate.config.context import Context
from evalgate.config.gate_file import QuarantineRule
from evalgate.config.settings import Settings
from evalgate.errors import Place, Problem
from evalgate.formats import fingerprints
from evalgate.model import CaseKey, Exemption, ExemptionKind, Suites, cases_of
from evalgate.results import history
from evalgate.text import words
from .base import Base, BaseProject

OF_CHANGE = "quarantine-of-change"
"""The code of a notice: only the base's list counts, not the change's."""
EXPIRED = "quarantine-expired"
"""The code of a warning: an entry ended, so its case blocks again."""
EXPIRES = "quarantine-expires"
"""The code of a warning: an entry ends within NOTICE_DAYS."""
TOO_LONG = "quarantine-too-long"
"""The code of a warning: an entry lasts longer than MOST_DAYS, so it does not count."""
MOST_DAYS = 90
"""The longest quarantine."""
NOTICE_DAYS = 7
"""A notice is given this long before a quarantine ends."""


def in_force(
    head_settings: Settings,
    suites: Suites,
    base: Base | None,
    context: Context,
    *,
    past: history.PastRuns | None,
) -> tuple[Mapping[CaseKey, Exemption], list[Problem]]:
    """The cases of `suites` that do not block, and the problems with the list. `past`: the results
    of base runs; None if unknown.

    A change cannot quarantine its own failures: the base's list applies, and only to cases that the
    change does not edit. On the base branch, and without a base, this checkout's list applies."""
    entries_of = partial(of_list, suites=suites, today=context.moment.date(), past=past)
    head_rules = head_settings.gate_file.quarantine
    base_settings = None if base is None else base.project.settings
    if context.trigger.on_base_branch or (base is None and not context.trigger.is_pull_request):
        return entries_of(head_settings, None)
    if base is not None and base_settings is not None:
        cases, problems = entries_of(base_settings, base.project)
        if head_rules != base_settings.gate_file.quarantine:
            message = "`quarantine`: the base's evalgate.yml counts, not this change's"
            place = head_settings.place_of("quarantine")
            notice = errors.note(OF_CHANGE, message, place, "It counts once it is merged.")
            problems.insert(0, notice)
        return cases, problems
    if head_rules:
        message = "`quarantine` does not count: the base branch's evalgate.yml is not known"
        return {}, [errors.note(OF_CHANGE, message, hint="Every case can block.")]
    return {}, []


def of_list(
    settings: Settings,
    base: BaseProject | None,
    *,
    suites: Suites,
    today: date,
    past: history.PastRuns | None,
) -> tuple[Mapping[CaseKey, Exemption], list[Problem]]:
    """The quarantined cases of `suites`, and the problems to report for the other entries.
    `settings`: with the list that applies. `base`: its checkout; None: that of the cases. `past`:
    the results of base runs; None if unknown."""
    rules = {rule.case: (number, rule) for number, rule in enumerate(settings.gate_file.quarantine)}
    runs_by_case = {} if past is None else past.by_case()
    base_cases = {} if base is None else cases_of(base.suites.values())
    cases: dict[CaseKey, Exemption] = {}
    problems: list[Problem] = []
    for suite in suites if rules else ():
        of_case = partial(fingerprints.of_case, simulator=suite.simulator)
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
                cases[suite.key, case.case_id] = Exemption(
                    kind=ExemptionKind.LISTED,
                    owner=rule.owner.strip(),
                    expires=rule.until.isoformat(),
                    reason=rule.reason,
                )
    if cases and past is None:
        message = "it is unknown if quarantined cases have broken: there is no history of base runs"
        hint = "Set `baseline-folder` (docs/quarantine.md)."
        problems.append(errors.note("quarantine-unwatched", message, hint=hint))
    return cases, problems


def lint(settings: Settings, suites: Suites, today: date) -> Iterator[Problem]:
    """Problems with entries: expired, about to expire, too late, or of no case in `suites`, if
    these are all."""
    names = {":".join(key) for key in cases_of(suites)}
    for number, rule in enumerate(settings.gate_file.quarantine):
        place = settings.place_of("quarantine", number)
        yield from _dated(rule, (rule.until - today).days, place)
        if not (rule.case in names or settings.paths or settings.grep):
            message = f"`quarantine`: there is no case `{rule.case}`"
            hint = words.did_you_mean(rule.case, names)
            yield errors.warning("quarantine-unknown-case", message, place, hint)


def _dated(rule: QuarantineRule, remaining_days: int, place: Place | None) -> Iterator[Problem]:
    """What is wrong with the date of an entry, or that it is near."""
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
