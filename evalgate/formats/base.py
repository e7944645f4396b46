"""Formats that a package may read besides ADK's files: the rows of `FORMATS`, which entry points
name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from evalgate.config.settings import Settings
from evalgate.errors import Place, Problem
from evalgate.extensions import Table
from evalgate.model import (
    AgentUse,
    Case,
    CriterionUse,
    EvalSet,
    JudgedCriterion,
    Suite,
    Transcript,
    TrialView,
)
from evalgate.values import JsonObject
from .json_source import Problems, Spot
from .kind import CriteriaReading


class SearchedTree(Protocol):
    """A checkout after its walk; paths are POSIX and relative to `root`."""

    root: Path
    other_json: list[str]
    """Files whose names are not those of evaluation files or criteria."""
    other_yaml: list[str]
    """The same in YAML."""

    def is_excluded(self, path: str) -> bool:
        """True if the user excludes a path (`exclude`)."""

    def read(self, path: str, *, largest: int = ...) -> bytes | Problem:
        """The content of a file of at most `largest` bytes, or why it is not read."""


class FormatFiles(ABC):
    """The chosen evaluation files of one format in a checkout."""

    noun: ClassVar[str]
    """What one evaluation of the format is called."""
    problems: tuple[Problem, ...] = ()

    @abstractmethod
    def files(self) -> Collection[str]:
        """All known files: the chosen ones, and files that apply to them."""

    @abstractmethod
    def eval_sets(
        self, selected_ids: Mapping[str, Sequence[str]]
    ) -> tuple[Mapping[str, EvalSet], tuple[Problem, ...]]:
        """The cases that can run, by file, and the problems of the files and of the cases that
        cannot run. `selected_ids`: the case ids that the user named, by file; () for all cases."""

    @abstractmethod
    def holds_cases(self, file: str) -> bool:
        """True if a chosen file holds cases that could run, not settings for them."""

    @abstractmethod
    def criteria_of(self, cases: Iterable[Case], agent: AgentUse) -> list[CriterionUse]:
        """The criteria that score these cases of the agent."""

    @abstractmethod
    def evaluation_count(self) -> int:
        """The number of chosen evaluations, including those that cannot run."""

    @abstractmethod
    def lines(self, *, measured_files: Collection[str]) -> Iterable[str]:
        """For `evalgate list`: the chosen files, except those in `measured_files`."""


class Format:
    """One row of `FORMATS`. A format overrides what it supports; the defaults are empty."""

    name: ClassVar[str]

    # --- evaluation files ---

    def is_evaluation_file(self, path: str) -> bool:
        """True if the path alone shows that a file has evaluations and is not part of an agent."""
        return False

    def find(self, tree: SearchedTree, *, named_files: Iterable[str]) -> tuple[str, ...]:
        """The files of this format in a checkout that are not excluded, and those of `named_files`
        in this format. Asked if the checkout has other JSON or YAML files, or the user names
        files."""
        return ()

    def read(
        self, tree: SearchedTree, files: Collection[str], *, chosen: Collection[str]
    ) -> FormatFiles | None:
        """Read the `chosen` ones of the `files` of this format; None if it has no evaluations."""
        return None

    def why_unchanged(self, text: str, *, file: str) -> str:
        """Why `evalgate accept` does not change a file that only this format reads; "" for other
        files."""
        return ""

    def differences(self, base: Case, head: Case) -> list[str] | None:
        """The differences of two versions of a case, in words; None for cases of other formats."""
        return None

    # --- cases and metrics in files of a dialect with the row's name (`kind.Dialect`) ---

    def read_case(self, raw: Any, spot: Spot, *, place: Place | None = None) -> Case | None:
        """The case at `spot`; None, with a problem, if it is invalid. An element of a flat list is
        a case without an id."""
        return None

    def read_recorded_case(self, raw: Any, spot: Spot) -> Case | None:
        """The same with the agent's recorded answer instead of the expected one."""
        return None

    def read_criteria(
        self, text: str, *, file: str, read: Callable[[str], bytes | Problem]
    ) -> CriteriaReading:
        """Read the file of the metrics. `read`: reads another file of the repository."""
        return CriteriaReading()

    def instance(self, view: TrialView) -> JsonObject:
        """The input of a metric's `evaluate(instance)`: the case as written, and the run. Without
        an answer, it has no `response`."""
        return {}

    # --- recorded conversations ---

    def is_trace(self, raw: Any) -> bool:
        """True if a JSON value is a recorded conversation, or a part of one."""
        return False

    def read_traces(self, raw: Sequence[Any], problems: Problems) -> list[tuple[str, Transcript]]:
        """The recorded conversations in JSON values, each with its session id."""
        return []

    # --- judges ---

    def find_problems(self, settings: Settings, suites: Sequence[Suite]) -> Iterable[Problem]:
        """Problems that make a run of suites unreliable, asked if `on-platform` or `judge` needs a
        format. The suites have their judges' settings."""
        return ()

    def calibrations(
        self, settings: Settings, suites: Sequence[Suite]
    ) -> tuple[JudgedCriterion, ...]:
        """The calibrations of the suites' judges with human labels, if `judge` names a file."""
        return ()


FORMATS: Table[Format] = Table("evalgate.formats", Format)


def format_of_traces(values: Sequence[Any]) -> Format | None:
    """The format of recorded conversations to which all of these JSON values belong; None if there
    is none."""
    return next(
        (row for row in FORMATS.values() if values and all(map(row.is_trace, values))), None
    )
