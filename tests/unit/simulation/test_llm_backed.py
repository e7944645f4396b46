"""The user that a model plays: what it asks, how it ends, and every way in which it can fail to say
anything."""

from __future__ import annotations

import contextlib
import dataclasses
import json

import pytest
from builders.judging import ScriptedJudge, panel

from evalgate.agents.base import AgentFailed
from evalgate.judges import replay
from evalgate.judges.base import JudgeFailureKind, JudgeReply
from evalgate.model import (
    Case,
    Content,
    ConversationScenario,
    Ending,
    FailureKind,
    Invocation,
    Persona,
    SimulatorUse,
    Text,
)
from evalgate.model.deviations import under
from evalgate.simulation import user as simulation_user

SCENARIO = ConversationScenario(
    starting_prompt="Hello.", conversation_plan="Book a table for two at seven."
)
CASE = Case(case_id="c", scenario=SCENARIO)


def turn(user: str, answer: str = "Sure.") -> Invocation:
    return Invocation(
        user_content=Content(parts=(Text(text=user),), role="user"),
        final_response=Content(parts=(Text(text=answer),), role="model"),
    )


def _scripted(said: str) -> str | JudgeReply:
    """A failure kind in angle brackets, else what the model says."""
    return (
        said if said.strip("<>") in set(JudgeFailureKind) else JudgeReply(parts=(Text(text=said),))
    )


def begin(*said: str, case: Case = CASE, adk_compat: bool = False, draw: int = 0, **use: object):
    replies = iter(said)
    judge = ScriptedJudge(lambda _: _scripted(next(replies)))
    user = simulation_user.begin(
        case,
        SimulatorUse(**use),
        panel=panel(judge),
        draw=draw,
        deviations=under(adk_compat=adk_compat),
    )
    return user, judge


def text_of(said: object) -> str:
    assert isinstance(said, Content)
    assert said.role == "user"
    return "".join(part.text for part in said.parts if isinstance(part, Text))


def test_it_starts_with_the_starting_prompt_and_asks_nobody_for_it():
    user, judge = begin("For two.")
    assert text_of(user([])) == "Hello."
    assert judge.requests == []
    assert text_of(user([turn("Hello.")])) == "For two."
    assert len(judge.requests) == 1


@pytest.mark.parametrize(
    ("said", "ends", "ends_in_adk"),
    [
        ("</finished>", True, True),
        ("Thanks, that is all! </FINISHED>", True, True),  # any case, anywhere
        ("</finished> Bye.", True, True),
        ("Great. `</finished>`", True, True),  # quoted, and nothing behind it: meant
        ('"</finished>"', True, True),
        ('Please end your mail with "</finished>" and send it.', False, True),  # spoken of
        ("Write `</finished>` on the sign, then </finished>", True, True),  # spoken of, then given
        ("finished", False, False),
        ("< /finished >", False, False),
    ],
)
def test_the_stop_signal(said, ends, ends_in_adk):
    for adk_compat, expected in ((False, ends), (True, ends_in_adk)):
        user, _ = begin(said, adk_compat=adk_compat)
        last = user([turn("Hello.")])
        assert isinstance(last, Ending) is expected
        if expected:
            assert last == Ending.STOP_SIGNAL


def test_another_stop_signal():
    user, judge = begin("</finished>", "That is ALL FOLKS.", stop_signal="all folks")
    assert text_of(user([turn("Hello.")])) == "</finished>"
    assert user([turn("Hello."), turn("</finished>")]) == Ending.STOP_SIGNAL
    assert "all folks" in judge.requests[0].system


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("", "empty response"),
        (" \n", "empty response"),
        ("<empty>", "empty"),  # the judge's client found no text, even on a second try
        ("<server_error>", "server_error"),
        ("<unauthorized>", "unauthorized"),
        ("<blocked>", "blocked"),
    ],
)
def test_a_user_without_a_word_is_a_failure_of_its_own(said, words):
    user, _ = begin(*[said] * 10)
    with pytest.raises(AgentFailed) as caught:
        user([turn("Hello.")])
    failure = caught.value.failure
    assert failure.kind is FailureKind.SIMULATOR
    assert words in failure.message


def test_thoughts_are_no_message():
    parts = (Text(text="I should stop: </finished>", thought=True), Text(text="At seven."))
    user = simulation_user.begin(
        CASE, SimulatorUse(), panel=panel(ScriptedJudge(lambda _: JudgeReply(parts=parts)))
    )
    assert text_of(user([turn("Hello.")])) == "At seven."


def test_at_the_limit_it_is_asked_whether_it_would_end_here():
    history = [turn("Hello."), turn("For two.")]
    user, _ = begin("</finished>", max_turns=2)
    assert user(history) == Ending.STOP_SIGNAL
    user, _ = begin("And a window seat.", max_turns=2)
    assert user(history) == Ending.TURN_LIMIT
    user, judge = begin("</finished>", max_turns=2, adk_compat=True)  # ADK asks nobody
    assert user(history) == Ending.TURN_LIMIT
    assert judge.requests == []


def test_an_outage_at_the_limit_is_not_taken_for_an_end():
    user, _ = begin("<unauthorized>", max_turns=1)
    assert user([turn("Hello.")]) == Ending.TURN_LIMIT


def test_without_a_limit_it_goes_on():
    user, _ = begin("More.", max_turns=None)
    assert text_of(user([turn("x")] * 500)) == "More."


def test_without_anybody_to_ask_it_says_so():
    with pytest.raises(AgentFailed, match="no model is available"):
        simulation_user.begin(CASE, SimulatorUse())


def test_the_address_of_a_question_holds_everything_that_a_reply_depends_on():
    """One field changed at a time; two conversations that are alike share their replies."""

    def address(history=(), **given):
        case = Case(
            case_id=given.pop("case_id", "c"),
            scenario=dataclasses.replace(SCENARIO, **given.pop("scenario", {})),
        )
        user, judge = begin("Yes.", case=case, draw=given.pop("draw", 0), **given)
        user(list(history) or [turn("Hello.")])
        return replay.address_of(judge.requests[0])

    others = [
        address(history=[turn("Hello.", "No.")]),
        address(history=[turn("Hello."), turn("Yes.")]),
        address(scenario={"conversation_plan": "Another."}),
        address(scenario={"persona": Persona(persona_id="NOVICE")}),
        address(scenario={"persona": Persona(persona_id="EXPERT")}),
        address(model="gpt-4.1"),
        address(config={"temperature": 0.0}),
        # added to the script, not instead of it
        address(config={"system_instruction": "Be brief."}),
        address(draw=1),
        address(stop_signal="END"),
        address(custom_instructions="{{ conversation_plan }}"),
    ]
    assert len({address(), *others}) == 1 + len(others)
    assert address() == address(case_id="another")


def test_a_system_instruction_is_added_to_the_script():
    user, judge = begin("Yes.", config={"system_instruction": "Be brief."})
    user([turn("Hello.")])
    (asked,) = judge.requests
    assert asked.system.endswith("Be brief.")
    assert "You play a user" in asked.system
    assert asked.config == {}


def test_each_question_tells_the_whole_conversation_so_far():
    user, judge = begin("one", "two", "three")
    history: list[Invocation] = []
    for number in range(4):
        said = text_of(user(history))
        history.append(turn(said, f"answer {number}"))
    prompt = judge.requests[-1].prompt
    lines = [json.loads(line) for line in prompt.splitlines() if line.startswith("{")]
    assert lines == [
        {"user": "Hello."},
        {"agent": "answer 0"},
        {"user": "one"},
        {"agent": "answer 1"},
        {"user": "two"},
        {"agent": "answer 2"},
    ]


def test_a_template_takes_the_place_of_our_words():
    template = "END={{ stop_signal }}|{{ conversation_plan }}|{{ conversation_history }}|{{ persona.description }}"
    case = Case(
        case_id="c", scenario=dataclasses.replace(SCENARIO, persona=Persona(persona_id="NOVICE"))
    )
    user, judge = begin("Yes.", case=case, custom_instructions=template)
    user([turn("Hello.", "When?")])
    (asked,) = judge.requests
    assert asked.system == ""
    assert asked.prompt.startswith(
        f"END=</finished>|{SCENARIO.conversation_plan}|user: Hello.\n\nagent: When?|Somebody"
    )


@pytest.mark.parametrize(
    "template", ["{% if %}", "{{ 1 / 0 }}", "{{ conversation_plan.nothing.more }}"]
)
def test_a_template_that_fails_is_a_failure_of_the_simulated_user(template):
    with pytest.raises(AgentFailed) as caught:
        begin("Yes.", custom_instructions=template)[0]([turn("Hello.")])
    assert caught.value.failure.kind is FailureKind.SIMULATOR


def test_a_template_cannot_leave_its_sandbox():
    user, judge = begin(
        "Yes.", custom_instructions="{{ ''.__class__.__mro__[1].__subclasses__() }}"
    )
    with contextlib.suppress(AgentFailed):
        user([turn("Hello.")])
    assert not any("subprocess" in request.prompt for request in judge.requests)


def test_a_user_whose_turns_are_written_down():
    case = Case(case_id="c", conversation=(turn("one"), turn("two")))
    user = simulation_user.begin(case, SimulatorUse())
    assert [text_of(user([turn("x")] * number)) for number in range(2)] == [
        "one",
        "two",
    ]
    assert user([turn("x")] * 2) is None
