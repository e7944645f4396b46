"""Templates of ADK and of reports, and HTML from untrusted text.

Every value in a report's template is escaped for the template's format, unless it is marked as
safe. A template of plain sentences (`.txt.j2`) escapes nothing: reports do. The page loads nothing
and sends nothing."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import re
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeAlias

from markupsafe import Markup

from evalgate.values import Json, Sentence
from . import markdown, plain, words

if TYPE_CHECKING:
    from jinja2 import Environment

REQUIRED = ("stop_signal", "conversation_plan", "conversation_history")
"""The names that ADK requires in every template; a scenario with a persona also needs `persona`."""
_FAULTS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors of a template's own computations, beside Jinja's errors."""
_TOO_DEEP = (
    "an expression has too many operators or brackets within each other; split it with `{% set %}`"
)
"""The reason for a template that exhausts Python's stack or parser."""


class TemplateError(ValueError):
    """A template cannot be read or rendered; the message has the reason."""


def problem_of(template: str) -> str:
    """The reason why ADK refuses the template; empty if it is valid."""
    try:
        names = names_in(template)
        compile_template(template)
    except TemplateError as error:
        return str(error)
    missing_names = [name for name in REQUIRED if name not in names]
    names_text = words.listed(f"`{{{{ {name} }}}}`" for name in missing_names)
    return (
        f"{names_text} {'is' if len(missing_names) == 1 else 'are'} missing"
        if missing_names
        else ""
    )


def names_in(template: str) -> frozenset[str]:
    """The names that a template expects. Raises TemplateError."""
    from jinja2 import TemplateSyntaxError, meta  # noqa: PLC0415 - see the module
    from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415 - see the module

    environment = SandboxedEnvironment()
    environment.filters["render_string_filter"] = str  # ADK's, see `compiled`
    name_finder = meta.TrackingCodeGenerator(environment)
    name_finder.optimizer = None  # its time is cubic in the length of a chain of operators
    try:
        name_finder.visit(environment.parse(template))
    except TemplateSyntaxError as error:
        raise TemplateError(
            f"not a valid Jinja template: {error.message} (line {error.lineno})"
        ) from error
    except RecursionError:
        raise TemplateError(_TOO_DEEP) from None
    except ValueError as error:  # a number of more than 4,300 digits
        raise TemplateError(f"not a valid Jinja template: {error}") from error
    return frozenset(name_finder.undeclared_identifiers)


def compile_template(template: str) -> Callable[[Json], str]:
    """The template, ready to be rendered many times; rendering raises TemplateError. Raises
    TemplateError.

    `{{ text | render_string_filter }}`, a filter of ADK, renders a text that is itself a
    template."""
    import jinja2  # noqa: PLC0415 - see the module
    from jinja2.runtime import Context  # noqa: PLC0415 - see the module
    from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415 - see the module

    environment = SandboxedEnvironment(optimized=False)  # as in `names_in`

    @jinja2.pass_context
    def render_string(context: Context, text: str) -> str:
        """ADK's filter: a text rendered as a template, with the names of the outer one."""
        return environment.from_string(text).render(context.get_all()) if text else ""

    environment.filters["render_string_filter"] = render_string
    try:
        jinja_template = environment.from_string(template)
    except (jinja2.TemplateError, ValueError) as error:  # a number of more than 4,300 digits
        raise TemplateError(f"not a valid Jinja template: {error}") from error
    # Python's parser accepts at most 200 nested brackets
    except (MemoryError, RecursionError, SyntaxError):
        raise TemplateError(_TOO_DEEP) from None

    def render(values: Json) -> str:
        """The text of the template for these values. Raises TemplateError."""
        try:
            return jinja_template.render(dict(values))
        except (jinja2.TemplateError, *_FAULTS) as error:
            raise TemplateError(
                f"the template cannot be rendered: {type(error).__name__}: {error}"
            ) from error

    return render


# --- HTML -----------------------------------------------------------------------------------------

_LIVE = re.compile("[&<>\"']")
"""Characters with a meaning in HTML; most texts have none, so escaping is skipped."""


def html_text(value: str) -> Markup:
    """`value` as HTML text, with nothing hidden and nothing active."""
    text = plain.visible(value)
    return Markup(html.escape(text, quote=True) if _LIVE.search(text) else text)  # noqa: S704 - escaped


def html_code(text: str) -> Markup:
    """Text with names between backticks, the names as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return html_text(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(html_text(part)) if index % 2 else html_text(part)
        for index, part in enumerate(parts)
    )


def html_policy(*, style: str, script: str, connects: bool) -> str:
    """A Content-Security-Policy that forbids every request, form and frame, and every style and
    script but these; images and sounds are in the page itself. `connects`: the script may call the
    page's server."""
    connect_rule = "; connect-src 'self'" if connects else ""
    digests = [
        base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        for source in (style, script)
    ]
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; media-src data:; "
        f"style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'{connect_rule}"
    )


# --- reports' templates ---------------------------------------------------------------------------

_NUMBER = r"[-+]?\d{1,6}(?:[.,]\d{1,6}){0,3}"
"""Also with separators of thousands; short enough to be no commit."""
_FIGURE = re.compile(rf"-|{_NUMBER}(?: to {_NUMBER})?(?: points)?")
"""A cell that needs no escaping: a number, two of them, a difference, or none."""

Safe: TypeAlias = Markup
"""Text that is safe for Markdown or for HTML: templates insert it as it is."""


class Template:
    """A template (`comment.md.j2`, `report.html.j2`), which is loaded when it is needed: most
    commands render nothing. `names`: what it may use, besides filters."""

    def __init__(self, name: str, *, package: str, names: Json) -> None:
        self.name = name
        self.package = package
        self.names = names

    @functools.cached_property
    def macros(self) -> Any:
        """Its macros, each to be called for a safe text. Their bytecode is cached as Python caches
        a module's."""
        name = self.name
        environment = _environment(self.package, name.split(".")[1])
        environment.globals.update(self.names)
        assert environment.loader is not None  # made with one
        compiler = _Compiler(name, environment.loader.get_source(environment, name)[1] or name)
        compiler.environment = environment
        code = compiler.get_code(name)
        assert code is not None  # a template is no built-in module
        return environment.template_class.from_code(environment, code, environment.globals).module


def line(text: str) -> str:
    """The lines of a template as one, joined by a space."""
    return " ".join(part for row in text.split("\n") if (part := row.strip(" ")))


def source(name: str, *, package: str) -> Safe:
    """A file among the templates as it is: a style, a script."""
    environment = _environment(package, "html")
    assert environment.loader is not None  # made with one
    return Markup(environment.loader.get_source(environment, name)[0])  # noqa: S704 - our own file


class _Compiler(SourceFileLoader):
    """Compiles a template like a Python module; the bytecode is in `__pycache__` beside it."""

    environment: Environment

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        """See `importlib.abc.InspectLoader`."""
        return self.environment.compile(data.decode(), self.name, path)

    def path_stats(self, path: Any) -> Json:
        """See `importlib.abc.SourceLoader`. Jinja and the filters of constants count as sources."""
        import jinja2  # noqa: PLC0415 - takes long, and most commands render nothing

        files = (path, jinja2.__file__, __file__, markdown.__file__, plain.__file__, words.__file__)
        stats = [SourceFileLoader.path_stats(self, file) for file in files]
        return {**stats[0], "mtime": sum(int(file_stats["mtime"]) for file_stats in stats)}


@functools.cache
def _environment(package: str, kind: str) -> Environment:
    """The environment for the templates of a package. `kind`: `html`, `md` or `txt`, from their
    names."""
    import jinja2  # noqa: PLC0415 - takes long, and most commands render nothing

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=kind != "txt",  # noqa: S701 - plain sentences, which reports escape
        finalize={"html": _visible, "md": _prose, "txt": None}[kind],
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        undefined=jinja2.StrictUndefined,
    )
    filters = {name: _filter(spell) for name, spell in _FILTERS[kind].items()}
    filters |= {name: _filter(spell, safe=True) for name, spell in _SAFE_FILTERS[kind].items()}
    environment.filters.update(filters)
    return environment


def _filter(spell: Callable[..., Any], *, safe: bool = False) -> Callable[..., Any]:
    """The filter, which takes sentences too. `safe`: `spell` returns text that is inserted as it
    is."""

    def filter_text(value: Any, *args: Any, **kwargs: Any) -> Any:
        """The text of a filter for a value, a sentence in words."""
        text = spell(str(value) if isinstance(value, Sentence) else value, *args, **kwargs)
        return Markup(text) if safe else text  # noqa: S704 - escaped by `spell`

    return filter_text


_Filters: TypeAlias = Mapping[str, Callable[..., Any]]
"""The function of each filter by its name."""
_COMMON_FILTERS: _Filters = {
    "clip": plain.clip,
    "clip_end": plain.clip_end,
    "keep_advice": plain.keep_advice,
    "label": plain.label,
    "flat": plain.flat,
    "counted": words.counted,
    "thousands": "{:,}".format,
}
"""Of all kinds of templates; their texts are escaped afterwards."""
_FILTERS: Mapping[str, _Filters] = {
    "html": _COMMON_FILTERS,
    "txt": {
        **_COMMON_FILTERS,
        "line": line,
        "listed": words.listed,
        "quoted": plain.quoted,
    },
    "md": {
        **_COMMON_FILTERS,
        "wrapped": lambda text, width: "\n".join(plain.wrap(plain.visible(text), width)),
    },
}
"""By the kind of a template; their texts are escaped afterwards."""
_SAFE_FILTERS: Mapping[str, _Filters] = {
    "html": {"coded": html_code},
    "txt": {},
    "md": {
        "code": lambda text, limit: markdown.code(plain.label(text, limit)),
        "cell": lambda text, limit: markdown.cell_code(plain.label(text, limit)),
        "raw": markdown.raw_prose,
        "raw_code": lambda text, limit: markdown.raw_code(plain.label(text, limit)),
        "fence": markdown.fence,
        "link": markdown.link,
        "together": lambda text: markdown.prose(text).replace(" ", "\N{NO-BREAK SPACE}"),
    },
}
"""Filters whose texts are inserted as they are."""


def _prose(value: object) -> Markup:
    """A value that a Markdown template inserts: a safe text as it is, others escaped."""
    return value if isinstance(value, Markup) else _prose_of(str(value))


def _visible(value: object) -> Markup:
    """The same for an HTML template."""
    if isinstance(value, Markup):
        return value
    text = str(value)
    return _short_html(text) if len(text) <= _SHORT else html_text(text)


_SHORT = 200
"""In characters: shorter texts repeat often, and are worth a cache."""
_short_html = functools.lru_cache(maxsize=4096)(html_text)
"""`html_text` with a cache."""


@functools.lru_cache(maxsize=4096)
def _prose_of(text: str) -> Markup:
    """Escaped text for Markdown, cached because names and figures repeat in many cells."""
    if _FIGURE.fullmatch(text):
        return Markup(text)  # noqa: S704 - a number that is no item of a list and no commit
    return Markup(markdown.prose(text))  # noqa: S704 - escaped there
