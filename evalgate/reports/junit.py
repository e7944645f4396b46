"""junit.xml: failures, errors and skipped kept apart, each case at its file and line."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from xml.sax.saxutils import escape

from evalgate.model import (
    CriterionVerdict,
    FailureKind,
    GateVerdict,
    Report,
    SuiteVerdict,
    VerdictKind,
    call_diff,
)
from evalgate.reports import causes, turns, view, wording
from evalgate.reports.cases import CaseView
from evalgate.reports.phrases import phrase
from evalgate.reports.turns import Turn
from evalgate.results import labels
from evalgate.text import plain, words

TEXT_LIMIT = 4_000
DETAIL_LIMIT = 8_000
INDENT = "  "
SUFFIXES = (".evalset.json", ".test.json", ".json", ".yaml", ".yml")
IN_ATTRIBUTES = {'"': "&quot;", "\n": "&#10;", "\t": "&#09;"}


def render(report: Report) -> str:
    """The file: one testsuite per suite, one testcase per case.

    `<failure>`: a criterion below its threshold. `<error>`: not measured, mostly a broken agent.
    `<skipped>`: inconclusive, left out by the user, or non-blocking, so that readers of the file do
    not fail on what the gate allows. Times and attributes are those of the Jenkins schema; a
    failure's text begins with its file and line. With a base, a last testsuite has the answers of
    both gates as properties. Its one possible testcase: a gate that fails although no case does."""
    v = view.view_of(report)
    cases_by_suite: defaultdict[str, list[CaseView]] = defaultdict(list)
    for case in v.cases:
        cases_by_suite[case.verdict.suite].append(case)
    suites = "".join(
        _broken_file(suite, report)
        if suite in v.broken
        else _suite(suite, cases_by_suite[suite.suite], report)
        for suite in report.verdict.suites
    )
    if report.comparison is not None:
        suites += _gates(report, has_failed_case="<failure " in suites or "<error " in suites)
    attributes = {
        "name": plain.label(report.title, 100),
        "tests": _count("testcase", suites),
        "failures": _count("failure", suites),
        "errors": _count("error", suites),
        "time": f"{report.run.seconds:.3f}",
    }
    root = _element(0, "testsuites", attributes, suites)
    return f'<?xml version="1.0" encoding="utf-8"?>{root}\n'


def _element(
    level: int, tag: str, attributes: Mapping[str, str], body: str = "", *, text: str = ""
) -> str:
    """An element on lines of its own, without empty attributes. `body`: its children as text."""
    start = f"\n{INDENT * level}"
    named_texts = [
        f'{name}="{escape(fact, IN_ATTRIBUTES)}"' for name, fact in attributes.items() if fact
    ]
    opening = " ".join([f"{start}<{tag}", *named_texts])
    if text:
        return f"{opening}>{escape(text)}</{tag}>"
    return f"{opening}>{body}{start}</{tag}>" if body else f"{opening} />"


def _count(tag: str, elements: str) -> str:
    """The number of elements with this tag: texts have no `<`, it is escaped."""
    return str(elements.count(f"<{tag} "))


def _suite_element(
    name: str,
    report: Report,
    test_cases: str,
    *,
    properties: Mapping[str, str],
    seconds: float = 0.0,
    file: str = "",
) -> str:
    attributes = {
        "errors": _count("error", test_cases),
        "failures": _count("failure", test_cases),
        "name": name,
        "skipped": _count("skipped", test_cases),
        "tests": _count("testcase", test_cases),
        "time": f"{seconds:.3f}",
        "timestamp": report.run.started_at[:19],
        "file": file,
    }
    rows = [
        _element(3, "property", {"name": fact_name, "value": fact})
        for fact_name, fact in properties.items()
        if fact
    ]
    body = _element(2, "properties", {}, "".join(rows)) if rows else ""
    return _element(1, "testsuite", attributes, body + test_cases)


def _suite(suite: SuiteVerdict, case_views: list[CaseView], report: Report) -> str:
    counts = labels.count(case.label for case in case_views)
    facts = {
        "verdict": wording.kind_word(suite.kind),
        "reason": wording.bounded(suite.reason, TEXT_LIMIT),
        "required pass rate": words.percent(suite.required_pass_rate),
        "repeats": str(report.run.repeats),
        "commit": plain.one_line(report.links.commit or report.run.commit),
    }
    facts |= {
        name.replace("_", "-"): str(number) for name, number in dataclasses.asdict(counts).items()
    }
    name = plain.visible(suite.suite)
    return _suite_element(
        name,
        report,
        "".join(map(_test_case, case_views)),
        properties=facts,
        seconds=sum(case.seconds for case in case_views),
        file=name,
    )


def _gates(report: Report, *, has_failed_case: bool) -> str:
    """The gates' answers. `has_failed_case`: a case shows the failure already."""
    gates = report.verdict.gates
    answers = {
        gate.gate.value: f"{wording.kind_word(gate.kind)}: {wording.bounded(gate.reason, TEXT_LIMIT)}"
        for gate in gates
    }
    test_cases = "" if has_failed_case else "".join(_gate_case(gate, report) for gate in gates)
    return _suite_element("evalgate", report, test_cases, properties=answers)


def _gate_case(gate: GateVerdict, report: Report) -> str:
    """A gate that fails the job; "" if its property says enough."""
    reason = wording.bounded(gate.reason, TEXT_LIMIT)
    is_deciding = gate.blocks or any(not suite.advisory for suite in report.verdict.suites)
    match gate.kind:
        case VerdictKind.FAIL:
            outcome = _outcome("failure", reason, kind=gate.gate.value)
        case VerdictKind.NOT_MEASURED if is_deciding:
            outcome = _outcome("error", reason, kind="not_measured")
        case _:
            return ""
    return _case_element(gate.gate.value, "evalgate", outcome)


def _broken_file(suite: SuiteVerdict, report: Report) -> str:
    """An evaluation file that could not be measured: one test case, which is an error."""
    name = plain.visible(suite.suite)
    reason = wording.bounded(suite.reason, TEXT_LIMIT)
    outcome = (
        _skipped(VerdictKind.NOT_MEASURED, reason)
        if suite.advisory
        else _outcome("error", reason, kind="not_measured")
    )
    test_case = _case_element(phrase("broken_file_case"), name, outcome)
    return _suite_element(name, report, test_case, properties={}, file=name)


def _case_element(name: str, file: str, body: str, *, seconds: float = 0.0) -> str:
    attributes = {"name": name, "classname": file, "time": f"{seconds:.3f}"}
    return _element(2, "testcase", attributes, body)


def _outcome(tag: str, message: str, *, kind: str = "", output: str = "") -> str:
    return _element(3, tag, {"type": kind or tag, "message": message}, text=output)


def _skipped(kind: VerdictKind, reason: str) -> str:
    return _outcome("skipped", phrase("skipped", wording.kind_word(kind), reason))


def _test_case(case: CaseView) -> str:
    suffix = next((ending for ending in SUFFIXES if case.suite.key.endswith(ending)), "")
    values = _values(case.verdict.criteria)
    return _case_element(
        plain.visible(case.verdict.case_id) or "(empty)",
        plain.visible(case.suite.key.removesuffix(suffix)),
        _case_outcome(case) + (_element(3, "system-out", {}, text=values) if values else ""),
        seconds=case.seconds,
    )


def _case_outcome(case: CaseView) -> str:
    match case.verdict.kind:
        case VerdictKind.PASS:
            return ""
        case VerdictKind.INCONCLUSIVE as kind:
            return _skipped(kind, wording.bounded(case.verdict.reason, TEXT_LIMIT))
        case VerdictKind.FAIL | VerdictKind.NOT_MEASURED if (
            case.allowed is not None and not case.skipped
        ):
            reason = _failure_message(case) or _reason(case)
            return _outcome("skipped", phrase("allowed", case.failure_origin, reason))
        case VerdictKind.FAIL if not case.agent_failed:
            return _outcome("failure", _failure_message(case), kind="fail", output=_body(case))
        case VerdictKind.NOT_MEASURED if case.skipped:
            return _outcome("skipped", _reason(case))
        case _:
            return _outcome("error", _reason(case), kind=_error_type(case), output=_body(case))


def _failure_message(case: CaseView) -> str:
    return ", ".join(
        f"{plain.one_line(verdict.name)} {words.score_and_limit(verdict.value, verdict.threshold, met=False)}"
        for verdict in case.failing
    )


def _reason(case: CaseView) -> str:
    return plain.one_line(wording.unmeasured_reason(case))


def _error_type(case: CaseView) -> str:
    if case.failure is not None:
        kind = case.failure.kind
        return kind.value if kind is FailureKind.SIMULATOR else f"agent.{kind.value}"
    reason = case.unmeasured[0].reason if case.unmeasured else None
    return f"criterion.{reason.value}" if reason is not None else "not_measured"


@lru_cache(maxsize=1024)
def _values(criteria: tuple[CriterionVerdict, ...]) -> str:
    """Every criterion with its value, and the value of each repeat if there are several; most cases
    share it."""
    lines = []
    for verdict in criteria:
        score = words.score(verdict.value, beside=verdict.threshold)
        threshold = None if verdict.threshold is None else words.threshold(verdict.threshold)
        runs = [
            words.score(run, beside=verdict.threshold)
            for run in verdict.values
            if len(verdict.values) > 1
        ]
        kind = "" if verdict.kind is None else wording.kind_word(verdict.kind)
        name = plain.one_line(verdict.name)
        lines.append(phrase("criterion_values", name, kind, score, threshold, ", ".join(runs)))
    return "\n".join(lines)


def _body(case: CaseView) -> str:
    notable_turns = turns.conversation_of(case).notable
    lines = [
        case.place,
        phrase("cause", causes.cause(case)),
        *(line for turn in notable_turns for line in _turn_lines(turn)),
    ]
    for trial in case.trials:
        if trial.failure is not None:
            lines += [
                phrase("failed_run", trial.key.number + 1, wording.failure_sentence(trial.failure))
            ]
            lines += (
                [plain.visible(plain.clip(trial.failure.detail, DETAIL_LIMIT))]
                if trial.failure.detail
                else []
            )
    return plain.visible("\n".join(lines))


def _turn_lines(turn: Turn) -> Iterator[str]:
    yield phrase("turn", turn.number, 0, plain.one_line(plain.clip(turn.user, TEXT_LIMIT)))
    if turn.actual is None:
        yield f"  {phrase('unreached_turn')}"
    if not turn.is_planned:
        yield f"  {phrase('unexpected_turn')}"
    if turn.expected_calls is not None:
        yield from (
            f"  {phrase('expected_call')} {plain.flat(call_diff.spell(call))}"
            for call in turn.expected_calls
        )
    yield from (
        f"  {phrase('actual_call')}   {plain.flat(call_diff.spell(call))}"
        for call in turn.actual_calls or ()
    )
    if turn.expected_answer is not None:
        yield f"  {phrase('expected_answer')} {plain.clip(turn.expected_answer, TEXT_LIMIT)}"
    if turn.actual_answer is not None:
        yield f"  {phrase('actual_answer')}   {plain.clip(turn.actual_answer, TEXT_LIMIT)}"
    elif turn.model_error:
        yield f"  {phrase('actual_answer')}   {turn.model_error}"
    elif turn.has_no_final_answer:
        yield f"  {phrase('actual_answer')}   {phrase('unmarked')}"
