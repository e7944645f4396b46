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
    """Such as `https://github.com/org/repo`."""
    commit: str = ""
    """Full SHA of the head."""
    checkout: str = ""
    """Of the files that were read, such as the merge of a pull request."""
    workflow_run: str = ""
    """The address of the workflow run."""
    folder: str = ""
    """Of the evaluation files' root, in the repository."""
    pull_request: str = ""
    """Its number."""
    keeps_files: bool = True
    """False: reports are not uploaded and are lost with the job."""

    def place(self, file: str) -> str:
        """A file as the repository names it."""
        return below(self.folder, file)


@frozen_dataclass
class Trend:
    """A criterion's mean in the last runs of the base branch, the oldest first, None if a run has
    no mean; and in this run."""

    criterion: str
    means: tuple[float | None, ...]
    current: float | None
    """The mean of this run; None if it has none."""
    since: str = ""
    """Start of the first of these runs, ISO 8601, UTC."""
    until: str = ""
    """Start of the last of these runs."""


@frozen_dataclass
class FailureCause:
    """Why cases do not pass, in one line, and how they compare with the base."""

    cause: str
    """The cause in one line."""
    status: str
    """How its cases compare with the base, in words."""
    cases: tuple[CaseKey, ...]
    """Suite and id of each."""


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
    """The rules that decided."""
    comparison: Comparison | None = None
    """None if no base was requested."""
    edits: Edits = field(default_factory=Edits)
    """Edits of the change to its own rules."""
    problems: tuple[Problem, ...] = ()
    """Remarks about files, settings and what could not be done."""
    judged: tuple[JudgedCriterion, ...] = ()
    """The agreement of judges with people, if a calibration is configured."""
    criterion_judges: tuple[CriterionJudge, ...] = ()
    """Who judges each criterion, if known."""
    trends: tuple[Trend, ...] = ()
    """Empty without a history of base runs."""
    past: Mapping[CaseKey, tuple[PastCase, ...]] = field(default_factory=dict)
    """Earlier results by case, the oldest first."""
    links: Links = Links()
    title: str = "evalgate"
    reproduce: str = ""
    """The command that shows the same locally; "" if unknown."""
    version: str = ""
    """The version of evalgate."""
    exit_code: ExitCode = ExitCode.PASS
    """Of the process."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Paths of written reports, by the report's name."""
    summary: str = ""
    """The summary of the job, as written."""
    comment: str = ""
    """The effective setting of this name; "": as the run was started."""
    check_run: bool = False
    """The effective setting of this name."""

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
