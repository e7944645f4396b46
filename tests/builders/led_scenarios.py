"""Reports on conversations that a simulated user led, on both sides."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from builders import build, comparing
from builders.build import Done, call, turn
from evalgate.model import Case, ConversationScenario, Invocation, Report, SimulatorUse

TASK = "multi_turn_task_success_v1"
PLAN = ConversationScenario(
    starting_prompt="A table, please.", conversation_plan="For two, at seven."
)


def led(case_id: str, *, line: int) -> Case:
    """A case with a scenario."""
    return dataclasses.replace(build.case(case_id, line=line), conversation=None, scenario=PLAN)


def report(
    head: Mapping[str, Sequence[Invocation]],
    base: Mapping[str, Sequence[Invocation]],
    *,
    failing: frozenset[str] = frozenset(),
    simulator: SimulatorUse | None = None,
) -> Report:
    """What the turns of each case were on both sides; of `failing` cases head's task was not
    done."""
    cases = [led(name, line=10 * number) for number, name in enumerate(head, 1)]
    suite = build.suite(*cases, criteria={TASK: 1.0})
    suite = dataclasses.replace(suite, simulator=simulator or SimulatorUse())
    done: list[dict[tuple[str, str], list[Done | None]]] = [
        {
            (suite.key, name): [build.scores(*turns, **{TASK: score(name)})]
            for name, turns in side.items()
        }
        for side, score in ((head, lambda name: float(name not in failing)), (base, lambda _: 1.0))
    ]
    return comparing.beside([suite], done[0], done[1])


def parted() -> Report:
    """Head's agent forgets to ask for the time; a second case fails though its conversation is the
    base's."""
    first = turn("A table, please.", answer="For how many?")
    base = (
        first,
        turn("For two.", answer="At what time?"),
        turn("At seven.", call("book", guests=2, time="19:00"), answer="Your table is booked."),
    )
    head = (
        first,
        turn(
            "For two.",
            call("book", guests=2, time="18:00"),
            answer="Your table is booked for six o'clock.",
        ),
        turn("I said nothing of six o'clock.", answer="Sorry. Shall I cancel it?"),
        turn("Yes, and forget about it.", answer="It is cancelled."),
    )
    return report(
        {"table_for_two": head, "opening_hours": base, "by_the_window": base},
        {"table_for_two": base, "opening_hours": base, "by_the_window": base},
        failing=frozenset({"table_for_two", "by_the_window"}),
    )


LED: Mapping[str, Callable[[], Report]] = {"base_conversation": parted}
