"""entrypoint.py with a runner's environment: root, a checkout of somebody else's, inputs, event,
file commands."""

import contextlib
import json
import os
import re
import signal
import stat
from pathlib import Path

import pytest
import yaml
from builders import repositories, starting

from evalgate import action
from evalgate.comparison import verdict
from evalgate.config.context import Opening
from evalgate.gate import prepare, run
from evalgate.results import output
from evalgate.system import isolation

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
ANSWER = "Paris is the capital of France."
TOKEN = "ghs_token-of-the-job"
OUTPUTS = set(yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["outputs"])


@pytest.fixture
def passing(runner):
    runner.write_gate(reference=ANSWER)
    runner.check_out()
    return runner


@pytest.fixture
def failing(runner):
    runner.write_gate(reference="I do not know any capitals at all, sorry about that.")
    runner.check_out()
    return runner


def test_a_passing_gate_is_green_and_says_so_everywhere(passing) -> None:
    step = passing.run(agent="command:python3 agent.py", baseline="none")

    assert step.code == 0, step.stdout + step.stderr
    assert step.commands() == []
    assert step.outputs["verdict"] == "pass"
    assert (step.outputs["exit-code"], step.outputs["total"], step.outputs["passed"]) == (
        "0",
        "1",
        "1",
    )
    assert json.loads(step.outputs["scores"])["response_match_score"] == 1.0
    assert "pass" in step.summary.lower()
    for name in ("junit", "comment", "summary", "html", "results"):
        assert (passing.workspace / step.outputs[name]).stat().st_size > 0, name


@pytest.mark.usefixtures("in_this_process")
def test_outputs_are_those_of_action_yml(passing) -> None:
    outputs = set(passing.run(agent="command:python3 agent.py").outputs)
    assert outputs == OUTPUTS - {"ces", "ces-agreement"}  # there are no CES evaluations


def test_a_failing_gate_is_red_at_the_line_of_its_case(failing) -> None:
    step = failing.run(agent="command:python3 agent.py", baseline="none")

    assert step.code == 1, step.stdout + step.stderr
    assert step.outputs["verdict"] == "fail"
    (annotation,) = step.commands()
    assert re.match(r"::error .*file=evals/geo\.evalset\.json,line=\d+.*capital", annotation)
    assert "capital" in step.summary
    assert "capital" in (failing.workspace / step.outputs["comment"]).read_text(encoding="utf-8")


@pytest.mark.usefixtures("in_this_process")
def test_a_failing_gate_is_green_where_the_workflow_only_looks(failing) -> None:
    step = failing.run(agent="command:python3 agent.py", fail_on="not_measured")

    assert (step.code, step.outputs["verdict"], step.outputs["exit-code"]) == (0, "fail", "0")


def test_a_broken_agent_is_red_with_its_reason(passing) -> None:
    step = passing.run(agent="command:python3 no_such_agent.py")

    assert step.code == 3, step.stdout + step.stderr
    assert step.outputs["verdict"] == "not_measured"
    assert "no_such_agent.py" in step.stdout + step.summary
    assert step.outputs["passed"] == "0"


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("name", "text", "code", "annotation"),
    [
        # an evaluation file that cannot be read: at its line
        ("evals/geo.evalset.json", '{"eval_set_id": "geo",\n "eval_cases": [,]}', 2, r"file=evals/geo.*,line=2"),
        # a criterion that nobody knows is no gate
        ("evals/test_config.json", '{"criteria":\n {"response_match_scor": 0.9}}', 2, r"file=evals/test_conf.*,line=2"),
        # a set without cases checks nothing
        ("evals/geo.evalset.json", '{"eval_set_id": "geo", "eval_cases": []}', 2, r"::error file=evals/geo"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_a_gate_end_red(
    runner, name: str, text: str, code: int, annotation: str
) -> None:
    runner.write_gate(reference=ANSWER)
    runner.write(name, text)
    runner.check_out()
    step = runner.run(agent="command:python3 agent.py")

    assert step.code == code, step.stdout + step.stderr
    assert step.outputs["verdict"] == "error"
    assert step.outputs["exit-code"] == str(code)
    assert any(re.search(annotation, line) for line in step.commands()), step.stdout


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("seed", "7", 'Write this line in evalgate.yml: `seed: "7"`.'),
        ("turn_timeout", "7.5", '`turn-timeout: "7.5"`'),
        ("strict", "true", '`strict: "true"`'),
        ("requirements", "a.txt\nb, c", r'`requirements: "a.txt\nb, c"`'),
        ("criteria", "a: b #c", '`criteria: "a: b #c"`'),
        ("requirements", "h\u00e9/\U0001f600.txt", '`requirements: "h\u00e9/\U0001f600.txt"`'),
        ("tools", "replay", '`tools: "replay"`'),
        ("grep", "Paris", "Only the command line has this setting: `evalgate run --grep`."),
        ("fail_onn", "regression", "Did you mean `fail-on`?"),
        ("output_", "x", "Did you mean `output`?"),
    ],
)
def test_an_input_that_would_not_be_obeyed_is_refused(
    passing, name: str, value: str, said: str
) -> None:
    step = passing.run(agent="command:python3 agent.py", **{name: value})
    assert (step.code, step.outputs["verdict"]) == (2, "error")
    (line,) = (line for line in step.commands() if "is not an input of this action" in line)
    assert said in line
    assert passing.asked() == []


@pytest.mark.usefixtures("in_this_process")
def test_a_variable_of_another_program_is_no_input(passing) -> None:
    assert (
        passing.run(agent="command:python3 agent.py", baseline="none", whatever="1", seed="").code
        == 0
    )


@pytest.mark.usefixtures("in_this_process")
def test_nothing_is_never_green(passing) -> None:
    step = passing.run(agent="command:python3 agent.py", paths="no/such/*.evalset.json")

    assert (step.code, step.outputs["verdict"]) == (4, "error")
    assert any(line.startswith("::error") for line in step.commands())


@pytest.mark.usefixtures("in_this_process")
def test_what_makes_a_gate_worth_little_is_told_and_it_does_not_pass_without_a_report(
    runner, double
) -> None:
    runner.write_gate(reference=ANSWER)
    runner.write("evals/test_config.json", {"criteria": {"response_match_score": 0}})
    runner.check_out()
    # where no file can be written
    (runner.workspace / "evalgate-report" / "junit.xml").mkdir(parents=True)
    step = runner.run(agent="command:python3 agent.py", baseline="none")

    assert step.code == 3, step.stdout + step.stderr
    assert (step.outputs["verdict"], step.outputs["exit-code"]) == ("pass", "3")
    beside, unwritten = sorted(step.commands())
    assert re.match(
        r"::warning file=evals/test_config\.json,line=\d+.*::.*response_match_score", beside
    )
    assert re.match(r"::warning::/.*/junit\.xml: cannot be written", unwritten)
    logged, _, after = step.stdout.partition("running 1 trial")
    assert "[threshold-always-passes]" in logged
    assert "junit.xml: warning: cannot be written" in after
    # nobody takes it for a pass
    (comment,), (check,) = double.state.comments.values(), double.state.checks.values()
    headline = "pass, but reports are missing"
    assert f"> [!WARNING]\n> **evalgate: {headline}.**" in comment["body"]
    assert "not every report could be written" in comment["body"]
    assert check["conclusion"] == "action_required"
    assert check["output"]["title"].lower().startswith(headline)


@pytest.mark.usefixtures("in_this_process")
def test_a_run_that_is_cancelled_before_its_verdict_has_outputs(
    passing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run", cancelled)
    step = passing.run(agent="command:python3 agent.py", baseline="none")

    assert step.code == 130
    assert step.outputs == {
        "verdict": "error",
        "reason": "the run was cancelled",
        "exit-code": "130",
    }


@pytest.mark.usefixtures("in_this_process")
def test_a_cancel_after_the_verdict_takes_it_not_back(
    failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cancelled:
        """A posting whose last words are cut off."""

        def show_progress(self, done, total) -> None:
            """Nothing is posted."""

        def prepare(self, report) -> None:
            """Nothing is posted."""

        def finish(self, reason):
            raise KeyboardInterrupt

    monkeypatch.setattr(action, "_posting", lambda *_: contextlib.nullcontext(Cancelled()))
    step = failing.run(agent="command:python3 agent.py", baseline="none")

    assert step.code == 130
    assert (step.outputs["verdict"], step.outputs["failed"], step.outputs["exit-code"]) == (
        "fail",
        "1",
        "130",
    )
    assert "1 of 1 cases failed" in step.outputs["reason"]


SURVIVING = """
import os, signal
if os.fork() == 0:
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    while True:
        signal.pause()
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or bool(isolation.refusal_reason()), reason="needs root and setpriv"
)
@pytest.mark.usefixtures("in_this_process")
def test_agents_are_gone_before_the_verdict_and_outputs_come_last(
    failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    users = []  # of this run: others may be on the machine
    make_context, decide, end_all, hand_over = (
        prepare.make_context,
        verdict.decide,
        isolation.end_all,
        output.hand_over,
    )
    for name in ("write_all", "append"):
        write = getattr(output, name)
        monkeypatch.setattr(
            output,
            name,
            lambda *a, name=name, write=write, **b: seen.append(name) or write(*a, **b),
        )

    def ended(uids) -> None:
        users[:] = uids
        seen.append(("ended", bool(isolation.running(uids))))
        end_all(uids)

    def decided(*given, **more):
        seen.append(("decided", bool(isolation.running(users))))
        return decide(*given, **more)

    def handed_over(workspace: Path) -> None:
        (workspace / "evalgate-report/summary.md").write_text("tampered", encoding="utf-8")
        hand_over(workspace)

    class Posting:
        """Nobody is told."""

        def show_progress(self, done, total) -> None:
            """Nothing is posted."""

        def prepare(self, report) -> None:
            """Nothing is posted."""

        def finish(self, reason):
            seen.append("posted")
            return ()

    agent = (failing.origin / "agent.py").read_text(encoding="utf-8")
    for closed in (failing.dump, failing.temp / "asked.log"):
        agent = agent.replace(str(closed), os.devnull)
    failing.write("agent.py", SURVIVING + agent)
    failing.check_out()
    opening = Opening(isolate=True)
    monkeypatch.setattr(
        prepare, "make_context", lambda *a, **more: make_context(*a, **{**more, "opening": opening})
    )
    monkeypatch.setattr(verdict, "decide", decided)
    monkeypatch.setattr(isolation, "end_all", ended)
    monkeypatch.setattr(output, "hand_over", handed_over)
    monkeypatch.setattr(action, "_posting", lambda *_: contextlib.nullcontext(Posting()))
    step = failing.run(agent="command:python3 agent.py", baseline="none")

    assert (step.code, step.outputs["verdict"]) == (1, "fail"), step.stdout
    assert seen[-6:] == [
        ("ended", True),
        ("decided", False),
        "write_all",
        "append",
        "append",
        "posted",
    ]
    assert "tampered" not in step.summary


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_step_that_is_cancelled_while_it_is_loaded_is_no_fail(
    runner, number: signal.Signals
) -> None:
    runner.write_gate(reference=ANSWER)
    runner.check_out()
    begun = runner.start(agent="command:python3 agent.py")
    starting.wait_until_loading(begun)
    begun.send_signal(number)
    step = runner.ended(begun)

    assert (step.code, step.stdout, step.stderr) == (130, "", "")


@pytest.mark.usefixtures("in_this_process")
def test_a_wrong_input_is_named_as_the_workflow_names_it(passing) -> None:
    step = passing.run(agent="command:python3 agent.py", fail_on="failure")

    assert step.code == 2
    assert any("fail-on" in line for line in step.commands())
    assert "Traceback" not in step.stdout
    passing.environment["RUNNER_DEBUG"] = "1"
    step = passing.run(agent="command:python3 agent.py", fail_on="failure")
    assert "Traceback (most recent call last)" in step.stdout


def test_the_agent_sees_what_the_workflow_names_and_nothing_of_the_workflow(passing) -> None:
    step = passing.run(agent="command:python3 agent.py", env="GOOGLE_API_KEY")

    assert step.code == 0, step.stdout + step.stderr
    seen = json.loads(passing.dump.read_text(encoding="utf-8"))
    assert seen["GOOGLE_API_KEY"] == "key-that-the-workflow-names"
    assert [
        name for name in seen if name.startswith(("GITHUB_", "ACTIONS_", "INPUT_", "RUNNER_"))
    ] == []
    assert [
        value for value in seen.values() if "token-of" in value or "nobody-names" in value
    ] == []


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    "name", ["GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "INPUT_AGENT", "GITHUB_*"]
)
def test_the_workflow_cannot_hand_its_own_variables_to_the_agent(passing, name: str) -> None:
    step = passing.run(agent="command:python3 agent.py", env=name)

    assert step.code == 2
    assert not passing.dump.exists()


def test_what_an_agent_says_cannot_command_the_runner(runner) -> None:
    runner.write_gate(reference="something else", question="Say commands, please")
    runner.check_out()
    step = runner.run(agent="command:python3 agent.py")

    assert step.code == 1
    assert [line for line in step.commands() if "set-env" in line.split("::")[1]] == []
    assert "::error::the agent speaks to the runner" not in step.commands()
    assert "X" not in step.outputs


def test_no_secret_is_written_anywhere(passing) -> None:
    step = passing.run(agent="command:python3 agent.py", env="GOOGLE_API_KEY")
    written = "".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in (passing.workspace / "evalgate-report").rglob("*")
        if path.is_file()
    )

    assert not re.search(
        "token-of|key-that", written + step.stdout + step.stderr + step.summary + str(step.outputs)
    )


@pytest.mark.skipif(
    os.geteuid() != 0, reason="needs the system: only root can make a checkout of somebody else's"
)
def test_everything_in_the_workspace_stays_the_runners(passing) -> None:
    passing.run(agent="command:python3 agent.py", cache=".cache/evalgate", output="out/report")

    owner = passing.workspace.stat().st_uid
    assert owner != 0
    for path in passing.workspace.rglob("*"):
        status = path.lstat()
        name = path.relative_to(passing.workspace)
        assert status.st_uid == owner, (
            f"{name} belongs to {status.st_uid}: the next checkout cannot remove it"
        )
        assert status.st_mode & (stat.S_IROTH | stat.S_IRGRP), f"{name} can be read by nobody else"


def test_modules_of_the_repository_never_stand_in_for_ours(runner) -> None:
    runner.write_gate(reference=ANSWER)
    for name in ("evalgate/__init__.py", "json.py", "click.py", "sitecustomize.py"):
        runner.write(name, "raise SystemExit('the repository took over')\n")
    runner.check_out()
    runner.environment |= {
        "PYTHONPATH": str(runner.workspace),
        "PYTHONSTARTUP": "json.py",
        "PYTHONHOME": "",
    }
    step = runner.run(agent="command:python3 -I agent.py")

    assert step.code == 0, step.stdout + step.stderr


@pytest.mark.usefixtures("in_this_process")
def test_a_detached_shallow_checkout_links_to_the_pull_requests_own_commit(failing) -> None:
    step = failing.run(agent="command:python3 agent.py")

    assert failing.head in (failing.workspace / step.outputs["comment"]).read_text(encoding="utf-8")


@pytest.mark.usefixtures("in_this_process")
def test_a_link_leads_to_the_line_that_was_read_though_main_moved_on(failing) -> None:
    """The files are those of a merge: main's new ones too, which the pull request's own commit has
    not, and lines that are elsewhere in it."""
    cases = json.loads((failing.origin / "evals/geo.evalset.json").read_text())
    (first,) = cases["eval_cases"]
    late = {**first, "eval_id": "late"}
    repositories.git(failing.origin, "merge", "--quiet", "--ff-only", "change~1")
    failing.write("evals/late.evalset.json", {"eval_set_id": "late", "eval_cases": [late]})
    failing.write("evals/geo.evalset.json", {**cases, "eval_cases": [late, first]})
    base = failing.commit()
    tree = repositories.git(failing.origin, "merge-tree", "--write-tree", base, failing.head)
    merged = repositories.git(
        failing.origin, "commit-tree", tree, "-p", base, "-p", failing.head, "-m", "Merge"
    )
    failing._clone(merged, "refs/pull/7/merge")
    step = failing.run(agent="command:python3 agent.py")

    comment = (failing.workspace / step.outputs["comment"]).read_text(encoding="utf-8")
    places = set(re.findall(r"/blob/([0-9a-f]{40})/([^#>]+)#L([0-9]+)", comment))
    lines = {
        repositories.git(failing.origin, "show", f"{commit}:{path}").splitlines()[int(line)]
        for commit, path, line in places
    }
    assert len(places) == 3
    # each case's second line
    assert {line.strip() for line in lines} == {'"eval_id": "late",', '"eval_id": "capital",'}
    assert failing.head in comment


@pytest.mark.usefixtures("in_this_process")
def test_the_root_may_be_a_folder_of_the_checkout(runner) -> None:
    runner.write_gate(reference="Nothing of the kind")
    (runner.origin / "services" / "geo").mkdir(parents=True)
    for name in ("agent.py", "evals"):
        (runner.origin / name).rename(runner.origin / "services" / "geo" / name)
    runner.write("services/other/evals/broken.evalset.json", "{")
    runner.check_out()
    step = runner.run(agent="command:python3 agent.py", root="services/geo")

    assert step.code == 1, step.stdout + step.stderr
    assert (runner.workspace / step.outputs["junit"]).is_file()
    assert step.outputs["junit"].startswith("services/geo/")
    # GitHub knows files by their names in the repository
    assert any("file=services/geo/evals/geo.evalset.json,line=" in line for line in step.commands())
    assert "/services/geo/evals/geo.evalset.json#L" in step.summary
    (runner.workspace / "services/geo/evals/test_config.json").write_text("{", encoding="utf-8")
    step = runner.run(agent="command:python3 agent.py", root="services/geo")
    assert step.code == 2
    assert any(
        "::error file=services/geo/evals/test_config.json,line=1" in line
        for line in step.commands()
    )


@pytest.mark.usefixtures("in_this_process")
def test_a_root_that_no_system_accepts_is_an_error_of_the_input(passing) -> None:
    step = passing.run(agent="command:python3 agent.py", root="x" * 5_000)
    assert (step.code, "too long" in step.outputs["reason"]) == (2, True), step.stdout


@pytest.mark.usefixtures("in_this_process")
def test_an_event_that_runs_foreign_code_with_secrets_is_refused(passing, double) -> None:
    passing.on_pull_request(name="pull_request_target")
    step = passing.run(agent="command:python3 agent.py")

    assert step.code == 2
    assert any("pull_request_target is refused" in line for line in step.commands())
    assert (passing.asked(), double.seen) == ([], [])


@pytest.mark.usefixtures("in_this_process")
def test_no_command_for_the_desk_names_what_only_a_workflow_takes(passing) -> None:
    step = passing.run(agent="command:python3 agent.py", comment="failures", runs="2")

    report = (passing.workspace / step.outputs["comment"]).read_text(encoding="utf-8")
    assert "--runs 2" in report
    assert not re.search(r"--(no-)?(comment|check-run|github-token)", report)


@pytest.mark.parametrize("name", ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"])
@pytest.mark.usefixtures("in_this_process")
def test_a_step_that_cannot_tell_its_verdict_does_not_pass(passing, name: str) -> None:
    passing.environment[name] = str(passing.temp)  # a folder
    step = passing.run(agent="command:python3 agent.py", baseline="none")
    assert step.code == 3, step.stdout + step.stderr
    assert step.outputs.get("exit-code", "3") == "3"


def test_a_log_that_nobody_takes_changes_no_verdict(passing) -> None:
    begun = passing.start(agent="command:python3 agent.py", baseline="none")
    begun.stdout.close()
    with begun.stderr:
        complaint = begun.stderr.read()
    step = passing._step(begun.wait(timeout=60), "", complaint)

    assert (step.code, complaint) == (0, "")
    assert (step.outputs["verdict"], step.outputs["exit-code"]) == ("pass", "0")
    assert "capital" in step.summary
