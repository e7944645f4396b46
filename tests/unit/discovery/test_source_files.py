"""Which files count as an agent's: what git would keep, without what evaluates it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate.discovery import agents


def made(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("*.log\nout/\n" if path.name == ".gitignore" else name)
    return root


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("agent.py", True),
        ("shared/prompt.md", True),  # prompts are often written so
        ("uv.lock", True),  # what is installed is a part of it
        ("requirements.txt", True),
        ("README.md", True),  # an agent may read whatever is committed
        ("docs/LICENSE", True),
        (".github/prompts/x.md", True),
        (".prompts/x.md", True),
        (".git/HEAD", False),
        (".env", False),  # of secrets not even a digest is kept
        (".env.local", False),
        (".evalgate/runs/x/about.json", False),  # ours
        ("desk.evalset.json", False),
        ("tests/test_config.json", False),
        ("evalgate.yml", False),
        ("trace.log", False),  # git ignores it
        ("out/page.html", False),
        (".venv/pyvenv.cfg", False),
        ("env/pyvenv.cfg", False),
        ("node_modules/x/index.js", False),
        ("web/__pycache__/x.pyc", False),
    ],
)
def test_what_counts(tmp_path: Path, name: str, counts: bool) -> None:
    made(tmp_path, ".gitignore", "other.py", name)
    found = list(agents.code_files(tmp_path))
    assert (name in found) is counts
    assert "other.py" in found
    assert len(found) == len(set(found))


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    made(tmp_path / "elsewhere", "secret.py")
    root = made(tmp_path / "root", "agent.py")
    (root / "loop").symlink_to(root)
    (root / "out").symlink_to(tmp_path / "elsewhere")
    assert sorted(agents.code_files(root)) == ["agent.py", "loop", "out"]
