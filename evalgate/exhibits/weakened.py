"""What a change weakens of the gate, in lines: each rule on one of its own, the cases of a file together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evalgate import words
from evalgate.exhibits import compared
from evalgate.model import Comparison, Loosening, LooseningKind

FOLDED: Final[Mapping[LooseningKind, str]] = {
    LooseningKind.CASE_REMOVED: "{count} deleted",
    LooseningKind.CASE_CHANGED: "expectations of {count} changed",
}
"""How many cases of one file are told together. There may be any number of them, and they must hide no rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`about`: lines of one kind say the same of other names. `rules`, `cases`: how many of each it stands for."""

    text: str
    about: str
    rules: int = 0
    cases: int = 0


def by_whose_rules(comparison: Comparison) -> str:
    """That not head's own rules decide; "" where they do."""
    return "The base's rules decide here (`policy: base`), not this change's own." if comparison.by_base else ""


def lines(loosened: Iterable[Loosening], *, mark: Callable[[str], str], named: int) -> tuple[Line, ...]:
    """Rules first, in the order given, then the cases by file, at most `named` of them by name; `mark` is put to names
    and values."""
    rules: list[Line] = []
    folded: dict[tuple[LooseningKind, str], list[Loosening]] = {}
    for each in loosened:
        if each.kind in FOLDED:
            folded.setdefault((each.kind, each.suite), []).append(each)
        else:
            rules.append(Line(text=_sentence(each, mark=mark), about=_about(each), rules=1))
    return (*rules, *(_together(cases, mark=mark, named=named) for cases in folded.values()))


def within(found: Sequence[Line], *, room: int, size: Callable[[Line], int]) -> tuple[Line, ...]:
    """All of the lines while they fit into `room`; else as many of each kind as of any other, as far as there are, so
    that none hides another. In their order."""
    kept: set[int] = set()
    for at in _in_turn(found):
        needs = size(found[at])
        if needs <= room:
            kept.add(at)
            room -= needs
    return tuple(line for at, line in enumerate(found) if at in kept)


def counted(found: Sequence[Line]) -> str:
    """`3 rules and 12 cases`."""
    return _counted(sum(line.rules for line in found), sum(line.cases for line in found))


def left_out(found: Sequence[Line], shown: Sequence[Line]) -> str:
    """`...and 3 rules and 12 cases more`; "" where all is shown."""
    rules = sum(line.rules for line in found) - sum(line.rules for line in shown)
    cases = sum(line.cases for line in found) - sum(line.cases for line in shown)
    return f"...and {_counted(rules, cases)} more" if rules or cases else ""


def _counted(rules: int, cases: int) -> str:
    told = (words.counted(rules, "rule") if rules else "", words.counted(cases, "case") if cases else "")
    return words.listed(each for each in told if each)


def _in_turn(found: Sequence[Line]) -> Iterator[int]:
    """The first line of every kind, then the second of each, and so on."""
    kinds: dict[str, list[int]] = {}
    for at, line in enumerate(found):
        kinds.setdefault(line.about, []).append(at)
    for turn in range(max(map(len, kinds.values()), default=0)):
        yield from (own[turn] for own in kinds.values() if turn < len(own))


def _about(each: Loosening) -> str:
    """A rule of evalgate.yml by its name, without the file or the criterion it is for."""
    return each.subject.partition(" of ")[0] if each.kind is LooseningKind.POLICY else each.kind.value


def _sentence(each: Loosening, *, mark: Callable[[str], str]) -> str:
    return f"{compared.loosening_sentence(each, mark=mark)}{_where(each, mark=mark)}"


def _where(each: Loosening, *, mark: Callable[[str], str]) -> str:
    return f" in {mark(each.suite)}" if each.suite not in ("", each.subject) else ""


def _together(cases: Sequence[Loosening], *, mark: Callable[[str], str], named: int) -> Line:
    first = cases[0]
    if len(cases) == 1:
        return Line(text=_sentence(first, mark=mark), about=first.kind.value, cases=1)
    said = FOLDED[first.kind].format(count=words.counted(len(cases), "case"))
    where = f" in {mark(first.suite)}" if first.suite else ""
    # the marks may cost more than what they mark: only what is shown is marked
    names = [mark(each.subject) for each in cases[:named]]
    rest = len(cases) - len(names)
    told = f"{', '.join(names)} and {rest:,} more" if rest else words.listed(names, limit=named)
    return Line(text=f"{said}{where}: {told}", about=first.kind.value, cases=len(cases))
