"""Two results.json beside each other: what can be compared of them, and the gate's word on it; nothing is run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalgate import agents
from evalgate.baseline import base as baseline_base
from evalgate.baseline import rules as baseline_rules
from evalgate.baseline.base import Base, BaseProject, BaseRules
from evalgate.comparison import compare as comparison_compare
from evalgate.comparison import repeats
from evalgate.comparison.repeats import Stage
from evalgate.config import load
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, Place
from evalgate.formats import fingerprints
from evalgate.gate import run as gate_run
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    CaseKey,
    CaseStatus,
    Grade,
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


def compare(settings: Settings, context: Context, *, base: Path, head: Path) -> Report:
    """Decide on head with the results of a base at hand, and write the reports; results.json stays as it is.

    What head relaxes is told as far as the files show it: thresholds, criteria and cases. Raises ConfigError where a
    file cannot be read or holds a shard.
    """
    theirs, ours = _whole(base, of="the base"), _whole(head, of="the head")
    origin = stores.aged(
        BaseOrigin(source=BaseSource.FILE, commit=theirs.run.commit, measured_at=theirs.run.started_at),
        settings=settings,
        now=context.now,
    )
    policy = dataclasses.replace(load.policy_of(settings, ours.run.suites), adk_compat=ours.adk_compat)
    renamed = baseline_base.renames(theirs.run.suites, ours.run.suites)
    project = BaseProject(rules=BaseRules(suites=theirs.run.suites, policy=policy), renamed=renamed)
    rules = baseline_rules.of(settings, ours.run.suites, Base(origin=origin, project=project), policy=policy)
    theirs = _under_new_names(theirs, {then: now for now, then in renamed.items()})
    head_run = dataclasses.replace(ours.run, suites=rules.suites)
    base_run, notes = _base_to_compare(theirs, ours, head_run.suites)
    if theirs.version != ours.version:
        notes.append(f"the base was measured by evalgate {theirs.version}, head by {ours.version}")
    comparison = comparison_compare.compare(
        head_run,
        base_run,
        policy=rules.policy,
        origin=dataclasses.replace(origin, notes=(*origin.notes, *notes)),
        unpaired=_unpaired(head_run, theirs.run),
        relaxed=rules.relaxed,
        stage=Stage.LAST if head_run.more or base_run.more else Stage.ONLY,
        run_together=_are_one_run(theirs, ours),
    )
    settled = repeats.settle_files(comparison, head=head_run, base=base_run, policy=rules.policy)
    problems = (*settings.problems, *repeats.not_run(settled))
    return gate_run.conclude(head_run, base_run, settled, rules, context, problems=problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renamed:
    """The base's transcripts under head's names of their files; `names`: the base's name by head's."""

    transcripts: Transcripts
    names: Mapping[str, str]

    def find(self, key: TrialKey) -> Transcript | None:
        """See `model.Transcripts`."""
        return self.transcripts.find(dataclasses.replace(key, suite=self.names.get(key.suite, key.suite)))


def _under_new_names(base: Stored, names: Mapping[str, str]) -> Stored:
    """The base's results with its files called as head calls them; `names`: head's name by the base's."""
    if not names:
        return base

    def now(suite: str) -> str:
        return names.get(suite, suite)

    def trial(known: GradedTrial) -> GradedTrial:
        return dataclasses.replace(known, key=dataclasses.replace(known.key, suite=now(known.key.suite)))

    run = dataclasses.replace(
        base.run,
        suites=tuple(dataclasses.replace(suite, key=now(suite.key)) for suite in base.run.suites),
        trials=tuple(map(trial, base.run.trials)),
        confirmations=tuple(map(trial, base.run.confirmations)),
        transcripts=_Renamed(transcripts=base.run.transcripts, names={ours: theirs for theirs, ours in names.items()}),
        repeated=frozenset((now(suite), case) for suite, case in base.run.repeated),
        fingerprints={(now(suite), case): known for (suite, case), known in base.run.fingerprints.items()},
    )
    return dataclasses.replace(
        base,
        run=run,
        criteria={(now(suite), name): known for (suite, name), known in base.criteria.items()},
    )


def _are_one_run(base: Stored, head: Stored) -> bool:
    """Whether the files are the two sides of one run, which ran all of the base beside the head."""
    told = head.comparison
    return _are_sides(base, head) and told is not None and told.origin.source is BaseSource.RERUN


def _are_sides(base: Stored, head: Stored) -> bool:
    """Whether the files are the two sides of one run, wherever the base's conversations come from."""
    told = head.comparison
    same = head.run.started_at == base.run.started_at
    return same and told is not None and told.origin.commit == base.run.commit


def _whole(path: Path, *, of: str) -> Stored:
    read = file.read_results(path, of=of)
    if read.run.shard is not None:
        raise ConfigError(
            f"{of} is shard {read.run.shard} of a run",
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


def _base_to_compare(base: Stored, head: Stored, suites: Sequence[Suite]) -> tuple[Run, list[str]]:
    """The base's run without the grades that were made otherwise there, and a note on each of these criteria.

    `suites`: head's, with the criteria that decide.
    """
    other = dict(_changed_criteria(base, head, suites))
    if not other:
        return base.run, []
    graded = tuple(_without(trial, other) for trial in base.run.trials)
    notes = dict.fromkeys(f"scores of {name} are not compared: it {why}" for (_, name), why in sorted(other.items()))
    return dataclasses.replace(base.run, trials=graded), list(notes)


def _changed_criteria(base: Stored, head: Stored, suites: Sequence[Suite]) -> Iterator[tuple[tuple[str, str], str]]:
    """Criteria by suite key and name that scored something else on the base, and in which way."""
    ours = _settings(suites, adk_compat=head.adk_compat)
    theirs = _settings(base.run.suites, adk_compat=base.adk_compat)
    names = {(suite.key, use.name) for suite in base.run.suites for use in suite.criteria}
    for suite in suites:
        for use in suite.criteria:
            key = (suite.key, use.name)
            then, now = base.prompt_of(*key), head.prompt_of(*key)
            if key not in names:
                continue
            if theirs[key] != ours[key]:
                yield key, "had other options on the base"
            elif then != now:
                told = f"version {then or 'unknown'}, now {now or 'unknown'}"
                yield key, f"used another judge prompt on the base ({told})"
            elif use.code is not None and not _is_same_code(base, head, suite):
                yield key, "may have different code on the base"


def _is_same_code(base: Stored, head: Stored, suite: Suite) -> bool:
    """Whether a custom metric certainly was the same: sides of one run are scored by head's; else every file that the
    agent may be made of is equal, the metric among them."""
    if _are_sides(base, head):
        return True
    codes = {_code(run, suite.key) for run in (base.run, head.run)}
    return len(codes) == 1 and "" not in codes


def _code(run: Run, suite: str) -> str:
    """The fingerprint of all files that the suite's agent may be made of; "" where only recordings count, or none."""
    agent = next((each.agent for each in run.suites if each.key == suite), None)
    return "" if agent is None or not agents.is_asked(agent) else run.codes.get(fingerprints.agent_key(agent), "")


def _settings(suites: Sequence[Suite], *, adk_compat: bool) -> Mapping[tuple[str, str], str]:
    return {
        (suite.key, use.name): fingerprints.of_criterion(use, version="", adk_compat=adk_compat)
        for suite in suites
        for use in suite.criteria
    }


def _without(trial: GradedTrial, other: Mapping[tuple[str, str], str]) -> GradedTrial:
    def grade(name: str, known: Grade) -> Grade:
        why = other.get((trial.key.suite, name))
        return known if why is None else NotEvaluated(reason=Reason.NOT_APPLICABLE, message=f"the criterion {why}")

    return dataclasses.replace(trial, grades={name: grade(name, known) for name, known in trial.grades.items()})
