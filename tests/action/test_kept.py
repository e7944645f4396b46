"""What the action `gate` keeps in the cache of a pull request, and which run may use it."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import identity_double, repositories
from builders.identity_double import BEARER

from evalgate.model import Drift
from evalgate.results import history
from tests.action.conftest import ANSWER, NUMBER, REPOSITORY, Runner, Step

WRONG = "It is not known what the capital is."
KEPT = ".cache/evalgate/store"


class Job:
    """Jobs of one repository by the action `gate`: checkout, restore, the gate, and a save whatever
    came of it."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.saved: dict[str, dict[str, bytes]] = {}
        self.number = 99

    def push(self, *, wrong: bool = False, remark: str = "", **files: str) -> None:
        """A new commit on the pull request, and its workflow run. `remark`: in the agent's own
        file."""
        self.write(wrong=wrong, **files)
        if remark:
            self.runner.write(
                "agent.py", f"{(self.runner.origin / 'agent.py').read_text()}# {remark}\n"
            )
        self.runner.check_out()
        self.number, self.runner.attempts = self.number + 1, 0

    def write(self, *, wrong: bool = False, **files: str) -> None:
        self.runner.write_gate(reference=ANSWER, answer=WRONG if wrong else ANSWER)
        for name, text in files.items():
            self.runner.write(name.replace("__", "/"), text)

    def run(self) -> tuple[Step, int]:
        """The step and how often an agent was asked in it; each call is one attempt more."""
        runner, asked = self.runner, len(self.runner.asked())
        runner.environment["GITHUB_RUN_ID"] = str(self.number)
        ref, folder = runner.environment["GITHUB_REF"], runner.workspace / KEPT
        shutil.rmtree(folder, ignore_errors=True)
        restored = self.saved.get(str(ref))
        if restored is not None:
            write(folder, restored)
        step = runner.run(
            agent="command:python3 agent.py", cache=".cache/evalgate", github_token=""
        )
        if folder.is_dir():
            self.saved[str(ref)] = {
                path.relative_to(folder).as_posix(): path.read_bytes()
                for path in folder.rglob("*.*")
            }
        return step, len(runner.asked()) - asked


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.fixture
def job(quiet_runner: Runner, in_this_process: None) -> Job:
    made = Job(quiet_runner)
    made.write()
    quiet_runner.write("README.md", "An agent.\n")
    quiet_runner.write(".gitignore", "evalgate-report/\n.cache/\ndata/\n")
    quiet_runner.commit()
    return made


def comment(job: Job) -> str:
    return (job.runner.workspace / "evalgate-report/comment.md").read_text(encoding="utf-8")


def test_a_job_that_is_run_again_asks_nobody_and_says_the_same(job: Job) -> None:
    job.push(wrong=True)
    first, asked = job.run()
    assert (first.code, asked) == (1, 2 + 2 * 5)  # both sides, and five pairs
    for _ in range(2):
        again, asked = job.run()
        assert (again.code, asked) == (1, 0), again.stdout
        assert again.outputs["reason"] == first.outputs["reason"]
        assert "reused from earlier runs" in again.stdout


def test_an_agent_that_crashes_is_compared_with_a_base_of_the_same_moment(job: Job) -> None:
    """Its failures are not reused, so neither are the base's halves of their pairs."""
    agent = (job.runner.origin / "agent.py").read_text().replace("sessions=4", "sessions=1")
    # whether a crash comes before or after the question of another session is chance
    job.push(**{"agent.py": agent.replace("part =", "sys.exit(1)\n            part =")})
    first, asked = job.run()
    again, asked_again = job.run()
    assert (first.code, asked) == (1, 2 + 2 * 5), first.stdout
    # main's first run is reused, and so no bet: one pair more
    assert (again.code, asked_again) == (1, 1 + 2 * 6), again.stdout


def test_where_github_signs_nothing_else_is_believed(job: Job) -> None:
    """A step of another job may write the cache, but has no token of GitHub's for it."""
    with identity_double.issuer() as issuer:
        job.runner.environment |= {
            "GITHUB_SERVER_URL": issuer.url,
            "ACTIONS_ID_TOKEN_REQUEST_URL": issuer.request_url,
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": BEARER,
        }
        job.push()
        ref = str(job.runner.environment["GITHUB_REF"])
        issuer.claims = {"repository": REPOSITORY, "ref": ref}
        for expected in (1, 0):
            step, asked = job.run()
            assert (step.code, asked) == (0, expected), step.stdout
        job.saved[ref] = {
            name: data for name, data in job.saved[ref].items() if not name.endswith(".jwt")
        }
        step, asked = job.run()
        assert (step.code, asked) == (0, 1), step.stdout
        assert "this repository's runs did not write it" in step.stdout


def test_a_new_case_of_a_job_that_is_run_again_is_not_tried_again(job: Job) -> None:
    turn = {
        "user_content": {"role": "user", "parts": [{"text": "And of Paris?"}]},
        "final_response": {"role": "model", "parts": [{"text": ANSWER}]},
    }
    new = {"eval_set_id": "new", "eval_cases": [{"eval_id": "new", "conversation": [turn]}]}
    job.push(**{"evals__new.evalset.json": json.dumps(new)})
    for expected in (2 + 1, 0):  # the case of main on both sides, the new one once
        step, asked = job.run()
        assert (step.code, asked) == (0, expected), step.stdout


def test_a_commit_that_does_not_touch_the_agent_asks_nobody_again(job: Job) -> None:
    job.push(wrong=True)
    job.run()
    job.push(
        wrong=True, **{"evals__test_config.json": '{"criteria": {"response_match_score": 0.90}}'}
    )
    step, asked = job.run()
    assert (step.code, asked) == (1, 0), step.stdout
    # and the agent as it was on main, which ran beside the other
    job.push(**{"evals__test_config.json": '{"criteria": {"response_match_score": 0.900}}'})
    step, asked = job.run()
    assert (step.code, asked) == (0, 0), step.stdout
    assert "This change does not touch the agent." in comment(job)


def test_what_was_measured_is_kept_of_a_job_that_was_cancelled(quiet_runner: Runner) -> None:
    job = Job(quiet_runner)
    turns = [
        {"eval_id": name, "conversation": [{
            "user_content": {"role": "user", "parts": [{"text": text}]},
            "final_response": {"role": "model", "parts": [{"text": ANSWER}]},
        }]}
        for name, text in (("one", "the first"), ("two", "wait for it"))
    ]  # fmt: skip
    job.write()
    quiet_runner.write("evals/geo.evalset.json", {"eval_set_id": "geo", "eval_cases": turns})
    quiet_runner.write("evalgate.yml", "concurrency: 1\n")
    quiet_runner.check_out()
    cache, agent = str(quiet_runner.temp / "cache"), "command:python3 agent.py"
    begun = {"agent": agent, "cache": cache, "baseline": "none", "github_token": ""}
    step = quiet_runner.run_cancelled(lambda: len(quiet_runner.asked()) == 2, **begun)
    assert step.code == 130
    (quiet_runner.temp / "asked.log").unlink()
    step = quiet_runner.run_cancelled(quiet_runner.asked, **begun)
    assert quiet_runner.asked() == [ANSWER]  # the second, which never ended


Change = Callable[[Job], Any]


def rewrite(job: Job, change: Callable[[str, bytes], tuple[str, bytes]]) -> None:
    for ref, files in job.saved.items():
        job.saved[ref] = dict(change(name, data) for name, data in files.items())


def edit(name: str, text: str) -> Change:
    return lambda job: job.push(wrong=True, **{name: text})


def environment(name: str, value: str) -> Change:
    return lambda job: job.runner.environment.__setitem__(name, value)


def of_another(job: Job) -> None:
    """The files of another pull request, wherever they come from."""
    files = job.saved[f"refs/pull/{NUMBER}/merge"]
    job.runner.environment["GITHUB_REF"] = "refs/pull/8/merge"
    job.saved["refs/pull/8/merge"] = files


def from_a_fork(job: Job) -> None:
    job.runner.on_pull_request(fork="somebody/r")


def on_schedule(job: Job) -> None:
    """How is the agent today, compared with a commit that is named."""
    job.runner.on("schedule", {"repository": {"full_name": REPOSITORY}}, INPUT_BASE=job.runner.base)


def committed(job: Job) -> None:
    """What the change brings along itself."""
    files = job.saved.popitem()[1]
    write(job.runner.origin / KEPT, files)
    repositories.git(job.runner.origin, "add", "-f", KEPT)
    job.write(wrong=True)
    job.runner.check_out()


@pytest.mark.parametrize(
    ("change", "runs"),
    [
        (lambda _: None, False),
        (edit("README.md", "Another agent.\n"), False),
        (lambda job: job.push(wrong=True, remark="another agent"), True),
        # a file more, which an agent of another language may have looked for in vain
        (edit("CHANGELOG.md", "- nothing\n"), True),
        (edit(".prompts__system.txt", "Be brief."), True),
        (edit("requirements.txt", "google-adk\n"), True),
        # what is given to it: a variable, its value, a limit
        # the base's `env` counts
        (lambda job: job.push(wrong=True, **{"evalgate.yml": "env: MODEL\n"}), False),
        (lambda job: job.push(wrong=True, **{"evalgate.yml": "turn-timeout: 20\n"}), True),
        (environment("GOOGLE_CLOUD_LOCATION", "nowhere"), True),
        (environment("LC_ALL", "de_DE.UTF-8"), True),
        # who wrote it
        (of_another, True),
        (from_a_fork, True),
        (on_schedule, True),
        (committed, True),
        (environment("INPUT_STORE-KEY", "another key than it was signed with"), True),
        # a key that is rotated is no other agent
        (environment("GOOGLE_API_KEY", "another-key"), False),
        (lambda job: rewrite(job, lambda name, data: (name, data[:-9] + b"x" + data[-8:])), True),
        (
            lambda job: rewrite(
                job, lambda name, data: (re.sub("-[0-9a-f]{64}", "-" + "0" * 64, name), data)
            ),
            True,
        ),
    ],
)
def test_only_what_is_known_to_be_the_same_is_not_run_again(
    job: Job, change: Change, *, runs: bool
) -> None:
    job.push(wrong=True)
    job.run()
    change(job)
    step, asked = job.run()
    assert step.code == 1, step.stdout
    assert (asked > 0) is runs, step.stdout


@pytest.mark.parametrize(
    ("since", "runs"), [("2020-01-01T00:00:00+00:00", False), ("2999-01-01T00:00:00+00:00", True)]
)
def test_nothing_is_used_from_before_the_model_moved(job: Job, since: str, *, runs: bool) -> None:
    job.runner.write("evalgate.yml", "baseline-folder: data\n")
    job.runner.commit()
    job.push(wrong=True)
    job.run()
    drift = Drift(since=since, before=1.0, after=0.2, evidence=1e6)
    run = history.PastRun(number=1, commit="c" * 40, at=since, agent="one", drift=drift)
    folder = job.runner.workspace / "data"
    folder.mkdir(exist_ok=True)
    (folder / "history.json").write_bytes(history.render_history(history.PastRuns(runs=(run,))))
    step, asked = job.run()
    assert step.code == 1, step.stdout
    assert (asked > 0) is runs, step.stdout


def test_secrets_are_in_nothing_that_is_kept(job: Job) -> None:
    job.push(wrong=True)
    job.runner.environment["INPUT_ENV"] = "OTHER_SECRET"
    job.run()
    (files,) = job.saved.values()
    assert files
    texts = [gzip.decompress(data).decode() for data in files.values() if data[:2] == b"\x1f\x8b"]
    assert texts
    for text in texts:
        assert "key-that" not in text
        # the store's own line, then the run's first one
        assert json.loads(text.splitlines()[1])["workflow_run"].startswith(
            f"{REPOSITORY}/actions/runs/100/"
        )


def test_each_other_agent_of_a_pull_request_takes_twice_the_evidence(job: Job) -> None:
    for number, needed in enumerate(("20 : 1", "40 : 1", "80 : 1")):
        job.push(wrong=True, remark=f"try {number}")
        step, _ = job.run()
        assert step.code == 1
        body = comment(job)
        assert f"({needed} blocks)" in body
        assert ("other version" in body) is bool(number)
    # the same one again goes on with its own
    step, asked = job.run()
    assert (step.code, asked) == (1, 0)
    assert "(80 : 1 blocks)" in comment(job)


@pytest.mark.parametrize(
    "inputs",
    [
        # two agents that have the same names in their own folders, as copies of a template do
        ({"root": "first"}, {"root": "second"}),
        ({"root": "first", "name": "a"}, {"root": "second", "name": "b"}),
        # of one folder, by other cases
        ({"paths": "first", "name": "a"}, {"paths": "second", "name": "b"}),
    ],
)
def test_two_gates_of_a_job_use_nothing_of_each_other(
    quiet_runner: Runner, in_this_process: None, inputs: tuple[dict[str, str], ...]
) -> None:
    for folder in ("first", "second"):
        answer = WRONG if folder == "first" else ANSWER
        quiet_runner.write_gate(reference=ANSWER, answer=answer)
        for name in ("agent.py", "evals"):
            (quiet_runner.origin / folder).mkdir(exist_ok=True)
            shutil.move(quiet_runner.origin / name, quiet_runner.origin / folder / name)
    quiet_runner.check_out()
    quiet_runner.environment["INPUT_GITHUB-TOKEN"] = ""
    for code, gate in zip((1, 0), inputs, strict=True):
        program = "agent.py" if "root" in gate else f"{gate['paths']}/agent.py"
        asked = len(quiet_runner.asked())
        step = quiet_runner.run(agent=f"command:python3 {program}", cache=".cache", **gate)
        assert step.code == code, step.stdout
        assert len(quiet_runner.asked()) > asked, step.stdout
        assert "other version" not in step.stdout
