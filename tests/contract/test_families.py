"""Members of a family never import each other: what they share stands in a module that is named for
what it is."""

import functools
import itertools
from collections.abc import Iterable

import grimp
import pytest
from builders import judging

from evalgate import agents, criteria, judges, reports


def modules(parts: Iterable[object]) -> set[str]:
    """Where functions and classes of the core are made; that wings do not know each other,
    import-linter holds."""
    names = {str(getattr(part, "func", part).__module__) for part in parts}
    return {name for name in names if not name.startswith("evalgate.wings.")}


FAMILIES = {
    "agents": modules(type(driver) for driver in agents.DRIVERS.values()),
    "criteria": modules(
        judging.rule_of(spec.build) for spec in (*criteria.CRITERIA.values(), criteria.CUSTOM)
    ),
    "judges": modules(driver.open for driver in judges.JUDGES.values()),
    "reports": modules(row.render for row in reports.RENDERERS.values())
    | {"evalgate.reports.annotations", "evalgate.reports.terminal"},
}


@functools.cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("evalgate", exclude_type_checking_imports=True, cache_dir=None)


@pytest.mark.parametrize("family", FAMILIES)
def test_members_never_import_each_other(family: str) -> None:
    """Neither do they through others."""
    members = sorted(FAMILIES[family])
    assert len(members) > 2
    pairs = itertools.permutations(members, 2)
    assert [
        pair for pair in pairs if graph().chain_exists(importer=pair[0], imported=pair[1])
    ] == []
