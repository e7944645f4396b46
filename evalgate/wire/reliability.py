"""ledger.json: the reliability ledger as it is stored, read as something that anybody may have written."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

from pydantic import ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from evalgate.model import CaseHistory, LedgerRun, PastOutcome, ReliabilityLedger
from evalgate.model.grade import MOST
from evalgate.wire.shapes import Wire

SCHEMA_VERSION = 1


MOST_COUNT = 2**53 - 1
"""The largest number that every reader of JSON reads as it was written."""


class UnreadableLedger(Exception):  # noqa: N818 - it says what is the matter
    """The text is no ledger. `newer`: it is one of a later version of evalgate, which must not be overwritten."""

    def __init__(self, message: str, *, newer: bool = False) -> None:
        super().__init__(message)
        self.newer = newer


class _Shape(Wire):
    """Readers must ignore keys that they do not know: later versions may add some."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


Count = Annotated[int, Field(ge=0, le=MOST_COUNT)]
Mean = Annotated[FiniteFloat, Field(ge=-MOST, le=MOST)]


class RunEntry(_Shape):
    """One run of the base branch."""

    number: Count = Field(description="Counts all runs there ever were, from 1.")
    commit: str
    at: str = Field(description="ISO 8601, UTC.")
    means: dict[str, Mean] = Field(default_factory=dict, description="Mean of each criterion.")


Counts = Annotated[
    tuple[Count, Count, Count, Count],
    Field(description="Number of the run; repeats that passed, that were measured, that were asked for."),
]


class CaseEntry(_Shape):
    """One case since its content or its criteria were last changed."""

    suite: str
    case_id: str
    question: str = Field(default="", description="Equal for equal content of the case.")
    fingerprint: str = Field(description="Equal for an equal question and equal criteria that decide on it.")
    outcomes: list[Counts] = Field(min_length=1, description="Oldest first.")

    @model_validator(mode="after")
    def _counts_make_sense(self) -> CaseEntry:
        numbers = [number for number, *_ in self.outcomes]
        if any(not passes <= measured <= runs for _, passes, measured, runs in self.outcomes):
            raise ValueError("more passed than were measured, or more were measured than asked for")
        if any(later <= earlier for earlier, later in itertools.pairwise(numbers)):
            raise ValueError("the runs are not in order")
        return self


class LedgerFile(_Shape):
    """The whole file."""

    schema_version: int = Field(SCHEMA_VERSION, ge=1)
    runs: list[RunEntry] = Field(description="The last runs of the base branch, oldest first.")
    cases: list[CaseEntry]

    @model_validator(mode="after")
    def _runs_are_in_order(self) -> LedgerFile:
        numbers = [run.number for run in self.runs]
        if any(later <= earlier for earlier, later in itertools.pairwise(numbers)):
            raise ValueError("the runs are not in order")
        return self


def render_ledger(ledger: ReliabilityLedger) -> str:
    """ledger.json, one case a line so that its history diffs well."""
    runs = [RunEntry(number=run.number, commit=run.commit, at=run.at, means=dict(run.means)) for run in ledger.runs]
    lines = [
        CaseEntry(
            suite=_writable(history.suite),
            case_id=_writable(history.case_id),
            question=history.question,
            fingerprint=history.fingerprint,
            outcomes=[(each.number, each.passes, each.measured, each.runs) for each in history.outcomes],
        ).model_dump_json()
        for history in ledger.cases
    ]
    head = ",\n".join(run.model_dump_json() for run in runs)
    body = ",\n".join(lines)
    return f'{{"schema_version":{SCHEMA_VERSION},"runs":[\n{head}\n],"cases":[\n{body}\n]}}\n'


def parse_ledger(text: bytes) -> ReliabilityLedger:
    """The ledger in a file. Raises UnreadableLedger."""
    try:
        read = LedgerFile.model_validate_json(text)
    except ValidationError as error:
        if _version(text) > SCHEMA_VERSION:
            raise _newer() from None
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"][:4])
        raise UnreadableLedger(f"{where}: {first['msg']}" if where else first["msg"]) from None
    if read.schema_version > SCHEMA_VERSION:
        raise _newer()
    return ReliabilityLedger(
        runs=tuple(LedgerRun(number=run.number, commit=run.commit, at=run.at, means=run.means) for run in read.runs),
        cases=tuple(_history(case) for case in read.cases),
    )


def schema() -> dict[str, Any]:
    """The JSON schema of ledger.json."""
    described = LedgerFile.model_json_schema(by_alias=False)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | described


class _Version(_Shape):
    schema_version: int = 0


def _version(text: bytes) -> int:
    try:
        return _Version.model_validate_json(text).schema_version
    except ValidationError:
        return 0


def _newer() -> UnreadableLedger:
    return UnreadableLedger("it was written by a later version of evalgate", newer=True)


def _history(case: CaseEntry) -> CaseHistory:
    return CaseHistory(
        suite=case.suite,
        case_id=case.case_id,
        question=case.question,
        fingerprint=case.fingerprint,
        outcomes=tuple(
            PastOutcome(number=number, passes=passes, measured=measured, runs=runs)
            for number, passes, measured, runs in case.outcomes
        ),
    )


def _writable(text: str) -> str:
    """A name of the user's without lone surrogates, which JSON readers refuse."""
    return text.encode("utf-8", "replace").decode()
