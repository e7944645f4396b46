"""evalgate-quarantine.yml: what an entry is, what is wrong with one, how one is added."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.config import quarantine
from evalgate.model import Quarantine

TODAY = dt.date(2026, 1, 10)
ENTRY = '- file: a.json\n  case: x\n  owner: "@maria"\n  expires: 2026-02-01\n'


@pytest.mark.parametrize(
    ("text", "entries", "said"),
    [
        ("", 0, ""),
        ("# nothing yet\n", 0, ""),
        (ENTRY, 1, ""),
        (ENTRY.replace("2026-02-01", '"2026-02-01"'), 1, ""),
        (ENTRY + ENTRY.replace(": x", ": y"), 2, ""),
        (ENTRY + ENTRY, 1, "`a.json:x` is listed twice (first on line 1)"),
        (ENTRY.replace("2026-02-01", "2026-02-31"), 0, "not valid YAML"),
        (ENTRY.replace("2026-02-01", "20260201"), 0, "`expires`: must be a date like 2026-02-01"),
        (ENTRY.replace("2026-02-01", "2026-02-01 10:00:00"), 0, "`expires`: must be a date like 2026-02-01"),
        (ENTRY.replace('"@maria"', "@maria"), 0, "not valid YAML"),
        (ENTRY.replace('"@maria"', '" "'), 0, "`owner`"),
        (ENTRY.replace(": x", ": 12"), 0, "`case`"),  # YAML's numbers are none of a case's names
        (ENTRY + "  until: never\n", 0, "`until`: unknown key"),
        ("cases:\n" + ENTRY, 0, "must be a list of entries"),
        ("- a.json:x\n", 0, "`entry`"),
        (ENTRY + "- file: b.json\n", 1, "`case`"),  # what is wrong with one takes no other away
        ("[" * 500, 0, "nested too deeply"),
    ],
)
def test_what_is_an_entry(text: str, entries: int, said: str) -> None:
    reading = quarantine.parse(text)
    assert len(reading.entries) == entries
    assert any(said in problem.message for problem in reading.problems) is bool(said)
    assert all(problem.place is not None and problem.place.file == quarantine.NAME for problem in reading.problems)


@pytest.mark.parametrize(
    ("expires", "counts", "code"),
    [
        ("2026-01-09", False, quarantine.EXPIRED),
        ("2026-01-10", True, quarantine.EXPIRES),  # the last day counts
        ("2026-01-17", True, quarantine.EXPIRES),
        ("2026-01-18", True, ""),
        ("2026-04-10", True, ""),
        ("2026-04-11", False, quarantine.TOO_LONG),
    ],
)
def test_how_long_an_entry_counts(expires: str, *, counts: bool, code: str) -> None:
    (entry,) = quarantine.parse(ENTRY.replace("2026-02-01", expires)).entries
    assert entry.counts(TODAY) is counts
    assert [problem.code for problem in quarantine.dated([entry], TODAY)] == [code] * bool(code)


NAMES = st.text(min_size=1, max_size=20).filter(lambda text: text.strip() and not set(text) & {"\0"})
PLAIN = st.sampled_from(["a", "yes", "null", "1e3", "- b", "2026-01-01", "c: d", "#", "'", "@maria", "\N{SNOWMAN}"])


@given(PLAIN | NAMES, PLAIN | NAMES, PLAIN | NAMES)
def test_what_is_added_is_read_again(file: str, case: str, owner: str) -> None:
    given = Quarantine(owner=owner.strip(), expires="2026-02-01", reason=case)
    for text in ("", ENTRY, ENTRY.rstrip("\n")):
        made = quarantine.with_entry(text, (file, case), given)
        reading = quarantine.parse(made)
        assert reading.by_case()[file, case].quarantine == given, reading.problems
        assert made.startswith(text or quarantine.HEAD)


def test_a_link_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside.yml").write_text(ENTRY)
    root = tmp_path / "root"
    root.mkdir()
    assert quarantine.read(root) == quarantine.Reading()
    (root / quarantine.NAME).symlink_to(tmp_path / "outside.yml")
    reading = quarantine.read(root)
    assert (reading.entries, [problem.code for problem in reading.problems]) == ((), [quarantine.UNREAD])
