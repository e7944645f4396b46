"""Renders the pictures of README and docs in a real Chromium, from what `make demo` wrote. `make
pictures` does both.

python docs/pictures.py                       every picture of the table below
python docs/pictures.py --into DIR FILE ...   each comment.md or report.html as DIR/FOLDER.png
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import cmarkgfm
from cmarkgfm.cmark import Options
from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from builders import chromium, keyboard, node, ui  # noqa: E402 - the tests' own browser, terminal and client

DEMO = ROOT / "build" / "demo"
REPORT = "pull-request-report"
FILE, CASE = "evals/loans.evalset.json", "renewal_refused_while_others_wait"
EMOJI = ("@discordapp/twemoji", "16.0.1")
"""Pictures of signs such as a check mark: the browser of a package has no font with these."""
SIGN = re.compile(r"([\u2600-\u27bf\U0001f300-\U0001faff])\ufe0f?")
ALERT = re.compile(r"<blockquote>\n<p>\[!(TIP|CAUTION|IMPORTANT|WARNING)\](?:<br />)?\n")
COLORS = {"TIP": "#1a7f37", "CAUTION": "#d1242f", "IMPORTANT": "#8250df", "WARNING": "#9a6700"}
# how GitHub shows a comment, as far as ours needs it
STYLE = """
body{margin:0;padding:16px;font:13px/1.5 -apple-system,"Segoe UI","Noto Sans",Helvetica,Arial,sans-serif;color:#1f2328}
p,ul,table,pre,blockquote,details{margin:0 0 16px}h3{font-size:1.25em;margin:24px 0 16px}ul{padding-left:2em}
code{font:85% ui-monospace,"Liberation Mono",monospace;background:#818b981f;border-radius:6px;padding:.2em .4em}
pre{background:#f6f8fa;border-radius:6px;padding:16px;overflow:auto;font:85%/1.45 ui-monospace,monospace}
pre code{background:none;padding:0;font-size:100%}a{color:#0969da;text-decoration:none}sub{font-size:75%}
table{border-collapse:collapse;display:block;overflow:auto}th,td{border:1px solid #d1d9e0;padding:6px 13px}
tr:nth-child(2n){background:#f6f8fa}blockquote{color:#59636e;border-left:.25em solid #d1d9e0;padding:0 1em}
blockquote.alert{color:inherit;border-color:var(--color);padding:8px 16px}.alert>:last-child{margin:0}
.alert>b:first-child{display:block;color:var(--color);font-weight:500;margin-bottom:16px}
img{height:1.15em;vertical-align:-.2em}.gone{background:#ffebe9;color:#82071e}.come{background:#dafbe1;color:#116329}
"""
TERMINAL = """<style>body{{margin:0}}pre{{margin:0;padding:12px 16px;
font:14px/1.45 ui-monospace,"Liberation Mono",monospace;
color:{foreground};background:{background}}}</style><pre>{code}</pre>"""
PUT_SIGN = """([sign, address]) => {
  const texts = document.createTreeWalker(document.getElementById('overview'), NodeFilter.SHOW_TEXT), found = [];
  while (texts.nextNode()) if (texts.currentNode.data.includes(sign)) found.push(texts.currentNode);
  for (const each of found) {
    const image = new Image(), [before, ...after] = each.data.split(sign);
    image.src = address;
    image.style = 'display:inline;min-width:0;border:0;margin:0;height:1em;vertical-align:-.1em';
    each.replaceWith(before, image, after.join(sign));
  }
}"""


def comment_page(markdown: str) -> str:
    """A comment as GitHub shows it: by its own parser, with its alerts and its colors of a diff."""
    text = cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE)
    text = ALERT.sub(
        lambda found: (
            f'<blockquote class="alert" style="--color:{COLORS[found[1]]}"><b>{found[1].capitalize()}</b>\n<p>'
        ),
        text,
    )
    text = re.sub(r'(?s)<pre lang="diff"><code>(.*?)</code></pre>', _colored, text)
    text = SIGN.sub(lambda sign: f'<img src="{_drawn(sign[1])}">', text)
    return f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>{text}'


def _drawn(sign: str) -> str:
    source = node.package(*EMOJI) / "dist" / "svg" / f"{ord(sign):x}.svg"
    return f"data:image/svg+xml;base64,{base64.b64encode(source.read_bytes()).decode()}"


def _colored(block: re.Match[str]) -> str:
    kinds = {"-": "gone", "+": "come"}
    lines = (
        f'<span class="{kinds[line[0]]}">{line}</span>' if line[:1] in kinds else line
        for line in block[1].splitlines()
    )
    return f"<pre><code>{chr(10).join(lines)}</code></pre>"


def comment(page: Page, source: Path, *, opened: str = "") -> bytes:
    """A comment; `opened`: the case whose section is open, with the sections that it is in."""
    page.set_content(comment_page(source.read_text(encoding="utf-8")))
    if opened:
        sections = page.locator("details", has=page.locator("summary", has_text=opened))
        sections.evaluate_all("all => all.forEach(it => it.open = true)")
    return page.screenshot(full_page=True)


def report(page: Page, source: Path, *, height: int = 0) -> bytes:
    """The overview of report.html; `height`: of what is shown, 0: all of it."""
    page.goto(source.absolute().as_uri())
    page.wait_for_selector("#list nav")
    put_signs(page)
    page.set_viewport_size({"width": 1060, "height": height or 600})
    return page.screenshot(full_page=not height)


def put_signs(page: Page) -> None:
    """Draw the signs of the overview."""
    text = page.locator("#overview").text_content() or ""
    for sign, character in {(found[0], found[1]) for found in SIGN.finditer(text)}:
        page.evaluate(PUT_SIGN, [sign, _drawn(character)])


def case(page: Page, source: Path, *, height: int) -> bytes:
    """A case of report.html, without the list beside it."""
    page.set_viewport_size({"width": 1280, "height": height})
    page.goto(f"{source.absolute().as_uri()}#case={FILE}::{CASE}")
    page.wait_for_selector("#title")
    return page.locator("#page").screenshot()


@contextlib.contextmanager
def repository_of(demo: Path) -> Iterator[Path]:
    """A copy of it, to change."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(shutil.copytree(demo / "repository", Path(folder, "repository")))


def accept(page: Page, demo: Path) -> bytes:
    """`evalgate accept` at a terminal."""
    command = ["accept", CASE]
    with repository_of(demo) as root:
        said = keyboard.typed(command, "a", after=b"[q]uit: ", cwd=root, environment={})
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(Text.from_ansi(f"$ evalgate {' '.join(command)}\n{said}"))
    page.set_content(console.export_html(theme=MONOKAI, inline_styles=True, code_format=TERMINAL))
    return page.locator("pre").screenshot()


def live(page: Page, demo: Path) -> bytes:
    """`evalgate ui`: a session with the agent, which can be saved as a case."""
    page.set_viewport_size({"width": 1190, "height": 740})
    with repository_of(demo) as root, ui.started(root, environment={}) as server:
        server.state()  # it answers
        page.goto(server.address)
        page.click("#chat")
        page.click("#start")
        page.locator("#message").fill('Please renew "Clockmaker\'s Orchard" for card 4417.')
        page.click("#send")
        page.wait_for_selector("[role=log] > div:not(.now) > .says")
        page.locator("#new-id").fill("renewal_of_a_reserved_book")
        put_signs(page)
        return page.screenshot()


PICTURES: Mapping[str, Callable[[Page, Path], bytes]] = {
    "comment.png": lambda page, demo: comment(page, demo / REPORT / "comment.md", opened=CASE),
    "overview.png": lambda page, demo: report(page, demo / REPORT / "report.html", height=700),
    "case.png": lambda page, demo: case(page, demo / REPORT / "report.html", height=920),
    "accept.png": accept,
    "ui.png": live,
}
"""What is in docs/images, and what draws it from the demo's folder."""


def draw(
    browser: Browser, scene: Callable[[Page, Path], bytes], source: Path, target: Path
) -> None:
    """A picture."""
    # the page's own policy lets no picture of a sign in
    page = browser.new_page(viewport={"width": 860, "height": 600}, bypass_csp=True)
    target.write_bytes(scene(page, source))
    page.close()
    sys.stdout.write(f"wrote {target}: {target.stat().st_size // 1000} kB\n")


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--demo", type=Path, default=DEMO, help="what `make demo` wrote")
    given = parser.parse_args()
    given.into.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as started:
        options = chromium.launch_options()
        if Path("/etc/fonts/fonts.conf").exists():  # the package's own fonts have no arrow
            options.get("env", {}).pop("FONTCONFIG_FILE", None)
        browser = started.chromium.launch(**options)
        for name, scene in ({} if given.files else PICTURES).items():
            draw(browser, scene, given.demo, given.into / name)
        for file in given.files:
            scene = comment if file.suffix == ".md" else report
            draw(browser, scene, file, given.into / f"{file.parent.name}.png")
        browser.close()


if __name__ == "__main__":
    main()
