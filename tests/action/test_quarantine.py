"""The quarantine in a workflow: a schedule watches the base branch, pull requests go by the base's
list."""

import datetime as dt
import json

import pytest
from builders.github_double import Double

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("in_this_process")]

AGENT = "command:python3 agent.py"
WRONG = "I do not know any capitals at all, sorry about that."


def gate_file(case: str, **more: str) -> str:
    until = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=20)
    entry = {"case": f"evals/geo.evalset.json:{case}", "owner": "@maria", "until": f"{until}"}
    return json.dumps({"threshold": "all", "quarantine": [entry], **more})


def scheduled(runner):
    runner.on("schedule", {"schedule": "0 4 * * *"}, GITHUB_REF="refs/heads/main")
    return runner.run(agent=AGENT)


def test_scheduled_runs_bring_a_broken_case_back(runner, double: Double) -> None:
    runner.write_gate(reference=WRONG)
    runner.write("evalgate.yml", gate_file("capital", **{"baseline-folder": ".evalgate-base"}))
    found = []
    for number in range(3):
        runner.check_out_main()
        assert scheduled(runner).code == 0
        runner.write("README.md", f"{number}")
        runner.check_out()
        step = runner.run(agent=AGENT)
        (comment,) = double.state.comments.values()
        found.append(
            (
                step.code,
                "1 quarantined case (non-blocking)</summary>" in comment["body"],
            )
        )
    assert (runner.workspace / ".evalgate-base/history.json").exists()
    assert found == [(0, True), (0, True), (1, False)]
    assert "failed its last 3 base runs" in comment["body"]
    assert any(
        line.startswith("::warning") and "failed its last 3 base runs" in line
        for line in step.commands()
    )


def test_a_pull_request_cannot_quarantine_its_own_failure(runner, double: Double) -> None:
    runner.write_gate(reference=WRONG)
    runner.write("evalgate.yml", "threshold: all\n")
    runner.check_out_main()
    runner.write("evalgate.yml", gate_file("capital"))
    runner.check_out()
    assert runner.run(agent=AGENT).code == 1
    (comment,) = double.state.comments.values()
    assert "`quarantine`: the base's evalgate.yml counts, not this change's" in comment["body"]
