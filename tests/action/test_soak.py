"""A long gate through the faults of an agent, a judge and GitHub: 240 trials, by night 5,000."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest
from builders import forked_command, gemini_double, soak
from builders.github_double import Double
from builders.nightly import NIGHTLY
from builders.soak import Judge, Plan, Watch

pytestmark = pytest.mark.integration

CASES = 1250 if NIGHTLY else 60
"""On two sides, in two tests."""
END_S = 1800.0
WORKFLOW = ("CI", "GITHUB_", "ACTIONS_", "RUNNER_", "INPUT_")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the agents write down each turn."""
    path = tmp_path / "turns"
    path.touch()
    return path


def check_out(runner, plan: Plan, judge: Judge, log: Path) -> str:
    """A pull request with the plan's agents. Returns the mark that its processes have."""
    for name, text in plan.files(judge.url).items():
        runner.write(name, text)
    runner.write("agent.py", plan.agent("base", log))
    runner.commit()
    runner.write("agent.py", plan.agent("head", log))
    runner.check_out()
    mark = uuid.uuid4().hex
    runner.environment |= {soak.MARK: mark, "GOOGLE_API_KEY": "a-key-of-nobody"}
    return mark


def expect_every_trial(report: Path, plan: Plan, log: Path, judge: Judge, *, kills: int) -> None:
    """Each trial is in the journal and in the results once, each turn in a trial, each verdict as
    planned. A kill cuts off as many trials as run at once."""
    lost = soak.turns(log)
    unused = Counter(judge.replies)
    for side in ("head", "base"):
        names, turns = soak.journaled(report, side)
        cases = soak.reported(report, side)
        assert sorted(soak.trials_of(cases)) == sorted(names)
        lost.subtract(turns)
        unused.subtract(soak.judged(cases, side))
    assert min(lost.values()) >= 0
    assert kills or not any(lost.values())
    assert min(unused.values()) >= 0, "no score without a reply"
    assert sum(unused.values()) <= kills * soak.CONCURRENCY, "no reply is paid for twice"
    cases = soak.reported(report, "head")
    assert {case["case_id"]: (case["verdict"], case.get("label", "")) for case in cases} == {
        f"case_{number}": plan.expected(number, lost) for number in range(plan.cases)
    }


def journaled(report: Path, *, reused: bool = True) -> Counter[str]:
    """The turns of both journals."""
    head, base = (soak.journaled(report, side, reused=reused)[1] for side in ("head", "base"))
    return head + base


def test_outages_of_all_change_no_verdict(runner, double: Double, log: Path) -> None:
    plan = Plan(cases=CASES, seed="1")
    double.fail("POST .*/check-runs", status=429, headers={"retry-after": "1"})
    double.fail("PATCH .*/check-runs", how="hang" if NIGHTLY else "reset", done=not NIGHTLY)
    double.fail("GET .*/comments", how="cut")
    double.fail("POST .*/comments", how="reset", done=True)
    with gemini_double.served(Judge(plan)) as judge:
        mark = check_out(runner, plan, judge, log)
        begun = runner.start()
        watch = Watch(begun.pid, log)
        watch.start()
        step = runner.ended(begun, timeout=END_S)
    assert soak.left_alone(mark)
    assert (step.code, step.outputs["verdict"]) == (0, "pass"), step.stdout
    expect_every_trial(runner.workspace / "evalgate-report", plan, log, judge, kills=0)
    watch.expect_no_growth(trials=2 * CASES)
    assert [check["conclusion"] for check in double.state.checks.values()] == ["success"]
    assert len(double.state.comments) == 1


def test_what_fails_for_good_fails_through_outages_and_a_kill(runner, log: Path) -> None:
    lasting = {3: "wrong", 5: "crash", 7: "wrong", 9: "limited", 11: "garbage"}
    plan = Plan(cases=CASES, seed="2", head=lasting, base={7: "wrong"}, unjudged=frozenset({14}))
    report = runner.workspace / "evalgate-report"

    def start(*options: str) -> subprocess.Popen[str]:
        environment = {
            name: value
            for name, value in runner.surroundings().items()
            if value is not None and not name.startswith(WORKFLOW)
        }
        command = ("run", "--base", runner.base, *options)
        return forked_command.console_script(
            command, cwd=runner.workspace, env=environment, merged=True
        )

    with gemini_double.served(Judge(plan)) as judge:
        mark = check_out(runner, plan, judge, log)
        command = start()
        while soak.turns(log).total() < CASES:
            assert command.poll() is None, command.communicate()
            time.sleep(soak.SAMPLE_S)
        command.kill()
        command.communicate()
        assert soak.left_alone(mark)
        before = soak.turns(log)
        cut_off = before - journaled(report)
        assert journaled(report) <= before
        assert len(cut_off) <= soak.CONCURRENCY, "what ran is cut off, and nothing else"

        command = start("--resume")
        watch = Watch(command.pid, log)
        watch.start()
        text, _ = command.communicate(timeout=END_S)
    assert soak.left_alone(mark)
    assert command.returncode == 1, text
    assert soak.turns(log) - before == journaled(report, reused=False)
    expect_every_trial(report, plan, log, judge, kills=1)
    watch.expect_no_growth(trials=CASES)
