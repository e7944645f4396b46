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


def test_every_sentence_has_its_macro_and_the_facts_fit() -> None:
    macros = phrases._macros()
    wrong = []
    for module in MODULES:
        for call in (*calls(module, "Sentence"), *calls(module, "not_evaluated")):
            first = 1 if isinstance(call.func, ast.Name) and call.func.id == "not_evaluated" else 0
            name, facts = call.args[first], call.args[first + 1 :]
            if isinstance(name, ast.Constant):
                macro = getattr(macros, str(name.value), None)
                is_open = any(isinstance(fact, ast.Starred) for fact in facts)
                if macro is None or not (is_open or len(facts) == len(macro.arguments)):
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
