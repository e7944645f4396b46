"""What a template puts in is safe by default, in Markdown and in HTML."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from evalgate.text import markdown, templates

EVIL = "# *@octocat* <script> `x` [a](http://b) 1234567"


def rendered(source: str, *, kind: str) -> str:
    environment = templates._environment("evalgate.reports", kind)
    return environment.from_string(source).render(x=EVIL, number=3, none=None)


def test_markdown_is_escaped_unless_a_filter_spells_it() -> None:
    assert rendered("{{ x }}", kind="md") == markdown.prose(EVIL)
    assert rendered("{{ x|code(99) }}", kind="md") == markdown.code(EVIL)
    assert rendered("{{ x|cell(99) }}", kind="md") == markdown.cell_code(EVIL)
    assert rendered("{% macro m(x) %}{{ x }}{% endmacro %}{{ m(x) }}", kind="md") == markdown.prose(
        EVIL
    )


def test_a_text_that_was_cut_after_it_was_escaped_is_escaped_again() -> None:
    shown = rendered("{% macro m(x) %}{{ x }}{% endmacro %}{{ m(x)|clip_end(20) }}", kind="html")
    assert "<" not in shown


def test_html_is_escaped() -> None:
    assert "<script>" not in rendered("{{ x }}", kind="html")
    assert rendered("{{ x|coded }}", kind="html").count("<") == 2


@pytest.mark.parametrize("text", ["-", "0.50", "+0.12", "1,204", "-0.10 to +0.20", "+33 points"])
def test_a_number_stays_as_it_is(text: str) -> None:
    assert templates._prose(text) == text


@pytest.mark.parametrize("text", ["1234567", "1. x", "- x", "12345678.1234567", "+", "1."])
def test_what_is_live_is_no_number(text: str) -> None:
    assert templates._prose(text) == markdown.prose(text)
    assert templates._prose(text) != text


@pytest.mark.parametrize("kind", ["md", "html"])
def test_a_name_that_nobody_knows_is_an_error(kind: str) -> None:
    with pytest.raises(jinja2.UndefinedError):
        rendered("{{ nobody }}", kind=kind)


@pytest.mark.parametrize(
    ("text", "tidied"),
    [
        ("\n\na\n\n\n\nb\n\n", "a\n\nb"),
        ("```text\na\n\n\nb \n```\n\n\nc", "```text\na\n\n\nb \n```\n\nc"),
        ("````\n```\n\n\n````", "````\n```\n\n\n````"),
        ("<pre>a\n\n\nb</pre>\n\n\nc", "<pre>a\n\n\nb</pre>\n\nc"),
    ],
)
def test_blank_lines_are_tidied_outside_of_fences(text: str, tidied: str) -> None:
    assert markdown.tidy(text) == tidied


def test_bytecode_is_kept_and_is_made_anew_for_another_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "letters/templates").mkdir(parents=True)
    (tmp_path / "letters/__init__.py").touch()
    text = tmp_path / "letters/templates/a.md.j2"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    monkeypatch.setattr("sys.pycache_prefix", None)
    compiled: list[str] = []
    compile_text = jinja2.Environment.compile
    monkeypatch.setattr(
        jinja2.Environment,
        "compile",
        lambda self, *given: compiled.append(given[0]) or compile_text(self, *given),
    )
    for words, again in (("one", True), ("one", False), ("another", True)):
        source = f"{{% macro told() %}}{words} {{{{ name }}}}{{% endmacro %}}"
        if again:
            text.write_text(source)
        compiled.clear()
        template = templates.Template("a.md.j2", package="letters", names={"name": "*x*"})
        assert template.macros.told() == rf"{words} \*x\*"
        assert compiled == [source] * again
    assert list(text.parent.glob("__pycache__/a.md.*.pyc"))
