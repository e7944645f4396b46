"""What a change edits of that by which it is judged, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from evalgate import errors
from evalgate.errors import Problem
from evalgate.model import EditKind, Edits, GateEdit
from evalgate.text import words
from evalgate.values import frozen_dataclass

Mark = Callable[[str], str]
"""Spells names and values."""
BY_ITS_OWN: Final = "passes only by the rules that this change brings"
RELAXED = "relaxed-rule"
"""Code of the problem that says so; reports say it first."""
NAMED = 5
"""Of rules, and of the cases of one file: how many are named."""
SENTENCES: Final[Mapping[EditKind, str]] = {
    EditKind.RULE: "{subject} {base} \u2192 {head}",
    EditKind.FILE: "{subject} ({head}, {base})",
    EditKind.CASE_REMOVED: "case {subject} deleted",
    EditKind.CASE_CHANGED: "expectation of case {subject} changed",
    EditKind.SUITE_REMOVED: "evaluation file {subject} deleted",
}
"""What a change edits; a test holds every kind to a row."""
TOGETHER: Final[Mapping[EditKind, str]] = {
    EditKind.CASE_REMOVED: "{count} deleted",
    EditKind.CASE_CHANGED: "expectations of {count} changed",
}


@frozen_dataclass
class Shown:
    """The lines that found room, how much there is in all, and how many lines are left out."""

    lines: tuple[str, ...]
    counted: str
    rest: int


def sentence(edits: Edits) -> str:
    """`passes only by the rules that this change brings: pass_rate 1.00 → 0.50`."""
    return f"{BY_ITS_OWN}: {rules(edits)}"


def problem(edits: Edits) -> Problem:
    """The warning beside a pass that the change's own rules alone give."""
    place = next((edit.place for edit in edits.rules() if edit.place is not None), None)
    hint = "Change them in a pull request of their own first, or set `policy: both`."
    return errors.warning(RELAXED, sentence(edits), place, hint)


def rules(edits: Edits, *, mark: Mark = str) -> str:
    """The rules alone, a few by name, without their files."""
    return words.listed(dict.fromkeys(_change(edit, mark) for edit in edits.rules()), limit=NAMED)


def shown(edits: Edits, *, mark: Mark, room: int, size: Callable[[str], int]) -> Shown | None:
    """Rules first, then files, then the cases of each file in a line; None: nothing."""
    if not edits.edits:
        return None
    lines: list[str] = []
    every = [*_lines(edits.edits, mark)]
    for line in every:
        room -= size(line)
        if room < 0:
            break
        lines.append(line)
    rules, files = (sum(edit.kind is kind for edit in edits.edits) for kind in (EditKind.RULE, EditKind.FILE))
    expectations = len(edits.edits) - rules - files
    counts = ((rules, "rule"), (files, "file"), (expectations, "expectation"))
    counted = words.listed(words.counted(count, noun) for count, noun in counts if count)
    return Shown(lines=tuple(lines), counted=counted, rest=len(every) - len(lines))


def _lines(edits: Iterable[GateEdit], mark: Mark) -> Iterator[str]:
    together: dict[tuple[EditKind, str], list[GateEdit]] = {}
    for edit in edits:
        if edit.kind in TOGETHER:
            together.setdefault((edit.kind, edit.suite), []).append(edit)
        else:
            yield _line(edit, mark)
    for (kind, suite), cases in together.items():
        if len(cases) == 1:
            yield _line(cases[0], mark)
            continue
        # the marks may cost more than what they mark: only what is shown is marked
        names = [mark(case.subject) for case in cases[:NAMED]]
        rest = len(cases) - len(names)
        listed = f"{', '.join(names)} and {rest:,} more" if rest else words.listed(names)
        yield f"{TOGETHER[kind].format(count=words.counted(len(cases), 'case'))} in {mark(suite)}: {listed}"


def _line(edit: GateEdit, mark: Mark) -> str:
    text = _change(edit, mark)
    return f"{text} in {mark(edit.suite)}" if edit.suite not in ("", edit.subject) else text


def _change(edit: GateEdit, mark: Mark) -> str:
    values = (mark(value) for value in (edit.subject, edit.base, edit.head))
    subject, base, head = values if edit.kind is EditKind.RULE else (mark(edit.subject), edit.base, edit.head)
    text = SENTENCES[edit.kind].format(subject=subject, base=base, head=head)
    return f"{text}: {mark(edit.head)}" if edit.kind is EditKind.CASE_CHANGED and edit.head else text
