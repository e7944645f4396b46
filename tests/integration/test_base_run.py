"""`evalgate run --base`: head beside base in real git repositories, agents as real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(".gitignore", "evalgate-report/\n")
    made.agent("base")
    made.gate_file()
    made.cases(*range(6))
    made.commit("base")
    made.git("checkout", "-qb", "change")
    made.agent("head")
    return made


def verdicts(results: dict[str, Any]) -> dict[str, str]:
    return {gate["gate"]: gate["kind"] for gate in results["verdict"]["gates"]}


def test_a_change_that_changes_nothing_passes(repo: Repository) -> None:
    repo.commit("head")
    before = (
        repo.git("status", "--porcelain"),
        repo.git("stash", "list"),
        repo.git("branch", "-a"),
    )
    code, said = repo.run("--runs", "2")
    assert code == 0, said
    assert (repo.asked("head"), repo.asked("base")) == (12, 12)
    results = repo.results()
    assert verdicts(results) == {"threshold": "pass", "regression": "pass"}
    (row,) = [row for row in results["comparison"]["criteria"] if row["rule"]["gating"]]
    assert (row["base"], row["head"], row["change"]) == (1.0, 1.0, "no_evidence")
    assert results["comparison"]["origin"]["commit"] == repo.git("rev-parse", "main")
    assert repo.results("base.json")["commit"] == repo.git("rev-parse", "main")
    assert before == (
        repo.git("status", "--porcelain"),
        repo.git("stash", "list"),
        repo.git("branch", "-a"),
    )


def test_a_regression_is_red_and_names_what_broke(repo: Repository) -> None:
    repo.cases(*range(6), threshold=0.9)
    repo.agent("head", wrong=(2, 4))
    repo.commit("head")
    code, said = repo.run("--runs", "2", "--fail-on", "regression", "--threshold", "confirmed")
    assert code == 1, said
    results = repo.results()
    assert verdicts(results) == {"threshold": "fail", "regression": "fail"}
    broken = {case["case_id"]: case["origin"] for case in results["comparison"]["cases"]}
    assert broken == {"case_2": "new", "case_4": "new"}
    comment = repo.comment()
    assert "The base gave the expected answer." in comment
    assert "answer 2" in comment
    assert comment.index("case_2") < comment.index("What to do")


def test_a_failure_that_main_has_too_is_known_and_with_threshold_new_does_not_block(
    repo: Repository,
) -> None:
    repo.git("checkout", "-q", "main")
    repo.agent("base", wrong=(1,))
    repo.commit("main is red")
    repo.git("checkout", "-q", "change")
    repo.agent("head", wrong=(1,))
    repo.git("stash", "-q")
    repo.git("rebase", "-q", "main")
    repo.git("stash", "pop", "-q") if repo.git("stash", "list") else None
    repo.agent("head", wrong=(1,))
    repo.commit("head")
    code, said = repo.run("--runs", "2")
    assert code == 1, said
    assert [case["origin"] for case in repo.results()["comparison"]["cases"]] == ["known"]
    code, said = repo.run("--runs", "2", "--threshold", "new")
    assert code == 0, said
    assert "pre-existing" in repo.comment()


def test_a_new_failure_is_confirmed_by_fresh_runs_of_both_sides(repo: Repository) -> None:
    repo.agent("head", wrong=(3,))
    repo.commit("head")
    code, said = repo.run("--threshold", "new", "--fail-on", "threshold")
    assert code == 1, said
    (case,) = repo.results()["comparison"]["cases"]
    assert (case["case_id"], case["origin"]) == ("case_3", "new")
    assert case["reruns"] == {"passed": 0, "runs": 5, "base_passed": 5, "base_runs": 5}
    assert repo.asked("head") == repo.asked("base") == 6 + 5


def test_a_case_whose_runs_differ_is_run_again_and_flaky(repo: Repository) -> None:
    repo.agent("head", flaky=(5,))
    repo.commit("head")
    # the agent counts its runs
    code, said = repo.run("--runs", "2", "--threshold", "new", "--concurrency", "1")
    assert code == 0, said
    assert repo.asked("head") == repo.asked("base") <= 6 * 2 + 3
    assert "1 flaky" in repo.comment()


def test_a_base_without_the_agent_blocks_nobody(repo: Repository) -> None:
    repo.git("checkout", "-q", "--orphan", "empty", "--force")
    repo.git("rm", "-rqf", ".")
    repo.cases(0, 1, 2)
    repo.commit("what an agent will be asked")
    repo.write(".gitignore", "evalgate-report/\n")
    repo.agent("head")
    repo.gate_file()
    repo.cases(0, 1, threshold=0.5)
    repo.commit("the first agent")
    code, said = repo.run(base="HEAD~1")
    results = repo.results()
    assert verdicts(results) == {"threshold": "pass", "regression": "pass"}
    assert results["verdict"]["kind"] == "pass"
    assert "Nothing to compare with yet: the base has no agent" in repo.comment()
    assert code == 0, said
    kinds = {edit["kind"] for edit in results["edits"]["edits"]}
    assert {"rule", "case_removed"} <= kinds, "the base's rules are known though it has no agent"
    assert "This change edits its own gate" in repo.comment()


@pytest.mark.parametrize(
    ("change", "kinds", "words"),
    [
        (
            "threshold",
            {"rule", "file"},
            "`response_match_score` `0.90` \N{RIGHTWARDS ARROW} `0.50`",
        ),
        ("case", {"case_removed"}, "case `case_5` deleted"),
        ("policy", {"file"}, "`evalgate.yml` (+1, -1)"),
        ("expectation", {"case_changed"}, "expectation of case `case_0` changed"),
    ],
)
def test_what_a_change_edits_of_its_gate_is_shown(
    repo: Repository, change: str, kinds: set[str], words: str
) -> None:
    match change:
        case "threshold":
            repo.cases(*range(6), threshold=0.5)
        case "case":
            repo.cases(*range(5))
        case "policy":
            repo.gate_file(**{"fail-on": ["not_measured"]})
        case _:
            repo.cases(*range(6), answers={0: "answer 0 indeed"})
    repo.commit("head")
    repo.run()
    assert {edit["kind"] for edit in repo.results()["edits"]["edits"]} == kinds
    comment = repo.comment()
    assert words in comment
    assert comment.index("edits its own gate") < comment.index("| Criterion")


def test_with_policy_both_the_worse_of_both_books_counts(repo: Repository) -> None:
    repo.agent("head", wrong=(4,))
    repo.cases(*range(5), threshold=0.0)
    repo.commit("head")
    assert repo.run("--fail-on", "threshold")[0] == 0
    assert "The base branch's rules decided" not in repo.comment()
    assert "passes only because this change relaxes the rules" in repo.comment()
    code, said = repo.run("--fail-on", "threshold", "--policy", "both")
    assert code == 1, said
    assert "The base branch's rules decided" in repo.comment()
    # a criteria file of the base that cannot be read stops nobody from repairing it
    repo.git("stash", "-q", "--include-untracked")
    repo.git("checkout", "-q", "main")
    repo.write("test_config.json", '{"criteria": {"response_match_score": 0.9')
    repo.commit("broken")
    repo.git("checkout", "-qb", "repair")
    repo.cases(*range(5), threshold=0.9)
    repo.commit("repaired")
    code, said = repo.run("--policy", "base")
    assert code == 0, said
    (problem,) = [
        each for each in repo.results()["problems"] if each["code"] == "base-rules-unknown"
    ]
    assert "test_config.json:1" in problem["message"]


def test_earlier_runs_save_the_bases_runs_where_its_agent_is_the_same(repo: Repository) -> None:
    repo.reuses = True
    repo.commit("head")
    repo.git("checkout", "-q", "main")
    code, said = repo.run(base="")
    assert code == 0, said
    repo.git("checkout", "-q", "change")
    code, said = repo.run()
    assert code == 0, said
    assert (repo.asked("head"), repo.asked("base")) == (6, 0)
    origin = repo.results()["comparison"]["origin"]
    assert (origin["source"], origin["reused"], "run" in origin) == ("store", 6, False)
    assert origin["measured_at"]
    code, said = repo.run("--runs", "2")
    # head's first runs are known as well
    assert (repo.asked("head"), repo.asked("base")) == (6, 6), said
    assert repo.results()["comparison"]["origin"]["source"] == "mixed"
    # where every question is another one nothing earlier stands in
    asked = (repo.root / "desk.evalset.json").read_text()
    repo.write(
        "desk.evalset.json", asked.replace("question", "a question").replace("answer", "a answer")
    )
    repo.commit("other questions")
    code, said = repo.run()
    assert repo.asked("base") == 6, said
    origin = repo.results()["comparison"]["origin"]
    assert (origin["source"], origin["run"], "reused" in origin) == ("rerun", 6, False)


def test_a_changed_criterion_is_judged_again_without_running_the_base(repo: Repository) -> None:
    repo.reuses = True
    repo.commit("head")
    repo.git("checkout", "-q", "main")
    repo.run(base="")
    repo.git("checkout", "-q", "change")
    repo.cases(*range(6), threshold=0.8, answers={0: "answer 0 of course"})
    repo.commit("another expectation")
    code, said = repo.run()
    assert repo.asked("base") == 0, said
    (row,) = [row for row in repo.results()["comparison"]["criteria"] if row["rule"]["gating"]]
    assert row["cases"]["compared"] == 6  # the base's earlier answers, scored by head's expectation
    assert row["base"] == row["head"] < 1
    assert code == 1  # case_0 is below its threshold on both sides


def test_only_stored_results_leave_new_and_changed_cases_out(
    repo: Repository, tmp_path: Path
) -> None:
    repo.commit("head")
    store = tmp_path / "store"
    repo.git("checkout", "-q", "main")
    repo.run("--baseline-folder", str(store), "--save-baseline", "always", base="")
    repo.git("checkout", "-q", "change")
    repo.cases(1, 2, 3, 4, 5, 9)
    repo.commit("cases come and go")
    code, said = repo.run("--baseline-folder", str(store), "--baseline", "store")
    assert code == 0, said
    assert repo.asked("base") == 0
    status = {case["case_id"]: case["status"] for case in repo.results()["comparison"]["cases"]}
    assert status["case_9"] == "new"
    assert status.get("case_0") == "removed"


def test_seconds_decide_only_beside_a_base_that_is_run_along(
    repo: Repository, tmp_path: Path
) -> None:
    repo.reuses = True
    repo.gate_file(compare={"invocation_duration_v1": {"gating": True, "max_drop": 100}})
    repo.commit("head")
    store = ("--baseline-folder", str(tmp_path / "store"))
    repo.git("checkout", "-q", "main")
    repo.run(*store, "--save-baseline", "always", base="")
    repo.git("checkout", "-q", "change")
    code, said = repo.run(*store)
    assert code == 0, said
    assert repo.asked("base") == 6
    code, said = repo.run(*store, "--baseline", "store")
    assert code == 3
    assert "measures time" in said
    (row,) = (
        row
        for row in repo.results()["comparison"]["criteria"]
        if row["name"] == "invocation_duration_v1"
    )
    assert (row["change"], row["rule"]["gating"]) == ("not_measured", True)
    # what was measured then is shown all the same (0.000 s at times)
    assert row["base"] is not None


def test_a_results_file_can_be_the_base(repo: Repository, tmp_path: Path) -> None:
    repo.commit("head")
    repo.git("checkout", "-q", "main")
    assert repo.run("--runs", "2", base="")[0] == 0
    kept = tmp_path / "main.json"
    kept.write_bytes((repo.root / "evalgate-report/results.json").read_bytes())
    repo.git("checkout", "-q", "change")
    repo.agent("head", wrong=(0, 1, 2, 3, 4, 5))
    code, said = repo.run("--runs", "2", "--baseline", f"file:{kept}", base="")
    assert code == 1, said
    assert repo.asked("base") == 0
    # the model may have moved since, and nobody can run the base
    assert verdicts(repo.results())["regression"] == "inconclusive"
    today = repo.results()["started_at"][:10]
    assert f"compared with stored results of {today}. The base did not run today" in repo.comment()
    # and so it is where the results are looked at once more
    assert repo.call("report", "evalgate-report/results.json", "--output", "again")[0] == 1
    assert "The base did not run today" in (repo.root / "again/comment.md").read_text()
    code, said = repo.run("--baseline", "file:nowhere.json", base="")
    assert code == 2
    assert "nowhere.json" in said


def test_a_base_that_git_does_not_know_is_not_measured_and_says_why(repo: Repository) -> None:
    repo.commit("head")
    code, said = repo.run(base="no-such-branch")
    assert code == 3, said
    assert "no-such-branch" in repo.results()["comparison"]["problem"]


def test_a_spent_budget_is_inconclusive(repo: Repository) -> None:
    repo.commit("head")
    code, said = repo.run("--budget", "agent_calls=7", "--fail-on", "inconclusive")
    assert code == 3, said
    assert repo.asked("head") + repo.asked("base") == 7
    assert repo.results()["verdict"]["kind"] == "inconclusive"
    assert "budget of 7 agent runs" in repo.comment()
