"""The section `quarantine` of evalgate.yml: what an entry is, what is wrong with one, and how long
it counts."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from evalgate.baseline import exemptions
from evalgate.baseline.rules import Rules
from evalgate.config import load
from evalgate.config.settings import Settings
from evalgate.model import (
    AgentUse,
    Case,
    ConfigOrigin,
    CriteriaSource,
    EvalSet,
    Policy,
    RuleBook,
    Suite,
)

TODAY = dt.date(2026, 1, 10)
ENTRY = '- case: a.json:x\n  owner: "@maria"\n  until: 2026-02-01\n'


def read(folder: Path, text: str) -> Settings:
    (folder / "evalgate.yml").write_text(f"quarantine:\n{text}")
    return load.load_settings({"root": str(folder)})


@pytest.mark.parametrize(
    ("text", "entries", "said"),
    [
        (ENTRY, 1, ""),
        (ENTRY.replace("2026-02-01", '"2026-02-01"'), 1, ""),
        (ENTRY + ENTRY.replace(":x", ":y"), 2, ""),
        (ENTRY + ENTRY, 0, "`a.json:x` is listed twice"),
        (ENTRY.replace("2026-02-01", "20260201"), 0, "must be a date like 2026-02-01"),
        (ENTRY.replace("2026-02-01", "2026-02-01 10:00:00"), 0, "must be a date like 2026-02-01"),
        (ENTRY.replace("a.json:x", "x"), 0, "`quarantine.0.case`"),  # of which file?
        (ENTRY.replace("a.json:x", "12"), 0, "`quarantine.0.case`"),
        (ENTRY.replace('"@maria"', '" "'), 0, "`quarantine.0.owner`"),
        (ENTRY + "  expires: never\n", 0, "`quarantine.0.expires`: unknown key"),
        ("- a.json:x\n", 0, "`quarantine.0`"),
    ],
)
def test_what_is_an_entry(tmp_path: Path, text: str, entries: int, said: str) -> None:
    settings = read(tmp_path, text)
    assert len(settings.gate_file.quarantine) == entries
    assert any(said in problem.message for problem in settings.problems) is bool(said), (
        settings.problems
    )
    assert all(problem.place is not None and problem.place.line for problem in settings.problems)


SUITE = Suite(
    key="a.json",
    eval_set=EvalSet(
        eval_set_id="a", cases=tuple(Case(case_id=name, conversation=()) for name in "xy")
    ),
    criteria=(),
    criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS),
    agent=AgentUse(driver="command", options={}),
)


@pytest.mark.parametrize(
    ("until", "counts", "code"),
    [
        ("2026-01-09", False, exemptions.EXPIRED),
        ("2026-01-10", True, exemptions.EXPIRES),  # the last day counts
        ("2026-01-17", True, exemptions.EXPIRES),
        ("2026-01-18", True, ""),
        ("2026-04-10", True, ""),
        ("2026-04-11", False, exemptions.TOO_LONG),
    ],
)
def test_how_long_an_entry_counts(tmp_path: Path, until: str, *, counts: bool, code: str) -> None:
    settings = read(tmp_path, ENTRY.replace("2026-02-01", until))
    book = RuleBook(policy=Policy())
    (dated,) = Rules(settings=settings, suites=(SUITE,), books=(book,)).books_on(TODAY)
    found = dated.policy.exemptions
    assert set(found) == ({("a.json", "x")} if counts else set())
    problems = list(exemptions.lint(settings, (SUITE,), TODAY))
    assert [problem.code for problem in problems] == [code] * bool(code)
    assert all(problem.place is not None and problem.place.line == 2 for problem in problems)


@pytest.mark.parametrize(
    ("case", "paths", "hint"),
    [
        ("a.json:x", (), None),
        ("a.json:xx", (), "Did you mean `a.json:x`?"),
        ("evals/loans.evalset.json:renewal", (), ""),
        ("evals/b.json:x", ("a.json",), None),  # other files were not looked at
    ],
)
def test_an_entry_of_no_case(
    tmp_path: Path, case: str, paths: tuple[str, ...], hint: str | None
) -> None:
    settings = read(tmp_path, ENTRY.replace("a.json:x", case)).model_copy(update={"paths": paths})
    problems = list(exemptions.lint(settings, (SUITE,), TODAY))
    assert [problem.code for problem in problems] == ["quarantine-unknown-case"] * (
        hint is not None
    )
    assert all((problem.hint, problem.place.line) == (hint, 2) for problem in problems)
