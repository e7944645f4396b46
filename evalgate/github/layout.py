"""One comment that several jobs share: each has a section, and the hidden first line says where each begins and ends.

Nothing but the first line is ever parsed, and that line is ours: a marker that somebody smuggles into a section is text
like any other.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evalgate.text import markdown, plain, words

LIMIT = 65_536
MOST_SECTIONS = 60
_KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
_LONGEST_TITLE = 60
_NAMED_IN_NOTE = 10
_RULE = "\n\n---\n\n"
_ROWS = TypeAdapter(list[tuple[str, str, int, int, int, str, int, bool, str, int, int, int, str]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one job says, as ready-made Markdown: the headline always, the details where there is room.

    `weight`: how important it is; the lightest gives way first. `order`: its place, then by key. `run`: the workflow
    run that speaks, a growing number; an older run never overwrites a newer one. `revision`: the commit it speaks of.
    """

    key: str
    title: str
    headline: str
    details: str = ""
    order: int = 0
    weight: int = 0
    run: int = 0
    revision: str = ""
    turn: int = field(default=0, compare=False)  # counts the changes of a section: which of two copies is the later
    cut: bool = field(default=False, compare=False)  # details that were written did not fit
    content: str = field(default="", compare=False)  # a digest of the uncut section


def key_of(*names: str) -> str:
    """A key for a comment or a section from the names of workflow, job, suite: readable, unique, never empty."""
    readable = re.sub(r"[^a-z0-9]+", "-", " ".join(names).lower())[:40].strip("-")
    return f"{readable or 'x'}-{_digest(chr(31).join(names))[:8]}"


def marker_of(key: str) -> str:
    """How the text of a comment with this key begins. Raises ValueError where it is no key."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no key: lower-case letters, digits, dots and hyphens, 60 at most")
    return f"<!-- evalgate:{key}:v1 "


def is_marked(body: str, key: str) -> bool:
    """Whether a comment's text begins with the marker of `key`; who wrote it is another question."""
    return body.startswith(marker_of(key))


def parse(body: str, key: str) -> tuple[Section, ...]:
    """The sections of a comment. Those that somebody edited are left out: table and text must agree."""
    marker = marker_of(key)
    first, _, rest = _unix(body).partition("\n")
    if not first.startswith(marker) or not first.endswith(" -->"):
        return ()
    try:
        rows = _ROWS.validate_json(first[len(marker) : -len(" -->")])
    except ValidationError:
        return ()
    return merge(section for section in (_parse_row(row, rest) for row in rows[:MOST_SECTIONS]) if section)


def merge(*copies: Iterable[Section]) -> tuple[Section, ...]:
    """One section per key out of several copies of a comment: that of the newest run, and its latest turn."""
    newest: dict[str, Section] = {}
    for section in (each for copy in copies for each in copy):
        known = newest.get(section.key)
        if known is None or _age(section) > _age(known):
            newest[section.key] = section
    return tuple(sorted(newest.values(), key=lambda each: (each.order, each.key)))


def put(sections: Sequence[Section], mine: Section) -> tuple[Section, ...] | None:
    """The sections with `mine` in its place; None where a newer run has spoken there already."""
    before = next((each for each in sections if each.key == mine.key), None)
    if before is not None and before.run > mine.run:
        return None
    mine = _sealed(mine)
    same = before is not None and (before.content, before.run) == (mine.content, mine.run)
    turn = (before.turn if before else 0) + (0 if same else 1)
    return merge([each for each in sections if each.key != mine.key], [replace(mine, turn=turn)])


def holds(sections: Sequence[Section], mine: Section) -> bool:
    """Whether `mine`, whole or cut, is among the sections."""
    sought = (mine.key, mine.run, _sealed(mine).content)
    return any((each.key, each.run, each.content) == sought for each in sections)


def render(sections: Sequence[Section], key: str, *, where: str = "the summary of its job") -> str:
    """The comment's text, at most LIMIT characters; `parse` reads the same sections back.

    What does not fit gives way by weight: details first, then whole sections. It is told of; `where` says where it can
    be read.
    """
    shown = list(_newest(sections))
    left_out = len(sections) - len(shown)
    lightest = sorted(range(len(shown)), key=lambda at: (shown[at].weight, -shown[at].order, shown[at].key))
    text = _render(shown, key, where=where, left_out=left_out)
    for shrink in (_without_details, _without_text):
        for position in lightest:
            if markdown.length(text) <= LIMIT:
                return text
            shown[position] = shrink(shown[position])
            text = _render(shown, key, where=where, left_out=left_out)
    return text


def _render(sections: Sequence[Section], key: str, *, where: str, left_out: int) -> str:
    pieces: list[str] = []
    rows: list[tuple[Any, ...]] = []
    at = 0
    revision = max(sections, key=lambda each: each.run).revision if sections else ""
    for each in sections:
        lead = _lead(each, revision, alone=len(sections) == 1, first=not pieces)
        text = each.headline + (f"\n\n{each.details}" if each.details else "")
        at += len(lead)
        known = (each.key, each.title, each.order, each.weight, each.run, each.revision, each.turn, each.cut)
        rows.append((*known, each.content, at, len(each.headline), len(text), _digest(text)))
        at += len(text)
        pieces += [lead, text]
    table = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
    # Inside JSON these stand in strings only, where they may be written so: no title can end the marker.
    table = table.replace("<", "\\u003c").replace(">", "\\u003e")
    note = _note([each for each in sections if each.cut], where=where, left_out=left_out)
    return f"{marker_of(key)}{table} -->\n{''.join(pieces)}{note}"


def _parse_row(row: tuple[Any, ...], rest: str) -> Section | None:
    key, title, order, weight, run, revision, turn, cut, content, at, head, length, digest = row
    text = rest[max(at, 0) : max(at, 0) + max(length, 0)]
    if not _KEY.fullmatch(key) or _digest(text) != digest:
        return None
    return Section(
        key=key,
        title=title,
        headline=text[:head],
        details=text[head + 2 :],
        order=order,
        weight=weight,
        run=run,
        revision=revision,
        turn=turn,
        cut=cut,
        content=content,
    )


def _lead(section: Section, revision: str, *, alone: bool, first: bool) -> str:
    if alone:
        return ""
    title = f"### {markdown.prose(section.title)}"
    if section.revision != revision:
        title += f" (an earlier commit, {markdown.code(section.revision[:7] or 'unknown')})"
    return f"{'' if first else _RULE}{title}\n\n"


def _note(cut: Sequence[Section], *, where: str, left_out: int) -> str:
    said = []
    if cut:
        names = [markdown.code(each.title) for each in cut[:_NAMED_IN_NOTE]]
        more = f" and {len(cut) - len(names)} more" if len(cut) > len(names) else ""
        said.append(f"No room here for all that {', '.join(names)}{more} had to say: it is in {where}.")
    if left_out:
        said.append(f"{words.counted(left_out, 'older section')} left out.")
    return f"{_RULE}{markdown.alert('NOTE', ' '.join(said))}" if said else ""


def _sealed(section: Section) -> Section:
    """The section as it is written: cleaned, and with the digest of its content."""
    title = plain.label(section.title, _LONGEST_TITLE)
    clean = replace(section, title=title, headline=_clean(section.headline), details=_clean(section.details))
    told = (clean.title, clean.headline, clean.details, clean.order, clean.weight, clean.revision)
    return replace(clean, content=_digest(json.dumps(told)))


def _without_details(section: Section) -> Section:
    return replace(section, details="", cut=section.cut or bool(section.details))


def _without_text(section: Section) -> Section:
    return replace(section, headline="", details="", cut=True)


def _newest(sections: Sequence[Section]) -> Sequence[Section]:
    return merge(sorted(sections, key=lambda each: (each.run, each.weight), reverse=True)[:MOST_SECTIONS])


def _age(section: Section) -> tuple[int, int, bool]:
    return section.run, section.turn, not section.cut


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _clean(text: str) -> str:
    return _unix(text).replace("\x00", "").encode("utf-8", "replace").decode().strip()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
