"""report.html in a real browser: quiet, accessible, usable with and without script."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from builders import chromium
from builders.scenarios import SCENARIOS
from playwright.sync_api import sync_playwright

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


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with sync_playwright() as started:
        launched = started.chromium.launch(**chromium.launch_options())
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser, site) -> Iterator[object]:
    contexts = []

    def opened(scenario: str, **options: object) -> tuple[object, list[str]]:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        trouble: list[str] = []
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: None if request.is_navigation_request() else trouble.append(request.url))
        page.goto(f"{site}/{scenario}.html")
        return page, trouble

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_it_asks_for_nothing_and_complains_of_nothing(scenario: str, open_page) -> None:
    page, trouble = open_page(scenario)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.wait_for_load_state("networkidle")
    assert trouble == []
    assert page.evaluate("document.scripts.length") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("scenario", ["pass", "fail", "not_measured", "inconclusive", "flaky", "hostile", "languages"])
def test_axe_finds_nothing(scenario: str, scheme: str, open_page) -> None:
    axe = Axe()
    page, _ = open_page(scenario, color_scheme=scheme, bypass_csp=True)  # axe is injected; the page may not be
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    found = axe.run(page)
    assert [violation["id"] for violation in found.response["violations"]] == []


def test_filters(open_page) -> None:
    page, _ = open_page("fail")
    shown = page.locator("details.case:visible")
    assert shown.count() == 4
    page.get_by_label("Verdict").select_option("fail")
    assert shown.count() == 3
    page.get_by_label("Search").fill("REFUND")
    assert shown.count() == 1
    assert page.get_by_role("status").inner_text() == "1 of 4 shown"


def test_a_case_opens_by_keyboard_and_by_its_address(open_page, site) -> None:
    page, _ = open_page("fail")
    first = page.locator("details.case").first
    first.locator("summary").focus()
    page.keyboard.press("Enter")
    assert first.get_attribute("open") is not None
    page.goto(f"{site}/pass.html#case-2")
    assert page.locator("#case-2").get_attribute("open") is not None


def test_it_reads_without_script(open_page) -> None:
    page, _ = open_page("fail", java_script_enabled=False)
    assert page.locator("details.case:visible").count() == 4
    assert not page.locator("form").is_visible()
    page.locator("details.case summary").first.click()
    assert page.locator("details.case .gone").first.is_visible()


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scenario", ["fail", "hostile", "languages"])
def test_it_never_scrolls_sideways(scenario: str, width: int, open_page) -> None:
    page, _ = open_page(scenario, viewport={"width": width, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
