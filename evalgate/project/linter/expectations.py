"""Checks of what criteria compare with: expected tool calls, reference answers, rubrics, scenarios."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from evalgate.errors import Place, Problem
from evalgate.model import Case, CriterionUse, Invocation, Suite, Text
from evalgate.plugins import Need
from evalgate.project.linter import finding
from evalgate.project.linter.finding import Setting

TRAJECTORY = "tool_trajectory_avg_score"
STATE = "final_session_state"


def nothing_expected(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A trajectory is scored where no case expects a tool call, or where some say nothing of tools."""
    use = next((use for use in finding.uses_needing(suite, Need.REFERENCE, setting) if use.name == TRAJECTORY), None)
    static = [case for case in suite.eval_set.cases if case.conversation]
    if use is None or not static:
        return
    if not any(turn.tool_calls for case in static for turn in case.conversation or ()):
        effect = (
            "it passes only where the agent calls no tool at all"
            if use.options.get("match_type", "EXACT") == "EXACT"
            else "it passes whatever the agent does"
        )
        yield finding.warning(
            "nothing-expected",
            f"`{TRAJECTORY}`: no case expects a tool call, so that {effect}",
            place=Place(file=suite.key),
            hint="Add the expected `tool_uses` to `intermediate_data`, or take the criterion out.",
        )
        return
    silent = [case for case in static if all(turn.events is None for turn in case.conversation or ())]
    if silent:
        yield finding.note(
            "nothing-expected-in-case",
            f"`{TRAJECTORY}`: {finding.named(silent)} say{'s' if len(silent) == 1 else ''} nothing of tools, "
            "which counts as expecting none",
            place=finding.place_of(suite, silent[0]),
        )


def references_missing(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A reference-based criterion has nothing to compare with: an error if nowhere, a warning if in some cases."""
    static = [case for case in suite.eval_set.cases if case.conversation]
    needing = {use.name for use in finding.uses_needing(suite, Need.REFERENCE, setting)}
    for use in suite.criteria:
        if use.code is not None or (use.name not in needing and use.name not in _LACKS_REFERENCE):
            continue
        lacks = _LACKS_REFERENCE.get(use.name, _lacks_answer)
        lacking = [case for case in static if lacks(case)]
        if not lacking:
            continue
        what = "expected final session state" if use.name == STATE else "expected `final_response`"
        if len(lacking) == len(static) and not any(_has_any_answer(case) for case in static if use.name != STATE):
            yield finding.error(
                "reference-missing",
                f"`{use.name}`: no case has an {what} to compare with",
                place=Place(file=suite.key),
                hint=f"Add one to each case, or take `{use.name}` out of {_criteria_file(suite)}.",
            )
        else:
            yield finding.warning(
                "reference-missing-in-case",
                f"`{use.name}`: {_turns_without(lacking, use)} without an {what}",
                place=finding.place_of(suite, lacking[0]),
                hint="" if use.name == STATE else "evalgate leaves such a turn out of the score; ADK scores it 0.",
            )


def reference_on_scenario(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A conversation scenario has no expected turns, so that a reference-based criterion cannot judge it."""
    led = [case for case in suite.eval_set.cases if case.scenario is not None]
    if led:
        for use in finding.uses_needing(suite, Need.REFERENCE, setting):
            yield finding.error(
                "criterion-needs-reference",
                f"`{use.name}` compares with expected turns, which {finding.named(led)} "
                f"{'has' if len(led) == 1 else 'have'} none of: a scenario has no reference",
                place=finding.place_of(suite, led[0]),
                hint="Keep scenarios in a file of their own, with criteria that need no reference.",
            )


def scenario_criterion_on_static_case(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A criterion of the simulated user has nothing to say of a conversation that is written down."""
    static = [case for case in suite.eval_set.cases if case.scenario is None]
    if static:
        for use in finding.uses_needing(suite, Need.SCENARIO, setting):
            tell = finding.error if len(static) == len(suite.eval_set.cases) else finding.warning
            yield tell(
                "criterion-needs-scenario",
                f"`{use.name}` judges a simulated user, {finding.named(static)} "
                f"{'is' if len(static) == 1 else 'are'} no conversation scenario",
                place=finding.place_of(suite, static[0]),
            )


def rubrics_missing(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A rubric criterion without rubrics in its options, in the case or in a turn."""
    for use in finding.uses_needing(suite, Need.RUBRICS, setting):
        cases = suite.eval_set.cases
        lacking = [] if use.options.get("rubrics") else [case for case in cases if not _has_rubrics(case)]
        if not lacking:
            continue
        if len(lacking) == len(cases):
            yield finding.error(
                "no-rubrics",
                f"`{use.name}` has no rubrics to judge by, neither of its own nor in any case",
                place=use.place or Place(file=suite.key),
                hint='Add `"rubrics": [{"rubric_id": "...", "rubric_content": {"text_property": "..."}}]`.',
            )
        else:
            yield finding.warning(
                "no-rubrics-in-case",
                f"`{use.name}`: {finding.named(lacking)} without any rubric",
                place=finding.place_of(suite, lacking[0]),
            )


def _lacks_answer(case: Case) -> bool:
    return any(not _answers(turn) for turn in case.conversation or ())


def _has_any_answer(case: Case) -> bool:
    return any(_answers(turn) for turn in case.conversation or ())


def _answers(turn: Invocation) -> bool:
    parts = turn.final_response.parts if turn.final_response else ()
    return finding.has_text(part.text for part in parts if isinstance(part, Text))


def _has_rubrics(case: Case) -> bool:
    return bool(case.rubrics) or any(turn.rubrics for turn in case.conversation or ())


_LACKS_REFERENCE: Mapping[str, Callable[[Case], bool]] = {
    TRAJECTORY: lambda _: False,  # no expected calls is an expectation too: `nothing_expected` speaks of it
    STATE: lambda case: case.expects_state is None,
}
"""What a reference is, for the criteria that do not compare answers."""


def _turns_without(lacking: Sequence[Case], use: CriterionUse) -> str:
    """`case a (turns 1 and 2)` for a single case, else the names of the cases."""
    if len(lacking) > 1 or use.name == STATE:
        return finding.named(lacking)
    turns = lacking[0].conversation or ()
    silent = [str(number) for number, turn in enumerate(turns, start=1) if not _answers(turn)]
    if len(silent) == len(turns):
        return finding.named(lacking)
    return f"{finding.named(lacking)} (turn{'s' if len(silent) > 1 else ''} {' and '.join(silent)})"


def _criteria_file(suite: Suite) -> str:
    return suite.criteria_source.file or "the criteria (ADK's defaults are in use: add a test_config.json)"
