"""The edits of a change to its own gate, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from evalgate import errors
from evalgate.errors import Problem
from evalgate.model import EditKind, Edits, GateEdit
from evalgate.text import words
from evalgate.values import JsonObject, grouped
from .phrases import phrase

Mark = Callable[[str], str]
"""Spells names and values."""
RELAXED = "relaxed-rule"
"""Code of the problem about relaxed rules; reports show it first."""
NAMED = 5
"""Of rules, and of the cases of one file: how many are named."""
GROUPED_KINDS = frozenset({EditKind.CASE_REMOVED, EditKind.CASE_CHANGED})
"""Several edits of these kinds in one file are one line."""
EXPECTATION_KINDS = GROUPED_KINDS | {EditKind.SUITE_REMOVED}
"""Edits of what is expected, which are counted together."""


def sentence(edits: Edits) -> str:
    """`passes only because this change relaxes the rules: pass_rate 1.00 → 0.50`."""
    return f"{phrase('relaxed')}: {rules(edits)}"


def problem(edits: Edits) -> Problem:
    """The warning for a pass that only the change's own rules give."""
    place = next((edit.place for edit in edits.rules() if edit.place), None)
    return errors.warning(RELAXED, sentence(edits), place, phrase("relaxed_hint"))


def rules(edits: Edits, *, mark: Mark = str) -> str:
    """The rules alone, a few by name, without their files."""
    return words.listed(dict.fromkeys(_change(edit, mark) for edit in edits.rules()), limit=NAMED)


def summarize(edits: Edits, *, mark: Mark, room: int, size: Callable[[str], int]) -> JsonObject:
    """For templates: the `lines` that fit, all edits `counted` in words, and the number of
    `remaining` lines. Rules first, then files, then the cases of each file in a line."""
    lines: list[str] = []
    all_lines = [*_lines(edits.edits, mark)]
    for line in all_lines:
        room -= size(line)
        if room < 0:
            break
        lines.append(line)
    numbers = Counter(
        "expectation" if edit.kind in EXPECTATION_KINDS else edit.kind for edit in edits.edits
    )
    counts = phrase("edit_counts", numbers)
    return {"lines": lines, "counted": counts, "remaining": len(all_lines) - len(lines)}


def _lines(edits: Sequence[GateEdit], mark: Mark) -> Iterator[str]:
    """Each edit in a line; edits of several cases of one file share a line."""
    yield from (_line(edit, mark) for edit in edits if edit.kind not in GROUPED_KINDS)
    edits_by_file = grouped(
        ((edit.kind, edit.suite), edit) for edit in edits if edit.kind in GROUPED_KINDS
    )
    for (kind, suite), cases in edits_by_file.items():
        if len(cases) == 1:
            yield _line(cases[0], mark)
            continue
        # marks may be expensive: only names that are shown get one
        names = [mark(case.subject) for case in cases[:NAMED]]
        yield phrase("edited_cases", kind, len(cases), mark(suite), names, len(cases) - len(names))


def _line(edit: GateEdit, mark: Mark) -> str:
    """An edit with the file that it is in, if it has one."""
    text = _change(edit, mark)
    return (
        phrase("edit_in", text, mark(edit.suite)) if edit.suite not in ("", edit.subject) else text
    )


def _change(edit: GateEdit, mark: Mark) -> str:
    """An edit without its file: the name and both values."""
    base, head = (
        # of a file, lines or a digest; the results of a fork may have anything
        text if edit.kind is EditKind.FILE and text.lstrip("+-").isalnum() else text and mark(text)
        for text in (edit.base, edit.head)
    )
    return phrase("edit", edit.kind, mark(edit.subject), base, head)
