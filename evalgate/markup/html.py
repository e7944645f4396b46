"""HTML from values: an element builder that escapes every string that is not already HTML."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterable

from evalgate.markup import plain

_LIVE = re.compile("[&<>\"']")
_VOID = frozenset({"meta", "input", "br", "wbr", "hr"})


class Html(str):
    """A piece of HTML that was built here, not read anywhere."""

    __slots__ = ()


def text(value: str) -> Html:
    """`value` with nothing hidden and nothing live."""
    shown = plain.visible(value)
    return Html(html.escape(shown, quote=True) if _LIVE.search(shown) else shown)


def join(pieces: Iterable[Html | str], separator: str = "") -> Html:
    """The pieces one after the other; plain strings are escaped."""
    between = text(separator) if separator else ""
    return Html(between.join(map(_as_html, pieces)))


def _as_html(piece: Html | str) -> Html:
    return piece if isinstance(piece, Html) else text(piece)


def element(tag: str, /, *children: Html | str, **attributes: str | int | None) -> Html:
    """`<tag ...>children</tag>`; an attribute that is None or False is left out, `class_` and `aria_label` read as
    `class` and `aria-label`."""
    shown = "".join([_attribute(name, value) for name, value in attributes.items()]) if attributes else ""
    if tag in _VOID:
        return Html(f"<{tag}{shown}>")
    # joined at once: a page of megabytes is copied at every level
    return Html("".join([f"<{tag}{shown}>", *map(_as_html, children), f"</{tag}>"]))


@functools.lru_cache(maxsize=4096, typed=True)  # 0 is a value, False is none
def _attribute(name: str, value: str | int | None) -> str:
    if value is None or value is False:
        return ""
    spelled = name.rstrip("_").replace("_", "-")
    return f" {spelled}" if value is True else f' {spelled}="{text(str(value))}"'
