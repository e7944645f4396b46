"""Reports' templates: every value put into one is escaped for what the template writes, unless it is marked as safe."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from markupsafe import Markup

from evalgate.text import html, markdown, plain, words

if TYPE_CHECKING:
    from jinja2 import Environment

_NUMBER = r"[-+]?\d{1,6}(?:[.,]\d{1,6}){0,3}"
_FIGURE = re.compile(rf"-|{_NUMBER}(?: to {_NUMBER})?(?: points)?")

Safe: TypeAlias = Markup
"""Text that was made safe, for Markdown or for HTML: it is put into a template as it is."""


def load(name: str, *, package: str, known: Mapping[str, Any]) -> Any:
    """The macros of a template (`comment.md.j2`, `report.html.j2`), each to be called for a safe text. `known`: what
    templates may call by name, the same at every call."""
    make = _html if name.endswith(".html.j2") else _markdown
    environment = make(package)
    environment.globals.update(known)
    return environment.get_template(name).module


def source(name: str, *, package: str) -> Safe:
    """A file among the templates as it is: a style, a script."""
    environment = _html(package)
    assert environment.loader is not None  # made with one
    return Markup(environment.loader.get_source(environment, name)[0])  # noqa: S704 - our own file


@functools.cache
def _markdown(package: str) -> Environment:
    filters: dict[str, Callable[..., Any]] = {
        "code": _marked(lambda text, limit: markdown.code(plain.label(text, limit))),
        "cell": _marked(lambda text, limit: markdown.cell_code(plain.label(text, limit))),
        "raw": _marked(markdown.raw_prose),
        "raw_code": _marked(lambda text, limit: markdown.raw_code(plain.label(text, limit))),
        "fence": _marked(lambda text, language: markdown.fence(text, language=language)),
        "link": _marked(markdown.link),
        "together": _marked(lambda text: markdown.prose(text).replace(" ", "\N{NO-BREAK SPACE}")),
        "wrapped": lambda text, width: "\n".join(plain.wrap(plain.visible(text), width)),
    }
    return _environment(package, filters, finalize=_prose)


@functools.cache
def _html(package: str) -> Environment:
    return _environment(package, {"coded": _marked(html.coded)}, finalize=_visible)


def _environment(
    package: str, filters: Mapping[str, Callable[..., Any]], *, finalize: Callable[[Any], Markup]
) -> Environment:
    import jinja2  # noqa: PLC0415 - takes long, and most commands render nothing

    made = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        undefined=jinja2.StrictUndefined,
    )
    made.filters.update(filters)
    shared = {"clip": plain.clip, "clip_end": plain.clip_end, "label": plain.label, "flat": plain.flat}
    made.filters.update(shared, counted=words.counted, thousands="{:,}".format)
    return made


def _marked(spell: Callable[..., str]) -> Callable[..., Markup]:
    return lambda *given, **named: Markup(spell(*given, **named))  # noqa: S704 - what `spell` returns is safe


def _prose(value: object) -> Markup:
    return value if isinstance(value, Markup) else _cached_prose(str(value))


def _visible(value: object) -> Markup:
    return value if isinstance(value, Markup) else html.text(str(value))


@functools.lru_cache(maxsize=4096)
def _cached_prose(text: str) -> Markup:
    if _FIGURE.fullmatch(text):
        return Markup(text)  # noqa: S704 - a number that is no item of a list and no commit
    return Markup(markdown.prose(text))  # noqa: S704 - escaped there
