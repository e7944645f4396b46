"""What a base borrows of head: a Python that git does not keep, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalgate.agents import opening
from evalgate.model import AgentUse


@pytest.mark.parametrize(
    ("driver", "options", "there", "here", "borrowed"),
    [
        (
            "python",
            {"call": "a:b", "python": ".venv/bin/python"},
            [],
            [".venv/bin/python"],
            (".venv/bin/python",),
        ),
        ("python", {"call": "a:b"}, [], [".venv/bin/python"], (".venv/bin/python",)),
        # the nearest
        ("adk", {"path": "x"}, ["x/agent.py"], ["x/.venv/bin/python"], ("x/.venv/bin/python",)),
        # the base says itself what to install, and so it is
        ("adk", {"path": "x"}, ["x/requirements.txt"], [".venv/bin/python"], ()),
        ("adk", {"path": "x", "requirements": ["google-adk"]}, [], [".venv/bin/python"], ()),
        # a command on PATH
        ("adk", {"path": "x", "python": "python3.12"}, [], [".venv/bin/python"], ()),
        ("adk", {"path": "x", "python": "py"}, ["py"], ["py"], ()),  # the base has one
        ("command", {"command": ["x"]}, [], [".venv/bin/python"], ()),
        ("adk", {"path": "x"}, [], [], ()),
        # nowhere in the checkout: as head runs it
        ("adk", {"path": "../out"}, [], [".venv/bin/python"], (".venv/bin/python",)),
        # where the called module lies, as for its run
        ("python", {"call": "x.a:b"}, ["x/requirements.txt"], [".venv/bin/python"], ()),
        ("python", {"call": "x.a:b"}, ["x/a.py"], ["x/.venv/bin/python"], ("x/.venv/bin/python",)),
        (
            "python",
            {"call": "x.a:b", "path": "y"},
            ["x/requirements.txt", "y/z"],
            ["y/.venv/bin/python"],
            ("y/.venv/bin/python",),
        ),
    ],
)
def test_what_is_borrowed(
    tmp_path: Path,
    driver: str,
    options: dict[str, Any],
    there: list[str],
    here: list[str],
    borrowed: tuple[str, ...],
) -> None:
    for root, names in (("base", there), ("head", here)):
        (tmp_path / root).mkdir()
        for name in names:
            (tmp_path / root / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / root / name).write_text("shelf==1")
    use = AgentUse(driver=driver, options=options)
    base, head = tmp_path / "base", tmp_path / "head"
    lent = tuple((name, True) for name in borrowed)
    assert opening.missing_pythons([use], root=base, lender=head, environ={}) == lent
    assert opening.missing_pythons([use], root=head, lender=head, environ={}) == ()
