"""Rooms return sentences as values; only reports and commands make their text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import evalgate
from evalgate.reports import phrases

ROOT = Path(evalgate.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
VALUES = ("comparison", "criteria", "gate", "judges", "runner")
"""Rooms whose results are shown only after they are done: what they return is a value."""
WRITERS = ("cli", "reports")


def calls(module: Path, name: str) -> Iterator[ast.Call]:
    source = module.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)) if f"{name}(" in source else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def fact_count(name: str) -> int | None:
    """How many facts a sentence takes: a table of words its kind, a text none."""
    sentence = getattr(phrases._TEMPLATE.macros, name, None)
    match sentence:
        case None:
            return None
        case str():
            return 0
        case dict():
            return 1
        case _:
            return len(sentence.arguments)


def test_every_sentence_has_its_words_and_the_facts_fit() -> None:
    wrong = []
    for module in MODULES:
        for call in (*calls(module, "Sentence"), *calls(module, "not_evaluated")):
            first = 1 if isinstance(call.func, ast.Name) and call.func.id == "not_evaluated" else 0
            name, facts = call.args[first], call.args[first + 1 :]
            if isinstance(name, ast.Constant):
                count = fact_count(str(name.value))
                is_open = any(isinstance(fact, ast.Starred) for fact in facts)
                if count is None or not (is_open or len(facts) == count):
                    wrong.append((module.relative_to(ROOT).as_posix(), name.value))
    assert wrong == []


@pytest.mark.parametrize("room", VALUES)
def test_rooms_return_values(room: str) -> None:
    for module in (ROOT / room).rglob("*.py"):
        texts = [
            call.lineno
            for call in calls(module, "str")
            if any(
                isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Sentence"
                for node in ast.walk(call)
            )
        ]
        assert texts == [], module


def test_only_reports_and_commands_make_text() -> None:
    importers = {
        module.relative_to(ROOT).parts[0]
        for module in MODULES
        if re.search(r"(reports|from )\.phrases", module.read_text(encoding="utf-8"))
    }
    assert importers == {*WRITERS, "values.py"}
