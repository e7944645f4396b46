"""Text without surprises: no invisible characters, terminal codes or bidi overrides, of bounded
length; and the decoded text of a file."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from evalgate import errors
from evalgate.errors import Place, Problem
from . import words

_TERMINAL_CODE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colors, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC: titles, links
    r"|\x1b[@-Z\\-_]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
LONGEST = 8_000
"""Characters of a foreign message that are read at most."""
_CLAUSE_END = re.compile(r"[;.] ")
_JOINERS = "\u200c\u200d"
# Every character that a reader cannot see, or that changes how its neighbours are shown.
_SURPRISE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
    "|["
    + "".join(
        f"{chr(plane * 0x10000 + 0xFFFE)}{chr(plane * 0x10000 + 0xFFFF)}" for plane in range(1, 17)
    )
    + "]"
)


def visible(text: str) -> str:
    """`text` with nothing hidden: terminal codes removed, line ends as LF, and every control, bidi,
    zero-width, surrogate or non-character written as `[U+202E]`.

    Tabs and line feeds stay. Joiners stay between characters that are not ASCII, since scripts and
    emoji need them. The result is legal in XML 1.0 and encodable as UTF-8."""
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_END.sub("\n", _TERMINAL_CODE.sub("", text))
    return _SURPRISE.sub(_spell_out, text)


def _spell_out(match: re.Match[str]) -> str:
    character = match[0]
    if character in _JOINERS:
        previous_character = match.string[max(match.start() - 1, 0) : match.start()]
        next_character = match.string[match.end() : match.end() + 1]
        if _joins(previous_character) and _joins(next_character):
            return character
    return f"[U+{ord(character):04X}]"


def _joins(neighbour: str) -> bool:
    return neighbour > "\x7f" and unicodedata.category(neighbour)[0] in "LMS"


def one_line(text: str) -> str:
    """`visible`, with any white space, also line feeds, as single blanks."""
    return " ".join(visible(text).split())


def disarm(text: str) -> str:
    """`text` for stdout: no line of it is a workflow command, in the old (`##[`) or new (`::`)
    style."""
    lines = []
    for line in visible(text).split("\n"):
        # The runner looks for `::` after leading blanks, and for `##[` anywhere in the line.
        stripped = line.lstrip()
        disarmed = (
            f"{line[: len(line) - len(stripped)]}: :{stripped[2:]}"
            if stripped.startswith("::")
            else line
        )
        lines.append(disarmed.replace("##[", "# #["))
    return "\n".join(lines)


def flat(text: str) -> str:
    """`visible` on one line: line feeds and tabs become blanks, other white space stays."""
    return visible(text).replace("\n", " ").replace("\t", " ")


def clip(text: str, limit: int) -> str:
    """At most about `limit` characters of `text`: its beginning and end, with the omitted number
    between."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    head = limit - tail
    return f"{text[:head]} [... {len(text) - limit:,} characters left out ...] {text[len(text) - tail :]}"


def clip_end(text: str, limit: int) -> str:
    """At most about `limit` characters from the beginning; ends in `...` if something was left
    out."""
    return text if len(text) <= limit else f"{text[: max(limit - 3, 0)].rstrip()}..."


def short_json(document: Any) -> str:
    """A value as JSON, at most 60 characters of it."""
    return clip_end(json.dumps(document, ensure_ascii=False, default=repr), 60)


def keep_advice(text: str, limit: int) -> str:
    """At most about `limit` characters of a message. Its last clauses are the advice: they are kept
    whole, and text before them is left out."""
    if len(text) <= limit:
        return text
    room = limit * 3 // 4
    start = text.rfind("); ") + 1  # quoted messages are in parentheses before it
    if not 0 < len(text) - start <= room:
        start = next((match.start() for match in _CLAUSE_END.finditer(text, len(text) - room)), 0)
    if not start:
        return clip(text, limit)
    return f"{text[: limit - (len(text) - start)].rstrip()}...{text[start:]}"


def bounded(message: object, limit: int) -> str:
    """A message on one line, cut to about `limit` characters; its advice is kept."""
    return keep_advice(one_line(clip(str(message), LONGEST)), limit)


def label(text: str, limit: int) -> str:
    """A name on one line with nothing hidden, at most `limit` characters of it; never empty. A long
    name is cut in the middle: long names of one kind begin alike, and differ at the end."""
    line = one_line(text if len(text) <= limit * 8 else f"{text[: limit * 4]}{text[-limit * 4 :]}")
    if len(line) <= limit:
        return line or "(empty)"
    tail = max(limit - 3, 0) // 2
    return f"{line[: max(limit - 3, 0) - tail].rstrip()}...{line[len(line) - tail :].lstrip()}"


def quoted(text: str, limit: int = 80) -> str:
    """`label` between backticks."""
    return f"`{label(text, limit).replace('`', chr(39))}`"


def ends(text: str, *, most_lines: int, limit: int) -> str:
    """The first and last lines of `text`, at most `most_lines` lines and about `limit` characters,
    with the number of omitted lines between them: some programs report the error first, others
    last."""
    rows = text.strip("\n").split("\n")
    if len(rows) <= most_lines:
        return clip("\n".join(rows), limit)
    first_count = most_lines // 2
    last_start = len(rows) - most_lines + first_count
    note = f"[... {words.counted(last_start - first_count, 'line')} left out ...]"
    halves = (clip("\n".join(part), limit // 2) for part in (rows[:first_count], rows[last_start:]))
    return f"\n{note}\n".join(halves)


def wrap(text: str, width: int, *, start: int = 0) -> list[str]:
    """The lines of `text`, broken at blanks, or else anywhere, to `width` columns; the first line
    begins at column `start`."""
    rows = []
    used_columns = start
    for line in text.split("\n"):
        row = line
        if used_columns + columns(line) > width:
            row = ""
            for word in re.findall(r"\s*\S+|\s+", line):
                for part in [word] if columns(word) <= width else list(word):
                    is_full = used_columns and used_columns + columns(part) > width
                    if is_full:
                        rows.append(row)
                        row = ""
                        used_columns = 0
                    addition = part.lstrip() if is_full else part
                    row += addition
                    used_columns += columns(addition)
        rows.append(row)
        used_columns = 0
    return rows


def columns(text: str) -> int:
    """The width of `text` in a fixed-width font: East Asian wide characters take two columns, marks
    none."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(character)
        else 2
        if unicodedata.east_asian_width(character) in "WF"
        else 1
        for character in text
    )


def table(rows: Sequence[Sequence[str]], *, right_columns: range = range(0)) -> Iterator[str]:
    """The rows as lines with aligned columns. The cells of the columns `right_columns` are
    right-aligned."""
    widths = [max(columns(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = []
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            blanks = " " * (width - columns(cell))
            cells.append(blanks + cell if index in right_columns else cell + blanks)
        yield "  ".join(cells).rstrip()


BYTE_ORDER_MARK = "\ufeff"


def decode(content: bytes | Problem, *, file: str) -> str | Problem:
    """The text of a file: UTF-8, or UTF-16 with a byte order mark. The mark stays, so that parsers
    can report it. A problem is returned as it is."""
    if isinstance(content, Problem):
        return content
    try:
        if content.startswith((b"\xff\xfe", b"\xfe\xff")):
            return BYTE_ORDER_MARK + content.decode("utf-16")
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        location = f"byte 0x{content[error.start]:02x} at offset {error.start:,}"
        binary_note = "; it looks like a binary file" if b"\0" in content[:4096] else ""
        message = f"the file is not UTF-8: {location}{binary_note}"
        return errors.error("not-utf-8", message, Place(file, line), "save it as UTF-8")
