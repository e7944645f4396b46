"""What is in force: the two rule books of a run, the change's own and the base's, with the change's
edits to them; and the settings, each the door's, the base's or the change's, as its row defines."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel

from evalgate import agents, config, errors
from evalgate.agents import toolbox
from evalgate.agents.base import ToolMode
from evalgate.config import Decider, Door, load, places, settings as config_settings
from evalgate.config.context import Context
from evalgate.config.gate_file import JudgeOptionsRule, JudgeRule
from evalgate.config.settings import Settings
from evalgate.criteria import judges as criteria_judges
from evalgate.discovery import agents as discovery_agents, project, walk
from evalgate.discovery.agent_source import ImportGraph
from evalgate.errors import Place, Problem
from evalgate.formats import FORMATS, fingerprints
from evalgate.judges import clients, models
from evalgate.model import (
    AgentUse,
    BaseSource,
    Case,
    CaseKey,
    CriterionUse,
    EditKind,
    Edits,
    Exemption,
    GateEdit,
    PlanPart,
    Policy,
    RuleBook,
    SimulatorUse,
    Suite,
    Suites,
)
from evalgate.results import history as results_history, run_parts
from evalgate.results.history import History
from evalgate.text import plain, words
from evalgate.values import Environ, Json, Sentence, frozen_dataclass, member, without
from . import base as baseline_base, exemptions, failures
from .base import Base, BaseRules

UNKNOWN_RULES = "base-rules-unknown"
"""The code of a warning: the base's rules must decide, but some cannot be read."""
UNCHECKED_RULES = "base-rules-unchecked"
"""The code of a warning: whether the change relaxes unreadable rules is unknown."""
SEVERITY_OF_BASE = "severity-of-base"
"""The code of a note: a suite's severity is the base's."""
REVIEW_HINT = "Fix the base, or check by hand what this change does to evalgate.yml, evaluation files and criteria."
"""What to do if the base's rules cannot be read."""
BASE_NAME = "{} (base's)"
"""The name of a base criterion if head has another criterion of that name."""
SELECTION_SETTINGS = ("paths", "grep")
"""Settings that select cases; `exclude` does too."""
SEVERITY_WORDS = {False: "gating", True: "advisory"}
"""By whether a suite is advisory."""


@frozen_dataclass
class Rules:
    """The measured suites, and the rule books that decide."""

    settings: Settings
    """Those in force."""
    suites: Suites
    """Also with the base's criteria that only its book reads, informational for the change's."""
    books: tuple[RuleBook, ...]
    """The change's, and the base's if it differs."""
    edits: Edits = field(default_factory=Edits)
    """What the change does to the rules, the cases and the files that measure it."""
    both_decide: bool = False
    """True if the worse of two verdicts counts."""
    problems: tuple[Problem, ...] = ()
    """With unreadable rules, and with their requirements."""
    part: PlanPart | None = None
    """The part of a plan in `suites`; None: the whole plan."""

    @property
    def policy(self) -> Policy:
        """The change's own policy."""
        return self.books[0].policy

    def books_with(self, cases: Mapping[CaseKey, Exemption]) -> tuple[RuleBook, ...]:
        """The books, with cases that never decide."""
        return tuple(
            RuleBook(policy=book.policy.with_exemptions(cases), criteria=book.criteria)
            for book in self.books
        )

    def books_on(self, today: date) -> tuple[RuleBook, ...]:
        """The books on a day, with the checkout's own list of cases that do not block."""
        cases, _ = exemptions.of_list(
            self.settings, None, suites=self.suites, today=today, past=None
        )
        return self.books_with(cases)


def in_force(
    head_settings: Settings,
    suites: Suites,
    base: Base | None,
    context: Context | None = None,
    *,
    compared: Base | None = None,
    hint: str = REVIEW_HINT,
) -> Rules:
    """The rules for head's `suites`: the measurement, and the books that decide. `base`: the base
    whose rules count; `compared`: the base that is run.

    evalgate.yml is part of the change: if the base's sets `policy: both`, head's cannot revoke it.
    Unreadable rules of the base are a problem. `context` None: no run follows. `hint`: what to do
    if the base's rules are unknown."""
    # a merged change decides for the base from now on
    if context is not None and context.trigger.on_base_branch:
        base = None
    settings, notices = settings_in_force(head_settings, base, context)
    base_settings = None if base is None else base.project.settings
    base_rules = None if base is None else base.project.rules
    if base_rules is None and base_settings is not None and base_settings.places is not None:
        # the base has no evaluation file yet: the rules of its evalgate.yml
        base_rules = BaseRules(suites=(), policy=load.policy_of(base_settings, ()))
    is_both = baseline_base.both_decide(head_settings, base_settings)
    if base_rules is None:
        policy = load.policy_of(settings, suites)
        policy, problems = _head_policy(
            policy, base, is_both=head_settings.policy == "both", hint=hint
        )
        books, edits = [RuleBook(policy=policy)], Edits()
    else:
        if context is not None and base_settings is not None:
            environ = context.environ
            suites += _dropped(head_settings, base_settings, suites, base_rules, environ=environ)
        suites = _without_lost(suites, base_rules)
        policy = load.policy_of(settings, suites)
        problems = [*_severity_notices(policy, suites, base_rules)]
        if base_rules.errors:
            problems += _unreadable_rules(base_rules, both_decide=is_both)
        suites, books, edits = _both_rules(
            head_settings, policy, suites, base_settings, base_rules, both_decide=is_both
        )
    if settings.gate_file.judge != head_settings.gate_file.judge:
        # each criterion has the address of its judge
        suites = criteria_judges.settle_suites(suites, criteria_judges.defaults_of(settings))
    if base is not None and context is not None and context.trigger.is_pull_request:
        suites = tuple(_with_client_options(suite, base, problems) for suite in suites)
    if base is not None and compared is not None:
        suites = _with_base_code(suites, edits, base, compared, root=settings.root)
    return Rules(
        settings=settings,
        suites=suites,
        books=tuple(books),
        edits=edits,
        both_decide=is_both and base_rules is not None,
        problems=(*notices, *problems),
    )


def open_history(
    rules: Rules,
    head_settings: Settings,
    base: Base | None,
    context: Context,
    *,
    part: PlanPart | None = None,
    notices: Iterable[Problem] = (),
) -> tuple[Rules, History]:
    """The history of base runs; and the rules for `part` of the plan, with the cases that do not
    block for a while, and with more problems: `notices`, and those of the history and of these
    cases. `base`: see `in_force`."""
    # a run of the base branch uses its own store
    settings = head_settings if context.trigger.on_base_branch else rules.settings
    history = History(settings=settings, context=context)
    if settings.baseline_folder:
        history = results_history.open_history(settings, context)
    suites = rules.suites if part is None else run_parts.suites_of(rules.suites, part)
    known_settings = (head_settings, base.project.settings if base else None)
    if any(known.gate_file.quarantine for known in known_settings if known):
        cases, problems = exemptions.in_force(
            head_settings, suites, base, context, past=history.past
        )
    else:
        cases, problems = {}, []
    complete_rules = replace(
        rules,
        suites=suites,
        books=rules.books_with(cases),
        problems=(*rules.problems, *notices, *history.problems, *problems),
        part=part,
    )
    return complete_rules, history


def _head_policy(
    policy: Policy, base: Base | None, *, is_both: bool, hint: str
) -> tuple[Policy, list[Problem]]:
    """The policy of only the change's own book, with a warning if the base's is needed but unknown.
    `is_both`: both books should decide."""
    if base is None or base.no_agent or base.origin.source is BaseSource.FILE:
        return policy, []  # the base's rules are not needed
    if base.problem and is_both:
        # the base's rules should decide, and head's must not tolerate errors of the base
        message = f"`policy: both`: head's rules apply because the base's rules are unknown: {base.problem}"
        return policy.blocking(), [errors.warning(UNKNOWN_RULES, message, hint=hint)]
    if base.problem:
        # the comparison reports a failed base
        reason = "" if base.base_failed else f": {base.problem}"
        message = f"could not check whether this change relaxes the base's rules{reason}"
        return policy, [errors.warning(UNCHECKED_RULES, message, hint=hint)]
    message = "`policy: both`: the base has no evaluation files, so head's rules apply"
    return policy, [errors.warning(UNKNOWN_RULES, message)] if is_both else []


def _both_rules(
    head_settings: Settings,
    head_policy: Policy,
    suites: Suites,
    base_settings: Settings | None,
    rules: BaseRules,
    *,
    both_decide: bool,
) -> tuple[Suites, list[RuleBook], Edits]:
    """The suites with the criteria of both books; the change's book, and the base's if the change
    edits a rule that decides; and the edits. If both decide, each starts with half of the money."""
    keys = {suite.key for suite in suites}
    base_suites = {suite.key: suite for suite in rules.suites if suite.key in keys}
    file_edits = [*_file_edits(base_settings, head_settings, (*rules.suites, *suites))]
    metric_files = _metric_files(suites, head_settings.root)
    are_metrics_edited = any(edit.subject in metric_files for edit in file_edits)
    policy, base_policy = _policy_pair(
        head_policy, suites, base_settings or head_settings, rules, base_suites
    )
    edits = [*_policy_edits(base_policy, policy, keys)] if base_policy != policy else []
    common_suites = []
    base_criteria: dict[str, tuple[CriterionUse, ...]] = {}
    unasked: list[str] = []
    for suite in suites:
        base_suite = base_suites.get(suite.key)
        if (
            base_suite is None
            or suite.problem
            or suite.key in rules.unruled
            or any(use.is_of_ces for use in base_suite.criteria)
            or (base_suite.criteria == suite.criteria and not are_metrics_edited)
        ):
            common_suites.append(suite)
            continue
        base_uses = base_suite.criteria
        uses, further_uses, unasked_names = _criteria_of_base(
            base_uses, suite, both_decide=both_decide, are_metrics_edited=are_metrics_edited
        )
        unasked += unasked_names
        common_suites.append(suite.with_criteria((*suite.criteria, *further_uses)))
        suite_edits = [*_criterion_edits(base_uses, suite, are_metrics_edited=are_metrics_edited)]
        if suite_edits:
            base_criteria[suite.key] = tuple(uses)
            edits += suite_edits
    books = [RuleBook(policy=policy)]
    if edits:
        books.append(RuleBook(policy=base_policy, criteria=base_criteria))
    shares = len(books) if both_decide else 1
    return (
        tuple(common_suites),
        [book.divided(shares) for book in books],
        Edits(
            edits=(*edits, *file_edits, *_case_edits(rules.suites, suites)),
            both_decide=shares > 1,
            unasked=tuple(unasked),
        ),
    )


def _policy_pair(
    head_policy: Policy,
    suites: Suites,
    base_settings: Settings,
    rules: BaseRules,
    base_suites: Mapping[str, Suite],
) -> tuple[Policy, Policy]:
    """The policies of the change's book and of the base's. Severity is the base's for each of its
    suites; what ends the job is the same in both. New suites have the rules of each evalgate.yml.

    If head broke a file that the base can measure, unmeasured results block: a `fail-on` without
    them is meant for outages. An empty `fail-on` remains empty."""
    base_advisory = rules.policy.advisory & base_suites.keys()
    advisory = (head_policy.advisory - base_suites.keys()) | base_advisory
    broken_keys = {suite.key for suite in suites if suite.problem or suite.agent.is_absent}
    broken_keys -= advisory | rules.unruled
    is_broken = any(
        suite.cases and suite.key in broken_keys and not baseline_base.is_unknown(suite.agent)
        for suite in rules.suites
    )
    if head_policy.fail_on and is_broken:
        head_policy = head_policy.blocking()
    new_policy = load.policy_of(
        base_settings, [suite for suite in suites if suite.key not in base_suites]
    )
    base_policy = replace(
        rules.policy,
        suite_pass_rate={**rules.policy.suite_pass_rate, **new_policy.suite_pass_rate},
        advisory=rules.policy.advisory | new_policy.advisory,
        fail_on=head_policy.fail_on,
        deviations=head_policy.deviations,
    )
    return replace(head_policy, advisory=advisory), base_policy


def _with_base_code(
    suites: Suites, edits: Edits, base: Base, compared: Base, *, root: Path
) -> Suites:
    """The suites, with the base's commit at custom metrics: the base's code scores both sides, in
    the base's environment. If the change edits a metric, also with the digest of its files in
    `root`: they replace the base's. See `in_force`."""
    is_base = compared.root is not None and compared.origin.commit == base.origin.commit
    has_metric = any(use.code for suite in suites for use in suite.criteria)
    if not (is_base and has_metric) or base.project.rules is None:
        return suites
    base_suites = base.project.suites
    metric_files = _metric_files(suites, root)
    is_edited = any(edit.subject in metric_files for edit in edits.edits)
    commit = base.origin.commit
    edited_commit = f"{commit}+{_digest_of_files(root, room_files(suites, root))[:16]}"

    def code_commit(base_suite: Suite | None, use: CriterionUse) -> Json:
        """The commit whose code scores by a custom metric: the base's, or the change's edit of
        it."""
        if not use.code:
            return {}
        base_uses = base_suite.criteria if base_suite else ()
        is_same = any(_has_same_options(use, base_use) for base_use in base_uses) and not is_edited
        return {"code_commit": commit if is_same else edited_commit}

    return tuple(
        suite.with_changes(partial(code_commit, base_suites.get(suite.key))) for suite in suites
    )


def _dropped(
    head_settings: Settings,
    base_settings: Settings,
    suites: Iterable[Suite],
    rules: BaseRules,
    *,
    environ: Environ,
) -> Suites:
    """Suites of existing files that the base evaluates and the change's evalgate.yml no longer
    selects."""
    selected_keys = {suite.key for suite in suites}
    dropped_suites = [
        suite
        for suite in rules.suites
        if suite.key not in selected_keys and (head_settings.root / suite.key).is_file()
    ]
    if not dropped_suites:
        return ()
    gate_file = head_settings.gate_file.model_copy(
        update={"exclude": base_settings.gate_file.exclude}
    )
    selection = {
        name: getattr(base_settings, name)
        for name in SELECTION_SETTINGS
        if name not in head_settings.explicit_options
    }
    base_selection = head_settings.model_copy(update={**selection, "gate_file": gate_file})
    all_suites = project.prepare(base_selection, environ=environ).set_apart().suites
    suites_by_key = {suite.key: suite for suite in all_suites}
    return tuple(suites_by_key.get(suite.key) or _lost_suite(suite) for suite in dropped_suites)


def _lost_suite(base_suite: Suite) -> Suite:
    """A suite for a file that the base evaluates and the change does not, although it exists."""
    return project.unmeasured(
        base_suite.key,
        base_suite.criteria_source,
        str(Sentence("suite_lost", [case.case_id for case in base_suite.cases])),
    )


def _without_lost(suites: Suites, rules: BaseRules) -> Suites:
    """The suites. A suite is not measured if its file holds another CES evaluation than on the
    base: its name is its identity."""
    evaluations = {
        suite.key: suite for suite in rules.suites if suite.is_of_ces and len(suite.cases) == 1
    }
    lost_keys = {
        suite.key
        for suite in suites
        if suite.key in evaluations
        and not suite.problem
        and evaluations[suite.key].cases[0].case_id not in {case.case_id for case in suite.cases}
    }
    return tuple(
        _lost_suite(evaluations[suite.key]) if suite.key in lost_keys else suite for suite in suites
    )


def _severity_notices(policy: Policy, suites: Suites, rules: BaseRules) -> Iterator[Problem]:
    """A notice for each of the base's suites whose severity the change sets differently. `policy`:
    the change's."""
    base_advisory = rules.policy.advisory
    keys = {suite.key for suite in suites} & {suite.key for suite in rules.suites}
    for key in sorted(keys & (base_advisory ^ policy.advisory)):
        severities = [
            SEVERITY_WORDS[key in advisory] for advisory in (base_advisory, policy.advisory)
        ]
        message = f"`severity` of {key}: the base's counts ({severities[0]}), not this change's ({severities[1]})"
        yield errors.note(SEVERITY_OF_BASE, message, hint=HINT)


RULE_FIELDS = ("threshold", "informational", "lower_is_better", "on_the_test", "where_applicable")
"""Fields of a criterion that decide on its scores."""


def _criteria_of_base(
    base_criteria: Iterable[CriterionUse],
    suite: Suite,
    *,
    both_decide: bool,
    are_metrics_edited: bool,
) -> tuple[list[CriterionUse], list[CriterionUse], list[str]]:
    """The criteria of the base's book, which decide by head's scores if both criteria measure the
    same; the further ones that are scored only for it, informational for head's book; and the names
    of judged criteria that are skipped because the base's book does not decide."""
    head_uses = {use.name: use for use in suite.criteria}
    uses = []
    further_uses = []
    unasked_names = []
    for use in base_criteria:
        head_use = head_uses.get(use.name)
        is_edited = use.code is not None and are_metrics_edited
        # judges are ignored, because they are asked once
        is_same = head_use is not None and _has_same_options(use, head_use) and not is_edited
        if head_use is not None and is_same:
            scored_use = head_use
        elif use.informational:
            continue
        elif use.is_judged and not both_decide:
            unasked_names.append(f"`{use.name}` in {suite.key}")
            continue
        else:
            scored_use = replace(
                use,
                name=use.name if head_use is None else BASE_NAME.format(use.name),
                metric=use.metric or use.name,
                threshold=None,
                informational=True,
            )
            further_uses.append(scored_use)
        uses.append(replace(scored_use, **{name: getattr(use, name) for name in RULE_FIELDS}))
    return uses, further_uses, unasked_names


def _has_same_options(use: CriterionUse, other: CriterionUse) -> bool:
    """True if both criteria have the same code and options, whoever judges."""
    return (use.code, _options(use)) == (other.code, _options(other))


def _options(use: CriterionUse) -> dict[str, object]:
    """Without those that say which model judges."""
    return without(use.options, ("judge_model_options", "judge"))


def _unreadable_rules(rules: BaseRules, *, both_decide: bool) -> Iterator[Problem]:
    """Warnings about unreadable files of the base: head's rules may be weaker, and if the base's
    rules decide, head's replace those in these files."""
    reason = f"the base's {baseline_base.first_of(rules.errors)}"
    unruled_keys = rules.unruled if both_decide else frozenset()
    if unruled_keys:
        message = f"`policy: both`: head's criteria apply to {words.listed(sorted(unruled_keys))}: {reason}"
        yield errors.warning(UNKNOWN_RULES, message, hint=REVIEW_HINT)
    faulty_files = {error.place.file for error in rules.errors if error.place is not None}
    files = (rules.unread | rules.unruled or faulty_files) - unruled_keys
    if files:
        message = (
            f"could not check whether this change relaxes {words.listed(sorted(files))}: {reason}"
        )
        yield errors.warning(UNCHECKED_RULES, message, hint=REVIEW_HINT)


# --- edits of the change --------------------------------------------------------------------------


EXCERPT_WIDTH = 60
"""Characters of a long value that are shown."""
CONTEXT_WIDTH = 20
"""Characters of them before the first difference."""
MAX_EXAMINED = 100_000
"""Characters of a value that are compared."""
MAX_DIFF_LINES = 60
"""Lines of a file's difference that are reported."""
DIFF_WIDTH = 300
"""Characters of a line in a file's difference."""
MAX_DIFF_BYTES = 20_000
"""Of a larger file only the digest is compared."""
MAX_DIFFERENCES = 3
"""Differences of a CES evaluation that are reported."""
POLICY_FIELDS = ("pass_rate", "min_measured", "alpha", "max_drop", "threshold")
"""Fields of a policy that are one value each."""


def _policy_edits(base: Policy, head: Policy, keys: Collection[str]) -> Iterator[GateEdit]:
    """The differences between two policies. `keys`: the suites whose own pass rates count."""
    for name in POLICY_FIELDS:
        yield from _edit(name, getattr(base, name), getattr(head, name))
    for key in sorted({*base.suite_pass_rate, *head.suite_pass_rate}.intersection(keys)):
        rates = (policy.suite_pass_rate.get(key, policy.pass_rate) for policy in (base, head))
        yield from _edit(f"pass_rate of {key}", *rates)
    for key in sorted(base.advisory ^ head.advisory):
        yield from _edit(
            f"severity of {key}",
            *(SEVERITY_WORDS[key in policy.advisory] for policy in (base, head)),
        )
    for name in sorted({*base.criteria, *head.criteria}):
        rules = [policy.criteria.get(name) for policy in (base, head)]
        for part in ("gating", "lower_is_better", "max_drop"):
            yield from _edit(f"{part} of {name}", *(getattr(rule, part, None) for rule in rules))


def _criterion_edits(
    base: Iterable[CriterionUse], suite: Suite, *, are_metrics_edited: bool
) -> Iterator[GateEdit]:
    """The differences of a suite's criteria from the base's."""
    base_uses, head_uses = ({use.name: use for use in uses} for uses in (base, suite.criteria))
    for name in dict.fromkeys((*base_uses, *head_uses)):
        base_use = base_uses.get(name)
        head_use = head_uses.get(name)
        if all(use is None or use.informational for use in (base_use, head_use)):
            continue
        place = None if head_use is None else head_use.place
        edit = partial(_edit, suite=suite.key, place=place)
        yield from edit(
            name, *(None if use is None else _threshold(use) for use in (base_use, head_use))
        )
        if base_use is None or head_use is None:
            continue
        for part in ("lower_is_better", "code", "where_applicable", "on_the_test"):
            yield from edit(f"{part} of {name}", getattr(base_use, part), getattr(head_use, part))
        if base_use.code and head_use.code == base_use.code and are_metrics_edited:
            yield from edit(f"code of {name}", "the base's", "edited")
        for path, *values in _differences(_options(base_use), _options(head_use)):
            yield from edit(f"{path} of {name}", *values)


def _edit(
    subject: str,
    base: object,
    head: object,
    *,
    kind: EditKind = EditKind.RULE,
    suite: str = "",
    place: Place | None = None,
) -> Iterator[GateEdit]:
    """A rule's edit, if its values differ. None and an empty text are shown as `unset`."""
    if base != head:
        yield GateEdit(
            kind=kind,
            subject=subject,
            suite=suite,
            base=_value_text(base),
            head=_value_text(head),
            place=place,
        )


def _threshold(use: CriterionUse) -> str:
    """The threshold of a criterion in words, which an informational one does not have."""
    return (
        "informational"
        if use.informational
        else "none"
        if use.threshold is None
        else words.threshold(use.threshold)
    )


def _value_text(value: object) -> str:
    """The value of a rule as it is shown, with booleans as in YAML."""
    if value is None or value == "":
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    return words.threshold(value) if isinstance(value, float) else str(value)


def _differences(base: object, head: object, *, path: str = "") -> Iterator[tuple[str, str, str]]:
    """The differences of two values, as deep as both are mappings or lists of the same length: a
    path such as `judge_model_options.judge_model`, and both values in words."""
    if isinstance(base, Mapping) and isinstance(head, Mapping):
        for name in sorted({*base, *head}, key=str):
            yield from _differences(
                base.get(name), head.get(name), path=f"{path}.{name}" if path else str(name)
            )
    elif (
        isinstance(base, list | tuple) and isinstance(head, list | tuple) and len(base) == len(head)
    ):
        for index, (base_part, head_part) in enumerate(zip(base, head, strict=True)):
            yield from _differences(base_part, head_part, path=f"{path}[{index}]")
    elif base != head:
        yield path, *_in_words(base, head)


def _in_words(base: object, head: object) -> tuple[str, str]:
    """Excerpts of two values that begin shortly before their first difference."""
    texts = [
        "unset" if setting is None else str(setting)[:MAX_EXAMINED] for setting in (base, head)
    ]
    shared_length = len(os.path.commonprefix(texts))  # noqa: RUF071 - of characters
    start = max(shared_length - CONTEXT_WIDTH, 0) if max(map(len, texts)) > EXCERPT_WIDTH else 0
    excerpts = [f"{'...' if start else ''}{text[start:]}" for text in texts]
    base_text, head_text = (plain.clip_end(text, EXCERPT_WIDTH) for text in excerpts)
    return base_text, head_text


def _case_edits(base_suites: Iterable[Suite], suites: Iterable[Suite]) -> Iterator[GateEdit]:
    """Files that another agent answers, and cases and files that the change deletes or edits. Only
    a reader can decide if they are weaker."""
    head_suites = {suite.key: suite for suite in suites}
    for base_suite in base_suites:
        head_suite = head_suites.get(base_suite.key)
        if head_suite is None:
            count = words.counted(len(base_suite.cases), "case")
            yield GateEdit(
                kind=EditKind.SUITE_REMOVED,
                subject=base_suite.key,
                suite=base_suite.key,
                base=count,
            )
            continue
        uses = (base_suite.agent, head_suite.agent)
        is_other = uses[0] != uses[1]
        if is_other and not any(use.is_absent or baseline_base.is_unknown(use) for use in uses):
            titles = map(discovery_agents.title, uses)
            yield from _edit("agent", *titles, kind=EditKind.AGENT, suite=head_suite.key)
        head_cases = {case.case_id: case for case in head_suite.cases}
        for case in base_suite.cases if not head_suite.problem else ():
            head_case = head_cases.get(case.case_id)
            edit = partial(GateEdit, subject=case.case_id, suite=head_suite.key)
            if head_case is None:
                yield edit(kind=EditKind.CASE_REMOVED)
                continue
            changes = _changes_of(case, head_case, simulator=head_suite.simulator)
            if changes is not None:
                yield edit(kind=EditKind.CASE_CHANGED, head=changes, place=head_case.place)


def _changes_of(case: Case, head_case: Case, *, simulator: SimulatorUse) -> str | None:
    """The changes of a case that its format lists, in words; "" if it lists none; None if the case
    is unchanged."""
    prints = {fingerprints.of_case(side, simulator=simulator) for side in (case, head_case)}
    if len(prints) == 1:
        return None
    candidates = (row.differences(case, head_case) for row in FORMATS.values())
    changes = next((listed for listed in candidates if listed is not None), None)
    if changes is None:
        return ""
    if len(changes) > MAX_DIFFERENCES:
        more = len(changes) - MAX_DIFFERENCES
        changes = [*changes[:MAX_DIFFERENCES], f"and {more} more"]
    return "; ".join(changes) or None


def _file_edits(
    base: Settings | None, head: Settings, suites: Collection[Suite]
) -> Iterator[GateEdit]:
    """Files that define the measurement and differ, with their differing lines: evalgate.yml,
    criteria, custom metrics, calibrations, and recordings that replace a judge, a tool or an agent.
    Empty if the base's settings are unknown."""
    if base is None:
        return
    names = set[str]()
    for settings in (base, head):
        names.update(
            _measuring_files(settings, suites),
            _tool_files(settings),
            _metric_files(suites, settings.root),
        )
    for name in sorted(names - {""}):
        base_text, head_text = (_file_text(settings.root, name) for settings in (base, head))
        if base_text != head_text:
            lines = difflib.unified_diff(
                base_text.splitlines(), head_text.splitlines(), lineterm="", n=1
            )
            diff_lines = [plain.clip(line, DIFF_WIDTH) for line in lines][2:]
            counts = [sum(line.startswith(sign) for line in diff_lines) for sign in "-+"]
            yield GateEdit(
                kind=EditKind.FILE,
                subject=name,
                base=f"-{counts[0]}",
                head=f"+{counts[1]}",
                lines=tuple(diff_lines[:MAX_DIFF_LINES]),
                place=Place(name),
            )
    uses = {suite.agent.key: suite.agent for suite in suites}.values()
    for use in uses:
        if agents.is_asked(use):
            continue
        # recordings that replace an agent: nobody but the change's author confirms them
        base_digest, head_digest = (
            _digest_of_files(settings.root, _recording_files(use, settings.root))[:8]
            for settings in (base, head)
        )
        if base_digest != head_digest:
            subject = f"recordings of {use.options.get('path') or 'the agent'}"
            yield GateEdit(kind=EditKind.FILE, subject=subject, base=base_digest, head=head_digest)


def _measuring_files(settings: Settings, suites: Iterable[Suite]) -> Iterator[str]:
    """evalgate.yml, criteria, calibration and judges' replies, relative to the root; "" for each
    that is missing."""
    judge = settings.gate_file.judge
    yield from ("" if settings.places is None else settings.places("runs").file, judge.calibration)
    yield judge.replay
    yield from (suite.criteria_source.file for suite in suites)


def measurement_paths(
    settings: Settings, suites: Collection[Suite], *, name_of: Callable[[str], str] = str
) -> frozenset[str]:
    """The absolute paths of a checkout's files and folders that define the measurement of agents,
    or replace a tool or an agent. The targets of links are included. `name_of`: the checkout's name
    of a suite's file."""
    tools = settings.gate_file.tools
    names = {*_measuring_files(settings, suites), tools.cassettes, tools.mocks}
    for suite in suites:
        names |= {name_of(suite.key), *_recording_files(suite.agent, settings.root)}
    root = os.path.realpath(settings.root)
    paths = {os.path.normpath(f"{root}/{name}") for name in names - {""}}
    return frozenset(paths.union(map(os.path.realpath, paths))) - {root}


def _file_text(root: Path, name: str) -> str:
    """The text of a file; its digest if it is binary or very large; "" if there is no file, or if a
    link leads out of the checkout or into `.git`, which may hold the job's token."""
    path = root / name
    if places.refusal_reason(root, name, trusted=True):
        return ""
    try:
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file())
            return "\n".join(
                f"{file.relative_to(path)} {_digest(file.read_bytes())}" for file in files
            )
        content = path.read_bytes() if path.is_file() else b""
    except OSError:
        return ""
    text = content.decode(errors="replace")
    return _digest(content) if len(content) > MAX_DIFF_BYTES or "\ufffd" in text else text


def _digest_of_files(root: Path, names: Iterable[str]) -> str:
    """A digest of names and contents; a missing file counts as an empty one."""
    return fingerprints.digest([(name, _file_text(root, name)) for name in sorted(names)])


def _recording_files(use: AgentUse, root: Path) -> Iterable[str]:
    """The files that replace an agent; none if it is asked."""
    if use.driver not in agents.DRIVERS or agents.is_asked(use):
        return ()
    return agents.DRIVERS[use.driver].files(
        use.options, root, partial(discovery_agents.files_below, root)
    )


def _tool_files(settings: Settings) -> Iterator[str]:
    """The mock rules and recorded calls that replace tool answers, relative to the checkout."""
    root = settings.root
    rule = settings.gate_file.tools
    mode = toolbox.mode_of(settings)
    if mode in (ToolMode.REPLAY, ToolMode.MOCK):
        yield rule.mocks
    if mode is ToolMode.REPLAY and not places.refusal_reason(root, rule.cassettes, trusted=True):
        files = (root / rule.cassettes).rglob("*.json")
        yield from (path.relative_to(root).as_posix() for path in files)


def _digest(content: bytes) -> str:
    """The first digits of a digest."""
    return hashlib.sha256(content).hexdigest()[:8]


_LONGEST_NAME = 100
"""Characters of a part of a module's name: file names have a limit."""


def room_files(suites: Iterable[Suite], root: Path) -> frozenset[str]:
    """The files of a change without which a custom metric that it edits does not run: the metric's,
    and the lists of dependencies."""
    files = discovery_agents.code_files(root)
    return _metric_files(suites, root).union(failures.requirements_in(files))


def _metric_files(suites: Iterable[Suite], root: Path) -> frozenset[str]:
    """The files of custom metrics, of their packages, and their imports from the checkout. A
    package with the agent in it is what is tested."""
    return frozenset(
        path.relative_to(root).as_posix()
        for suite in suites
        for module in {use.code.rpartition(".")[0] for use in suite.criteria if use.code}
        for path in _files_beside(root, module, suite.agent)
    )


def _files_beside(root: Path, module: str, agent: AgentUse) -> Iterator[Path]:
    """The files of a metric's module, the Python files of its outermost package without the agent,
    files beside it that it names, and its imports; without the agent's own files, if they are not
    the module's."""
    parts = module.split(".")
    if not all(part.isidentifier() and len(part) <= _LONGEST_NAME for part in parts):
        return
    agent_path = PurePosixPath(str(agent.options.get("path") or "/"))
    home = None if agent_path.is_absolute() or ".." in agent_path.parts else agent_path
    call_module = str(agent.options.get("call") or "").partition(":")[0]  # `module:function`
    tested_paths = {root / (f"{call_module.replace('.', '/')}.py" if call_module else ".")}
    if home is not None:
        tested_paths |= {root / home, *(root / home).parents, root / home / "agent.py"}
    for place, names in _search_places(parts, home):
        folder = root / place
        stem = folder.joinpath(*names)
        module_files = [
            path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()
        ]
        if names and module_files:
            source = "".join(
                _file_text(root, path.relative_to(root).as_posix()) for path in module_files
            )
            packages = (folder.joinpath(*names[: depth + 1]) for depth in range(len(names)))
            package = next((path for path in packages if path not in tested_paths), None)
            named_files = (
                path
                for path in stem.parent.iterdir()
                if re.search(rf"{re.escape(path.name)}['\"]", source) and path.is_file()
            )
            neighbors = [*(package.rglob("*.py") if package else ()), *named_files]
            yield from {*module_files, *neighbors, *_imported(root, module_files, tested_paths)} - (
                tested_paths - {*module_files}
            )


def _search_places(
    parts: Sequence[str], home: PurePosixPath | None
) -> Iterator[tuple[str, Sequence[str]]]:
    """Where a module may be: a folder and the parts of the module's name there. The folders are the
    root, `src`, the parents of the agent's folder `home`, and `home`, also by the name `agent`."""
    for place in dict.fromkeys([".", "src", *map(str, home.parents if home else ())]):
        yield place, parts
    if home is not None:
        yield str(home), parts
        yield str(home), parts[1:] if parts[0] == "agent" else parts


def _imported(root: Path, modules: Collection[Path], tested: Collection[Path]) -> Iterator[Path]:
    """The imports of modules from the checkout, without the agent and modules that only it
    imports."""

    read = discovery_agents.reader(root, largest=walk.LARGEST_BYTES)

    def text_of(name: str) -> str | None:
        """The source of a module; None for the agent's, whose imports are not followed."""
        path = root / name
        return None if path in tested and path not in modules else read(name)

    files = (path.relative_to(root).as_posix() for path in modules)
    return (root / name for name in ImportGraph(text_of).reached(files))


# --- the settings in force ------------------------------------------------------------------------
# a notice reports each setting in the change's evalgate.yml that is not in force


OF_DOORS = config.names_with(Settings, Decider.DOOR, Door.FILE)
"""Settings that a change does not decide: the environment of agents, paths, recipients of
reports."""
OF_BASE = tuple(
    name for name in config.names_with(Settings, Decider.BASE) if name not in ("baseline", "policy")
)
"""Settings that a change decides only after it is merged. For the two excluded ones, the values of
both sides count."""
EXTENTS = {"comment": ("always", "changes", "failures", "off"), "check_run": (True, False)}
"""Settings for reports of the verdict, with their values from the most to the least: a change may
ask for more, not for less."""
JUDGE_SETTINGS = config.names_with(JudgeRule, Decider.DOOR)
"""Fields of `judge` that a change does not decide."""
OF_ACTION = {*map(config_settings.input_name, config.names_with(Settings, Door.ACTION))}
"""Names of settings that are inputs of the action, too."""
CLIENT_OPTIONS = ("http_options", "httpOptions")
"""Options of a model about its connection: another address, further headers."""
WIDTH = 120
"""The most characters of a shown value."""
SETTING_OF_BASE = "setting-of-base"
"""The code of a note: a setting in the change's evalgate.yml is not in force."""
JUDGE_OF_CHANGE = "judge-of-change"
"""The code of a note: the change's judge is asked, since the base names none."""
HINT = "Change it in a pull request of its own first."
"""For a setting that only evalgate.yml has."""
HINT_INPUT = "Set it as an input of the workflow, or change it in a pull request of its own first."
"""For a setting that the action has as an input, too."""


def settings_in_force(
    settings: Settings, base: Base | None, context: Context | None
) -> tuple[Settings, tuple[Problem, ...]]:
    """Head's settings with those of the door and of the base, and notices about the change's
    settings that are not in force."""
    if base is None or context is None:
        return settings, ()
    # outside pull requests these settings are the user's own; in a pull request there is a base,
    # even with errors
    names: tuple[str, ...] = OF_DOORS if context.trigger.is_pull_request else ()
    if base.project.settings is not None and base.project.rules is not None:
        names += OF_BASE
    if not names:
        return settings, ()
    base_settings, reason = _gate_file_of(base)
    judge = settings.gate_file.judge
    judge_names: tuple[str, ...] = ("budget",)
    # a base without evalgate.yml has no judge: the change's may be asked at a provider's address
    if context.trigger.is_pull_request and not (reason and models.is_of_provider(judge.base_url)):
        judge_names += JUDGE_SETTINGS
    options = _trusted(
        settings, base_settings, [name for name in names if name not in settings.explicit_options]
    )
    judge_options = _trusted(judge, base_settings.gate_file.judge, judge_names)
    judge_notices = [*_notices(settings, reason, judge_options, "judge")]
    if context.trigger.is_pull_request and reason and not judge_notices:
        judge_notices = [*_judge_notices(settings, reason)]
    notices = (*_notices(settings, reason, options), *judge_notices)
    if not notices:
        return settings, ()
    rules = {"judge": judge.model_copy(update=judge_options)}
    options["gate_file"] = settings.gate_file.model_copy(update=rules)
    return settings.model_copy(update=options), notices


def judge_keys(
    head_settings: Settings,
    settings: Settings,
    suites: Sequence[Suite],
    base: Base | None,
    context: Context,
    *,
    environ: Mapping[str, str],
) -> frozenset[str]:
    """The variables with keys of judges: of the judges in use; in a pull request also of the base's
    judges, and variables that either evalgate.yml names. So a change that removes a judge does not
    get its key for the agent. `settings`: those in force. `environ`: the environment of judges,
    including an agent's .env."""
    sides = [(settings, suites)]
    keys: frozenset[str] = frozenset()
    if context.trigger.is_pull_request and base is not None:
        base_settings = base.project.settings or head_settings
        sides.append((base_settings, [*base.project.suites.values()]))
        names = {
            side_settings.gate_file.judge.api_key_env
            for side_settings in (head_settings, base_settings)
        }
        keys = clients.variables_with(
            (environ.get(name, "") for name in names), environ, secret_names=names
        )
    return keys.union(
        *(
            criteria_judges.key_names(settings, suites, environ)
            for settings, suites in sides
            if any(suite.asks_models for suite in suites)
        )
    )


def _gate_file_of(base: Base) -> tuple[Settings, str]:
    """The settings of the base's evalgate.yml; the defaults with a reason if they are not in
    force."""
    settings = base.project.settings
    if settings is None:
        reason = (
            f"the base's evalgate.yml is not known ({base.problem}), so it is treated as missing"
        )
        return Settings(), reason
    return (settings, "") if settings.places else (Settings(), "the base has no evalgate.yml yet")


def _trusted(head: BaseModel, base: BaseModel, names: Iterable[str]) -> dict[str, Any]:
    """The values in force of these settings: the base's; head's if the base has no limit, or if
    head reports more."""
    values = {}
    for name in names:
        values[name] = value = getattr(base, name)
        if isinstance(value, BaseModel) and not any(limit for _, limit in value):
            values[name] = getattr(head, name)
        elif order := EXTENTS.get(name):
            values[name] = min(value, getattr(head, name), key=order.index)
    return values


def _notices(settings: Settings, reason: str, trusted: Json, *section: str) -> Iterator[Problem]:
    """A notice about each of head's settings, or of those in a section, that differs from the one
    in force (`trusted`). `reason`: why the base's evalgate.yml is not in force."""
    head = settings.gate_file.judge if section else settings
    for setting, value in trusted.items():
        head_value = getattr(head, setting)
        if head_value == value:
            continue
        name = ".".join((*section, setting)) if section else config_settings.input_name(setting)
        message = (
            f"`{name}`: the base's evalgate.yml counts ({_quoted(value)}), "
            f"not this change's ({_quoted(head_value)})"
        )
        if reason:
            suffix = f"; the value in force is {_quoted(value)}" if value else ""
            message = f"`{name}` of this change's evalgate.yml ({_quoted(head_value)}) does not count: {reason}{suffix}"
        hint = HINT_INPUT if name in OF_ACTION else HINT
        yield errors.note(SETTING_OF_BASE, message, settings.place_of(*section, setting), hint)


def _judge_notices(settings: Settings, reason: str) -> Iterator[Problem]:
    """A notice about the change's judge, which is asked although the base has none."""
    judge = settings.gate_file.judge
    names = [name for name in ("model", "client", *JUDGE_SETTINGS) if getattr(judge, name)]
    if names:
        description = words.listed(
            f"`{name}: {plain.label(getattr(judge, name), WIDTH)}`" for name in names
        )
        message = f"the judge of this change's evalgate.yml is asked ({description}): {reason}"
        hint = "It counts because it is asked at a known provider's own address."
        yield errors.note(JUDGE_OF_CHANGE, message, settings.place_of("judge"), hint)


def _quoted(value: Any) -> str:
    """A value as code in Markdown; an empty list is `nothing`, another empty value `unset`."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"`{value:g}`"
    if isinstance(value, tuple):
        return f"`{plain.label(', '.join(value), WIDTH)}`" if value else "nothing"
    if isinstance(value, BaseModel):
        value = ", ".join(f"{name}={limit:g}" for name, limit in value if limit is not None)
    return f"`{plain.label(value, WIDTH)}`" if value else "unset"


# --- how models are reached ----------------------------------------------------------------------


def _with_client_options(suite: Suite, base: Base, notices: list[Problem]) -> Suite:
    """The suite with the base's client options for its judges and its simulated users. Adds
    `notices` about the change's own."""
    gate_file = _gate_file_of(base)[0].gate_file
    base_suite = base.project.suites.get(suite.key)
    base_uses = {use.name: use for use in base_suite.criteria} if base_suite else {}

    def settle(config: Json, base_config: Json, subject: str, place: Place | None) -> Json:
        """The config with the base's client options in place of its own, and a note if they
        differ."""
        options = {name: base_config[name] for name in CLIENT_OPTIONS if name in base_config}
        trusted_config = without(config, CLIENT_OPTIONS) | options
        if trusted_config != config:
            reason = "the base's count" if options else "the base has none"
            message = f"the client options (`http_options`) of {subject}: {reason}, so this change's do not"
            notices.append(errors.note(SETTING_OF_BASE, message, place or Place(suite.key), HINT))
        return trusted_config

    def judge_options(use: CriterionUse) -> Json:
        """The criterion's options, if a judge in them has other client options on the base."""
        judge = use.options.get("judge_model_options")
        if not isinstance(judge, Mapping):
            return {}
        if base_use := base_uses.get(use.name):
            base_config = _config_of(base_use)
        else:  # as the base's evalgate.yml has it for criteria of this name
            rule = gate_file.judge.criteria.get(use.name, JudgeOptionsRule())
            base_config = {**(gate_file.judge.config or {}), **(rule.config or {})}
        config = settle(_config_of(use), base_config, f"`{use.name}` in {suite.key}", use.place)
        if config == _config_of(use):
            return {}
        judge = {**judge, "judge_model_config": config}
        return {"options": {**use.options, "judge_model_options": judge}}

    suite = suite.with_changes(judge_options)
    simulator = suite.simulator
    if simulator.config is not None:
        base_simulator = base_suite.simulator if base_suite else SimulatorUse()
        base_config = base_simulator.config or gate_file.simulator.config or {}
        subject = f"the simulated users of {suite.key}"
        config = settle(simulator.config, base_config, subject, suite.simulator_place)
        simulator = replace(simulator, config=config)
    return suite.with_criteria(suite.criteria, simulator)


def _config_of(use: CriterionUse) -> Json:
    """The options of a criterion's judge model; empty if it has none."""
    config = member(use.options.get("judge_model_options"), "judge_model_config")
    return config if isinstance(config, dict) else {}
