"""The cause of each case that does not pass, in one line. Cases with equal lines share a cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from evalgate.model import Finding, ToolCall, call_diff
from evalgate.model.call_diff import CallPair
from evalgate.results.labels import CaseLabel
from evalgate.text import plain, words
from . import turns
from .cases import CaseView
from .phrases import phrase

LIMIT = 160
"""Characters of a cause; of a full sentence twice as many."""
NAMED_ARGUMENTS = 3
"""Criteria that a cause names."""
VALUE = 40
"""Characters of an argument's value."""
VARYING = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|(?<!_v)\d+(?:\.\d+)?")
"""What differs between failures of one cause: addresses, ids, numbers; no criterion's version."""

STATUSES = (
    CaseLabel.NEW,
    CaseLabel.FAILED,
    CaseLabel.NO_BASE,
    CaseLabel.NOT_CONFIRMED,
    CaseLabel.NOT_MEASURED,
    CaseLabel.INCONCLUSIVE,
    CaseLabel.MIXED,
    CaseLabel.FLAKY,
    CaseLabel.LISTED,
    CaseLabel.PRE_EXISTING,
    CaseLabel.FIXED,
    CaseLabel.PASSED,
)
"""The labels of cases, in the order in which reports show them."""


@lru_cache(maxsize=4096)  # views are equal only to themselves
def cause(case: CaseView) -> str:
    """The cause of one case that does not pass: what broke the agent, else its first difference
    without values, else the criteria that miss their thresholds."""
    if not case.failing:
        if case.failure is None:
            sentence = case.unmeasured_reason
        else:  # without its turn, which may differ between cases
            sentence = plain.clip(case.failure.message, LIMIT * 2)
            if not sentence.startswith("the agent"):
                sentence = phrase("agent_cause", case.failure, sentence)
        return plain.clip_end(VARYING.sub("#", plain.one_line(sentence)), LIMIT)
    inverted_names = {use.name for use in case.suite.criteria if use.lower_is_better}
    text = next(_differences(case, is_brief=True), "") or words.listed(
        phrase("missed", plain.label(verdict.name, 60), verdict.name in inverted_names)
        for verdict in case.failing[:NAMED_ARGUMENTS]
    )
    return plain.clip_end(plain.one_line(text), LIMIT)


def difference(case: CaseView) -> str:
    """What is different in the shown trial of a case that does not pass, in one sentence. Names are
    between backticks."""
    text = next(_differences(case, is_brief=False), "") if case.failing else ""
    return plain.clip_end(plain.one_line(text or case.unmeasured_reason), LIMIT * 2)


def _differences(case: CaseView, *, is_brief: bool) -> Iterator[str]:
    """What is different in the shown trial of a failed case, by turn: a wrong call, the finding
    that fails it, its answer. `is_brief`: without turns and values, for cases that share it."""
    conversation = turns.conversation_of(case)
    failing_names = {verdict.name for verdict in case.failing}
    misses_calls = any(map(_is_of_calls, failing_names))
    # if a criterion of calls passes, other calls are allowed; without such a criterion, the calls
    # are the best guess
    checks_calls = misses_calls or not any(_is_of_calls(use.name) for use in case.suite.criteria)
    missed_text = words.listed(case.misses(plain.quoted))
    for turn in conversation.notable:
        sentences = [*_unmet(turn.findings, failing_names, is_brief=is_brief)]
        if turn.actual is None:
            sentences = [phrase("turn_missing" if is_brief else "turn_not_reached")]
        elif checks_calls and turn.expected_calls is not None:
            pairs = call_diff.pair(turn.expected_calls, turn.actual_calls or ())
            sentences.insert(
                0 if misses_calls else len(sentences), _call_difference(pairs, is_brief=is_brief)
            )
        is_answer_wrong = turn.expected_answer not in (None, turn.actual_answer)
        if not is_brief and turn.compares_answers and is_answer_wrong:
            sentences.append(phrase("answer_differs", missed_text))
        yield from (
            sentence if is_brief else phrase("in_turn", turn.number, sentence)
            for sentence in sentences
            if sentence
        )
    yield from _unmet(conversation.findings, failing_names, is_brief=is_brief)
    if not is_brief:
        yield missed_text


def _unmet(
    findings: Sequence[tuple[str, Finding]], failing_names: set[str], *, is_brief: bool
) -> Iterator[str]:
    """Sentences on findings of failing criteria with a score of 0, such as an unmet rubric."""
    for name, finding in findings:
        if name in failing_names and finding.score == 0:
            subject = plain.clip_end(plain.one_line(str(finding.subject)), LIMIT)
            yield (
                f"{name}: {subject or finding.label or finding.text}"
                if is_brief
                else phrase("unmet", plain.quoted(name), subject, finding.label, finding.text)
            )


def _call_difference(pairs: Sequence[CallPair], *, is_brief: bool) -> str:
    """A sentence on the first call that differs, with the number of others; "" if all are equal."""
    mark = str if is_brief else plain.quoted
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
        names = dict.fromkeys(mark(call.name) for call in missing_calls)
        return phrase("calls_reordered", words.listed(names, limit=3))
    if first_pair.expected is not None and first_pair.actual is not None:
        sentence = _argument_difference(first_pair.expected, first_pair.actual, is_brief=is_brief)
    elif missing_calls:
        start = next(index for index, pair in enumerate(pairs) if pair.expected is missing_calls[0])
        following_calls = [pair.actual for pair in pairs[start:] if pair.actual and not is_brief]
        next_call = next(iter((*extra_calls, *following_calls)), None)
        next_name = mark(next_call.name) if next_call else ""
        sentence = phrase("call_absent", mark(missing_calls[0].name), next_name, bool(extra_calls))
        other_count -= bool(extra_calls)
    else:
        sentence = phrase("call_unexpected", mark(extra_calls[0].name))
    return phrase("and_other_calls", sentence, 0 if is_brief else other_count)


def _argument_difference(expected_call: ToolCall, actual_call: ToolCall, *, is_brief: bool) -> str:
    """A sentence on the first argument that differs."""
    expected_arguments = expected_call.arguments
    actual_arguments = actual_call.arguments
    names = dict.fromkeys([*expected_arguments, *actual_arguments])
    # in Python 1 equals 1.0 and True, in JSON it does not
    changed_name = max(
        names,
        key=lambda name: repr(expected_arguments.get(name)) != repr(actual_arguments.get(name)),
    )
    if is_brief:
        return phrase("call_with_other", actual_call.name, changed_name)
    values = (
        plain.quoted(plain.short_json(arguments[changed_name]), VALUE)
        if changed_name in arguments
        else ""
        for arguments in (actual_arguments, expected_arguments)
    )
    return phrase("call_with", plain.quoted(actual_call.name), plain.quoted(changed_name), *values)


def _is_of_calls(name: str) -> bool:
    """True if a criterion compares calls, by its name: custom metrics declare nothing."""
    return "tool" in name or "trajectory" in name
