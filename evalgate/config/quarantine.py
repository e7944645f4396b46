"""evalgate-quarantine.yml: cases with mixed results that do not block for a while, each with an owner and an end."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from evalgate import errors
from evalgate.config import places, yaml
from evalgate.config.yaml import Locator
from evalgate.errors import Place, Problem
from evalgate.model import CaseKey, Quarantine
from evalgate.text import plain, words

NAME: Final = "evalgate-quarantine.yml"
"""At the top of `root`: so that a change cannot say that it lies elsewhere."""
DAYS, MOST_DAYS, NOTICE_DAYS = 30, 90, 7
"""Of an entry: how long it lasts unless somebody says otherwise, at most, and from when on its end is told."""
HEAD: Final = """\
# Cases that do not block for a while (docs/quarantine.md). Pull requests go by the base branch's copy.
"""
SHAPE, UNREAD = "quarantine-shape", "quarantine-unread"
EXPIRED, EXPIRES, TOO_LONG = "quarantine-expired", "quarantine-expires", "quarantine-too-long"
FORM: Final = "An entry has `file`, `case`, `owner`, `expires` (2026-02-01) and, if you like, `reason`."
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_PLAIN = re.compile(r"[A-Za-z][\w./-]*")


class _Entry(BaseModel):
    """One entry as it is written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str = Field(min_length=1)
    case: str = Field(min_length=1)
    owner: str = Field(min_length=1, max_length=100, pattern=r"\S")
    expires: dt.date
    reason: str = Field(default="", max_length=500)

    @field_validator("expires", mode="before")
    @classmethod
    def _is_date(cls, value: Any) -> Any:
        if type(value) is dt.date or (isinstance(value, str) and _DATE.fullmatch(value)):
            return value
        raise ValueError("must be a date like 2026-02-01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One quarantined case: by its evaluation file and its id; `place`: its line."""

    key: CaseKey
    quarantine: Quarantine
    place: Place

    @property
    def name(self) -> str:
        """`evals/loans.evalset.json:renewal`."""
        return ":".join(self.key)

    def days_left(self, today: dt.date) -> int:
        """How many days after `today` it still counts; negative once it has expired."""
        return (dt.date.fromisoformat(self.quarantine.expires) - today).days

    def counts(self, today: dt.date) -> bool:
        """Whether it has not expired, and lasts no longer than an entry may."""
        return 0 <= self.days_left(today) <= MOST_DAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The entries of a file, and what is wrong with others: those do not count."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()

    def by_case(self) -> Mapping[CaseKey, Entry]:
        """The entries by evaluation file and case id."""
        return {entry.key: entry for entry in self.entries}


def read(root: Path) -> Reading:
    """The file at the top of a checkout; an empty reading where there is none."""
    path = root / NAME
    why = places.why_not(root, NAME, trusted=True)
    try:
        if not why and not path.is_file():
            return Reading()
        text = why or plain.decode(path.read_bytes(), file=NAME)
    except OSError as error:
        text = errors.error(UNREAD, f"cannot be read: {error.strerror}", Place(file=NAME))
    if why:
        text = errors.error(UNREAD, f"{NAME} {why}", Place(file=NAME))
    return Reading(problems=(text,)) if isinstance(text, Problem) else parse(text.removeprefix("\ufeff"))


def parse(text: str) -> Reading:
    """The entries of a text; what is wrong with one takes none of the others away."""
    document = yaml.load(text, file=NAME)
    if isinstance(document, Problem):
        return Reading(problems=(document,))
    if document.raw is None:
        return Reading()
    if not isinstance(document.raw, list):
        return Reading(problems=(errors.error(SHAPE, "must be a list of entries", Place(file=NAME, line=1), FORM),))
    locate = Locator(document.node, NAME)
    found: dict[CaseKey, Entry] = {}
    problems = [*document.warnings]
    for number, raw in enumerate(document.raw):
        try:
            why = yaml.unusable(raw)
            if why:
                problems.append(errors.error(SHAPE, f"an entry {why}", locate(number), FORM))
                continue
            read = _Entry.model_validate(raw)
        except ValidationError as error:
            problems += [
                errors.error(SHAPE, f"`{each['loc'][0] if each['loc'] else 'entry'}`: {words.fault(each)}", at, FORM)
                for each in error.errors()
                for at in (locate(number, *each["loc"]),)
            ]
            continue
        quarantine = Quarantine(owner=read.owner.strip(), expires=read.expires.isoformat(), reason=read.reason)
        entry = Entry(key=(read.file, read.case), quarantine=quarantine, place=locate(number))
        if entry.key in found:
            first = found[entry.key].place.line
            message = f"`{entry.name}` is listed twice (first on line {first})"
            problems.append(errors.error(SHAPE, message, entry.place, "Delete one."))
        found.setdefault(entry.key, entry)
    return Reading(entries=tuple(found.values()), problems=tuple(problems))


def dated(entries: Iterable[Entry], today: dt.date) -> Iterator[Problem]:
    """What the date says of entries: which have expired, which will soon, and which last longer than they may."""
    for entry in entries:
        left, owner = entry.days_left(today), entry.quarantine.owner
        until = f"the quarantine of `{entry.name}` ({owner})"
        hint = f"Fix the case, delete the entry from {NAME}, or renew it in a pull request."
        if left < 0:
            message = f"{until} expired on {entry.quarantine.expires}: the case can block again"
            yield errors.warning(EXPIRED, message, entry.place, hint)
        elif left > MOST_DAYS:
            message = f"{until} lasts until {entry.quarantine.expires}, more than {MOST_DAYS} days: it does not count"
            yield errors.warning(TOO_LONG, message, entry.place, "Choose an earlier date; it can be renewed.")
        elif left <= NOTICE_DAYS:
            days = "today" if not left else f"in {words.counted(left, 'day')}"
            message = f"{until} expires {days}, at the end of {entry.quarantine.expires} (UTC)"
            yield errors.warning(EXPIRES, message, entry.place, hint)


def with_entry(text: str, key: CaseKey, quarantine: Quarantine) -> str:
    """The text of the file with one entry more, all else as it is written. What stands there may not go with it: who
    writes it reads it again."""
    lines = [f"- file: {_scalar(key[0])}", f"  case: {_scalar(key[1])}", f"  owner: {_scalar(quarantine.owner)}"]
    lines += [f"  expires: {quarantine.expires}"]
    lines += [f"  reason: {_scalar(quarantine.reason)}"] if quarantine.reason else []
    before = text or HEAD
    return "\n".join((before.removesuffix("\n"), *lines, ""))


def _scalar(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and _is_text(text) else yaml.quoted(text)


def _is_text(text: str) -> bool:
    """Whether YAML reads it as the very text: `yes` and `null` are others."""
    read = yaml.load(text, file="")
    return not isinstance(read, Problem) and read.raw == text
