"""Expected beside actual in GitHub's Markdown: tool calls and answers."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate.exhibits import calls, wording
from evalgate.exhibits.wording import Piece
from evalgate.markup import github, plain
from evalgate.model import ToolCall

WIDTH = 96
ANSWER_LIMIT = 1_200
CALL_LINES = 40
SHORT_LINES = 3
ALIKE = 0.35
LONG_STRETCH = 160


def render_calls(expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> str:
    """The tool calls as a diff block: `-` expected, `+` actual, blank both; wrapped, at most CALL_LINES lines."""
    rows = [
        f"{line.mark} {text}"
        for line in calls.difference(calls.pair(expected, actual))
        for text in plain.wrap(plain.flat(line.text), WIDTH)
    ]
    if len(rows) > CALL_LINES:
        rows = [*rows[:CALL_LINES], f"@@ {len(rows) - CALL_LINES} more lines in report.html @@"]
    return github.fence("\n".join(rows), language="diff")


def render_answers(expected: str, actual: str) -> str:
    """The answers under a line that says how to read them: short or unlike ones as a diff of lines, long and alike
    ones word by word."""
    left, right = _lines(expected), _lines(actual)
    compared = wording.compare(expected, actual)
    if max(len(left), len(right)) <= SHORT_LINES or compared.likeness < ALIKE:
        rows = [*(f"- {line}" for line in left), *(f"+ {line}" for line in right)]
        return f"Answer, `-` expected, `+` actual:\n{github.fence(chr(10).join(rows), language='diff')}"
    return f"Answer, <del>expected</del> <ins>actual</ins>:\n<pre>{_word_difference(compared.pieces)}</pre>"


def _lines(text: str) -> list[str]:
    return plain.wrap(plain.visible(plain.clip(text.strip(), ANSWER_LIMIT)), WIDTH)


def _word_difference(pieces: Sequence[Piece]) -> str:
    """Inside `<pre>`, which does not wrap on GitHub: so the lines are broken here."""
    shown: list[str] = []
    column = 0
    for index, piece in enumerate(pieces):
        last = index == len(pieces) - 1
        kept = _shortened(piece.text, first=index == 0, last=last) if piece.mark == "=" else piece.text
        text, column = _broken(kept, column)
        escaped = github.escape_html(text)
        shown.append({"=": escaped, "-": f"<del>{escaped}</del>", "+": f"<ins>{escaped}</ins>"}[piece.mark])
    return "".join(shown)


def _shortened(text: str, *, first: bool, last: bool) -> str:
    if len(text) <= LONG_STRETCH:
        return text
    head = "" if first else text[: LONG_STRETCH // 3]
    tail = "" if last else text[-LONG_STRETCH // 3 :]
    return f"{head} [...] {tail}"


def _broken(text: str, column: int) -> tuple[str, int]:
    """`text` with line feeds where it passes WIDTH, begun at `column`; and the column after it."""
    rows = plain.wrap(text, WIDTH, start=column)
    return "\n".join(rows), plain.columns(rows[-1]) + (column if len(rows) == 1 else 0)
