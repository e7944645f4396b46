"""What a package may read of a checkout besides ADK's files: the rows of `FORMATS`, as entry points
name them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from evalgate.config.settings import Settings
from evalgate.errors import Problem
from evalgate.extensions import Table
from evalgate.formats.json_source import Problems
from evalgate.model import AgentUse, Case, CriterionUse, EvalSet, JudgedCriterion, Suite, Transcript


class SearchedTree(Protocol):
    """A checkout as it was walked; paths are posix and relative to `root`."""

    root: Path
    other_json: list[str]
    other_yaml: list[str]

    def read(self, path: str, *, largest: int = ...) -> bytes | Problem:
        """The content of a file, or why it is not read."""


class FormatFiles(ABC):
    """The evaluation files of one format in a checkout, as far as they are chosen. `noun`: one of
    their evaluations."""

    noun: ClassVar[str]
    problems: tuple[Problem, ...] = ()

    @abstractmethod
    def files(self) -> Collection[str]:
        """All files that are known, the chosen ones and what applies to them."""

    @abstractmethod
    def eval_sets(
        self, selected_ids: Mapping[str, Sequence[str]]
    ) -> tuple[Mapping[str, EvalSet], tuple[Problem, ...]]:
        """The cases that can be run, by file, and the problems of a run: of files, and why cases
        are left out. `selected_ids`: files that the user named, with the ids of cases, none for
        all."""

    @abstractmethod
    def is_of_cases(self, file: str) -> bool:
        """True if a chosen file holds cases that could be run, not settings that apply to them."""

    @abstractmethod
    def criteria_of(self, cases: Iterable[Case], agent: AgentUse) -> list[CriterionUse]:
        """What scores these cases of the agent."""

    @abstractmethod
    def size(self) -> int:
        """How many evaluations were chosen, whether they can be run or not."""

    @abstractmethod
    def lines(self, *, run: Collection[str]) -> Iterable[str]:
        """For `evalgate list`: the chosen files, except those that are `run`."""


class Format:
    """One row of `FORMATS`. A format overrides what it has; the rest stays as it is here."""

    name: ClassVar[str]

    # --- evaluation files ---

    def is_evaluation_file(self, path: str) -> bool:
        """True if its path alone shows that a file has evaluations and is not part of an agent."""
        return False

    def find(
        self, tree: SearchedTree, *, exclude: Sequence[str], named_files: Iterable[str]
    ) -> tuple[str, ...]:
        """Its files in a checkout, and those of `named_files` that are of this format."""
        return ()

    def left_out(self, tree: SearchedTree, *, exclude: Sequence[str]) -> tuple[str, ...]:
        """Its files that `exclude` leaves out."""
        return ()

    def read(
        self, tree: SearchedTree, files: Collection[str], *, chosen: Collection[str]
    ) -> FormatFiles | None:
        """The `chosen` ones of its `files`; None: this format has no evaluations."""
        return None

    def why_unchanged(self, text: str, *, file: str) -> str:
        """Why `evalgate accept` does not change a file of it, which no other format reads; "" for
        other files."""
        return ""

    def changed(self, base: Case, head: Case) -> list[str] | None:
        """What differs between two versions of a case, in words; None for cases of others."""
        return None

    # --- recorded conversations ---

    def is_trace(self, raw: Any) -> bool:
        """True if a JSON value is a recorded conversation, or a part of one."""
        return False

    def read_traces(self, raw: Sequence[Any], problems: Problems) -> list[tuple[str, Transcript]]:
        """The conversations in such values, by the id of their session."""
        return []

    # --- what is known of judges ---

    def check(self, settings: Settings, suites: Sequence[Suite]) -> Iterable[Problem]:
        """What keeps a run of settled suites from being relied on."""
        return ()

    def judged(self, settings: Settings, suites: Sequence[Suite]) -> tuple[JudgedCriterion, ...]:
        """What people's labels say of the judges that the suites ask."""
        return ()


FORMATS: Final[Table[Format]] = Table("evalgate.formats", Format)


def traces_of(items: Sequence[Any]) -> Format | None:
    """The format of recorded conversations that all of these JSON values are of."""
    return next((row for row in FORMATS.values() if items and all(map(row.is_trace, items))), None)
