"""Parts, the merge, the second workflow, a reviewed commit, pull_request_target: the step as a
runner starts it."""

import json
import shutil
from typing import Any

import pytest
from builders import forked_command, repositories
from builders.github_double import Double

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("in_this_process")]

AGENT = "command:python3 agent.py"
ANSWER = "Paris is the capital of France."
WRONG = "I do not know any capitals at all, sorry about that."


@pytest.fixture
def failing(runner):
    runner.write_gate(reference=WRONG)
    runner.check_out()
    return runner


def only(rows):
    (row,) = rows.values()
    return row


def test_a_part_says_nothing_to_anybody_and_the_merge_says_it_once(failing, double: Double) -> None:
    part = failing.run(agent=AGENT, baseline="none", shard="1/1", output="parts/1")
    assert (part.code, part.outputs["verdict"]) == (0, "fail")
    assert double.seen == []
    assert [line for line in part.commands() if line.startswith("::error")] == []
    assert "it reports no verdict" in part.summary
    asked = len(failing.asked())

    merged = failing.run(mode="merge", results="parts")
    assert (merged.code, merged.outputs["verdict"]) == (1, "fail")
    assert len(failing.asked()) == asked, "the merge runs no agent"
    check, comment = only(double.state.checks), only(double.state.comments)
    assert (check["name"], check["conclusion"], check["head_sha"]) == (
        "evalgate",
        "failure",
        failing.head,
    )
    assert "1 of 1 cases failed" in comment["body"]
    assert any(line.startswith("::error") for line in merged.commands())
    assert merged.outputs["results"] == "evalgate-report/results.json"


def test_parts_of_a_folder_are_merged_by_its_rules_from_where_artifacts_are_unpacked(
    runner, double: Double
) -> None:
    runner.write_gate(reference=WRONG)
    (runner.origin / "services" / "geo").mkdir(parents=True)
    for name in ("agent.py", "evals"):
        (runner.origin / name).rename(runner.origin / "services" / "geo" / name)
    runner.write("services/geo/evalgate.yml", "fail_on: []\n")
    runner.check_out()
    part = runner.run(agent=AGENT, baseline="none", shard="1/1", root="services/geo")
    assert part.outputs["results"] == "services/geo/evalgate-report/results.json"
    assert "--root services/geo" in part.summary, "it is typed at the top of the repository"
    (runner.workspace / "services/geo/evalgate-report").rename(runner.workspace / "parts")

    astray = runner.run(mode="merge", results="parts")
    assert astray.code == 2
    assert (
        "ran in `services/geo`, but this merge runs in the top of the repository"
        in astray.outputs["reason"]
    )
    nowhere = runner.run(mode="merge", results="part", root="services/geo")
    assert nowhere.code == 2
    assert "does not exist" in nowhere.outputs["reason"]

    merged = runner.run(mode="merge", results="parts", root="services/geo")
    assert (merged.code, merged.outputs["verdict"]) == (0, "fail"), (
        "its own evalgate.yml lets it pass"
    )
    (runner.workspace / "parts").rename(runner.workspace / "services/geo/parts")
    below = runner.run(mode="merge", results="parts", root="services/geo")
    assert (below.code, "does not exist" in below.outputs["reason"]) == (2, True)


def test_a_merge_without_any_part_is_not_measured_and_ends_the_check_run(
    failing, double: Double
) -> None:
    (failing.workspace / "parts").mkdir()
    step = failing.run(mode="merge", results="parts")
    assert step.code == 3
    assert only(double.state.checks)["conclusion"] == "failure"
    assert "no results.json of a shard" in step.outputs["reason"]


def forged(runner) -> bytes:
    """A part in which everything passes, of an agent that answered right and of a commit that is
    gone."""
    part = runner.run(agent=AGENT, baseline="none", shard="1/1", output="parts/1")
    assert part.outputs["verdict"] == "pass"
    return (runner.workspace / "parts/1/results.json").read_bytes()


def matrix(runner, **inputs) -> tuple[int, Any]:
    """docs/matrix.md with one part: the part's job, what upload-artifact and download-artifact do,
    the merge's job; the exit code of the part's job and the merge's step."""
    runner.write("agent.py", (runner.origin / "agent.py").read_text().replace(ANSWER, "wrong"))
    runner.check_out()
    part = runner.run(agent=AGENT, baseline="none", shard="1/1", **inputs)
    uploaded = runner.temp / "artifact"
    shutil.rmtree(uploaded, ignore_errors=True)
    if (runner.workspace / "evalgate-report").exists():
        shutil.copytree(runner.workspace / "evalgate-report", uploaded)
    runner._clone(runner.environment["GITHUB_SHA"], runner.environment["GITHUB_REF"])
    if uploaded.exists():
        shutil.copytree(uploaded, runner.workspace / "parts/evalgate-part-1", dirs_exist_ok=True)
    return part.code, runner.run(mode="merge", results="parts")


@pytest.mark.parametrize(
    ("place", "gate_file", "said"),
    [
        # where the artifact is unpacked, as a part that the job never uploaded
        ("parts/other/results.json", "", "is part of the commit, not a result of this workflow"),
        # under the name that the artifact has
        (
            "parts/evalgate-part-1/results.json",
            "",
            "is part of the commit, not a result of this workflow",
        ),
        # beside it, as what the part measured of the base, which is kept for later runs
        (
            "parts/evalgate-part-1/base-journal.jsonl",
            "",
            "is part of the commit, not a result of this workflow",
        ),
        # in the report folder, which is uploaded though the part's job ends before it writes there
        (
            "evalgate-report/results.json",
            "agents: 5",
            "is not of this workflow run: no run wrote it",
        ),
        # and though it writes elsewhere, by its own evalgate.yml
        ("evalgate-report/results.json", "output: elsewhere", "1 of 1 cases failed"),
    ],
)
def test_parts_that_a_commit_brings_along_are_not_believed(
    runner, double: Double, place: str, gate_file: str, said: str
) -> None:
    """The stock matrix workflow, and an agent that answers `wrong` to everything."""
    runner.write_gate(reference=ANSWER)
    runner.check_out()
    runner.environment["GITHUB_RUN_ID"] = ""  # made at a desk
    part = forged(runner)
    runner.environment["GITHUB_RUN_ID"] = "99"
    runner.write(place, part.decode())
    if gate_file:
        runner.write("evalgate.yml", gate_file)
    code, merged = matrix(runner)
    assert merged.outputs["verdict"] != "pass", merged.stdout
    assert merged.code in (1, 2)
    assert said in merged.outputs["reason"] + merged.summary, (code, merged.stdout)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            {"workflow_run": "o/r/actions/runs/98/attempts/1"},
            "it was written by o/r/actions/runs/98/attempts/1",
        ),
        ({"workflow_run": "o/other/actions/runs/99/attempts/1"}, "it was written by o/other/"),
        # an attempt that is still to come
        ({"workflow_run": "o/r/actions/runs/99/attempts/77"}, "attempts/77"),
        ({"workflow_run": "o/r/actions/runs/99/attempts/\u00b2"}, "it was written by"),
        ({"workflow_run": "o/r/actions/runs/99"}, "it was written by"),
        ({"workflow_run": ""}, "no run wrote it"),
        ({"commit": "e" * 40}, "is of eeeeeeeeeeee, this workflow run is of"),
    ],
)
def test_a_merge_takes_parts_of_its_own_workflow_run_and_commit_alone(
    failing, double: Double, told: dict[str, str], said: str
) -> None:
    """As a cache or another run's artifact would bring them. A part of an earlier attempt, which
    did not fail, is one: the other tests merge such."""
    assert failing.run(agent=AGENT, baseline="none", shard="1/1", output="parts/1").code == 0
    path = failing.workspace / "parts/1/results.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **told}))
    merged = failing.run(mode="merge", results="parts")
    assert (merged.code, merged.outputs["verdict"]) == (2, "error")
    assert said in merged.outputs["reason"]


def test_a_shard_that_the_command_line_measured_in_a_step_before_is_merged(
    failing, double: Double
) -> None:
    """docs/action.md, for agents that need more than the container has."""
    environment = {
        name: value for name, value in failing.surroundings().items() if value is not None
    }
    done = forked_command.run(
        ["run", "--no-isolate", "--shard", "1/1", "--output", "parts/1", "--agent", AGENT],
        cwd=failing.workspace,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    merged = failing.run(mode="merge", results="parts")
    assert (merged.code, merged.outputs["verdict"]) == (1, "fail"), merged.stdout


def on_workflow_run(runner, **run) -> None:
    about = {
        "id": 99,
        "run_attempt": 9,
        "head_sha": runner.head,
        "head_branch": "change",
        "event": "pull_request",
        "pull_requests": [],
    }
    about |= {"conclusion": "success", "head_repository": {"full_name": "mallory/r"}, **run}
    runner.on(
        "workflow_run",
        {"action": "completed", "workflow_run": about, "repository": {"full_name": "o/r"}},
    )


def test_the_second_workflow_posts_what_a_forks_run_found(failing, double: Double) -> None:
    failing.on_pull_request(fork="mallory/r")
    first = failing.run(agent=AGENT, baseline="none", comment="off")
    assert first.code == 1
    assert double.seen == []
    made, asked = (
        (failing.workspace / "evalgate-report/results.json").read_bytes(),
        len(failing.asked()),
    )
    double.state.add_artifact("evalgate", {"results.json": made}, run_id=99, head_sha=failing.head)
    double.state.add_pull(
        7, fork="mallory/r", head_sha=failing.head, head_ref="change", linked=False
    )

    on_workflow_run(failing)
    second = failing.run(mode="post")
    assert second.code == 0, second.stdout
    assert len(failing.asked()) == asked, "nothing of the pull request runs here"
    check, comment = only(double.state.checks), only(double.state.comments)
    assert comment["number"] == 7
    assert "They are unverified" in comment["body"]
    assert "1 of 1 cases failed" in comment["body"]
    assert (check["name"], check["conclusion"]) == ("evalgate (fork, unverified)", "failure")
    assert second.outputs["verdict"] == "fail"
    assert "They are unverified" in second.summary


@pytest.mark.parametrize(
    ("told", "said"),
    [
        # what the fork's commit brought along, uploaded because the run ended before it wrote
        ({"workflow_run": "", "commit": ""}, "no run wrote it"),
        (
            {"workflow_run": "o/r/actions/runs/98/attempts/1"},
            "it was written by o/r/actions/runs/98",
        ),
        ({"workflow_run": "o/r/actions/runs/99/attempts/12"}, "attempts/12"),
        ({"commit": "e" * 40}, "is of eeeeeeeeeeee"),
    ],
)
def test_the_second_workflow_posts_nothing_that_the_finished_run_did_not_write(
    failing, double: Double, told: dict[str, str], said: str
) -> None:
    assert failing.run(agent=AGENT, baseline="none", comment="off").code == 1
    made = json.loads((failing.workspace / "evalgate-report/results.json").read_text())
    double.state.add_artifact(
        "evalgate",
        {"results.json": json.dumps({**made, **told}).encode()},
        run_id=99,
        head_sha=failing.head,
    )
    double.state.add_pull(7, head_sha=failing.head, head_ref="change")
    double.state.checks.clear()
    on_workflow_run(failing, head_repository={"full_name": "o/r"})
    step = failing.run(mode="post")
    assert step.code == 2, step.stdout
    assert said in step.outputs["reason"]
    assert not double.state.comments
    assert not double.state.checks


@pytest.mark.parametrize(
    ("run", "inputs", "code", "words"),
    [
        ({"event": "push"}, {"mode": "post"}, 2, "was on push"),
        ({}, {}, 2, "no code of the fork may run here"),
        ({"conclusion": "skipped"}, {"mode": "post"}, 0, "has no results"),
        ({}, {"mode": "post"}, 0, "no open pull request has the head"),
    ],
)
def test_the_second_workflow_refuses_in_clear_words(
    failing, double: Double, run, inputs, code: int, words: str
) -> None:
    on_workflow_run(failing, **run)
    step = failing.run(agent=AGENT, **inputs)
    assert step.code == code, step.stdout
    assert words in step.stdout
    assert failing.asked() == []
    assert not double.state.comments


def test_pull_request_target_is_refused_and_says_what_to_do(failing, double: Double) -> None:
    failing.on_pull_request(fork="mallory/r", name="pull_request_target")
    step = failing.run(agent=AGENT, baseline="none")
    assert step.code == 2
    assert "pull_request_target is refused" in step.outputs["reason"]
    assert all(
        words in step.stdout for words in ("on: pull_request", "mode: post", "workflow_dispatch")
    )
    assert (failing.asked(), double.seen) == ([], [])


@pytest.mark.parametrize("is_change", [True, False])
def test_a_comment_runs_no_commit_that_nobody_reviewed(failing, *, is_change: bool) -> None:
    issue = {"number": 7, "pull_request": {"url": "https://api.github.invalid/pulls/7"}}
    if not is_change:
        failing._clone(failing.base, "refs/heads/main")
    failing.on("issue_comment", {"issue": issue}, GITHUB_REF="refs/heads/main", GITHUB_BASE_REF="")
    failing.environment["GITHUB_SHA"] = failing.base
    step = failing.run(agent=AGENT, baseline="none")
    assert bool(failing.asked()) is not is_change
    assert (step.code == 2) is is_change
    assert ("anybody can comment" in step.outputs["reason"]) is is_change
    assert ("workflow_dispatch" in step.summary) is is_change


def test_an_agent_sees_what_the_input_names_and_nothing_that_its_change_names(
    failing, double: Double
) -> None:
    """The input is the workflow's word, the base's file the next one."""
    failing.environment["DESK_KEY"] = "key-of-the-desk"
    failing.write("evalgate.yml", "env: [DESK_KEY]\n")
    failing.commit()
    failing.write("evalgate.yml", "env: ['*']\noutput: .github\n")
    failing.check_out()
    secrets = {"DESK_KEY", "OTHER_SECRET"}
    for inputs, seen in (({}, {"DESK_KEY"}), ({"env": "OTHER_SECRET"}, {"OTHER_SECRET"})):
        step = failing.run(agent=AGENT, baseline="none", **inputs)
        assert step.code == 1, step.stdout
        assert json.loads(failing.dump.read_text()).keys() & secrets == seen
        assert step.outputs["results"] == "evalgate-report/results.json"
        assert "`output`: the base's evalgate.yml counts" in step.stdout
    body = only(double.state.comments)["body"]
    assert "the base's evalgate.yml counts" in body


@pytest.mark.parametrize(
    ("key", "value"),
    [
        # actions/checkout before 6, and since
        ("http.https://github.invalid/.extraheader", "AUTHORIZATION: basic eA=="),
        (
            "includeIf.gitdir:/github/workspace/.git.path",
            "/github/runner_temp/git-credentials-1.config",
        ),
    ],
)
def test_a_checkout_that_keeps_its_token_is_warned_of(
    failing, double: Double, key: str, value: str
) -> None:
    assert "persist-credentials" not in failing.run(agent=AGENT, baseline="none").stdout
    repositories.git(failing.workspace, "config", key, value)
    step = failing.run(agent=AGENT, baseline="none")
    (warning,) = (line for line in step.commands() if "[token-in-checkout]" in line)
    assert warning.startswith(
        "::warning::the checkout keeps the job's token in git's configuration"
    )
    assert "persist-credentials: false" in warning
    assert "persist-credentials: false" in only(double.state.comments)["body"]


def on_dispatch(runner, *, sha: str = "") -> None:
    """A maintainer starts the workflow for pull request 7 and the commit that is checked out,
    detached."""
    runner._clone(runner.head, "refs/heads/change")
    inputs = {"pull-request": "7", "sha": sha or runner.head}
    payload = {
        "inputs": inputs,
        "ref": "refs/heads/main",
        "repository": {"full_name": "o/r", "default_branch": "main"},
    }
    runner.on(
        "workflow_dispatch",
        payload,
        GITHUB_REF="refs/heads/main",
        GITHUB_BASE_REF="",
        GITHUB_SHA=runner.base,
    )


def test_a_commit_that_a_maintainer_reviewed_runs_with_secrets_and_is_posted_to_its_pull_request(
    failing, double: Double
) -> None:
    on_dispatch(failing)
    double.state.add_pull(7, fork="mallory/r", head_sha=failing.head)
    double.state.pulls[7]["base"]["sha"] = failing.base
    failing.environment["KEY"] = "secret-of-the-repository"
    step = failing.run(agent=AGENT, env="KEY", threshold="all")

    assert step.code == 1, step.stdout
    assert "secret-of-the-repository" in failing.dump.read_text()
    assert len(failing.asked()) == 2, "head and base"
    check, comment = only(double.state.checks), only(double.state.comments)
    assert (check["name"], check["head_sha"], check["conclusion"]) == (
        "evalgate",
        failing.head,
        "failure",
    )
    assert comment["number"] == 7
    assert "1 of 1 cases failed" in comment["body"]
    assert failing.base[:7] in comment["body"]
    assert "unverified" not in comment["body"]


@pytest.mark.parametrize("reviewed", ["earlier", "another"])
def test_a_reviewed_commit_that_is_not_the_head_runs_where_it_is_of_the_pull_request(
    failing, double: Double, reviewed: str
) -> None:
    on_dispatch(failing)
    earlier = [failing.head] if reviewed == "earlier" else []
    double.state.add_pull(7, fork="mallory/r", head_sha="e" * 40, earlier=earlier)
    step = failing.run(agent=AGENT, baseline="none")
    if reviewed == "earlier":
        assert step.code == 1, step.stdout
        assert only(double.state.checks)["head_sha"] == failing.head
        return
    assert step.code == 2
    assert "is not a commit of pull request #7" in step.outputs["reason"]
    assert failing.asked() == []
    assert not double.state.checks


@pytest.mark.parametrize(
    ("sha", "inputs", "words"),
    [
        ("e" * 40, {}, "another commit is checked out"),
        ("abc1234", {}, "full commit SHA"),
        ("", {"github_token": ""}, "needs a token"),
    ],
)
def test_a_dispatch_that_does_not_name_what_is_checked_out_is_refused(
    failing, double: Double, sha: str, inputs: dict[str, str], words: str
) -> None:
    on_dispatch(failing, sha=sha)
    step = failing.run(agent=AGENT, baseline="none", **inputs)
    assert step.code == 2
    assert words in step.outputs["reason"]
    assert (failing.asked(), double.seen) == ([], [])
