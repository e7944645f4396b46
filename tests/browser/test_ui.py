"""`evalgate ui` in a real browser: from a failure to a pass, accessible, and quiet whatever an
agent says."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from builders import ui
from builders.gated_repository import Repository, content
from builders.hostile import HOSTILE
from builders.ui import Ui
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.integration]

SUITE = "desk.evalset.json"
PARROT = "import json, sys\nsaid = json.load(open('said.json'))\n"
# says what said.json holds, and calls a tool that is called so
HOSTILE_AGENT = (
    PARROT
    + """
for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session", "")
    def say(**told):
        print(json.dumps({**told, **({"session": session} if session else {})}), flush=True)
    match message["type"]:
        case "hello":
            say(type="ready", protocol=1, about={"framework": "test"}, sessions=1)
        case "start":
            say(type="started")
        case "turn":
            parts = [{"function_call": {"name": said, "args": {said: said}}}]
            say(type="event", author=said, content={"role": "model", "parts": parts})
            say(type="event", author="agent", content={"role": "model", "parts": [{"text": said}]}, final=True)
            say(type="turn_end")
        case "end":
            say(type="ended")
        case "bye":
            break
"""
)


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """case_0 expects another answer than the agent gives."""
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.agent("head")
    made.gate_file()
    made.cases(0, 1, 2, threshold=0.9, answers={0: "an old answer"})
    made.commit("first")
    return made


@pytest.fixture
def server(repo: Repository) -> Iterator[Ui]:
    environment = {"ASKED_LOG": str(repo.log), "XDG_CACHE_HOME": str(repo.log.parent / "cache")}
    with ui.started(repo.root, environment=environment) as made:
        yield made


@pytest.fixture
def open_page(browser: Any, server: Ui) -> Iterator[Callable[..., tuple[Any, list[str]]]]:
    contexts = []

    def opened(**options: Any) -> tuple[Any, list[str]]:
        context = browser.new_context(**options)
        contexts.append(context)
        page, trouble = context.new_page(), list[str]()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith(f"{server.origin}/") else trouble.append(request.url)
            ),
        )
        server.state()  # it answers
        page.goto(server.address)
        page.wait_for_selector("#bar button")
        return page, trouble

    yield opened
    for context in contexts:
        context.close()


def open_case(page: Any, name: str) -> None:
    page.locator("a.entry", has_text=name).first.click()
    page.wait_for_selector("#accept")


def test_a_failure_is_accepted_and_passes(open_page, server: Ui, repo: Repository) -> None:
    before = (repo.root / SUITE).read_text()
    page, trouble = open_page()
    assert "token" not in page.url
    page.click("#run-all")
    page.wait_for_selector("a.entry.fail", timeout=60_000)
    open_case(page, "case_0")
    page.click("#accept")
    page.wait_for_selector("dialog .changes ins")
    assert page.locator("dialog .changes del").all_inner_texts() == ["an old "]
    page.click("#do-accept")
    page.wait_for_selector("#title.not_measured")
    assert (repo.root / SUITE).read_text() == before.replace("an old answer", "answer 0")
    page.click("#run-case")
    page.wait_for_selector("#title.pass", timeout=60_000)
    assert page.locator("a.entry.pass").count() == 3
    assert "Last run: pass (1 pass)" in page.locator("#bar").inner_text()
    assert trouble == []


def test_thresholds_are_moved_cases_chosen_and_a_run_stopped(
    open_page, server: Ui, repo: Repository
) -> None:
    server.run("all")
    repo.log.unlink()
    page, trouble = open_page()
    page.locator("#what-if").get_by_label("Threshold of response_match_score", exact=True).fill(
        "0.3"
    )
    expect(page.locator("#what-if")).to_contain_text("3 of 3 cases would pass, 2 do now.")
    assert page.locator("a.entry small b.pass").count() == 1
    assert page.get_by_label("Threshold of").count() == 2, (
        "the number and its slider, and no others"
    )
    assert not repo.log.exists(), "nothing is run"
    page.get_by_label("Select case_1").check()
    assert page.locator("#run-selected").inner_text() == "Run selected (1)"
    agent = (repo.root / "agent.py").read_text()
    repo.write(
        "agent.py", agent.replace("number = int", "import time; time.sleep(20); number = int")
    )
    page.click("#run-selected")
    page.wait_for_selector("#bar progress")
    page.click("#stop")
    expect(page.locator("#bar")).to_contain_text("Last run: stopped", timeout=60_000)
    # a page that is loaded again keeps them
    expect(page.locator("#would")).to_have_text("3 of 3 cases would pass")
    assert trouble == []


def test_a_case_is_edited_and_another_deleted(open_page, server: Ui, repo: Repository) -> None:
    server.run("all")
    before = json.loads((repo.root / SUITE).read_text())
    page, trouble = open_page()
    open_case(page, "case_0")
    page.click("#edit")
    page.get_by_label("Expected answer").fill("answer 0")
    page.get_by_label("Expected calls, as JSON").fill("not JSON")
    page.click("#save")
    assert "Calls of turn 1" in page.get_by_role("alert").inner_text()
    page.get_by_label("Expected calls, as JSON").fill("[]")
    page.click("#save")
    page.wait_for_selector("#title.not_measured")
    open_case(page, "case_2")
    page.click("#delete")
    page.click("#do-delete")
    expect(page.locator("a.entry")).to_have_count(2)
    after = json.loads((repo.root / SUITE).read_text())
    turn = before["eval_cases"][0]["conversation"][0]
    turn["final_response"]["parts"][0]["text"] = "answer 0"
    turn["intermediate_data"] = {"tool_uses": []}
    assert after["eval_cases"] == before["eval_cases"][:2]
    assert trouble == []


def test_an_agent_that_fails_ends_the_session(open_page, server: Ui, repo: Repository) -> None:
    page, trouble = open_page()
    page.click("#chat")
    page.click("#start")
    for text in ("question 7", "no number"):
        page.fill("#message", text)
        page.click("#send")
        expect(page.get_by_role("log")).to_contain_text("answer 7")
    expect(page.get_by_role("alert")).to_contain_text("the agent failed")
    expect(page.locator("dialog")).to_contain_text("What came before can be saved.")
    expect(page.locator("#message")).to_have_count(0)
    page.fill("#new-id", "before")
    page.click("#save-chat")
    expect(page.get_by_role("status").filter(has_text="Saved before")).to_be_visible()
    assert json.loads((repo.root / SUITE).read_text())["eval_cases"][-1]["eval_id"] == "before"
    page.click("#end")
    expect(page.locator("#start")).to_be_visible()
    assert all("409" in each for each in trouble)  # which the browser tells of the refused message


def test_what_an_agent_says_is_text(open_page, server: Ui, repo: Repository) -> None:
    words = HOSTILE.replace("\ud800", "").replace("\x00", "")
    repo.write("said.json", json.dumps(words))
    repo.write("agent.py", HOSTILE_AGENT)
    repo.gate_file(agents=[{"driver": "command", "command": [sys.executable, "agent.py"]}])
    name = "<img src=x onerror=alert(1)>'\"|`x`"
    turn = {
        "user_content": content(words, "user"),
        "final_response": content(words + " or not", "model"),
    }
    cases = [{"eval_id": each, "conversation": [turn]} for each in (name, "other")]
    repo.write(SUITE, json.dumps({"eval_set_id": words[:50], "eval_cases": cases}))
    repo.write(
        "test_config.json",
        json.dumps({"criteria": {"response_match_score": 1.0, "tool_trajectory_avg_score": 1.0}}),
    )
    server.run("all")
    page, trouble = open_page()
    page.locator("a.entry").first.click()
    page.click("#accept")
    page.wait_for_selector("dialog .changes pre")
    page.locator("dialog select").first.select_option("calls answer")
    page.wait_for_selector("dialog .changes .calls")
    page.click("#close")
    page.click("#edit")
    page.wait_for_selector("#save:enabled")
    page.click("#close")
    page.click("#chat")
    page.click("#start")
    page.get_by_label("Message").fill(words)
    page.click("#send")
    page.wait_for_selector(".says")
    page.locator("dialog").get_by_label("Id").fill(name + "2")
    page.click("#save-chat")
    page.wait_for_selector("text=Saved")
    assert (
        page.evaluate(
            "document.querySelectorAll('img, iframe, object, script[src], body b b, dialog a').length"
        )
        == 0
    )
    assert trouble == []
    assert [
        each["eval_id"] for each in json.loads((repo.root / SUITE).read_text())["eval_cases"]
    ] == [
        name,
        "other",
        name + "2",
    ]


@pytest.mark.parametrize("width", [1280, 420])
def test_axe_finds_nothing(open_page, server: Ui, width: int) -> None:
    server.run("all")
    for scheme in ("light", "dark"):
        # axe is injected; the page may not be
        page, _ = open_page(
            color_scheme=scheme, bypass_csp=True, viewport={"width": width, "height": 800}
        )
        look(page, "overview", scheme)
        page.locator("#what-if input[type=range]").fill("0.3")
        page.wait_for_selector("a.entry small b")
        look(page, "thresholds", scheme)
        page.locator(".menu summary").click()
        open_case(page, "case_0")
        look(page, "case, menu", scheme)
        page.locator(".menu summary").click()
        for name, ready in (
            ("#accept", "dialog .changes ins"),
            ("#edit", "#save:enabled"),
            ("#delete", "#do-delete"),
            ("#chat", "#start"),
        ):
            page.click(name)
            page.wait_for_selector(ready)
            if name == "#edit":
                page.click("#add-rubric")
            if name == "#chat":
                page.click("#start")
                page.get_by_label("Message").fill("question 3")
                page.click("#send")
                page.wait_for_selector(".says")
            look(page, name, scheme)
            if name == "#chat":
                page.click("#end")
                page.wait_for_selector("#start")
            page.click("#close")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def look(page: Any, what: str, scheme: str) -> None:
    page.evaluate(
        "document.querySelectorAll('#bar .log, #overview details').forEach(each => each.open = true)"
    )
    found = Axe().run(page)
    violations = [
        (each["id"], each["nodes"][0]["html"][:200]) for each in found.response["violations"]
    ]
    assert violations == [], (what, scheme)


def test_the_keyboard_alone(open_page, server: Ui) -> None:
    server.run("all")
    page, _ = open_page()
    page.keyboard.press("n")
    page.wait_for_selector("#accept")
    page.locator("#accept").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .changes ins")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    assert page.evaluate("document.activeElement.id") == "accept"
