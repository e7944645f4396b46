"""The order of trials where sides are measured together."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from evalgate.model import TrialKey
from evalgate.runner import trials
from evalgate.runner.trials import LEAD, FairTasks, Task
from tests.unit.runner import fakes

HEAD, BASE = 0, 1
SUITE = fakes.suite("s", fakes.case("c"))


def plan(*turns: Sequence[int]) -> list[Task]:
    """Tasks in a fair order: of every turn, one for each of its sides."""
    return [
        Task(
            key=TrialKey(suite="s", case_id=f"c{number}"),
            suite=SUITE,
            case=SUITE.eval_set.cases[0],
            side=side,
        )
        for number, sides in enumerate(turns)
        for side in sides
    ]


def abreast(
    tasks: list[Task], *, at_once: int, known: set[int] | None = None, sides: int = 2
) -> FairTasks:
    """`known`: the places of tasks that need not be run."""
    ids = {id(tasks[place]) for place in known or ()}
    return FairTasks(
        tasks,
        sides=sides,
        is_known=lambda task: id(task) in ids,
        at_once=at_once,
        stop=threading.Event(),
    )


def test_both_sides_have_as_many_under_way_though_one_is_never_done() -> None:
    order = abreast(plan(*[(HEAD, BASE)] * 20), at_once=4)
    first = [next(order) for _ in range(4)]
    assert Counter(task.side for task in first) == {HEAD: 2, BASE: 2}
    # head answers at once, base not at all: head's places are filled by head alone
    for _ in range(2 * LEAD):
        done = next(task for task in first if task.side == HEAD)
        first.remove(done)
        order.done(done)
        first.append(next(order))
        assert Counter(task.side for task in first) == {HEAD: 2, BASE: 2}


def test_the_faster_side_waits_when_it_is_far_ahead() -> None:
    stop, never_ends, answered = threading.Event(), [], []
    order = FairTasks(
        plan(*[(HEAD, BASE)] * 50),
        sides=2,
        is_known=lambda _: False,
        at_once=2,
        stop=stop,
    )

    def work() -> None:
        for task in order:
            if task.side == BASE:
                never_ends.append(task)
            else:
                answered.append(task)
                order.done(task)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.2)
    waits, begun = thread.is_alive(), len(answered)
    stop.set()
    order.done(never_ends[0])
    thread.join(10)
    assert waits
    assert len(never_ends) == 1
    assert 2 <= begun <= 2 * LEAD + 1


@pytest.mark.parametrize(
    ("turns", "known", "sides"),
    [
        ([(HEAD,)] * 8, set(), 1),  # there is no other side
        ([(HEAD,)] * 8, set(), 2),  # the other has nothing to do
        ([(HEAD, BASE)] * 8, set(range(1, 16, 2)), 2),  # all of base is known
        ([(HEAD,)] * 40 + [(HEAD, BASE)], set(), 2),  # base's only trial is far away
    ],
)
def test_a_side_alone_gets_all_places(
    turns: list[tuple[int, ...]], known: set[int], sides: int
) -> None:
    order = abreast(plan(*turns), at_once=8, known=known, sides=sides)
    handed = [next(order) for _ in range(8 + len(known))]
    assert sum(task.side == HEAD for task in handed) == 8


def test_no_place_of_an_odd_number_stays_empty() -> None:
    order = abreast(plan(*[(HEAD, BASE)] * 20), at_once=3)
    assert Counter(next(order).side for _ in range(3)) == {HEAD: 2, BASE: 1}


def test_the_last_trials_of_the_slower_side_have_no_more_places_than_the_others_had() -> None:
    tasks = plan(*[(HEAD, BASE)] * 6)
    order = abreast(tasks, at_once=4)
    under_way = [next(order) for _ in range(4)]
    for _ in range(4):  # head ends all of its six while base's first two are still under way
        done = next(task for task in under_way if task.side == HEAD)
        under_way.remove(done)
        order.done(done)
        under_way.append(next(order))
    for task in [task for task in under_way if task.side == HEAD]:
        order.done(task)
    late: list[Task] = []
    thread = threading.Thread(target=lambda: late.append(next(order)))
    thread.start()
    thread.join(0.1)
    assert not late  # two places are free, and base has its two
    order.done(next(task for task in under_way if task.side == BASE))
    thread.join(10)
    assert [task.side for task in late] == [BASE]


def test_cases_of_one_side_do_not_part_the_others() -> None:
    turns = [(HEAD,)] * 100 + [(HEAD, BASE)] * 2
    order = abreast(plan(*turns), at_once=2)
    handed = []
    for task in order:
        handed.append((task.side, task.key.case_id))
        order.done(task)
    assert handed.index((BASE, "c100")) >= 100 - 2 * LEAD
    assert len(handed) == 104


def test_stop_ends_waiting() -> None:
    stop = threading.Event()
    tasks = plan(*[(HEAD, BASE)] * 4)
    order = FairTasks(tasks, sides=2, is_known=lambda _: False, at_once=2, stop=stop)
    under_way = [next(order), next(order)]
    ended = threading.Event()

    def wait() -> None:
        assert next(order, None) is None
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    stop.set()
    order.done(under_way[0])  # what runs is ended by those who stopped it, and given back
    thread.join(10)
    assert ended.is_set()


TURNS = st.lists(st.sampled_from([(HEAD, BASE), (HEAD,), (BASE,)]), max_size=40)


@given(turns=TURNS, threads=st.integers(1, 6), data=st.data())
def test_every_trial_is_handed_out_once_and_no_side_has_more_than_its_share(
    turns: list[tuple[int, ...]], threads: int, data: st.DataObject
) -> None:
    tasks = plan(*turns)
    known = data.draw(st.sets(st.integers(0, max(len(tasks) - 1, 0)))) if tasks else set()
    alike = not known and all(len(sides) == 2 for sides in turns)
    ids = {id(tasks[place]) for place in known}
    order = abreast(tasks, at_once=threads, known=known)
    lock, share = threading.Lock(), math.ceil(threads / 2)
    left = Counter(task.side for task in tasks if id(task) not in ids)
    under_way: Counter[int] = Counter()
    handed: list[int] = []
    excess: list[str] = []

    def work(task: Task) -> None:
        with lock:
            handed.append(id(task))
            if id(task) not in ids:
                under_way[task.side] += 1
                left[task.side] -= 1
                if alike and left[1 - task.side] > 0 and under_way[task.side] > share:
                    excess.append(task.key.case_id)
        with lock:
            if id(task) not in ids:
                under_way[task.side] -= 1
        order.done(task)

    trials.run_bounded(work, order, threads=threads, stop=threading.Event(), abort=lambda: None)
    assert sorted(handed) == sorted(id(task) for task in tasks)
    assert not excess
