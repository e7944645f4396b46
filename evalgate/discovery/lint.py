"""The vacuous-gate linter: what evaluation files and criteria say that cannot mean what their author wants."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from evalgate import agents
from evalgate.config.settings import Settings
from evalgate.criteria import response_match
from evalgate.discovery import select
from evalgate.errors import Place, Problem, Severity
from evalgate.model import Attachment, Case, CriterionUse, Invocation, Need, Suite, Text
from evalgate.model import turns as model_turns
from evalgate.text import templates, words


def _uses_with(suite: Suite, need: Need) -> Iterator[CriterionUse]:
    """The built-in criteria of the suite that need `need`."""
    return (use for use in suite.criteria if use.code is None and need in use.needs)


def _error(code: str, message: str, *, place: Place, hint: str = "") -> Problem:
    """A finding that stops the run."""
    return Problem(severity=Severity.ERROR, code=code, message=message, place=place, hint=hint)


def _warning(code: str, message: str, *, place: Place | None, hint: str = "") -> Problem:
    """A finding that is shown, and stops the run where the user asked for strictness."""
    return Problem(severity=Severity.WARNING, code=code, message=message, place=place, hint=hint)


def _note(code: str, message: str, *, place: Place, hint: str = "") -> Problem:
    """A finding that only explains."""
    return Problem(severity=Severity.NOTE, code=code, message=message, place=place, hint=hint)


def _place_of(suite: Suite, case: Case | None = None) -> Place:
    """Where a case stands, else its file."""
    return (case.place if case else None) or Place(file=suite.key)


def _named(cases: Sequence[Case]) -> str:
    """`case a`, `cases a, b and 7 more`."""
    return f"{'case' if len(cases) == 1 else 'cases'} {words.listed(case.case_id for case in cases)}"


def _has_text(texts: Iterator[str]) -> bool:
    """Whether any of the texts holds more than blanks."""
    return any(text.strip() for text in texts)


def duplicate_ids(suite: Suite) -> Iterator[Problem]:
    """Two cases with one id: no result could say which of them it is of."""
    first: dict[str, Case] = {}
    for case in suite.eval_set.cases:
        earlier = first.setdefault(case.case_id, case)
        if earlier is not case:
            where = f" (the first is at {earlier.place})" if earlier.place else ""
            message = f"the case id {case.case_id!r} is already used{where}"
            hint = "Give each case in a file a unique id."
            yield _error("duplicate-case-id", message, place=_place_of(suite, case), hint=hint)


def identical_cases(suite: Suite) -> Iterator[Problem]:
    """Two cases that ask and expect the same count twice and tell nothing more."""
    by_opening: dict[tuple[str, int], list[Case]] = {}
    for case in suite.eval_set.cases:
        by_opening.setdefault((select.opening_text(case), len(case.conversation or ())), []).append(case)
    for alike in by_opening.values():
        if len(alike) == 1:
            continue
        first: dict[str, Case] = {}
        for case in alike:
            earlier = first.setdefault(_content(case), case)
            if earlier is not case and earlier.case_id != case.case_id:
                message = f"case {case.case_id} is identical to case {earlier.case_id}"
                hint = "To repeat a case, use `runs`; a copy only counts twice."
                yield _warning("identical-cases", message, place=_place_of(suite, case), hint=hint)


def empty_conversations(suite: Suite) -> Iterator[Problem]:
    """A conversation without turns: the agent is never asked, so that no criterion has anything to say."""
    empty = [case for case in suite.eval_set.cases if case.scenario is None and not case.conversation]
    if empty:
        message = f"{_named(empty)}: the conversation has no turns, so the agent is never called"
        yield _error("empty-conversation", message, place=_place_of(suite, empty[0]))


def empty_user_texts(suite: Suite) -> Iterator[Problem]:
    """A turn in which the user says nothing; models refuse it or make something up."""
    silent = [
        case for case in suite.eval_set.cases if any(not _says_something(turn) for turn in case.conversation or ())
    ]
    if silent:
        message = f"{_named(silent)}: a turn has no user text"
        yield _warning("empty-user-text", message, place=_place_of(suite, silent[0]))


def _says_something(turn: Invocation) -> bool:
    parts = turn.user_content.parts
    return _has_text(part.text for part in parts if isinstance(part, Text)) or any(
        isinstance(part, Attachment) for part in parts
    )


def _content(case: Case) -> str:
    """All that a case asks and expects, without the ids that files give at random."""
    turns = [
        (turn.user_content, turn.final_response, turn.tool_calls, turn.rubrics) for turn in case.conversation or ()
    ]
    session = case.session and (case.session.app_name, case.session.user_id, case.session.state)
    return repr((turns, case.scenario, session, case.rubrics, case.expects_state))


TRAJECTORY = "tool_trajectory_avg_score"
STATE = "final_session_state"
ANSWER = "response_match_score"
MATCH = "final_response_match_v2"
ENDED = "conversation_ended"


def nothing_expected(suite: Suite) -> Iterator[Problem]:
    """A trajectory is scored where no case expects a tool call, or where some say nothing of tools."""
    use = next((use for use in _uses_with(suite, Need.REFERENCE) if use.name == TRAJECTORY), None)
    static = [case for case in suite.eval_set.cases if case.conversation]
    if use is None or not static:
        return
    if not any(turn.tool_calls for case in static for turn in case.conversation or ()):
        effect = (
            "it passes only if the agent calls no tools"
            if use.options.get("match_type", "EXACT") == "EXACT"
            else "it always passes"
        )
        message = f"`{TRAJECTORY}`: no case expects a tool call, so {effect}"
        hint = "Add the expected `tool_uses` to `intermediate_data`, or remove the criterion."
        yield _warning("nothing-expected", message, place=Place(file=suite.key), hint=hint)
        return
    silent = [case for case in static if all(turn.events is None for turn in case.conversation or ())]
    if silent:
        yield _note(
            "nothing-expected-in-case",
            f"`{TRAJECTORY}`: {_named(silent)} say{'s' if len(silent) == 1 else ''} nothing about tools, "
            f"which means that none are expected",
            place=_place_of(suite, silent[0]),
        )


def references_missing(suite: Suite, *, adk_compat: bool = False) -> Iterator[Problem]:
    """A reference-based criterion has nothing to compare with: an error if nowhere, a warning if in some cases."""
    static = [case for case in suite.eval_set.cases if case.conversation]
    needing = {use.name for use in _uses_with(suite, Need.REFERENCE)}
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
            message = f"`{use.name}`: no case has an {what} to compare with"
            hint = f"Add one to each case, or remove `{use.name}` from {_criteria_file(suite)}."
            yield _error("reference-missing", message, place=Place(file=suite.key), hint=hint)
        else:
            message = f"`{use.name}`: {_turns_without(lacking, use)} without an {what}"
            hint = _effect(use, adk_compat=adk_compat)
            yield _warning("reference-missing-in-case", message, place=_place_of(suite, lacking[0]), hint=hint)


def reference_on_scenario(suite: Suite) -> Iterator[Problem]:
    """A conversation scenario has no expected turns, so that a reference-based criterion cannot judge it."""
    led = [case for case in suite.eval_set.cases if case.scenario is not None]
    if led:
        for use in _uses_with(suite, Need.REFERENCE):
            yield _error(
                "criterion-needs-reference",
                f"`{use.name}` compares with expected turns, which {_named(led)} "
                f"{'has' if len(led) == 1 else 'have'} none of: a scenario has no reference",
                place=_place_of(suite, led[0]),
                hint="Move scenarios to a separate file with criteria that need no reference.",
            )


def scenario_criterion_on_static_case(suite: Suite) -> Iterator[Problem]:
    """A criterion of the simulated user has nothing to say of a conversation that is written down."""
    static = [case for case in suite.eval_set.cases if case.scenario is None]
    if static:
        for use in _uses_with(suite, Need.SCENARIO):
            tell = _error if len(static) == len(suite.eval_set.cases) else _warning
            yield tell(
                "criterion-needs-scenario",
                f"`{use.name}` judges a simulated user, {_named(static)} "
                f"{'is' if len(static) == 1 else 'are'} no conversation scenario",
                place=_place_of(suite, static[0]),
            )


def nothing_to_end(suite: Suite) -> Iterator[Problem]:
    """The end of conversations is scored where all of them are written down, and so end as written."""
    use = next((use for use in suite.criteria if use.name == ENDED and not use.code and not use.informational), None)
    if use is not None and suite.eval_set.cases and all(case.scenario is None for case in suite.eval_set.cases):
        message = f"`{ENDED}`: no case is a conversation scenario, so that it always passes"
        hint = "Remove it: suites with scenarios have it by default."
        yield _warning("nothing-to-end", message, place=use.place or Place(file=suite.key), hint=hint)


def rubrics_missing(suite: Suite) -> Iterator[Problem]:
    """A rubric criterion without rubrics in its options, in the case or in a turn."""
    for use in _uses_with(suite, Need.RUBRICS):
        cases = suite.eval_set.cases
        lacking = [] if use.options.get("rubrics") else [case for case in cases if not _has_rubrics(case)]
        if not lacking:
            continue
        if len(lacking) == len(cases):
            message = f"`{use.name}` has no rubrics, neither its own nor in any case"
            hint = 'Add `"rubrics": [{"rubric_id": "...", "rubric_content": {"text_property": "..."}}]`.'
            yield _error("no-rubrics", message, place=use.place or Place(file=suite.key), hint=hint)
        else:
            message = f"`{use.name}`: {_named(lacking)} without any rubric"
            yield _warning("no-rubrics-in-case", message, place=_place_of(suite, lacking[0]))


def metrics_not_run(suite: Suite) -> Iterator[Problem]:
    """A metric of the repository's own beside an agent whose driver cannot run Python code of the repository."""
    driver = agents.DRIVERS.get(suite.agent.driver)
    if driver is None or driver.runs_metrics:
        return
    for use in suite.criteria:
        if use.code is not None:
            tell = _warning if use.informational or use.threshold is None else _error
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
    return _has_text(part.text for part in parts if isinstance(part, Text))


def _has_words(turn: Invocation) -> bool:
    """Whether ROUGE-1 has something to count: a smile alone is an answer, and no word."""
    answer = model_turns.answer(turn)
    return any(char.isascii() and char.isalnum() for char in answer) or bool(response_match.split(answer))


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
        return _named(lacking)
    serves, asked = _SERVES.get(use.name, _answers), lacking[0].conversation or ()
    silent = [str(number) for number, turn in enumerate(asked, start=1) if not serves(turn)]
    if len(silent) == len(asked):
        return _named(lacking)
    return f"{_named(lacking)} (turn{'s' if len(silent) > 1 else ''} {' and '.join(silent)})"


def _effect(use: CriterionUse, *, adk_compat: bool) -> str:
    """What a turn without a reference does to the score; empty where there is nothing to say."""
    in_adk = {ANSWER: "scores it 0", MATCH: "has it compared with an empty answer"}.get(use.name)
    if in_adk is None:
        return ""
    if adk_compat:
        return f"With `adk_compat` evalgate {in_adk}, as ADK does."
    return f"evalgate excludes such turns from the score; ADK {in_adk}."


def _criteria_file(suite: Suite) -> str:
    return suite.criteria_source.file or "the criteria (ADK's defaults are in use: add a test_config.json)"


def lint_rules(settings: Settings) -> Iterator[Problem]:
    """Rules that assert nothing: a pass rate of 0, with which a suite passes where every case fails, and an empty
    `fail-on`, with which the job is green whatever the verdict."""
    places = settings.places
    rates = [("pass-rate", _place_of_setting("pass_rate", settings))] if settings.pass_rate == 0 else []
    for number, rule in enumerate(settings.gate_file.suites):
        if rule.pass_rate == 0 and rule.severity != "advisory":
            place = None if places is None else places("suites", number, "pass_rate")
            rates.append((f"pass_rate of {', '.join(rule.match)}", place))
    for name, place in rates:
        hint = "Set the share that must pass; for suites that must not fail the gate use `severity: advisory`."
        yield _warning("pass-rate-zero", f"`{name}` is 0, so no threshold can fail the gate", place=place, hint=hint)
    if not settings.fail_on:
        message = "`fail-on` is empty: the job always passes"
        hint = "List the results that fail the job: `threshold`, `regression`, `not_measured`, `inconclusive`."
        yield _warning("nothing-blocks", message, place=_place_of_setting("fail_on", settings), hint=hint)


def _place_of_setting(name: str, settings: Settings) -> Place | None:
    """Where evalgate.yml says it; None for what was typed."""
    places = settings.places
    if name in settings.given or places is None:
        return None
    spellings = (places(each) for each in (name.replace("_", "-"), name))
    return next((each for each in spellings if each.json_path != "$"), None)


def starting_prompts(suite: Suite) -> Iterator[Problem]:
    """A scenario whose first message is empty, or is the end already."""
    signal = suite.simulator.stop_signal
    led = [(case, case.scenario) for case in suite.eval_set.cases if case.scenario is not None]
    for case, scenario in led:
        if not scenario.starting_prompt.strip():
            message = f"{_named([case])}: the starting prompt is empty"
            yield _error("empty-starting-prompt", message, place=_place_of(suite, case))
        elif signal.lower() in scenario.starting_prompt.lower():
            yield _error(
                "stop-signal-in-prompt",
                f"{_named([case])}: the starting prompt contains the stop signal `{signal}`, so ADK ends the "
                f"conversation before the agent is called",
                place=_place_of(suite, case),
            )
    silent = [case for case, scenario in led if not scenario.conversation_plan.strip()]
    if silent:
        message = f"{_named(silent)}: the conversation plan is empty, so the simulated user has nothing to say"
        yield _warning("empty-plan", message, place=_place_of(suite, silent[0]))


def instructions_without_persona(suite: Suite) -> Iterator[Problem]:
    """Custom instructions that never say who the user is, where a scenario has a persona."""
    template = suite.simulator.custom_instructions
    played = [case for case in suite.eval_set.cases if case.scenario is not None and case.scenario.persona is not None]
    if template is not None and played and "persona" not in templates.names_in(template):
        yield _error(
            "bad-instructions",
            f"the custom instructions never use `{{{{ persona }}}}`, and {_named(played)} "
            f"{'has' if len(played) == 1 else 'have'} a persona",
            place=suite.simulator.place or Place(file=suite.key),
            hint="ADK rejects such instructions, too: use the persona, or remove it from the cases.",
        )


def stop_signals_differ(suite: Suite) -> Iterator[Problem]:
    """A criterion that judges the end by another signal than the one that ends conversations."""
    for use in _uses_with(suite, Need.SCENARIO):
        own = use.options.get("stop_signal")
        if own is not None and own != suite.simulator.stop_signal:
            message = f"`{use.name}` uses the stop signal `{own}`, the simulated user `{suite.simulator.stop_signal}`"
            hint = "Remove `stop_signal` from the criterion; it defaults to the simulated user's."
            yield _warning("stop-signals-differ", message, place=use.place or Place(file=suite.key), hint=hint)


def no_cases(suite: Suite) -> Iterator[Problem]:
    """An evaluation set without cases passes whatever the agent does."""
    if not suite.eval_set.cases:
        hint = "Add a case, delete the file, or exclude it in evalgate.yml."
        yield _error("no-cases", "the evaluation set has no cases", place=Place(file=suite.key), hint=hint)


def set_id_not_file_name(suite: Suite) -> Iterator[Problem]:
    """ADK finds `ID.evalset.json` by its id only where both agree; evalgate goes by the path."""
    name = PurePosixPath(suite.key).name
    set_id = suite.eval_set.eval_set_id
    if name.endswith(".evalset.json") and set_id and name != f"{set_id}.evalset.json":
        message = f"eval_set_id is {set_id!r}: `adk eval AGENT {set_id}` looks for {set_id}.evalset.json, not here"
        yield _note("set-id-not-file-name", message, place=Place(file=suite.key))


def duplicate_set_ids(suites: tuple[Suite, ...]) -> Iterator[Problem]:
    """Two files with one eval_set_id: ADK refuses to run them together; results are easily mixed up."""
    files: dict[str, list[str]] = {}
    for suite in suites:
        files.setdefault(suite.eval_set.eval_set_id, []).append(suite.key)
    for set_id, keys in files.items():
        if len(keys) > 1 and set_id:
            message = f"eval_set_id {set_id!r} is used in {len(keys)} files: {words.listed(keys)}"
            hint = "evalgate tells them apart by path; `adk eval` refuses to run them together."
            yield _warning("duplicate-set-id", message, place=Place(file=keys[1]), hint=hint)


CHECKS: tuple[Callable[[Suite], Iterator[Problem]], ...] = (
    no_cases,
    set_id_not_file_name,
    duplicate_ids,
    identical_cases,
    empty_conversations,
    empty_user_texts,
    starting_prompts,
    instructions_without_persona,
    stop_signals_differ,
    nothing_expected,
    references_missing,
    reference_on_scenario,
    scenario_criterion_on_static_case,
    nothing_to_end,
    rubrics_missing,
    metrics_not_run,
)
"""What is looked for in each suite, in the order it is told."""


def lint(suites: Iterable[Suite], *, adk_compat: bool = False) -> tuple[Problem, ...]:
    """Everything suspicious in `suites`, in their order; linear in cases and turns.

    `adk_compat`: as the setting. Criteria that this version does not know are passed over here: `discovery.criteria`
    tells of them.
    """
    every = tuple(suites)
    problems: list[Problem] = []
    told: dict[object, Callable[[Suite], Iterator[Problem]]] = {}
    told[references_missing] = functools.partial(references_missing, adk_compat=adk_compat)
    for suite in every:
        for check in CHECKS:
            problems.extend(told.get(check, check)(suite))
    problems.extend(duplicate_set_ids(every))
    return tuple(problems)
