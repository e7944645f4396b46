"""The vacuous-gate linter: what evaluation files and criteria say that cannot mean what their author wants."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from evalgate.config.gate_file import SuiteRule
from evalgate.config.settings import Settings
from evalgate.config.yaml import Locator
from evalgate.criteria import response_match
from evalgate.criteria.base import CriterionSpec
from evalgate.discovery import select
from evalgate.errors import Place, Problem, Severity
from evalgate.model import Attachment, Case, CriterionUse, Invocation, Need, Suite, Text
from evalgate.model import turns as model_turns
from evalgate.text import templates, words

# -- What every check of the linter is given, and how its findings are worded --


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The criteria of this version. `metricless`: drivers that run no custom metrics. `adk_compat`: as the setting."""

    specs: Mapping[str, CriterionSpec]
    metricless: frozenset[str] = frozenset()
    adk_compat: bool = False


def uses_needing(suite: Suite, need: Need, setting: Setting) -> Iterator[CriterionUse]:
    """The built-in criteria of the suite that need `need`."""
    for use in suite.criteria:
        spec = setting.specs.get(use.name)
        if spec is not None and use.code is None and need in spec.needs:
            yield use


def error(code: str, message: str, *, place: Place, hint: str = "") -> Problem:
    """A finding that stops the run."""
    return Problem(severity=Severity.ERROR, code=code, message=message, place=place, hint=hint)


def warning(code: str, message: str, *, place: Place | None, hint: str = "") -> Problem:
    """A finding that is shown, and stops the run where the user asked for strictness."""
    return Problem(severity=Severity.WARNING, code=code, message=message, place=place, hint=hint)


def note(code: str, message: str, *, place: Place, hint: str = "") -> Problem:
    """A finding that only explains."""
    return Problem(severity=Severity.NOTE, code=code, message=message, place=place, hint=hint)


def place_of(suite: Suite, case: Case | None = None) -> Place:
    """Where a case stands, else its file."""
    return (case.place if case else None) or Place(file=suite.key)


def named(cases: Sequence[Case]) -> str:
    """`case a`, `cases a, b and 7 more`."""
    return f"{'case' if len(cases) == 1 else 'cases'} {words.listed(case.case_id for case in cases)}"


def has_text(texts: Iterator[str]) -> bool:
    """Whether any of the texts holds more than blanks."""
    return any(text.strip() for text in texts)


# -- Checks of single cases and of cases against each other within one file --


def duplicate_ids(suite: Suite, _: Setting) -> Iterator[Problem]:
    """Two cases with one id: no result could say which of them it is of."""
    first: dict[str, Case] = {}
    for case in suite.eval_set.cases:
        earlier = first.setdefault(case.case_id, case)
        if earlier is not case:
            where = f" (the first is at {earlier.place})" if earlier.place else ""
            yield error(
                "duplicate-case-id",
                f"the case id {case.case_id!r} is already used{where}",
                place=place_of(suite, case),
                hint="Give each case in a file a unique id.",
            )


def identical_cases(suite: Suite, _: Setting) -> Iterator[Problem]:
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
                yield warning(
                    "identical-cases",
                    f"case {case.case_id} is identical to case {earlier.case_id}",
                    place=place_of(suite, case),
                    hint="To repeat a case, use `runs`; a copy only counts twice.",
                )


def empty_conversations(suite: Suite, _: Setting) -> Iterator[Problem]:
    """A conversation without turns: the agent is never asked, so that no criterion has anything to say."""
    empty = [case for case in suite.eval_set.cases if case.scenario is None and not case.conversation]
    if empty:
        yield error(
            "empty-conversation",
            f"{named(empty)}: the conversation has no turns, so the agent is never called",
            place=place_of(suite, empty[0]),
        )


def empty_user_texts(suite: Suite, _: Setting) -> Iterator[Problem]:
    """A turn in which the user says nothing; models refuse it or make something up."""
    silent = [
        case for case in suite.eval_set.cases if any(not _says_something(turn) for turn in case.conversation or ())
    ]
    if silent:
        yield warning(
            "empty-user-text",
            f"{named(silent)}: a turn has no user text",
            place=place_of(suite, silent[0]),
        )


def _says_something(turn: Invocation) -> bool:
    parts = turn.user_content.parts
    return has_text(part.text for part in parts if isinstance(part, Text)) or any(
        isinstance(part, Attachment) for part in parts
    )


def _content(case: Case) -> str:
    """All that a case asks and expects, without the ids that files give at random."""
    turns = [
        (turn.user_content, turn.final_response, turn.tool_calls, turn.rubrics) for turn in case.conversation or ()
    ]
    session = case.session and (case.session.app_name, case.session.user_id, case.session.state)
    return repr((turns, case.scenario, session, case.rubrics, case.expects_state))


# -- Checks of what criteria compare with --

TRAJECTORY = "tool_trajectory_avg_score"
STATE = "final_session_state"
ANSWER = "response_match_score"
MATCH = "final_response_match_v2"
ENDED = "conversation_ended"


def nothing_expected(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A trajectory is scored where no case expects a tool call, or where some say nothing of tools."""
    use = next((use for use in uses_needing(suite, Need.REFERENCE, setting) if use.name == TRAJECTORY), None)
    static = [case for case in suite.eval_set.cases if case.conversation]
    if use is None or not static:
        return
    if not any(turn.tool_calls for case in static for turn in case.conversation or ()):
        effect = (
            "it passes only if the agent calls no tools"
            if use.options.get("match_type", "EXACT") == "EXACT"
            else "it always passes"
        )
        yield warning(
            "nothing-expected",
            f"`{TRAJECTORY}`: no case expects a tool call, so {effect}",
            place=Place(file=suite.key),
            hint="Add the expected `tool_uses` to `intermediate_data`, or remove the criterion.",
        )
        return
    silent = [case for case in static if all(turn.events is None for turn in case.conversation or ())]
    if silent:
        yield note(
            "nothing-expected-in-case",
            f"`{TRAJECTORY}`: {named(silent)} say{'s' if len(silent) == 1 else ''} nothing about tools, "
            f"which means that none are expected",
            place=place_of(suite, silent[0]),
        )


def references_missing(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A reference-based criterion has nothing to compare with: an error if nowhere, a warning if in some cases."""
    static = [case for case in suite.eval_set.cases if case.conversation]
    needing = {use.name for use in uses_needing(suite, Need.REFERENCE, setting)}
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
            yield error(
                "reference-missing",
                f"`{use.name}`: no case has an {what} to compare with",
                place=Place(file=suite.key),
                hint=f"Add one to each case, or remove `{use.name}` from {_criteria_file(suite)}.",
            )
        else:
            yield warning(
                "reference-missing-in-case",
                f"`{use.name}`: {_turns_without(lacking, use)} without an {what}",
                place=place_of(suite, lacking[0]),
                hint=_effect(use, setting),
            )


def reference_on_scenario(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A conversation scenario has no expected turns, so that a reference-based criterion cannot judge it."""
    led = [case for case in suite.eval_set.cases if case.scenario is not None]
    if led:
        for use in uses_needing(suite, Need.REFERENCE, setting):
            yield error(
                "criterion-needs-reference",
                f"`{use.name}` compares with expected turns, which {named(led)} "
                f"{'has' if len(led) == 1 else 'have'} none of: a scenario has no reference",
                place=place_of(suite, led[0]),
                hint="Move scenarios to a separate file with criteria that need no reference.",
            )


def scenario_criterion_on_static_case(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A criterion of the simulated user has nothing to say of a conversation that is written down."""
    static = [case for case in suite.eval_set.cases if case.scenario is None]
    if static:
        for use in uses_needing(suite, Need.SCENARIO, setting):
            tell = error if len(static) == len(suite.eval_set.cases) else warning
            yield tell(
                "criterion-needs-scenario",
                f"`{use.name}` judges a simulated user, {named(static)} "
                f"{'is' if len(static) == 1 else 'are'} no conversation scenario",
                place=place_of(suite, static[0]),
            )


def nothing_to_end(suite: Suite, setting: Setting) -> Iterator[Problem]:  # noqa: ARG001 - the shape of a row
    """The end of conversations is scored where all of them are written down, and so end as written."""
    use = next((use for use in suite.criteria if use.name == ENDED and not use.code and not use.informational), None)
    if use is not None and suite.eval_set.cases and all(case.scenario is None for case in suite.eval_set.cases):
        yield warning(
            "nothing-to-end",
            f"`{ENDED}`: no case is a conversation scenario, so that it always passes",
            place=use.place or Place(file=suite.key),
            hint="Remove it: suites with scenarios have it by default.",
        )


def rubrics_missing(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A rubric criterion without rubrics in its options, in the case or in a turn."""
    for use in uses_needing(suite, Need.RUBRICS, setting):
        cases = suite.eval_set.cases
        lacking = [] if use.options.get("rubrics") else [case for case in cases if not _has_rubrics(case)]
        if not lacking:
            continue
        if len(lacking) == len(cases):
            yield error(
                "no-rubrics",
                f"`{use.name}` has no rubrics, neither its own nor in any case",
                place=use.place or Place(file=suite.key),
                hint='Add `"rubrics": [{"rubric_id": "...", "rubric_content": {"text_property": "..."}}]`.',
            )
        else:
            yield warning(
                "no-rubrics-in-case",
                f"`{use.name}`: {named(lacking)} without any rubric",
                place=place_of(suite, lacking[0]),
            )


def metrics_not_run(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A metric of the repository's own beside an agent whose driver cannot run Python code of the repository."""
    if suite.agent.driver not in setting.metricless:
        return
    for use in suite.criteria:
        if use.code is not None:
            tell = warning if use.informational or use.threshold is None else error
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
    return has_text(part.text for part in parts if isinstance(part, Text))


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
        return named(lacking)
    serves, asked = _SERVES.get(use.name, _answers), lacking[0].conversation or ()
    silent = [str(number) for number, turn in enumerate(asked, start=1) if not serves(turn)]
    if len(silent) == len(asked):
        return named(lacking)
    return f"{named(lacking)} (turn{'s' if len(silent) > 1 else ''} {' and '.join(silent)})"


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


# -- Checks of the gate's own rules --


def lint_rules(
    settings: Settings, suites: Sequence[SuiteRule], *, given: Collection[str], places: Locator | None
) -> tuple[Problem, ...]:
    """Rules that assert nothing. `given`: names of settings that were typed, and stand in no file."""

    def place(*path: Any) -> Place | None:
        return None if places is None else places(*path)

    def of_setting(name: str) -> Place | None:
        if name in given or places is None:
            return None
        spellings = (places(each) for each in (name.replace("_", "-"), name))
        return next((each for each in spellings if each.json_path != "$"), None)

    return (
        *_no_case_has_to_pass(settings, suites, of_setting=of_setting, place=place),
        *_nothing_blocks(settings, of_setting),
    )


def _no_case_has_to_pass(
    settings: Settings,
    suites: Sequence[SuiteRule],
    *,
    of_setting: Callable[[str], Place | None],
    place: Callable[..., Place | None],
) -> Iterator[Problem]:
    """A pass rate of 0: where every case fails, the suite passes."""
    found: Mapping[str, Place | None] = {
        **({"pass-rate": of_setting("pass_rate")} if settings.pass_rate == 0 else {}),
        **{
            f"pass_rate of {', '.join(rule.match)}": place("suites", number, "pass_rate")
            for number, rule in enumerate(suites)
            if rule.pass_rate == 0 and rule.severity != "advisory"
        },
    }
    for name, where in found.items():
        yield warning(
            "pass-rate-zero",
            f"`{name}` is 0, so no threshold can fail the gate",
            place=where,
            hint="Set the share that must pass; for suites that must not fail the gate use `severity: advisory`.",
        )


def _nothing_blocks(settings: Settings, of_setting: Callable[[str], Place | None]) -> Iterator[Problem]:
    """An empty `fail-on`: the job is green whatever the verdict."""
    if not settings.fail_on:
        yield warning(
            "nothing-blocks",
            "`fail-on` is empty: the job always passes",
            place=of_setting("fail_on"),
            hint="List the results that fail the job: `threshold`, `regression`, `not_measured`, `inconclusive`.",
        )


# -- Checks of conversation scenarios --


def starting_prompts(suite: Suite, _: Setting) -> Iterator[Problem]:
    """A scenario whose first message is empty, or is the end already."""
    signal = suite.simulator.stop_signal
    led = [(case, case.scenario) for case in suite.eval_set.cases if case.scenario is not None]
    for case, scenario in led:
        if not scenario.starting_prompt.strip():
            yield error(
                "empty-starting-prompt",
                f"{named([case])}: the starting prompt is empty",
                place=place_of(suite, case),
            )
        elif signal.lower() in scenario.starting_prompt.lower():
            yield error(
                "stop-signal-in-prompt",
                f"{named([case])}: the starting prompt contains the stop signal `{signal}`, so ADK ends the "
                f"conversation before the agent is called",
                place=place_of(suite, case),
            )
    silent = [case for case, scenario in led if not scenario.conversation_plan.strip()]
    if silent:
        yield warning(
            "empty-plan",
            f"{named(silent)}: the conversation plan is empty, so the simulated user has nothing to say",
            place=place_of(suite, silent[0]),
        )


def instructions_without_persona(suite: Suite, _: Setting) -> Iterator[Problem]:
    """Custom instructions that never say who the user is, where a scenario has a persona."""
    template = suite.simulator.custom_instructions
    played = [case for case in suite.eval_set.cases if case.scenario is not None and case.scenario.persona is not None]
    if template is not None and played and "persona" not in templates.names_in(template):
        yield error(
            "bad-instructions",
            f"the custom instructions never use `{{{{ persona }}}}`, and {named(played)} "
            f"{'has' if len(played) == 1 else 'have'} a persona",
            place=suite.simulator.place or Place(file=suite.key),
            hint="ADK rejects such instructions, too: use the persona, or remove it from the cases.",
        )


def stop_signals_differ(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A criterion that judges the end by another signal than the one that ends conversations."""
    for use in uses_needing(suite, Need.SCENARIO, setting):
        own = use.options.get("stop_signal")
        if own is not None and own != suite.simulator.stop_signal:
            yield warning(
                "stop-signals-differ",
                f"`{use.name}` uses the stop signal `{own}`, the simulated user `{suite.simulator.stop_signal}`",
                place=use.place or Place(file=suite.key),
                hint="Remove `stop_signal` from the criterion; it defaults to the simulated user's.",
            )


# -- Checks of whole evaluation sets, and of sets against each other --


def no_cases(suite: Suite, _: Setting) -> Iterator[Problem]:
    """An evaluation set without cases passes whatever the agent does."""
    if not suite.eval_set.cases:
        yield error(
            "no-cases",
            "the evaluation set has no cases",
            place=Place(file=suite.key),
            hint="Add a case, delete the file, or exclude it in evalgate.yml.",
        )


def set_id_not_file_name(suite: Suite, _: Setting) -> Iterator[Problem]:
    """ADK finds `ID.evalset.json` by its id only where both agree; evalgate goes by the path."""
    name = PurePosixPath(suite.key).name
    set_id = suite.eval_set.eval_set_id
    if name.endswith(".evalset.json") and set_id and name != f"{set_id}.evalset.json":
        yield note(
            "set-id-not-file-name",
            f"eval_set_id is {set_id!r}: `adk eval AGENT {set_id}` looks for {set_id}.evalset.json, not here",
            place=Place(file=suite.key),
        )


def duplicate_set_ids(suites: tuple[Suite, ...]) -> Iterator[Problem]:
    """Two files with one eval_set_id: ADK refuses to run them together; results are easily mixed up."""
    files: dict[str, list[str]] = {}
    for suite in suites:
        files.setdefault(suite.eval_set.eval_set_id, []).append(suite.key)
    for set_id, keys in files.items():
        if len(keys) > 1 and set_id:
            yield warning(
                "duplicate-set-id",
                f"eval_set_id {set_id!r} is used in {len(keys)} files: {words.listed(keys)}",
                place=Place(file=keys[1]),
                hint="evalgate tells them apart by path; `adk eval` refuses to run them together.",
            )


SuiteCheck = Callable[[Suite, Setting], Iterator[Problem]]
SuitesCheck = Callable[[tuple[Suite, ...]], Iterator[Problem]]

CHECKS: tuple[SuiteCheck, ...] = (
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

CROSS_CHECKS: tuple[SuitesCheck, ...] = (duplicate_set_ids,)
"""What is looked for across suites."""


def lint(
    suites: Iterable[Suite],
    *,
    specs: Mapping[str, CriterionSpec],
    metricless: frozenset[str] = frozenset(),
    adk_compat: bool = False,
) -> tuple[Problem, ...]:
    """Everything suspicious in `suites`, in their order; linear in cases and turns.

    `metricless`: names of the agent drivers that run no custom metrics. `adk_compat`: as the setting. Criteria that are
    no row of `specs` are passed over here: `config.criteria` tells of them.
    """
    every = tuple(suites)
    setting = Setting(specs=specs, metricless=metricless, adk_compat=adk_compat)
    problems = [problem for suite in every for check in CHECKS for problem in check(suite, setting)]
    problems.extend(problem for check in CROSS_CHECKS for problem in check(every))
    return tuple(problems)
