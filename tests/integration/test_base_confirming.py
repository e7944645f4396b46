"""Failures in real runs: what is run again before it blocks, by the default and by `threshold:
new`."""

from __future__ import annotations

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from builders.gated_repository import Repository, content

pytestmark = pytest.mark.integration


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(".gitignore", "evalgate-report/\nparts/\nmerged/\nkept/\n")
    made.agent("base")
    made.gate_file(threshold="new", fail_on=["threshold"])
    made.cases(1, 2, 3)
    made.commit("base")
    made.git("checkout", "-qb", "change")
    return made


def cases(repo: Repository, place: str = "evalgate-report") -> dict[str, Any]:
    results = json.loads((repo.root / place / "results.json").read_text())
    return {case["case_id"]: case for case in results["comparison"]["cases"]}


def test_a_base_of_which_only_results_are_stored_lets_head_confirm_alone(
    repo: Repository, tmp_path: Path
) -> None:
    store = ("--baseline-folder", str(tmp_path / "store"))
    repo.git("checkout", "-q", "main")
    repo.run(*store, "--save-baseline", "always", base="")
    repo.git("checkout", "-q", "change")
    repo.agent("head", wrong=(1,))
    # passes when it is asked the second time
    told = (repo.root / "agent.py").read_text().replace("asked % 2 == 0", "asked % 2 == 1")
    repo.write("agent.py", told.replace("set()", "{2}"))
    repo.commit("one is broken, one is a coin toss")
    code, said = repo.run(*store, "--baseline", "store")
    assert code == 1, said
    found = cases(repo)
    assert {name: case["origin"] for name, case in found.items()} == {
        "case_1": "new",
        "case_2": "flaky",
    }
    assert (found["case_1"]["reruns"]["passed"], found["case_2"]["reruns"]["passed"]) == (0, 1)
    # a case that passes 3 times in 10 fails so often 1 time in 20
    assert found["case_1"]["reruns"]["runs"] >= 10
    assert repo.asked("base") == 0
    assert "confirming 2 failures" in said
    assert not repo.results("base.json").get("confirmations")


def test_an_agent_behind_a_url_is_confirmed_by_head_alone_and_says_so(
    repo: Repository, tmp_path: Path
) -> None:
    wrong: set[str] = set()

    class Endpoint(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["message"]
            said = "nothing" if asked in wrong else asked.replace("question", "answer")
            body = json.dumps({"text": said}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        agent = {
            "driver": "http",
            "url": f"http://127.0.0.1:{server.server_port}/chat",
            "request": {"message": "{text}"},
            "response": {"text": "text"},
        }
        rules = {"agents": [agent], "threshold": "new", "fail_on": ["threshold"]}
        repo.write("evalgate.yml", json.dumps(rules))
        repo.commit("behind a URL")
        repo.git("branch", "-f", "main")
        store = ("--baseline-folder", str(tmp_path / "store"))
        repo.run(*store, "--save-baseline", "always", base="")
        repo.write("notes.txt", "changed")
        repo.commit("changed")
        wrong.add("question 1")
        code, said = repo.run(*store)
        server.shutdown()
    assert code == 1, said
    (case,) = cases(repo).values()
    assert (case["case_id"], case["origin"], case["reruns"].get("passed", 0)) == (
        "case_1",
        "new",
        0,
    )
    assert "is the same on both sides" not in said  # nobody asks an agent that cannot be run
    assert not repo.results("base.json").get("confirmations")


def test_a_base_that_fails_once_while_confirming_is_asked_again(repo: Repository) -> None:
    repo.git("checkout", "-q", "main")
    repo.write(
        "agent.py",
        (repo.root / "agent.py")
        .read_text()
        .replace("bad =", "asked == 2 and os._exit(1)\n            bad ="),
    )
    repo.commit("dies when it is asked for the second time")
    repo.git("checkout", "-q", "change")
    repo.git("rebase", "-q", "main")
    repo.agent("head", wrong=(1,))
    repo.commit("head")
    code, said = repo.run("--retries", "0")
    assert code == 1, said
    assert cases(repo)["case_1"]["origin"] == "new"


@pytest.mark.parametrize(
    ("asked", "code", "label", "said"),
    [
        # it crashes the first time alone
        ("asked == 1", 0, "flaky", "3 of 4 cases passed; 1 flaky (non-blocking)."),
        ("asked > 0", 1, "not_measured", ": 1 case runs only on the base."),
        ("asked > 1", 0, "passed", "All 4 cases passed."),  # nobody asks again
    ],
)
def test_a_crash_is_run_again_before_it_blocks(
    repo: Repository, asked: str, code: int, label: str, said: str
) -> None:
    repo.cases(1, 2, 3, 4)
    repo.gate_file(threshold="confirmed")
    repo.commit("four cases")
    repo.git("branch", "-f", "main")
    repo.agent("head")
    crash = f"number == 2 and {asked} and os._exit(1)\n            bad ="
    repo.write("agent.py", (repo.root / "agent.py").read_text().replace("bad =", crash))
    repo.commit("crashes in case 2")
    ended, told = repo.run("--retries", "0")
    assert ended == code, told
    results = repo.results()
    (case,) = (
        case
        for suite in results["suites"]
        for case in suite["cases"]
        if case["case_id"] == "case_2"
    )
    assert case.get("label", "passed") == label
    assert said in told
    assert repo.asked("head") > 4 or label == "passed"
    assert repo.call("report", "evalgate-report/results.json", "--output", "again")[0] == code
    assert said in (repo.root / "again/comment.md").read_text()


def test_nothing_is_run_again_for_an_advisory_suite(repo: Repository) -> None:
    repo.git("checkout", "-q", "main")
    repo.gate_file(threshold="new", suites=[{"match": ["**"], "severity": "advisory"}])
    repo.commit("advisory")
    repo.git("checkout", "-qb", "other")
    repo.agent("head", wrong=(1, 2))
    repo.commit("head")
    code, said = repo.run()
    assert code == 0, said
    assert (repo.asked("head"), repo.asked("base")) == (3, 3)


CALLING = """
import json, sys

def say(**message):
    print(json.dumps(message), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session", "")
    match message["type"]:
        case "hello":
            say(type="ready", protocol=1, about={{"framework": "test"}}, sessions=1)
        case "start":
            say(type="started", session=session)
        case "turn":
            call = {{"functionCall": {{"name": "{tool}", "args": {{}}, "id": "1"}}}}
            told = {{"functionResponse": {{"name": "{tool}", "response": {{}}, "id": "1"}}}}
            turns = ("model", call, False), ("user", told, False), ("model", {{"text": "{answer}"}}, True)
            for role, part, last in turns:
                said = {{"role": role, "parts": [part]}}
                say(type="event", session=session, author="agent", content=said, final=last)
            say(type="turn_end", session=session)
        case "end":
            say(type="ended", session=session)
        case "bye":
            break
"""


def test_a_case_that_fails_in_a_new_way_is_new_in_one_run_and_in_parts(repo: Repository) -> None:
    """The base gives another answer than expected; head gives it, and deletes everything."""
    turn = {
        "user_content": content("question 1", "user"),
        "final_response": content("answer 1", "model"),
        "intermediate_data": {"tool_uses": [{"name": "look_up", "args": {}}]},
    }
    asked = [{"eval_id": f"case_{number}", "conversation": [turn]} for number in (1, 2)]
    repo.git("checkout", "-q", "main")
    repo.write("desk.evalset.json", json.dumps({"eval_set_id": "desk", "eval_cases": asked}))
    criteria = {"response_match_score": 0.9, "tool_trajectory_avg_score": 1.0}
    repo.write("test_config.json", json.dumps({"criteria": criteria}))
    repo.write("agent.py", CALLING.format(tool="look_up", answer="something else"))
    repo.commit("main is red")
    repo.git("checkout", "-q", "change")
    repo.git("rebase", "-q", "main")
    repo.write("agent.py", CALLING.format(tool="delete_everything", answer="answer 1"))
    repo.commit("head")
    code, said = repo.run()
    assert code == 1, said
    found = cases(repo)
    assert [(case["origin"], case["newly"]) for case in found.values()] == [
        ("new", ["tool_trajectory_avg_score"]),
    ] * 2
    assert all(case["reruns"].get("passed", 0) == 0 for case in found.values() if "reruns" in case)
    assert "the base passes a criterion that fails here" in repo.comment()
    for part in (1, 2):
        repo.run("--shard", f"{part}/2", "--output", f"parts/{part}")
    code, said = repo.call("merge", "parts", "--output", "merged")
    assert code == 1, said
    merged = cases(repo, "merged")
    assert [(case["origin"], case["newly"]) for case in merged.values()] == [
        (case["origin"], case["newly"]) for case in found.values()
    ]


def test_files_without_fresh_runs_say_that_nothing_confirmed_them(repo: Repository) -> None:
    repo.commit("head")
    repo.run(base="")
    shutil.copytree(repo.root / "evalgate-report", repo.root / "kept")
    repo.agent("head", wrong=(1,))
    repo.run(base="")
    code, said = repo.call(
        "compare", "kept/results.json", "evalgate-report/results.json", "--output", "merged"
    )
    assert code == 1, said
    comment = (repo.root / "merged/comment.md").read_text()
    assert "not confirmed" in comment
    assert "the results lack reruns of 1 failure" in comment
    assert "no base result" not in comment


def test_a_failure_of_another_question_is_not_known(repo: Repository) -> None:
    repo.agent("base", wrong=(1,))
    repo.run(base="")
    shutil.copytree(repo.root / "evalgate-report", repo.root / "kept")
    repo.agent("head", wrong=(101,))
    file = repo.root / "desk.evalset.json"
    file.write_text(
        file.read_text().replace("question 1", "question 101").replace("answer 1", "answer 101")
    )
    repo.run(base="")
    code, said = repo.call(
        "compare", "kept/results.json", "evalgate-report/results.json", "--output", "merged"
    )
    assert code == 1, said
    assert "changed case (not comparable" in (repo.root / "merged/comment.md").read_text()


def test_by_default_noise_does_not_block_and_what_broke_does(repo: Repository) -> None:
    repo.gate_file(threshold="confirmed")
    repo.agent("head", flaky=(1,))
    # fails at first
    told = (repo.root / "agent.py").read_text().replace("asked % 2 == 0", "asked % 2 == 1")
    repo.write("agent.py", told)
    repo.commit("a coin toss")
    code, said = repo.run()
    assert code == 0, said
    assert cases(repo)["case_1"]["origin"] == "flaky"
    assert "2 of 3 cases passed; 1 flaky (non-blocking)." in said
    repo.agent("head", wrong=(1,))
    code, said = repo.run()
    assert code == 1, said
    assert cases(repo)["case_1"]["origin"] == "new"
    assert repo.asked("head") == repo.asked("base") <= 3 + 6


def test_by_default_what_fails_on_main_blocks_and_says_whose_it_is(repo: Repository) -> None:
    repo.git("checkout", "-q", "main")
    repo.gate_file(threshold="confirmed", fail_on=["threshold"])
    repo.agent("base", wrong=(1,))
    repo.commit("main is red")
    repo.git("checkout", "-q", "change")
    repo.git("rebase", "-q", "main")
    repo.write("README.md", "a change of words")
    repo.commit("words")
    code, said = repo.run()
    assert code == 1, said
    assert "1 of 3 cases failed (1 pre-existing)" in said


def test_at_a_desk_without_a_base_nothing_is_run_again_unless_somebody_asks(
    repo: Repository,
) -> None:
    repo.gate_file(threshold="confirmed")
    repo.agent("head", wrong=(1,))
    code, said = repo.run(base="")
    assert (code, repo.asked("head")) == (1, 3), said
    code, said = repo.run("--confirm", base="")
    assert code == 1, said
    assert 3 + 10 <= repo.asked("head") <= 3 + 14
    repo.gate_file(threshold="confirmed", budget={"agent_calls": 5})
    code, said = repo.run("--confirm", base="")
    assert (code, repo.results()["verdict"]["kind"]) == (3, "not_measured"), said
    assert "Increase `budget`" in repo.comment()


@pytest.mark.parametrize(
    ("wrong", "budget", "threshold", "code", "most", "said"),
    [
        # the second of 20 cases is broken: six pairs of runs are kept back, so that it is confirmed
        ((2,), 40, "confirmed", 1, 40, "Worse than the base"),
        # nothing fails: all of it goes to the first runs
        ((), 40, "confirmed", 0, 40, "All 20 cases passed"),
        # where nothing is rerun, nothing is kept back
        ((2,), 40, "all", 1, 40, "1 of 20 cases failed"),
        # the last case is broken: what is left does not confirm it, and nobody says that all is
        # well
        ((20,), 40, "confirmed", 3, 40, "the budget of 40 agent runs is spent"),
        # too few for all cases: what was confirmed blocks all the same
        ((1,), 28, "confirmed", 1, 28, "Worse than the base"),
    ],
)
def test_a_budget_keeps_back_what_confirming_needs(
    repo: Repository,
    wrong: tuple[int, ...],
    budget: int,
    threshold: str,
    code: int,
    most: int,
    said: str,
) -> None:
    repo.git("checkout", "-q", "main")
    repo.cases(*range(1, 21))
    repo.gate_file(threshold=threshold, budget={"agent_calls": budget})
    repo.commit("twenty cases")
    repo.git("checkout", "-q", "-B", "change")
    repo.agent("head", wrong=wrong)
    repo.commit("head")
    # what is under way when a case fails is let end
    exit_code, output = repo.run("--concurrency", "1")
    assert exit_code == code, output
    assert said in output
    assert repo.asked("head") + repo.asked("base") <= most


def test_parts_confirm_each_their_own(repo: Repository) -> None:
    repo.gate_file(threshold="confirmed", fail_on=["threshold"])
    repo.agent("head", wrong=(1, 2))
    repo.commit("head")
    for part in (1, 2):
        repo.run("--shard", f"{part}/2", "--output", f"parts/{part}")
    code, said = repo.call("merge", "parts", "--output", "merged")
    assert code == 1, said
    assert {name: case["origin"] for name, case in cases(repo, "merged").items()} == {
        "case_1": "new",
        "case_2": "new",
    }


@pytest.mark.parametrize(("of_today", "code"), [("right", 1), ("wrong", 3)])
def test_beside_stored_results_nothing_is_red_before_the_base_ran_today(
    repo: Repository, tmp_path: Path, of_today: str, code: int
) -> None:
    """A provider that moved since: the stored base passed, and today it fails as head does."""
    rules: dict[str, Any] = {"threshold": "confirmed"}
    moving = 'bad = number in WRONG or (os.path.exists(os.environ["ASKED_LOG"] + ".moved") and number in MOVING)'
    numbers = tuple(range(1, 7))

    def agent(side: str, *, wrong: tuple[int, ...] = ()) -> None:
        repo.agent(side, wrong=wrong)
        text = (
            (repo.root / "agent.py")
            .read_text()
            .replace("bad = number in WRONG", f"{moving} or False", 1)
        )
        moved = numbers if of_today == "wrong" else ()
        repo.write("agent.py", text.replace("turns = 0", f"turns = 0\nMOVING = {moved}", 1))

    repo.git("checkout", "-q", "main")
    agent("base")
    repo.cases(*range(20))
    repo.gate_file(**rules)
    repo.commit("base")
    repo.reuses = True
    assert repo.run(base="")[0] == 0
    repo.git("checkout", "-q", "-B", "change")
    agent("head", wrong=() if of_today == "wrong" else numbers)
    repo.commit("head")
    Path(f"{repo.log}.moved").touch()
    found, said = repo.run()
    assert found == code, said
    gate = next(each for each in repo.results()["verdict"]["gates"] if each["gate"] == "regression")
    if of_today == "right":
        assert gate["kind"] == "fail", said
        assert 0 < repo.asked("base") <= 6
    else:
        assert gate["kind"] == "pass", said
        assert "the base passed it before and fails it today too" in repo.comment()
