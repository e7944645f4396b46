"""Where JSON goes wrong, and what the user is told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from evalgate.errors import Problem
from evalgate.formats import json_source
from evalgate.formats.json_source import JsonFault, JsonText, Path, Problems, Spot
from evalgate.text import plain


def read(text: str) -> tuple[object, list[tuple[str, int | None, int | None, str]]]:
    found = Problems(text, file="f.json")
    document = json_source.read(text, found, consumer=lambda *_: None)
    said = [
        (
            p.code,
            p.place.line if p.place else None,
            p.place.column if p.place else None,
            f"{p.message} {p.hint}",
        )
        for p in found.all()
    ]
    return document, said


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "words"),
    [
        # nothing at all
        ("", "file-empty", 1, 1, "empty"),
        (" \n\t ", "file-empty", 1, 1, "empty"),
        # trailing commas, in objects and lists
        ('{\n  "a": 1,\n}', "json-syntax", 3, 1, "comma"),
        ('{"a": [1, 2,]}', "json-syntax", 1, 13, "comma"),
        # quotes that JSON does not know
        ("{'a': 1}", "json-syntax", 1, 2, "single quotes"),
        ('{"a": \u201cb\u201d}', "json-syntax", 1, 7, "typographic"),
        ("{a: 1}", "json-syntax", 1, 2, "double quotes"),
        # comments
        ('{\n// hi\n"a": 1}', "json-syntax", 2, 1, "comment"),
        ('{"a": 1 /* hi */}', "json-syntax", 1, 9, "a comment"),
        ('{"a": # hi\n1}', "json-syntax", 1, 7, "comment"),
        # Python and JavaScript words
        ('{"a": None}', "json-syntax", 1, 7, "`null`"),
        ('{"a": True}', "json-syntax", 1, 7, "`true`"),
        ('{"a": undefined}', "json-syntax", 1, 7, "`null`"),
        # cut short
        ('{"a": [1, 2', "json-truncated", 1, 12, "truncated"),
        ('{"a": "hel', "json-truncated", 1, 7, "truncated"),
        ('{"a"', "json-truncated", 1, 5, "truncated"),
        # a comma or a quote that is missing
        ('{"a": 1 "b": 2}', "json-syntax", 1, 9, "comma is missing"),
        ('{"a": "say "hi" now"}', "json-syntax", 1, 13, "not escaped"),
        ('{"a" 1}', "json-syntax", 1, 6, "':'"),
        # inside texts
        ('{"a": "x\ny"}', "json-syntax", 1, 9, "line break"),
        ('{"a": "C:\\dir"}', "json-syntax", 1, 10, "backslash"),
        # more than one value
        ('{"a": 1}\n{"b": 2}', "json-syntax", 2, 1, "extra text"),
        # not JSON from the start
        ("<html>", "json-syntax", 1, 1, "markup"),
        ('{"a": 1,\n<<<<<<< HEAD\n"b": 2}', "json-syntax", 2, 1, "merge conflict"),
        (
            "version https://git-lfs.github.com/spec/v1\noid sha256:1",
            "git-lfs-pointer",
            1,
            1,
            "lfs",
        ),
        # Windows line ends count as one line each
        ('{\r\n"a": 1,\r\n}', "json-syntax", 3, 1, "comma"),
        # a number that no machine reads
        ('{"a": ' + "9" * 5000 + "}", "json-number", 1, 7, "digits"),
        ('{"a": ' + "[" * 100_000 + "}", "json-too-deep", 1, 7, "deep"),
    ],
)
def test_faults_are_explained(text, code, line, column, words):
    document, said = read(text)
    assert document is None
    assert [problem[:3] for problem in said] == [(code, line, column)]
    assert words in said[0][3]


def test_a_byte_order_mark_is_told_and_does_not_count_as_a_column():
    document, said = read('\ufeff{"a": }')
    assert document is None
    assert [(code, column) for code, _, column, _ in said] == [
        ("byte-order-mark", 1),
        ("json-syntax", 7),
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a": 1, "a": 2}', "duplicate-key"),
        ('{"x": {"a": 1, "a": 2}}', "duplicate-key"),
        ('{"a": NaN}', "json-nan"),
        ('{"a": [1e999]}', "json-huge"),
        ('{"a": -1' + "0" * 400 + ".0}", "json-huge"),
    ],  # valid JSON; no float holds it
)
def test_what_json_reads_in_silence_is_told(text, code):
    document, said = read(text)
    assert document is not None
    assert [problem[0] for problem in said] == [code]
    assert all(len(problem[3]) < 120 for problem in said)


def test_a_text_that_holds_json_is_unwrapped_and_has_no_lines():
    inner = json.dumps({"a": 1})
    found = Problems(json.dumps(inner), file="f.json")
    document = json_source.read(json.dumps(inner), found, consumer=lambda *_: None)
    assert document is not None
    assert document == {"a": 1}
    Spot(found, ("a",)).error("x", "y")
    assert [p.place.line for p in found.all() if p.place and p.code == "x"] == [None]


def test_texts_within_texts_end():
    text = "{}"
    for _ in range(6):
        text = json.dumps(text)
    document, said = read(text)
    assert document is None
    assert said[-1][0] == "json-in-string"


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=40, deadline=None)
@given(values, st.sampled_from([None, 1, 4]), st.booleans())
def test_walking_reads_what_json_reads(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    items: list[object] = []

    def add(path: Path, item: object, at: int) -> None:
        assert path == (len(items),)
        assert JsonText(text).value(at) == item
        items.append(item)

    document = json_source.read(text, Problems(text, file="f"), consumer=add)
    if isinstance(value, list):
        assert items == value
    elif not isinstance(value, str):  # a text may itself hold JSON
        assert document == value


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet='{}[]",:0a\\\n \t/#-+.eEtrufalsn\ufeff<', max_size=60))
def test_any_text_is_read_or_refused_as_json_does(text):
    try:
        json.loads(text.removeprefix("\ufeff"), parse_constant=float)
        is_json = True
    except ValueError:
        is_json = False
    document, said = read(text)
    wrapped = any(code == "json-in-string" for code, *_ in said)
    is_read = document is not None or text.strip("\ufeff \t\r\n") == "null"
    assert is_read == is_json or wrapped


def test_decoding():
    assert plain.decode(b"\xef\xbb\xbf{}", file="f") == "\ufeff{}"
    assert plain.decode("\ufeff{\u00e9}".encode("utf-16-le"), file="f") == "\ufeff{\u00e9}"
    assert plain.decode("\ufeff{\u00e9}".encode("utf-16-be"), file="f") == "\ufeff{\u00e9}"
    broken = plain.decode(b'{\n"a": "\xff"}', file="f")
    assert isinstance(broken, Problem)
    assert (broken.code, broken.place.line if broken.place else None) == ("not-utf-8", 2)
    assert "offset 8" in broken.message
    odd = plain.decode(b"\xff\xfe{", file="f")
    assert isinstance(odd, Problem)


def test_the_offset_of_a_fault_is_that_of_the_character():
    with pytest.raises(JsonFault) as caught:
        JsonText("[1, x]").value(0)
    assert caught.value.offset == 4
