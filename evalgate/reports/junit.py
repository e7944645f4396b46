"""junit.xml: failures, errors and skipped kept apart, each case at its file and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from xml.etree import ElementTree as ET

from junit_xml import TestCase, TestSuite

from evalgate.model import (
    CriterionVerdict,
    FailureKind,
    Report,
    SuiteVerdict,
    VerdictKind,
    call_diff,
)
from evalgate.results import labels
from evalgate.text import plain, words
from evalgate.values import grouped
from . import cases, causes, turns, view
from .cases import CaseView
from .phrases import phrase
from .turns import Turn

TEXT_LIMIT = 4_000
"""Characters of a reason, a message or an answer."""
DETAIL_LIMIT = 8_000
"""Characters of an agent's output."""
COUNTS = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
"""The attributes that count elements, and the tags of these. Texts have no `<`: it is escaped."""
INDENT = "  "
"""Of one level of elements."""
GROUP = 500
"""The most test cases that are elements in memory at a time."""
SUFFIXES = (".evalset.json", ".test.json", ".json", ".yaml", ".yml")
"""Endings that a class name omits; the first that fits."""


def render(report: Report) -> str:
    """The file: one testsuite per suite, one testcase per case.

    `<failure>`: a criterion below its threshold. `<error>`: not measured, mostly a broken agent.
    `<skipped>`: inconclusive, left out by the user, or non-blocking, so that readers of the file do
    not fail on what the gate allows. Times and attributes are those of the Jenkins schema; a
    failure's text begins with its file and line. With a base, a last testsuite has the answers of
    both gates as properties. Its one possible testcase: a gate that fails although no case does."""
    v = view.view_of(report)
    cases_by_suite = grouped((case.verdict.suite, case) for case in v.cases)
    suites = "".join(
        _broken_file(suite, report)
        if suite in v.broken
        else _suite(suite, cases_by_suite.get(suite.suite, []), report)
        for suite in report.verdict.suites
    )
    if report.comparison is not None:
        suites += _gates(report, has_failed_case="<failure " in suites or "<error " in suites)
    root = ET.Element("testsuites", {"name": plain.label(report.display.title, 100)})
    for name in ("tests", "failures", "errors"):
        root.set(name, str(suites.count(f"<{COUNTS[name]} ")))
    root.set("time", f"{report.run.seconds:.3f}")
    declaration = '<?xml version="1.0" encoding="utf-8"?>'
    return f"{declaration}\n{_opening_tag(root, level=0)}{suites}\n</testsuites>\n"


def _suite_text(test_suite: TestSuite, test_cases: str, *, seconds: float = 0.0) -> str:
    """A testsuite with its test cases, which are texts, so that many do not fill the memory."""
    element: ET.Element = test_suite.build_xml_doc()
    # the package writes float noise, and counts `disabled`, which Jenkins does not know
    del element.attrib["disabled"]
    for name, tag in COUNTS.items():
        element.set(name, str(test_cases.count(f"<{tag} ")))
    element.set("time", f"{seconds:.3f}")
    return f"{_opening_tag(element, level=1)}{test_cases}\n{INDENT}</testsuite>"


def _case_texts(test_cases: Sequence[TestCase], seconds: Iterable[float] = (0.0,)) -> str:
    """The elements of test cases as text, each with its duration in seconds."""
    document: ET.Element = TestSuite("", test_cases).build_xml_doc()
    for element, duration in zip(document, seconds, strict=True):
        element.set("time", f"{duration:.3f}")
    ET.indent(document, level=1)
    return "".join(
        f"\n{INDENT * 2}{ET.tostring(element, encoding='unicode').rstrip()}" for element in document
    )


def _suite(suite: SuiteVerdict, case_views: list[CaseView], report: Report) -> str:
    """The element of a suite; test cases become text in groups, so that memory stays small."""
    counts = labels.count(case.label for case in case_views)
    facts = {
        "verdict": phrase("kind_word", suite.kind),
        "reason": plain.bounded(suite.reason, TEXT_LIMIT),
        "required pass rate": words.percent(suite.required_pass_rate),
        "repeats": str(report.run.repeats),
        "commit": plain.one_line(report.head_commit),
    }
    facts |= {name.replace("_", "-"): str(number) for name, number in counts.items()}
    name = plain.visible(suite.suite)
    test_suite = TestSuite(
        name,
        timestamp=report.run.started_at[:19],
        file=name,
        properties={fact: text for fact, text in facts.items() if text},
    )
    groups = (case_views[start : start + GROUP] for start in range(0, len(case_views), GROUP))
    return _suite_text(
        test_suite,
        "".join(
            _case_texts([*map(_test_case, group)], [case.seconds for case in group])
            for group in groups
        ),
        seconds=sum(case.seconds for case in case_views),
    )


def _gates(report: Report, *, has_failed_case: bool) -> str:
    """The gates' answers. `has_failed_case`: a case shows the failure already."""
    answers: dict[str, str] = {}
    test_cases = ""
    is_all_advisory = all(suite.advisory for suite in report.verdict.suites)
    for gate in report.verdict.gates:
        reason = plain.bounded(gate.reason, TEXT_LIMIT)
        answers[gate.gate.value] = f"{phrase('kind_word', gate.kind)}: {reason}"
        test_case = TestCase(gate.gate.value, classname="evalgate")
        if gate.kind is VerdictKind.FAIL:
            test_case.add_failure_info(message=reason, failure_type=gate.gate.value)
        elif gate.kind is VerdictKind.NOT_MEASURED and (gate.blocks or not is_all_advisory):
            test_case.add_error_info(message=reason, error_type="not_measured")
        else:
            continue
        test_cases += _case_texts([test_case])
    test_suite = TestSuite("evalgate", timestamp=report.run.started_at[:19], properties=answers)
    return _suite_text(test_suite, "" if has_failed_case else test_cases)


def _broken_file(suite: SuiteVerdict, report: Report) -> str:
    """An evaluation file that could not be measured: one test case, which is an error."""
    name = plain.visible(suite.suite)
    test_case = TestCase(phrase("broken_file_case"), classname=name)
    reason = plain.bounded(suite.reason, TEXT_LIMIT)
    if suite.advisory:
        test_case.add_skipped_info(
            message=phrase("skipped", phrase("kind_word", VerdictKind.NOT_MEASURED), reason)
        )
    else:
        test_case.add_error_info(message=reason, error_type="not_measured")
    test_suite = TestSuite(name, timestamp=report.run.started_at[:19], file=name)
    return _suite_text(test_suite, _case_texts([test_case]))


def _opening_tag(element: ET.Element, *, level: int) -> str:
    """The text of an element without its end tag, so that further children can follow."""
    ET.indent(element, level=level)
    text = ET.tostring(element, encoding="unicode")
    opening = (
        f"{text.removesuffix(' />')}>"
        if text.endswith(" />")
        else text.removesuffix(f"</{element.tag}>").rstrip()
    )
    return f"\n{INDENT * level}{opening}" if level else opening


def _test_case(case: CaseView) -> TestCase:
    """The element of a case, with a failure, an error or a skip as the gate counts it."""
    suffix = next((ending for ending in SUFFIXES if case.suite.key.endswith(ending)), "")
    test_case = TestCase(
        plain.visible(case.verdict.case_id) or "(empty)",
        classname=plain.visible(case.suite.key.removesuffix(suffix)),
        stdout=_values(case.verdict.criteria),
    )
    if case.kind is VerdictKind.PASS:
        return test_case
    misses = ", ".join(case.misses(plain.one_line))
    match case.kind:
        case VerdictKind.FAIL | VerdictKind.NOT_MEASURED if (
            case.allowed is not None and not case.skipped
        ):
            test_case.add_skipped_info(
                message=phrase("allowed", case.failure_origin, misses or _reason(case))
            )
        case VerdictKind.FAIL if not case.agent_failed:
            test_case.add_failure_info(message=misses, output=_body(case), failure_type="fail")
        case VerdictKind.NOT_MEASURED if case.skipped:
            test_case.add_skipped_info(message=_reason(case))
        case VerdictKind.FAIL | VerdictKind.NOT_MEASURED:
            error_type = "not_measured"
            if case.failure is not None:
                kind = case.failure.kind
                is_simulator = kind is FailureKind.SIMULATOR
                error_type = kind.value if is_simulator else f"agent.{kind.value}"
            elif case.unmeasured and case.unmeasured[0].reason is not None:
                error_type = f"criterion.{case.unmeasured[0].reason.value}"
            test_case.add_error_info(
                message=_reason(case), output=_body(case), error_type=error_type
            )
        case VerdictKind.INCONCLUSIVE:
            reason = plain.bounded(case.verdict.reason, TEXT_LIMIT)
            test_case.add_skipped_info(
                message=phrase("skipped", phrase("kind_word", case.kind), reason)
            )
    return test_case


def _reason(case: CaseView) -> str:
    """Why a case was not measured, on one line."""
    return plain.one_line(case.unmeasured_reason)


@lru_cache(maxsize=1024)
def _values(criteria: tuple[CriterionVerdict, ...]) -> str:
    """Every criterion with its value, and the value of each repeat if there are several; most cases
    share it."""
    lines = []
    for verdict in criteria:
        score = words.score(verdict.value, beside=verdict.threshold)
        threshold = None if verdict.threshold is None else words.threshold(verdict.threshold)
        runs = [words.score(run, beside=verdict.threshold) for run in verdict.values]
        runs_text = ", ".join(runs) if len(runs) > 1 else ""
        kind = "" if verdict.kind is None else phrase("kind_word", verdict.kind)
        name = plain.one_line(verdict.name)
        lines.append(phrase("criterion_values", name, kind, score, threshold, runs_text))
    return "\n".join(lines)


def _body(case: CaseView) -> str:
    """The text of a failure or an error: the place, the cause, the turns that went wrong, failed
    runs."""
    notable_turns = turns.conversation_of(case).notable
    lines = [
        str(case.place),
        phrase("cause", causes.cause(case)),
        *(line for turn in notable_turns for line in _turn_lines(turn)),
    ]
    for trial in case.trials:
        if trial.failure is not None:
            sentence = cases.failure_sentence(trial.failure)
            lines.append(phrase("failed_run", trial.key.number + 1, sentence))
            if trial.failure.detail:
                lines.append(plain.visible(plain.clip(trial.failure.detail, DETAIL_LIMIT)))
    return plain.visible("\n".join(lines))


def _turn_lines(turn: Turn) -> Iterator[str]:
    """A turn in lines: the message, then expected and actual calls and answers."""
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
