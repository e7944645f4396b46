"""What a reader is told to do: the answer of each gate, the next step, the command that shows the same at a desk."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from evalgate.markup import plain
from evalgate.model import FailureOrigin, GateKind, GateVerdict, Report, Standing, ThresholdRule, VerdictKind

REASON_LIMIT = 600
COMMAND_LIMIT = 4_000
Lies: TypeAlias = Literal["above", "below"]
SHA_WIDTH = 12
HEX = frozenset("0123456789abcdef")

QUESTIONS: Final[Mapping[GateKind, str]] = {
    GateKind.THRESHOLD: "Thresholds",
    GateKind.REGRESSION: "Against the base",
}
"""What each gate is about; a test holds every gate to a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One gate's answer, on one line and bounded. `kind` None: it passes because there was nothing to ask."""

    question: str
    kind: VerdictKind | None
    reason: str


def answers(report: Report) -> tuple[Answer, ...]:
    """The gates' answers where there are two, what blocks first; () where the verdict's reason says it all."""
    gates = report.verdict.gates
    if len(gates) < 2:
        return ()
    return tuple(
        Answer(
            question=QUESTIONS[gate.gate],
            kind=None if unasked(gate, report) else gate.kind,
            reason=plain.one_line(plain.clip(gate.reason, REASON_LIMIT)),
        )
        for gate in sorted(gates, key=lambda gate: not gate.blocks)
    )


def unasked(gate: GateVerdict, report: Report) -> bool:
    """Whether a gate passes because the base has nothing yet that head could be compared with."""
    comparison = report.comparison
    return gate.gate is GateKind.REGRESSION and comparison is not None and comparison.no_agent


def next_step(report: Report, *, lies: Lies = "below") -> str:
    """What the reader can do about the verdict, names between backticks; "" for a clean pass.

    `lies`: where the report has its cases, seen from this sentence.
    """
    kind = report.verdict.blocked_by or report.verdict.kind
    match kind:
        case VerdictKind.PASS:
            return _after_pass(report, lies)
        case VerdictKind.FAIL:
            return _after_fail(report)
        case VerdictKind.INCONCLUSIVE:
            if report.run.truncated:
                return "Give it a larger `budget` or fewer `runs`: what is left cannot tell."
            return "Run again with more repeats (`runs`): the data cannot tell."
        case VerdictKind.NOT_MEASURED:
            return _after_not_measured(report, lies)
        case _:
            assert_never(kind)


def _after_pass(report: Report, lies: Lies) -> str:
    if not report.verdict.count(VerdictKind.FAIL):
        first = report.comparison is not None and report.comparison.no_agent
        return "The base has nothing that could have become worse: the thresholds alone decide." if first else ""
    failed = _deciding_failures(report)
    if not failed:
        return f"The cases {lies} failed, and none of them decides."
    some = report.verdict.count(VerdictKind.FAIL) > len(failed)
    if report.policy.threshold is ThresholdRule.NEW and _none_newly(report, failed):
        which = "none of those that decide newly" if some else "none of them newly"
        return f"The cases {lies} failed, {which}: `threshold: new` lets that pass."
    which = "those that decide within" if some else "within"
    return f"The cases {lies} failed, {which} what the required pass rate allows."


def _deciding_failures(report: Report) -> set[tuple[str, str]]:
    return {
        (case.suite, case.case_id)
        for suite in report.verdict.suites
        for case in suite.cases
        if case.kind is VerdictKind.FAIL and case.admitted and not suite.advisory
    }


def _none_newly(report: Report, failed: Collection[tuple[str, str]]) -> bool:
    """Whether the base is known to have had each of these failures, or chance alone made them."""
    if report.comparison is None:
        return False
    old = {
        (case.suite, case.case_id)
        for case in report.comparison.cases
        if case.standing is Standing.PAIRED and case.origin in (FailureOrigin.KNOWN, FailureOrigin.FLAKY)
    }
    return old.issuperset(failed)


def _after_fail(report: Report) -> str:
    if _kind(report, GateKind.THRESHOLD) is not VerdictKind.FAIL:
        return "Repair what became worse; a drop that is meant can be allowed with `max_drop`."
    if _kind(report, GateKind.REGRESSION) is VerdictKind.PASS and _all_known(report):
        return "The base fails every one of these, too: repair them, or let them pass with `threshold: new`."
    return "Repair the agent, or update the expected values if the new behaviour is right."


def _after_not_measured(report: Report, lies: Lies) -> str:
    comparison = report.comparison
    suites = report.verdict.suites
    if suites and all(suite.advisory for suite in suites) and not report.verdict.blocks:
        if any(not case.admitted for suite in suites for case in suite.cases):
            return f"What is {lies} decides nothing until enough runs of the base branch are on record (`admission`)."
        return f"What is {lies} decides nothing: give a suite another `severity` to have it decide."
    threshold = next((each for each in report.verdict.gates if each.gate is GateKind.THRESHOLD), None)
    unmeasured = threshold is not None and VerdictKind.NOT_MEASURED in (threshold.kind, threshold.blocked_by)
    if unmeasured or comparison is None:
        return f"This says nothing about the agent's quality: repair what is named {lies} and run again."
    if comparison.problem:
        return "Whether anything became worse is not known: make the base run, or do without it (`baseline: none`)."
    return "Whether anything became worse is not known: see which cases could not be measured."


def _kind(report: Report, gate: GateKind) -> VerdictKind | None:
    return next((each.kind for each in report.verdict.gates if each.gate is gate), None)


def _all_known(report: Report) -> bool:
    origins = {case.origin for case in report.comparison.cases if case.origin} if report.comparison else set()
    return origins == {FailureOrigin.KNOWN}


def reproduce(report: Report) -> str:
    """The command that shows the same at a desk: where there is a base, with the very commit that was compared with.

    "" where no command is known. A command that cannot be read as words is returned as it is.
    """
    told = report.reproduce.strip()
    base = report.comparison.origin.commit if report.comparison is not None else ""
    if (
        not told.startswith("evalgate run")
        or len(told) > COMMAND_LIMIT
        or len(base) < SHA_WIDTH
        or not set(base) <= HEX
    ):
        return told
    try:
        words = shlex.split(told)
    except ValueError:
        return told
    return shlex.join([*_without_base(words), "--base", base[:SHA_WIDTH]])


def _without_base(words: list[str]) -> list[str]:
    kept: list[str] = []
    for at, word in enumerate(words):
        value_of = words[at - 1] if at else ""
        if word != "--base" and value_of != "--base" and not word.startswith("--base="):
            kept.append(word)
    return kept
