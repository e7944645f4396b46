"""Parts, the merge, the second workflow and pull_request_target: the entrypoint with a runner's environment."""

import pytest
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

    merged = failing.run(mode="merge", results="parts")
    assert (merged.code, merged.outputs["verdict"]) == (1, "fail")
    assert len(failing.asked()) == 1, "the merge runs no agent"
    check, comment = only(double.state.checks), only(double.state.comments)
    assert (check["name"], check["conclusion"], check["head_sha"]) == ("evalgate", "failure", failing.head)
    assert "1 case failed" in comment["body"]
    assert any(line.startswith("::error") for line in merged.commands())
    assert merged.outputs["results"] == "evalgate-report/results.json"


def test_parts_of_a_folder_are_merged_by_its_rules_from_where_artifacts_are_unpacked(runner, double: Double) -> None:
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
    assert "of `services/geo`, this merge is of the top of the repository" in astray.outputs["reason"]
    nowhere = runner.run(mode="merge", results="part", root="services/geo")
    assert nowhere.code == 2
    assert "does not exist" in nowhere.outputs["reason"]

    merged = runner.run(mode="merge", results="parts", root="services/geo")
    assert (merged.code, merged.outputs["verdict"]) == (0, "fail"), "its own evalgate.yml lets it pass"
    (runner.workspace / "parts").rename(runner.workspace / "services/geo/parts")
    below = runner.run(mode="merge", results="parts", root="services/geo")
    assert (below.code, below.outputs["verdict"]) == (0, "fail")


def test_a_merge_without_any_part_is_not_measured_and_ends_the_check_run(failing, double: Double) -> None:
    (failing.workspace / "parts").mkdir()
    step = failing.run(mode="merge", results="parts")
    assert step.code == 3
    assert only(double.state.checks)["conclusion"] == "failure"
    assert "no results.json of any part" in step.outputs["reason"]


def on_workflow_run(runner, **run) -> None:
    about = {"id": 77, "head_sha": runner.head, "head_branch": "change", "event": "pull_request", "pull_requests": []}
    about |= {"conclusion": "success", "head_repository": {"full_name": "mallory/r"}, **run}
    runner.on("workflow_run", {"action": "completed", "workflow_run": about, "repository": {"full_name": "o/r"}})


def test_the_second_workflow_posts_what_a_forks_run_found(failing, double: Double) -> None:
    failing.on_pull_request(fork="mallory/r")
    first = failing.run(agent=AGENT, baseline="none", comment="off", check_run="false")
    assert first.code == 1
    assert double.seen == []
    made = (failing.workspace / "evalgate-report/results.json").read_bytes()
    double.state.add_artifact("evalgate", {"results.json": made}, run_id=77, head_sha=failing.head)
    double.state.add_pull(7, fork="mallory/r", head_sha=failing.head, head_ref="change", linked=False)

    on_workflow_run(failing)
    second = failing.run(mode="post")
    assert second.code == 0, second.stdout
    assert len(failing.asked()) == 1, "nothing of the pull request runs here"
    check, comment = only(double.state.checks), only(double.state.comments)
    assert comment["number"] == 7
    assert "read them as a claim" in comment["body"]
    assert "1 case failed" in comment["body"]
    assert (check["name"], check["conclusion"]) == ("evalgate (fork, unverified)", "failure")
    assert second.outputs["verdict"] == "fail"
    assert "read them as a claim" in second.summary


@pytest.mark.parametrize(
    ("run", "inputs", "code", "words"),
    [
        ({"event": "push"}, {"mode": "post"}, 2, "was on push"),
        ({}, {}, 2, "no code of the fork may run here"),
        ({"conclusion": "skipped"}, {"mode": "post"}, 0, "measured nothing"),
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


@pytest.mark.parametrize(
    ("inputs", "code", "words"),
    [
        ({}, 2, "pull_request_target is refused"),
        ({"allow_pull_request_target": "true"}, 2, "judges are asked where"),
        ({"allow_pull_request_target": "true", "skip_judged": "true", "env": "KEY"}, 2, "`env` hands KEY"),
        ({"allow_pull_request_target": "true", "skip_judged": "true"}, 1, ""),
    ],
)
def test_pull_request_target_runs_nothing_that_could_see_a_secret(failing, inputs, code: int, words: str) -> None:
    failing.on_pull_request(fork="mallory/r", name="pull_request_target")
    step = failing.run(agent=AGENT, baseline="none", **inputs)
    assert step.code == code, step.stdout
    assert words in step.stdout
    assert bool(failing.asked()) is (code == 1)


@pytest.mark.parametrize(
    ("role", "pushed", "checked_out", "code", "words"),
    [
        ("write", False, True, 1, ""),  # it runs, and the case fails
        ("read", False, True, 2, "may not write to the repository"),
        ("write", True, True, 2, "there was a push after the label"),
        ("write", False, False, 2, "another commit is checked out"),
    ],
)
def test_one_commit_runs_with_secrets_when_a_maintainer_labels_it(
    failing, double: Double, role: str, pushed, checked_out, code: int, words: str
) -> None:
    if checked_out:
        failing._clone(failing.head, "refs/heads/change")
    double.state.add_pull(7, fork="mallory/r", head_sha="e" * 40 if pushed else failing.head)
    double.state.roles["ada"] = role
    pull = {"number": 7, "head": {"sha": failing.head, "ref": "change", "repo": {"full_name": "mallory/r"}}}
    pull["base"] = {"sha": failing.base, "ref": "main", "repo": {"full_name": "o/r"}}
    payload = {"action": "labeled", "label": {"name": "safe"}, "sender": {"login": "ada"}, "pull_request": pull}
    failing.on("pull_request_target", payload)
    failing.environment["KEY"] = "secret-of-the-repository"
    step = failing.run(agent=AGENT, baseline="none", allow_pull_request_target="true", approve_label="safe", env="KEY")
    assert step.code == code, step.stdout
    assert words in step.stdout
    assert bool(failing.asked()) is (code == 1)
    if code == 1:
        assert "secret-of-the-repository" in failing.dump.read_text()
        assert only(double.state.checks)["head_sha"] == failing.head


@pytest.mark.parametrize(
    ("approved", "pushed", "code", "words"),
    [
        (["safe"], False, 1, ""),  # it runs, and the case fails
        # an environment without reviewers holds no job back
        ([], False, 2, "no reviewer of the environment `safe` has approved this run"),
        (["other"], False, 2, "no reviewer of the environment `safe`"),
        (["safe"], True, 2, "there was a push after the run was approved"),
    ],
)
def test_one_commit_runs_with_secrets_when_the_reviewers_of_an_environment_let_its_run_go(
    failing, double: Double, approved: list[str], pushed, code: int, words: str
) -> None:
    failing._clone(failing.head, "refs/heads/change")
    double.state.add_pull(7, fork="mallory/r", head_sha="e" * 40 if pushed else failing.head)
    for environment in approved:
        double.state.add_approval(int(failing.surroundings()["GITHUB_RUN_ID"] or 0), environment, "ada")
    failing.on_pull_request(fork="mallory/r", name="pull_request_target")
    failing.environment["KEY"] = "secret-of-the-repository"
    step = failing.run(
        agent=AGENT, baseline="none", allow_pull_request_target="true", approve_environment="safe", env="KEY"
    )
    assert step.code == code, step.stdout
    assert words in step.stdout
    assert bool(failing.asked()) is (code == 1)
