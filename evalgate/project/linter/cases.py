"""Checks of single cases and of cases against each other within one file."""

from __future__ import annotations

from collections.abc import Iterator

from evalgate.errors import Problem
from evalgate.model import Attachment, Case, Invocation, Suite, Text
from evalgate.project import opening
from evalgate.project.linter import finding
from evalgate.project.linter.finding import Setting


def duplicate_ids(suite: Suite, _: Setting) -> Iterator[Problem]:
    """Two cases with one id: no result could say which of them it is of."""
    first: dict[str, Case] = {}
    for case in suite.eval_set.cases:
        earlier = first.setdefault(case.case_id, case)
        if earlier is not case:
            where = f" (the first is at {earlier.place})" if earlier.place else ""
            yield finding.error(
                "duplicate-case-id",
                f"the case id {case.case_id!r} is already used{where}",
                place=finding.place_of(suite, case),
                hint="Give each case in a file a unique id.",
            )


def identical_cases(suite: Suite, _: Setting) -> Iterator[Problem]:
    """Two cases that ask and expect the same count twice and tell nothing more."""
    by_opening: dict[tuple[str, int], list[Case]] = {}
    for case in suite.eval_set.cases:
        by_opening.setdefault((opening.opening_text(case), len(case.conversation or ())), []).append(case)
    for alike in by_opening.values():
        if len(alike) == 1:
            continue
        first: dict[str, Case] = {}
        for case in alike:
            earlier = first.setdefault(_content(case), case)
            if earlier is not case and earlier.case_id != case.case_id:
                yield finding.warning(
                    "identical-cases",
                    f"case {case.case_id} is identical to case {earlier.case_id}",
                    place=finding.place_of(suite, case),
                    hint="To repeat a case, use `runs`; a copy only counts twice.",
                )


def empty_conversations(suite: Suite, _: Setting) -> Iterator[Problem]:
    """A conversation without turns: the agent is never asked, so that no criterion has anything to say."""
    empty = [case for case in suite.eval_set.cases if case.scenario is None and not case.conversation]
    if empty:
        yield finding.error(
            "empty-conversation",
            f"{finding.named(empty)}: the conversation has no turns, so the agent is never called",
            place=finding.place_of(suite, empty[0]),
        )


def empty_user_texts(suite: Suite, _: Setting) -> Iterator[Problem]:
    """A turn in which the user says nothing; models refuse it or make something up."""
    silent = [
        case for case in suite.eval_set.cases if any(not _says_something(turn) for turn in case.conversation or ())
    ]
    if silent:
        yield finding.warning(
            "empty-user-text",
            f"{finding.named(silent)}: a turn has no user text",
            place=finding.place_of(suite, silent[0]),
        )


def _says_something(turn: Invocation) -> bool:
    parts = turn.user_content.parts
    return finding.has_text(part.text for part in parts if isinstance(part, Text)) or any(
        isinstance(part, Attachment) for part in parts
    )


def _content(case: Case) -> str:
    """All that a case asks and expects, without the ids that files give at random."""
    turns = [
        (turn.user_content, turn.final_response, turn.tool_calls, turn.rubrics) for turn in case.conversation or ()
    ]
    session = case.session and (case.session.app_name, case.session.user_id, case.session.state)
    return repr((turns, case.scenario, session, case.rubrics, case.expects_state))
