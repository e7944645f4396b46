"""report.html in a real browser: quiet, accessible, usable with and without script."""

from __future__ import annotations

import dataclasses
import itertools
import json
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from builders import build, chromium, report_page
from builders.hostile import HOSTILE
from builders.nightly import NIGHTLY
from builders.scenarios import KINDS, SCENARIOS, TABLE, failing_traced, traced
from playwright.sync_api import expect

from evalgate import reports
from evalgate.model import (
    AgentFailure,
    Attachment,
    Content,
    FailureKind,
    Policy,
    Report,
    Text,
)
from evalgate.model.deviations import ADKS

pytestmark = pytest.mark.browser


def reordered(report: Report) -> Report:
    """The same cases in another order, as after somebody sorted the file."""
    suites = tuple(suite.with_cases(suite.eval_set.cases[::-1]) for suite in report.run.suites)
    verdicts = tuple(
        dataclasses.replace(each, cases=each.cases[::-1]) for each in report.verdict.suites
    )
    run = dataclasses.replace(report.run, suites=suites, trials=report.run.trials[::-1])
    return dataclasses.replace(
        report, run=run, verdict=dataclasses.replace(report.verdict, suites=verdicts)
    )


UNLIKE = {
    # expected, actual: texts that differ somewhere
    "in the middle of much": (
        "word " * 4_000 + "left" + " word" * 4_000,
        "word " * 4_000 + "right" + " word" * 4_000,
    ),
    "at the end of more": ("0123456789" * 9_000 + "a", "0123456789" * 9_000 + "b"),
    "only less": ("one two three", "one two"),
    "only more": ("one two", "one two three"),
    "a blank": ("one two", "one  two"),
    "nothing that shows": ("one two", "one\u200b two"),
    "all": (" ".join(map(str, range(5_000))), " ".join(map(str, range(5_000, 10_000)))),
}


def unlike() -> Report:
    """A case for each of UNLIKE, one with calls in another order, and one with calls that nobody
    expects."""
    calls = build.call("first", a=1), build.call("second", b=2)
    pairs = {
        name: (build.turn("?", answer=one), build.turn("?", answer=other))
        for name, (one, other) in UNLIKE.items()
    }
    pairs["order"] = build.turn("?", *calls, answer="x"), build.turn("?", *calls[::-1], answer="x")
    suite = build.suite(*(build.case(name, asked) for name, (asked, _) in pairs.items()))
    wrong = {build.TOOLS: [0.0], build.WORDS: [0.0]}
    done = {(suite.key, name): [build.scores(given, **wrong)] for name, (_, given) in pairs.items()}
    return build.run_report([suite], done)


def with_trace(*trace: dict[str, object]) -> Report:
    """The report `traced` with another trace in each turn."""
    report = traced()
    known = {
        key: dataclasses.replace(
            told,
            invocations=tuple(dataclasses.replace(turn, trace=trace) for turn in told.invocations),
        )
        for trial in report.run.trials
        if (told := report.run.transcripts(key := trial.key)) is not None
    }
    return dataclasses.replace(report, run=dataclasses.replace(report.run, transcripts=known.get))


def forged_failure() -> Report:
    """A failure whose every text an agent forged."""
    suite = build.suite(build.case(HOSTILE, build.turn(HOSTILE, answer=HOSTILE)))
    trace = (
        {"kind": "agents", "root": TREE},
        FORGED,
        {**FORGED, "kind": "model", "s": None},
        {"kind": "tool"},
    )
    kind = FailureKind.RAISED
    failure = AgentFailure(kind=kind, message=HOSTILE, detail=HOSTILE, turn=1, trace=trace)
    return build.run_report(
        [suite], {(suite.key, HOSTILE): [build.Done(failure=failure, tokens=None)]}
    )


SCRIPTS = {
    # expected, actual, the words that only the actual answer has
    "Russian": ("Книга продлена до мая.", "Книга продлена до июня.", ["июня"]),
    "Greek": ("Το βιβλίο είναι εδώ.", "Το περιοδικό είναι εδώ.", ["περιοδικό"]),  # noqa: RUF001 - other scripts
    "Arabic": ("الكتاب متاح اليوم", "الكتاب متاح غدا", ["غدا"]),
    "Thai": ("หนังสือเล่มนี้ว่าง", "หนังสือเล่มนี้หาย", ["หาย"]),
    "Japanese": ("本を借りることができます", "本を返すことができます", ["返す"]),
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FILES = (
    {"inline_data": {"mime_type": "image/png", "data": PNG}},
    {"inline_data": {"mime_type": "audio/wav", "data": "UklGRiQAAABXQVZF"}},
    {"inline_data": {"mime_type": "image/svg+xml", "data": PNG}},
    {"inline_data": {"mime_type": "image/png", "data": "https://evil.example/x.png"}},
    {"file_data": {"mime_type": "image/png", "file_uri": "https://evil.example/x.png"}},
)


def spoken() -> Report:
    """A case for each of SCRIPTS, and one whose user sends FILES."""
    pairs = {
        name: (build.turn("?", answer=expected), build.turn("?", answer=actual))
        for name, (expected, actual, _) in SCRIPTS.items()
    }
    parts = (Text(text="Look."), *(Attachment(data=file) for file in FILES))
    asked = dataclasses.replace(
        build.turn("?", answer="a"), user_content=Content(role="user", parts=parts)
    )
    pairs["files"] = (
        asked,
        dataclasses.replace(asked, final_response=build.turn("?", answer="b").final_response),
    )
    suite = build.suite(*(build.case(name, expected) for name, (expected, _) in pairs.items()))
    done = {
        (suite.key, name): [build.scores(actual, **{build.TOOLS: [1.0], build.WORDS: [0.0]})]
        for name, (_, actual) in pairs.items()
    }
    return build.run_report([suite], done)


FORGED = dict.fromkeys(
    ("kind", "agent", "name", "request", "response", "error", "at", "s", "actions"), HOSTILE
)
TREE = {"name": HOSTILE, "type": HOSTILE, "tools": [HOSTILE], "agents": [{"name": HOSTILE}]}
PAGES = {
    **{name: SCENARIOS[name] for name in TABLE},
    "traced": traced,
    "failing_traced": failing_traced,
    "reordered": lambda: reordered(SCENARIOS["base_regressed"]()),
    "unlike": unlike,
    "forged": lambda: with_trace({"kind": "agents", "root": TREE}, FORGED),
    "forged_failure": forged_failure,
    "spoken": spoken,
    "lenient": lambda: lenient(tools=1.0),
    "garbage": lambda: with_trace(
        {"kind": "agents", "root": {"name": "x", "agents": 5, "tools": 7}}
    ),
}
VIEWS = ("overview", "case", "filtered", "empty", "what-if")
WIDTHS, SCHEMES = (1280, 420), ("light", "dark")
EVERY = tuple(itertools.product(PAGES, VIEWS, WIDTHS, SCHEMES))
"""What axe looks at by night: a quarter of an hour (`make accessibility`)."""
BY_DAY = (
    ("base_regressed", "overview", 1280, "light"),
    ("not_measured", "overview", 420, "dark"),
    ("traced", "case", 1280, "dark"),
    ("judged", "case", 420, "light"),
    ("base_many", "filtered", 1280, "light"),
    ("languages", "filtered", 420, "dark"),
    ("base_many", "empty", 1280, "dark"),
    ("base_regressed", "empty", 420, "light"),
    ("base_regressed", "what-if", 1280, "light"),
    ("failing_traced", "what-if", 420, "dark"),
)
"""The pages that have something of their own, where they show it, and each view in both widths and
schemes."""
ROWS = EVERY if NIGHTLY else BY_DAY


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and says nothing. A page at `?torn` is interrupted in its last block."""

    def log_message(self, *_: object) -> None:
        pass

    def copyfile(self, source: Any, outputfile: Any) -> None:
        content = source.read()
        end = content.rindex(b"</script>") - 1_000 if "?torn" in self.path else len(content)
        outputfile.write(content[:end])
        if end < len(content):
            outputfile.flush()
            time.sleep(1)
            outputfile.write(content[end:])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    for name, make in PAGES.items():
        Path(folder, f"{name}.html").write_text(
            reports.RENDERERS["html"].render(make()), encoding="utf-8"
        )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def open_page(browser, site) -> Iterator[object]:
    contexts = []

    def opened(scenario: str, address: str = "", **options: object) -> tuple[object, list[str]]:
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(chromium.PATIENCE_MS)
        page = context.new_page()
        trouble: list[str] = []
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                None if request.is_navigation_request() else trouble.append(request.url)
            ),
        )
        page.goto(f"{site}/{scenario}.html{address}")
        return page, trouble

    yield opened
    for context in contexts:
        context.close()


def case_of(name: str) -> str:
    """The address of a case of the compared scenarios."""
    return "#case=" + quote(f"agents/library/desk.evalset.json::{name}", safe="")


FIRST = case_of("renew_reserved_book_1")


@pytest.mark.parametrize("scenario", PAGES)
def test_it_asks_for_nothing_and_complains_of_nothing(scenario: str, open_page) -> None:
    page, trouble = open_page(scenario)
    page.wait_for_selector("#list nav")
    for entry in page.locator("a.entry").all()[:3]:
        entry.click()
        page.wait_for_selector("#title")
    page.wait_for_load_state("networkidle")
    assert trouble == []
    assert (
        page.evaluate("document.querySelectorAll('img, iframe, object, script[src]').length") == 0
    )


def shown(page, view: str) -> None:
    """Bring the page to a view, all that is folded opened."""
    page.wait_for_selector("#list nav")
    first = page.locator("a.entry").first
    if view in ("case", "what-if") and first.count():
        first.click()
        page.wait_for_selector("#title")
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        if view == "what-if" and page.locator("#case .knobs input[type=number]").count():
            page.locator("#case .knobs input[type=number]").first.fill("0.01")
        if page.locator("#trace").count():
            page.locator("#trace").click()
            page.locator(".graph").or_(page.get_by_text("cannot be read")).first.wait_for()
    elif view in ("filtered", "empty"):
        page.get_by_label("Search").fill("e" if view == "filtered" else "nothing-at-all")
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")


@pytest.mark.parametrize("scenario", dict.fromkeys(row[0] for row in ROWS))
def test_axe_finds_nothing(scenario: str, open_page) -> None:
    axe, found = Axe(), []
    for name, view, width, scheme in ROWS:
        if name == scenario:
            # axe is injected; the page may not be
            size = {"width": width, "height": 800}
            page, _ = open_page(scenario, color_scheme=scheme, bypass_csp=True, viewport=size)
            shown(page, view)
            bad = axe.run(page).response["violations"]
            found += [
                (view, width, scheme, each["id"], each["nodes"][0]["html"][:200]) for each in bad
            ]
            page.context.close()
    assert found == []


def entries(page) -> list[str]:
    return page.locator("a.entry > bdi").all_inner_texts()


def test_search_and_chips(open_page) -> None:
    page, _ = open_page("base_regressed")
    page.wait_for_selector("a.entry")
    search = page.get_by_label("Search")
    search.fill("reserved -book_5")
    assert entries(page) == [f"renew_reserved_book_{number}" for number in (1, 2, 4, 3)]
    expect(page.get_by_role("status").first).to_have_text("4 of 20 cases")
    search.fill("suite:elsewhere")
    assert entries(page) == []
    search.fill("")
    page.get_by_role("button", name="mixed results 1").click()
    assert entries(page) == ["renew_free_book_1"]
    assert "only=mixed" in page.url


def test_a_case_shows_expected_base_and_head(open_page) -> None:
    page, _ = open_page("base_regressed", FIRST)
    page.wait_for_selector("#title")
    assert page.locator(".turn table.sides th").all_inner_texts()[:3] == [
        "Expected",
        "Base",
        "Head",
    ]
    expect(page.locator("td.gone").first).to_have_text("not called")
    expect(page.locator("td.wrong code").first).to_have_text('renew_loan(book_id="B-7", days=28)')
    assert page.locator("td.answer ins").count()
    expect(page.locator("#overview")).to_be_hidden()
    page.get_by_role("link", name="Overview").click()
    expect(page.locator("#overview")).to_be_visible()


DIFFERENCE = "#case :is(.failure, .turn :is(ins, del, .gone, .missing, .wrong, .differs))"
FIRST_DIFFERENCE = """selector => {
  const marks = [...document.querySelectorAll(selector)], shown = marks.find(each => each.checkVisibility());
  return [marks.length, shown ? shown.getBoundingClientRect().top : 0];
}"""


SCREENS = [({"width": 1280, "height": 900}, 400), ({"width": 390, "height": 844}, 500)]


def test_the_first_difference_is_on_the_first_screen(open_page) -> None:
    """Of the first cases that do not pass, in every scenario with golden reports, on each screen:
    where it may begin at the latest."""
    page, trouble = open_page("pass")
    site = page.url.rpartition("/")[0]
    low = {}
    for scenario in KINDS:
        page.goto(f"{site}/{scenario}.html")
        page.wait_for_selector("#list nav")
        entries = page.locator("a.entry:not(.pass)")
        addresses = entries.evaluate_all("all => all.map(each => each.hash)")
        for address in addresses[: 6 if NIGHTLY else 3]:
            page.evaluate("address => { location.hash = address; }", address)
            page.wait_for_selector("#difference")
            name, sentence = (page.locator(each).inner_text() for each in ("#title", "#difference"))
            assert sentence, (scenario, name)
            for screen, most in SCREENS:
                page.set_viewport_size(screen)
                count, top = page.evaluate(FIRST_DIFFERENCE, DIFFERENCE)
                if not 0 < top <= most and count:
                    low[scenario, name, screen["width"]] = top
            page.evaluate("location.hash = ''")
            page.wait_for_selector("#difference", state="detached")
    assert low == {}
    assert trouble == []


def test_equal_turns_and_calls_are_folded(open_page) -> None:
    page, _ = open_page("base_conversation")
    page.locator("a.entry").first.click()
    page.wait_for_selector("#title")
    expect(page.locator("details.equal > summary")).to_have_text(
        ["Turn 1: no difference", "Turn 4: no difference"]
    )
    expect(page.locator(".turn h2:visible")).to_have_text(["Turn 2 ", "Turn 3 "])
    page, _ = open_page("base_regressed", FIRST)
    expect(page.locator(".folded summary").first).to_have_text("1 equal call: find_book")
    expect(page.locator(".drawer")).not_to_have_attribute("open", "")
    expect(page.locator(".chip")).to_have_text(
        [
            "\u2717 tool_trajectory_avg_score 1.00 \u2192 0.00",
            "\u2717 final_response_match_v2 1.00 \u2192 0.00",
        ]
    )


def test_a_link_to_a_case_opens_the_case_on_a_phone(open_page) -> None:
    page, _ = open_page("base_regressed", FIRST, viewport={"width": 390, "height": 844})
    page.wait_for_selector("#difference")
    expect(page.locator("#list")).to_be_hidden()
    assert page.locator("#title").bounding_box()["y"] < 100
    page.get_by_role("link", name="Overview").click()
    expect(page.locator("#list")).to_be_visible()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_wrong_calls_have_no_color_of_what_passed(scheme: str, open_page) -> None:
    page, _ = open_page("base_regressed", FIRST, color_scheme=scheme)
    page.wait_for_selector("td.wrong")
    for selector in ("td.wrong", "td.missing", "td.gone", ".answer ins"):
        color = page.locator(selector).first.evaluate(
            "each => getComputedStyle(each).backgroundColor"
        )
        red, green, blue = map(int, color.removeprefix("rgb(").removesuffix(")").split(","))
        assert green < max(red, blue), (selector, color)


@pytest.mark.parametrize("name", SCRIPTS)
def test_words_of_every_script_are_whole(name: str, open_page) -> None:
    page, _ = open_page("spoken", "#case=" + quote(f"{build.SUITE}::{name}", safe=""))
    page.wait_for_selector("#difference")
    assert page.locator(".answer ins").all_inner_texts() == SCRIPTS[name][2]


def test_images_and_sounds_are_in_the_page_and_nothing_is_fetched(open_page) -> None:
    page, trouble = open_page("spoken", "#case=" + quote(f"{build.SUITE}::files", safe=""))
    page.wait_for_selector("#difference")
    image = page.get_by_role("img", name="Image in the message").first
    expect(image).to_be_visible()
    assert image.evaluate("async each => { await each.decode(); return each.naturalWidth; }") == 1
    assert page.locator("audio").count() == 1
    sources = page.locator("#case [src]").evaluate_all(
        "all => all.map(each => each.src.slice(0, 5))"
    )
    assert set(sources) == {"data:"}
    assert page.get_by_text("not shown, for its type or its size").count() == 2
    assert trouble == []


def test_print_prints_the_whole_report(open_page) -> None:
    page, _ = open_page("base_regressed", viewport={"width": 800, "height": 400})
    page.wait_for_selector("#list nav")
    page.emulate_media(media="print")
    expect(page.locator("#list")).to_be_hidden()
    printed = page.evaluate("document.documentElement.scrollHeight")
    assert printed >= page.evaluate("document.getElementById('overview').scrollHeight") > 800
    assert page.pdf().count(b"/Type /Page\n") >= 2


def test_a_question_mark_shows_the_keys(open_page) -> None:
    page, trouble = open_page("base_regressed")
    page.wait_for_selector("#list nav")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("next case that does not pass")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert trouble == []


def test_a_failing_run_of_head_stands_beside_a_passing_one_of_the_base(open_page) -> None:
    page, _ = open_page("base_regressed", case_of("renew_free_book_1"))
    page.wait_for_selector("#title")
    pressed = page.locator(".runs button[aria-pressed=true]")
    assert pressed.evaluate_all("all => all.map(each => each.getAttribute('aria-label'))") == [
        "Head run 5: below a threshold",
        "Base run 1: passed",
    ]


def test_the_keyboard_alone(open_page) -> None:
    page, _ = open_page("base_regressed")
    page.wait_for_selector("a.entry")
    page.keyboard.press("n")
    expect(page.locator("#title bdi")).to_have_text("renew_reserved_book_1")
    page.keyboard.press("n")
    expect(page.locator("#title bdi")).to_have_text("renew_reserved_book_2")
    page.keyboard.press("h")
    page.wait_for_selector("button[aria-label^='Head run 2'][aria-pressed=true]")
    page.keyboard.press("c")
    expect(page.locator("body")).to_contain_text("Link copied")
    page.keyboard.press("/")
    page.keyboard.type("sunday")
    expect(page.locator("a.entry")).to_have_count(5)


def test_an_address_opens_the_same_case_and_run(open_page) -> None:
    page, _ = open_page("base_regressed", FIRST + "&head=3")
    page.wait_for_selector("button[aria-label^='Head run 4'][aria-pressed=true]")
    other, _ = open_page("base_regressed", "#case=gone.evalset.json%3A%3Agone")
    assert "There is no case gone.evalset.json::gone" in other.get_by_role("alert").inner_text()


def test_an_address_opens_the_same_case_after_reordering(open_page) -> None:
    for scenario in ("base_regressed", "reordered"):
        page, _ = open_page(scenario, FIRST)
        page.wait_for_selector("#title")
        expect(page.locator("#title bdi")).to_have_text("renew_reserved_book_1")
        expect(page.locator(".turn .user").first).to_have_text("Please renew Dune for me.")
        expect(page.locator("td.wrong code").first).to_have_text(
            'renew_loan(book_id="B-7", days=28)'
        )


@pytest.mark.parametrize("name", [*UNLIKE, "order"])
def test_what_differs_anywhere_is_marked(name: str, open_page) -> None:
    page, _ = open_page("unlike", "#case=" + quote(f"{build.SUITE}::{name}", safe=""))
    page.wait_for_selector("#title")
    assert page.locator(".turn :is(ins, del, .gone, .wrong, .differs)").count()


def test_a_case_is_read_once_its_block_is_there(open_page) -> None:
    """The list is drawn, behind the block, before all of the block has come."""
    page, trouble = open_page(
        "unlike", "?torn#case=" + quote(f"{build.SUITE}::{next(iter(UNLIKE))}", safe="")
    )
    page.wait_for_selector("#title")
    assert trouble == []


@pytest.mark.parametrize(
    ("scenario", "sides"), [("traced", ("Head", "Base")), ("failing_traced", ("Head",))]
)
def test_every_string_of_a_case_can_be_seen(
    scenario: str, sides: tuple[str, ...], open_page
) -> None:
    """Whatever the data has of any run of either side, and of its trace, whoever opens all that is
    folded reads."""
    data = report_page.read(reports.RENDERERS["html"].render(PAGES[scenario]()))
    page, _ = open_page(scenario)
    shown(page, "case")
    texts = []
    for at in range(len(data.cases["renewal"]["runs"]["head"])):
        for side in sides:
            if (buttons := page.locator(f".runs[aria-label='Runs of {side}'] button")).count():
                buttons.nth(at).click()
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        texts.append(page.locator("#case").text_content())
    kept = [data.cases["renewal"][name] for name in ("expected", "about", "runs")]
    told = set(report_page.strings([kept, data.traces], names=False))
    # words of ours that are drawn or told
    told -= {"p", "f", "u", "model", "agents", "left_out", "agent_failed"}
    missing = {
        each
        for each in told
        if not any(each in text or json.dumps(each)[1:-1] in text for text in texts)
    }
    assert missing == set()


def test_the_trace_opens_on_demand(open_page) -> None:
    page, trouble = open_page("traced")
    page.locator("a.entry").first.click()
    page.locator("#trace").click()
    page.wait_for_selector(".graph")
    assert (
        page.locator(".graph")
        .first.get_attribute("aria-label")
        .startswith("agent desk, 2 calls; tool waiting, 1 call")
    )
    second = page.locator("details:has(> summary:text-is('request'))").nth(1)
    second.locator("summary").click()
    asked = json.loads(second.locator("pre").inner_text())
    assert asked["config"]["system_instruction"] == "You are the desk."
    assert len(asked["contents"]) == 2
    assert trouble == []
    other, _ = open_page("base_regressed", FIRST)
    other.wait_for_selector("#title")
    assert "not recorded" in other.locator("#case").inner_text()


def test_a_turn_that_failed_has_its_trace(open_page) -> None:
    page, trouble = open_page("failing_traced")
    shown(page, "case")
    expect(page.locator(".turn").nth(1).locator("td.gone")).to_have_text("Failed in this turn.")
    expect(
        page.locator(".turn").nth(1).locator("td[data-side]", has_text="not known")
    ).to_have_count(1)
    expect(page.locator("h3")).to_have_text(["Head, turn 1", "Head, turn 2"])
    second = page.locator("h3:text('turn 2') ~ *")
    expect(second.first).to_have_text(
        "The agent timed out in turn 2 (timeout): the agent timed out after 300 s (`turn-timeout`)"
    )
    expect(second.locator("tbody tr", has_text="model call").last).to_contain_text("no answer")
    expect(second.get_by_text("no answer")).to_have_count(1)
    assert trouble == []


@pytest.mark.parametrize(
    ("scenario", "told"),
    [
        ("forged", "<script>alert(1)</script>"),
        ("forged_failure", "<script>alert(1)</script>"),
        ("garbage", "cannot be read"),
    ],
)
def test_a_trace_that_an_agent_forged_does_no_harm(scenario: str, told: str, open_page) -> None:
    page, trouble = open_page(scenario)
    page.locator("a.entry").first.click()
    page.locator("#trace").click()
    expect(page.locator("#case")).to_contain_text(told)
    assert trouble == []
    expect(page.locator("#case script, #case img")).to_have_count(0)
    page.keyboard.press("o")
    expect(page.locator("#overview")).to_be_visible()


def test_steps_reruns_and_earlier_runs_are_shown(open_page) -> None:
    page, _ = open_page("traced")
    shown(page, "case")
    text = page.locator("#case").inner_text()
    assert "3 earlier runs, oldest first" in text
    assert "322 tokens, 310 in, 12 out" in text
    rerun = page.locator(".runs button[aria-label^='Head rerun 3']")
    expect(rerun).to_have_count(1)
    page.emulate_media(media="print")
    expect(
        rerun
    ).to_be_visible()  # its sign says how it ended; the other buttons do nothing on paper
    expect(page.get_by_role("button", name="link")).to_be_hidden()
    assert [each.split(":")[0] for each in page.locator(".found td b").all_inner_texts()] == [
        "valid",
        "invalid",
    ]


def test_thresholds_of_a_case_have_a_heading(open_page) -> None:
    page, _ = open_page("base_regressed", FIRST)
    page.locator("#case details", has_text="Try other thresholds").last.evaluate(
        "each => each.open = true"
    )
    expect(page.get_by_role("heading", name="Try other thresholds", level=2)).to_be_visible()
    tried = page.get_by_role("group", name="Try other thresholds")
    expect(tried.get_by_role("slider")).to_have_count(2)


def test_other_thresholds_are_tried(open_page) -> None:
    page, _ = open_page("base_regressed")
    page.wait_for_selector("#would")
    expect(page.locator("#would")).to_have_text("16 of 20 cases would pass")
    for name in ("tool_trajectory_avg_score", "final_response_match_v2"):
        page.locator("#what-if").get_by_label(f"Threshold of {name}", exact=True).fill("0.15")
    expect(page.locator("#would")).to_have_text("18 of 20 cases would pass")
    assert page.locator("#what-if code.line").all_inner_texts() == [
        '"tool_trajectory_avg_score": 0.15',
        '"final_response_match_v2": 0.15',
    ]
    page.get_by_role("button", name="would change 2").click()
    assert entries(page) == ["renew_reserved_book_4", "renew_free_book_1"]
    assert page.locator("a.entry small b").all_inner_texts() == ["would pass"] * 2
    page.reload()
    assert entries(page) == ["renew_reserved_book_4", "renew_free_book_1"]
    page.get_by_role("button", name="Back to the real thresholds").click()
    expect(page.locator("#would")).to_have_text("16 of 20 cases would pass")
    for name in ("tool_trajectory_avg_score", "final_response_match_v2"):
        page.locator("#what-if").get_by_label(f"{name} decides", exact=True).uncheck()
    expect(page.locator("#would")).to_have_text("0 of 20 cases would pass")
    page.reload()
    assert page.locator("#what-if code.line").all_inner_texts() == [
        '"tool_trajectory_avg_score": {"informational": true}',
        '"final_response_match_v2": {"informational": true}',
    ]
    page.locator("#what-if").get_by_label("final_response_match_v2 decides", exact=True).check()
    expect(page.locator("#would")).to_have_text("17 of 20 cases would pass")


CUT_SHORT = {"inconclusive", "base_truncated"}
OUTCOMES = (
    "pass",
    "fail",
    "unjudged",
    "error",
    "pass/error",
    "fail/error",
    "unjudged/error",
    "wrong/unjudged",
    "never",
)


def lenient(*, tools: float) -> Report:
    """Every outcome under `adk_compat`, in a suite of ADK's and in one of CES, for which ADK has no
    rules."""
    suites, done = [], {}
    for key, more in (("adk", {}), ("ces", {"ces_goals": None})):
        cases = [
            build.case(name, build.turn("Book it.", build.call("book"), answer="Booked."))
            for name in OUTCOMES
        ]
        criteria = {**build.CRITERIA, build.TOOLS: tools, **more}
        suites.append(build.suite(*cases, key=f"{key}.json", criteria=criteria))
        for name in OUTCOMES:
            one, _, two = name.partition("/")
            done[suites[-1].key, name] = [build.done_of(one), build.done_of(two or one)]
    return build.run_report(suites, done, policy=Policy(deviations=ADKS))


@pytest.mark.parametrize("suite", ["adk.json", "ces.json"])
def test_what_if_decides_as_the_gate_does_under_adk_compat(suite: str, open_page) -> None:
    page, _ = open_page("lenient")
    page.get_by_label("Search").fill(f"suite:{suite}")
    rows = page.locator("a.entry")
    expect(rows).to_have_count(len(OUTCOMES))
    found = {}
    for tools in (1.0, 0.4, 0.0):
        page.locator("#what-if").get_by_label(f"Threshold of {build.TOOLS}", exact=True).fill(
            str(tools)
        )
        told = {}
        for row in rows.all():
            would = row.locator("small b")
            kind = would if would.count() else row
            told[row.locator("> bdi").inner_text()] = kind.get_attribute("class").removeprefix(
                "entry "
            )
        decided = next(each for each in lenient(tools=tools).verdict.suites if each.suite == suite)
        found[tools] = {case.case_id: case.kind.value for case in decided.cases}
        assert told == found[tools]
    # the gate itself: an agent that raised has failed, and a pass makes up for what was not scored,
    # in ADK alone
    as_adk = suite == "adk.json"
    assert found[0.4]["fail/error"] == ("fail" if as_adk else "not_measured")
    assert found[1.0]["unjudged"] == ("pass" if as_adk else "not_measured")


@pytest.mark.parametrize("scenario", [name for name in TABLE if name not in CUT_SHORT])
def test_by_the_real_thresholds_cases_end_as_they_did(scenario: str, open_page) -> None:
    """What the page computes is what the gate decides, but for cases that a spent budget left
    open."""
    page, _ = open_page(scenario)
    page.wait_for_selector("#list nav")
    cases = [
        case.kind.value for suite in SCENARIOS[scenario]().verdict.suites for case in suite.cases
    ]
    said = [f"{cases.count('pass'):,} of {len(cases):,} cases would pass"] if cases else []
    assert page.locator("#would").all_inner_texts() == said


def test_a_cause_leads_to_its_first_case(open_page) -> None:
    page, _ = open_page("base_regressed")
    page.get_by_role("link", name="renew_loan was called instead of waiting_readers").first.click()
    page.wait_for_selector("#title")
    expect(page.locator("#title bdi")).to_have_text("renew_reserved_book_1")


def test_it_reads_without_script(open_page) -> None:
    page, _ = open_page("base_regressed", java_script_enabled=False)
    expect(
        page.get_by_text("renew_loan was called instead of waiting_readers").first
    ).to_be_visible()
    assert "The cases themselves need JavaScript" in page.locator("noscript").inner_text()
    expect(page.get_by_role("img", name="evidence 2,417 : 1 that head is worse")).to_be_visible()
    assert (
        page.locator("#agent .gone").first.inner_text()
        == "- Ask how many readers wait for a book before you renew it."
    )


@pytest.mark.parametrize("width", [420, 1280])
def test_the_purse_is_drawn_over_the_line_where_it_blocks(width: int, open_page) -> None:
    page, _ = open_page("base_regressed", viewport={"width": width, "height": 800})
    drawing = page.get_by_role("img", name="evidence 2,417 : 1 that head is worse")
    expect(drawing).to_be_visible()
    assert 150 < drawing.bounding_box()["width"] <= width
    heights = [
        float(point.split(",")[1])
        for point in drawing.locator("polyline").get_attribute("points").split()
    ]
    needed = float(drawing.locator("line.needed").get_attribute("y1"))
    assert heights[-1] < needed < heights[0], "it begins below the line and ends above it"


def test_thousands_of_cases_are_few_nodes(open_page) -> None:
    page, _ = open_page("base_many")
    page.wait_for_selector("a.entry")
    assert page.evaluate("document.querySelectorAll('#list *').length") < 500
    listed = page.evaluate("document.querySelector('#list nav ul').style.height")
    assert int(listed.removesuffix("px")) >= 52 * 300


@pytest.mark.parametrize("scenario", ["traced", "failing_traced", "base_regressed", "judged"])
@pytest.mark.parametrize(("width", "side_by_side"), [(420, False), (900, False), (1280, True)])
def test_columns_of_a_case_stack_where_there_is_no_room(
    scenario: str, width: int, side_by_side: bool, open_page
) -> None:
    """Nothing in a case scrolls sideways, not within a box of its own either; each text has its
    column's name."""
    page, _ = open_page(scenario, viewport={"width": width, "height": 800})
    shown(page, "case")
    boxes = page.locator("#case .scroll").evaluate_all(
        "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.ariaLabel)"
    )
    assert boxes == []
    expect(page.get_by_role("columnheader", name="Expected").first).to_be_visible(
        visible=side_by_side
    )
    first = page.locator(".turn td[data-side=Expected]").first
    named = first.evaluate("cell => getComputedStyle(cell, '::before').content")
    assert named == ("none" if side_by_side else '"Expected"')
    expected, head = (
        page.locator(f".turn td[data-side={side}]").first.bounding_box()
        for side in ("Expected", "Head")
    )
    assert (head["y"] == expected["y"]) is side_by_side


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize(
    ("scenario", "address"),
    [("base_regressed", ""), ("base_regressed", FIRST), ("base_hostile", ""), ("languages", "")],
)
def test_it_never_scrolls_sideways(scenario: str, address: str, width: int, open_page) -> None:
    page, _ = open_page(scenario, address, viewport={"width": width, "height": 800})
    page.wait_for_selector("#title" if address else "#list nav")
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
