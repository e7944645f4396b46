"""Members of a family never import each other: what they share stands in a module that is named for what it is."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from evalgate import agents, criteria, judges, reports

ROOT = Path(__file__).parents[2]


def modules(parts: Iterable[object]) -> set[str]:
    """Where functions and instances are made."""
    made = {str(getattr(getattr(part, "func", part), "__module__", "")) for part in parts}
    return {name for name in made if name.startswith("evalgate.")}


FAMILIES = {
    "agents": modules(type(driver) for driver in agents.DRIVERS.values()),
    "criteria": modules(spec.build for spec in (*criteria.CRITERIA.values(), criteria.CUSTOM)),
    "judges": modules(driver.open for driver in judges.JUDGES.values()),
    "reports": modules(row.render for row in reports.RENDERERS.values()),
}


def imported(module: str) -> Iterator[str]:
    """The modules that a module names in its imports."""
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


@pytest.mark.parametrize("family", FAMILIES)
def test_members_never_import_each_other(family: str) -> None:
    members = FAMILIES[family]
    assert len(members) > 3
    assert [(name, other) for name in sorted(members) for other in imported(name) if other in members - {name}] == []
