"""The vacuous-gate linter: every check by a suite that has the fault and one that has not."""

import dataclasses
import inspect
import sys

import pytest

from evalgate.discovery import lint as lint_of_discovery
from evalgate.errors import Severity
from evalgate.model import ConversationScenario, CriterionUse, Persona, Rubric, SimulatorUse
from evalgate.model.deviations import under

TRAJECTORY = "tool_trajectory_avg_score"
ANSWER = "response_match_score"
RUBRICS = "rubric_based_final_response_quality_v1"
SIMULATOR = "per_turn_user_simulator_quality_v1"


@pytest.fixture
def lint():
    return lambda *suites: lint_of_discovery.lint(suites)


def found(problems):
    return [(problem.severity, problem.code) for problem in problems]


ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


def test_a_sound_suite_has_no_problems(lint, suite, case):
    sound = suite(
        "x.evalset.json",
        case("a", "hi -> look_up(1) -> hello", "bye -> () -> see you"),
        case("b", "hello -> look_up(2) -> hi"),
        criteria=f"{TRAJECTORY} {ANSWER}",
    )
    assert lint(sound) == ()


def test_no_cases(lint, suite, case):
    """Alone it would always pass; beside others nothing is unknown."""
    assert found(lint(suite("x.evalset.json"))) == [(ERROR, "no-cases")]
    other = suite("y.evalset.json", case("a", "hi -> hello"), criteria=ANSWER)
    assert found(lint(suite("x.evalset.json"), other)) == [(WARNING, "no-cases")]


def test_an_empty_conversation(lint, suite, case):
    problems = lint(suite("x.evalset.json", case("a"), case("b", "hi")))
    assert found(problems) == [(ERROR, "empty-conversation")]
    assert "case a:" in problems[0].message


def test_a_turn_in_which_the_user_says_nothing(lint, suite, case):
    assert found(lint(suite("x.evalset.json", case("a", "hi", "   ")))) == [
        (WARNING, "empty-user-text")
    ]


def test_a_sound_scenario_has_no_problems(lint, suite, case):
    assert lint(suite("x.evalset.json", case("a", scenario="hello"), case("b", "hi"))) == ()


@pytest.mark.parametrize(
    ("scenario", "simulator", "expected"),
    [
        ({"starting_prompt": " "}, {}, [(ERROR, "empty-starting-prompt")]),
        # ADK looks in any case
        ({"starting_prompt": "Bye </FINISHED>"}, {}, [(ERROR, "stop-signal-in-prompt")]),
        ({"starting_prompt": "Bye </finished>"}, {"stop_signal": "END"}, []),  # another signal
        ({"conversation_plan": ""}, {}, [(WARNING, "empty-plan")]),
        ({"persona": Persona(persona_id="NOVICE")}, {}, []),
        (
            {"persona": Persona(persona_id="NOVICE")},
            {"custom_instructions": "Be."},
            [(ERROR, "bad-instructions")],
        ),
        (
            {"persona": Persona(persona_id="NOVICE")},
            {"custom_instructions": "{{ persona.id }}"},
            [],
        ),
        ({}, {"custom_instructions": "Be."}, []),  # nobody to be
    ],
)
def test_scenarios_that_cannot_be_played(lint, suite, case, scenario, simulator, expected):
    led = ConversationScenario(
        **{"starting_prompt": "hello", "conversation_plan": "Ask.", **scenario}
    )
    made = suite("x.evalset.json", dataclasses.replace(case("a", scenario="hello"), scenario=led))
    assert found(lint(dataclasses.replace(made, simulator=SimulatorUse(**simulator)))) == expected


def test_a_criterion_with_another_stop_signal_than_the_simulated_user(lint, suite, case):
    for signal, expected in (("</finished>", []), ("END", [(WARNING, "stop-signals-differ")])):
        made = suite(
            "x.evalset.json",
            case("a", scenario="hello"),
            criteria=SIMULATOR,
            options={"stop_signal": signal},
        )
        assert found(lint(made)) == expected


@pytest.mark.parametrize(
    ("turns", "options", "code", "words"),
    [
        (["hi -> hello"], {}, "nothing-expected", "only if the agent calls no tools"),
        (["hi -> () -> hello"], {}, "nothing-expected", "only if the agent calls no tools"),
        (["hi -> hello"], {"match_type": "IN_ORDER"}, "nothing-expected", "it always passes"),
        (["hi -> hello"], {"match_type": "ANY_ORDER"}, "nothing-expected", "it always passes"),
    ],
)
def test_a_trajectory_where_nothing_is_expected(lint, suite, case, turns, options, code, words):
    (problem,) = lint(
        suite("x.evalset.json", case("a", *turns), criteria=TRAJECTORY, options=options)
    )
    assert (problem.severity, problem.code) == (WARNING, code)
    assert words in problem.message


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("yes -> ok", [(NOTE, "nothing-expected-in-case")]),  # says nothing of tools
        ("yes -> () -> ok", []),  # says that none is expected
    ],
)
def test_a_trajectory_where_some_cases_say_nothing_of_tools(lint, suite, case, second, expected):
    cases = (case("a", "hi -> look_up(1) -> hello"), case("b", second))
    assert found(lint(suite("x.evalset.json", *cases, criteria=TRAJECTORY))) == expected


def test_a_reference_that_no_case_has_is_an_error(lint, suite, case):
    problems = lint(suite("x.evalset.json", case("a", "hi"), case("b", "bye"), criteria=ANSWER))
    assert found(problems) == [(ERROR, "reference-missing")]


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        (["bye"], "in case b"),
        (["one -> 1", "two", "three"], "in case b (turns 2 and 3)"),
        (["one -> 1", "two"], "in case b (turn 2)"),
    ],
)
def test_a_reference_that_some_turns_lack_is_a_warning(lint, suite, case, turns, words):
    (problem,) = lint(
        suite("x.evalset.json", case("a", "hi -> hello"), case("b", *turns), criteria=ANSWER)
    )
    assert (problem.severity, problem.code) == (WARNING, "reference-missing-in-case")
    assert words in problem.message


@pytest.mark.parametrize(
    ("name", "adk_compat", "hint"),
    [
        (ANSWER, False, "evalgate excludes such turns from the score; ADK scores it 0."),
        (ANSWER, True, "With `adk_compat` evalgate scores it 0, as ADK does."),
        (
            "final_response_match_v2",
            False,
            "evalgate excludes such turns from the score; ADK has it compared with an empty answer.",
        ),
        (
            "final_response_match_v2",
            True,
            "With `adk_compat` evalgate has it compared with an empty answer, as ADK does.",
        ),
        ("judged", False, ""),  # the reference has to be there, and is not compared with
    ],
)
def test_what_a_missing_reference_does_is_told_as_it_is(suite, case, specs, name, adk_compat, hint):
    row = dataclasses.replace(specs[ANSWER], name=name)
    made = suite(
        "x.evalset.json", case("a", "hi -> hello"), case("b", "bye"), criteria=name, more=[row]
    )
    (problem,) = lint_of_discovery.lint([made], deviations=under(adk_compat=adk_compat))
    assert (problem.code, problem.hint) == ("reference-missing-in-case", hint)


SMILE = "\N{SLIGHTLY SMILING FACE}"


def test_an_answer_without_words_is_no_reference_for_a_criterion_that_counts_words(
    lint, suite, case
):
    hearts = suite(
        "x.evalset.json", case("a", f"hi -> {SMILE}"), case("b", "bye -> !"), criteria=ANSWER
    )
    (problem,) = lint(hearts)
    assert (problem.severity, problem.code) == (ERROR, "reference-missing")
    assert "no case has an expected `final_response` with text" in problem.message
    (problem,) = lint(
        suite("x.evalset.json", case("a", f"hi -> {SMILE}", "bye -> \u3055"), criteria=ANSWER)
    )
    assert (problem.severity, problem.code) == (WARNING, "reference-missing-in-case")
    assert "no expected `final_response` with text in case a (turn 1)" in problem.message
    assert lint(suite("x.evalset.json", case("a", f"hi -> {SMILE} 1"), criteria=ANSWER)) == ()


def test_a_judge_can_compare_with_an_answer_without_words(lint, suite, case, specs):
    judged = dataclasses.replace(specs[ANSWER], name="judged")
    assert (
        lint(suite("x.evalset.json", case("a", f"hi -> {SMILE}"), criteria="judged", more=[judged]))
        == ()
    )


def test_the_expected_state_is_the_reference_of_the_state_criterion(lint, suite, case):
    state = "final_session_state"
    lacking, having = case("a", "hi"), case("b", "bye", expects_state={"x": 1})
    assert found(lint(suite("x.evalset.json", lacking, criteria=state))) == [
        (ERROR, "reference-missing")
    ]
    assert found(lint(suite("x.evalset.json", lacking, having, criteria=state))) == [
        (WARNING, "reference-missing-in-case")
    ]
    assert lint(suite("x.evalset.json", having, criteria=state)) == ()


def test_a_custom_metric_under_a_built_in_name_is_left_alone(lint, suite, case, specs):
    made = suite("x.evalset.json", case("a", "hi"))
    own = CriterionUse(name=ANSWER, threshold=0.5, code="pkg.metric")
    import dataclasses

    assert lint(dataclasses.replace(made, criteria=(own,))) == ()


def test_a_reference_based_criterion_on_a_scenario(lint, suite, case):
    problems = lint(suite("x.evalset.json", case("a", scenario="hello"), criteria=ANSWER))
    assert (ERROR, "criterion-needs-reference") in found(problems)


@pytest.mark.parametrize(
    ("scenario", "severity"),
    [(None, ERROR), ("hello", WARNING)],  # no case is a scenario; one is
)
def test_a_scenario_criterion_on_a_static_case(lint, suite, case, scenario, severity):
    cases = [case("a", "hi -> hello")] + ([case("b", scenario=scenario)] if scenario else [])
    problems = lint(suite("x.evalset.json", *cases, criteria=SIMULATOR))
    assert (severity, "criterion-needs-scenario") in found(problems)


def test_the_end_of_conversations_that_are_written_down(lint, suite, case):
    static, led = case("a", "hi -> hello"), case("b", scenario="hello")
    assert found(lint(suite("x.evalset.json", static, criteria="conversation_ended"))) == [
        (WARNING, "nothing-to-end")
    ]
    assert lint(suite("x.evalset.json", static, led, criteria="conversation_ended")) == ()
    assert lint(suite("x.evalset.json", static, criteria=ANSWER)) == ()


def test_rubrics_are_looked_for_in_the_criterion_the_case_and_the_turn(lint, suite, case):
    rubric = Rubric(rubric_id="r", text="is kind")
    bare, own = case("a", "hi -> hello"), case("b", "bye -> see you", rubrics=(rubric,))
    assert found(lint(suite("x.evalset.json", bare, criteria=RUBRICS))) == [(ERROR, "no-rubrics")]
    assert found(lint(suite("x.evalset.json", bare, own, criteria=RUBRICS))) == [
        (WARNING, "no-rubrics-in-case")
    ]
    assert lint(suite("x.evalset.json", own, criteria=RUBRICS)) == ()
    assert (
        lint(
            suite(
                "x.evalset.json", bare, criteria=RUBRICS, options={"rubrics": [{"rubric_id": "r"}]}
            )
        )
        == ()
    )


def test_unknown_criteria_are_left_to_the_criteria_check(lint, suite, case):
    assert lint(suite("x.evalset.json", case("a", "hi"), criteria="zebra")) == ()


def test_every_check_stands_in_a_table():
    """A check that is written and in no table would never run."""
    written = {
        check
        for name, check in inspect.getmembers(lint_of_discovery, inspect.isfunction)
        if check.__module__ == lint_of_discovery.__name__
        and not name.startswith("_")
        and "suite" in inspect.signature(check).parameters
    }
    assert written == set(lint_of_discovery.CHECKS)


def test_twice_the_cases_are_twice_the_work(lint, suite, case):
    template = case("t", "hi -> look_up(1) -> hello", "bye -> () -> see you")
    calls = []
    for count in (200, 400):
        many = [dataclasses.replace(template, case_id=f"case_{n}") for n in range(count)]
        made = suite("x.evalset.json", *many, criteria=f"{TRAJECTORY} {ANSWER}")
        seen = []
        sys.setprofile(lambda _frame, event, _argument, seen=seen: seen.append(event))
        try:
            problems = lint(made)
        finally:
            sys.setprofile(None)
        assert problems == ()
        calls.append(len(seen))
    assert calls[1] < 2.1 * calls[0]


@pytest.mark.parametrize(
    ("driver", "threshold", "expected"),
    [
        # else it is found out when everything is spent
        ("command", 0.5, [(ERROR, "metric-not-run")]),
        ("command", None, [(WARNING, "metric-not-run")]),
        ("python", 0.5, []),
    ],
)
def test_a_custom_metric_that_the_driver_does_not_run(
    lint, suite, case, driver, threshold, expected
):
    made = suite("x.evalset.json", case("a", "hi -> hello"))
    use = CriterionUse(
        name="mine", threshold=threshold, code="metrics.mine", informational=threshold is None
    )
    made = dataclasses.replace(
        made, criteria=(use,), agent=dataclasses.replace(made.agent, driver=driver)
    )
    assert found(lint(made)) == expected


@pytest.mark.parametrize(
    ("cases", "expected", "decided"),
    [
        # (what the turn says; what is told; which criteria decide the case)
        (["hi -> look_up(1) -> hello"], [], [{TRAJECTORY, ANSWER}]),
        (["hi -> hello"], [], [{ANSWER}]),  # says nothing of tools
        (["hi -> hello", "hi -> look_up(1) -> ho"], [], [{ANSWER}, {TRAJECTORY, ANSWER}]),
        (["hi"], [(ERROR, "asserts-nothing")], [set()]),
        (["hi", "ho -> hello"], [(WARNING, "asserts-nothing")], [set(), {ANSWER}]),
    ],
)
def test_defaults_that_nobody_chose_decide_where_they_apply(
    lint, suite, case, cases, expected, decided
):
    made = suite("x.evalset.json", *(case(str(at), said) for at, said in enumerate(cases)))
    chosen = suite("x.evalset.json", *made.eval_set.cases, criteria=f"{TRAJECTORY} {ANSWER}")
    uses = tuple(dataclasses.replace(use, where_applicable=True) for use in chosen.criteria)
    by_default = dataclasses.replace(chosen, criteria=uses)
    assert found(lint(by_default)) == expected
    assert [
        {use.name for use in by_default.criteria_of(each)} for each in by_default.eval_set.cases
    ] == decided
    # what somebody chose decides every case
    assert [len(chosen.criteria_of(each)) for each in chosen.eval_set.cases] == [2] * len(cases)
