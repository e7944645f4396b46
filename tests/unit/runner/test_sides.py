"""Both sides measured together: fair order, further runs, fresh runs, budgets, and what a stored
run saves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalgate import __version__
from evalgate.comparison import verdict as comparison_verdict
from evalgate.comparison.purse import Rerun
from evalgate.errors import ConfigError
from evalgate.gate import store
from evalgate.model import (
    Case,
    CaseStatus,
    Display,
    FailureKind,
    Grade,
    Policy,
    Report,
    Run,
    Suite,
    TrialKey,
    TrialView,
)
from evalgate.results import file
from evalgate.results.journal import Journal
from evalgate.runner import trials
from tests.unit.runner import fakes
from tests.unit.runner.test_measure import SUITES, session_of, side_of

VERSION = __version__


class Pair:
    """Two sides with an agent each that knows who was asked when, and a criterion that knows what
    it graded."""

    def __init__(
        self,
        folder: Path,
        *,
        budget: str = "",
        retries: int = 0,
        suites: tuple[Suite, ...] = SUITES,
        name: str = "",
        skipped: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self.order: list[str] = []
        self.graded: list[TrialView] = []
        self.agents = [fakes.FakeAgent(self._noting("head")), fakes.FakeAgent(self._noting("base"))]
        self.journals = [
            Journal.create(folder / f"{name}{number}", about={}) for number in range(2)
        ]
        self.measuring = session_of(concurrency=1, budget=budget, retries=retries)
        self.sides = [
            side_of(
                self.measuring,
                journal,
                agent,
                suites=suites,
                criterion=self._grade,
                skipped=left_out,
            )
            for journal, agent, left_out in zip(
                self.journals, self.agents, (frozenset(), skipped), strict=True
            )
        ]
        self.suites = suites
        self.stop = self.measuring.stop

    def run(self, side: int) -> Run:
        return self.measuring.run(self.sides[side])

    def _grade(self, evidence: TrialView) -> Grade:
        self.graded.append(evidence)
        return fakes.all_calls(evidence)

    def _noting(self, side: str):  # type: ignore[no-untyped-def]  # a FakeAgent's misbehave
        def note(key: TrialKey, turn: int) -> None:
            if turn == 1:
                self.order.append(f"{side} {key}")

        return note

    def tasks(self, side: int, repeats: int) -> list[trials.Task]:
        every = trials.tasks([self.suites, self.suites], trials.first_rounds(repeats))
        return [task for task in every if task.side == side]


Pairs = Callable[..., Pair]


@pytest.fixture
def pairs(tmp_path: Path) -> Iterator[Pairs]:
    """Makes pairs, and closes their journals in the end."""
    made: list[Pair] = []

    def make(**options: Any) -> Pair:
        made.append(Pair(tmp_path, **options))
        return made[-1]

    yield make
    for pair in made:
        for journal in pair.journals:
            journal.close()


def results_of(run: Run, journal: Journal, path: Path) -> Path:
    policy = Policy()
    verdict = comparison_verdict.decide(run, policy, comparison=None)
    report = Report(run=run, verdict=verdict, policy=policy, display=Display(version=VERSION))
    path.write_text("".join(file.render_results(report, outcomes=journal)))
    return path


def test_each_case_runs_on_both_sides_one_right_after_the_other(pairs: Pairs) -> None:
    pair = pairs()
    pair.measuring.first(1)
    both = [
        {f"head {case}#0", f"base {case}#0"} for case in ("b:c0", "b:c1", "b:c2", "b:c3", "a:x")
    ]
    assert [set(pair.order[at : at + 2]) for at in range(0, 10, 2)] == both


def test_a_coin_says_which_side_comes_first() -> None:
    tosses = iter((0.1, 0.9, 0.9, 0.1, 0.5))
    order = trials.tasks([SUITES, SUITES], trials.first_rounds(1), coin=lambda: next(tosses))
    assert [task.side for task in order] == [0, 1, 1, 0, 1, 0, 0, 1, 1, 0]


def test_a_side_may_leave_cases_out(tmp_path: Path, pairs: Pairs) -> None:
    pair = pairs(skipped=frozenset({("b", "c1"), ("a", "x")}))
    pair.measuring.first(1)
    assert sorted(pair.order) == sorted(
        [f"head {case}#0" for case in ("b:c0", "b:c1", "b:c2", "b:c3", "a:x")]
        + [f"base {case}#0" for case in ("b:c0", "b:c2", "b:c3")]
    )
    assert [len(pair.run(side).trials) for side in (0, 1)] == [5, 3]
    assert pair.run(1).complete


PAIR, SINGLE = (Rerun(key=("a", "x"), is_pair=is_pair) for is_pair in (True, False))


def test_fresh_runs_concern_only_the_named_cases(pairs: Pairs) -> None:
    pair = pairs()
    pair.measuring.first(2)
    pair.order.clear()
    assert pair.measuring.rerun([PAIR])
    assert set(pair.order) == {"head a:x#pair 0", "base a:x#pair 0"}
    pair.order.clear()
    pair.measuring.rerun([PAIR, PAIR])
    assert {each.partition("#")[2] for each in pair.order} == {"pair 1", "pair 2"}
    assert len(pair.order) == 4
    pair.order.clear()
    pair.measuring.rerun([SINGLE])
    assert pair.order == ["head a:x#single 0"]
    run = pair.run(0)
    assert len(run.trials) == 2 * 5
    assert [trial.key.repeat for trial in run.confirmations] == [
        "pair 0",
        "pair 1",
        "pair 2",
        "single 0",
    ]
    assert [trial.key.repeat for trial in pair.run(1).confirmations] == [
        "pair 0",
        "pair 1",
        "pair 2",
    ]
    assert run.complete


def test_what_a_side_lacks_of_a_pair_is_run_alone(pairs: Pairs) -> None:
    pair = pairs(budget="agent_calls=11")
    pair.measuring.first(1)
    assert pair.measuring.rerun([PAIR])  # the budget ends with the one side
    half = sum(len(pair.run(side).confirmations) for side in (0, 1))
    assert (half, pair.measuring.budget.ended) == (1, "the budget of 11 agent runs is spent")
    pair.measuring.budget.ended = pair.measuring.budget.truncated = ""
    pair.measuring.budget._calls = 0
    pair.measuring.rerun([PAIR])
    assert [[trial.key.repeat for trial in pair.run(side).confirmations] for side in (0, 1)] == [
        ["pair 0"],
        ["pair 0"],
    ]


@pytest.mark.parametrize(
    ("budget", "trials_run", "words"),
    [
        ("agent_calls=3", 3, "3 agent runs"),  # counted when they begin
        ("tokens=25", 3, "25 agent tokens"),  # 10 each: the third goes over, a fourth is not begun
        ("usd=1", 10, ""),  # no price is known: nothing can be counted, and the run says so
        ("", 10, ""),
    ],
)
def test_a_budget_ends_a_run_and_is_named(
    pairs: Pairs, budget: str, trials_run: int, words: str
) -> None:
    pair = pairs(budget=budget)
    for agent in pair.agents:
        agent.tokens = 10
    pair.measuring.first(1)
    assert len(pair.order) == trials_run
    run = pair.run(0)
    assert words in run.truncated
    assert bool(run.truncated) is bool(words)
    assert run.complete
    assert pair.measuring.budget.unpriced == (
        frozenset({"a model without a name"}) if budget else frozenset()
    )


def test_results_read_back_are_the_run_that_was_written(tmp_path: Path, pairs: Pairs) -> None:
    def misbehave(key: TrialKey, turn: int) -> None:
        if key.case_id == "c2":
            raise fakes.failed(FailureKind.KILLED, "killed by signal 9")

    pair = pairs(suites=tuple(judged_at("http://a/v1", suite) for suite in SUITES))
    pair.agents[0].misbehave = misbehave
    pair.measuring.first(2)
    pair.measuring.rerun([PAIR])
    run = pair.run(0)
    read = file.read_results(results_of(run, pair.journals[0], tmp_path / "results.json"))
    for own in ("trials", "confirmations", "repeats", "seed", "fingerprints", "inputs", "complete"):
        assert untimed(getattr(read.run, own)) == untimed(getattr(run, own)), own
    for trial in run.trials:
        assert read.run.transcripts(trial.key) == run.transcripts(trial.key)
    for before, after in zip(run.suites, read.run.suites, strict=True):
        assert [case.conversation for case in after.eval_set.cases] == [
            case.conversation for case in before.eval_set.cases
        ]
        assert [(use.name, use.threshold, use.endpoint) for use in after.criteria] == [
            (use.name, use.threshold, use.endpoint) for use in before.criteria
        ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "does not fit results.json: `schema_version` is missing"),
        ("{}", "does not fit results.json"),
        ('{"schema_version": 1}', "schema_version 1"),  # an older version's
        ('{"schema_version": 4}', "schema_version 4"),
        ('{"schema_version": 6}', "does not fit results.json"),
        (
            '{"schema_version": 6, "evalgate": "1", "verdict": {"kind": "great"}, "suites": 3}',
            "does not fit results.json",
        ),
    ],
)
def test_results_that_cannot_be_read_say_why(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ConfigError, match=words):
        file.read_results(tmp_path / "r.json")


def judged_at(endpoint: str, suite: Suite) -> Suite:
    return dataclasses.replace(
        suite, criteria=tuple(dataclasses.replace(use, endpoint=endpoint) for use in suite.criteria)
    )


def untimed(value: Any) -> Any:
    """Trials without their seconds, which are written with four decimals."""
    if isinstance(value, tuple):
        return tuple(dataclasses.replace(each, seconds=0.0) for each in value)
    return value


def changed(suites: tuple[Suite, ...], **cases: Case | None) -> tuple[Suite, ...]:
    """The suites with some cases of the first replaced, None taking one away."""
    first = suites[0]
    kept = tuple(cases.get(case.case_id, case) for case in first.eval_set.cases)
    added = tuple(
        case
        for case_id, case in cases.items()
        if case_id not in {each.case_id for each in first.eval_set.cases}
    )
    every = tuple(case for case in (*kept, *added) if case is not None)
    return (
        dataclasses.replace(first, eval_set=dataclasses.replace(first.eval_set, cases=every)),
        *suites[1:],
    )


def test_a_stored_run_saves_the_trials_that_were_asked_the_same(
    tmp_path: Path, pairs: Pairs
) -> None:
    before = pairs(name="before")
    before.measuring.first(2)
    path = results_of(before.run(1), before.journals[1], tmp_path / "base.json")
    suites = changed(SUITES, c1=fakes.case("c1", "another question"), c2=None, c9=fakes.case("c9"))

    now = pairs(suites=suites, name="now")
    unpaired = store.take_results(
        file.read_results(path), now.tasks(1, 2), now.sides[1], renamed={}
    )
    assert unpaired == {("b", "c1"): CaseStatus.CHANGED, ("b", "c9"): CaseStatus.NEW}
    assert len(now.sides[1].reused) == 6
    now.measuring.first(2)
    assert {each.partition(" ")[2][:4] for each in now.order if each.startswith("base")} == {
        "b:c1",
        "b:c9",
    }
    assert now.run(1).trials[0].grades == before.run(1).trials[0].grades


@pytest.mark.parametrize("written", ["NaN", "1e308"])
def test_what_is_no_score_is_refused_with_its_place(
    tmp_path: Path, pairs: Pairs, written: str
) -> None:
    pair = pairs()
    pair.measuring.first(1)
    path = results_of(pair.run(0), pair.journals[0], tmp_path / "base.json")
    path.write_text(path.read_text().replace('"value":1.0', f'"value":{written}', 1))
    with pytest.raises(ConfigError, match=r"does not fit results\.json") as refused:
        file.read_results(path)
    assert refused.value.where is not None
    assert refused.value.where.json_path == "suites[0].cases[0].trials[0].grades.m.value"


@pytest.mark.parametrize(
    ("criteria", "grades_made"),
    [
        (("m",), 4),  # head's alone
        (("n",), 8),  # a criterion that the stored run does not have
    ],
)
def test_what_a_stored_run_has_graded_is_not_graded_again(
    tmp_path: Path, pairs: Pairs, criteria: tuple[str, ...], grades_made: int
) -> None:
    before = pairs(name="before", suites=(fakes.suite("b", *SUITES[0].eval_set.cases),))
    before.measuring.first(1)
    path = results_of(before.run(1), before.journals[1], tmp_path / "base.json")
    now = pairs(
        name="now", suites=(fakes.suite("b", *SUITES[0].eval_set.cases, criteria=criteria),)
    )
    store.take_results(file.read_results(path), now.tasks(1, 1), now.sides[1], renamed={})
    now.measuring.first(1)
    assert len(now.graded) == grades_made
    assert [trial.grades for trial in now.run(1).trials] == [
        dict.fromkeys(criteria, grade)
        for trial in before.run(1).trials
        for grade in trial.grades.values()
    ]


def test_a_stored_trial_of_a_broken_agent_is_run_again(tmp_path: Path, pairs: Pairs) -> None:
    before = pairs(name="before")

    def misbehave(key: TrialKey, turn: int) -> None:
        if key.case_id == "c2":
            raise fakes.failed(FailureKind.KILLED, "killed by signal 9")

    before.agents[1].misbehave = misbehave
    before.measuring.first(1)
    path = results_of(before.run(1), before.journals[1], tmp_path / "base.json")
    now = pairs(name="now")
    store.take_results(file.read_results(path), now.tasks(1, 1), now.sides[1], renamed={})
    now.measuring.first(1)
    assert [each for each in now.order if each.startswith("base")] == ["base b:c2#0"]


@pytest.mark.parametrize("phase", ["first", "rerun"])
def test_a_run_that_is_interrupted_in_any_phase_is_incomplete_on_both_sides(
    pairs: Pairs, phase: str
) -> None:
    pair = pairs()

    def interrupt(key: TrialKey, turn: int) -> None:
        raise KeyboardInterrupt

    phases = {
        "first": lambda: pair.measuring.first(1),
        "rerun": lambda: pair.measuring.rerun([PAIR]),
    }
    for name, carry_out in phases.items():
        if name == phase:
            pair.agents[1].misbehave = interrupt  # only base's trials are cut
        carry_out()  # type: ignore[no-untyped-call]  # a table of steps
    assert [pair.run(side).complete for side in (0, 1)] == [False, False]


def test_what_an_interrupted_run_was_still_to_do_makes_it_incomplete(pairs: Pairs) -> None:
    pair = pairs()
    pair.measuring.first(1)
    assert pair.run(0).complete
    pair.stop.set()  # Ctrl-C between two phases
    assert pair.run(0).complete  # nothing is missing yet
    pair.measuring.rerun([PAIR])
    assert not pair.run(0).complete


def test_an_interrupted_run_of_one_agent_for_both_sides_is_incomplete(pairs: Pairs) -> None:
    """The second side's results are the first side's: they are no further runs that ended."""
    pair = pairs()
    pair.sides[1].shared = frozenset(suite.key for suite in pair.suites)
    count = sum(len(suite.cases) for suite in pair.suites)

    def interrupt(key: TrialKey, turn: int) -> None:
        if len(pair.agents[0].asked) == count:
            raise KeyboardInterrupt

    pair.agents[0].misbehave = interrupt
    pair.measuring.first(1)
    runs = [pair.run(side) for side in (0, 1)]
    assert [len(run.trials) for run in runs] == [count - 1, count - 1]
    assert [run.complete for run in runs] == [False, False]


def test_a_lost_run_of_one_agent_for_both_sides_is_tried_once_more(
    pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = pairs(retries=1)
    pair.sides[1].shared = frozenset(suite.key for suite in pair.suites)
    reasons: list[str] = []
    monkeypatch.setattr(
        pair.measuring.watcher, "begin", lambda *, trials, reason: reasons.append(reason)
    )
    monkeypatch.setattr(pair.stop, "wait", lambda _: True)  # no pause, no retry

    def lose(key: TrialKey, turn: int) -> None:
        if len(pair.agents[0].asked) == 1:
            raise fakes.failed(FailureKind.UNREACHABLE)

    pair.agents[0].misbehave = lose
    pair.measuring.first(1)
    assert [reason.partition(":")[0] for reason in reasons] == ["", "trying 1 run once more"]
    assert not any(trial.failure for side in (0, 1) for trial in pair.run(side).trials)
