"""junit.xml: failures, errors and skipped kept apart, each case at its file and line."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterator, Mapping
from functools import lru_cache

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
from evalgate.values import grouped

TEXT_LIMIT = 4_000
DETAIL_LIMIT = 8_000
COUNTS = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
"""The attributes that count elements, and the tags of these."""
INDENT = "  "
ESCAPES = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        '"': "&quot;",
        "\r": "&#13;",
        "\n": "&#10;",
        "\t": "&#09;",
    }
)
"""Of attributes."""
SUFFIXES = (".evalset.json", ".test.json", ".json", ".yaml", ".yml")


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
    counts = _counts(suites)
    del counts["skipped"]
    attributes = {"name": plain.label(report.title, 100), **counts}
    attributes["time"] = f"{report.run.seconds:.3f}"
    declaration = '<?xml version="1.0" encoding="utf-8"?>'
    return f"{declaration}{_element('testsuites', attributes, suites, level=0)}\n"


def _element(
    tag: str, attributes: Mapping[str, str], children: str = "", *, level: int, text: str = ""
) -> str:
    """An element on its own line, with `children`, which are elements, or with a text. Elements are
    texts, so that many do not fill the memory. Empty attributes are left out."""
    indent = f"\n{INDENT * level}"
    opening = f"{indent}<{tag}" + "".join(
        f' {name}="{value.translate(ESCAPES)}"' for name, value in attributes.items() if value
    )
    if not (children or text):
        return f"{opening} />"
    return f"{opening}>{children + indent if children else html.escape(text, quote=False)}</{tag}>"


def _counts(elements: str) -> dict[str, str]:
    """The attributes that count elements: texts have no `<`, it is escaped."""
    return {name: str(elements.count(f"<{tag} ")) for name, tag in COUNTS.items()}


def _suite_element(
    name: str,
    test_cases: str,
    report: Report,
    *,
    file: str = "",
    seconds: float = 0.0,
    properties: Mapping[str, str] | None = None,
) -> str:
    attributes = {"name": name, **_counts(test_cases), "time": f"{seconds:.3f}"}
    attributes |= {"timestamp": report.run.started_at[:19], "file": file}
    rows = "".join(
        _element("property", {"name": fact, "value": text}, level=3)
        for fact, text in (properties or {}).items()
        if text
    )
    facts = _element("properties", {}, rows, level=2) if rows else ""
    return _element("testsuite", attributes, facts + test_cases, level=1)


def _case_element(
    name: str, file: str, outcome: str = "", *, seconds: float = 0.0, output: str = ""
) -> str:
    """A test case. `outcome`: the element that says why it did not pass. `output`: its scores."""
    attributes = {"name": name, "classname": file, "time": f"{seconds:.3f}"}
    outcome += _element("system-out", {}, text=output, level=3) if output else ""
    return _element("testcase", attributes, outcome, level=2)


def _outcome(tag: str, kind: str, message: str, text: str = "") -> str:
    return _element(tag, {"type": kind, "message": message}, text=text, level=3)


def _skipped(message: str) -> str:
    return _outcome("skipped", "skipped", message)


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
    ending = next((ending for ending in SUFFIXES if name.endswith(ending)), "")
    test_cases = "".join(
        _case_element(
            plain.visible(case.case_id) or "(empty)",
            name.removesuffix(ending),
            _case_outcome(case),
            seconds=case.seconds,
            output=_values(case.verdict.criteria),
        )
        for case in case_views
    )
    seconds = sum(case.seconds for case in case_views)
    return _suite_element(name, test_cases, report, file=name, seconds=seconds, properties=facts)


def _gates(report: Report, *, has_failed_case: bool) -> str:
    """The gates' answers. `has_failed_case`: a case shows the failure already."""
    answers = {}
    test_cases = ""
    for gate in report.verdict.gates:
        name = gate.gate.value
        reason = wording.bounded(gate.reason, TEXT_LIMIT)
        answers[name] = f"{wording.kind_word(gate.kind)}: {reason}"
        outcome = "" if has_failed_case else _gate_outcome(gate, reason, report)
        test_cases += _case_element(name, "evalgate", outcome) if outcome else ""
    return _suite_element("evalgate", test_cases, report, properties=answers)


def _broken_file(suite: SuiteVerdict, report: Report) -> str:
    """An evaluation file that could not be measured: one test case, which is an error."""
    name = plain.visible(suite.suite)
    reason = wording.bounded(suite.reason, TEXT_LIMIT)
    word = wording.kind_word(VerdictKind.NOT_MEASURED)
    outcome = (
        _skipped(phrase("skipped", word, reason))
        if suite.advisory
        else _outcome("error", "not_measured", reason)
    )
    test_case = _case_element(phrase("broken_file_case"), name, outcome)
    return _suite_element(name, test_case, report, file=name)


def _gate_outcome(gate: GateVerdict, reason: str, report: Report) -> str:
    is_deciding = gate.blocks or any(not suite.advisory for suite in report.verdict.suites)
    match gate.kind:
        case VerdictKind.FAIL:
            return _outcome("failure", gate.gate.value, reason)
        case VerdictKind.NOT_MEASURED if is_deciding:
            return _outcome("error", "not_measured", reason)
        case _:
            return ""  # its property says it


def _case_outcome(case: CaseView) -> str:
    match case.kind:
        case VerdictKind.PASS:
            return ""
        case VerdictKind.FAIL | VerdictKind.NOT_MEASURED if (
            case.allowed is not None and not case.skipped
        ):
            message = _failure_message(case) or _reason(case)
            return _skipped(phrase("allowed", case.failure_origin, message))
        case VerdictKind.FAIL if not case.agent_failed:
            return _outcome("failure", "fail", _failure_message(case), _body(case))
        case VerdictKind.NOT_MEASURED if case.skipped:
            return _skipped(_reason(case))
        case VerdictKind.FAIL | VerdictKind.NOT_MEASURED:
            return _outcome("error", _error_type(case), _reason(case), _body(case))
        case VerdictKind.INCONCLUSIVE:
            reason = wording.bounded(case.verdict.reason, TEXT_LIMIT)
            return _skipped(phrase("skipped", wording.kind_word(case.kind), reason))


def _failure_message(case: CaseView) -> str:
    return ", ".join(case.misses(plain.one_line))


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
