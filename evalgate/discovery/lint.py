"""The vacuous-gate linter: what evaluation files and criteria say that cannot mean what their
author wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from evalgate import agents, errors
from evalgate.config.settings import Settings
from evalgate.criteria import response_match
from evalgate.discovery import discover
from evalgate.errors import Place, Problem
from evalgate.model import (
    Attachment,
    Case,
    Content,
    CriterionUse,
    Invocation,
    Need,
    Suite,
    Text,
    turns as model_turns,
)
from evalgate.model.case import TRAJECTORY
from evalgate.model.deviations import OURS, Deviations
from evalgate.text import templates, words


def _uses_with(suite: Suite, need: Need) -> Iterator[CriterionUse]:
    """The built-in criteria of the suite that need `need` and that somebody chose."""
    return (
        use
        for use in suite.criteria
        if use.code is None and need in use.needs and not use.where_applicable
    )


def _place_of(suite: Suite, case: Case) -> Place:
    """The place of a case, else its file."""
    return case.place or Place(file=suite.key)


def _case_names(cases: Sequence[Case]) -> str:
    """`case a`, `cases a, b and 7 more`."""
    return (
        f"{'case' if len(cases) == 1 else 'cases'} {words.listed(case.case_id for case in cases)}"
    )


def identical_cases(suite: Suite) -> Iterator[Problem]:
    """Cases that ask and expect the same: they count twice and tell nothing more. One warning."""
    by_opening: dict[tuple[str, int], list[Case]] = {}
    for case in suite.eval_set.cases:
        by_opening.setdefault(
            (discover.opening_text(case), len(case.conversation or ())), []
        ).append(case)
    identical: list[tuple[Case, Sequence[Case]]] = []
    for alike in by_opening.values():
        by_content: dict[str, list[Case]] = {}
        for case in alike if len(alike) > 1 else ():
            by_content.setdefault(_content(case), []).append(case)
        identical += ((first, copies) for first, *copies in by_content.values() if copies)
    if identical:
        message = words.listed(
            (
                f"{_case_names(copies)} {'is' if len(copies) == 1 else 'are'} identical to case {first.case_id}"
                for first, copies in identical
            ),
            limit=5,
        )
        hint = "To repeat a case, use `runs`; a copy only counts twice."
        place = _place_of(suite, identical[0][1][0])
        yield errors.warning("identical-cases", message, place=place, hint=hint)


def silent_conversations(suite: Suite) -> Iterator[Problem]:
    """A conversation without turns: no criterion has anything to say. A turn in which the user says
    nothing: models refuse it or make something up."""
    empty = [
        case for case in suite.eval_set.cases if case.scenario is None and not case.conversation
    ]
    if empty:
        message = (
            f"{_case_names(empty)}: the conversation has no turns, so the agent is never called"
        )
        yield errors.error("empty-conversation", message, place=_place_of(suite, empty[0]))
    silent = [
        case
        for case in suite.eval_set.cases
        if any(
            not _has_text(turn.user_content)
            and not any(isinstance(part, Attachment) for part in turn.user_content.parts)
            for turn in case.conversation or ()
        )
    ]
    if silent:
        message = f"{_case_names(silent)}: a turn has no user text"
        yield errors.warning("empty-user-text", message, place=_place_of(suite, silent[0]))


def _has_text(content: Content) -> bool:
    return any(isinstance(part, Text) and part.text.strip() for part in content.parts)


def _content(case: Case) -> str:
    """All that a case asks and expects, without the ids that files give at random."""
    turns = [
        (turn.user_content, turn.final_response, turn.tool_calls, turn.rubrics)
        for turn in case.conversation or ()
    ]
    session = case.session and (case.session.app_name, case.session.user_id, case.session.state)
    return repr((turns, case.scenario, session, case.rubrics, case.expects_state))


STATE = "final_session_state"
ANSWER = "response_match_score"
MATCH = "final_response_match_v2"
ENDED = "conversation_ended"


def _deciding(suite: Suite, case: Case) -> list[CriterionUse]:
    return [use for use in suite.criteria_of(case) if use.threshold is not None]


def nothing_expected(suite: Suite) -> Iterator[Problem]:
    """A trajectory is scored although no case expects a tool call, or some do not mention tools."""
    use = next((use for use in suite.criteria if use.name == TRAJECTORY and use.code is None), None)
    static = [
        case
        for case in suite.eval_set.cases
        if case.conversation and use is not None and use.applies_to(case)
    ]
    if (
        use is None
        or not static
        or (use.where_applicable and any(len(_deciding(suite, case)) > 1 for case in static))
    ):
        return
    if not any(turn.tool_calls for case in static for turn in case.conversation or ()):
        effect = (
            "it passes only if the agent calls no tools"
            if use.options.get("match_type", "EXACT") == "EXACT"
            else "it always passes"
        )
        message = f"`{TRAJECTORY}`: no case expects a tool call, so {effect}"
        hint = "Add the expected `tool_uses` to `intermediate_data`, or remove the criterion."
        yield errors.warning("nothing-expected", message, place=Place(file=suite.key), hint=hint)
        return
    silent = [
        case for case in static if all(turn.events is None for turn in case.conversation or ())
    ]
    if silent:
        yield errors.note(
            "nothing-expected-in-case",
            f"`{TRAJECTORY}`: {_case_names(silent)} say{'s' if len(silent) == 1 else ''} nothing about tools, "
            f"which means that none are expected",
            place=_place_of(suite, silent[0]),
        )


def nothing_asserted(suite: Suite) -> Iterator[Problem]:
    """Under the defaults, which nobody chose: a case to which none of them applies, so that it
    could never pass."""
    if not any(use.where_applicable for use in suite.criteria):
        return
    cases = suite.eval_set.cases
    idle = [case for case in cases if case.conversation and not _deciding(suite, case)]
    if idle:
        is_whole = len(idle) == len(cases)
        subject = (
            "no case expects"
            if is_whole
            else f"{_case_names(idle)} {'does' if len(idle) == 1 else 'do'} not expect"
        )
        message = (
            f"{subject} an answer or tool calls, so the default criteria have nothing to assert"
        )
        hint = "Add `final_response` or `intermediate_data`; or a test_config.json with criteria that need no reference"
        hint += ", such as rubrics."
        tell = errors.error if is_whole else errors.warning
        yield tell("asserts-nothing", message, place=_place_of(suite, idle[0]), hint=hint)


def references_missing(suite: Suite, *, deviations: Deviations = OURS) -> Iterator[Problem]:
    """A reference-based criterion has nothing to compare with: an error if nowhere, a warning if in
    some cases."""
    scripted_cases = [case for case in suite.eval_set.cases if case.conversation]
    reference_uses = {use.name for use in _uses_with(suite, Need.REFERENCE)}
    for use in suite.criteria:
        if use.code is not None or (use.name not in reference_uses and use.name != STATE):
            continue
        serves = _SERVES.get(use.name, _answers)
        lacks = _LACKS_REFERENCE.get(use.name)
        lacking_cases = [
            case
            for case in scripted_cases
            if (lacks(case) if lacks else not all(serves(turn) for turn in case.conversation or ()))
        ]
        if not lacking_cases:
            continue
        expectation = _missing(use, lacking_cases, serves)
        judged = use.name != STATE and any(
            serves(turn) for case in scripted_cases for turn in case.conversation or ()
        )
        if len(lacking_cases) == len(scripted_cases) and not judged:
            message = f"`{use.name}`: no case has an {expectation} to compare with"
            file = suite.criteria_source.file
            source = file or "the criteria (ADK's defaults are in use: add a test_config.json)"
            hint = f"Add one to each case, or remove `{use.name}` from {source}."
            yield errors.error("reference-missing", message, place=Place(file=suite.key), hint=hint)
        else:
            message = f"`{use.name}`: no {expectation} in {_turns_without(lacking_cases, use)}"
            in_adk = {ANSWER: "scores it 0", MATCH: "has it compared with an empty answer"}.get(
                use.name
            )
            hint = f"evalgate excludes such turns from the score; ADK {in_adk}." if in_adk else ""
            if in_adk and not deviations.reference_empty:
                hint = f"With `adk_compat` evalgate {in_adk}, as ADK does."
            yield errors.warning(
                "reference-missing-in-case",
                message,
                place=_place_of(suite, lacking_cases[0]),
                hint=hint,
            )


def criteria_of_other_cases(suite: Suite) -> Iterator[Problem]:
    """A reference-based criterion on a scenario, which has no expected turns; a criterion of the
    simulated user, or of how conversations end, on a conversation that is written down."""
    led = [case for case in suite.eval_set.cases if case.scenario is not None]
    if led:
        for use in _uses_with(suite, Need.REFERENCE):
            yield errors.error(
                "criterion-needs-reference",
                f"`{use.name}` compares with expected turns, but {_case_names(led)} "
                f"{'is a scenario and has' if len(led) == 1 else 'are scenarios and have'} none",
                place=_place_of(suite, led[0]),
                hint="Move scenarios to a separate file with criteria that need no reference.",
            )
    static = [case for case in suite.eval_set.cases if case.scenario is None]
    if static:
        for use in _uses_with(suite, Need.SCENARIO):
            tell = errors.error if len(static) == len(suite.eval_set.cases) else errors.warning
            yield tell(
                "criterion-needs-scenario",
                f"`{use.name}` judges a simulated user, but {_case_names(static)} "
                f"{'is not a conversation scenario' if len(static) == 1 else 'are not conversation scenarios'}",
                place=_place_of(suite, static[0]),
            )
    ended = (
        use
        for use in suite.criteria
        if use.name == ENDED and not use.code and not use.informational
    )
    for use in ended if static and not led else ():
        message = f"`{ENDED}`: no case is a conversation scenario, so it always passes"
        hint = "Remove it: suites with scenarios have it by default."
        yield errors.warning(
            "nothing-to-end", message, place=use.place or Place(file=suite.key), hint=hint
        )


def rubrics_missing(suite: Suite) -> Iterator[Problem]:
    """A rubric criterion without rubrics in its options, in the case or in a turn."""
    for use in _uses_with(suite, Need.RUBRICS):
        cases = suite.eval_set.cases
        lacking_cases = [
            case
            for case in cases
            if not (
                use.options.get("rubrics")
                or case.rubrics
                or any(turn.rubrics for turn in case.conversation or ())
            )
        ]
        if lacking_cases and len(lacking_cases) == len(cases):
            message = f"`{use.name}` has no rubrics, and neither has any case"
            hint = 'Add `"rubrics": [{"rubric_id": "...", "rubric_content": {"text_property": "..."}}]`.'
            yield errors.error(
                "no-rubrics", message, place=use.place or Place(file=suite.key), hint=hint
            )
        elif lacking_cases:
            message = f"`{use.name}`: no rubrics for {_case_names(lacking_cases)}"
            yield errors.warning(
                "no-rubrics-in-case", message, place=_place_of(suite, lacking_cases[0])
            )


def metrics_not_run(suite: Suite) -> Iterator[Problem]:
    """A metric of the repository's own beside an agent whose driver cannot run Python code of the
    repository."""
    driver = agents.DRIVERS.get(suite.agent.driver)
    if driver is None or driver.runs_metrics:
        return
    for use in suite.criteria:
        if use.code is not None:
            tell = errors.warning if use.informational else errors.error
            yield tell(
                "metric-not-run",
                f"`{use.name}` is Python code (`{use.code}`), which the driver `{suite.agent.driver}` does not "
                f"support: it can never be measured",
                place=use.place or Place(file=suite.key),
                hint="Run the agent with the driver `adk` or `python`, or give this suite other criteria.",
            )


def _answers(turn: Invocation) -> bool:
    return turn.final_response is not None and _has_text(turn.final_response)


def _has_words(turn: Invocation) -> bool:
    """True if ROUGE-1 has something to count: an emoji is an answer, but not a word."""
    answer = model_turns.answer(turn)
    return any(char.isascii() and char.isalnum() for char in answer) or bool(
        response_match.split(answer)
    )


_LACKS_REFERENCE: Mapping[str, Callable[[Case], bool]] = {
    # no expected calls is an expectation too: `nothing_expected` speaks of it
    TRAJECTORY: lambda _: False,
    STATE: lambda case: case.expects_state is None,
}
"""What a reference is, for the criteria that do not compare answers."""

_SERVES: Mapping[str, Callable[[Invocation], bool]] = {ANSWER: _has_words}
"""Which expected answers a criterion can compare with; any that says something, for the others."""


def _missing(
    use: CriterionUse, lacking_cases: Sequence[Case], serves: Callable[[Invocation], bool]
) -> str:
    """What the cases lack, in words."""
    if use.name == STATE:
        return "expected final session state"
    unserved_turns = (
        turn for case in lacking_cases for turn in case.conversation or () if not serves(turn)
    )
    wordless = any(_answers(turn) for turn in unserved_turns)
    return "expected `final_response` with text" if wordless else "expected `final_response`"


def _turns_without(lacking: Sequence[Case], use: CriterionUse) -> str:
    """`case a (turns 1 and 2)` for a single case, else the names of the cases."""
    if len(lacking) > 1 or use.name == STATE:
        return _case_names(lacking)
    serves = _SERVES.get(use.name, _answers)
    turns = lacking[0].conversation or ()
    silent = [str(number) for number, turn in enumerate(turns, start=1) if not serves(turn)]
    if len(silent) == len(turns):
        return _case_names(lacking)
    return f"{_case_names(lacking)} (turn{'s' if len(silent) > 1 else ''} {' and '.join(silent)})"


def lint_rules(settings: Settings) -> Iterator[Problem]:
    """Rules that assert nothing: a pass rate of 0, with which a suite passes where every case
    fails, and an empty `fail-on`, with which the job is green whatever the verdict."""
    places = settings.places
    written = {
        name: None if name in settings.explicit_options else settings.place_of(name)
        for name in ("pass_rate", "fail_on")
    }
    rates = [("pass-rate", written["pass_rate"])] if settings.pass_rate == 0 else []
    for number, rule in enumerate(settings.gate_file.suites):
        if rule.pass_rate == 0 and rule.severity != "advisory":
            place = None if places is None else places("suites", number, "pass_rate")
            rates.append((f"pass_rate of {', '.join(rule.match)}", place))
    for name, place in rates:
        hint = "Set the share that must pass; for suites that must not fail the gate use `severity: advisory`."
        yield errors.warning(
            "pass-rate-zero",
            f"`{name}` is 0, so no threshold can fail the gate",
            place=place,
            hint=hint,
        )
    if not settings.fail_on:
        message = "`fail-on` is empty: the job always passes"
        hint = "List the results that fail the job: `threshold`, `regression`, `not_measured`, `inconclusive`."
        yield errors.warning("nothing-blocks", message, place=written["fail_on"], hint=hint)


def starting_prompts(suite: Suite) -> Iterator[Problem]:
    """A scenario whose first message is empty, or is the end already."""
    signal = suite.simulator.stop_signal
    led = [(case, case.scenario) for case in suite.eval_set.cases if case.scenario is not None]
    for case, scenario in led:
        if not scenario.starting_prompt.strip():
            message = f"{_case_names([case])}: the starting prompt is empty"
            yield errors.error("empty-starting-prompt", message, place=_place_of(suite, case))
        elif signal.lower() in scenario.starting_prompt.lower():
            yield errors.error(
                "stop-signal-in-prompt",
                f"{_case_names([case])}: the starting prompt contains the stop signal `{signal}`, so ADK ends the "
                f"conversation before the agent is called",
                place=_place_of(suite, case),
            )
    silent = [case for case, scenario in led if not scenario.conversation_plan.strip()]
    if silent:
        message = f"{_case_names(silent)}: the conversation plan is empty, so the simulated user has nothing to say"
        yield errors.warning("empty-plan", message, place=_place_of(suite, silent[0]))


def simulator_settings(suite: Suite) -> Iterator[Problem]:
    """Custom instructions that never say who the user is, if a scenario has a persona. A criterion
    that judges the end by another signal than the one that ends conversations."""
    template = suite.simulator.custom_instructions
    played = [
        case
        for case in suite.eval_set.cases
        if case.scenario is not None and case.scenario.persona is not None
    ]
    if template is not None and played and "persona" not in templates.names_in(template):
        yield errors.error(
            "bad-instructions",
            f"the custom instructions never use `{{{{ persona }}}}`, and {_case_names(played)} "
            f"{'has' if len(played) == 1 else 'have'} a persona",
            place=suite.simulator.place or Place(file=suite.key),
            hint="ADK rejects such instructions, too: use the persona, or remove it from the cases.",
        )
    for use in _uses_with(suite, Need.SCENARIO):
        stop_signal = use.options.get("stop_signal")
        if stop_signal is not None and stop_signal != suite.simulator.stop_signal:
            message = f"`{use.name}` uses the stop signal `{stop_signal}`, the simulated user `{suite.simulator.stop_signal}`"
            hint = "Remove `stop_signal` from the criterion; it defaults to the simulated user's."
            yield errors.warning(
                "stop-signals-differ", message, place=use.place or Place(file=suite.key), hint=hint
            )


def empty_sets(suite: Suite) -> Iterator[Problem]:
    """An evaluation set without cases passes whatever the agent does."""
    if not suite.eval_set.cases:
        hint = "Add a case, delete the file, or exclude it in evalgate.yml."
        yield errors.error(
            "no-cases", "the evaluation set has no cases", place=Place(file=suite.key), hint=hint
        )


CHECKS: tuple[Callable[[Suite], Iterator[Problem]], ...] = (
    empty_sets,
    identical_cases,
    silent_conversations,
    starting_prompts,
    simulator_settings,
    nothing_expected,
    nothing_asserted,
    references_missing,
    criteria_of_other_cases,
    rubrics_missing,
    metrics_not_run,
)
"""The checks of each suite, in the order of their reports."""


def lint(suites: Iterable[Suite], *, deviations: Deviations = OURS) -> tuple[Problem, ...]:
    """Everything suspicious in `suites`, in their order; linear in cases and turns.

    Criteria that this version does not know are skipped: `discovery.criteria` reports them."""
    problems: list[Problem] = []
    files: dict[str, list[str]] = {}
    reference_check = partial(references_missing, deviations=deviations)
    for suite in suites:
        for check in CHECKS:
            problems.extend((reference_check if check is references_missing else check)(suite))
        files.setdefault(suite.eval_set.eval_set_id, []).append(suite.key)
    for set_id, keys in files.items():
        if len(keys) > 1 and set_id:
            message = f"eval_set_id {set_id!r} is used in {len(keys)} files: {words.listed(keys)}"
            hint = "evalgate identifies them by path; `adk eval` refuses to run them together."
            problems.append(
                errors.warning("duplicate-set-id", message, place=Place(file=keys[1]), hint=hint)
            )
    return tuple(problems)
