"""The trajectory criterion: ADK's three matches, and the tolerance that is ours."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from evalgate import criteria
from evalgate.criteria import tool_trajectory
from evalgate.criteria.base import CriterionServices
from evalgate.model import (
    Case,
    Content,
    CriterionUse,
    Event,
    Grade,
    Invocation,
    NotEvaluated,
    Reason,
    Score,
    ToolCall,
    TrialView,
)
from evalgate.model.deviations import under


def calls(*made: ToolCall | str) -> Invocation:
    """A turn with these tool calls; a bare word is a call without arguments."""
    parts = tuple(ToolCall(name=call, args={}) if isinstance(call, str) else call for call in made)
    return Invocation(
        user_content=Content(), events=(Event(author="a", content=Content(parts=parts)),)
    )


def call(name: str, args: Any = None, **named: Any) -> ToolCall:
    return ToolCall(name=name, args=named or args)


def grade(
    actual: list[Invocation],
    expected: list[Invocation] | None,
    *,
    adk_compat: bool = False,
    **options: Any,
) -> Grade:
    use = CriterionUse(name="tool_trajectory_avg_score", threshold=1.0, options=options)
    reference = None if expected is None else tuple(expected)
    evidence = TrialView(case=Case(case_id="c"), actual=tuple(actual), expected=reference)
    return criteria.build(use, CriterionServices(deviations=under(adk_compat=adk_compat)))(evidence)


def value(actual: Invocation, expected: Invocation, **options: Any) -> float:
    found = grade([actual], [expected], **options)
    assert isinstance(found, Score)
    return found.value


@pytest.mark.parametrize(
    ("actual", "expected", "exact", "in_order", "any_order"),
    [
        ("", "", 1, 1, 1),  # nothing expected, nothing done: vacuous, as in ADK
        ("a", "", 0, 1, 1),  # only EXACT minds extra calls
        ("", "a", 0, 0, 0),
        ("a b", "a b", 1, 1, 1),
        ("b a", "a b", 0, 0, 1),
        ("x a y b z", "a b", 0, 1, 1),
        ("a b", "a a", 0, 0, 0),  # one call answers one expectation
        ("a a", "a", 0, 1, 1),
        ("a b a", "b a", 0, 1, 1),
        ("b a b", "a b", 0, 1, 1),
    ],
)
def test_the_three_matches(
    actual: str, expected: str, exact: int, in_order: int, any_order: int
) -> None:
    turn, reference = calls(*actual.split()), calls(*expected.split())
    found = [value(turn, reference, match_type=each) for each in ("EXACT", "IN_ORDER", "ANY_ORDER")]
    assert found == [exact, in_order, any_order]


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),  # the order of keys is no matter
        ({"a": [1, 2]}, {"a": [2, 1]}, False),  # that of lists is
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, True),  # Python's equality, as in ADK
        ({"a": 1}, {"a": "1"}, False),
        ({}, {"a": None}, False),  # a missing key is not a null one
        (None, {}, True),
        (None, None, True),
    ],
)
def test_arguments_are_equal_as_json_is(actual: Any, expected: Any, same: bool) -> None:
    assert value(calls(call("t", actual)), calls(call("t", expected))) == float(same)


def test_null_arguments_are_no_arguments_except_under_adk_compat() -> None:
    turn, reference = calls(call("t", None)), calls(call("t", {}))
    assert value(turn, reference) == 1.0
    assert value(turn, reference, adk_compat=True) == 0.0


@pytest.mark.parametrize(
    "question", ["adk_request_confirmation", "adk_request_input", "adk_request_credential"]
)
def test_questions_of_the_framework_are_no_calls_except_under_adk_compat(question: str) -> None:
    for actual, expected in (
        (calls("a", question), calls("a")),
        (calls("a"), calls("a", question)),
    ):
        ours, adks = (grade([actual], [expected], adk_compat=compat) for compat in (False, True))
        assert isinstance(ours, Score)
        assert isinstance(adks, Score)
        assert (ours.value, adks.value) == (1.0, 0.0)
    assert value(calls("a", question), calls("a"), forbidden_tools=["adk_request_*"]) == 0.0


def test_the_id_of_a_call_is_never_compared() -> None:
    assert value(calls(ToolCall(name="t", id="1")), calls(ToolCall(name="t", id="2"))) == 1.0


def test_ignore_args_compares_names_only() -> None:
    assert value(calls(call("t", x=1)), calls(call("t", x=2)), ignore_args=True) == 1.0
    assert value(calls(call("t", x=1)), calls(call("u", x=1)), ignore_args=True) == 0.0


def test_the_score_is_the_mean_over_turns_and_names_the_first_difference() -> None:
    found = grade(
        [calls("a"), calls(call("b", city="Rome")), calls()],
        [calls("a"), calls(call("b", city="Paris")), calls()],
    )
    assert isinstance(found, Score)
    assert (found.value, found.turns) == (2 / 3, (1.0, 0.0, 1.0))
    (finding,) = found.findings
    assert (finding.turn, finding.text) == (
        2,
        'call 1: expected b(city="Paris"), got b(city="Rome")',
    )


@pytest.mark.parametrize(
    ("match_type", "actual", "expected", "text"),
    [
        ("EXACT", "a", "a b", "call 2: expected b(), got no call"),
        ("EXACT", "a b", "a", "call 2: b() was not expected"),
        ("IN_ORDER", "b a", "a b", "expected call 2 was not made after expected call 1: b()"),
        ("IN_ORDER", "b", "a", "expected call 1 was not made: a()"),
        ("ANY_ORDER", "a", "a a", "expected call 2 was not made: a()"),
    ],
)
def test_findings_say_what_is_missing(
    match_type: str, actual: str, expected: str, text: str
) -> None:
    found = grade([calls(*actual.split())], [calls(*expected.split())], match_type=match_type)
    assert isinstance(found, Score)
    assert [finding.text for finding in found.findings] == [text]


# --- what cannot be graded ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actual", "expected", "reason"),
    [
        ([calls()], None, Reason.REFERENCE_MISSING),  # a scenario
        ([], [], Reason.REFERENCE_MISSING),  # a case without turns
        ([calls()], [calls(), calls()], Reason.TURNS_MISSING),
        ([calls(), calls()], [calls()], Reason.TURNS_MISSING),
    ],
)
@pytest.mark.parametrize("adk_compat", [False, True])
def test_what_cannot_be_paired_has_no_score(
    actual: Any, expected: Any, reason: Reason, adk_compat: bool
) -> None:
    found = grade(actual, expected, adk_compat=adk_compat)
    assert isinstance(found, NotEvaluated)
    assert found.reason is reason


def test_steps_that_nobody_recorded_are_unknown_not_nothing() -> None:
    silent = Invocation(user_content=Content(), events=None)
    found = grade([calls(), silent], [calls(), calls()])
    assert isinstance(found, NotEvaluated)
    assert (found.reason, found.turns) == (Reason.NOTHING_RECORDED, (1.0, None))
    assert value(silent, calls(), adk_compat=True) == 1.0
    assert value(calls(), silent) == 1.0  # an expected turn without steps expects no calls


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "match_type"),
    [
        ("EXACT", "EXACT"),
        (" in-order ", "IN_ORDER"),
        ("any order", "ANY_ORDER"),
        (0, "EXACT"),
        (2, "ANY_ORDER"),
        (1.0, "IN_ORDER"),
        (True, "IN_ORDER"),
        ("1", None),
        (3, None),
        (None, None),
        ("exactly", None),
    ],
)
def test_match_type_is_spelled_as_adk_takes_it(spelling: Any, match_type: str | None) -> None:
    try:
        found = tool_trajectory.Options.model_validate({"matchType": spelling}).match_type.value
    except ValidationError:
        found = None
    assert found == match_type


@pytest.mark.parametrize(
    "options",
    [
        {"ignore_args": True, "args_match": "subset"},
        {"ignore_args": True, "matchers": {"t": {"a": {"any": True}}}},
        {"match_type": "IN_ORDER", "allow_extra_tools": ["t"]},
        {"matchers": {"t": {"a": {}}}},
        {"matchers": {"t": {"a": {"regex": "("}}}},
        {"matchers": {"t": {"a": {"regex": "a", "any": True}}}},
        {"matchers": {"t": {"a": {"ignore": False}}}},
        {"matchers": {"t": {"a": {"number_tolerance": -1}}}},
        {"matchers": {"t": {"a": {"regexp": "a"}}}},
    ],
)
def test_options_that_contradict_themselves_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        tool_trajectory.Options.model_validate(options)


def test_harmless_combinations_are_accepted() -> None:
    given = {"ignore_args": True, "args_match": "exact", "matchers": {}, "match_type": "IN_ORDER"}
    options = tool_trajectory.Options.model_validate({**given, "allow_extra_tools": []})
    assert (options.ignore_args, options.args_match, options.match_type.name) == (
        True,
        "exact",
        "IN_ORDER",
    )


def test_options_survive_being_written_down() -> None:
    raw = {
        "match_type": "in order",
        "matchers": {"t": {"a": {"exact": None}}},
        "args_match": "subset",
    }
    options = tool_trajectory.Options.model_validate(raw)
    written = options.model_dump(mode="json", exclude_unset=True)
    assert tool_trajectory.Options.model_validate(written) == options


# --- tolerance ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actual", "expected", "options", "passes"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, {"args_match": "subset"}, True),
        ({"a": 1}, {"a": 1, "b": 2}, {"args_match": "subset"}, False),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}, {"args_match": "subset"}, True),
        (
            {"q": "weather in Paris"},
            {"q": "?"},
            {"matchers": {"t": {"q": {"contains": "Paris"}}}},
            True,
        ),
        (
            {"q": "weather in Rome"},
            {"q": "?"},
            {"matchers": {"t": {"q": {"contains": "Paris"}}}},
            False,
        ),
        # n is compared
        ({"q": "x", "n": 1}, {"q": "y", "n": 2}, {"matchers": {"t": {"q": {"any": True}}}}, False),
        # another tool's matcher
        ({"q": "x"}, {"q": "y"}, {"matchers": {"u": {"q": {"any": True}}}}, False),
        ({"q": "x"}, {"q": "y"}, {"matchers": {"*": {"q": {"any": True}}}}, True),
        (
            {"q": "x"},
            {"q": "y"},
            {"matchers": {"*": {"q": {"any": True}}, "t": {"q": {"exact": "z"}}}},
            False,
        ),
        (None, {"q": "y"}, {"matchers": {"t": {"q": {"ignore": True}}}}, True),
        (None, {"q": "y"}, {"matchers": {"t": {"q": {"any": True}}}}, False),
    ],
)
def test_tolerant_arguments(
    actual: Any, expected: Any, options: dict[str, Any], passes: bool
) -> None:
    assert value(calls(call("t", actual)), calls(call("t", expected)), **options) == float(passes)


def test_a_forbidden_tool_fails_its_turn_whatever_is_expected() -> None:
    turn = calls("a", "delete_all")
    assert value(turn, turn) == 1.0
    found = grade([turn], [turn], forbidden_tools=["delete_*"])
    assert isinstance(found, Score)
    assert (found.value, found.findings[0].text) == (0.0, "forbidden: delete_all()")


@pytest.mark.parametrize(
    ("actual", "expected", "passes"),
    [
        ("x a x b", "a b", True),
        ("a b", "a b", True),
        ("x", "", True),
        ("a y b", "a b", False),  # y has no leave
        ("x a", "x x a", False),  # an extra is no excuse for a missing one
        ("x a x", "a x", True),  # the first x is the extra, the last is the expected one
        ("x a", "x a", True),
    ],
)
def test_extra_tools_may_be_allowed(actual: str, expected: str, passes: bool) -> None:
    found = value(calls(*actual.split()), calls(*expected.split()), allow_extra_tools=["x"])
    assert found == float(passes)


def test_any_order_finds_partners_where_the_first_choice_would_not() -> None:
    # the greedy choice gives the Paris call to the first expectation, which takes any, and leaves
    # the second alone
    matchers = {
        "matchers": {"t": {"q": {"regex": "."}}},
        "match_type": "ANY_ORDER",
        "args_match": "subset",
    }
    turn = calls(call("t", q="Paris", n=1), call("t", q="Rome"))
    assert value(turn, calls(call("t", q="?"), call("t", q="?", n=1)), **matchers) == 1.0


# --- properties -----------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.0, 1.0, "a", ""])
ARGS = st.none() | st.dictionaries(
    st.sampled_from("ab"), SCALARS | st.lists(SCALARS, max_size=2), max_size=2
)
CALLS = st.lists(st.builds(ToolCall, name=st.sampled_from(["t", "u"]), args=ARGS), max_size=5)
TOLERANCE = st.sampled_from(
    [
        {},
        {"ignore_args": True},
        {"args_match": "subset"},
        {"matchers": {"*": {"a": {"ignore": True}}}},
    ]
)


@given(CALLS, CALLS, TOLERANCE, st.booleans())
def test_exact_implies_in_order_implies_any_order(
    actual: list[ToolCall], expected: list[ToolCall], options: dict[str, Any], adk_compat: bool
) -> None:
    turn, reference = calls(*actual), calls(*expected)
    exact, in_order, any_order = (
        value(turn, reference, adk_compat=adk_compat, match_type=each, **options)
        for each in ("EXACT", "IN_ORDER", "ANY_ORDER")
    )
    assert exact <= in_order <= any_order


@given(CALLS, CALLS, st.sampled_from(["EXACT", "IN_ORDER", "ANY_ORDER"]))
def test_tolerance_never_fails_what_passes_without_it(
    actual: list[ToolCall], expected: list[ToolCall], match_type: str
) -> None:
    turn, reference = calls(*actual), calls(*expected)
    strict = value(turn, reference, match_type=match_type)
    assert strict <= value(turn, reference, match_type=match_type, args_match="subset")
    assert strict <= value(turn, reference, match_type=match_type, ignore_args=True)
    assert value(turn, reference, adk_compat=True, match_type=match_type) <= strict
    if match_type == "EXACT":
        assert strict <= value(turn, reference, allow_extra_tools=["u"])


@given(CALLS, st.permutations(range(5)), ARGS)
def test_identical_calls_match_and_extra_ones_never_hurt_a_tolerant_match(
    made: list[ToolCall], order: list[int], args: Any
) -> None:
    reference = calls(*made)
    shuffled = calls(*(made[place] for place in order if place < len(made)))
    extra = calls(*made, ToolCall(name="x", args=args))
    assert value(reference, reference) == 1.0
    assert value(shuffled, reference, match_type="ANY_ORDER") == 1.0
    assert value(extra, reference, match_type="IN_ORDER") == 1.0
    assert value(extra, reference) == 0.0
