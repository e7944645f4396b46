"""`evalgate ui` as its page meets it, over HTTP: who is refused, what runs, what is written."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from builders import ui
from builders.gated_repository import Repository
from builders.ui import Ui

from evalgate.gate import waiting
from evalgate.gate.waiting import WaitingChange

pytestmark = pytest.mark.integration

SUITE = "desk.evalset.json"
OF_0 = {"suite": SUITE, "case": "case_0"}


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """case_0 and case_2 expect other answers than the agent gives, on lines of their own in the
    file."""
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.agent("head")
    made.gate_file()
    made.cases(0, 1, 2, threshold=0.9, answers={0: "an old answer", 2: "another old one"})
    text = (made.root / SUITE).read_text()
    made.write(SUITE, json.dumps(json.loads(text), indent=1) + "\n")
    made.commit("first")
    return made


@pytest.fixture
def start(repo: Repository) -> Callable[..., contextlib.AbstractContextManager[Ui]]:
    environment = {"ASKED_LOG": str(repo.log), "XDG_CACHE_HOME": str(repo.log.parent / "cache")}
    return lambda *options, **more: ui.started(
        repo.root, *options, environment={**environment, **more}
    )


@pytest.fixture
def server(start) -> Iterator[Ui]:
    with start() as made:
        yield made


def kinds(told: dict[str, Any]) -> dict[str, str]:
    return {case: kind for _, case, kind in told["trials"]}


def figure(server: Ui, name: str) -> str:
    """A figure of the page's head."""
    found = re.search(
        rf"<dt>{name}</dt><dd>([^<]*)</dd>", server.client.get("/").raise_for_status().text
    )
    assert found is not None
    return found[1]


def test_others_are_refused(server: Ui) -> None:
    state = f"{server.origin}/api/state"
    name = server.origin.removeprefix("http://")
    tries: list[tuple[dict[str, str], int]] = [
        ({}, 200),
        ({"authorization": ""}, 403),
        ({"authorization": "Bearer of-another-start"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"host": "rebound.example"}, 403),
        ({"host": name.replace("127.0.0.1", "rebound.example")}, 403),
        ({"host": name.replace("127.0.0.1", "localhost")}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
    ]
    for headers, status in tries:
        assert server.client.get(state, headers=headers).status_code == status, headers
        for path in ("/", "/api/events", "/nothing", "/api/run"):
            if status == 403:
                assert (
                    server.client.post(path, headers=headers, json={"which": "all"}).status_code
                    == 403
                )
                assert server.client.get(path, headers=headers).status_code == 403
    opened = server.client.get(
        server.address, headers={"authorization": ""}, follow_redirects=False
    )
    assert (opened.status_code, opened.headers["refresh"]) == (200, "0; url=/")
    assert "HttpOnly; Path=/; SameSite=strict" in opened.headers["set-cookie"]
    form = server.client.post(
        "/api/run", content="which=all", headers={"content-type": "text/plain"}
    )
    assert form.status_code == 415
    assert server.ask("run", which="everything")[0] == 400
    assert server.ask("nothing")[0] == 404
    assert not server.state()["run"]["running"]


def test_the_page_asks_nobody_but_its_server(server: Ui) -> None:
    page = server.client.get("/")
    policy = page.headers["content-security-policy"]
    assert policy.startswith(
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; media-src data:; style-src 'sha256-"
    )
    assert policy.endswith("; connect-src 'self'; frame-ancestors 'none'")
    assert "unsafe" not in policy
    assert page.headers["cache-control"] == "no-store"
    assert server.address.partition("token=")[2] not in page.text


def test_from_a_failure_to_a_pass(server: Ui, repo: Repository) -> None:
    before = (repo.root / SUITE).read_text()
    told = server.run("all")
    assert kinds(told) == {"case_0": "fail", "case_1": "pass", "case_2": "fail"}
    assert (told["done"], told["total"], told["verdict"]["kind"]) == (3, 3, "fail")
    _, look = server.ask("accept", **OF_0)
    assert look["changes"] == [{"turn": 0, "answer": ["an old answer", "answer 0"], "calls": None}]
    assert (repo.root / SUITE).read_text() == before
    # what was looked at is what is written, or nothing
    assert server.ask("accept", **OF_0, version="of something else")[0] == 409
    assert server.ask("accept", **OF_0, version=look["version"]) == (200, {**look, "written": True})
    assert (repo.root / SUITE).read_text() == before.replace("an old answer", "answer 0")
    status, refused = server.ask("accept", **OF_0)
    assert (status, refused["error"]) == (
        409,
        "not accepted: it was changed since it ran: run it again",
    )
    assert figure(server, "passed") == "1", (
        "what was changed since it ran is not measured, and does not pass"
    )
    assert kinds(server.run("selected", cases=[[SUITE, "case_0"]])) == {"case_0": "pass"}
    assert figure(server, "passed") == "2"
    repo.log.unlink()
    # if nobody opened the evaluation file during the first run, its result would be reused
    server.run("failed", fresh=True)
    assert repo.log.read_text() == "head question 2\n"
    runs = server.state()["runs"]
    assert [run["cases"] for run in runs] == [1, 1, 3]
    beside = server.client.get("/", params={"head": runs[0]["id"], "base": runs[2]["id"]})
    assert "Comparison with the base" in beside.text
    assert repo.call("history", "case_0")[1].count(SUITE) == 2, (
        "the runs are those of the command line"
    )


def test_what_an_assistant_proposed_is_accepted_or_forgotten(server: Ui, repo: Repository) -> None:
    before = (repo.root / SUITE).read_text()
    new = before.replace("an old answer", "answer 0")
    for name in ("one", "two"):
        change = WaitingChange(name=name, texts={SUITE: (before, new)}, reasons=("it is replaced",))
        waiting.keep(repo.root, change)
    one, two = server.state()["waiting"]
    assert (one["name"], one["reasons"]) == ("one", ["it is replaced"])
    assert "an old answer" in one["diff"]
    order = {"change": "one", "accept": True}
    # what was looked at is what is made, or nothing
    assert server.ask("decide", **order, version=two["version"])[0] == 409
    assert (repo.root / SUITE).read_text() == before
    assert server.ask("decide", **order, version=one["version"]) == (200, {"written": True})
    assert (repo.root / SUITE).read_text() == new
    assert server.ask("decide", **order, version=one["version"])[0] == 409
    status, refused = server.ask("decide", change="two", version=two["version"], accept=True)
    assert (status, refused["error"]) == (409, f"{SUITE} was changed since, at the same place")
    assert server.ask("decide", change="two", version=two["version"], accept=False)[0] == 200
    assert server.state()["waiting"] == []


def test_the_newest_of_each_case_is_one_run_where_it_holds_all(
    server: Ui, repo: Repository
) -> None:
    assert repo.call("run", "--runs", "2")[0] == 1
    assert figure(server, "runs per case") == "2"
    server.run("selected", cases=[[SUITE, "case_1"]])
    assert figure(server, "runs per case") == "1"


def test_criteria_that_are_not_scored_are_not_measured(server: Ui) -> None:
    told = server.run("all", scored=["tool_call_count_v1"])
    assert set(kinds(told).values()) == {"not_measured"}
    assert told["verdict"]["kind"] == "not_measured"


def test_a_case_is_edited(server: Ui, repo: Repository) -> None:
    before = (repo.root / SUITE).read_text()
    _, case = server.ask("case", **OF_0)
    assert case["turns"] == [{"user": "question 0", "answer": "an old answer", "calls": None}]
    changed = {
        "answers": {0: "m\u00fcde"},
        "calls": {0: [{"name": "find", "args": {"x": 1}}]},
        "rubrics": [["kind", "It is kind."]],
    }
    assert server.ask("edit", **OF_0, version=case["version"], **changed) == (
        200,
        {"written": True},
    )
    _, after = server.ask("case", **OF_0)
    assert after["turns"] == [
        {"user": "question 0", "answer": "m\u00fcde", "calls": [{"name": "find", "args": {"x": 1}}]}
    ]
    assert after["rubrics"] == [{"id": "kind", "text": "It is kind."}]
    now = (repo.root / SUITE).read_text()
    assert now.partition('"case_1"')[2] == before.partition('"case_1"')[2], (
        "the other cases are as they were"
    )
    # of what was looked at before somebody else changed it
    assert (
        "was changed meanwhile"
        in server.ask("edit", **OF_0, version=case["version"], answers={0: "x"})[1]["error"]
    )
    assert (
        "id of its own"
        in server.ask("edit", **OF_0, version=after["version"], rubrics=[["", "x"]])[1]["error"]
    )
    assert server.ask("delete", **OF_0, version=case["version"])[0] == 409
    assert (repo.root / SUITE).read_text() == now
    assert server.ask("delete", **OF_0, version=after["version"]) == (200, {"written": True})
    left = (repo.root / SUITE).read_text()
    assert [each["eval_id"] for each in json.loads(left)["eval_cases"]] == ["case_1", "case_2"]
    assert before.endswith(left.partition('"case_1"')[2])
    assert server.ask("case", suite="../outside.json", case="x")[0] == 409


def test_a_session_becomes_a_case(start, repo: Repository) -> None:
    with start(MY_KEY="a-secret-of-mine") as server:
        assert server.ask("chat-say", text="hi")[0] == 409
        assert server.ask("chat-open", suite=SUITE)[1]["turns"] == []
        assert (
            server.ask("chat-save", suite=SUITE, case="too early")[1]["error"]
            == "nothing was said yet"
        )
        assert server.ask("chat-say", text="question 41")[1]["turns"][0]["answer"] == "answer 41"
        server.ask("chat-say", text="question 42")
        assert server.ask("chat-save", suite=SUITE, case="")[0] == 400
        assert server.ask("chat-save", suite=SUITE, case="case_1")[1]["case"] == "case_1_2"
        assert server.ask("chat-save", suite=SUITE, case="talked") == (
            200,
            {"written": True, "case": "talked"},
        )
        turns = server.ask("case", suite=SUITE, case="talked")[1]["turns"]
        assert [turn["answer"] for turn in turns] == ["answer 41", "answer 42"]
        assert kinds(server.run("selected", cases=[[SUITE, "talked"]])) == {"talked": "pass"}
        server.ask("chat-say", text="is it a-secret-of-mine question 7")
        assert server.ask("chat-save", suite=SUITE, case="secret")[0] == 200
        assert "a-secret-of-mine" not in (repo.root / SUITE).read_text()
        assert "is it *** question 7" in (repo.root / SUITE).read_text()
        # an agent that fails ends the session, says once why, and what came before may become a
        # case
        code, told = server.ask("chat-say", text="no such thing")
        assert (code, told["error"].count("ValueError") + told["hint"].count("ValueError")) == (
            409,
            1,
        ), told
        assert server.state()["chat"]["over"] is True
        assert (
            server.ask("chat-say", text="question 1")[1]["error"]
            == "the session with the agent has ended"
        )
        assert server.ask("chat-save", suite=SUITE, case="before")[0] == 200
        assert len(server.ask("case", suite=SUITE, case="before")[1]["turns"]) == 3
        assert server.ask("chat-end")[1] == {"chat": None}
        repo.write("agent.py", "raise SystemExit('no such luck')")
        assert "the agent failed" in server.ask("chat-open", suite=SUITE)[1]["error"]


def test_what_a_page_may_send_in_a_session_is_bounded(server: Ui) -> None:
    assert server.ask("chat-file", number=0)[0] == 409
    server.ask("chat-open", suite=SUITE)
    picture = {"mime": "image/png", "data": "aGk="}
    tries = [
        ({}, 409, "nothing was said"),
        ({"replies": [{"id": "x", "name": "pay", "response": {}}]}, 409, "does not ask this"),
        ({"files": [{**picture, "mime": "image/png; x"}]}, 400, "mime"),
        ({"files": [{**picture, "data": "<b>"}]}, 400, "data"),
        ({"files": [{**picture, "data": "AAAA" * 3_000_000}]}, 409, "too much at once"),
    ]
    for body, status, words in tries:
        code, told = server.ask("chat-say", **body)
        assert (code, words in told["error"]) == (status, True), told
    chat = server.ask("chat-say", text="question 7", files=[picture])[1]
    assert chat["turns"][0]["attached"] == [{"mime": "image/png", "size": 3, "number": 0}]
    assert server.ask("chat-file", number=0)[1] == picture
    assert server.ask("chat-file", number=1)[0] == 409
    assert server.ask("chat-trace", number=0) == (200, {"entries": []})
    assert server.ask("chat-trace", number=1)[0] == 409


def test_a_session_ends_while_its_agent_is_thinking(start, repo: Repository) -> None:
    slow = (
        (repo.root / "agent.py")
        .read_text()
        .replace(
            "bad = number",
            "number == 9 and __import__('time').sleep(100)\n            bad = number",
        )
    )
    repo.write("agent.py", slow)
    with start() as server, ThreadPoolExecutor() as pool:
        assert server.ask("chat-open", suite=SUITE)[0] == 200
        said = [pool.submit(server.ask, "chat-say", text="question 9") for _ in range(3)]
        while "question 9" not in (repo.log.read_text() if repo.log.exists() else ""):
            time.sleep(0.05)
        assert server.ask("chat-end") == (200, {"chat": None})
        # neither the turn that is under way nor those behind it wait for an answer that nobody
        # takes
        assert [each.result(timeout=30)[0] for each in said] == [409, 409, 409]


def test_read_only_runs_nothing_and_writes_nothing(start, repo: Repository) -> None:
    assert repo.call("run")[0] == 1
    before = sorted((path, path.read_bytes()) for path in repo.root.rglob("*") if path.is_file())
    repo.log.unlink()
    with start("--read-only") as server:
        assert server.state()["readOnly"]
        assert server.client.get("/").status_code == 200
        assert figure(server, "passed") == "1"
        _, case = server.ask("case", **OF_0)
        for name, body in {
            "run": {"which": "all"},
            "stop": {},
            "rebuild": {},
            "accept": OF_0,
            "decide": {"change": "one", "version": "", "accept": False},
            "edit": {**OF_0, "version": case["version"], "answers": {0: "x"}},
            "delete": {**OF_0, "version": case["version"]},
            "chat-open": {"suite": SUITE},
            "chat-say": {"text": "hi"},
            "chat-save": OF_0,
            "chat-end": {},
        }.items():
            assert server.ask(name, **body)[0] == 403, name
    assert (
        sorted((path, path.read_bytes()) for path in repo.root.rglob("*") if path.is_file())
        == before
    )
    assert not repo.log.exists()


def wait_for(path: Path, lines: int) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() or path.read_text().count("\n") < lines:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["stop", "terminate", "kill"])
def test_a_run_that_is_ended_goes_on_where_it_was(start, repo: Repository, how: str) -> None:
    agent = (repo.root / "agent.py").read_text()
    repo.write(
        "agent.py", agent.replace("number = int", "import time; time.sleep(0.2); number = int")
    )
    repo.gate_file(concurrency=1)
    repo.cases(*range(10))
    with start() as server:
        assert server.ask("run", which="all")[0] == 200
        assert server.ask("run", which="all")[1]["error"] == "a run is under way"
        wait_for(repo.log, 3)
        if how == "stop":
            server.ask("stop")
            assert server.ended()["verdict"]["complete"] is False
        else:
            os.kill(server.process.pid, signal.SIGKILL if how == "kill" else signal.SIGTERM)
            server.process.wait(60)
    time.sleep(0.5)  # whoever is killed cannot wait for its children
    asked = repo.log.read_text().splitlines()
    assert len(asked) < 10
    with start() as server:
        told = server.run("all")
        assert kinds(told) == {f"case_{number}": "pass" for number in range(10)}
        assert any("reused from earlier runs" in line for line in told["lines"])
    again = repo.log.read_text().splitlines()[len(asked) :]
    # what was under way when it was ended is all that is asked twice
    assert len(again) <= 10 - len(asked) + 1
    assert set(asked) | set(again) == {f"head question {number}" for number in range(10)}


def test_what_is_wrong_is_told(start, repo: Repository) -> None:
    with start() as server:
        port = server.origin.rpartition(":")[2]
        code, said = repo.call("ui", "--no-open", "--port", port)
        assert (code, "cannot be used" in said) == (2, True)
        repo.write(SUITE, "{")
        assert any(SUITE in each for each in server.state()["problems"])
        assert server.run("all")["error"]["message"]
        assert server.client.get("/", params={"head": "../../etc"}).status_code == 500
    assert repo.call("ui", "--root", "nowhere")[0] == 2


def test_what_no_json_holds_is_shown_as_text(start, repo: Repository) -> None:
    text = (repo.root / SUITE).read_text()
    made = json.loads(text)
    call = {"name": "add", "args": {"n": float("nan"), "most": float("inf")}}
    made["eval_cases"][0]["conversation"][0]["intermediate_data"] = {"tool_uses": [call]}
    repo.write(SUITE, json.dumps(made))
    with start() as server:
        status, told = server.ask("case", suite=SUITE, case=made["eval_cases"][0]["eval_id"])
        assert (status, told["turns"][0]["calls"]) == (
            200,
            [{"name": "add", "args": {"n": "nan", "most": "inf"}}],
        )
        status, told = server.ask("case", suite="a\0b", case="c")
        assert (status, "no path can have" in told["error"]) == (409, True)


def test_what_to_install_is_told(repo: Repository) -> None:
    code = "import sys; sys.modules['starlette.applications'] = None\nfrom evalgate.cli import main\nmain(['ui'])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=repo.root, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert re.search(r"-m uv pip install --python \S+ .*starlette", done.stderr)
