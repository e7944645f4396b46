"""Which files modules are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate.wiring import imported


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import pkg.a", {"pkg/a.py"}),
        ("import pkg.a as b, one", {"pkg/a.py", "one.py"}),
        ("from pkg import a", {"pkg/a.py"}),
        ("from pkg.a import score", {"pkg/a.py"}),
        ("def f():\n  if x:\n    import one", {"one.py"}),
        ("try:\n  import fast\nexcept ImportError:\n  import one", {"one.py"}),
        ("import importlib\nimportlib.import_module('pkg.a')", {"pkg/a.py"}),
        ("__import__('one')", {"one.py"}),
        ("from . import one", {"one.py"}),
        ("from .pkg import a", {"pkg/a.py"}),
        ("from .pkg import *", set()),
        ("from .. import one", set()),  # out of the checkout
        ("import agent.one", {"one.py"}),
        ("import json, collections.abc", set()),
        ("import first", {"first.py", "second.py"}),  # which import each other
        ("this is no Python", set()),
        # by names that no file has, or that lead elsewhere
        (
            "__import__('/etc/x'); __import__('../x'); __import__('a' * 300); __import__('\\ud800'); __import__('')",
            set(),
        ),
        (f"__import__({'a.' * 5000 + 'b'!r}); from {'.' * 3000} import x", set()),
    ],
)
def test_imports_are_followed(tmp_path: Path, source: str, found: set[str]) -> None:
    cycle = {"first": "import second", "second": "import first"}
    root = written(tmp_path, {"metric": source, "one": "", "pkg/a": "", **cycle})
    assert imported.files(root, ["metric"], places=["."], home=".") == {"metric.py", *found}


def test_relative_imports_and_packages(tmp_path: Path) -> None:
    files = {
        "a/__init__": "from . import started",
        "a/started": "",
        "a/b/__init__": "",
        "a/b/metric": "from ..c import d\nfrom . import e",
        "a/c/d": "",
        "a/b/e": "",
    }
    root = written(tmp_path, {**files, "a/unused": ""})
    every = imported.files(root, ["a.b.metric"], places=["."])
    assert every == {f"{name}.py" for name in files}
    of_the_agent = imported.files(root, ["a.b.metric"], places=["."], home="a")
    assert every - of_the_agent == {"a/started.py"}  # which its package imports, and no metric


def test_each_place_counts(tmp_path: Path) -> None:
    root = written(tmp_path, {"m": "import x", "src/x": "", "agents/desk/x": "", "elsewhere/x": ""})
    found = imported.files(root, ["m"], places=[".", "src"], home="agents/desk")
    assert found == {"m.py", "src/x.py", "agents/desk/x.py"}


@pytest.mark.parametrize(
    ("module", "found"),
    [
        ("agent", {"agents/desk/__init__.py"}),
        ("agent.agent", {"agents/desk/__init__.py", "agents/desk/agent.py"}),
        ("agents.desk.agent", {"agents/desk/__init__.py", "agents/desk/agent.py"}),
        ("desk.agent", {"agents/desk/__init__.py", "agents/desk/agent.py"}),
    ],
)
def test_the_agents_own_package(tmp_path: Path, module: str, found: set[str]) -> None:
    root = written(tmp_path, {"agents/desk/__init__": "from . import agent, tools", "agents/desk/agent": ""})
    assert imported.files(root, [module], places=[".", "agents"], home="agents/desk") == found


def test_an_agent_that_is_one_file(tmp_path: Path) -> None:
    root = written(tmp_path, {"agents/desk": "import one", "one": ""})
    assert imported.files(root, ["agent"], places=[".", "agents"], home="agents/desk.py") == {
        "agents/desk.py",
        "one.py",
    }


def test_there_is_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported, "MOST_FILES", 3)
    root = written(tmp_path, {f"m{number}": f"import m{number + 1}" for number in range(9)})
    assert imported.files(root, ["m0"], places=["."]) == {"m0.py", "m1.py", "m2.py"}
