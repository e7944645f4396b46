"""report.html in a real browser: quiet, accessible, usable with and without script."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from builders.scenarios import SCENARIOS

from evalgate import reports

pytestmark = pytest.mark.browser


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    for name, make in SCENARIOS.items():
        Path(folder, f"{name}.html").write_text(reports.RENDERERS["html"].render(make()), encoding="utf-8")
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
        page = context.new_page()
        trouble: list[str] = []
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: None if request.is_navigation_request() else trouble.append(request.url))
        page.goto(f"{site}/{scenario}.html{address}")
        return page, trouble

    yield opened
    for context in contexts:
        context.close()


def case_of(name: str) -> str:
    """The address of a case of the compared scenarios."""
    return "#case=" + quote(f"agents/library/desk.evalset.json::{name}", safe="")


FIRST = case_of("renew_reserved_book_1")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_it_asks_for_nothing_and_complains_of_nothing(scenario: str, open_page) -> None:
    page, trouble = open_page(scenario)
    page.wait_for_selector("#list nav", timeout=10_000)
    for entry in page.locator("a.entry").all()[:3]:
        entry.click()
        page.wait_for_selector("#title")
    page.wait_for_load_state("networkidle")
    assert trouble == []
    assert page.evaluate("document.querySelectorAll('img, iframe, object, script[src]').length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("scenario", "address", "width"),
    [
        ("base_regressed", "", 1280),
        ("base_regressed", FIRST, 420),
        ("base_regressed", FIRST, 1280),
        ("base_regressed", "#q=nothing-at-all", 420),
        ("base_hostile", "", 420),
        ("hostile", "", 1280),
        ("languages", "", 420),
        ("not_measured", "", 1280),
        ("judged", "", 1280),
    ],
)
def test_axe_finds_nothing(scenario: str, address: str, width: int, scheme: str, open_page) -> None:
    axe = Axe()
    # axe is injected; the page may not be
    view = {"width": width, "height": 800}
    page, _ = open_page(scenario, address, color_scheme=scheme, bypass_csp=True, viewport=view)
    page.wait_for_selector("#title" if address.startswith("#case") else "#list nav")
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    found = axe.run(page)
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found.response["violations"]] == []


def entries(page) -> list[str]:
    return page.locator("a.entry > bdi").all_inner_texts()


def test_search_and_chips(open_page) -> None:
    page, _ = open_page("base_regressed")
    page.wait_for_selector("a.entry")
    search = page.get_by_label("Search")
    search.fill("reserved -book_5")
    assert entries(page) == [f"renew_reserved_book_{number}" for number in (1, 2, 4, 3)]
    assert page.get_by_role("status").first.inner_text() == "4 of 20 cases"
    search.fill("suite:elsewhere")
    assert entries(page) == []
    search.fill("")
    page.get_by_role("button", name="mixed results 1").click()
    assert entries(page) == ["renew_free_book_1"]
    assert "only=mixed" in page.url


def test_a_case_shows_expected_base_and_head(open_page) -> None:
    page, _ = open_page("base_regressed", FIRST)
    page.wait_for_selector("#title")
    assert page.locator("table.sides th").all_inner_texts() == ["Expected", "Base", "Head"]
    assert page.locator("td.gone").first.inner_text() == "not called"
    assert page.locator("td.come code").first.inner_text() == 'renew_loan(book_id="B-7", days=28)'
    assert page.locator("td.answer ins").count()
    assert not page.locator("#overview").is_visible()
    page.get_by_role("link", name="Overview").click()
    assert page.locator("#overview").is_visible()


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
    assert page.locator("#title bdi").inner_text() == "renew_reserved_book_1"
    page.keyboard.press("n")
    page.wait_for_function("document.querySelector('#title bdi')?.textContent === 'renew_reserved_book_2'")
    page.keyboard.press("h")
    page.wait_for_selector("button[aria-label^='Head run 2'][aria-pressed=true]")
    page.keyboard.press("c")
    page.wait_for_function("document.body.textContent.includes('Link copied')")
    page.keyboard.press("/")
    page.keyboard.type("sunday")
    page.wait_for_function("document.querySelectorAll('a.entry').length === 5")


def test_an_address_opens_the_same_case_and_run(open_page) -> None:
    page, _ = open_page("base_regressed", FIRST + "&head=3")
    page.wait_for_selector("button[aria-label^='Head run 4'][aria-pressed=true]")
    other, _ = open_page("base_regressed", "#case=gone.evalset.json%3A%3Agone")
    assert "There is no case gone.evalset.json::gone" in other.get_by_role("alert").inner_text()


def test_a_cause_leads_to_its_first_case(open_page) -> None:
    page, _ = open_page("base_regressed")
    page.get_by_role("link", name="waiting_readers expected, renew_loan called").first.click()
    page.wait_for_selector("#title")
    assert page.locator("#title bdi").inner_text() == "renew_reserved_book_1"


def test_it_reads_without_script(open_page) -> None:
    page, _ = open_page("base_regressed", java_script_enabled=False)
    assert page.get_by_text("waiting_readers expected, renew_loan called").first.is_visible()
    assert "The cases themselves need JavaScript" in page.locator("noscript").inner_text()


def test_thousands_of_cases_are_few_nodes(open_page) -> None:
    page, _ = open_page("base_many")
    page.wait_for_selector("a.entry")
    assert page.evaluate("document.querySelectorAll('#list *').length") < 500
    listed = page.evaluate("document.querySelector('#list nav ul').style.height")
    assert int(listed.removesuffix("px")) >= 52 * 300


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
