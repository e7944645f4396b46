"""Two results.json files: what can be compared in them, and the gate's decision on it; nothing
runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalgate import agents
from evalgate.baseline import base as baseline_base, failures, quarantine, rules as baseline_rules
from evalgate.baseline.base import Base, BaseProject, BaseRules
from evalgate.baseline.rules import Rules
from evalgate.comparison import pairing, threshold
from evalgate.comparison.book import Sides
from evalgate.config import load
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, Place
from evalgate.formats import fingerprints
from evalgate.gate import decision
from evalgate.gate.measure import Measurement
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    Comparison,
    CriterionUse,
    GradedTrial,
    NonBlocking,
    Reason,
    Report,
    Run,
    Suite,
    cases_of,
    not_evaluated,
)
from evalgate.results import file, stores
from evalgate.results.file import Stored
from evalgate.results.labels import CaseLabel
from evalgate.results.output import BASE_RESULTS
from evalgate.values import Sentence, Wording


def compare(settings: Settings, context: Context, *, base: Path, head: Path) -> Report:
    """Compare head with the results of a base, decide, and write the reports; results.json stays
    unchanged.

    Relaxed rules are reported as far as the files show them: thresholds, criteria and cases. Raises
    ConfigError if a file cannot be read or holds a shard."""
    base_results = read_run(base, of="the base")
    head_results = read_run(head, of="the head")
    return _publish(settings, context, head_results, base_results)


def report(settings: Settings, context: Context, *, results: Path) -> Report:
    """Write the reports of results again, with the base's results if base.json lies beside them.
    Raises as `compare`."""
    base = results.with_name(BASE_RESULTS)
    if base.is_file():
        return compare(settings, context, base=base, head=results)
    return _publish(settings, context, read_decided(results, of=""), None)


def read_decided(path: Path, *, of: str) -> Stored:
    """`read_run`, with the run's verdicts on its cases, which hold without its base. Raises
    ConfigError."""
    stored = read_run(path, of=of)
    run = replace(stored.run, earlier_verdicts=verdicts_of(stored))
    return replace(stored, run=run)


def verdicts_of(stored: Stored) -> dict[CaseKey, CaseVerdict]:
    """The verdicts of the stored run on its cases. It knew the base and the reruns."""
    trials = pairing.by_case(stored.run.trials)
    verdicts = {}
    for suite in stored.run.suites:
        for case in suite.cases:
            key = (suite.key, case.case_id)
            verdict = case_verdict(stored, key, suite.criteria_of(case), trials.get(key, ()))
            entry = stored.entries.get(key)
            verdicts[key] = (
                verdict
                if entry is None
                else replace(
                    verdict,
                    kind=entry.verdict,
                    reason=entry.reason or verdict.reason,
                    nonblocking=NonBlocking.FLAKY if entry.label is CaseLabel.FLAKY else None,
                )
            )
    return verdicts


def case_verdict(
    stored: Stored, key: CaseKey, criteria: Sequence[CriterionUse], trials: Sequence[GradedTrial]
) -> CaseVerdict:
    """The verdict on a case by the scores of its run and the thresholds of `criteria`."""
    return threshold.judge_case(
        key=key,
        criteria=criteria,
        trials=trials,
        repeats=stored.run.repeats,
        deviations=stored.deviations,
        truncated=stored.run.truncated,
    )


def compare_stored(
    settings: Settings, context: Context, *, head: Stored, base: Stored | None
) -> Report:
    """The report on stored results and those of a base, as in `compare` and `report`; nothing is
    written."""
    return decision.decide(
        *_stored_measurement(settings, context, head, base), context, was_run=False
    )


def _publish(
    settings: Settings, context: Context, head_results: Stored, base_results: Stored | None
) -> Report:
    measurement, rules = _stored_measurement(settings, context, head_results, base_results)
    report = decision.decide(measurement, rules, context, was_run=False)
    report = decision.publish(report, measurement, rules, context)
    context.present(report)
    return report


def _stored_measurement(
    settings: Settings, context: Context, head_results: Stored, base_results: Stored | None
) -> tuple[Measurement, Rules]:
    """The measurement in stored results, and the rules that decide on it. Without `base_results`,
    only head's rules decide."""
    settings = settings.model_copy(update={"adk_compat": head_results.deviations.is_adk_compat})
    head = head_results.run
    base = None if base_results is None else _base_of(base_results, head, settings)
    rules = baseline_rules.in_force(settings, head.suites, base)
    # the comparison, if one run measured both sides; None if the sides are two runs
    stored_comparison = None
    if base_results is not None and _are_sides(base_results, head_results):
        stored_comparison = head_results.comparison
    # one run knew the base's rules; it scores both sides by head's criteria, so the base's own are
    # not in its results
    is_decided = base is None or stored_comparison is not None
    rules = replace(
        rules,
        quarantined=quarantine.of_checkout(settings, rules.suites, today=context.moment.date()),
        edits=head_results.edits if is_decided else rules.edits,
        books=rules.books[:1] if is_decided else rules.books,
    )
    head = replace(head, suites=rules.suites)
    if base is None or base_results is None:
        return Measurement(head=head, comparisons=[None], problems=head_results.problems), rules
    base_run, notes = _base_to_compare(base_results, head_results, rules.suites, base.project)
    if base_results.version != head_results.version:
        notes.append(Sentence("other_version", base_results.version, head_results.version))
    origin = stores.aged(base.origin, settings=settings, current_moment=context.moment, notes=notes)
    return Measurement(
        head=head,
        base=base_run,
        comparisons=_comparisons(rules, head, base_run, origin, stored_comparison),
        problems=settings.problems,
    ), rules


def _base_of(stored: Stored, head: Run, settings: Settings) -> Base:
    """The base in a file, which stands for a checkout: its suites are the base's rules."""
    run = stored.run
    renamed = baseline_base.renames(run.suites, head.suites)
    names = {base_key: head_key for head_key, base_key in renamed.items()}
    rules = BaseRules(
        suites=baseline_base.under_names(run.suites, names),
        policy=load.policy_of(settings, head.suites),
    )
    return Base(
        origin=BaseOrigin(source=BaseSource.FILE, commit=run.commit, measured_at=run.started_at),
        project=BaseProject(rules=rules, renamed=renamed),
    )


def _comparisons(
    rules: Rules, head: Run, base: Run, origin: BaseOrigin, stored_comparison: Comparison | None
) -> list[Comparison]:
    """The comparison by each rule book. `stored_comparison`: that of a run of both sides."""
    unpaired = _unpaired(head, base)
    return [
        failures.compare(
            Sides(
                head=book.applied(head),
                base=book.applied(base),
                policy=book.policy,
                recorded=failures.recorded_of(head),
                unpaired=unpaired,
                informational=rules.quarantined,
                unchanged=stored_comparison.unchanged if stored_comparison is not None else (),
                # one run, which ran all of the base alongside the head
                is_together=stored_comparison is not None
                and stored_comparison.origin.source is BaseSource.RERUN,
            ),
            origin=origin,
        )
        for book in rules.books
    ]


def _are_sides(base: Stored, head: Stored) -> bool:
    """True if the files are the two sides of one run, wherever the base's conversations come
    from."""
    comparison = head.comparison
    is_same = head.run.started_at == base.run.started_at
    return is_same and comparison is not None and comparison.origin.commit == base.run.commit


def read_run(path: Path, *, of: str) -> Stored:
    """The results of a whole run; `of`: the side that they belong to. Raises ConfigError."""
    stored_run = file.read_results(path, of=of)
    if stored_run.run.shard is not None:
        raise ConfigError(
            f"{of} is shard {stored_run.run.shard} of a run".lstrip(),
            place=Place(str(path)),
            hint="Merge the shards: `evalgate merge`.",
        )
    return stored_run


def _unpaired(head: Run, base: Run) -> dict[CaseKey, CaseStatus]:
    head_contents = _contents(head)
    base_contents = _contents(base)
    unpaired = dict.fromkeys(
        sorted(base_contents.keys() - head_contents.keys()), CaseStatus.REMOVED
    )
    for key, content in head_contents.items():
        if key not in base_contents:
            unpaired[key] = CaseStatus.NEW
        elif base_contents[key] != content:
            unpaired[key] = CaseStatus.CHANGED
    return unpaired


def _contents(run: Run) -> dict[CaseKey, str]:
    """The fingerprint of every case, including all that a criterion may see of it."""
    return {
        key: run.fingerprints.get(key) or fingerprints.of_case(case)
        for key, case in cases_of(run.suites).items()
    }


def _base_to_compare(
    base: Stored, head: Stored, suites: Sequence[Suite], project: BaseProject
) -> tuple[Run, list[Wording]]:
    """The base's run under head's names of files, without the grades of criteria that differed
    there, and a note on each of these criteria.

    `suites`: head's suites with the criteria that decide. `project`: the base's."""
    run = base.run
    names = {base_key: head_key for head_key, base_key in project.renamed.items()}
    changes = dict(_changed_criteria(base, head, suites, project.suites))
    notes = dict.fromkeys(
        Sentence("criterion_not_compared", name, reason)
        for (_, name), reason in sorted(changes.items())
    )

    def trial(graded_trial: GradedTrial, changes: Mapping[tuple[str, str], Wording]) -> GradedTrial:
        key = graded_trial.key.renamed(names)
        grades = {
            name: not_evaluated(
                Reason.NOT_APPLICABLE, "criterion_differs", changes[key.suite, name]
            )
            if (key.suite, name) in changes
            else grade
            for name, grade in graded_trial.grades.items()
        }
        return replace(graded_trial, key=key, grades=grades)

    return replace(
        run,
        suites=tuple(project.suites.values()),
        trials=tuple(trial(graded_trial, changes) for graded_trial in run.trials),
        confirmations=tuple(trial(graded_trial, {}) for graded_trial in run.confirmations),
        transcripts=lambda key: run.transcripts(key.renamed(project.renamed)),
        fingerprints={
            (names.get(suite, suite), case): fingerprint
            for (suite, case), fingerprint in run.fingerprints.items()
        },
    ), list(notes)


def _changed_criteria(
    base: Stored, head: Stored, suites: Sequence[Suite], base_suites: Mapping[str, Suite]
) -> Iterator[tuple[tuple[str, str], Wording]]:
    """The criteria, by suite key and name, that scored something else on the base, with the
    difference. `base_suites`: the base's suites under head's names."""
    head_prompts = {
        (suite.key, use.name): use.prompt_version
        for suite in head.run.suites
        for use in suite.criteria
    }
    for suite in suites:
        base_suite = base_suites.get(suite.key)
        uses = {use.name: use for use in base_suite.criteria} if base_suite else {}
        for use in suite.criteria:
            if base_suite is None or use.name not in uses:
                continue
            base_version = uses[use.name].prompt_version
            head_version = head_prompts.get((suite.key, use.name), "")
            if _settings(uses[use.name], base) != _settings(use, head):
                yield (suite.key, use.name), Sentence("other_options")
            elif base_version != head_version:
                yield (suite.key, use.name), Sentence("other_prompt", base_version, head_version)
            # head's code scores both sides of one run; else all that the agent read must be
            # equal, including a custom metric
            elif use.code is not None and not (
                _are_sides(base, head)
                or _inputs(base.run, base_suite) == _inputs(head.run, suite) != ""
            ):
                yield (suite.key, use.name), Sentence("other_code")


def _inputs(run: Run, suite: Suite) -> str:
    """The inputs that the suite's agent read; "" if only recordings count or nothing is known."""
    return (
        run.inputs.get(fingerprints.agent_key(suite.agent), "")
        if agents.is_asked(suite.agent)
        else ""
    )


def _settings(use: CriterionUse, stored: Stored) -> str:
    return fingerprints.of_criterion(use, version="", deviations=stored.deviations)
