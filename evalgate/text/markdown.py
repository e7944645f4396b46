"""GitHub's Markdown: untrusted text in prose, code, fences and tables must not ping, link, render
or escape.

Code spans and fences are opaque to GitHub's filters; prose is not, so there a zero-width space
(U+200B) splits anything that GitHub would make into a mention, a reference, a link or an emoji. The
same character breaks up `<!--` everywhere, so that only we can put a hidden marker into a comment.
Content is fitted into the available room: in full while it fits, then in one line, then counted."""

from __future__ import annotations

import html
import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence
from urllib.parse import quote

from evalgate.text import plain
from evalgate.values import frozen_dataclass

PART = "\u200b"
ISOLATE = "\u2068"
END_ISOLATE = "\u2069"

# Wherever it stands: what is parted beside a word may begin a word itself.
_LIVE = re.compile(
    r"@(?=\S)"  # mentions, e-mail addresses
    r"|#(?=\d)|gh-(?=\d)"  # issues
    r"|:(?=//)|www(?=\.)"  # links
    r"|:(?=[a-z0-9_+-]+:)"  # emoji
    r"|[0-9a-f]{7,}",  # commits
    re.IGNORECASE,
)
_HEX_STEP = 4
"""A commit is linked from seven hexadecimal digits on."""
_SPECIAL = re.compile(r"[\\`*_\[\]|~!]|^(?:[-+=#]+|\d{1,9}(?=[.)](?:\s|$)))")
_QUOTED = re.compile(r"`([^`\s](?:[^`]{0,200}[^`\s])?)`")
_BACKTICKS = re.compile(r"`+")
_EMPTY = "(empty)"
RESERVED_FOR_LINES = 0.4
GIVE_UP_AFTER = 5
_FENCE = re.compile(r"(`{3,})[a-z]*$")
_WEB_ADDRESS = re.compile(r"https?://[\x21-\x7e]+")


def prose(text: str) -> str:
    """`text` on one line as plain words: marks of Markdown escaped, triggers parted; between
    backticks it is code."""
    return _with_code(plain.one_line(text), words=_prose, names=code)


def raw_prose(text: str) -> str:
    """`prose` for the inside of an HTML block (a `<summary>`), where Markdown is not read but
    GitHub's filters are."""
    line = plain.one_line(text)
    return _with_code(
        line, words=lambda part: _escape_html_marks(_LIVE.sub(_broken, part)), names=raw_code
    )


def raw_code(text: str) -> str:
    """A `<code>` element for the inside of an HTML block; never empty."""
    return isolate(f"<code>{escape_html(plain.one_line(text) or _EMPTY)}</code>", text)


def escape_html(text: str) -> str:
    """`text` for the inside of an HTML element (`<pre>`); line feeds stay."""
    return html.escape(_hide_marker(plain.visible(text)), quote=True)


def code(text: str) -> str:
    """`text` on one line as a code span whose delimiter is longer than any run of backticks in it;
    never empty."""
    line = _hide_marker(plain.one_line(text) or _EMPTY)
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return isolate(f"{ticks}{pad}{line}{pad}{ticks}", text)


def isolate(markup: str, text: str) -> str:
    """The markup of a text; one with right-to-left letters must not turn the numbers beside it
    around. GitHub removes `<bdi>`, so that characters do it."""
    is_reversed = any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)
    return f"{ISOLATE}{markup}{END_ISOLATE}" if is_reversed else markup


def cell_code(text: str) -> str:
    """`code` for a table cell: pipes escaped, and kept apart from a backslash before them, which
    would free them."""
    return code(text).replace("\\|", f"\\{PART}|").replace("|", "\\|")


def fence(text: str, *, language: str = "") -> str:
    """`text` as a fenced block whose fence is longer than any run of backticks in it."""
    body = _hide_marker(plain.visible(text)).rstrip("\n")
    ticks = "`" * max(3, _longest_run(body) + 1)
    return f"{ticks}{language}\n{body}\n{ticks}"


def link(label: str, address: str) -> str:
    """A link with a ready-made label; the label alone if the address is not plain http(s)."""
    if not _WEB_ADDRESS.fullmatch(address):
        return label
    return f"[{label}](<{address.replace('<', '%3C').replace('>', '%3E').replace(chr(92), '%5C')}>)"


def file_address(*, repository: str, commit: str, path: str, line: int | None) -> str:
    """The page of a file, at a line, at a commit; "" where repository or commit are unknown."""
    if not repository or not commit:
        return ""
    anchor = f"#L{line}" if line is not None else ""
    clean_path = path.encode("utf-8", "replace").decode()
    return f"{repository}/blob/{quote(commit, safe='')}/{quote(clean_path, safe='/')}{anchor}"


def alert(kind: str, body: str) -> str:
    """A coloured alert: TIP, NOTE, IMPORTANT, WARNING or CAUTION."""
    return "\n".join([f"> [!{kind}]", *(f"> {line}".rstrip() for line in body.split("\n"))])


def tidy(text: str) -> str:
    """Markdown without blank lines at its ends, and with at most one in a row, except in fences and
    `<pre>`."""
    lines: list[str] = []
    until = ""
    for line in str(text).split("\n"):
        if until:
            until = "" if line == until or (until == "</pre>" and until in line) else until
        elif fenced := _FENCE.match(line):
            until = fenced[1]
        elif "<pre>" in line and "</pre>" not in line:
            until = "</pre>"
        elif not line.strip() and (not lines or not lines[-1]):
            continue
        lines.append(line if until else line.rstrip())
    return "\n".join(lines).strip("\n")


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _hide_marker(text: str) -> str:
    return text.replace("<!--", f"<!{PART}--")


def _with_code(text: str, *, words: Callable[[str], str], names: Callable[[str], str]) -> str:
    pieces = _QUOTED.split(text)
    between = [
        words(piece) if piece or at in (0, len(pieces) // 2) else PART
        for at, piece in enumerate(pieces[::2])
    ]
    quoted = [names(piece) for piece in pieces[1::2]]
    return "".join(
        one + other for one, other in itertools.zip_longest(between, quoted, fillvalue="")
    )


def _prose(text: str) -> str:
    return _escape_html_marks(_SPECIAL.sub(_escape, _LIVE.sub(_broken, text)))


def _broken(match: re.Match[str]) -> str:
    live = match[0]
    if len(live) < 7:
        return f"{live}{PART}"
    return PART.join(live[at : at + _HEX_STEP] for at in range(0, len(live), _HEX_STEP))


def _escape(match: re.Match[str]) -> str:
    # Digits cannot be escaped: an ordered list is prevented by parting the number from its dot.
    return (
        f"{match[0]}{PART}"
        if match[0][0].isdigit()
        else "".join(f"\\{character}" for character in match[0])
    )


def _escape_html_marks(text: str) -> str:
    # GitHub reads math between dollars even if they are escaped; its documentation advises the
    # span.
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("$", "<span>$</span>")


@frozen_dataclass
class Item:
    """One thing to show: `line` its one-line form, `full` makes its whole form (only called while
    room is left)."""

    line: str
    full: Callable[[], str]


@frozen_dataclass
class Filled:
    """What found room: whole forms, then one-line forms, both in order; `dropped` found none."""

    full: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    dropped: int = 0


def length(text: str) -> int:
    """The length of a text as GitHub may count it: UTF-16 units, never less than characters."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def fill(items: Sequence[Item], *, room: int, most: int) -> Filled:
    """The items within `room` UTF-16 units, in their order of importance, at most `most` of them in
    full.

    An item is shown in full if the lines of all that follow still fit, or would have their reserved
    share. Items too large for that are shown in one line; those for which even that is too much are
    counted."""
    following = sum(length(item.line) + 1 for item in items)
    reserve_cap = int(room * RESERVED_FOR_LINES)
    full: list[str] = []
    waiting: list[str] = []
    used = reserved = refused = 0
    for item in items:
        following -= length(item.line) + 1
        free = room - used - reserved - min(following, max(reserve_cap - reserved, 0))
        full_text = (
            item.full()
            if refused < GIVE_UP_AFTER and len(full) < most and free > length(item.line)
            else None
        )
        if full_text is not None and length(full_text) + 2 <= free:
            full.append(full_text)
            used += length(full_text) + 2
        else:
            refused += 1
            waiting.append(item.line)
            reserved = min(reserved + length(item.line) + 1, reserve_cap)
    sizes = itertools.accumulate(length(line) + 1 for line in waiting)
    line_count = sum(size <= room - used for size in sizes)
    return Filled(
        full=tuple(full), lines=tuple(waiting[:line_count]), dropped=len(waiting) - line_count
    )


def keep(parts: Sequence[str], *, room: int) -> tuple[str, ...]:
    """Those of the ready-made parts, most important first, that fit; empty ones and those too large
    are left out."""
    fitting_parts: list[str] = []
    for part in parts:
        if part and length(part) + 2 <= room:
            fitting_parts.append(part)
            room -= length(part) + 2
    return tuple(fitting_parts)
