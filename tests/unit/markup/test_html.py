"""HTML from values, read back by lxml, which is not ours."""

from __future__ import annotations

import lxml.html
from hypothesis import given
from hypothesis import strategies as st

from evalgate.markup import html, page, plain
from evalgate.markup.html import Html, element

ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)


@given(ANYTHING)
def test_strings_stay_text(text: str) -> None:
    made = element("div", element("p", text, title=text), class_="x")
    tree = lxml.html.fromstring(made)
    assert [each.tag for each in tree.iter()] == ["div", "p"]
    assert (tree[0].text or "") == plain.visible(text)
    assert tree[0].get("title").split() == plain.visible(text).split()


def test_elements() -> None:
    assert element("input", type="search", hidden=True, name=None) == '<input type="search" hidden>'
    assert element("p", Html("<b>x</b>"), "<b>", aria_label='a"b') == ('<p aria-label="a&quot;b"><b>x</b>&lt;b&gt;</p>')
    assert html.join(["<", Html("<br>")], " & ") == "&lt; &amp; <br>"


def test_the_page_allows_its_own_style_and_script_only() -> None:
    made = page.render_page("<title>", element("p", "x"))
    assert "default-src &#x27;none&#x27;" in made
    assert "unsafe" not in made
    assert "<title>&lt;title&gt;</title>" in made
