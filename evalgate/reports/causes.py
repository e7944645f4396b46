"""The cause of each case that does not pass, in one line. Cases with equal lines share a cause."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from evalgate.model import Finding, ToolCall, VerdictKind, call_diff
from evalgate.model.call_diff import CallPair
from evalgate.reports import cases as reports_cases, turns, wording
from evalgate.reports.cases import CaseView
from evalgate.reports.phrases import phrase
from evalgate.reports.turns import Turn
from evalgate.results.labels import CaseLabel
from evalgate.text import plain, words
from evalgate.values import frozen_dataclass

LIMIT: Final = 160
LEAST_CASES: Final = 3
NAMED_ARGUMENTS: Final = 3
VALUE: Final = 40
VARYING: Final = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\d+(?:\.\d+)?")
"""What differs between failures of one cause: addresses, ids, numbers."""

STATUSES: Final = (
    *(
        CaseLabel.NEW,
        CaseLabel.FAILED,
        CaseLabel.NO_BASE,
        CaseLabel.NOT_CONFIRMED,
        CaseLabel.NOT_MEASURED,
    ),
    *(
        CaseLabel.INCONCLUSIVE,
        CaseLabel.MIXED,
        CaseLabel.FLAKY,
        CaseLabel.QUARANTINED,
        CaseLabel.PRE_EXISTING,
    ),
    *(CaseLabel.FIXED, CaseLabel.PASSED),
)
"""The labels of cases, in the order in which reports show them."""


@frozen_dataclass
class Cause:
    """One cause, the label of its failures in words, and its cases in the report's order."""

    text: str
    status: str
    cases: tuple[CaseView, ...]


def causes_of(case_views: Iterable[CaseView]) -> tuple[Cause, ...]:
    """The causes of all cases that do not pass: new ones first, then the most frequent."""
    groups: defaultdict[tuple[CaseLabel, str], list[CaseView]] = defaultdict(list)
    for case in case_views:
        if case.kind is not VerdictKind.PASS:
            groups[case.label, cause(case)].append(case)
    order = sorted(groups.items(), key=lambda group: (STATUSES.index(group[0][0]), -len(group[1])))
    return tuple(
        Cause(text=text, status=phrase("label_word", label), cases=tuple(cases))
        for (label, text), cases in order
    )


def worth_a_list(causes: Sequence[Cause]) -> bool:
    """True if a list of causes before the cases helps: several share one. An agent failure in all
    of them is reported as one already."""
    count = sum(len(cause.cases) for cause in causes)
    is_reported = len(causes) == 1 and not causes[0].cases[0].failing
    return count >= LEAST_CASES and count > len(causes) and not is_reported


def cause(case: CaseView) -> str:
    """The cause of one case that does not pass: what broke the agent, the calls that differ, the
    rubric that does not hold, else the criteria that miss their thresholds."""
    if not case.failing:
        sentence = wording.unmeasured_reason(case) if case.failure is None else _failure(case)
        return plain.clip_end(VARYING.sub("#", plain.one_line(sentence)), LIMIT)
    conversation = turns.conversation_of(case)
    notable_turns = conversation.notable
    failing_names = {verdict.name for verdict in case.failing}
    # if a criterion of calls passes, other calls are allowed; without such a criterion, the calls
    # are the best guess
    guessed_turns = (
        () if any(map(_is_of_calls, (use.name for use in case.suite.criteria))) else notable_turns
    )
    candidates = itertools.chain(
        _cause_texts(notable_turns, conversation.findings, failing_names),
        *map(_calls, guessed_turns),
    )
    text = next(candidates, "")
    return plain.clip_end(plain.one_line(text), LIMIT) or words.listed(_missed(case))


def difference(case: CaseView) -> str:
    """What is different in the shown trial of a case that does not pass, in one sentence: its first
    wrong call, else the finding that fails it, else its answer. Names are between backticks."""
    conversation = turns.conversation_of(case)
    sentences: Iterator[str] = iter(())
    if case.failing:
        failing_names = {verdict.name for verdict in case.failing}
        missed_text = words.listed(
            f"{plain.quoted(verdict.name)} {reports_cases.score_and_limit(verdict)}"
            for verdict in case.failing
        )
        ignores_calls = not any(_is_of_calls(use.name) for use in case.suite.criteria)
        checks_calls = ignores_calls or any(map(_is_of_calls, failing_names))
        sentences = itertools.chain(
            *(
                _differences(
                    turn, failing_names, checks_calls=checks_calls, missed_text=missed_text
                )
                for turn in conversation.notable
            ),
            _unmet(conversation.findings, failing_names),
            [missed_text],
        )
    text = next(sentences, "") or wording.unmeasured_reason(case)
    return plain.clip_end(plain.one_line(text), LIMIT * 2)


def _differences(
    turn: Turn, failing_names: set[str], *, checks_calls: bool, missed_text: str
) -> Iterator[str]:
    """The sentences about one turn, the most informative one first."""
    sentences: list[str] = []
    if turn.actual is None:
        sentences = [phrase("turn_not_reached")]
    elif checks_calls and turn.expected_calls is not None:
        sentences.append(
            _call_difference(call_diff.pair(turn.expected_calls, turn.actual_calls or ()))
        )
    sentences += _unmet(turn.findings, failing_names)
    if turn.expected_answer not in (None, turn.actual_answer) and turn.compares_answers:
        sentences.append(phrase("answer_differs", missed_text))
    yield from (phrase("in_turn", turn.number, sentence) for sentence in sentences if sentence)


def _unmet(findings: Sequence[tuple[str, Finding]], failing_names: set[str]) -> Iterator[str]:
    for name, finding in findings:
        if name in failing_names and finding.score == 0:
            subject = plain.clip_end(plain.one_line(str(finding.subject)), LIMIT)
            yield phrase("unmet", plain.quoted(name), subject, finding.label, finding.text)


def _call_difference(pairs: Sequence[CallPair]) -> str:
    """A sentence on the first call that differs, with the number of others; "" if all are equal."""
    unequal_pairs = [pair for pair in pairs if not pair.same]
    missing_calls = [pair.expected for pair in unequal_pairs if pair.expected and not pair.actual]
    extra_calls = [pair.actual for pair in unequal_pairs if pair.actual and not pair.expected]
    if not unequal_pairs:
        return ""
    first_pair = unequal_pairs[0]
    other_count = len(unequal_pairs) - 1
    if missing_calls and sorted(call.name for call in missing_calls) == sorted(
        call.name for call in extra_calls
    ):
        names = dict.fromkeys(plain.quoted(call.name) for call in missing_calls)
        return phrase("calls_reordered", words.listed(names, limit=3))
    if first_pair.expected is not None and first_pair.actual is not None:
        sentence = _argument_difference(first_pair.expected, first_pair.actual)
    elif missing_calls:
        is_replaced = bool(extra_calls)
        start = next(index for index, pair in enumerate(pairs) if pair.expected is missing_calls[0])
        following_calls = [pair.actual for pair in pairs[start:] if pair.actual is not None]
        next_call = (
            extra_calls[0] if extra_calls else following_calls[0] if following_calls else None
        )
        sentence = phrase(
            "call_absent",
            plain.quoted(missing_calls[0].name),
            "" if next_call is None else plain.quoted(next_call.name),
            is_replaced,
        )
        other_count -= is_replaced
    else:
        sentence = phrase("call_unexpected", plain.quoted(extra_calls[0].name))
    return phrase("and_other_calls", sentence, other_count)


def _argument_difference(expected_call: ToolCall, actual_call: ToolCall) -> str:
    """A sentence on the first argument that differs."""
    expected_arguments = expected_call.args or {}
    actual_arguments = actual_call.args or {}
    names = dict.fromkeys([*expected_arguments, *actual_arguments])
    # in Python 1 equals 1.0 and True, in JSON it does not
    changed_name = max(
        names,
        key=lambda name: repr(expected_arguments.get(name)) != repr(actual_arguments.get(name)),
    )
    values = (
        plain.quoted(plain.short_json(arguments[changed_name]), VALUE)
        if changed_name in arguments
        else ""
        for arguments in (actual_arguments, expected_arguments)
    )
    return phrase("call_with", plain.quoted(actual_call.name), plain.quoted(changed_name), *values)


def _is_of_calls(name: str) -> bool:
    return "tool" in name or "trajectory" in name


def _missed(case: CaseView) -> Iterator[str]:
    inverted_names = {use.name for use in case.suite.criteria if use.lower_is_better}
    for verdict in case.failing[:NAMED_ARGUMENTS]:
        yield phrase("missed", plain.label(verdict.name, 60), verdict.name in inverted_names)


def _failure(case: CaseView) -> str:
    """The agent's failure without its turn, which may differ between cases."""
    failure = case.failure
    assert failure is not None
    message = plain.clip(failure.message, LIMIT * 2)
    return message if message.startswith("the agent") else phrase("agent_cause", failure, message)


def _cause_texts(
    notable_turns: Sequence[Turn],
    case_findings: Sequence[tuple[str, Finding]],
    failing_names: frozenset[str] | set[str],
) -> Iterator[str]:
    if any(map(_is_of_calls, failing_names)):
        for turn in notable_turns:
            yield from _calls(turn)
    for turn in notable_turns:
        yield from (
            _finding(name, finding)
            for name, finding in turn.findings
            if name in failing_names and finding.score == 0
        )
    yield from (
        _finding(name, finding)
        for name, finding in case_findings
        if name in failing_names and finding.score == 0
    )
    if any(turn.actual is None for turn in notable_turns):
        yield phrase("turn_missing")


def _finding(name: str, finding: Finding) -> str:
    return (
        f"{name}: {finding.subject}"
        if finding.subject
        else f"{name}: {finding.label or finding.text}"
    )


def _calls(turn: Turn) -> Iterator[str]:
    """The problems with the calls of a turn; empty if they are as expected."""
    if turn.expected_calls is None or turn.actual is None:
        return
    pairs = [
        pair
        for pair in call_diff.pair(turn.expected_calls, turn.actual_calls or ())
        if not pair.same
    ]
    if not pairs:
        return
    missing_names = [
        pair.expected.name for pair in pairs if pair.expected is not None and pair.actual is None
    ]
    extra_names = [
        pair.actual.name for pair in pairs if pair.actual is not None and pair.expected is None
    ]
    if sorted(missing_names) == sorted(extra_names) and missing_names:
        yield phrase("calls_reordered", words.listed(dict.fromkeys(missing_names), limit=3))
    elif missing_names and extra_names:
        yield phrase("call_replaced", missing_names[0], extra_names[0])
    elif missing_names:
        yield phrase("call_missing", missing_names[0])
    elif extra_names:
        yield phrase("call_extra", extra_names[0])
    else:
        yield _arguments(pairs[0])


def _arguments(pair: CallPair) -> str:
    assert pair.expected is not None
    assert pair.actual is not None
    expected_arguments = pair.expected.args or {}
    actual_arguments = pair.actual.args or {}
    names = [
        name
        for name in dict.fromkeys([*expected_arguments, *actual_arguments])
        if expected_arguments.get(name, pair) != actual_arguments.get(name, pair)
    ]
    return phrase("call_arguments", pair.expected.name, words.listed(names, limit=NAMED_ARGUMENTS))
