"""What reports say in words: the verdict, the next step, why something could not be measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from evalgate.exhibits.cases import CaseExhibit
from evalgate.exhibits.conversation import Turn
from evalgate.markup import plain
from evalgate.model import AgentFailure, CriterionVerdict, FailureKind, Reason, Verdict, VerdictKind

WHY_LIMIT = 400
DETAIL_LIMIT = 20_000
UNMARKED = "text, but in no event that is marked final"


def kind_word(kind: VerdictKind) -> str:
    """`pass`, `fail`, `inconclusive`, `not measured`."""
    return kind.value.replace("_", " ")


def kind_mark(kind: VerdictKind) -> str:
    """A sign that reads without colour."""
    match kind:
        case VerdictKind.PASS:
            return "\N{WHITE HEAVY CHECK MARK}"
        case VerdictKind.FAIL:
            return "\N{CROSS MARK}"
        case VerdictKind.INCONCLUSIVE:
            return "\N{WHITE QUESTION MARK ORNAMENT}"
        case VerdictKind.NOT_MEASURED:
            return "\N{WARNING SIGN}\N{VARIATION SELECTOR-16}"
        case _:
            assert_never(kind)


def answer_mark(kind: VerdictKind | None) -> str:
    """The sign of a gate's answer; one of its own where there was nothing to ask."""
    return "\N{HEAVY MINUS SIGN}" if kind is None else kind_mark(kind)


def headline(verdict: Verdict) -> str:
    """The verdict in two or three words; says so where the policy lets a bad one through."""
    word = kind_word(verdict.kind).capitalize()
    if verdict.kind is VerdictKind.PASS or verdict.blocks:
        return word
    return f"{word}, but the policy does not block on it"


REASONS: Final[Mapping[Reason, str]] = {
    Reason.AGENT_FAILED: "the agent failed",
    Reason.REFERENCE_MISSING: "nothing to compare with",
    Reason.NOT_APPLICABLE: "does not apply",
    Reason.NOTHING_RECORDED: "nothing was recorded",
    Reason.TURNS_MISSING: "turns are missing",
    Reason.CRITERION_FAILED: "the criterion itself failed",
    Reason.JUDGE_UNAVAILABLE: "the judge gave no answer",
    Reason.JUDGE_UNREADABLE: "the judge's answer cannot be read",
    Reason.CREDENTIALS_MISSING: "the judge's credentials are missing or refused",
    Reason.RUBRICS_MISSING: "there are no rubrics",
    Reason.SIMULATOR_FAILED: "the simulated user failed",
    Reason.TEST_BROKEN: "the test was broken, not the agent",
    Reason.SKIPPED: "skipped",
}
"""Why a criterion has no score; a test holds every reason to a row."""

FAILURES: Final[Mapping[FailureKind, str]] = {
    FailureKind.INSTALL: "could not be installed",
    FailureKind.START: "did not start",
    FailureKind.RAISED: "raised an exception",
    FailureKind.MODEL_ERROR: "got an error from its model",
    FailureKind.RATE_LIMITED: "was rate-limited",
    FailureKind.UNREACHABLE: "could not reach a service",
    FailureKind.TIMEOUT: "took too long",
    FailureKind.EXITED: "ended by itself",
    FailureKind.KILLED: "was killed",
    FailureKind.FLOODED: "wrote more than allowed",
    FailureKind.PROTOCOL: "broke the protocol",
    FailureKind.NO_RECORDING: "has no recording",
    FailureKind.TOOL_UNMATCHED: "called a tool that has no answer",
    FailureKind.SIMULATOR: "gave no message",
}
"""What happened to the agent, or to the simulated user; a test holds every kind to a row."""


def failure_sentence(failure: AgentFailure) -> str:
    """`The agent raised an exception in turn 2 (raised): KeyError: 'city'`."""
    who = "simulated user" if failure.kind is FailureKind.SIMULATOR else "agent"
    where = f" in turn {failure.turn}" if failure.turn is not None else ""
    message = plain.one_line(plain.clip(failure.message, WHY_LIMIT))
    return f"The {who} {FAILURES[failure.kind]}{where} ({failure.kind.value}): {message}"


def no_answer(turn: Turn) -> str:
    """A turn without an answer: whether there was something that might have been one."""
    return f"The agent said {UNMARKED}, so that it gave no answer" if turn.unmarked else "The agent gave no answer"


def last_words(failure: AgentFailure) -> str:
    """What the agent left behind where it failed, mostly its standard error: the first and the last lines."""
    return plain.ends(plain.visible(plain.clip(failure.detail, DETAIL_LIMIT)), lines=12, limit=1_500).strip("\n")


def unmeasured_sentence(verdict: CriterionVerdict) -> str:
    """`the agent failed: KeyError`: why a criterion of a case has no verdict."""
    if verdict.reason is None:
        return plain.one_line(plain.clip(verdict.message, WHY_LIMIT)) or "no score"
    words = REASONS[verdict.reason]
    message = plain.one_line(plain.clip(verdict.message, WHY_LIMIT))
    return f"{words}: {message}" if message and message != words else words


def why_unmeasured(exhibit: CaseExhibit) -> str:
    """The one sentence on a case that could not be measured, an agent's failure before a criterion's silence."""
    if exhibit.failure is not None:
        return failure_sentence(exhibit.failure)
    if not exhibit.trials:
        return "It never ran."
    if exhibit.unmeasured:
        first = exhibit.unmeasured[0]
        return f"{first.name}: {unmeasured_sentence(first)}"
    return plain.one_line(plain.clip(exhibit.verdict.reason, WHY_LIMIT)) or "No criterion decides this case."
