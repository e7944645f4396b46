"""HTML from values, read back by lxml, which is not ours."""

from __future__ import annotations

import lxml.html
from builders import build
from hypothesis import given, strategies as st

from evalgate import reports
from evalgate.text import plain, templates

ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)


@given(ANYTHING)
def test_strings_stay_text(text: str) -> None:
    tree = lxml.html.fromstring(f"<div><p>{templates.html_text(text)}</p></div>")
    assert [each.tag for each in tree.iter()] == ["div", "p"]
    assert (tree[0].text or "") == plain.visible(text)


def test_names_between_backticks_are_code() -> None:
    assert templates.html_code("set `a<b>` & run") == "set <code>a&lt;b&gt;</code> &amp; run"
    assert templates.html_code("one ` alone") == "one ` alone"


def test_the_page_allows_its_own_style_and_script_only() -> None:
    made = reports.RENDERERS["html"].render(build.run_report([build.suite()], {}, title="<title>"))
    assert "default-src &#39;none&#39;" in made.replace("&#x27;", "&#39;")
    assert "unsafe" not in made
    assert "&lt;title&gt;: " in made
