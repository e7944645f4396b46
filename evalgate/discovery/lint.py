"""The linter for gates without effect: evaluation files and criteria that cannot mean what their
author wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from evalgate import agents, errors
from evalgate.config.settings import Settings
from evalgate.criteria import response_match
from evalgate.errors import Place, Problem
from evalgate.model import (
    Attachment,
    Case,
    Content,
    CriterionUse,
    Invocation,
    Need,
    Suite,
    turns as model_turns,
)
from evalgate.model.case import TRAJECTORY
from evalgate.model.deviations import OURS, Deviations
from evalgate.text import templates, words


def _uses_with(suite: Suite, need: Need) -> Iterator[CriterionUse]:
    """The built-in criteria of the suite that have this need and decide every case."""
    return (
        use
        for use in suite.criteria
        if use.code is None and need in use.needs and not use.is_partial
    )


def _place_of(suite: Suite, part: Case | CriterionUse) -> Place:
    """The place of a part of a suite, else of its file."""
    return part.place or Place(suite.key)


def _case_names(cases: Sequence[Case]) -> str:
    """`case a`, or `cases a, b and 7 more`."""
    return (
        f"{'case' if len(cases) == 1 else 'cases'} {words.listed(case.case_id for case in cases)}"
    )


def silent_conversations(suite: Suite) -> Iterator[Problem]:
    """A conversation without turns: no criterion can score it. A turn without user text: models
    refuse it or invent an answer."""
    empty_cases = [case for case in suite.cases if case.scenario is None and not case.conversation]
    if empty_cases:
        message = f"{_case_names(empty_cases)}: the conversation has no turns, so the agent is never called"
        yield errors.error("empty-conversation", message, _place_of(suite, empty_cases[0]))
    silent_cases = [
        case
        for case in suite.cases
        if any(
            not _has_text(turn.user_content)
            and not any(isinstance(part, Attachment) for part in turn.user_content.parts)
            for turn in case.turns
        )
    ]
    if silent_cases:
        message = f"{_case_names(silent_cases)}: a turn has no user text"
        yield errors.warning("empty-user-text", message, _place_of(suite, silent_cases[0]))


def _has_text(content: Content) -> bool:
    return bool(content.text(with_thoughts=True).strip())


STATE = "final_session_state"
ANSWER = "response_match_score"
MATCH = "final_response_match_v2"
ENDED = "conversation_ended"


def _deciding(suite: Suite, case: Case) -> list[CriterionUse]:
    return [use for use in suite.criteria_of(case) if use.threshold is not None]


def nothing_expected(suite: Suite) -> Iterator[Problem]:
    """A trajectory is scored although no case expects a tool call, or some cases do not mention
    tools."""
    use = next((use for use in suite.criteria if use.name == TRAJECTORY and use.code is None), None)
    if use is None:
        return
    scripted_cases = [case for case in suite.cases if case.conversation and use.applies_to(case)]
    others_decide = any(len(_deciding(suite, case)) > 1 for case in scripted_cases)
    if not scripted_cases or (use.where_applicable and others_decide):
        return
    if not any(turn.tool_calls for case in scripted_cases for turn in case.turns):
        effect = (
            "it passes only if the agent calls no tools"
            if use.options.get("match_type", "EXACT") == "EXACT"
            else "it always passes"
        )
        message = f"`{TRAJECTORY}`: no case expects a tool call, so {effect}"
        hint = "Add the expected `tool_uses` to `intermediate_data`, or remove the criterion."
        yield errors.warning("nothing-expected", message, Place(suite.key), hint)
        return
    silent_cases = [
        case for case in scripted_cases if all(turn.events is None for turn in case.turns)
    ]
    if silent_cases:
        yield errors.note(
            "nothing-expected-in-case",
            f"`{TRAJECTORY}`: {_case_names(silent_cases)} say{'s' if len(silent_cases) == 1 else ''} nothing about tools, "
            f"which means that none are expected",
            _place_of(suite, silent_cases[0]),
        )


def nothing_asserted(suite: Suite) -> Iterator[Problem]:
    """A case to which no criterion applies, so that it could never pass."""
    if not any(use.is_partial for use in suite.criteria):
        return
    cases = suite.cases
    idle_cases = [case for case in cases if case.conversation and not _deciding(suite, case)]
    if idle_cases:
        is_whole = len(idle_cases) == len(cases)
        subject = (
            "no case expects"
            if is_whole
            else f"{_case_names(idle_cases)} {'does' if len(idle_cases) == 1 else 'do'} not expect"
        )
        message = f"{subject} an answer or tool calls, so the criteria have nothing to assert"
        hint = "Add `final_response` or `intermediate_data`; or a test_config.json with criteria that need no reference"
        hint += ", such as rubrics."
        report = errors.error if is_whole else errors.warning
        yield report("asserts-nothing", message, _place_of(suite, idle_cases[0]), hint)


def references_missing(suite: Suite, *, deviations: Deviations = OURS) -> Iterator[Problem]:
    """A reference-based criterion without references: an error if no case has one, a warning if
    some lack one."""
    scripted_cases = [case for case in suite.cases if case.conversation]
    reference_uses = {use.name for use in _uses_with(suite, Need.REFERENCE)}
    for use in suite.criteria:
        if use.code is not None or (use.name not in reference_uses and use.name != STATE):
            continue
        turns_by_case = [(case, _turns_without(use, case)) for case in scripted_cases]
        lacking_cases = [case for case, numbers in turns_by_case if numbers]
        if not lacking_cases:
            continue
        expectation = "expected `final_response`"
        if use.name == STATE:
            expectation = "expected final session state"
        elif any(
            _answers(case.turns[number - 1])
            for case, numbers in turns_by_case
            for number in numbers
        ):
            expectation += " with text"
        if all(len(numbers) == len(case.turns) for case, numbers in turns_by_case):
            message = f"`{use.name}`: no case has an {expectation} to compare with"
            file = suite.criteria_source.file
            source = file or "the criteria (ADK's defaults are in use: add a test_config.json)"
            hint = f"Add one to each case, or remove `{use.name}` from {source}."
            yield errors.error("reference-missing", message, Place(suite.key), hint)
        else:
            first_case = lacking_cases[0]
            numbers = _turns_without(use, first_case)
            location = _case_names(lacking_cases)
            if len(lacking_cases) == 1 and len(numbers) < len(first_case.turns):
                turns_text = " and ".join(map(str, numbers))
                location += f" (turn{'s' if len(numbers) > 1 else ''} {turns_text})"
            message = f"`{use.name}`: no {expectation} in {location}"
            in_adk = {ANSWER: "scores it 0", MATCH: "has it compared with an empty answer"}.get(
                use.name
            )
            hint = f"evalgate excludes such turns from the score; ADK {in_adk}." if in_adk else ""
            if in_adk and not deviations.reference_empty:
                hint = f"With `adk_compat` evalgate {in_adk}, as ADK does."
            yield errors.warning(
                "reference-missing-in-case",
                message,
                _place_of(suite, first_case),
                hint,
            )


def criteria_of_other_cases(suite: Suite) -> Iterator[Problem]:
    """A reference-based criterion on a scenario, which has no expected turns; or a criterion of
    simulated users, or of how conversations end, on a conversation with fixed turns."""
    scenario_cases = [case for case in suite.cases if case.scenario is not None]
    if scenario_cases:
        for use in _uses_with(suite, Need.REFERENCE):
            yield errors.error(
                "criterion-needs-reference",
                f"`{use.name}` compares with expected turns, but {_case_names(scenario_cases)} "
                f"{'is a scenario and has' if len(scenario_cases) == 1 else 'are scenarios and have'} none",
                _place_of(suite, scenario_cases[0]),
                "Move scenarios to a separate file with criteria that need no reference.",
            )
    scripted_cases = [case for case in suite.cases if case.scenario is None]
    if scripted_cases:
        for use in _uses_with(suite, Need.SCENARIO):
            report = errors.error if len(scripted_cases) == len(suite.cases) else errors.warning
            yield report(
                "criterion-needs-scenario",
                f"`{use.name}` judges a simulated user, but {_case_names(scripted_cases)} "
                f"{'is not a conversation scenario' if len(scripted_cases) == 1 else 'are not conversation scenarios'}",
                _place_of(suite, scripted_cases[0]),
            )
    end_uses = (
        use
        for use in suite.criteria
        if use.name == ENDED and not use.code and not use.informational
    )
    for use in end_uses if scripted_cases and not scenario_cases else ():
        message = f"`{ENDED}`: no case is a conversation scenario, so it always passes"
        hint = "Remove it: suites with scenarios have it by default."
        yield errors.warning("nothing-to-end", message, _place_of(suite, use), hint)


def rubrics_missing(suite: Suite) -> Iterator[Problem]:
    """A rubric criterion without rubrics in its options, in the case or in a turn."""
    for use in _uses_with(suite, Need.RUBRICS):
        cases = suite.cases
        lacking_cases = [
            case
            for case in cases
            if not (
                use.options.get("rubrics")
                or case.rubrics
                or any(turn.rubrics for turn in case.turns)
            )
        ]
        if lacking_cases and len(lacking_cases) == len(cases):
            message = f"`{use.name}` has no rubrics, and neither has any case"
            hint = 'Add `"rubrics": [{"rubric_id": "...", "rubric_content": {"text_property": "..."}}]`.'
            yield errors.error("no-rubrics", message, _place_of(suite, use), hint)
        elif lacking_cases:
            message = f"`{use.name}`: no rubrics for {_case_names(lacking_cases)}"
            yield errors.warning("no-rubrics-in-case", message, _place_of(suite, lacking_cases[0]))


def metrics_not_run(suite: Suite) -> Iterator[Problem]:
    """A custom metric with an agent whose driver cannot run Python code of the repository."""
    driver = agents.DRIVERS.get(suite.agent.driver)
    if driver is None or driver.runs_metrics:
        return
    for use in suite.criteria:
        if use.code is not None:
            report = errors.warning if use.informational else errors.error
            yield report(
                "metric-not-run",
                f"`{use.name}` is Python code (`{use.code}`), which the driver `{suite.agent.driver}` does not "
                f"support: it can never be measured",
                _place_of(suite, use),
                "Run the agent with the driver `adk` or `python`, or give this suite other criteria.",
            )


def _answers(turn: Invocation) -> bool:
    return turn.final_response is not None and _has_text(turn.final_response)


def _has_words(turn: Invocation) -> bool:
    """True if ROUGE-1 can count words: an emoji is an answer, but not a word."""
    answer = model_turns.answer(turn)
    return any(char.isascii() and char.isalnum() for char in answer) or bool(
        response_match.split(answer)
    )


def _turns_without(use: CriterionUse, case: Case) -> list[int]:
    """The turns of a case, counted from 1, without the reference of a criterion. "No expected
    calls" is a reference too: see `nothing_expected`."""
    if use.name == TRAJECTORY or (use.name == STATE and case.expects_state is not None):
        return []
    serves = _has_words if use.name == ANSWER else _answers
    turns = enumerate(case.turns, start=1)
    return [number for number, turn in turns if use.name == STATE or not serves(turn)]


def lint_rules(settings: Settings) -> Iterator[Problem]:
    """Rules without effect: a pass rate of 0, with which a suite always passes, and an empty
    `fail-on`, with which the job always passes."""
    setting_places = {
        name: None if name in settings.explicit_options else settings.place_of(name)
        for name in ("pass_rate", "fail_on")
    }
    rates = [("pass-rate", setting_places["pass_rate"])] if settings.pass_rate == 0 else []
    for number, rule in enumerate(settings.gate_file.suites):
        if rule.pass_rate == 0 and rule.severity != "advisory":
            rule_place = settings.locate("suites", number, "pass_rate")
            rates.append((f"pass_rate of {', '.join(rule.match)}", rule_place))
    for name, place in rates:
        hint = "Set the share that must pass; for suites that must not fail the gate use `severity: advisory`."
        yield errors.warning(
            "pass-rate-zero",
            f"`{name}` is 0, so no threshold can fail the gate",
            place,
            hint,
        )
    if not settings.fail_on:
        message = "`fail-on` is empty: the job always passes"
        hint = "List the results that fail the job: `threshold`, `regression`, `not_measured`, `inconclusive`."
        yield errors.warning("nothing-blocks", message, setting_places["fail_on"], hint)


def simulated_users(suite: Suite) -> Iterator[Problem]:
    """A scenario whose first message is empty, or already contains the stop signal. Custom
    instructions without the persona, if a scenario has one. A criterion with another stop signal
    than the simulated user."""
    signal = suite.simulator.stop_signal
    scenario_cases = [(case, case.scenario) for case in suite.cases if case.scenario is not None]
    for case, scenario in scenario_cases:
        if not scenario.starting_prompt.strip():
            message = f"{_case_names([case])}: the starting prompt is empty"
            yield errors.error("empty-starting-prompt", message, _place_of(suite, case))
        elif signal.lower() in scenario.starting_prompt.lower():
            yield errors.error(
                "stop-signal-in-prompt",
                f"{_case_names([case])}: the starting prompt contains the stop signal `{signal}`, so ADK ends the "
                f"conversation before the agent is called",
                _place_of(suite, case),
            )
    silent_cases = [
        case for case, scenario in scenario_cases if not scenario.conversation_plan.strip()
    ]
    if silent_cases:
        message = f"{_case_names(silent_cases)}: the conversation plan is empty, so the simulated user has nothing to say"
        yield errors.warning("empty-plan", message, _place_of(suite, silent_cases[0]))
    template = suite.simulator.custom_instructions
    persona_cases = [case for case, scenario in scenario_cases if scenario.persona is not None]
    if template is not None and persona_cases and "persona" not in templates.names_in(template):
        yield errors.error(
            "bad-instructions",
            f"the custom instructions never use `{{{{ persona }}}}`, and {_case_names(persona_cases)} "
            f"{'has' if len(persona_cases) == 1 else 'have'} a persona",
            suite.simulator_place or Place(suite.key),
            "ADK rejects such instructions, too: use the persona, or remove it from the cases.",
        )
    for use in _uses_with(suite, Need.SCENARIO):
        stop_signal = use.options.get("stop_signal")
        if stop_signal is not None and stop_signal != signal:
            message = (
                f"`{use.name}` uses the stop signal `{stop_signal}`, the simulated user `{signal}`"
            )
            hint = "Remove `stop_signal` from the criterion; it defaults to the simulated user's."
            yield errors.warning("stop-signals-differ", message, _place_of(suite, use), hint)


CHECKS: tuple[Callable[[Suite], Iterator[Problem]], ...] = (
    silent_conversations,
    simulated_users,
    nothing_expected,
    nothing_asserted,
    references_missing,
    criteria_of_other_cases,
    rubrics_missing,
    metrics_not_run,
)
"""The checks of each suite, in the order of their reports."""


def lint(suites: Sequence[Suite], *, deviations: Deviations = OURS) -> tuple[Problem, ...]:
    """All suspicious points of `suites`, in their order; linear in cases and turns.

    Unknown criteria are skipped: `discovery.criteria` reports them."""
    problems: list[Problem] = []
    reference_check = partial(references_missing, deviations=deviations)
    for suite in suites:
        for check in CHECKS:
            problems.extend((reference_check if check is references_missing else check)(suite))
    # `adk web` makes sets without cases; a run of them alone would always pass
    report = errors.warning if any(suite.cases for suite in suites) else errors.error
    hint = "Add a case, delete the file, or exclude it in evalgate.yml."
    problems += (
        report("no-cases", "the evaluation set has no cases", Place(suite.key), hint)
        for suite in suites
        if not suite.cases
    )
    return tuple(problems)
