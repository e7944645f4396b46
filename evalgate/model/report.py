"""The value from which every report is made: everything that a report may show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypedDict

from evalgate.errors import ExitCode, Problem, below
from evalgate.values import frozen_dataclass
from .calibration import CriterionJudge, JudgedCriterion
from .comparison import (
    BaseOrigin,
    BaseSource,
    Comparison,
    Edits,
    Policy,
    Verdict,
)
from .run import Run, VerdictKind
from .trial import CaseKey


@frozen_dataclass
class Links:
    """Addresses for reports; "" if unknown (locally)."""

    repository: str = ""
    """https://github.com/org/repo"""
    commit: str = ""
    """The full SHA of the head."""
    checkout: str = ""
    """The SHA of the files that were read, such as the merge of a pull request."""
    workflow_run: str = ""
    folder: str = ""
    """The evaluation files' root, in the repository."""
    pull_request: str = ""
    """Its number."""
    keeps_files: bool = True
    """False if reports are not uploaded and are lost with the job."""

    def place(self, file: str) -> str:
        """A file as the repository names it."""
        return below(self.folder, file)


@frozen_dataclass
class Trend:
    """A criterion in the last runs of the base branch, and in this run."""

    criterion: str
    means: tuple[float | None, ...]
    """Of the base branch's runs, the oldest first; None if a run has no mean."""
    current: float | None
    """Of this run."""
    since: str = ""
    """The start of the first of these runs, ISO 8601, UTC."""
    until: str = ""
    """The start of the last one."""


@frozen_dataclass
class FailureCause:
    """Why cases do not pass."""

    cause: str
    """One line."""
    status: str
    """How the cases compare with the base, in words."""
    cases: tuple[CaseKey, ...]
    """Suite and id of each."""


class PastCase(TypedDict):
    """The result of a case in an earlier run."""

    at: str
    """ISO 8601, UTC."""
    commit: str
    kind: VerdictKind
    place: str
    """The machine of the run."""
    outcome: str
    """The result in words."""


@frozen_dataclass
class KnownFacts:
    """What is known beside the run and its comparison: earlier runs of the base branch, and the
    judges."""

    trends: tuple[Trend, ...] = ()
    """Empty without a history of base runs."""
    past: Mapping[CaseKey, tuple[PastCase, ...]] = field(default_factory=dict)
    """The earlier results of each case, the oldest first."""
    criterion_judges: tuple[CriterionJudge, ...] = ()
    """Who judges each criterion; empty if that is unknown."""
    judged: tuple[JudgedCriterion, ...] = ()
    """By suite, if a calibration of its judges is configured."""


@frozen_dataclass
class PostSettings:
    """The effective settings of these names for GitHub; empty as the run was started."""

    comment: str = ""
    check_run: bool = False


@frozen_dataclass
class Display:
    """How a report is shown: its names, its addresses and its files."""

    title: str = "evalgate"
    version: str = ""
    """Of evalgate."""
    links: Links = Links()
    reproduce: str = ""
    """The command that repeats the run; "" if it is unknown."""
    channels: PostSettings = PostSettings()
    summary: str = ""
    """The job summary as written."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The paths of written reports, by the report's name."""
    lacks_files: bool = False
    """True if a file could not be written."""


_NOT_COMPARED = Comparison(origin=BaseOrigin(source=BaseSource.RERUN))


@frozen_dataclass
class Report:
    """The run, the verdict, and further facts for the reader."""

    run: Run
    verdict: Verdict
    policy: Policy
    """The rules that decided."""
    comparison: Comparison | None = None
    """None if no base was requested."""
    edits: Edits = field(default_factory=Edits)
    """The edits of the change to its own rules."""
    problems: tuple[Problem, ...] = ()
    """Remarks about files, settings and what could not be done."""
    facts: KnownFacts = KnownFacts()
    display: Display = Display()

    @property
    def compared(self) -> Comparison:
        """The comparison; an empty one if no base was requested."""
        return self.comparison or _NOT_COMPARED

    @property
    def links(self) -> Links:
        """The addresses that it links to."""
        return self.display.links

    @property
    def files(self) -> Mapping[str, str]:
        """The paths of written reports, by the report's name."""
        return self.display.files

    @property
    def head_commit(self) -> str:
        """Head's commit; "" if it is unknown."""
        return self.links.commit or self.run.commit

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the process. 0: the policy does not block. 1: a fail blocks. 3: anything
        else blocks, also beside a non-blocking fail; or a file could not be written. 130: the run
        was interrupted. A part has no verdict; its code is 3 if its agent failed in every trial."""
        run = self.run
        if not run.complete:
            return ExitCode.INTERRUPTED
        is_dead_part = run.is_part and all(trial.failure is not None for trial in run.trials)
        if is_dead_part and run.trials:
            return ExitCode.NOT_MEASURED
        if self.verdict.blocked_by is VerdictKind.FAIL:
            return ExitCode.FAIL
        has_passed = not (self.verdict.blocks or self.display.lacks_files)
        return ExitCode.PASS if has_passed else ExitCode.NOT_MEASURED

    @property
    def lacks_files(self) -> bool:
        """True if only reports that could not be written fail the job."""
        is_blocked = self.run.is_part or self.verdict.blocks
        return self.exit_code is ExitCode.NOT_MEASURED and not is_blocked

    @property
    def is_relaxed(self) -> bool:
        """True if only rules that the change relaxes let it pass."""
        return self.edits.decide and not self.verdict.blocks
