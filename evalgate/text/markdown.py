"""GitHub's Markdown: untrusted text in prose, code, fences and tables must not ping, link, render
or escape.

Code spans and fences are opaque to GitHub's filters; prose is not, so a zero-width space (U+200B)
splits everything there that GitHub would turn into a mention, a reference, a link or an emoji. The
same character breaks up `<!--` everywhere, so that only we can put a hidden marker into a comment.
Content is fitted into the available room: in full while it fits, then in one line, then counted."""

from __future__ import annotations

import html
import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import TypeAlias
from urllib.parse import quote

from . import plain

SPLIT = "\u200b"
ISOLATE = "\u2068"
END_ISOLATE = "\u2069"

# These match anywhere: the text after a split may begin a word itself.
_LIVE = re.compile(
    r"@(?=\S)"  # mentions, e-mail addresses
    r"|#(?=\d)|gh-(?=\d)"  # issues
    r"|:(?=//)|www(?=\.)"  # links
    r"|:(?=[a-z0-9_+-]+:)"  # emoji
    r"|[0-9a-f]{7,}",  # commits
    re.IGNORECASE,
)
_HEX_STEP = 4
"""GitHub links a commit from seven hexadecimal digits on."""
_SPECIAL = re.compile(r"[\\`*_\[\]|~!]|^(?:[-+=#]+|\d{1,9}(?=[.)](?:\s|$)))")
_QUOTED = re.compile(r"`([^`\s](?:[^`]{0,200}[^`\s])?)`")
_BACKTICKS = re.compile(r"`+")
_EMPTY = "(empty)"
RESERVED_FOR_LINES = 0.4
"""The share of the room that full items leave to the lines of other items."""
MAX_REFUSALS = 5
"""Items that did not fit in full: after these, only lines are tried."""
_FENCE = re.compile(r"(`{3,})[a-z]*$")
_WEB_ADDRESS = re.compile(r"https?://[\x21-\x7e]+")


def prose(text: str) -> str:
    """`text` on one line as plain words: marks of Markdown escaped, triggers split; text between
    backticks is code."""
    return _render_with_code(
        plain.one_line(text),
        spell_text=lambda part: _escape_html_marks(
            _SPECIAL.sub(_escape, _LIVE.sub(_split_trigger, part))
        ),
        spell_name=code,
    )


def raw_prose(text: str) -> str:
    """`prose` for the inside of an HTML block (a `<summary>`), where GitHub's filters apply but not
    Markdown."""
    line = plain.one_line(text)
    return _render_with_code(
        line,
        spell_text=lambda part: _escape_html_marks(_LIVE.sub(_split_trigger, part)),
        spell_name=raw_code,
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
    """The markup of a text; if it has right-to-left letters, isolated, so that it does not reverse
    numbers beside it. GitHub removes `<bdi>`, so characters do it."""
    is_reversed = not text.isascii() and any(
        unicodedata.bidirectional(character) in ("R", "AL") for character in text
    )
    return f"{ISOLATE}{markup}{END_ISOLATE}" if is_reversed else markup


def cell_code(text: str) -> str:
    """`code` for a table cell: pipes escaped, and separated from a backslash before them, which
    would undo that."""
    return code(text).replace("\\|", f"\\{SPLIT}|").replace("|", "\\|")


def fence(text: str, language: str = "") -> str:
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
    """The page of a file, at a line, at a commit; "" if repository or commit are unknown."""
    if not repository or not commit:
        return ""
    anchor = f"#L{line}" if line is not None else ""
    clean_path = path.encode("utf-8", "replace").decode()
    return f"{repository}/blob/{quote(commit, safe='')}/{quote(clean_path, safe='/')}{anchor}"


def alert(kind: str, body: str) -> str:
    """A colored alert: TIP, NOTE, IMPORTANT, WARNING or CAUTION."""
    return "\n".join([f"> [!{kind}]", *(f"> {line}".rstrip() for line in body.split("\n"))])


def tidy(text: str) -> str:
    """Markdown without blank lines at its ends, and with at most one in a row, except in fences and
    `<pre>`."""
    lines: list[str] = []
    block_end = ""
    for line in str(text).split("\n"):
        if block_end:
            if line == block_end or (block_end == "</pre>" and block_end in line):
                block_end = ""
        elif fence_match := _FENCE.match(line):
            block_end = fence_match[1]
        elif "<pre>" in line and "</pre>" not in line:
            block_end = "</pre>"
        elif not line.strip() and (not lines or not lines[-1]):
            continue
        lines.append(line if block_end else line.rstrip())
    return "\n".join(lines).strip("\n")


def _longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)


def _hide_marker(text: str) -> str:
    return text.replace("<!--", f"<!{SPLIT}--")


def _render_with_code(
    text: str, *, spell_text: Callable[[str], str], spell_name: Callable[[str], str]
) -> str:
    pieces = []
    parts = _QUOTED.split(text)
    for index, part in enumerate(parts):
        if index % 2:
            pieces.append(spell_name(part))
        elif part:
            pieces.append(spell_text(part))
        elif 0 < index < len(parts) - 1:
            pieces.append(SPLIT)  # between two names
    return "".join(pieces)


def _split_trigger(match: re.Match[str]) -> str:
    trigger = match[0]
    if len(trigger) < 7:
        return f"{trigger}{SPLIT}"
    return SPLIT.join(
        trigger[index : index + _HEX_STEP] for index in range(0, len(trigger), _HEX_STEP)
    )


def _escape(match: re.Match[str]) -> str:
    # Digits cannot be escaped: an ordered list is prevented by parting the number from its dot.
    return (
        f"{match[0]}{SPLIT}"
        if match[0][0].isdigit()
        else "".join(f"\\{character}" for character in match[0])
    )


def _escape_html_marks(text: str) -> str:
    # GitHub reads math between dollars even if they are escaped; its documentation advises the
    # span.
    return html.escape(text, quote=False).replace("$", "<span>$</span>")


Item: TypeAlias = tuple[str, Callable[[], str]]
"""Content to show: its one-line form, and what makes its full form (only called while there is
room)."""


def length(text: str) -> int:
    """The length of a text as GitHub may count it: UTF-16 units, never less than characters."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def fill(items: Sequence[Item], *, room: int, most: int) -> tuple[list[str], list[str], int]:
    """The items within `room` UTF-16 units, most important first, at most `most` of them in full:
    the full forms, the one-line forms, both in order, and the number of others.

    An item is shown in full if the lines of all later items still fit, or would have their reserved
    share. Items that are too large for that are shown in one line; if even that does not fit, they
    are counted."""
    following_length = sum(length(line) + 1 for line, _ in items)
    reserve_cap = int(room * RESERVED_FOR_LINES)
    full: list[str] = []
    lines: list[str] = []
    used_room = reserved_room = refusal_count = 0
    for line, make_full in items:
        following_length -= length(line) + 1
        free_room = (
            room
            - used_room
            - reserved_room
            - min(following_length, max(reserve_cap - reserved_room, 0))
        )
        full_text = (
            make_full()
            if refusal_count < MAX_REFUSALS and len(full) < most and free_room > length(line)
            else None
        )
        if full_text is not None and length(full_text) + 2 <= free_room:
            full.append(full_text)
            used_room += length(full_text) + 2
        else:
            refusal_count += 1
            lines.append(line)
            reserved_room = min(reserved_room + length(line) + 1, reserve_cap)
    sizes = itertools.accumulate(length(line) + 1 for line in lines)
    line_count = sum(size <= room - used_room for size in sizes)
    return full, lines[:line_count], len(lines) - line_count


def keep(parts: Sequence[str], *, room: int) -> tuple[str, ...]:
    """The parts, most important first, that fit; empty and too large ones are left out."""
    fitting_parts: list[str] = []
    for part in parts:
        if part and length(part) + 2 <= room:
            fitting_parts.append(part)
            room -= length(part) + 2
    return tuple(fitting_parts)
