"""HTML from untrusted text, and the policy of a page that loads nothing and sends nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import re

from markupsafe import Markup

from evalgate.text import plain

_LIVE = re.compile("[&<>\"']")


def text(value: str) -> Markup:
    """`value` with nothing hidden and nothing live."""
    shown = plain.visible(value)
    return Markup(html.escape(shown, quote=True) if _LIVE.search(shown) else shown)  # noqa: S704 - escaped


def with_code(value: str) -> Markup:
    """Text in which names stand between backticks, the names as code."""
    pieces = value.split("`")
    if len(pieces) % 2 == 0:
        return text(value)
    return Markup("").join(
        Markup("<code>{}</code>").format(text(piece)) if at % 2 else text(piece) for at, piece in enumerate(pieces)
    )


def policy(*, style: str, script: str, connects: bool = False) -> str:
    """A Content-Security-Policy that forbids every request, form and frame, and every style and script but these.
    `connects`: the script may ask the server that the page is from."""
    more = "; connect-src 'self'" if connects else ""
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (style, script)]
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'{more}"
    )
