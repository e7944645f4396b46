"""`evalgate ui` in a real browser: from a failure to a pass, accessible, and quiet whatever an
agent says."""

from __future__ import annotations

import base64
import json
import os
import pty
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from builders import chromium, forked_command, ui
from builders.gated_repository import Repository, content
from builders.hostile import HOSTILE
from builders.nightly import BY_NIGHT
from builders.ui import Ui
from playwright.sync_api import expect

from evalgate.gate import waiting
from evalgate.gate.waiting import WaitingChange
from tests.integration.agents.line_client import AGENTS, forked_adk

pytestmark = [pytest.mark.browser, pytest.mark.integration]

SUITE = "desk.evalset.json"
PARROT = "import json, sys\nsaid = json.load(open('said.json'))\n"
SVG = base64.b64encode(
    b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(2)</script></svg>'
).decode()
# says what said.json holds, and calls a tool that is called so
HOSTILE_AGENT = (
    PARROT
    + f"SVG = {SVG!r}\n"
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
            for text in (said, "<script>" * 100_000):
                say(type="event", author=said, content={"parts": [{"text": text}]}, partial=True)
            drawing = {"mime_type": "image/svg+xml", "data": SVG}
            call = {"kind": "tool", "agent": said, "name": said, "args": {said: said}, "error": said, "at": 0, "s": 1}
            for number, entry in enumerate([
                {"kind": "agents", "root": {"name": said, "agents": [{"name": "__proto__"}, {"name": said}]}},
                {"kind": "model", "agent": "__proto__", "at": 0, "request": {"model": said}},
                call,
                {"kind": "event", "long_running_tool_ids": ["c1", "__proto__"]},
            ]):
                say(type="trace", number=number, entry=entry)
            say(type="artifact", name=said, version=0, part={"inline_data": drawing})
            say(type="artifact", name=said, version=1, part={"text": said})
            about = {"hint": said, "payload": said}
            asks = {"originalFunctionCall": {"name": said, "args": {said: said}}, "toolConfirmation": about}
            parts = [{"function_call": {"name": "adk_request_confirmation", "id": "c1", "args": asks}}]
            say(type="event", author=said, content={"role": "model", "parts": parts})
            parts = [{"text": said}, {"inline_data": drawing}]
            say(type="event", author="agent", content={"role": "model", "parts": parts}, final=True)
            say(type="turn_end", state={said: said})
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
        context.set_default_timeout(chromium.PATIENCE_MS)
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


def test_a_proposed_change_is_accepted(open_page, server: Ui, repo: Repository) -> None:
    before = (repo.root / SUITE).read_text()
    new = before.replace("an old answer", "answer 0")
    for name in ("one", "two"):
        texts = {SUITE: (before, new)}
        waiting.keep(repo.root, WaitingChange(name=name, texts=texts, reasons=("<b>replaced</b>",)))
    page, trouble = open_page()
    page.click("#waiting")
    section = page.locator("dialog section.waiting")
    assert section.locator("h3").all_inner_texts() == ["one", "two"]
    assert "<b>replaced</b>" in section.first.inner_text()
    assert "answer 0" in section.first.locator(".come").all_inner_texts()[-1]
    section.first.locator(".accept-change").click()
    expect(section).to_have_count(1)
    assert (repo.root / SUITE).read_text() == new
    page.click("dialog .reject-change")
    page.wait_for_selector("dialog", state="hidden")
    expect(page.locator("#waiting")).to_have_count(0)
    assert trouble == []


def test_a_failure_is_accepted_and_passes(open_page, server: Ui, repo: Repository) -> None:
    before = (repo.root / SUITE).read_text()
    page, trouble = open_page()
    assert "token" not in page.url
    page.click("#run-all")
    page.wait_for_selector("a.entry.fail")
    open_case(page, "case_0")
    page.click("#accept")
    page.wait_for_selector("dialog .changes ins")
    assert page.locator("dialog .changes del").all_inner_texts() == ["an old "]
    page.click("#do-accept")
    page.wait_for_selector("#title.not_measured")
    assert (repo.root / SUITE).read_text() == before.replace("an old answer", "answer 0")
    page.click("#run-case")
    page.wait_for_selector("#title.pass")
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
    expect(page.locator("#bar")).to_contain_text("Last run: stopped")
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
    expect(page.locator("#panel")).to_contain_text("What came before can be saved.")
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
    page.wait_for_selector("[role=log] > div > .says")
    page.locator("#panel .trace > summary").click()
    page.wait_for_selector("#panel .trace li li")
    page.locator("#artifacts").get_by_role("button", name="Show").click()
    page.wait_for_selector("#panel .file pre")
    page.evaluate("document.querySelectorAll('#panel details').forEach(one => one.open = true)")
    expect(page.locator(".asks")).to_contain_text("May it call")
    for part in ("#state dd", "#artifacts .file", "#panel .file pre"):
        assert page.locator(part).count(), part
    page.locator("#new-id").fill(name + "2")
    page.click("#save-chat")
    page.wait_for_selector("text=Saved")
    assert (
        page.evaluate(
            "document.querySelectorAll('img, iframe, object, script[src], body b b, dialog a, #panel a, #panel img').length"
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


def both(wide: int, narrow: int) -> list[Any]:
    """Each width and each scheme by day, all four of them together by night: what fits does not
    hang on colors."""
    return [
        (wide, "light"),
        (narrow, "dark"),
        pytest.param(wide, "dark", marks=BY_NIGHT),
        pytest.param(narrow, "light", marks=BY_NIGHT),
    ]


@pytest.mark.parametrize(("width", "scheme"), both(1280, 420))
def test_axe_finds_nothing(open_page, server: Ui, width: int, scheme: str) -> None:
    server.run("all")
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
            page.wait_for_selector("[role=log] > div > .says")
            page.locator("#panel .trace > summary").click()
            page.wait_for_selector("text=Nothing was recorded")
        look(page, name, scheme)
        if name == "#chat":
            page.click("#end")
            page.wait_for_selector("#start")
            page.click("#close-chat")
        else:
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


def test_the_token_is_in_no_argument_list(
    browser: Any, repo: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A browser is started with a file that only its user can read, and gets in by that."""
    opened = tmp_path / "opened"
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {opened}.new\nmv {opened}.new {opened}\n')
    script.chmod(0o755)
    environment = {**os.environ, "BROWSER": str(script), "XDG_CACHE_HOME": str(tmp_path / "c")}
    ours, theirs = pty.openpty()
    command = [str(forked_command.EVALGATE), "ui"]
    with subprocess.Popen(command, cwd=repo.root, env=environment, stdout=theirs) as process:
        try:
            deadline = time.monotonic() + 60
            while not opened.exists():
                assert time.monotonic() < deadline
                time.sleep(0.1)
            address = opened.read_text().strip()
            assert address.startswith("file:///")
            file = Path(address.removeprefix("file://"))
            assert file.stat().st_mode & 0o077 == 0
            page = browser.new_page()
            page.goto(address)
            page.wait_for_selector("#bar button")
            assert "token" not in page.url
            page.close()
        finally:
            process.terminate()
    os.close(ours)
    os.close(theirs)
    assert not file.exists()


# --- an agent of ADK's in the panel -----------------------------------------------------------


@pytest.fixture
def desk(repo: Repository) -> Repository:
    """The agent says word by word what it is told to, and its tools ask, draw and wait."""
    shutil.copytree(AGENTS / "adk_chat", repo.root / "adk_chat")
    shutil.copy(AGENTS / "scripted_llm.py", repo.root)
    agent = {"driver": "adk", "path": "adk_chat", "python": forked_adk("new")}
    repo.gate_file(agents=[agent], env=["PAUSE_S"])
    turn = {"user_content": content("say hi", "user"), "final_response": content("hi", "model")}
    cases = [{"eval_id": "hi", "conversation": [turn]}]
    repo.write(SUITE, json.dumps({"eval_set_id": "desk", "eval_cases": cases}))
    return repo


@pytest.fixture
def talk(desk: Repository, monkeypatch: pytest.MonkeyPatch, request, open_page):
    def started(**options: Any) -> tuple[Any, list[str]]:
        page, trouble = open_page(**options)
        page.click("#chat")
        page.click("#start")
        page.wait_for_selector("#message:focus")  # what is typed earlier goes nowhere
        return page, trouble

    return started


def say(page: Any, *script: str) -> None:
    turns = page.locator("[role=log] > div > .says").count()
    page.fill("#message", "\n".join(script))
    page.click("#send")
    expect(page.locator("[role=log] > div:not(.now) > .says")).to_have_count(turns + 1)


def test_the_answer_appears_as_it_is_said(talk, desk: Repository) -> None:
    llm = desk.root / "scripted_llm.py"
    llm.write_text(llm.read_text().replace('os.environ.get("PAUSE_S", "0")', '"0.5"'))
    page, trouble = talk()
    page.fill("#message", "say one two three four five six")
    page.click("#send")
    now = page.locator(".now .says")
    expect(now).to_contain_text("one two")
    assert "six" not in now.inner_text()
    whole = page.locator("[role=log] > div:not(.now) > .says")
    expect(whole).to_have_text("one two three four five six")
    expect(page.locator(".now")).to_have_count(0)
    # the page behind goes on, and one that is loaded again has the session
    page.reload()
    expect(whole).to_have_text("one two three four five six")
    assert trouble == []


def test_a_tool_that_asks_waits_for_a_person(talk) -> None:
    page, trouble = talk()
    say(page, 'call pay {"amount": 3}', "say paid")
    asks = page.locator(".asks")
    expect(asks).to_contain_text("May it call pay(amount=3)?")
    expect(page.locator("#state")).to_have_count(0)
    page.click(".deny")
    expect(page.locator("[role=log]")).to_contain_text("Denied")
    expect(asks).to_have_count(0)
    expect(page.locator("#state")).to_have_count(0)
    say(page, 'call pay {"amount": 4}', "say paid")
    page.click(".approve")
    expect(page.locator("[role=log]")).to_contain_text("Approved")
    expect(page.locator("#state summary")).to_have_text("State: 1 variable")
    page.locator("#state summary").click()
    expect(page.locator("#state dl")).to_have_text("paid4")
    say(page, 'call order {"item": "tea"}', "say ordered")
    page.get_by_label("What came of it").fill("it is here")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator("[role=log]")).to_contain_text("it is here")
    page.fill("#new-id", "asked")
    page.click("#save-chat")
    expect(page.get_by_role("alert")).to_contain_text("cannot be saved as a case")
    assert all("409" in line for line in trouble)


def test_files_go_to_the_agent_and_come_back(talk, desk: Repository, tmp_path: Path) -> None:
    page, trouble = talk()
    picture = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="
    )
    (tmp_path / "a.png").write_bytes(picture)
    (tmp_path / "notes").write_text("<b>notes</b>")
    (tmp_path / "large.png").write_bytes(picture + bytes(5_000_000))
    page.set_input_files("#attach", [tmp_path / "large.png"])
    expect(page.get_by_role("alert")).to_contain_text("may have 5 MB")
    page.set_input_files("#attach", [tmp_path / "a.png", tmp_path / "notes"])
    expect(page.get_by_role("button", name="Remove notes")).to_be_visible()
    say(page, 'call draw {"name": "map.png"}', "say drawn")
    for name in ("attached-1", "map.png (version 0)"):
        shown = page.locator(f"#panel img[alt='{name}']")
        expect(shown).to_have_count(1)
        assert shown.evaluate("image => image.decode().then(() => image.naturalWidth)") == 2
    page.get_by_role("button", name="Show attached-2").click()
    expect(page.locator(".file pre")).to_have_text("<b>notes</b>")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save map.png (version 0)").click()
    assert Path(download.value.path()).read_bytes() == picture
    page.fill("#new-id", "drawn")
    page.click("#save-chat")
    expect(page.get_by_role("status").filter(has_text="Saved drawn")).to_be_visible()
    saved = json.loads((desk.root / SUITE).read_text())["eval_cases"][-1]
    parts = saved["conversation"][0]["user_content"]["parts"]
    assert [part["inline_data"]["mime_type"] for part in parts[1:]] == ["image/png", "text/plain"]
    assert base64.b64decode(parts[1]["inline_data"]["data"]) == picture
    assert trouble == []


def test_the_trace_is_a_tree(talk) -> None:
    page, trouble = talk()
    say(
        page,
        'call inner {"request": "call weather {}"}',
        "transfer helper",
        'call weather {"city": "Rome"}',
        "say done",
    )
    page.locator(".trace > summary").click()
    page.wait_for_selector(".trace li li")
    lines = page.locator(".trace > ul").evaluate(
        """list => { const lines = [], walk = (list, depth) => { for (const line of list.children) {
        const title = line.querySelector(':scope > details > summary') || line;
        const [kind, name] = [title.firstChild.textContent.trim(), title.querySelector(':scope > code')?.textContent];
        lines.push('  '.repeat(depth) + kind + (name ? ' ' + name : ''));
        for (const below of line.querySelectorAll(':scope > ul')) walk(below, depth + 1); } };
        walk(list, 0); return lines; }"""
    )
    assert lines == [
        "agent desk",
        "  model call scripted",
        "    tool inner",
        "      agent inner",
        "        model call scripted",
        "          tool weather",
        "        model call scripted",
        "  model call scripted",
        "    tool transfer_to_agent",
        "  agent helper",
        "    model call scripted",
        "      tool weather",
        "    model call scripted",
    ]
    assert page.locator(".trace small").all_inner_texts() != []
    page.locator(".trace details summary", has_text="inner").first.click()
    expect(page.locator(".trace details[open] pre").first).to_contain_text("call weather {}")
    assert trouble == []


def test_rebuild_all_reads_the_changed_code(talk, desk: Repository) -> None:
    page, _ = talk()
    say(page, 'call weather {"city": "Oslo"}', "say 21")
    code = desk.root / "adk_chat" / "agent.py"
    code.write_text(code.read_text().replace('"degrees": 21', '"degrees": 5'))
    page.click("#rebuild")
    expect(page.locator("[role=log] > div")).to_have_count(0)
    page.wait_for_selector("a.entry.pass")
    page.wait_for_selector("#message")
    say(page, 'call weather {"city": "Oslo"}', "say it is cold")
    page.locator(".trace > summary").click()
    page.locator(".trace details summary", has_text="weather").click()
    expect(page.locator(".trace details[open]")).to_contain_text('"degrees": 5')


@pytest.mark.parametrize(("width", "scheme"), both(1280, 390))
def test_the_chat_is_accessible_and_needs_no_mouse(talk, width: int, scheme: str) -> None:
    page, _ = talk(color_scheme=scheme, bypass_csp=True, viewport={"width": width, "height": 844})
    page.keyboard.type('call draw {"name": "map.png"}')
    page.keyboard.press("Shift+Enter")
    page.keyboard.type('call pay {"amount": 3}')
    page.keyboard.press("Enter")
    page.wait_for_selector(".asks")
    page.locator(".trace > summary").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".trace li")
    look(page, "chat", scheme)
    page.locator(".approve").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#state")).to_have_count(1)
    page.evaluate("document.querySelectorAll('#panel details').forEach(one => one.open = true)")
    page.wait_for_timeout(300)
    look(page, "chat, all open", scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "chat"
    page.click("#chat")
    page.click("#end")
    page.wait_for_selector("#start")
