"""Untrusted text in GitHub's Markdown, read back by cmark-gfm, which is not ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

import cmarkgfm
import pytest
from builders.scenarios import HOSTILE
from cmarkgfm.cmark import Options
from hypothesis import given, strategies as st

from evalgate.text import markdown as text_markdown, plain

# What an attack is made of, in any order, with anything between.
ATTACKS = st.lists(
    st.sampled_from(
        [
            *"`|\\*_~[]()<>!#$:@-+=&\n\t ",
            *(
                "```",
                "~~~",
                "@octocat",
                "#12",
                "GH-3",
                "https://x.example",
                "www.x.example",
                "a@b.example",
                "<!--",
            ),
            *(
                "</details>",
                "</pre>",
                "<img src=x>",
                "![a](b)",
                "[a](b)",
                "deadbeef0",
                "1.",
                ":tada:",
                "a",
                "\u202e",
            ),
        ]
    ),
    max_size=14,
).map("".join)
MENTION = re.compile(r"(?<![\w`])@\w|(?<!\w)#\d|GH-\d|(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])")


class Page(HTMLParser):
    """Counts elements, and keeps the text that GitHub's filters would look at (none of `code`,
    `pre`)."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.live = self.all = ""
        self.opaque = 0
        self.comments: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs) -> None:
        self.elements.append(tag)
        self.opaque += tag in ("code", "pre")
        self.live += " "

    def handle_endtag(self, tag) -> None:
        self.opaque -= tag in ("code", "pre")
        self.live += " "

    def handle_data(self, data) -> None:
        self.all += data
        self.live += "" if self.opaque else data

    def handle_comment(self, data) -> None:
        self.comments.append(data)


def read(markdown: str) -> Page:
    return Page(cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE))


def unparted(text: str) -> str:
    return text.replace(text_markdown.SPLIT, "")


def assert_dead(page: Page, *, allowed: set[str]) -> None:
    assert set(page.elements) <= allowed
    assert not page.comments
    assert not MENTION.search(page.live)


@given(ATTACKS)
def test_prose_is_plain_words(text: str) -> None:
    assert "<!--" not in text_markdown.prose(text) + text_markdown.raw_prose(
        text
    ) + text_markdown.code(text) + text_markdown.fence(text)
    page = read(f"Said: {text_markdown.prose(text)}")
    for each in (page, read(text_markdown.prose(text))):  # it may stand first
        assert_dead(each, allowed={"p", "code", "span"})
    assert (
        unparted(page.all).replace("`", "").split()
        == f"Said: {plain.one_line(text)}".replace("`", "").split()
    )


@given(ATTACKS)
def test_code_is_one_code_span(text: str) -> None:
    page = read(f"x {text_markdown.code(text)} y")
    assert page.elements == ["p", "code"]
    assert unparted(page.all).strip() == f"x {plain.one_line(text) or '(empty)'} y"


@given(ATTACKS)
def test_a_cell_stays_one_cell(text: str) -> None:
    table = f"| a | b |\n| :-- | :-- |\n| {text_markdown.cell_code(text)} | end |"
    page = read(table)
    assert page.elements.count("td") == 2
    assert set(page.elements) == {"table", "thead", "tbody", "tr", "th", "td", "code"}
    assert "<td>end</td>" in cmarkgfm.github_flavored_markdown_to_html(table).replace(
        ' align="left"', ""
    )


@given(ATTACKS)
def test_a_fence_holds(text: str) -> None:
    page = read(f"{text_markdown.fence(text, language='diff')}\nafter")
    assert page.elements == ["pre", "code", "p"]
    assert unparted(page.all) == f"{plain.visible(text)}".rstrip("\n") + "\n\nafter\n"


@given(ATTACKS)
def test_a_summary_and_a_pre_hold(text: str) -> None:
    summary = f"{text_markdown.raw_code(text)} {text_markdown.raw_prose(text)}"
    page = read(
        f"<details><summary>{summary}</summary>\n\n<pre>{text_markdown.escape_html(text)}</pre>\n\nafter\n\n</details>"
    )
    assert_dead(page, allowed={"details", "summary", "code", "span", "pre", "p"})
    assert page.elements.count("pre") == 1
    assert page.elements[-1] == "p"


def test_all_hostile_text_at_once() -> None:
    for shown in (
        text_markdown.prose(HOSTILE),
        text_markdown.code(HOSTILE),
        text_markdown.fence(HOSTILE),
    ):
        page = read(shown)
        assert not {"a", "img", "script", "table", "h1", "li", "del", "strong", "em"} & set(
            page.elements
        )
        assert not MENTION.search(page.live)


def test_names_between_backticks_become_code() -> None:
    assert text_markdown.prose("use `a_b` or `c`") == "use `a_b` or `c`"
    assert text_markdown.raw_prose("use `a<b`") == "use <code>a&lt;b</code>"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://x.example/a b", "`x`"),  # no address
        ("javascript:alert(1)", "`x`"),
        ("", "`x`"),
        ("https://x.example/a)<>", "[`x`](<https://x.example/a)%3C%3E>)"),
    ],
)
def test_only_web_addresses_become_links(address: str, shown: str) -> None:
    assert text_markdown.link("`x`", address) == shown


def test_a_file_address() -> None:
    where = text_markdown.file_address(
        repository="https://h/o/r", commit="c0ffee", path="a b/ü#?.json", line=3
    )
    assert where == "https://h/o/r/blob/c0ffee/a%20b/%C3%BC%23%3F.json#L3"
    assert text_markdown.file_address(repository="", commit="c", path="a", line=None) == ""
    assert (
        text_markdown.file_address(repository="r", commit="c", path="\ud800", line=None)
        == "r/blob/c/%3F"
    )


@pytest.mark.parametrize(
    "spell", [text_markdown.code, text_markdown.cell_code, text_markdown.raw_code]
)
def test_a_right_to_left_name_is_isolated(spell: Callable[[str], str]) -> None:
    shown = spell("שלום")
    assert shown[0] == "\N{FIRST STRONG ISOLATE}"
    assert shown[-1] == "\N{POP DIRECTIONAL ISOLATE}"
    assert "\N{FIRST STRONG ISOLATE}" not in spell("renewal 갱신")
