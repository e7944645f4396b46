"""Two results.json beside each other: what can be compared of them, and the gate's word on it; nothing is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalgate import agents
from evalgate.baseline import base as baseline_base, failures, quarantine, rules as baseline_rules
from evalgate.baseline.base import Base, BaseProject, BaseRules
from evalgate.baseline.rules import Rules
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
    Comparison,
    CriterionUse,
    GradedTrial,
    NotEvaluated,
    Reason,
    Report,
    Run,
    Suite,
    Transcript,
    Transcripts,
    TrialKey,
)
from evalgate.results import file, stores
from evalgate.results.file import Stored
from evalgate.results.output import BASE_RESULTS
from evalgate.values import frozen_dataclass


def compare(settings: Settings, context: Context, *, base: Path, head: Path) -> Report:
    """Decide on head with the results of a base at hand, and write the reports; results.json stays as it is.

    What head relaxes is told as far as the files show it: thresholds, criteria and cases. Raises ConfigError where a
    file cannot be read or holds a shard.
    """
    theirs, ours = whole(base, of="the base"), whole(head, of="the head")
    return _written(settings, context, ours, theirs)


def report(settings: Settings, context: Context, *, results: Path) -> Report:
    """Write the reports of results again, with the base's where base.json lies beside them. Raises as `compare`."""
    base = results.with_name(BASE_RESULTS)
    if base.is_file():
        return compare(settings, context, base=base, head=results)
    return _written(settings, context, whole(results, of=""), None)


def beside(settings: Settings, context: Context, *, head: Stored, base: Stored | None) -> Report:
    """The report of results beside those of a base, as `compare` and `report` write it; nothing is written."""
    return decision.decide(*_compared(settings, context, head, base), context, was_run=False)


def _written(settings: Settings, context: Context, ours: Stored, theirs: Stored | None) -> Report:
    measurement, rules = _compared(settings, context, ours, theirs)
    report = decision.decide(measurement, rules, context, was_run=False)
    report = decision.publish(report, measurement, rules, context)
    context.present(report)
    return report


def _compared(settings: Settings, context: Context, ours: Stored, theirs: Stored | None) -> tuple[Measurement, Rules]:
    """What is decided on, and by which rules."""
    settings = settings.model_copy(update={"adk_compat": ours.deviations.are_taken_back})
    if theirs is None:
        rules = baseline_rules.of(settings, ours.run.suites, None)
        rules = replace(rules, edits=ours.edits)  # what their run knew of the base's rules
        head = replace(ours.run, suites=rules.suites)
        return Measurement(head=head, comparisons=[None], problems=ours.problems), rules
    origin = BaseOrigin(source=BaseSource.FILE, commit=theirs.run.commit, measured_at=theirs.run.started_at)
    renamed = baseline_base.renames(theirs.run.suites, ours.run.suites)
    own = BaseRules(suites=theirs.run.suites, policy=load.policy_of(settings, ours.run.suites))
    project = BaseProject(rules=own, renamed=renamed)
    rules = baseline_rules.of(settings, ours.run.suites, Base(origin=origin, project=project))
    held = quarantine.of_checkout(settings, rules.suites, today=context.now.date())
    known = ours.comparison if _are_sides(theirs, ours) else None  # what their run knew of both
    # the base ran by head's criteria, so that its own are not in its results
    edits, books = (rules.edits, rules.books) if known is None else (ours.edits, rules.books[:1])
    rules = replace(rules, quarantined=held, edits=edits, books=books)
    head_run = replace(ours.run, suites=rules.suites)
    base_run, notes = _base_to_compare(theirs, ours, rules.suites, renamed)
    if theirs.version != ours.version:
        notes.append(f"the base was measured with evalgate {theirs.version}, head with {ours.version}")
    told = stores.aged(origin, settings=settings, now=context.now, notes=notes)
    comparisons = _comparisons(rules, head_run, base_run, told, known)
    return Measurement(head=head_run, base=base_run, comparisons=comparisons, problems=settings.problems), rules


def _comparisons(rules: Rules, head: Run, base: Run, origin: BaseOrigin, known: Comparison | None) -> list[Comparison]:
    """By each rule book. `known`: what one run of both sides knew of them."""
    unpaired = _unpaired(head, base)
    return [
        failures.compare(
            Sides(
                head=book.applied(head),
                base=book.applied(base),
                policy=book.policy,
                recorded=failures.recorded_of(head),
                unpaired=unpaired,
                shown=rules.quarantined,
                unchanged=known.unchanged if known is not None else (),
                # one run, which ran all of the base beside the head
                is_together=known is not None and known.origin.source is BaseSource.RERUN,
            ),
            origin=origin,
        )
        for book in rules.books
    ]


@frozen_dataclass
class _Renamed:
    """The base's transcripts under head's names of their files; `names`: the base's name by head's."""

    transcripts: Transcripts
    names: Mapping[str, str]

    def find(self, key: TrialKey) -> Transcript | None:
        """See `model.Transcripts`."""
        return self.transcripts.find(key.renamed(self.names))


def _are_sides(base: Stored, head: Stored) -> bool:
    """Whether the files are the two sides of one run, wherever the base's conversations come from."""
    told = head.comparison
    same = head.run.started_at == base.run.started_at
    return same and told is not None and told.origin.commit == base.run.commit


def whole(path: Path, *, of: str) -> Stored:
    """The results of a whole run; `of`: whose these are. Raises ConfigError."""
    read = file.read_results(path, of=of)
    if read.run.shard is not None:
        raise ConfigError(
            f"{of} is shard {read.run.shard} of a run".lstrip(),
            where=Place(file=str(path)),
            hint="Merge the shards: `evalgate merge`.",
        )
    return read


def _unpaired(head: Run, base: Run) -> dict[CaseKey, CaseStatus]:
    ours, theirs = _contents(head), _contents(base)
    unpaired = dict.fromkeys(sorted(theirs.keys() - ours.keys()), CaseStatus.REMOVED)
    for key, content in ours.items():
        if key not in theirs:
            unpaired[key] = CaseStatus.NEW
        elif theirs[key] != content:
            unpaired[key] = CaseStatus.CHANGED
    return unpaired


def _contents(run: Run) -> dict[CaseKey, str]:
    """The fingerprint of every case, all that a criterion may see of it included."""
    return {
        (suite.key, case.case_id): run.fingerprints.get((suite.key, case.case_id)) or fingerprints.of_case(case)
        for suite in run.suites
        for case in suite.eval_set.cases
    }


def _base_to_compare(
    base: Stored, head: Stored, suites: Sequence[Suite], renamed: Mapping[str, str]
) -> tuple[Run, list[str]]:
    """The base's run with its files called as head calls them and without the grades that were made otherwise there,
    and a note on each of these criteria.

    `suites`: head's, with the criteria that decide. `renamed`: the base's name of a file by head's.
    """
    run, names = base.run, {then: now for now, then in renamed.items()}
    then = tuple(replace(suite, key=names.get(suite.key, suite.key)) for suite in run.suites)
    other = dict(_changed_criteria(base, head, suites, then))
    notes = dict.fromkeys(f"scores of {name} are not compared: it {why}" for (_, name), why in sorted(other.items()))

    def trial(known: GradedTrial, other: Mapping[tuple[str, str], str]) -> GradedTrial:
        key = known.key.renamed(names)
        grades = {
            name: NotEvaluated(reason=Reason.NOT_APPLICABLE, message=f"the criterion {other[key.suite, name]}")
            if (key.suite, name) in other
            else grade
            for name, grade in known.grades.items()
        }
        return replace(known, key=key, grades=grades)

    return replace(
        run,
        suites=then,
        trials=tuple(trial(known, other) for known in run.trials),
        confirmations=tuple(trial(known, {}) for known in run.confirmations),
        transcripts=_Renamed(transcripts=run.transcripts, names=renamed),
        fingerprints={(names.get(suite, suite), case): known for (suite, case), known in run.fingerprints.items()},
    ), list(notes)


def _changed_criteria(
    base: Stored, head: Stored, suites: Sequence[Suite], before: Sequence[Suite]
) -> Iterator[tuple[tuple[str, str], str]]:
    """Criteria by suite key and name that scored something else on the base, and in which way. `before`: the base's
    suites under head's names."""
    old = {suite.key: suite for suite in before}
    for suite in suites:
        then = {use.name: use for use in old[suite.key].criteria} if suite.key in old else {}
        for use in suite.criteria:
            if use.name not in then:
                continue
            was, now = then[use.name].prompt_version, head.prompt_of(suite.key, use.name)
            if _settings(then[use.name], base) != _settings(use, head):
                yield (suite.key, use.name), "had different options on the base"
            elif was != now:
                told = f"version {was or 'unknown'}, now {now or 'unknown'}"
                yield (suite.key, use.name), f"used a different judge prompt on the base ({told})"
            # sides of one run are scored by head's code; else all that the agent read must be equal, a custom metric
            # included
            elif use.code is not None and not (
                _are_sides(base, head) or _inputs(base.run, old[suite.key]) == _inputs(head.run, suite) != ""
            ):
                yield (suite.key, use.name), "may have had different code on the base"


def _inputs(run: Run, suite: Suite) -> str:
    """What the suite's agent read; "" where only recordings count, or nothing is known."""
    return run.inputs.get(fingerprints.agent_key(suite.agent), "") if agents.is_asked(suite.agent) else ""


def _settings(use: CriterionUse, stored: Stored) -> str:
    return fingerprints.of_criterion(use, version="", deviations=stored.deviations)
