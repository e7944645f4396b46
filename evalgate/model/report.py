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

    repository: str = ""  # https://github.com/org/repo
    commit: str = ""  # full SHA of the head
    checkout: str = ""  # of the files that were read, such as the merge of a pull request
    workflow_run: str = ""
    folder: str = ""  # of the evaluation files' root, in the repository
    pull_request: str = ""  # its number
    keeps_files: bool = True  # False: reports are not uploaded and are lost with the job

    def place(self, file: str) -> str:
        """A file as the repository names it."""
        return below(self.folder, file)


@frozen_dataclass
class Trend:
    """A criterion's mean in the last runs of the base branch, the oldest first, None if a run has
    no mean; and in this run.

    `since`, `until`: start of the first and of the last of these runs, ISO 8601, UTC."""

    criterion: str
    means: tuple[float | None, ...]
    current: float | None
    since: str = ""
    until: str = ""


@frozen_dataclass
class FailureCause:
    """Why cases do not pass, in one line, and how they compare with the base. `cases`: suite and id
    of each."""

    cause: str
    status: str
    cases: tuple[CaseKey, ...]


class PastCase(TypedDict):
    """The result of a case in an earlier run. `at`: ISO 8601, UTC; `place`: the machine of the run;
    `outcome`: the result in words."""

    at: str
    commit: str
    kind: VerdictKind
    place: str
    outcome: str


_NOT_COMPARED = Comparison(origin=BaseOrigin(source=BaseSource.RERUN))


@frozen_dataclass
class Report:
    """The run, the verdict, and further facts for the reader."""

    run: Run
    verdict: Verdict
    policy: Policy
    comparison: Comparison | None = None  # None if no base was requested
    # edits of the change to its own rules
    edits: Edits = field(default_factory=Edits)
    problems: tuple[Problem, ...] = ()
    # by suite, if a calibration of its judges is configured
    judged: tuple[JudgedCriterion, ...] = ()
    criterion_judges: tuple[CriterionJudge, ...] = ()  # who judges each criterion, if known
    trends: tuple[Trend, ...] = ()  # empty without a history of base runs
    # by case, the oldest first
    past: Mapping[CaseKey, tuple[PastCase, ...]] = field(default_factory=dict)
    links: Links = Links()
    title: str = "evalgate"
    reproduce: str = ""  # a command
    version: str = ""  # of evalgate
    exit_code: ExitCode = ExitCode.PASS  # of the process
    # paths of written reports, by the report's name
    files: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""  # of the job, as written
    # the effective setting of this name; "": as the run was started
    comment: str = ""
    check_run: bool = False  # the same

    @property
    def compared(self) -> Comparison:
        """The comparison; an empty one if no base was requested."""
        return self.comparison or _NOT_COMPARED

    @property
    def base(self) -> Run | None:
        """The base's run, if there is one."""
        return self.compared.base

    @property
    def head_commit(self) -> str:
        """Head's commit; "" if it is unknown."""
        return self.links.commit or self.run.commit

    @property
    def lacks_files(self) -> bool:
        """True if only reports that could not be written fail the job."""
        is_blocked = self.run.is_part or self.verdict.blocks
        return self.exit_code is ExitCode.NOT_MEASURED and not is_blocked

    @property
    def is_relaxed(self) -> bool:
        """True if only rules that the change relaxes let it pass."""
        return self.edits.decide and not self.verdict.blocks
