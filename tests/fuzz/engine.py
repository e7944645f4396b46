"""Inputs that are nearly right: seeds cut, doubled, pumped up, spliced, and changed as JSON."""

from __future__ import annotations

import json
import math
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

MOST_SECONDS: Final = 2.0
MOST_BYTES: Final = 200_000_000
LONGEST: Final = 40_000
"""Bytes of an input; those that were pumped up reach it."""

TOKENS: Final = [
    b"{", b"}", b"[", b"]", b'"', b"'", b"\\", b":", b",", b" ", b"\n", b"\r\n", b"\t", b"\0", b"> ", b"*", b"_", b"`",
    b"```", b"<", b">", b"<!--", b"<think>", b"</think>", b"&a ", b"*a ", b"<<: ", b"- ", b"? ", b"| ", b"%", b"!!x",
    b"null", b"true", b"NaN", b"Infinity", b"-0", b"1e999", b"9" * 400, b"0" * 30, b"\xff", b"\xed\xa0\x80", b"\\ud800",
    b"\\u0000", b"\xe2\x80\xae", b"\xef\xbb\xbf", b"../", b"/", b".git/", b"***", b"${X}", b"{{", b"}}", b"{%", b"@",
    b"verdict", b"label", b"valid", b"no", b"P1", b"S1",
]  # fmt: skip
VALUES: Final[list[Any]] = [
    None, True, False, 0, -1, 1, 2**53 + 1, 10**400, 1.5, -0.0, 1e308, float("nan"), float("inf"), "", " ", "\0", "x",
    "\ud800", "\u202e", "../x", "/etc/passwd", ".git/config", "a" * 5000, "\n" * 3, "***" * 30, [], {}, [[]], [{}],
    {"": ""}, {"a": None}, ["x"] * 50,
]  # fmt: skip


class TooLong(BaseException):
    """An input took longer than it may. No `Exception`, so that no parser can take it for one of
    its own."""


@dataclass(frozen=True)
class Found:
    """An input, and what was wrong with it."""

    data: bytes
    what: str


def mutated(seeds: Sequence[bytes], dice: random.Random) -> bytes:
    """An input that is nearly one of the seeds."""
    data = dice.choice(seeds)
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        data = dice.choice(_CHANGES)(data, seeds, dice)
    return data[:LONGEST]


def run(
    read: Callable[[bytes], object],
    seeds: Sequence[bytes],
    *,
    seed: int,
    most: float = math.inf,
    seconds: float = math.inf,
    on_found: Callable[[Found], None] | None = None,
) -> list[Found]:
    """What is wrong with inputs made from the seeds, after the seeds themselves; each kind of fault
    is told once.

    `most`: how many are made; `seconds`: for how long.
    """
    dice = random.Random(seed)
    until = time.monotonic() + seconds
    found: dict[str, Found] = {}

    def inputs() -> Iterator[bytes]:
        yield from seeds
        made = 0
        while made < most and time.monotonic() < until:
            made += 1
            yield mutated(seeds, dice)

    for data in inputs():
        what = fault(read, data)
        if what and what not in found:
            found[what] = Found(data, what)
            if on_found is not None:
                on_found(found[what])
    return list(found.values())


def fault(read: Callable[[bytes], object], data: bytes) -> str:
    """What goes wrong where an input is read; empty: nothing."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # of this process's own time: others may keep the machine busy
    former = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS * 5)
    began = time.thread_time()
    try:
        read(data)
    except TooLong:
        return "hangs"
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        return f"{type(error).__name__} in {_where(error)}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
    if time.thread_time() - began > MOST_SECONDS:
        return "is slow"
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return "takes much memory" if (after - before) * 1024 > MOST_BYTES else ""


def _where(error: BaseException) -> str:
    """The last function of ours that an error went through."""
    names = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "/evalgate/" in code.co_filename:
            names.append(f"{code.co_filename.rpartition('/evalgate/')[2]}:{code.co_name}")
        trace = trace.tb_next
    return names[-1] if names else "?"


# --- changes --------------------------------------------------------------------------------------


def _span(data: bytes, dice: random.Random) -> tuple[int, int]:
    start = dice.randint(0, len(data))
    return start, min(len(data), start + dice.choice((1, 2, 5, 20, 100)))


def _cut(data: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    start, end = _span(data, dice)
    return data[:start] + data[end:]


def _end(data: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    return data[: dice.randint(0, len(data))]


def _insert(data: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    place = dice.randint(0, len(data))
    return data[:place] + dice.choice(TOKENS) + data[place:]


def _flip(data: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    place = dice.randint(0, len(data))
    return data[:place] + bytes([dice.randrange(256)]) + data[place + 1 :]


def _splice(data: bytes, seeds: Sequence[bytes], dice: random.Random) -> bytes:
    other = dice.choice(seeds)
    start, end = _span(other, dice)
    place = dice.randint(0, len(data))
    return data[:place] + other[start:end] + data[place:]


def _pump(data: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    """A few bytes so often that what is not linear shows."""
    start, end = _span(data, dice)
    piece = (
        data[start:end]
        if dice.random() < 0.5
        else dice.choice(TOKENS) + dice.choice((b"", b" ", b"a"))
    ) or b" "
    room = max(0, LONGEST - len(data))
    return (
        data[:start]
        + piece * min(dice.choice((30, 300, 3000, 40_000)), room // len(piece))
        + data[end:]
    )


def _as_json(data: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    """The same JSON with a value or a key that is another."""
    lines = data.splitlines() or [b""]
    which = dice.randrange(len(lines))
    whole = dice.random() < 0.5
    try:
        value = json.loads(data if whole else lines[which])
    except (ValueError, RecursionError):
        return data
    try:
        changed = json.dumps(_changed(value, dice), ensure_ascii=dice.random() < 0.5).encode(
            "utf-8", "surrogatepass"
        )
    except RecursionError:
        return data
    return changed if whole else b"\n".join([*lines[:which], changed, *lines[which + 1 :]])


def _changed(value: Any, dice: random.Random) -> Any:
    if isinstance(value, dict) and value and dice.random() < 0.85:
        key = dice.choice(list(value))
        if dice.random() < 0.1:
            return {name: each for name, each in value.items() if name != key}
        if dice.random() < 0.1:
            return {
                **value,
                dice.choice(["x", "", "\0", "\ud800", key.upper(), key + key]): value[key],
            }
        return {**value, key: _changed(value[key], dice)}
    if isinstance(value, list) and value and dice.random() < 0.85:
        place = dice.randrange(len(value))
        return [
            *value[:place],
            _changed(value[place], dice),
            *value[place + dice.choice((0, 1, 1)) :],
        ]
    if dice.random() < 0.1:
        return _nested(value, dice.choice((20, 100, 255, 900)), dice)
    return dice.choice(VALUES)


def _nested(value: Any, levels: int, dice: random.Random) -> Any:
    for _ in range(levels):
        value = [value] if dice.random() < 0.5 else {"a": value}
    return value


_CHANGES = [_cut, _end, _insert, _insert, _flip, _splice, _pump, _as_json, _as_json, _as_json]
