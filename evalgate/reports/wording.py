"""Words that several reports share: the verdict, the next step, why a case could not be evaluated."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, assert_never

from evalgate.model import (
    AgentFailure,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    Comparison,
    CriterionVerdict,
    FailureKind,
    FailureOrigin,
    GateKind,
    GateVerdict,
    NonBlocking,
    Reason,
    Report,
    Score,
    ThresholdRule,
    VerdictKind,
)
from evalgate.reports import cases as reports_cases, edits
from evalgate.reports.cases import CaseView
from evalgate.results.labels import CaseCounts
from evalgate.text import plain, words
from evalgate.values import frozen_dataclass

REASON_LIMIT = 600
WHY_LIMIT = 600
CAUSE_LIMIT = 320
LONGEST = 8_000
"""Of a foreign text that is looked at at all."""
DETAIL_LIMIT = 20_000
COMMAND_LIMIT = 4_000
Lies: TypeAlias = Literal["above", "below"]
SHA_WIDTH, NAME_WIDTH = 12, 80
HEX = frozenset("0123456789abcdef")
MARKS: Final[Mapping[VerdictKind, str]] = {
    VerdictKind.PASS: "\N{WHITE HEAVY CHECK MARK}",
    VerdictKind.FAIL: "\N{CROSS MARK}",
    VerdictKind.INCONCLUSIVE: "\N{WHITE QUESTION MARK ORNAMENT}",
    VerdictKind.NOT_MEASURED: "\N{WARNING SIGN}\N{VARIATION SELECTOR-16}",
}
UNMARKED = "text, but not in an event marked as final"
INTERRUPTED = "The run was interrupted; cases that did not run count as not measured."

QUESTIONS: Final[Mapping[GateKind, str]] = {
    GateKind.THRESHOLD: "Thresholds",
    GateKind.REGRESSION: "Against the base",
}
"""What each gate is about; a test holds every gate to a row."""

REASONS: Final[Mapping[Reason, str]] = {
    Reason.AGENT_FAILED: "the agent failed",
    Reason.REFERENCE_MISSING: "nothing to compare with",
    Reason.NOT_APPLICABLE: "not applicable",
    Reason.NOTHING_RECORDED: "nothing was recorded",
    Reason.TURNS_MISSING: "turns are missing",
    Reason.CRITERION_FAILED: "scoring failed",
    Reason.JUDGE_UNAVAILABLE: "the judge did not answer",
    Reason.JUDGE_NOT_RECORDED: "the judge has no recorded reply",
    Reason.JUDGE_UNREADABLE: "the judge's answer could not be parsed",
    Reason.CREDENTIALS_MISSING: "the judge's credentials are missing or were refused",
    Reason.RUBRICS_MISSING: "there are no rubrics",
    Reason.SIMULATOR_FAILED: "the simulated user failed",
    Reason.TEST_BROKEN: "invalid test run",
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
    FailureKind.TIMEOUT: "timed out",
    FailureKind.EXITED: "exited",
    FailureKind.KILLED: "was killed",
    FailureKind.FLOODED: "exceeded the output limit",
    FailureKind.PROTOCOL: "violated the protocol",
    FailureKind.NO_RECORDING: "has no recording",
    FailureKind.TOOL_UNMATCHED: "called a tool that has no matching answer",
    FailureKind.SIMULATOR: "gave no message",
}
"""What happened to the agent, or to the simulated user; a test holds every kind to a row."""


@frozen_dataclass
class GateAnswer:
    """One gate's answer, on one line and bounded. `kind` None: it passes because there was nothing to ask."""

    question: str
    kind: VerdictKind | None
    reason: str


def bounded(message: str, limit: int) -> str:
    """A message on one line, at most about `limit` characters of it, what it says to do among them."""
    return plain.keep_advice(plain.one_line(plain.clip(message, LONGEST)), limit)


def kind_word(kind: VerdictKind) -> str:
    """`pass`, `fail`, `inconclusive`, `not measured`."""
    return kind.value.replace("_", " ")


def kind_mark(kind: VerdictKind | None) -> str:
    """A sign that reads without color; one of its own for a gate that had nothing to ask."""
    return "\N{HEAVY MINUS SIGN}" if kind is None else MARKS[kind]


def case_word(case: CaseView) -> str:
    """`pass`, `fail`, `flaky`, `quarantined`, `inconclusive`, `not measured`: how a case ended."""
    return case.group.replace("_", " ")


def case_mark(case: CaseView) -> str:
    """The sign of a case: a failure that does not block has one of its own."""
    return reports_cases.NON_BLOCKING if case.is_let_pass else kind_mark(case.kind)


def counts(cases: CaseCounts) -> tuple[tuple[str, int, str], ...]:
    """The cases by word, which add up to all: a word, its number, and which of them there are more to say of. What is
    rare is left out where there is none."""
    of_failed = ((getattr(cases, label.value), said) for label, said in reports_cases.IN_COUNTS.items())
    listed = (
        ("passed", cases.passed, f"{cases.fixed:,} fixed" if cases.fixed else ""),
        ("failed", cases.failed, ", ".join(f"{number:,} {said}" for number, said in of_failed if number)),
        ("flaky", cases.flaky, ""),
        ("quarantined", cases.quarantined, ""),
        ("inconclusive", cases.inconclusive, ""),
        ("not measured", cases.not_measured, ""),
    )
    return tuple(each for each in listed if each[1] or each[0] in ("passed", "failed", "not measured"))


def headline(report: Report) -> str:
    """The verdict in two or three words; says so where the policy lets a bad one through, and where the change's own
    rules alone let it pass."""
    verdict = report.verdict
    if report.edits.decide and not verdict.blocks:
        return edits.BY_ITS_OWN.capitalize()
    word = kind_word(verdict.kind).capitalize()
    return word if verdict.kind is VerdictKind.PASS or verdict.blocks else f"{word} (non-blocking)"


def answers(report: Report) -> tuple[GateAnswer, ...]:
    """The gates' answers where there are two, what blocks first; () where the verdict's reason says it all."""
    gates = report.verdict.gates
    if len(gates) < 2:
        return ()
    return tuple(
        GateAnswer(
            question=QUESTIONS[gate.gate],
            kind=None if unasked(gate, report) else gate.kind,
            reason=bounded(gate.reason, REASON_LIMIT),
        )
        for gate in sorted(gates, key=lambda gate: not gate.blocks)
    )


def unasked(gate: GateVerdict, report: Report) -> bool:
    """Whether a gate passes because the base has nothing yet that head could be compared with."""
    comparison = report.comparison
    return gate.gate is GateKind.REGRESSION and comparison is not None and comparison.no_agent


def what_failed(failure: AgentFailure) -> str:
    """`agent raised an exception`, `simulated user gave no message`."""
    who = "simulated user" if failure.kind is FailureKind.SIMULATOR else "agent"
    return f"{who} {FAILURES[failure.kind]}"


def failure_sentence(failure: AgentFailure) -> str:
    """`The agent raised an exception in turn 2 (raised): KeyError: 'city'`."""
    where = f" in turn {failure.turn}" if failure.turn is not None else ""
    message = bounded(failure.message, WHY_LIMIT)
    return f"The {what_failed(failure)}{where} ({failure.kind.value}): {message}"


def last_words(failure: AgentFailure) -> str:
    """What the agent left behind where it failed, mostly its standard error: the first and the last lines."""
    return plain.ends(plain.visible(plain.clip(failure.detail, DETAIL_LIMIT)), lines=12, limit=1_500).strip("\n")


UNSCORED: Final = frozenset(
    {
        *(Reason.JUDGE_UNAVAILABLE, Reason.JUDGE_NOT_RECORDED, Reason.JUDGE_UNREADABLE),
        *(Reason.CREDENTIALS_MISSING, Reason.CRITERION_FAILED),
    }
)
"""Why a criterion that should have given a score gave none."""


def passed_unscored(report: Report) -> str:
    """That cases pass although a criterion of theirs broke down or was judged in part, as they do in ADK, and why the
    first of them did; "" where none does."""
    passed = {case.key: case for case in report.verdict.cases if case.kind is VerdictKind.PASS}
    without = [
        (key, each.name, unmeasured_sentence(each))
        for key, case in passed.items()
        for each in case.criteria
        if each.kind is VerdictKind.NOT_MEASURED and each.reason in UNSCORED
    ]
    in_part = [
        (trial.key.case, name, bounded(grade.lacking, WHY_LIMIT))
        for trial in report.run.trials
        for name, grade in trial.grades.items()
        if isinstance(grade, Score) and grade.lacking and trial.key.case in passed
    ]
    said = [("passed without a score of", without), ("passed by a part of", in_part)]
    return " ".join(_passed_as_in_adk(how, each, of=len(passed)) for how, each in said if each)


def _passed_as_in_adk(how: str, found: Sequence[tuple[CaseKey, str, str]], *, of: int) -> str:
    """`found`: case, criterion and why."""
    cases, total = len({key for key, _, _ in found}), words.counted(of, "passing case")
    names = words.listed(dict.fromkeys(f"`{plain.label(name, NAME_WIDTH)}`" for _, name, _ in found), limit=3)
    why = plain.keep_advice(found[0][2], CAUSE_LIMIT).rstrip(".")
    return f"{cases:,} of {total} {how} {names}, as in ADK (`adk-compat`): {why}."


def unmeasured_sentence(verdict: CriterionVerdict) -> str:
    """`the agent failed: KeyError`: why a criterion of a case has no verdict."""
    message = bounded(verdict.message, WHY_LIMIT)
    if verdict.reason is None:
        return message or "no score"
    told = REASONS[verdict.reason]
    return message if message.startswith(told) else f"{told}: {message}" if message else told


def why_unmeasured(case: CaseView) -> str:
    """The one sentence on a case that could not be evaluated, an agent's failure before a criterion's silence."""
    if case.failure is not None:
        return failure_sentence(case.failure)
    if not case.trials:
        return "The case did not run."
    if case.unmeasured:
        first = case.unmeasured[0]
        return f"{first.name}: {unmeasured_sentence(first)}"
    return bounded(case.verdict.reason, WHY_LIMIT) or "No deciding criterion for this case."


def why(case: CaseView, *, width: int) -> str:
    """What is wrong with a case, and whose failure it is; "" of one that passed. Names take at most `width`."""
    if not case.failing:
        return "" if case.kind is VerdictKind.PASS else why_unmeasured(case)
    below = (f"{plain.label(each.name, width)} {reports_cases.against(each)}" for each in case.failing)
    return ", ".join(each for each in (*below, case.failure_origin) if each)


def next_step(report: Report, *, lies: Lies = "below") -> str:
    """What the reader can do about the verdict, names between backticks; "" for a clean pass. `lies`: where the report
    has its cases, seen from this sentence."""
    kind = report.verdict.blocked_by or report.verdict.kind
    match kind:
        case VerdictKind.PASS:
            return _after_pass(report, lies)
        case VerdictKind.FAIL:
            return _after_fail(report)
        case VerdictKind.INCONCLUSIVE:
            return _after_inconclusive(report, lies)
        case VerdictKind.NOT_MEASURED:
            return _after_not_measured(report, lies)
        case _:
            assert_never(kind)


@frozen_dataclass
class Notice:
    """What every reader must know beside the verdict."""

    title: str
    text: str


DRIFT = "provider-drift"
OF_QUARANTINE = frozenset(f"quarantine-{each}" for each in ("expires", "expired", "too-long", "broken", "changed-case"))
"""Codes of what becomes of an entry, and of its case."""
NOTICED = 5
"""How many cases a notice names."""


def notices(report: Report, found: Sequence[CaseView]) -> Iterator[Notice]:
    """That the provider's model moved; which cases are quarantined, and how they ended. Names stand between
    backticks."""
    for problem in report.problems:
        if problem.code == DRIFT:
            yield Notice(title="The model moved, not you", text=f"{problem.message}. {problem.hint}")
    held = [(case, case.verdict.quarantine) for case in found if case.verdict.quarantine is not None]
    if held:
        named = (
            f"{plain.quoted(case.case_id)} {RESULTS[case.kind]} ({plain.quoted(why.owner)}, until {why.expires})"
            for case, why in held
        )
        title = f"{words.counted(len(held), 'quarantined case')} (non-blocking)"
        yield Notice(title=title, text=f"{words.listed(named, limit=NOTICED)}.")
    ended = [problem.message for problem in report.problems if problem.code in OF_QUARANTINE]
    if ended:
        more = f"; {len(ended) - NOTICED:,} more" if len(ended) > NOTICED else ""
        yield Notice(title="Quarantine", text=f"{'; '.join(ended[:NOTICED])}{more}.")


RESULTS: Final[Mapping[VerdictKind, str]] = {
    VerdictKind.PASS: "passed",
    VerdictKind.FAIL: "failed",
    VerdictKind.INCONCLUSIVE: "was inconclusive",
    VerdictKind.NOT_MEASURED: "was not measured",
}
"""How a case ended, in a sentence; a test holds every kind to a row."""


def _after_inconclusive(report: Report, lies: Lies) -> str:
    if report.run.truncated:
        return CUT_SHORT
    if has_failed_base(report):
        return "Fix the base, or set `baseline: none`." if report.verdict.blocks else ""
    if not report.verdict.blocks and _only_flaky(report):
        return FLAKY.format(lies=lies)
    if report.comparison is not None and report.comparison.is_past:
        return "Set `baseline: rerun` to run the base beside this change."
    return "Too little could be measured: see which cases have no score."


CUT_SHORT: Final = "Increase `budget`, or reduce `runs`."
FLAKY: Final = "The flaky cases {lies} failed at first, and reruns did not confirm it: they do not block."


def _only_flaky(report: Report) -> bool:
    """Whether every case that failed did so by accident."""
    failed = [case for case in report.verdict.cases if _is_failure(case)]
    return bool(failed) and all(case.nonblocking is NonBlocking.FLAKY for case in failed)


def _is_failure(case: CaseVerdict) -> bool:
    """Whether it failed, or crashed by accident."""
    return case.kind is VerdictKind.FAIL or case.nonblocking is NonBlocking.FLAKY


def has_failed_base(report: Report) -> bool:
    """Whether the base's own failures are why there is nothing, or too little, to compare with."""
    comparison = report.comparison
    return comparison is not None and (comparison.base_failed or any(row.base_failed for row in comparison.criteria))


def _after_pass(report: Report, lies: Lies) -> str:
    every = list(report.verdict.cases)
    if not any(map(_is_failure, every)):
        first = report.comparison is not None and report.comparison.no_agent
        return "No baseline yet: only thresholds apply." if first else ""
    cases = [case for suite in report.verdict.suites if not suite.advisory for case in suite.cases]
    failed = {case.key: case for case in cases if _is_failure(case) and not case.quarantined}
    lasting = {key for key, case in failed.items() if case.nonblocking is not NonBlocking.FLAKY}
    if not failed:
        return f"The failures {lies} are non-blocking."
    if not lasting:
        return FLAKY.format(lies=lies)
    which = "deciding failures" if sum(map(_is_failure, every)) > len(lasting) else "failures"
    if report.policy.threshold is ThresholdRule.NEW and _all_old(report, lasting):
        return f"The {which} {lies} are not new: `threshold: new` allows them."
    return f"The {which} {lies} are within the required pass rate."


OLD: Final = frozenset({FailureOrigin.KNOWN, FailureOrigin.MIXED, FailureOrigin.FLAKY})


def _all_old(report: Report, failed: Collection[tuple[str, str]]) -> bool:
    """Whether the base is known to have had each of these failures, or chance alone made them."""
    if report.comparison is None:
        return False
    old = {case.key for case in report.comparison.cases if case.status is CaseStatus.PAIRED and case.origin in OLD}
    return old.issuperset(failed)


def _not_by_the_agent(report: Report, comparison: Comparison) -> str:
    """Who has to act where the agent is the base's."""
    failed = {case.key for case in report.verdict.cases if case.kind is VerdictKind.FAIL}
    if failed & set(comparison.edited):
        return "The agent fails cases that this change adds or edits: fix the agent, or what they expect."
    return "Not caused by this change: fix the base branch, or allow pre-existing failures with `threshold: new`."


def _after_fail(report: Report) -> str:
    comparison = report.comparison
    if report.edits.decide and not report.edits.by_base:
        asked = edits.rules(report.edits, mark=plain.quoted)
        return f"The stricter rules of this change cause it ({asked}): fix the agent, or keep the base's rules."
    if comparison is not None and comparison.is_untouched(report.run):
        return _not_by_the_agent(report, comparison)
    kinds = {each.gate: each.kind for each in report.verdict.gates}
    if kinds.get(GateKind.THRESHOLD) is not VerdictKind.FAIL:
        return "Fix the regression, or raise `max_drop` if the drop is intended."
    origins = {case.origin for case in comparison.cases if case.origin} if comparison else set()
    if kinds.get(GateKind.REGRESSION) is VerdictKind.PASS and origins == {FailureOrigin.KNOWN}:
        return (
            "The base fails all of these too, so this change is not the cause: fix them, or allow pre-existing "
            "failures with `threshold: new`."
        )
    if FailureOrigin.NEW not in origins and any(problem.code == DRIFT for problem in report.problems):
        return "Look at the model first: pin its version, or adapt the agent or the expectations to the new one."
    others = " The base fails the pre-existing ones too." if {FailureOrigin.NEW, FailureOrigin.KNOWN} <= origins else ""
    what = "new failures" if others else "agent"
    return f"Fix the {what}, or update the expectations if the new behavior is intended.{others}"


def _after_not_measured(report: Report, lies: Lies) -> str:
    comparison = report.comparison
    suites = report.verdict.suites
    if suites and all(suite.advisory for suite in suites) and not report.verdict.blocks:
        if any(case.quarantined for case in report.verdict.cases):
            return "Every case is quarantined: fix some, and delete their entries from `quarantine` of evalgate.yml."
        return f"The cases {lies} are non-blocking: change the `severity` of a suite to make it decide."
    threshold = next((each for each in report.verdict.gates if each.gate is GateKind.THRESHOLD), None)
    unmeasured = threshold is not None and VerdictKind.NOT_MEASURED in (threshold.kind, threshold.blocked_by)
    is_whole = all(case.kind is not VerdictKind.NOT_MEASURED for case in report.verdict.cases)
    if report.run.truncated and (is_whole or (comparison is not None and comparison.problem and not unmeasured)):
        return CUT_SHORT
    if unmeasured or comparison is None:
        return f"This is not a result about the agent. Fix the errors {lies} and rerun."
    if comparison.problem:
        return "The base run failed, so regressions are unknown. Fix it or set `baseline: none`."
    return "Regressions are unknown: see which cases could not be evaluated."


def reproduce(report: Report) -> str:
    """The command that shows the same locally: where there is a base, with the very commit that was compared with. ""
    where no command is known. A command that cannot be read as words is returned as it is."""
    told = report.reproduce.strip()
    base = report.comparison.origin.commit if report.comparison is not None else ""
    is_commit = len(base) >= SHA_WIDTH and set(base) <= HEX
    if not told.startswith("evalgate run") or len(told) > COMMAND_LIMIT or not is_commit:
        return told
    try:
        parts = shlex.split(told)
    except ValueError:
        return told
    kept = [
        word
        for before, word in zip(["", *parts], parts, strict=False)
        if "--base" not in (before, word) and not word.startswith("--base=")
    ]
    return shlex.join([*kept, "--base", base[:SHA_WIDTH]])
