"""Measuring a side: order, resuming, interruption, and criteria that break."""

from __future__ import annotations

import dataclasses
import json
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest

from evalgate.agents.base import AgentFailed
from evalgate.comparison import verdict
from evalgate.config.context import Context
from evalgate.config.gate_file import JudgeRule
from evalgate.config.settings import Settings
from evalgate.criteria.base import Criterion
from evalgate.gate import store as gate_store
from evalgate.gate.store import EarlierSide
from evalgate.judges import rate_limit
from evalgate.model import (
    AgentFailure,
    AgentUse,
    CaseKey,
    Display,
    FailureKind,
    Grade,
    GradedTrial,
    NotEvaluated,
    Policy,
    Reason,
    Report,
    Run,
    Score,
    Suite,
    TrialKey,
    TrialView,
)
from evalgate.results import file
from evalgate.results.journal import Journal
from evalgate.runner.session import Checkout, Session, Side
from tests.unit.runner import fakes

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BEGUN = {"started_at": NOW.isoformat()}
SUITES = (
    fakes.suite("b", *(fakes.case(f"c{number}") for number in range(4))),
    fakes.suite("a", fakes.case("x", "one", "two")),
)


def measured(
    journal: Journal,
    agent: fakes.FakeAgent,
    *,
    suites: tuple[Suite, ...] = SUITES,
    criterion: Criterion = fakes.all_calls,
    repeats: int = 2,
    environment: str = "v1",
    concurrency: int = 4,
    earlier: Path | None = None,
) -> Run:
    """`earlier`: the journal of a run before."""
    session = session_of(concurrency=concurrency)
    side = side_of(
        session, journal, agent, suites=suites, criterion=criterion, environment=environment
    )
    if earlier is not None:
        with Journal.read(earlier) as before:
            entries = [EarlierSide(journal=before, oldest=datetime.min.replace(tzinfo=UTC))]
            for suite in suites:
                gate_store.take(entries, suite, side, repeats=repeats)
    session.first(repeats)
    return session.run(side)


def side_of(
    session: Session,
    journal: Journal,
    agent: fakes.FakeAgent,
    *,
    suites: tuple[Suite, ...] = SUITES,
    criterion: Criterion = fakes.all_calls,
    environment: str = "v1",
    skipped: frozenset[CaseKey] = frozenset(),
) -> Side:
    side = Side(
        session,
        Checkout(root=journal.path.parent, suites=suites, skipped=skipped),
        agents={suite.agent.key: agent for suite in suites},
        criteria={suite.key: {use.name: criterion for use in suite.criteria} for suite in suites},
        inputs=fakes.inputs_of(suites, agent, journal.path.parent, environment=environment),
        journal=journal,
    )
    session.sides.append(side)
    return side


def session_of(*, concurrency: int = 4, budget: str = "", retries: int = 0) -> Session:
    settings = Settings.model_validate(
        {
            "runs": 1,
            "concurrency": concurrency,
            "retries": retries,
            "seed": 7,
            **({"budget": budget} if budget else {}),
        }
    )
    limiters = rate_limit.limiters_for(JudgeRule(), rate_limit.Clock())
    context = Context(environ={}, cache=Path("/nowhere"), moment=NOW)
    return Session(settings, context=context, panel=None, limiters=limiters)


def scores(run: Run) -> list[tuple[str, object]]:
    return [(str(trial.key), trial.grades["m"]) for trial in run.trials]


def test_results_stand_in_the_order_of_the_files(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "j", about={}) as journal:
        run = measured(journal, fakes.FakeAgent())
    assert [str(trial.key) for trial in run.trials] == [
        *(f"b:c{case}#{repeat}" for case in range(4) for repeat in range(2)),
        "a:x#0",
        "a:x#1",
    ]
    assert run.complete


def test_a_run_that_is_cut_off_waits_for_nothing_that_would_be_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, called_off = threading.Event(), threading.Event()

    def in_backoff(evidence: TrialView) -> Grade:
        waiting.set()
        ended_early.append(called_off.wait(10))
        return NotEvaluated(reason=Reason.JUDGE_UNAVAILABLE, message="the run ended")

    def interrupt(key: TrialKey, turn: int) -> None:
        if key.case_id == "x":
            waiting.wait(10)
            raise KeyboardInterrupt

    ended_early: list[bool] = []
    with Journal.create(tmp_path / "j", about={}) as journal:
        session = session_of(concurrency=8)
        monkeypatch.setattr(rate_limit.Clock, "call_off", lambda _: called_off.set())
        side = side_of(session, journal, fakes.FakeAgent(interrupt), criterion=in_backoff)
        session.first(1)
        assert not session.run(side).complete
    assert ended_early
    assert all(ended_early)


STATE = "final_session_state"


def test_resuming_repeats_no_finished_trial_and_gives_the_same(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "j", about=BEGUN) as journal:
        whole = measured(journal, fakes.FakeAgent())
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    for kept in range(1, len(lines), 3):
        (tmp_path / "cut").write_bytes(b"".join(lines[:kept]) + b'{"torn')
        agent = fakes.FakeAgent()
        with Journal.create(tmp_path / "again", about={}) as journal:
            known = sum(b'"trial"' in line for line in lines[:kept])
            again = measured(journal, agent, earlier=tmp_path / "cut")
            assert len(agent.asked) == 10 - known
            assert scores(again) == scores(whole)
            assert all(journal.find(trial.key) is not None for trial in again.trials)


@pytest.mark.parametrize("kind", FailureKind)
def test_resuming_tries_failures_again(tmp_path: Path, kind: FailureKind) -> None:
    def fail(key: TrialKey, turn: int) -> None:
        if key.case_id in {"c1", "x"}:
            raise AgentFailed(AgentFailure(kind=kind, message="not now"))

    with Journal.create(tmp_path / "j", about=BEGUN) as journal:
        failed = measured(journal, fakes.FakeAgent(fail), repeats=1)
    agents = [fakes.FakeAgent(), fakes.FakeAgent()]
    runs = []
    for number, agent in enumerate(agents):  # what was cured stays so
        with Journal.create(tmp_path / f"j{number}", about=BEGUN) as journal:
            runs.append(
                measured(
                    journal, agent, repeats=1, earlier=tmp_path / ("j" if number == 0 else "j0")
                )
            )
    assert [{key.case_id for key in agent.asked} for agent in agents] == [{"c1", "x"}, set()]
    assert [sum(trial.failure is not None for trial in run.trials) for run in (failed, *runs)] == [
        2,
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("kind", "lost", "retries", "budget", "tries", "failures"),
    [
        (FailureKind.UNREACHABLE, {"c1"}, 1, "", 3, 0),  # two attempts at once, one at the end
        (FailureKind.RATE_LIMITED, {"c1"}, 1, "agent_calls=5", 2, 1),  # no run is left for it
        (FailureKind.RATE_LIMITED, {"c1"}, 1, "agent_calls=6", 3, 0),
        (FailureKind.UNREACHABLE, {"c1"}, 1, "tokens=1000", 2, 1),  # nor is it known what it takes
        (FailureKind.UNREACHABLE, {"c1"}, 0, "", 1, 1),  # nobody wants it
        (FailureKind.UNREACHABLE, {"c1", "c2"}, 1, "", 4, 2),  # two of five are an outage
        (FailureKind.RAISED, {"c1"}, 1, "", 1, 1),  # the agent's own doing
    ],
)
def test_the_few_that_a_provider_failed_are_run_once_more_at_the_end(
    tmp_path: Path,
    kind: FailureKind,
    lost: set[str],
    retries: int,
    budget: str,
    tries: int,
    failures: int,
) -> None:
    def fail(key: TrialKey, turn: int) -> None:
        # the last case
        if key.case_id in lost and "x" not in {asked.case_id for asked in agent.asked}:
            raise AgentFailed(AgentFailure(kind=kind, message="not now"))

    agent = fakes.FakeAgent(fail)
    with Journal.create(tmp_path / "j", about={}) as journal:
        session = session_of(concurrency=1, retries=retries, budget=budget)
        session.runner = dataclasses.replace(session.runner, pause_s=0.0)
        side = side_of(session, journal, agent)
        session.first(1)
        run = session.run(side)
    assert sum(key.case_id in lost for key in agent.asked) == tries
    assert [sum(trial.failure is not None for trial in run.trials), run.truncated] == [failures, ""]


def test_suites_that_are_no_longer_shared_run_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many suites there are, head's trials are looked through once."""
    seen: list[TrialKey] = []
    share = GradedTrial.shared

    def watched(trial: GradedTrial) -> GradedTrial:
        seen.append(trial.key)
        return share(trial)

    monkeypatch.setattr(GradedTrial, "shared", watched)
    suites = tuple(fakes.suite(f"s{number}", fakes.case("c")) for number in range(9))
    agents = [fakes.FakeAgent(), fakes.FakeAgent()]
    with (
        Journal.create(tmp_path / "head", about={}) as head_journal,
        Journal.create(tmp_path / "base", about={}) as base_journal,
    ):
        session = session_of()
        journals = (head_journal, base_journal)
        _, base = (
            side_of(session, journal, agent, suites=suites)
            for journal, agent in zip(journals, agents, strict=True)
        )
        keys = frozenset(suite.key for suite in suites)
        base.shared = keys
        session.first(1)
        assert [len(agent.asked) for agent in agents] == [9, 0]
        assert len(session.run(base).trials) == 9
        seen.clear()
        session.part_suites(keys - {"s8"})
        assert len(seen) <= 9
        session.first(1)
    assert [len(agent.asked) for agent in agents] == [9, 8]
    assert [trial.reused for trial in session.run(base).trials] == [False] * 8 + [True]


@pytest.mark.parametrize(
    ("kind", "answered", "at_once", "asked"),
    [
        # three in a row, and no answer before them
        (FailureKind.UNREACHABLE, {}, 1, 3),
        (FailureKind.UNAUTHORIZED, {}, 1, 3),
        # those of one moment count as one
        (FailureKind.UNREACHABLE, {}, 4, 12),
        # something was measured, early or late
        (FailureKind.UNREACHABLE, {"c0"}, 1, 20),
        (FailureKind.UNREACHABLE, {"c2"}, 1, 20),
        # a provider that limits its rate answers, and so does an agent that crashes
        (FailureKind.RATE_LIMITED, {}, 1, 20),
        (FailureKind.RAISED, {}, 1, 20),
    ],
)
def test_an_agent_whose_services_never_answer_is_not_asked_on_and_on(
    tmp_path: Path, kind: FailureKind, answered: set[str], at_once: int, asked: int
) -> None:
    meeting = threading.Barrier(at_once)

    def fail(key: TrialKey, turn: int) -> None:
        if asked < 20:
            meeting.wait(10)
        if key.case_id not in answered:
            raise AgentFailed(AgentFailure(kind=kind, message="nobody is there"))

    agent = fakes.FakeAgent(fail)
    suites = (fakes.suite("b", *(fakes.case(f"c{number}") for number in range(20))),)
    with Journal.create(tmp_path / "j", about={}) as journal:
        session = session_of(concurrency=at_once)
        side = side_of(session, journal, agent, suites=suites)
        session.first(1)
        run = session.run(side)
        assert journal.trials == asked  # a resumed run asks the others
    assert len(agent.asked) == asked
    assert len(run.trials) == 20
    assert sum(not trial.attempts for trial in run.trials) == 20 - asked
    assert {trial.failure and trial.failure.message for trial in run.trials} - {None} == {
        "nobody is there"
    }


@pytest.mark.parametrize(
    "change",
    [
        {"environment": "v2"},  # another agent
        {
            "suites": (
                dataclasses.replace(
                    SUITES[0], agent=AgentUse(driver="fake", options={"path": "other"})
                ),
            )
        },
        {"suites": (fakes.suite("b", fakes.case("c0", "another question")),)},
    ],
)
def test_a_journal_of_something_else_is_not_used(tmp_path: Path, change: dict[str, object]) -> None:
    with Journal.create(tmp_path / "j", about=BEGUN) as journal:
        measured(journal, fakes.FakeAgent())
    agent = fakes.FakeAgent()
    with Journal.create(tmp_path / "now", about={}) as journal:
        run = measured(journal, agent, earlier=tmp_path / "j", **change)  # type: ignore[arg-type]
    assert len(agent.asked) == len(run.trials)


def test_a_new_criterion_grades_old_transcripts(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "j", about=BEGUN) as journal:
        measured(journal, fakes.FakeAgent())
    agent = fakes.FakeAgent()
    more = tuple(
        fakes.suite(suite.key, *suite.eval_set.cases, criteria=("m", "n")) for suite in SUITES
    )
    with Journal.create(tmp_path / "now", about={}) as journal:
        run = measured(journal, agent, suites=more, earlier=tmp_path / "j")
    assert agent.asked == []
    assert all(isinstance(trial.grades["n"], Score) for trial in run.trials)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (ZeroDivisionError("division by zero"), "raised ZeroDivisionError"),
        (Score(value=float("nan")), "not a valid score"),
        (Score(value=float("inf")), "not a valid score"),
        (Score(value=1e308), "gave 1e+308, not a valid score"),  # two of them cannot be added
    ],
)
def test_a_broken_criterion_is_unknown_and_not_zero(
    tmp_path: Path, value: object, words: str
) -> None:
    def broken(evidence: TrialView) -> Grade:
        if isinstance(value, Exception):
            raise value
        return value  # type: ignore[return-value]

    with Journal.create(tmp_path / "j", about={}) as journal:
        run = measured(journal, fakes.FakeAgent(), criterion=broken)
    grade = run.trials[0].grades["m"]
    assert isinstance(grade, NotEvaluated)
    assert grade.reason is Reason.CRITERION_FAILED
    assert words in grade.message


def test_a_failed_agent_leaves_every_criterion_unknown(tmp_path: Path) -> None:
    def misbehave(key: TrialKey, turn: int) -> None:
        if key.case_id == "c1":
            raise fakes.failed(FailureKind.KILLED, "killed by signal 9")

    with Journal.create(tmp_path / "j", about={}) as journal:
        run = measured(journal, fakes.FakeAgent(misbehave))
    broken = [trial for trial in run.trials if trial.failure]
    assert [trial.key.case_id for trial in broken] == ["c1", "c1"]
    assert all(
        isinstance(grade, NotEvaluated) and grade.reason is Reason.AGENT_FAILED
        for trial in broken
        for grade in trial.grades.values()
    )


def test_ctrl_c_keeps_what_is_done_and_blames_no_agent(tmp_path: Path) -> None:
    agent = fakes.FakeAgent()

    def misbehave(key: TrialKey, turn: int) -> None:
        if key.case_id == "c2":
            # pressed again, as people do, where Python lost one: in a destructor it may
            for waited in range(3_000):
                if waited % 500 == 0:
                    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                if agent.closed:
                    break
                threading.Event().wait(0.01)
            raise fakes.failed(FailureKind.EXITED, "closed")

    agent.misbehave = misbehave
    with Journal.create(tmp_path / "j", about=BEGUN) as journal:
        run = measured(journal, agent, repeats=1, concurrency=1)
    assert not run.complete
    assert [trial.key.case_id for trial in run.trials] == ["c0", "c1"]
    assert not any(isinstance(trial.failure, AgentFailure) for trial in run.trials)
    agent.misbehave = lambda key, turn: None
    with Journal.create(tmp_path / "now", about={}) as journal:
        assert measured(journal, agent, repeats=1, earlier=tmp_path / "j").complete
    assert [key.case_id for key in agent.asked].count("c0") == 1


def test_results_are_valid_json_of_the_published_schema(tmp_path: Path) -> None:
    def misbehave(key: TrialKey, turn: int) -> None:
        if turn == 2:
            raise fakes.failed(FailureKind.EXITED, "exited")

    with Journal.create(tmp_path / "j", about={}) as journal:
        run = measured(journal, fakes.FakeAgent(misbehave))
        policy = Policy()
        report = Report(
            run=run,
            verdict=verdict.decide(run, policy, comparison=None),
            policy=policy,
            display=Display(version="0"),
        )
        text = "".join(file.render_results(report, outcomes=journal))
    parsed = json.loads(text)
    jsonschema.validate(parsed, file.schema())
    again = file.ResultsFile.model_validate(parsed)
    assert [case.case_id for case in again.suites[0].cases] == ["c0", "c1", "c2", "c3"]
    assert again.suites[0].cases[0].trials[1].grades["m"].value == 1.0
    assert again.suites[1].cases[0].trials[0].outcome["kind"] == FailureKind.EXITED
    assert len(again.agent_details) == 1
    assert text.count('"instructions"') == 1  # transcripts once, what agents were told once
