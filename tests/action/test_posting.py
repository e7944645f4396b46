"""What a pull request is told: the entrypoint with a runner's environment, against a GitHub that
remembers."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from builders.github_double import Double

from evalgate.gate import run
from evalgate.github import client, publish

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("in_this_process")]

AGENT = "command:python3 agent.py"
ANSWER = "Paris is the capital of France."
WRONG = "I do not know any capitals at all, sorry about that."


@pytest.fixture
def passing(runner):
    runner.write_gate(reference=ANSWER)
    runner.check_out()
    return runner


@pytest.fixture
def failing(runner):
    runner.write_gate(reference=WRONG)
    runner.check_out()
    return runner


def only(rows):
    (row,) = rows.values()
    return row


def told(step) -> str:
    """The warnings and notices of a step."""
    return "\n".join(step.commands())


def test_a_pull_request_gets_one_comment_and_one_check_run_of_its_own_commit(
    passing, double: Double
) -> None:
    step = passing.ended(passing.start(agent=AGENT, baseline="none"))

    check, comment = only(double.state.checks), only(double.state.comments)
    assert (step.code, step.outputs["verdict"]) == (0, "pass")
    assert check["head_sha"] == passing.head != passing.environment["GITHUB_SHA"]
    assert (check["name"], check["status"], check["conclusion"]) == (
        "evalgate",
        "completed",
        "success",
    )
    assert check["details_url"] == "https://github.invalid/o/r/actions/runs/99"
    assert "pass" in check["output"]["title"]
    assert (comment["number"], comment["user"]["login"]) == (7, "github-actions[bot]")
    assert "response_match_score" in comment["body"]
    assert double.calls("check-runs")[0] == "POST /check-runs"


def test_a_second_run_updates_what_the_first_one_said(failing, double: Double) -> None:
    failing.run(agent=AGENT, baseline="none")
    first = dict(only(double.state.comments))
    failing.write_gate(reference=ANSWER)
    failing.check_out()
    failing.environment["GITHUB_RUN_ID"] = "100"
    failing.run(agent=AGENT, baseline="none")

    comment = only(double.state.comments)
    assert comment["id"] == first["id"]
    assert "1 of 1 cases failed" in first["body"]
    assert "1 case failed" not in comment["body"]
    checks = list(double.state.checks.values())
    assert [(each["name"], each["conclusion"]) for each in checks] == [
        ("evalgate", "failure"),
        ("evalgate", "success"),
    ]
    assert checks[0]["head_sha"] != checks[1]["head_sha"] == failing.head


def test_a_run_again_of_the_same_commit_makes_a_new_check_run_of_the_same_name(
    failing, double: Double
) -> None:
    # GitHub lets no completed check run go back to "in progress", and counts the newest of a name
    failing.run(agent=AGENT, baseline="none")
    failing.environment["GITHUB_RUN_ATTEMPT"] = "2"
    failing.run(agent=AGENT, baseline="none", fail_on="not_measured")

    first, second = (double.state.checks[number] for number in sorted(double.state.checks))
    assert (
        (first["name"], first["head_sha"])
        == (second["name"], second["head_sha"])
        == ("evalgate", failing.head)
    )
    assert (first["conclusion"], second["conclusion"]) == ("failure", "neutral")
    assert not [
        call for call in double.calls("PATCH .*check-runs/") if call.endswith(str(first["id"]))
    ][1:]
    assert len(double.state.comments) == 1


@pytest.mark.parametrize(
    ("inputs", "conclusion", "code"),
    [
        ({"baseline": "none"}, "failure", 1),
        # what the policy lets through blocks no required check
        ({"baseline": "none", "fail_on": "not_measured"}, "neutral", 0),
        # somebody has to mend the agent
        ({"baseline": "none", "agent": "command:python3 no_such_agent.py"}, "action_required", 3),
        (
            {
                "baseline": "none",
                "agent": "command:python3 no_such_agent.py",
                "fail_on": "threshold",
            },
            "neutral",
            0,
        ),
        # a case that fails on the base as well is no regression, and below its threshold
        ({}, "failure", 1),
    ],
)
def test_the_check_run_ends_as_the_verdict_says(
    failing, double: Double, inputs, conclusion: str, code: int
) -> None:
    step = failing.run(**{"agent": AGENT, **inputs})

    check = only(double.state.checks)
    assert (check["conclusion"], step.code) == (conclusion, code), step.stdout
    assert check["output"]["title"]
    if conclusion == "failure":
        assert check["annotations"][0]["path"] == "evals/geo.evalset.json"


def test_an_inconclusive_verdict_is_neutral(runner, double: Double) -> None:
    runner.write_gate(reference=ANSWER)
    runner.write("agent.py", "raise SystemExit('the agent of main is broken')\n")
    runner.check_out_main()
    runner.write_gate(reference=ANSWER)
    runner.check_out()
    step = runner.run(agent=AGENT)

    assert (step.code, step.outputs["verdict"]) == (0, "inconclusive")
    assert only(double.state.checks)["conclusion"] == "neutral"


@pytest.mark.parametrize("fork", ["someone/r", None], ids=["fork", "deleted fork"])
def test_a_forks_pull_request_posts_nothing_and_says_why(
    passing, double: Double, fork: str | None
) -> None:
    passing.on_pull_request(fork=fork)
    step = passing.run(agent=AGENT, baseline="none")

    assert (step.code, step.outputs["verdict"]) == (0, "pass")
    assert "comes from a fork" in told(step)
    assert double.seen == []
    assert "response_match_score" in step.summary


def test_without_a_token_nothing_is_posted_and_it_says_so(passing, double: Double) -> None:
    step = passing.run(agent=AGENT, baseline="none", github_token="")

    assert step.code == 0
    assert "There is no token" in told(step)
    assert double.seen == []


def test_a_token_that_is_none_is_a_warning_that_does_not_show_it(passing, double: Double) -> None:
    step = passing.run(agent=AGENT, baseline="none", github_token="sch\u00f6n \u2603 gesagt")

    assert step.code == 0
    assert "not-posted" in told(step)
    assert "gesagt" not in step.stdout + step.stderr
    assert double.seen == []


def test_a_merge_group_is_compared_with_its_base_and_gets_a_check_run(
    passing, double: Double
) -> None:
    group = {"base_sha": passing.base, "head_sha": passing.head, "base_ref": "refs/heads/main"}
    passing._clone(passing.head, "refs/heads/gh-readonly-queue/main/pr-7")
    passing.on(
        "merge_group",
        {"merge_group": {**group, "head_ref": "refs/heads/gh-readonly-queue/main/pr-7"}},
    )
    step = passing.run(agent=AGENT)

    assert step.code == 0, step.stdout + step.stderr
    assert passing.base[:7] in step.stdout
    assert passing.asked() == [ANSWER, ANSWER]
    assert only(double.state.checks)["head_sha"] == passing.head
    assert double.state.comments == {}


@pytest.mark.parametrize("name", ["schedule", "workflow_dispatch", "repository_dispatch"])
def test_events_without_a_change_run_without_a_base(passing, double: Double, name: str) -> None:
    passing.on(
        name,
        {"repository": {"default_branch": "main"}},
        GITHUB_REF="refs/heads/main",
        GITHUB_BASE_REF="",
    )
    passing._clone(passing.base, "refs/heads/main")
    step = passing.run(agent=AGENT)

    assert (step.code, step.outputs["verdict"]) == (0, "pass"), step.stdout + step.stderr
    assert passing.asked() == [ANSWER]
    assert double.seen == []


def test_outside_github_everything_but_the_api_works(passing, double: Double) -> None:
    for name in (
        "ACTIONS",
        "API_URL",
        "EVENT_NAME",
        "EVENT_PATH",
        "OUTPUT",
        "STEP_SUMMARY",
        "ENV",
        "JOB",
        "REF",
        "SHA",
    ):
        passing.environment[f"GITHUB_{name}"] = None
    for name in ("REPOSITORY", "RUN_ID", "SERVER_URL", "WORKFLOW", "WORKSPACE", "BASE_REF"):
        passing.environment[f"GITHUB_{name}"] = None
    passing.environment |= {
        "CI": "true",
        "GITLAB_CI": "true",
        "CI_MERGE_REQUEST_IID": "7",
        "INPUT_GITHUB-TOKEN": None,
    }
    step = passing.run(agent=AGENT)

    assert step.code == 0, step.stdout + step.stderr
    written = {path.name for path in (passing.workspace / "evalgate-report").iterdir()}
    assert {"junit.xml", "comment.md", "report.html", "results.json"} <= written
    assert double.seen == []


def test_files_that_cannot_be_read_end_the_check_run_and_take_back_what_stood_there(
    passing, double: Double
) -> None:
    passing.run(agent=AGENT, baseline="none")
    passing.write("evals/geo.evalset.json", "{")
    passing.check_out()
    passing.environment["GITHUB_RUN_ID"] = "100"
    step = passing.run(agent=AGENT, baseline="none")

    check = list(double.state.checks.values())[-1]
    assert step.code == 2
    assert (check["status"], check["conclusion"], check["head_sha"]) == (
        "completed",
        "failure",
        passing.head,
    )
    assert "no verdict" in check["output"]["title"]
    body = only(double.state.comments)["body"]
    assert "No verdict" in body
    assert "100%" not in body


def test_settings_that_cannot_be_read_take_back_what_stood_there(passing, double: Double) -> None:
    passing.run(agent=AGENT, baseline="none")
    passing.check_out()
    passing.environment["GITHUB_RUN_ID"] = "100"
    step = passing.run(agent=AGENT, baseline="none", runs="many")

    check = list(double.state.checks.values())[-1]
    assert step.code == 2
    assert (check["conclusion"], check["head_sha"]) == ("failure", passing.head)
    assert "`runs`" in check["output"]["summary"]
    body = only(double.state.comments)["body"]
    assert "No verdict" in body
    assert "100%" not in body


def test_settings_that_cannot_be_read_are_posted_where_evalgate_yml_says(
    passing, double: Double
) -> None:
    passing.write("evalgate.yml", "name: billing\ncheck-run: false\n")
    passing.check_out_main()
    passing.write("prompt.txt", "Be brief.")
    passing.check_out()
    passing.run(agent=AGENT, baseline="none")
    passing.environment["GITHUB_RUN_ID"] = "100"
    step = passing.run(agent=AGENT, baseline="none", runs="many")

    assert step.code == 2
    assert not double.state.checks
    body = only(double.state.comments)["body"]
    assert "billing" in body
    assert "No verdict" in body


def test_shards_that_cannot_be_merged_by_such_settings_take_back_what_stood_there(
    passing, double: Double
) -> None:
    passing.run(agent=AGENT, baseline="none", shard="1/1")
    (passing.workspace / "evalgate-report").rename(passing.workspace / "shards")
    passing.run(agent=AGENT, baseline="none", mode="merge", results="shards")
    assert "100%" in only(double.state.comments)["body"]
    passing.environment["GITHUB_RUN_ID"] = "100"
    step = passing.run(agent=AGENT, mode="merge", results="shards", runs="many")

    assert step.code == 2
    body = only(double.state.comments)["body"]
    assert "No verdict" in body
    assert "100%" not in body


def test_the_verdict_of_another_run_is_not_taken_back(passing, double: Double) -> None:
    passing.run(agent=AGENT, baseline="none")
    passing.environment["GITHUB_RUN_ID"] = "100"
    step = passing.run(mode="post")

    assert step.code == 2
    assert "100%" in only(double.state.comments)["body"]
    assert only(double.state.checks)["conclusion"] == "success"


def test_a_secret_in_an_input_that_cannot_be_read_is_not_posted(passing, double: Double) -> None:
    secret = passing.surroundings()["GOOGLE_API_KEY"]
    step = passing.run(agent=AGENT, baseline="none", runs=secret)

    assert step.code == 2
    check, comment = only(double.state.checks), only(double.state.comments)
    for text in (check["output"]["summary"], check["output"]["title"], comment["body"]):
        assert secret not in text
    assert "found '***'" in comment["body"]


@pytest.mark.parametrize("name", ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"])
def test_a_step_that_cannot_write_its_files_posts_no_pass(
    passing, double: Double, name: str
) -> None:
    passing.environment[name] = str(passing.temp)  # a folder
    step = passing.run(agent=AGENT, baseline="none")

    assert step.code == 3
    check = only(double.state.checks)
    assert check["conclusion"] == "action_required"
    assert check["output"]["title"].startswith("no verdict: the job's summary or the step's")
    assert only(double.state.comments)["body"].count("No verdict") == 1


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("evals/geo.evalset.json", "{", "`evals/geo.evalset.json:1:2`"),
        # what to do
        ("evalgate.yml", "threshhold: all\n", "*Did you mean `threshold`?*"),
    ],
)
@pytest.mark.parametrize("fork", ["", "someone/r"], ids=["", "fork"])
def test_why_there_is_no_verdict_stands_where_the_verdict_would(
    passing, double: Double, name: str, text: str, words: str, fork: str
) -> None:
    passing.write(name, text)
    passing.check_out()
    passing.on_pull_request(fork=fork)
    step = passing.run(agent=AGENT, baseline="none")

    assert (step.code, step.outputs["verdict"]) == (2, "error")
    texts = [step.summary]
    if not fork:
        texts += [only(double.state.comments)["body"]]
        texts += [only(double.state.checks)["output"]["summary"]]
    for told_text in texts:
        alert = told_text[told_text.index("> [!CAUTION]") :]
        assert "1 problem in the configuration or the evaluation files:\n" in alert
        assert words in alert
        assert all(line.startswith(">") for line in alert.strip().splitlines())


def test_a_run_that_is_cancelled_ends_its_check_run_in_seconds(runner, double: Double) -> None:
    runner.write_gate(reference=ANSWER, question="Please wait a while.")
    runner.check_out()
    step = runner.run_cancelled(
        lambda: runner.asked() and double.state.checks, agent=AGENT, baseline="none"
    )

    check = only(double.state.checks)
    assert step.code == 130
    assert (check["status"], check["conclusion"]) == ("completed", "cancelled")
    assert "cancelled" in check["output"]["title"]
    assert double.state.comments == {}, "a newer push cancels: its own run will speak"


def test_a_step_that_is_cancelled_ends_in_time_though_its_agent_ignores_signals(
    runner, double: Double
) -> None:
    """A runner sends SIGTERM 7.5 s after SIGINT, and SIGKILL 2.5 s after that."""
    runner.write_gate(reference=ANSWER, question="Please wait a while.")
    deaf = "import signal\nfor number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n"
    runner.write("agent.py", deaf + (runner.origin / "agent.py").read_text(encoding="utf-8"))
    runner.check_out()
    asked = []

    def is_asked() -> bool:
        if runner.asked() and double.state.checks:
            asked.append(time.monotonic())
        return bool(asked)

    step = runner.run_cancelled(is_asked, agent=AGENT, baseline="none")
    assert time.monotonic() - asked[0] < 7.5
    assert (step.code, step.outputs["verdict"], step.outputs["exit-code"]) == (
        130,
        "not_measured",
        "130",
    )
    assert only(double.state.checks)["conclusion"] == "cancelled"


@pytest.mark.parametrize(
    ("blow", "is_cancelled", "code", "conclusion"),
    [
        (signal.SIGKILL, False, 3, "failure"),  # as by a kernel that lacks memory
        (signal.SIGSTOP, True, 130, "cancelled"),  # whatever it waits for
    ],
)
def test_a_gate_that_cannot_conclude_is_concluded(
    runner, double: Double, blow: int, is_cancelled: bool, code: int, conclusion: str
) -> None:
    """By the process that watches it from outside."""
    runner.write_gate(reference=ANSWER, question="Please wait a while.")
    runner.check_out()
    begun = runner.start(agent=AGENT, baseline="none")
    while not (runner.asked() and double.state.checks):
        assert begun.poll() is None, begun.communicate()
        time.sleep(0.05)
    children = Path(f"/proc/{begun.pid}/task/{begun.pid}/children").read_text(encoding="ascii")
    (gate,) = map(int, children.split())
    began = time.monotonic()
    os.kill(gate, blow)
    if is_cancelled:
        begun.send_signal(signal.SIGINT)
    step = runner.ended(begun)
    assert time.monotonic() - began < 20
    assert (step.code, step.outputs["verdict"], step.outputs["exit-code"]) == (
        code,
        "error",
        str(code),
    )
    check = list(double.state.checks.values())[-1]  # the newest counts
    assert (check["status"], check["conclusion"]) == ("completed", conclusion)
    assert "no verdict" in check["output"]["title"]
    assert step.outputs["reason"].endswith(": 0 of 1 trials were run")
    comments = list(double.state.comments.values())
    assert is_cancelled or "No verdict" in only(double.state.comments)["body"], comments


def test_a_container_that_is_killed_is_concluded_by_another_step(runner, double: Double) -> None:
    runner.write_gate(reference=ANSWER, question="Please wait a while.")
    path = runner.origin / "evals/geo.evalset.json"
    cases = json.loads(path.read_text())
    (first,) = cases["eval_cases"]
    quick = json.loads(json.dumps(first).replace("Please wait a while.", "And now?"))
    cases["eval_cases"] = [{**quick, "eval_id": "quick"}, first]
    runner.write("evals/geo.evalset.json", cases)
    runner.write("evalgate.yml", "workers: 1")  # one after the other
    agent = runner.origin / "agent.py"
    agent.write_text(agent.read_text().replace("sessions=4", "sessions=1"))
    runner.check_out()
    begun = runner.start(agent=AGENT, baseline="none")
    journal = runner.workspace / "evalgate-report/journal.jsonl"
    while not (journal.exists() and b'"trial":' in journal.read_bytes()):
        assert begun.poll() is None, begun.communicate()
        time.sleep(0.05)
    begun.kill()  # what it watched dies with it
    begun.communicate()
    runner.attempts = 0  # of the same workflow run
    done = subprocess.run(
        [Path(sys.executable).with_name("evalgate"), "conclude"],
        cwd=runner.workspace,
        env=runner.surroundings(),
        capture_output=True,
        text=True,
        check=False,
    )
    step = runner._step(done.returncode, done.stdout, done.stderr)
    assert (step.code, step.outputs["verdict"], step.outputs["exit-code"]) == (3, "error", "3")
    reason = "the gate ended before it was done: 1 of 2 trials were run"
    assert step.outputs["reason"] == reason
    check = list(double.state.checks.values())[-1]
    assert (check["conclusion"], check["output"]["title"]) == ("failure", f"no verdict: {reason}")
    assert reason in only(double.state.comments)["body"]


WATCHED = """
import importlib.util, os, signal, sys, time
spec = importlib.util.spec_from_file_location("entrypoint", sys.argv[1])
door = importlib.util.module_from_spec(spec)
spec.loader.exec_module(door)
pid, beats = door.start()
if not pid:
    {child}
else:
    print(door.watch(pid, beats, silent_s=2.5))
"""


@pytest.mark.parametrize(
    ("child", "ended"),
    [
        ("time.sleep(4); sys.exit(5)", "(5, False)"),  # it waits, and shows that it lives
        # it holds its interpreter's lock
        ("import re; re.match('(a+)+$', 'a' * 60 + '!')", "(None, False)"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "(None, False)"),
    ],
)
def test_a_gate_that_stands_still_is_ended(child: str, ended: str) -> None:
    script = WATCHED.format(child=child)
    door = str(Path(__file__).parents[2] / "entrypoint.py")
    done = subprocess.run(
        [sys.executable, "-c", script, door], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == ended


IN_CONTAINER = """
import importlib.util, os, signal, subprocess, sys, time
spec = importlib.util.spec_from_file_location("entrypoint", sys.argv[1])
door = importlib.util.module_from_spec(spec)
spec.loader.exec_module(door)

def run(reason="", *, is_cancelled=False):
    if not reason:  # the gate: an agent of its ignores signals, and it is killed
        subprocess.Popen(["sh", "-c", "trap '' TERM INT HUP; sleep 600 & wait"], start_new_session=True)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    states = [line for entry in os.scandir("/proc") if entry.name.isdecimal()
              for line in open(f"/proc/{entry.name}/status") if line.startswith("State")]
    print(sum("Z (zombie)" not in state for state in states))
    return 0

door.run = run
sys.exit(door.main())
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs the system: root and unshare"
)
def test_nothing_outlives_a_gate_in_its_container() -> None:
    door = str(Path(__file__).parents[2] / "entrypoint.py")
    namespace = ["unshare", "--pid", "--fork", "--mount-proc"]
    done = subprocess.run(
        [*namespace, sys.executable, "-c", IN_CONTAINER, door],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "2\n"), done  # who watches, and who concludes


def test_a_bug_of_ours_ends_the_check_run_and_says_that_it_is_one(
    passing, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("token-of-nobody")

    monkeypatch.setattr(run, "run", crash)
    step = passing.run(agent=AGENT)

    check = only(double.state.checks)
    assert step.code == 70
    assert (check["status"], check["conclusion"]) == ("completed", "failure")
    assert "internal error in evalgate (RuntimeError)" in check["output"]["title"]
    assert "token-of-nobody" not in str(check), "what a crash says may hold anything"
    assert "No verdict" in only(double.state.comments)["body"]


FAULTS = [
    # how GitHub fails, and what the step says of it
    ({"status": 401, "body": {"message": "Bad credentials"}}, "token"),
    (
        {"status": 403, "body": {"message": "Resource not accessible by integration"}},
        "checks: write",
    ),
    ({"status": 422, "body": {"message": "Validation Failed"}}, "Validation Failed"),
    ({"status": 502}, "502"),
    ({"how": "reset"}, "could not be posted"),
    ({"how": "html", "status": 200}, "could not be posted"),
]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many tries as ever, less time between them."""
    monkeypatch.setattr(client.time, "sleep", lambda _: None)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("fault", "words"), FAULTS, ids=[str(next(iter(row[0].values()))) for row in FAULTS]
)
def test_no_fault_of_github_changes_the_verdict(passing, double: Double, fault, words: str) -> None:
    double.fail(".", times=1_000, **fault)
    step = passing.run(agent=AGENT, baseline="none")

    assert (step.code, step.outputs["verdict"], step.outputs["exit-code"]) == (0, "pass", "0")
    assert words in told(step), step.stdout
    assert "not-posted" in told(step)
    assert not any(line.startswith("::error") for line in step.commands())
    assert "response_match_score" in step.summary


def test_a_github_that_never_answers_holds_the_verdict_for_so_long_and_no_longer(
    passing, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "PUBLISHING_S", 0.8)
    monkeypatch.setattr(publish, "CANCEL_WAIT_S", 0.2)
    double.fail(".", times=1_000, how="hang")
    step = passing.run(agent=AGENT, baseline="none")

    assert (step.code, step.outputs["verdict"], step.outputs["exit-code"]) == (0, "pass", "0")
    assert "GitHub did not answer for" in told(step)
    assert "response_match_score" in step.summary


@pytest.mark.usefixtures("hasty")
def test_an_api_that_nobody_answers_leaves_the_verdict_standing(quiet_runner) -> None:
    quiet_runner.write_gate(reference=WRONG)
    quiet_runner.check_out()
    step = quiet_runner.run(agent=AGENT, baseline="none")

    assert (step.code, step.outputs["verdict"]) == (1, "fail")
    assert len(re.findall("not-posted", told(step))) == 2, "the check run and the comment"
    assert "capital" in step.summary


@pytest.mark.usefixtures("hasty")
def test_a_check_run_that_could_not_be_begun_is_made_at_the_end(passing, double: Double) -> None:
    double.fail("POST .*/check-runs", status=500, times=5)
    step = passing.run(agent=AGENT, baseline="none")

    assert only(double.state.checks)["conclusion"] == "success"
    assert told(step) == ""


@pytest.mark.parametrize(
    ("when", "is_there"),
    [("always", True), ("changes", False), ("failures", False), ("off", False)],
)
def test_a_passing_gate_comments_as_the_workflow_wishes(
    passing, double: Double, when: str, *, is_there: bool
) -> None:
    passing.run(agent=AGENT, baseline="none", comment=when)
    assert bool(double.state.comments) is is_there
    assert only(double.state.checks)["conclusion"] == "success"


@pytest.mark.parametrize("when", ["changes", "failures"])
def test_a_comment_on_a_failure_is_brought_up_to_date_when_that_is_mended(
    failing, double: Double, when: str
) -> None:
    failing.run(agent=AGENT, baseline="none", comment=when)
    assert "failed" in only(double.state.comments)["body"]
    failing.write_gate(reference=ANSWER)
    failing.check_out()
    failing.run(agent=AGENT, baseline="none", comment=when)
    assert "1 case failed" not in only(double.state.comments)["body"]


def test_without_check_runs_and_comments_nobody_is_asked(runner, double: Double) -> None:
    runner.write_gate(reference=ANSWER)
    runner.write("evalgate.yml", "check-run: false\n")
    runner.commit()
    runner.check_out()
    step = runner.run(agent=AGENT, baseline="none", comment="off")
    assert (step.code, double.seen) == (0, [])


@pytest.mark.parametrize("base", ["comment: always\n", None])
def test_a_change_cannot_have_less_told_of_itself(runner, double: Double, base: str | None) -> None:
    runner.write_gate(reference="Berlin.")
    if base is not None:
        runner.write("evalgate.yml", base)
    runner.commit()
    runner.write("evalgate.yml", "{comment: off, check-run: false}\n")
    runner.write("evals/test_config.json", {"criteria": {"response_match_score": 0.0}})
    runner.check_out()
    step = runner.run(agent=AGENT)
    assert step.code == 0, step.stdout
    body = only(double.state.comments)["body"]
    assert "passes only because this change relaxes the rules:** `response_match_score`" in body
    assert "`comment`" in body
    assert "`check-run`" in body
    assert only(double.state.checks)["conclusion"] == "neutral"
    assert step.outputs["relaxed"].startswith("response_match_score ")


def test_two_jobs_of_a_workflow_have_a_comment_each_by_their_names(failing, double: Double) -> None:
    begun = []
    for name in ("geography", "weather"):
        failing.environment |= {"GITHUB_JOB": name, "GITHUB_RUN_ATTEMPT": "1"}
        begun.append(
            failing.start(agent=AGENT, baseline="none", output=f"report-{name}", name=name)
        )
    threads = [threading.Thread(target=failing.ended, args=(each,)) for each in begun]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    bodies = sorted(each["body"] for each in double.state.comments.values())
    assert [each.returncode for each in begun] == [1, 1]
    assert ["geography" in bodies[0], "weather" in bodies[1]] == [True, True]
    assert all(body.count("[!CAUTION]") == 1 for body in bodies)


def test_two_jobs_of_a_workflow_under_one_name_are_told_to_take_two(
    failing, double: Double
) -> None:
    failing.environment["GITHUB_RUN_ATTEMPT"] = "1"
    failing.run(agent=AGENT, baseline="none")
    before = dict(only(double.state.comments))
    step = failing.run(agent=AGENT, baseline="none", fail_on="not_measured")
    assert step.code == 0
    assert "Give each job its own `name`" in told(step)
    assert only(double.state.comments) == before


def test_named_gates_have_check_runs_of_their_own(passing, double: Double) -> None:
    passing.run(agent=AGENT, baseline="none", name="travel")
    assert only(double.state.checks)["name"] == "evalgate: travel"


def test_the_token_is_shown_to_nobody(passing, double: Double) -> None:
    double.fail(
        "PATCH", status=401, times=1_000, body={"message": "Bad credentials: ghs_token-of-the-job"}
    )
    step = passing.ended(passing.start(agent=AGENT, env="GOOGLE_API_KEY"))

    reports = (
        path for path in (passing.workspace / "evalgate-report").rglob("*") if path.is_file()
    )
    written = "".join(path.read_text(encoding="utf-8", errors="replace") for path in reports)
    sent = "".join(str(each.json) for each in double.seen)
    seen = passing.dump.read_text(encoding="utf-8")
    assert "token-of" not in written + seen + sent + step.stdout + step.stderr + step.summary + str(
        step.outputs
    )
    assert all(
        each.headers["authorization"] == "Bearer ghs_token-of-the-job" for each in double.seen
    )


def test_a_push_to_the_default_branch_seeds_what_pull_requests_are_compared_with(
    runner, double: Double
) -> None:
    runner.write_gate(reference=ANSWER)
    runner.write("evalgate.yml", "baseline-folder: .evalgate-base\n")
    runner.check_out_main()
    seeded = runner.run(agent=AGENT)
    assert seeded.code == 0, seeded.stdout + seeded.stderr
    assert list((runner.workspace / ".evalgate-base/runs").iterdir())
    assert only(double.state.checks)["conclusion"] == "success"
    asked = len(runner.asked())

    runner.write_gate(reference=ANSWER, answer="Lyon is the capital of France.")
    runner.check_out()
    step = runner.run(agent=AGENT, baseline="store")

    lyon, paris = "Lyon is the capital of France.", "Paris is the capital of France."
    later = runner.asked()[asked:]
    assert later.count(lyon) > later.count(paris) == 0, "the stored results stand for the base"
    assert step.code == 1, step.stdout + step.stderr
    assert runner.base[:7] in only(double.state.comments)["body"]
    assert "(cached results, less than an hour old)" in only(double.state.comments)["body"]
