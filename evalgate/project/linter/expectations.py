"""Checks of what criteria compare with: expected tool calls, reference answers, rubrics, scenarios."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from evalgate import turns, unigrams
from evalgate.criteria.base import Need
from evalgate.errors import Place, Problem
from evalgate.model import Case, CriterionUse, Invocation, Suite, Text
from evalgate.project.linter import finding
from evalgate.project.linter.finding import Setting

TRAJECTORY = "tool_trajectory_avg_score"
STATE = "final_session_state"
ANSWER = "response_match_score"
MATCH = "final_response_match_v2"
ENDED = "conversation_ended"


def nothing_expected(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A trajectory is scored where no case expects a tool call, or where some say nothing of tools."""
    use = next((use for use in finding.uses_needing(suite, Need.REFERENCE, setting) if use.name == TRAJECTORY), None)
    static = [case for case in suite.eval_set.cases if case.conversation]
    if use is None or not static:
        return
    if not any(turn.tool_calls for case in static for turn in case.conversation or ()):
        effect = (
            "it passes only if the agent calls no tools"
            if use.options.get("match_type", "EXACT") == "EXACT"
            else "it always passes"
        )
        yield finding.warning(
            "nothing-expected",
            f"`{TRAJECTORY}`: no case expects a tool call, so {effect}",
            place=Place(file=suite.key),
            hint="Add the expected `tool_uses` to `intermediate_data`, or remove the criterion.",
        )
        return
    silent = [case for case in static if all(turn.events is None for turn in case.conversation or ())]
    if silent:
        yield finding.note(
            "nothing-expected-in-case",
            f"`{TRAJECTORY}`: {finding.named(silent)} say{'s' if len(silent) == 1 else ''} nothing about tools, "
            f"which means that none are expected",
            place=finding.place_of(suite, silent[0]),
        )


def references_missing(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A reference-based criterion has nothing to compare with: an error if nowhere, a warning if in some cases."""
    static = [case for case in suite.eval_set.cases if case.conversation]
    needing = {use.name for use in finding.uses_needing(suite, Need.REFERENCE, setting)}
    for use in suite.criteria:
        if use.code is not None or (use.name not in needing and use.name not in _LACKS_REFERENCE):
            continue
        serves = _SERVES.get(use.name, _answers)
        lacks = _LACKS_REFERENCE.get(use.name, functools.partial(_lacks_answer, serves=serves))
        lacking = [case for case in static if lacks(case)]
        if not lacking:
            continue
        what = _missing(use, lacking, serves)
        judged = use.name != STATE and any(_has_any_answer(case, serves) for case in static)
        if len(lacking) == len(static) and not judged:
            yield finding.error(
                "reference-missing",
                f"`{use.name}`: no case has an {what} to compare with",
                place=Place(file=suite.key),
                hint=f"Add one to each case, or remove `{use.name}` from {_criteria_file(suite)}.",
            )
        else:
            yield finding.warning(
                "reference-missing-in-case",
                f"`{use.name}`: {_turns_without(lacking, use)} without an {what}",
                place=finding.place_of(suite, lacking[0]),
                hint=_effect(use, setting),
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
                hint="Move scenarios to a separate file with criteria that need no reference.",
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


def nothing_to_end(suite: Suite, setting: Setting) -> Iterator[Problem]:  # noqa: ARG001 - the shape of a row
    """The end of conversations is scored where all of them are written down, and so end as written."""
    use = next((use for use in suite.criteria if use.name == ENDED and not use.code and not use.informational), None)
    if use is not None and suite.eval_set.cases and all(case.scenario is None for case in suite.eval_set.cases):
        yield finding.warning(
            "nothing-to-end",
            f"`{ENDED}`: no case is a conversation scenario, so that it always passes",
            place=use.place or Place(file=suite.key),
            hint="Remove it: suites with scenarios have it by default.",
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
                f"`{use.name}` has no rubrics, neither its own nor in any case",
                place=use.place or Place(file=suite.key),
                hint='Add `"rubrics": [{"rubric_id": "...", "rubric_content": {"text_property": "..."}}]`.',
            )
        else:
            yield finding.warning(
                "no-rubrics-in-case",
                f"`{use.name}`: {finding.named(lacking)} without any rubric",
                place=finding.place_of(suite, lacking[0]),
            )


def metrics_not_run(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A metric of the repository's own beside an agent whose driver cannot run Python code of the repository."""
    if suite.agent.driver not in setting.metricless:
        return
    for use in suite.criteria:
        if use.code is not None:
            tell = finding.warning if use.informational or use.threshold is None else finding.error
            yield tell(
                "metric-not-run",
                f"`{use.name}` is Python code (`{use.code}`), which the driver `{suite.agent.driver}` does not "
                f"support: it can never be measured",
                place=use.place or Place(file=suite.key),
                hint="Run the agent with the driver `adk` or `python`, or give this suite other criteria.",
            )


def _lacks_answer(case: Case, serves: Callable[[Invocation], bool]) -> bool:
    return any(not serves(turn) for turn in case.conversation or ())


def _has_any_answer(case: Case, serves: Callable[[Invocation], bool]) -> bool:
    return any(serves(turn) for turn in case.conversation or ())


def _answers(turn: Invocation) -> bool:
    parts = turn.final_response.parts if turn.final_response else ()
    return finding.has_text(part.text for part in parts if isinstance(part, Text))


def _has_words(turn: Invocation) -> bool:
    """Whether ROUGE-1 has something to count: a smile alone is an answer, and no word."""
    answer = turns.answer(turn)
    return any(char.isascii() and char.isalnum() for char in answer) or bool(unigrams.split(answer))


def _has_rubrics(case: Case) -> bool:
    return bool(case.rubrics) or any(turn.rubrics for turn in case.conversation or ())


_LACKS_REFERENCE: Mapping[str, Callable[[Case], bool]] = {
    TRAJECTORY: lambda _: False,  # no expected calls is an expectation too: `nothing_expected` speaks of it
    STATE: lambda case: case.expects_state is None,
}
"""What a reference is, for the criteria that do not compare answers."""

_SERVES: Mapping[str, Callable[[Invocation], bool]] = {ANSWER: _has_words}
"""Which expected answers a criterion can compare with; any that says something, for the others."""


def _missing(use: CriterionUse, lacking: Sequence[Case], serves: Callable[[Invocation], bool]) -> str:
    """What the cases lack, in words."""
    if use.name == STATE:
        return "expected final session state"
    silent = (turn for case in lacking for turn in case.conversation or () if not serves(turn))
    wordless = any(_answers(turn) for turn in silent)
    return "expected `final_response` with words in it" if wordless else "expected `final_response`"


def _turns_without(lacking: Sequence[Case], use: CriterionUse) -> str:
    """`case a (turns 1 and 2)` for a single case, else the names of the cases."""
    if len(lacking) > 1 or use.name == STATE:
        return finding.named(lacking)
    serves, asked = _SERVES.get(use.name, _answers), lacking[0].conversation or ()
    silent = [str(number) for number, turn in enumerate(asked, start=1) if not serves(turn)]
    if len(silent) == len(asked):
        return finding.named(lacking)
    return f"{finding.named(lacking)} (turn{'s' if len(silent) > 1 else ''} {' and '.join(silent)})"


def _effect(use: CriterionUse, setting: Setting) -> str:
    """What a turn without a reference does to the score; empty where there is nothing to say."""
    in_adk = {ANSWER: "scores it 0", MATCH: "has it compared with an empty answer"}.get(use.name)
    if in_adk is None:
        return ""
    if setting.adk_compat:
        return f"With `adk_compat` evalgate {in_adk}, as ADK does."
    return f"evalgate excludes such turns from the score; ADK {in_adk}."


def _criteria_file(suite: Suite) -> str:
    return suite.criteria_source.file or "the criteria (ADK's defaults are in use: add a test_config.json)"
