"""Where two conversations of one simulated user part."""

from __future__ import annotations

import pytest
from builders import build
from builders.build import call
from hypothesis import given, strategies as st

from evalgate.model import (
    Content,
    Divergence,
    Event,
    Invocation,
    Text,
    ToolCall,
    ToolResponse,
    divergence,
)


def talk(*turns: str) -> tuple[Invocation, ...]:
    """`user: answer`, a call of a tool before the answer in brackets: `user: [x] answer`."""
    return tuple(_turn(*each.split(": ")) for each in turns)


def _turn(user: str, said: str) -> Invocation:
    calls: list[ToolCall] = []
    if said.startswith("["):
        tool, said = said[1:].split("] ")
        calls.append(call("look_up", what=tool))
    return build.turn(user, *calls, answer=said)


@pytest.mark.parametrize(
    ("base", "head", "hears_calls", "found"),
    [
        (["a: 1", "b: 2"], ["a: 1", "b: 2"], False, None),  # the same
        ([], [], False, None),
        # an answer differs, then the user
        (["a: 1", "b: 2", "c: 3"], ["a: 1", "b: 9", "d: 3"], False, (2, 3)),
        # the user says the same all the same
        (["a: 1", "b: 2"], ["a: 9", "b: 2"], False, (1, None)),
        # it began in the first turn
        (["a: 1", "b: 2", "c: 3"], ["a: 9", "b: 8", "d: 3"], False, (1, 3)),
        (["a: 1", "b: 2"], ["a: 9"], False, (1, 2)),  # head's user ends it
        (["a: 1"], ["a: 9", "b: 2"], False, (1, 2)),  # the base's did
        (["a: 1", "b: 2"], ["a: 1", "c: 2"], False, (None, 2)),  # another user
        (["a: 1"], ["a: 1", "b: 2"], False, (None, 2)),
        # it could not hear the call
        (["a: [x] 1", "b: 2"], ["a: [y] 1", "c: 2"], False, (None, 2)),
        (["a: [x] 1", "b: 2"], ["a: [y] 1", "c: 2"], True, (1, 2)),
        (["a: [x] 1", "b: 2"], ["a: [x] 1", "b: 2"], True, None),
    ],
)
def test_where_they_part(
    base: list[str], head: list[str], hears_calls: bool, found: tuple[int | None, int | None] | None
) -> None:
    expected = None if found is None else Divergence(answers=found[0], users=found[1])
    assert divergence(talk(*base), talk(*head), hears_calls=hears_calls) == expected


def test_thoughts_and_the_way_an_answer_is_written_down_are_not_heard() -> None:
    plain = build.turn("a", answer="one")
    said = Content(parts=(Text(text="hm", thought=True), Text(text="one")))
    told = Invocation(
        user_content=plain.user_content,
        final_response=said,
        events=(Event(author="agent", content=said),),
    )
    assert divergence([plain], [told], hears_calls=True) is None


def test_words_before_the_answer_are_heard() -> None:
    plain = build.turn("a", answer="one")
    told = Invocation(
        user_content=plain.user_content,
        final_response=plain.final_response,
        events=(Event(author="agent", content=build.text("Let me see.")),),
    )
    assert divergence([plain], [told], hears_calls=False) == Divergence(answers=1)


@pytest.mark.parametrize(("hears_calls", "found"), [(True, Divergence(answers=1)), (False, None)])
def test_what_a_tool_gave_is_heard_with_the_calls(
    hears_calls: bool, found: Divergence | None
) -> None:
    plain = build.turn("a", answer="one")
    base, head = (
        Invocation(
            user_content=plain.user_content,
            final_response=plain.final_response,
            events=(
                Event(
                    author="tool",
                    content=Content(parts=(ToolResponse(name="price", response={"chf": chf}),)),
                ),
            ),
        )
        for chf in (1, 2)
    )
    assert divergence([base], [head], hears_calls=hears_calls) == found


turns = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("12")).map(": ".join), max_size=5)


@given(turns, turns)
def test_they_part_alike_from_either_side_and_never_within_what_is_equal(
    base: list[str], head: list[str]
) -> None:
    found = divergence(talk(*base), talk(*head), hears_calls=False)
    assert found == divergence(talk(*head), talk(*base), hears_calls=False)
    equal = next(
        (at for at, pair in enumerate(zip(base, head, strict=False)) if pair[0] != pair[1]), None
    )
    if found is None:
        assert base == head
    elif equal is not None:
        assert min(turn for turn in (found.answers, found.users) if turn is not None) == equal + 1
