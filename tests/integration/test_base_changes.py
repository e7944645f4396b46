"""What a change may do to files, names and settings without fooling the comparison, or being
stopped for nothing."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from builders import forked_command
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """Main with six cases; the branch `change` is checked out, its agent not committed yet."""
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(".gitignore", "evalgate-report/\n*.log\n")
    made.agent("base")
    made.gate_file()
    made.cases(*range(6))
    made.commit("base")
    made.git("checkout", "-qb", "change")
    made.agent("head")
    return made


def on_main(repo: Repository) -> None:
    """Put what is committed on `change` away and go to main."""
    repo.git("checkout", "-q", "main", "--force")


def store(repo: Repository, folder: Path) -> None:
    """Keep a run of what is checked out."""
    code, said = repo.run("--baseline-folder", str(folder), "--save-baseline", "always", base="")
    assert code == 0, said


def gates(repo: Repository) -> dict[str, str]:
    return {gate["gate"]: gate["kind"] for gate in repo.results()["verdict"]["gates"]}


def standings(repo: Repository) -> dict[str, str]:
    return {case["case_id"]: case["status"] for case in repo.results()["comparison"]["cases"]}


def test_a_renamed_file_is_still_compared(repo: Repository) -> None:
    repo.agent("head", wrong=(1, 2, 3, 4))
    repo.git("mv", "desk.evalset.json", "desk-two.evalset.json")
    repo.commit("another name")
    code, said = repo.run("--runs", "2", "--fail-on", "regression")
    assert code == 1, said
    assert gates(repo)["regression"] == "fail"
    assert set(standings(repo).values()) == {"paired"}


def test_a_stored_run_of_another_agent_is_not_taken_over(repo: Repository, tmp_path: Path) -> None:
    on_main(repo)
    store(repo, tmp_path / "store")
    repo.agent("base", wrong=(0, 1, 2, 3, 4, 5))  # the same command line, another program
    repo.commit("main broke")
    repo.git("checkout", "-qb", "other")
    repo.write("notes.py", "")
    repo.commit("head")
    _, said = repo.run("--baseline-folder", str(tmp_path / "store"), "--threshold", "new")
    assert repo.asked("base") == 12, said  # both sides are that agent, none of it is stored
    assert repo.results()["comparison"]["origin"]["source"] == "rerun"


def test_another_case_does_not_make_another_agent(repo: Repository) -> None:
    repo.reuses = True
    on_main(repo)
    assert repo.run(base="")[0] == 0
    repo.cases(*range(7))
    repo.commit("a case")
    repo.git("checkout", "-qb", "other")
    repo.agent("head")
    repo.commit("head")
    code, said = repo.run()
    assert code == 0, said
    assert repo.asked("base") == 1, said  # the case that no earlier run had
    origin = repo.results()["comparison"]["origin"]
    assert (origin["source"], origin["reused"], origin["run"]) == ("mixed", 6, 1)


def test_resuming_with_another_program_runs_it(repo: Repository) -> None:
    repo.commit("head")
    assert repo.run()[0] == 0
    repo.agent("head", wrong=(3,))
    code, said = repo.run("--resume")
    assert code == 1, said
    assert (repo.asked("head"), repo.asked("base")) == (6, 0)


@pytest.mark.parametrize("setting", [{"baseline": "none"}, {"baseline": "file:mine.json"}])
def test_a_change_cannot_switch_the_comparison_off(
    repo: Repository, setting: dict[str, str]
) -> None:
    repo.agent("head", wrong=(1, 2, 3, 4))
    repo.gate_file(**setting)
    repo.commit("no comparison, please")
    code, said = repo.run("--runs", "2", "--fail-on", "regression")
    assert code == 1, said
    assert "`evalgate.yml` (+" in repo.comment()


def test_whose_base_says_none_is_not_compared(repo: Repository) -> None:
    on_main(repo)
    repo.gate_file(baseline="none")
    repo.commit("no comparison")
    repo.git("checkout", "-qb", "other")
    repo.agent("head")
    repo.commit("head")
    assert repo.run()[0] == 0
    assert "comparison" not in repo.results()


PULL_REQUEST = {"GITHUB_EVENT_NAME": "pull_request"}


@pytest.mark.parametrize("baseline", ["none", "file"])
@pytest.mark.parametrize(("policy", "code"), [("both", 1), ("head", 0)])
def test_whatever_a_change_is_compared_with_the_bases_rules_are_known(
    repo: Repository, tmp_path: Path, baseline: str, policy: str, code: int
) -> None:
    """It answers wrongly, lowers its threshold and deletes a case: told, and the threshold counts
    for nothing where the worse of both books does."""
    on_main(repo)
    repo.gate_file(policy=policy)
    repo.commit("rules")
    kept = tmp_path / "main.json"
    if baseline == "file":
        assert repo.run(base="")[0] == 0
        kept.write_bytes((repo.root / "evalgate-report/results.json").read_bytes())
        baseline = f"file:{kept}"
    repo.git("checkout", "-qb", "other")
    repo.agent("head", wrong=(4, 5))
    repo.cases(*range(5), threshold=0.0)
    repo.commit("lax")
    found, said = repo.call(
        "run", "--baseline", baseline, "--fail-on", "threshold", environment=PULL_REQUEST
    )
    assert found == code, said
    comment = repo.comment()
    assert "`response_match_score` `0.90` \N{RIGHTWARDS ARROW} `0.00`" in comment
    assert "case `case_5` deleted" in comment
    assert ("base branch's rules decided (`policy: both`)" in comment) is bool(code)
    assert ("passes only because this change relaxes the rules" in comment) is not code
    if baseline != "none":
        return
    # looked at once more, the results say what their run said
    assert repo.call("report", "evalgate-report/results.json", "--output", "again")[0] == code
    again = (repo.root / "again/comment.md").read_text()
    assert again.partition("\n\n")[0] == comment.partition("\n\n")[0]
    assert ("base branch's rules decided" in again) is bool(code)


@pytest.mark.parametrize(
    "environment",
    [
        PULL_REQUEST,
        {"CI": "true"},  # another CI, where `--base` alone says that this is a change
    ],
)
def test_a_results_file_that_the_change_commits_is_not_compared_with(
    repo: Repository, environment: dict[str, str]
) -> None:
    """It could have written it. At a terminal it is somebody's own."""
    repo.commit("head")
    assert repo.run(base="")[0] == 0
    repo.write("kept/main.json", (repo.root / "evalgate-report/results.json").read_text())
    repo.commit("brings it along")
    chosen = ("--base", "main", "--baseline", "file:kept/main.json")
    assert repo.call("run", *chosen)[0] == 0
    code, said = repo.call("run", *chosen, environment=environment)
    assert (code, "kept/main.json: is part of the commit, so a change" in said) == (2, True), said


@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ("a file", (3, "not_measured")),  # nothing of it ran
        # a crash is a run that did not pass, and the base's agent passed
        ("the agent", (1, "fail")),
    ],
)
@pytest.mark.parametrize("policy", ["base", "head"])
def test_what_the_change_broke_is_no_outage(
    repo: Repository, how: str, outcome: tuple[int, str], policy: str
) -> None:
    """`fail-on` without `not_measured` lets an outage pass, and not a file that cannot be read or
    run any more."""
    on_main(repo)
    repo.write(
        "second.evalset.json",
        (repo.root / "desk.evalset.json").read_text().replace("desk", "second"),
    )
    fail_on = {"fail-on": ["threshold", "regression"], "policy": policy}
    repo.gate_file(**fail_on)
    repo.commit("two files")
    repo.git("checkout", "-qb", "other")
    if how == "a file":
        repo.write("second.evalset.json", '{"eval_set_id": "second", "eval_cases": [')
    else:
        repo.write("agent.py", "raise SystemExit(")
    repo.commit("broken")
    code, said = repo.run()
    assert (code, repo.results()["verdict"]["blocked_by"]) == outcome, said


def test_a_change_cannot_take_back_that_the_base_decides(repo: Repository) -> None:
    on_main(repo)
    repo.gate_file(policy="both")
    repo.commit("strict")
    repo.git("checkout", "-qb", "other")
    repo.gate_file()
    repo.agent("head", wrong=(4,))
    repo.cases(*range(5), threshold=0.0)
    repo.commit("lax")
    code, said = repo.run("--fail-on", "threshold")
    assert code == 1, said
    assert "`evalgate.yml` (+" in repo.comment()


def test_stored_results_stand_in_for_a_file_that_the_change_excludes(
    repo: Repository, tmp_path: Path
) -> None:
    """The base evaluates it, so it is measured. A shard reports only its own agents."""
    on_main(repo)
    agents = [
        {"suites": [suite], "driver": "command", "command": [sys.executable, program]}
        for suite, program in (
            ("desk.evalset.json", "agent.py"),
            ("second.evalset.json", "./agent.py"),
        )
    ]
    repo.cases(0)
    second = (repo.root / "desk.evalset.json").read_text().replace("desk", "second")
    repo.write("second.evalset.json", second)
    repo.gate_file(agents=agents)
    repo.commit("two files")
    assert repo.run(base="")[0] == 0
    kept = tmp_path / "main.json"
    kept.write_bytes((repo.root / "evalgate-report/results.json").read_bytes())
    repo.git("checkout", "-qb", "other")
    repo.gate_file(agents=agents, exclude=["second.evalset.json"])
    repo.commit("drops one")
    code, said = repo.run("--baseline", f"file:{kept}")
    assert code == 0, said
    assert "2 compared cases" in said
    whole = repo.results("base.json")["descriptions"].keys()
    known = []
    for part in ("1/2", "2/2"):
        repo.run(
            "--baseline", f"file:{kept}", "--shard", part, "--output", f"evalgate-report/{part}"
        )
        known.append({*repo.results(f"{part}/base.json")["descriptions"]})
    assert known[0] | known[1] == whole
    assert [len(agents) for agents in known] == [2, 2]  # with one for all that do not run


@pytest.mark.parametrize("baseline", ["auto", "none"])
def test_results_that_both_books_decided_are_decided_by_both_again(
    repo: Repository, baseline: str
) -> None:
    """This checkout has only the change's own rules. What is asked for explicitly counts."""
    on_main(repo)
    repo.gate_file(policy="both")
    repo.commit("strict")
    repo.git("checkout", "-qb", "other")
    repo.gate_file(**{"policy": "both", "pass-rate": 0.1, "fail-on": ["inconclusive"]})
    repo.agent("head", wrong=(4, 5))
    repo.commit("lax")
    code, said = repo.call(
        "run", "--base", "main", "--baseline", baseline, environment=PULL_REQUEST
    )
    assert code == 1, said
    again = ("report", "evalgate-report", "--output", "again")
    assert repo.call(*again)[0] == 1
    comment = (repo.root / "again/comment.md").read_text()
    assert comment.partition("\n\n")[0] == repo.comment().partition("\n\n")[0]
    assert "base branch's rules decided (`policy: both`)" in comment
    assert repo.call(*again, "--pass-rate", "0.1")[0] == 0


@pytest.mark.parametrize("policy", ["head", "both"])
def test_a_file_that_the_change_deletes_is_told_and_not_run(repo: Repository, policy: str) -> None:
    on_main(repo)
    second = json.loads((repo.root / "desk.evalset.json").read_text())
    second["eval_set_id"] = "second"
    repo.write("second.evalset.json", json.dumps(second))
    repo.commit("two files")
    repo.git("checkout", "-qb", "other")
    (repo.root / "second.evalset.json").unlink()
    repo.commit("one file less")
    code, said = repo.run("--policy", policy)
    assert code == 0, said
    assert [suite["suite"] for suite in repo.results()["suites"]] == ["desk.evalset.json"]
    assert "evaluation file `second.evalset.json` deleted" in repo.comment()


def test_a_file_that_the_change_no_longer_chooses_is_run(repo: Repository) -> None:
    on_main(repo)
    repo.write("second.evalset.json", (repo.root / "desk.evalset.json").read_text())
    repo.commit("two files")
    repo.git("checkout", "-qb", "other")
    repo.gate_file(exclude=["second*"])
    repo.commit("one file less")
    code, said = repo.run()
    assert code == 0, said
    assert [suite["suite"] for suite in repo.results()["suites"]] == [
        "desk.evalset.json",
        "second.evalset.json",
    ]


def test_a_base_whose_gate_file_is_broken_is_not_taken_for_one_without_an_agent(
    repo: Repository,
) -> None:
    on_main(repo)
    repo.write("evalgate.yml", "agents: [\n  - {driver: command\n")
    repo.commit("broken")
    repo.git("checkout", "-qb", "other")
    repo.gate_file()
    repo.agent("head", wrong=(1, 2))
    repo.cases(*range(6), threshold=0.1)
    repo.commit("repaired, and worse")
    code, said = repo.run("--pass-rate", "0.5")
    assert (code, gates(repo)["regression"]) == (0, "inconclusive"), said
    assert said.count("evalgate.yml:2:3: not valid YAML") == 1
    compared = repo.results()["comparison"]
    assert ("no_agent" in compared, "evalgate.yml:2:3: not valid YAML" in compared["problem"]) == (
        False,
        True,
    )
    assert "base-rules-unchecked" in {problem["code"] for problem in repo.results()["problems"]}


def test_new_names_questions_and_globs_in_one_change_do_not_make_a_first_agent(
    repo: Repository,
) -> None:
    served = {"driver": "command", "command": [sys.executable, "agent.py"]}
    on_main(repo)
    repo.gate_file(agents=[{"suites": ["desk*"], **served}])
    repo.commit("by name")
    repo.git("checkout", "-qb", "other")
    repo.gate_file(agents=[{"suites": ["help*"], **served}])
    repo.agent("head", wrong=(1, 2, 3))
    (repo.root / "desk.evalset.json").unlink()
    repo.write(
        "help.evalset.json",
        repo.git("show", "main:desk.evalset.json").replace("question", "please question"),
    )
    repo.commit("moved")
    code, said = repo.run("--pass-rate", "0")
    assert code == 3, said
    compared = repo.results()["comparison"]
    assert ("no_agent" in compared, "its own are desk.evalset.json" in compared["problem"]) == (
        False,
        True,
    )


def test_a_gate_file_or_a_folder_that_the_base_lacks_blocks_nobody(repo: Repository) -> None:
    repo.git("rm", "-q", "--cached", "evalgate.yml")
    on_main(repo)
    (repo.root / "evalgate.yml").unlink()
    repo.commit("no gate file")
    repo.git("checkout", "-qb", "other")
    repo.gate_file()
    repo.git("mv", "-f", "agent.py", "program.py")
    (repo.root / "evalgate.yml").rename(repo.root / "gate.yml")
    repo.write("gate.yml", (repo.root / "gate.yml").read_text().replace("agent.py", "program.py"))
    repo.commit("a gate file of another name")
    code, said = repo.run("--config", "gate.yml")
    assert code == 0, said
    assert repo.results()["comparison"]["no_agent"] is True
    repo.git("checkout", "-q", "main")
    repo.git("checkout", "-qb", "moved")
    (repo.root / "sub").mkdir()
    for name in ("agent.py", "desk.evalset.json", "test_config.json"):
        repo.git("mv", name, f"sub/{name}")
    repo.gate_file()
    (repo.root / "evalgate.yml").rename(repo.root / "sub/evalgate.yml")
    repo.commit("a folder of its own")
    code, said = repo.run("--root", "sub", "--output", "../evalgate-report")
    assert code == 0, said
    assert "has no folder sub" in repo.results()["comparison"]["problem"]


def test_a_selection_of_new_cases_alone_is_compared_with_nothing_and_blocks_nobody(
    repo: Repository,
) -> None:
    repo.cases(*range(7))
    repo.commit("one more")
    code, said = repo.run("--grep", "case_6")
    assert code == 0, said
    assert (repo.results()["comparison"]["no_agent"], repo.asked("base")) == (True, 0)


def test_a_store_blocks_no_first_agent(repo: Repository, tmp_path: Path) -> None:
    repo.git("checkout", "-q", "--orphan", "empty", "--force")
    repo.git("rm", "-rqf", ".")
    repo.write("notes", "nothing yet")
    repo.commit("nothing yet")
    repo.write(".gitignore", "evalgate-report/\n")
    repo.agent("head")
    repo.gate_file()
    repo.cases(0, 1)
    repo.commit("the first agent")
    code, said = repo.run(
        "--baseline", "store", "--baseline-folder", str(tmp_path / "store"), base="HEAD~1"
    )
    assert code == 0, said


@pytest.mark.parametrize(
    ("policy", "rule", "code"),
    [("head", "base-rules-unchecked", 0), ("base", "base-rules-unknown", 3)],
)
def test_stored_results_do_not_hide_that_the_bases_rules_are_unknown(
    repo: Repository, tmp_path: Path, policy: str, rule: str, code: int
) -> None:
    on_main(repo)
    store(repo, tmp_path / "store")
    repo.gate_file(nonsense=1)
    repo.commit("a key that is none")
    repo.git("checkout", "-qb", "other")
    repo.gate_file(policy=policy, **{"fail-on": ["regression"]})
    repo.commit("repaired, and it blocks on less")
    kept = ("--baseline", "store", "--baseline-folder", str(tmp_path / "store"))
    found, said = repo.run(*kept)
    assert (found, rule in said, "unknown setting `nonsense`" in said) == (code, True, True), said


def test_stored_results_stop_no_selection_of_new_cases_alone(
    repo: Repository, tmp_path: Path
) -> None:
    on_main(repo)
    store(repo, tmp_path / "store")
    repo.cases(*range(7))
    repo.commit("one more")
    kept = ("--baseline", "store", "--baseline-folder", str(tmp_path / "store"))
    # in a folder of its own: a part does not replace the files of a run of more cases
    code, said = repo.run(
        "--grep", "case_6", "--output", "evalgate-report/part", *kept, base="HEAD~1"
    )
    assert (code, repo.results("part/results.json")["comparison"]["no_agent"]) == (0, True), said


def test_a_run_of_both_sides_that_was_killed_goes_on_where_it_was(repo: Repository) -> None:
    repo.agent("head", flaky=(), wrong=(2,))
    repo.commit("head")
    code, said = repo.run("--runs", "4", "--concurrency", "1")
    unbroken = _ends(repo.results()), _ends(repo.results("base.json"))
    repo.log.unlink()
    repo.hold.touch()
    process = repo.start(
        "run",
        "--base",
        "main",
        "--runs",
        "4",
        "--concurrency",
        "1",
        by=forked_command.console_script,
    )
    deadline = time.monotonic() + 60
    while repo.asked("head") + repo.asked("base") < 15 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    repo.hold.unlink()
    before = repo.asked("head") + repo.asked("base")
    assert 15 <= before < 48
    resumed, said = repo.call(
        "run", "--base", "main", "--runs", "4", "--concurrency", "1", "--resume"
    )
    assert resumed == code == 1, said
    # the one that was under way is run again, no other
    assert repo.asked("head") + repo.asked("base") <= 48 + 1
    assert (_ends(repo.results()), _ends(repo.results("base.json"))) == unbroken


def _ends(results: dict[str, Any]) -> list[Any]:
    """How each case ended, with the scores of its first runs."""
    cases = [case for suite in results["suites"] for case in suite["cases"]]
    scores = [
        [
            trial["grades"]["response_match_score"]["value"]
            for trial in case["trials"]
            if "purpose" not in trial
        ]
        for case in cases
    ]
    return [
        results["verdict"]["kind"],
        [(case["case_id"], case["verdict"]) for case in cases],
        scores,
    ]


def test_dollars_that_cannot_be_counted_are_told(repo: Repository) -> None:
    part = json.dumps(
        {"usage_metadata": {"prompt_token_count": 10}, "model_version": "home-made-7b"}
    )
    text = (repo.root / "agent.py").read_text()
    repo.write("agent.py", text.replace("final=True)", f"final=True, **json.loads('{part}'))"))
    repo.commit("head")
    code, said = repo.run("--budget", "usd=1")
    assert code == 0, said
    assert "no price known for" in said
    assert "home-made-7b" in said


def test_a_change_of_both_sides_leaves_no_trace_in_a_dirty_checkout(repo: Repository) -> None:
    """Staged, unstaged and untracked work, a link out of the tree: all of it as it was, byte for
    byte."""
    repo.write("staged.txt", "staged")
    repo.git("add", "staged.txt")
    repo.write("README", "untracked")
    (repo.root / "link").symlink_to("/etc/hostname")
    index = (repo.root / ".git/index").read_bytes()
    before = _files(repo.root)
    code, said = repo.run()
    assert code == 0, said
    assert repo.asked("base") == repo.asked("head") == 6  # uncommitted work is head's
    assert _files(repo.root) == before
    assert (repo.root / ".git/index").read_bytes() == index


def test_a_file_cannot_say_by_which_rules_the_base_was_gated(
    repo: Repository, tmp_path: Path
) -> None:
    repo.commit("head")
    assert repo.run(base="")[0] == 0
    kept = tmp_path / "main.json"
    kept.write_bytes((repo.root / "evalgate-report/results.json").read_bytes())
    code, said = repo.run("--baseline", f"file:{kept}", "--policy", "base", base="")
    assert code == 0, said
    assert "so head's apply" in repo.comment()


def _files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): str(path.readlink()).encode()
        if path.is_symlink()
        else path.read_bytes()
        for path in root.rglob("*")
        if (path.is_symlink() or path.is_file())
        and not {"evalgate-report", ".evalgate"} & set(path.parts)
    }


@pytest.mark.parametrize(
    ("then", "now", "rules", "asked"),
    [
        ("de", "de", {}, 0),
        ("de", "fr", {}, 6),  # a variable that the agent has
        ("de", "", {}, 6),
        ("de", "de", {"turn_timeout": 9}, 6),  # a limit that the change sets for both sides
    ],
)
def test_earlier_results_in_another_environment_do_not_stand_in(
    repo: Repository, then: str, now: str, rules: dict[str, Any], asked: int
) -> None:
    repo.reuses = True
    repo.git("checkout", "-q", "main")
    repo.agent("base")
    repo.gate_file(env=["ASKED_LOG", "LANGUAGE_OF_ANSWERS"])
    repo.commit("base")
    assert repo.call("run", environment={"LANGUAGE_OF_ANSWERS": then})[0] == 0
    repo.git("checkout", "-qB", "other")
    repo.agent("head")
    repo.gate_file(env=["ASKED_LOG", "LANGUAGE_OF_ANSWERS"], **rules)
    repo.commit("head")
    repo.log.unlink()
    code, said = repo.call("run", "--base", "main", environment={"LANGUAGE_OF_ANSWERS": now})
    assert (code, repo.asked("base")) == (0, asked), said
