"""Fitting what there is to say into the room there is: in full while it fits, then in one line, then counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

RESERVED_FOR_LINES = 0.4
GIVE_UP_AFTER = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing to show: `line` its one-line form, `full` makes its whole form (only called while room is left)."""

    line: str
    full: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What found room: whole forms, then one-line forms, both in order; `dropped` found none."""

    full: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    dropped: int = 0


def length(text: str) -> int:
    """The length of a text as GitHub may count it: UTF-16 units, never less than characters."""
    return len(text) + sum(1 for character in text if character > "\uffff")


def fill(items: Sequence[Item], *, room: int, most: int) -> Filled:
    """The items within `room` UTF-16 units, in their order of importance, at most `most` of them in full.

    An item is shown in full if the lines of all that follow still fit, or would have their reserved share.
    Items too large for that are shown in one line; those for which even that is too much are counted.
    """
    following = sum(length(item.line) + 1 for item in items)
    reserve_cap = int(room * RESERVED_FOR_LINES)
    full: list[str] = []
    waiting: list[str] = []
    used = reserved = refused = 0
    for item in items:
        following -= length(item.line) + 1
        free = room - used - reserved - min(following, max(reserve_cap - reserved, 0))
        whole = item.full() if refused < GIVE_UP_AFTER and len(full) < most and free > length(item.line) else None
        if whole is not None and length(whole) + 2 <= free:
            full.append(whole)
            used += length(whole) + 2
        else:
            refused += 1
            waiting.append(item.line)
            reserved = min(reserved + length(item.line) + 1, reserve_cap)
    lines = _lines_within(waiting, room=room - used)
    return Filled(full=tuple(full), lines=lines, dropped=len(waiting) - len(lines))


def _lines_within(lines: Sequence[str], *, room: int) -> tuple[str, ...]:
    kept: list[str] = []
    for line in lines:
        room -= length(line) + 1
        if room < 0:
            break
        kept.append(line)
    return tuple(kept)


def keep(parts: Sequence[str], *, room: int) -> tuple[str, ...]:
    """Those of the ready-made parts, most important first, that fit; empty ones and those too large are left out."""
    kept: list[str] = []
    for part in parts:
        if part and length(part) + 2 <= room:
            kept.append(part)
            room -= length(part) + 2
    return tuple(kept)
