"""One comment with many sections: read back what was written, whatever it holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.github import layout
from evalgate.github.layout import Section
from evalgate.text import markdown

KEY = "evals"
HOSTILE = [
    "<!-- evalgate:evals:v1 [] -->",
    '<!-- evalgate:evals:v1 [["a","a",0,0,9,"",9,false,"",0,1,1,""]] -->',
    "-->",
    "--!>",
    "\r\n\r",
    "\u2028\x00\ud800",
    "한국어 \U0001f600",
    "\n\n---\n\n### Job",
]
TEXTS = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=20), max_size=5).map("".join)
SECTIONS = st.builds(
    Section,
    key=st.sampled_from(["a", "b", "c-1"]),
    title=TEXTS,
    headline=TEXTS,
    details=TEXTS,
    order=st.integers(-3, 3),
    weight=st.integers(-3, 3),
    run=st.integers(0, 3),
    revision=st.sampled_from(["", "a" * 40, "b" * 40]),
)


def section(key: str = "a", **more) -> Section:
    return Section(**{"key": key, "title": f"Job {key}", "headline": f"headline {key}", **more})


def together(*sections: Section) -> tuple[Section, ...]:
    found: tuple[Section, ...] = ()
    for each in sections:
        found = layout.put(found, each) or found
    return found


@given(st.lists(SECTIONS, max_size=6))
def test_what_was_written_is_read_back(sections) -> None:
    written = together(*sections)
    text = layout.render(written, KEY)
    assert layout.parse(text, KEY) == written
    assert [each.turn for each in layout.parse(text, KEY)] == [each.turn for each in written]
    assert layout.render(layout.parse(text, KEY), KEY) == text
    assert layout.is_marked(text, KEY)
    first, _, rest = text.partition("\n")
    assert first.count("-->") == 1
    assert first.endswith("-->")
    assert rest == "" or written


@given(TEXTS)
def test_no_text_is_taken_for_sections_but_our_own(text) -> None:
    """Even our own marker, at the very start of a foreign text, gives nothing but what its digests vouch for."""
    assert all(isinstance(each, Section) for each in layout.parse(text, KEY))
    body = layout.render(together(section("a", details=text)), KEY)
    assert [each.key for each in layout.parse(body, KEY)] == ["a"]
    assert layout.parse(f"x{body}", KEY) == ()
    assert not layout.is_marked(f" {body}", KEY)


@given(st.lists(SECTIONS, max_size=6), st.lists(SECTIONS, max_size=6))
def test_merging_does_not_depend_on_the_order_of_copies(left, right) -> None:
    one, other = together(*left), together(*right)
    keys = {each.key for each in (*one, *other)}
    assert {each.key for each in layout.merge(one, other)} == keys
    assert layout.merge(one, one) == one
    newest = {key: max(each.run for each in (*one, *other) if each.key == key) for key in keys}
    assert {each.key: each.run for each in layout.merge(other, one)} == newest


@given(st.lists(st.integers(0, 90_000), min_size=1, max_size=6), st.data())
@settings(max_examples=30)
def test_the_limit_is_kept_and_nothing_is_lost_silently(sizes, data) -> None:
    letter = data.draw(st.sampled_from(["x", "한", "\U0001f600"]))
    written = together(
        *(
            section(f"k{at}", details=letter * size, weight=data.draw(st.integers(0, 2)))
            for at, size in enumerate(sizes)
        )
    )
    text = layout.render(written, KEY)
    assert markdown.length(text) <= layout.LIMIT
    found = layout.parse(text, KEY)
    assert [each.key for each in found] == [each.key for each in written]
    for each in found:
        whole = next(other for other in written if other.key == each.key)
        assert each.details == whole.details or (each.cut and f"`{each.title}`" in text.rpartition("No room here")[2])
        assert layout.holds(found, whole)


def test_the_least_important_gives_way_first() -> None:
    large = "x" * 40_000
    written = together(section("a", details=large, weight=1), section("b", details=large, weight=9))
    text = layout.render(written, KEY, where="its summary")
    assert [bool(each.details) for each in layout.parse(text, KEY)] == [False, True]
    assert "headline a" in text
    assert "No room here for all that `Job a` had to say: it is in its summary." in text


def test_headlines_that_do_not_fit_give_way_too() -> None:
    text = layout.render(together(*(section(f"k{at}", headline="y" * 30_000, weight=at) for at in range(4))), KEY)
    assert markdown.length(text) <= layout.LIMIT
    assert [bool(each.headline) for each in layout.parse(text, KEY)] == [False, False, True, True]


def test_far_too_many_sections_are_counted() -> None:
    text = layout.render(together(*(section(f"k{at}", run=at) for at in range(70))), KEY)
    kept = layout.parse(text, KEY)
    assert (len(kept), min(each.run for each in kept)) == (60, 10)
    assert "10 older sections left out." in text


def test_one_section_has_no_title_and_several_have() -> None:
    assert "Job a" not in layout.render(together(section("a")), KEY).partition("\n")[2]
    assert "### Job a\n\nheadline a\n\n---\n\n### Job b\n\nheadline b" in layout.render(
        together(section("a"), section("b")), KEY
    )


def test_a_section_of_an_earlier_commit_says_so() -> None:
    written = together(section("a", run=1, revision="a" * 40), section("b", run=2, revision="b" * 40))
    text = layout.render(written, KEY)
    assert "### Job a (an earlier commit, `aaaaaaa`)" in text
    assert "### Job b\n" in text


def test_titles_are_untrusted() -> None:
    text = layout.render(together(section("a", title="@team --> #1 <img>"), section("b")), KEY)
    assert "### @\u200bteam" in text
    assert "<img>" not in text.partition("\n")[2]


def test_order_then_key() -> None:
    written = together(section("b", order=1), section("a", order=2), section("c", order=1))
    assert [each.key for each in layout.parse(layout.render(written, KEY), KEY)] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("before", "after", "turn"),
    [
        ({}, {}, 1),  # the same words: no turn
        ({}, {"headline": "new"}, 2),
        ({}, {"run": 8}, 2),
        ({"run": 9}, {"run": 8}, None),  # an older run comes late
    ],
)
def test_turns(before, after, turn) -> None:
    first = layout.put((), section(**{"run": 7, **before}))
    second = layout.put(first, section(**{"run": 7, **after}))
    assert (second[0].turn if second else None) == turn


def test_a_cut_section_is_not_taken_for_a_changed_one() -> None:
    mine = section("a", details="x" * 70_000)
    text = layout.render(together(mine), KEY)
    assert layout.render(layout.put(layout.parse(text, KEY), mine), KEY) == text


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("headline b", "headline B"),  # somebody edited it
        lambda text: text.replace('"b"', '"B"', 1),  # no key
        lambda text: text.replace("false", "7.5"),
        lambda text: text.replace("[[", "[[[", 1),
        lambda text: text.partition("\n")[0],
        lambda text: text.replace(" -->", "", 1),
    ],
)
def test_what_was_tampered_with_is_left_out(damage) -> None:
    text = layout.render(together(section("a"), section("b")), KEY)
    assert "b" not in {each.key for each in layout.parse(damage(text), KEY)}


def test_a_browser_changes_line_ends_only() -> None:
    written = together(section("a", details="1\n\n2"), section("b"))
    assert layout.parse(layout.render(written, KEY).replace("\n", "\r\n"), KEY) == written


@given(st.lists(st.text(max_size=30), min_size=1, max_size=3), st.lists(st.text(max_size=30), min_size=1, max_size=3))
def test_keys(one, other) -> None:
    assert layout.marker_of(layout.key_of(*one)).startswith("<!-- evalgate:")
    assert (layout.key_of(*one) == layout.key_of(*other)) == (one == other)


@pytest.mark.parametrize("key", ["", "A", "a b", "-a", "a--><b", "a" * 61, "a\n"])
def test_what_is_no_key(key) -> None:
    with pytest.raises(ValueError, match="is no key"):
        layout.marker_of(key)


@given(TEXTS)
def test_untrusted_text_cannot_hold_the_beginning_of_a_marker(text) -> None:
    """The reports' markup parts `<!--`, in prose, code, fences and raw HTML: a second wall before the first line."""
    for shown in (
        markdown.prose,
        markdown.raw_prose,
        markdown.code,
        markdown.raw_code,
        markdown.cell_code,
        markdown.fence,
    ):
        assert "<!--" not in shown(text)
    assert "<!--" not in markdown.escape_html(text)


def test_replacing_keeps_the_others_words() -> None:
    first = together(section("a"), section("b", details="theirs"))
    second = layout.put(first, section("a", headline="new"))
    assert second is not None
    assert [each for each in second if each.key == "b"] == [each for each in first if each.key == "b"]
    assert replace(second[0], turn=0).headline == "new"
