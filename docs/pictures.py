"""Renders the pictures of README and docs in a real Chromium, from what `make demo` wrote. `make pictures` does both.

python docs/pictures.py                       every picture of the table below
python docs/pictures.py --into DIR FILE ...   each comment.md or report.html as DIR/FOLDER.png, to look at it
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cmarkgfm
from cmarkgfm.cmark import Options
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from builders import chromium, node  # noqa: E402 - the tests' own browser

DEMO = ROOT / "build" / "demo"
EMOJI = ("@discordapp/twemoji", "16.0.1")
"""Pictures of signs such as a check mark: the browser of a package has no font with these."""
SIGN = re.compile(r"([\u2600-\u27bf\U0001f300-\U0001faff])\ufe0f?")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """`source`: below the demo's folder; `opened`: of a comment, the case whose section is open, of a page the
    address behind `#`; `height`: of what is shown of a page, 0: all of it."""

    source: str
    opened: str = ""
    width: int = 900
    height: int = 0


PICTURES = {
    "comment.png": Picture(source="pull-request-report/comment.md", opened="renewal_refused_while_others_wait"),
}
"""What is in docs/images, and what it shows."""

ALERT = re.compile(r"<blockquote>\n<p>\[!(TIP|CAUTION|IMPORTANT|WARNING)\](?:<br />)?\n")
COLORS = {"TIP": "#1a7f37", "CAUTION": "#d1242f", "IMPORTANT": "#8250df", "WARNING": "#9a6700"}
# how GitHub shows a comment, as far as ours needs it
STYLE = """
body{margin:0;padding:16px;font:14px/1.5 -apple-system,"Segoe UI","Noto Sans",Helvetica,Arial,sans-serif;color:#1f2328}
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


def comment_page(markdown: str) -> str:
    """A comment as GitHub shows it: by its own parser, with its alerts and its colors of a diff."""
    html = cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE)
    html = ALERT.sub(
        lambda found: (
            f'<blockquote class="alert" style="--color:{COLORS[found[1]]}"><b>{found[1].capitalize()}</b>\n<p>'
        ),
        html,
    )
    html = re.sub(r'(?s)<pre lang="diff"><code>(.*?)</code></pre>', _colored, html)
    signs = node.package(*EMOJI) / "dist" / "svg"
    html = SIGN.sub(lambda sign: f'<img src="{(signs / f"{ord(sign[1]):x}.svg").as_uri()}">', html)
    return f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>{html}'


def _colored(block: re.Match[str]) -> str:
    kinds = {"-": "gone", "+": "come"}
    lines = (
        f'<span class="{kinds[line[0]]}">{line}</span>' if line[:1] in kinds else line for line in block[1].splitlines()
    )
    return f"<pre><code>{chr(10).join(lines)}</code></pre>"


def draw(browser: Browser, picture: Picture, source: Path, target: Path) -> None:
    """A comment or a page as a picture."""
    page = browser.new_page(
        viewport={"width": picture.width, "height": picture.height or 600}, device_scale_factor=1.25
    )
    with tempfile.TemporaryDirectory() as folder:
        text = source.read_text(encoding="utf-8")
        shown = Path(folder, "page.html")
        is_comment = source.suffix == ".md"
        shown.write_text(comment_page(text) if is_comment else text, encoding="utf-8")
        page.goto(f"{shown.as_uri()}{'' if is_comment or not picture.opened else f'#{picture.opened}'}")
        if is_comment and picture.opened:
            page.locator("details", has=page.locator("summary", has_text=picture.opened)).evaluate(
                "it => it.open = true"
            )
        page.screenshot(path=target, full_page=not picture.height)
    page.close()


def wanted(files: list[Path], into: Path) -> Iterator[tuple[Picture, Path, Path]]:
    """What to draw, from where, and where to."""
    if not files:
        for name, picture in PICTURES.items():
            yield picture, DEMO / picture.source, ROOT / "docs" / "images" / name
    for file in files:
        yield Picture(source=file.name), file, into / f"{file.parent.name}.png"


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--into", type=Path, default=Path())
    given = parser.parse_args()
    given.into.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as started:
        browser = started.chromium.launch(**chromium.launch_options())
        for picture, source, target in wanted(given.files, given.into):
            draw(browser, picture, source, target)
            sys.stdout.write(f"wrote {target}\n")
        browser.close()


if __name__ == "__main__":
    main()
