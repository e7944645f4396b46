"""Where an agent's code lives, and under which names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from evalgate.worker import modules

TREE = [
    "plain/agent.py",
    "pkg/__init__.py",
    "pkg/agent.py",
    "outer/__init__.py",
    "outer/inner/__init__.py",
    "loose/inner/__init__.py",
    "email/__init__.py",
    "not-a-name/agent.py",
    "top-name/__init__.py",
    "top-name/pkg/__init__.py",
    "top-name/pkg/bot.py",
    "pluggy/__init__.py",
    "pluggy/agent.py",
    "single.py",
    "outer/single.py",
    "made_of_yaml/root_agent.yaml",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "name", "top", "aliases"),
    [
        # a package in a folder that is no identifier
        ("top-name/pkg/bot.py", "pkg.bot", "top-name", {"bot", "agent"}),
        # called like an installed package, which stays what it is
        ("pluggy", "agent", "", set()),
        # a folder with and without __init__.py
        ("pkg", "pkg", "", {"agent"}),
        ("plain", "plain", "", {"agent"}),
        ("./pkg/", "pkg", "", {"agent"}),
        # its files mean the folder
        ("pkg/agent.py", "pkg", "", {"agent"}),
        ("pkg/__init__.py", "pkg", "", {"agent"}),
        ("made_of_yaml/root_agent.yaml", "made_of_yaml", "", {"agent"}),
        # a package in a package is imported from the outermost one
        ("outer/inner", "outer.inner", "", {"inner", "agent"}),
        # a package in a folder is imported by its own name
        ("loose/inner", "inner", "loose", {"loose.inner", "agent"}),
        # a file
        ("single.py", "single", "", {"agent"}),
        ("outer/single.py", "outer.single", "", {"single", "agent"}),
        # names that Python's own modules have, or that are none
        ("email", "agent", "", set()),
        ("not-a-name", "agent", "", set()),
    ],
)
def test_names(root: Path, path: str, name: str, top: str, aliases: set[str]) -> None:
    home = modules.locate(path, str(root))
    assert home.name == name
    assert set(home.aliases) == aliases
    assert home.roots[0] == str(root)
    assert str(root / top) in home.roots


def test_the_root_itself_may_be_the_agent(root: Path) -> None:
    (root / "agent.py").write_text("")
    home = modules.locate(".", str(root))
    assert home.folder == str(root)


@pytest.mark.parametrize("path", ["nowhere", "outer.inner", "pkg/nowhere.py"])
def test_what_is_not_there_raises(root: Path, path: str) -> None:
    with pytest.raises(FileNotFoundError, match=path):
        modules.locate(path, str(root))


def test_roots_go_before_packages_and_behind_the_standard_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", ["/lib/python", "/lib/python/site-packages"])
    modules.add_folders(("/checkout", "/lib/python"))
    assert sys.path == ["/lib/python", "/checkout", "/lib/python/site-packages"]
