"""Fitting what there is to say into the room there is."""

from __future__ import annotations

from hypothesis import given, strategies as st

from evalgate.text import markdown
from evalgate.text.markdown import Item


def items(sizes: list[tuple[int, int]]) -> list[Item]:
    return [("l" * line, lambda size=full: "F" * size) for line, full in sizes]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 400))),
    st.integers(0, 2_000),
    st.integers(0, 5),
)
def test_it_fits_and_nothing_is_lost_silently(
    sizes: list[tuple[int, int]], room: int, most: int
) -> None:
    full, lines, dropped = markdown.fill(items(sizes), room=room, most=most)
    used = sum(len(each) + 2 for each in full) + sum(len(each) + 1 for each in lines)
    assert used <= room
    assert len(full) + len(lines) + dropped == len(sizes)
    assert len(full) <= most


def test_all_in_full_where_there_is_room() -> None:
    full, lines, dropped = markdown.fill(items([(10, 100)] * 3), room=1_000, most=10)
    assert (len(full), len(lines), dropped) == (3, 0, 0)


def test_whole_forms_leave_room_for_the_lines_of_the_rest() -> None:
    full, _, dropped = markdown.fill(items([(10, 300)] * 10), room=1_000, most=10)
    assert len(full) >= 2
    assert dropped == 0


def test_one_giant_does_not_hide_the_others() -> None:
    full, lines, _ = markdown.fill(items([(10, 5_000), (10, 50), (10, 50)]), room=1_000, most=10)
    assert (len(full), len(lines)) == (2, 1)


def test_length_counts_as_browsers_do() -> None:
    assert markdown.length("aé한") == 3
    assert markdown.length("👍") == 2


def test_parts_too_large_are_left_out() -> None:
    assert markdown.keep(["a" * 10, "", "b" * 50, "c" * 5], room=20) == ("a" * 10, "c" * 5)
