"""Replaying: the right recording for each trial, and nothing that was not recorded so."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.agents.base import Agent, AgentFailed, AgentSetting
from evalgate.model import Case, Content, FailureKind, Invocation, Text, TrialKey
from evalgate.system.python_env import InstallSetup
from evalgate.wings import replay


def content(text: str) -> dict[str, Any]:
    return {"parts": [{"text": text}]}


def turn(asked: str, answered: str) -> dict[str, Any]:
    return {
        "user_content": content(asked),
        "final_response": content(answered),
        "intermediate_data": {"tool_uses": []},
    }


def result(
    *cases: tuple[str, list[dict[str, Any]]], set_id: str = "trips", state: Any = None
) -> dict[str, Any]:
    """An `.evalset_result.json`."""
    details = None if state is None else {"state": state}
    return {
        "eval_set_id": set_id,
        "eval_case_results": [
            {
                "eval_id": name,
                "eval_metric_result_per_invocation": [
                    {"actual_invocation": each} for each in turns
                ],
                "session_details": details,
            }
            for name, turns in cases
        ],
    }


def write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data))


def opened(root: Path, path: str | None = None) -> Agent:
    setting = AgentSetting(
        root=str(root), world=InstallSetup(environment={}, cache=str(root / "cache"))
    )
    return replay.ReplayDriver().open(replay.ReplayOptions(path=path), setting)


def user(text: str) -> Content:
    return Content(parts=(Text(text=text),), role="user")


def replayed(
    agent: Agent, name: str, *texts: str, suite: str = "a/trips.evalset.json", repeat: int = 0
) -> list[str]:
    """What is answered to each text; the case's conversation is those texts."""
    case = Case(
        case_id=name, conversation=tuple(Invocation(user_content=user(text)) for text in texts)
    )
    with agent.converse(case, TrialKey(suite=suite, case_id=name, number=repeat)) as talk:
        answers = []
        for text in texts:
            response = talk.send(user(text)).final_response
            assert response is not None
            answers.append("".join(part.text for part in response.parts if isinstance(part, Text)))
        return answers


def refused(agent: Agent, *arguments: Any, **named: Any) -> str:
    with pytest.raises(AgentFailed) as failed:
        replayed(agent, *arguments, **named)
    assert failed.value.failure.kind is FailureKind.NO_RECORDING
    return failed.value.failure.message


def test_a_recorded_conversation_is_given_again(tmp_path: Path) -> None:
    write(
        tmp_path / "rec.json",
        result(("one", [turn("hi", "hello"), turn("bye", "see you")]), state={"k": 1}),
    )
    agent = opened(tmp_path, "rec.json")
    assert replayed(agent, "one", "hi", "bye") == ["hello", "see you"]
    case = Case(case_id="one", conversation=())
    with agent.converse(case, TrialKey(suite="s", case_id="one")) as talk:
        talk.send(user("hi"))
        assert talk.finish() is None  # the recorded state is that of a longer conversation
        talk.send(user("bye"))
        assert talk.finish() == {"k": 1}


def test_a_user_who_says_something_else_gets_no_answer(tmp_path: Path) -> None:
    write(
        tmp_path / "rec.json",
        result(("one", [turn("Book a flight to Rome", "done"), turn("bye", "see you")])),
    )
    agent = opened(tmp_path, "rec.json")
    message = refused(agent, "one", "Book a flight to Oslo")
    assert (
        "the recorded message is 'Book a flight to Rome', this one is 'Book a flight to Oslo'"
        in message
    )
    assert (
        refused(agent, "one", "Book a flight to Rome", "bye", "and?")
        == "the recording has only 2 turns"
    )


def test_a_user_whose_text_is_cut_otherwise_says_the_same(tmp_path: Path) -> None:
    cut = turn("", "done") | {
        "user_content": {"role": "user", "parts": [{"text": "Book "}, {"text": "it"}]}
    }
    write(tmp_path / "rec.json", result(("one", [cut])))
    assert replayed(opened(tmp_path, "rec.json"), "one", "Book it") == ["done"]


@pytest.mark.parametrize(
    ("recordings", "repeat", "answer"),
    [
        (1, 0, "answer 0"),
        (1, 4, "answer 0"),  # a single one stands for all
        (3, 0, "answer 0"),
        (3, 2, "answer 2"),
        (3, 3, None),  # none is used twice where there are several
    ],
)
def test_repeats_take_one_recording_each(
    tmp_path: Path, recordings: int, repeat: int, answer: str | None
) -> None:
    cases = [("one", [turn("hi", f"answer {number}")]) for number in range(recordings)]
    write(tmp_path / "rec.json", result(*cases))
    agent = opened(tmp_path, "rec.json")
    if answer is None:
        assert "case one has only 3 recordings, but this is run 4" in refused(
            agent, "one", "hi", repeat=repeat
        )
    else:
        assert replayed(agent, "one", "hi", repeat=repeat) == [answer]


def test_the_newest_result_of_adk_comes_first(tmp_path: Path) -> None:
    for time, answer in (
        ("999999999.5", "old"),
        ("1700000000.25", "new"),
        ("1600000000", "middle"),
    ):
        name = f"app_trips_{time}.evalset_result.json"
        write(tmp_path / "a/.adk/eval_history" / name, result(("one", [turn("hi", answer)])))
    agent = opened(tmp_path)
    assert [replayed(agent, "one", "hi", repeat=k) for k in range(3)] == [
        ["new"],
        ["middle"],
        ["old"],
    ]


def test_without_a_path_only_recordings_beside_the_suite_count(tmp_path: Path) -> None:
    write(tmp_path / "a/x.session.json", {"id": "one", "events": [
        {"author": "user", "invocation_id": "i", "content": content("hi")},
        {"author": "agent", "invocation_id": "i", "content": content("from a session")},
    ]})  # fmt: skip
    write(tmp_path / "b/y.evalset_result.json", result(("one", [turn("hi", "from elsewhere")])))
    write(
        tmp_path / "a/more.evalset.json",
        {"eval_set_id": "m", "eval_cases": [{"eval_id": "two", "conversation": []}]},
    )
    agent = opened(tmp_path)
    assert replayed(agent, "one", "hi") == ["from a session"]
    assert replayed(agent, "x", "hi") == ["from a session"]  # named after the file
    assert "there is no recording of case two" in refused(agent, "two", "hi")
    assert replayed(agent, "one", "hi", suite="b/trips.evalset.json") == ["from elsewhere"]


def test_what_is_expected_is_never_taken_for_what_was_done(tmp_path: Path) -> None:
    expected = {
        "eval_set_id": "trips",
        "eval_cases": [{"eval_id": "one", "conversation": [turn("hi", "expected")]}],
    }
    write(tmp_path / "a/trips.evalset.json", expected)
    assert "no recordings" in refused(opened(tmp_path, "a"), "one", "hi")
    assert "only the expectations" in refused(opened(tmp_path, "a/trips.evalset.json"), "one", "hi")
    assert "only the expectations" in refused(
        opened(tmp_path, "a/../a/trips.evalset.json"), "one", "hi"
    )
    # Another file of the same shape, named by the user, is what the user says that it is.
    write(tmp_path / "recorded/cases.json", expected)
    assert replayed(opened(tmp_path, "recorded/cases.json"), "one", "hi") == ["expected"]
    assert replayed(opened(tmp_path, "recorded"), "one", "hi") == ["expected"]
    assert replayed(opened(tmp_path, "rec*/**/*.json"), "one", "hi") == ["expected"]


@pytest.mark.parametrize(
    ("sets", "answer"),
    [
        (["other"], "from other"),  # the only one
        (["trips", "other"], "from trips"),  # named like the suite's file
        (["a/trips.evalset.json", "trips"], "from a/trips.evalset.json"),
        (["x", "y"], None),  # who knows
    ],
)
def test_a_case_id_in_several_sets(tmp_path: Path, sets: list[str], answer: str | None) -> None:
    for number, name in enumerate(sets):
        recorded = result(("one", [turn("hi", f"from {name}")]), set_id=name)
        write(tmp_path / f"rec/{number}.json", recorded)
    agent = opened(tmp_path, "rec")
    if answer is None:
        assert "several evaluation sets (x and y)" in refused(agent, "one", "hi")
    else:
        assert replayed(agent, "one", "hi") == [answer]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "there are no recordings at rec"),
        ({"rec/a.json": "{"}, "there are no recordings at rec: a.json"),
        ({"rec/a.json": "{"}, "a.json"),  # says what is wrong with it
        (
            {"rec/a.json": result(("on", [turn("hi", "x")]))},
            "no recording of case one; the nearest recorded case is on",
        ),
        (
            {
                "rec/a.json": {
                    "eval_set_id": "s",
                    "eval_cases": [{"eval_id": "one", "conversation": [{"x": 1}]}],
                }
            },
            "the recording in a.json cannot be read",
        ),
        ({"rec/a.json": result(("one", []))}, "the agent recorded no turn for one"),
    ],
)
def test_why_there_is_no_recording(tmp_path: Path, files: dict[str, Any], words: str) -> None:
    for name, data in files.items():
        write(tmp_path / name, data)
    assert words in refused(opened(tmp_path, "rec"), "one", "hi")


def test_a_session_that_begins_after_some_turns_goes_on_with_the_next(tmp_path: Path) -> None:
    write(
        tmp_path / "a" / "trips.result.json",
        result(("one", [turn("Hi", "Hello"), turn("Bye", "See you")])),
    )
    agent = opened(tmp_path, "a/trips.result.json")
    before = Invocation(user_content=user("what is expected instead"))
    case = Case(case_id="one", conversation=(), history=(before,))
    with agent.converse(
        case, TrialKey(suite="a/trips.evalset.json", case_id="one")
    ) as conversation:
        assert conversation.takes_history
        answer = conversation.send(user("Bye")).final_response
    assert answer is not None
    assert answer.parts == (Text(text="See you"),)
