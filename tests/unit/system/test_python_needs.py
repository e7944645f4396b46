"""What an agent's folder says that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate.system import python_needs
from evalgate.system.python_needs import NeedKind

PROJECT = '[project]\nname = "p"\nversion = "0"\n'
WORKSPACE = PROJECT + '[tool.uv.workspace]\nmembers = ["agents/*"]\n'


@pytest.mark.parametrize(
    ("files", "kind", "chosen"),
    [
        # nothing anywhere
        ({}, None, ""),
        # the nearest folder wins over a stronger kind further up
        (
            {"agents/a/requirements.txt": "x", "uv.lock": "", "pyproject.toml": PROJECT},
            NeedKind.REQUIREMENTS,
            "agents/a",
        ),
        # in one folder a lock goes before the project, the project before requirements
        ({"uv.lock": "", "pyproject.toml": PROJECT, "requirements.txt": "x"}, NeedKind.LOCK, ""),
        ({"pyproject.toml": PROJECT, "requirements.txt": "x"}, NeedKind.PROJECT, ""),
        # a pyproject.toml without [project] holds settings of tools
        ({"agents/a/pyproject.toml": "[tool.ruff]", "agents/requirements.txt": "x"}, NeedKind.REQUIREMENTS, "agents"),
        # a lock without a project is nobody's
        ({"uv.lock": "", "requirements.txt": "x"}, NeedKind.REQUIREMENTS, ""),
        # a member of a workspace follows the workspace's lock
        ({"agents/a/pyproject.toml": PROJECT, "uv.lock": "", "pyproject.toml": WORKSPACE}, NeedKind.LOCK, "agents/a"),
        # but a project below another project that is no workspace does not
        ({"agents/a/pyproject.toml": PROJECT, "uv.lock": "", "pyproject.toml": PROJECT}, NeedKind.PROJECT, "agents/a"),
        # a broken pyproject.toml is the installer's to explain
        ({"agents/a/pyproject.toml": "[[["}, NeedKind.PROJECT, "agents/a"),
    ],
)
def test_which_file_is_followed(tmp_path: Path, files: dict[str, str], kind: NeedKind | None, chosen: str) -> None:
    agent = tmp_path / "agents" / "a"
    agent.mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = python_needs.nearest_needs(str(agent), str(tmp_path))
    assert (found.kind if found else None) == kind
    if found is not None:
        assert Path(found.folder) == tmp_path / chosen


def test_files_above_the_checkout_are_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("x")
    (tmp_path / "checkout").mkdir()
    assert python_needs.nearest_needs(str(tmp_path / "checkout"), str(tmp_path / "checkout")) is None


@pytest.mark.parametrize(
    ("line", "depends_on_the_place"),
    [
        ("google-adk==2.13.0", False),
        ("-e .", True),
        ("./lib", True),
        ("../lib[extra]", True),
        ("mine @ file:///somewhere", True),
        ("--extra-index-url https://example.com/simple", False),
        ("tool @ https://example.com/tool.whl", False),
    ],
)
def test_local_packages_belong_to_one_checkout(tmp_path: Path, line: str, depends_on_the_place: bool) -> None:
    texts = []
    for name in ("base", "head"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "requirements.txt").write_text(line)
        found = python_needs.nearest_needs(str(tmp_path / name), str(tmp_path / name))
        assert found is not None
        texts.append(found.text)
    assert (texts[0] != texts[1]) == depends_on_the_place


def test_included_files_count_even_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r b.txt\n")
    (tmp_path / "b.txt").write_text("--requirement=requirements.txt\n-c c.txt\n")
    (tmp_path / "c.txt").write_text("numpy<2\n")
    found = python_needs.nearest_needs(str(tmp_path), str(tmp_path))
    assert found is not None
    assert "numpy<2" in found.text


def test_named_requirements_are_files_or_specifiers(tmp_path: Path) -> None:
    (tmp_path / "dev.txt").write_text("a\n")
    found = python_needs.named_needs(["dev.txt", "google-adk>=2", "missing.txt"], str(tmp_path))
    assert [Path(file).name for file in found.files] == ["dev.txt", "missing.txt"]
    assert found.specifiers == ("google-adk>=2",)
    assert str(found) == "dev.txt, missing.txt, google-adk>=2"
