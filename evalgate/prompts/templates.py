"""Custom instructions for a simulated user: templates in Jinja's syntax, as ADK takes them, rendered in its sandbox.

Jinja is imported where it is used: few repositories write such templates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from evalgate.text import words

REQUIRED: Final = ("stop_signal", "conversation_plan", "conversation_history")
"""The names that ADK requires in every template; a scenario with a persona also needs `persona`."""


_FAULTS: Final = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""What a template that computes can raise beside Jinja's own errors."""


class TemplateError(ValueError):
    """A template cannot be read or rendered; the message says why."""


def problem_of(template: str) -> str:
    """Why ADK would refuse the template; empty where it would not."""
    try:
        lacking = [name for name in REQUIRED if name not in names_in(template)]
    except TemplateError as error:
        return str(error)
    wanted = words.listed(f"`{{{{ {name} }}}}`" for name in lacking)
    return f"{wanted} {'is' if len(lacking) == 1 else 'are'} missing" if lacking else ""


def names_in(template: str) -> frozenset[str]:
    """The names that a template expects. Raises TemplateError."""
    from jinja2 import TemplateSyntaxError, meta  # noqa: PLC0415 - see the module
    from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415 - see the module

    try:
        return frozenset(meta.find_undeclared_variables(SandboxedEnvironment().parse(template)))
    except TemplateSyntaxError as error:
        raise TemplateError(f"no Jinja template: {error.message} (line {error.lineno})") from error


def compiled(template: str) -> Callable[[Mapping[str, Any]], str]:
    """The template, ready to be rendered many times; rendering raises TemplateError. Raises TemplateError.

    `{{ text | render_string_filter }}`, which ADK offers, renders a text that is itself a template.
    """
    import jinja2  # noqa: PLC0415 - see the module
    from jinja2.runtime import Context  # noqa: PLC0415 - see the module
    from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415 - see the module

    environment = SandboxedEnvironment()

    @jinja2.pass_context
    def render_string(context: Context, text: str) -> str:
        return environment.from_string(text).render(context.get_all()) if text else ""

    environment.filters["render_string_filter"] = render_string
    try:
        ready = environment.from_string(template)
    except jinja2.TemplateError as error:
        raise TemplateError(f"no Jinja template: {error}") from error

    def render(values: Mapping[str, Any]) -> str:
        try:
            return ready.render(dict(values))
        except (jinja2.TemplateError, *_FAULTS) as error:
            raise TemplateError(f"the template cannot be rendered: {type(error).__name__}: {error}") from error

    return render
