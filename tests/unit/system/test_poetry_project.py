"""Projects of Poetry in the words of other installers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from packaging.specifiers import SpecifierSet
from poetry.core.constraints.version import Version, parse_constraint

from evalgate.system import python_needs
from evalgate.system.python_needs import PoetryFailed as NotReadable

HEAD = "[tool.poetry]\npackage-mode = false\n[tool.poetry.dependencies]\npython = '^3.10'\n"


@pytest.mark.parametrize(
    ("dependency", "expected"),
    [
        ("a = '^1.2.3'", ["a (>=1.2.3,<2.0.0)"]),
        ("a = '^0.2'", ["a (>=0.2,<0.3)"]),
        ("a = '~1.2'", ["a (>=1.2,<1.3)"]),
        ("a = '1.*'", ["a (==1.*)"]),
        ("a = '*'", ["a"]),
        ("a = '1.2'", ["a (==1.2)"]),
        ("a = '>=1,!=1.5,<2'", ["a (>=1,!=1.5,<2)"]),
        ("google-adk = {version = '^1', extras = ['eval']}", ["google-adk[eval] (>=1,<2)"]),
        # where it comes from
        (
            "a = {git = 'https://example.com/a.git', rev = 'abc'}",
            ["a @ git+https://example.com/a.git@abc"],
        ),
        ("a = {url = 'https://example.com/a-1.zip'}", ["a @ https://example.com/a-1.zip"]),
        ("a = {path = 'lib', develop = true}", ["a @ file://FOLDER/lib"]),
        # when it applies
        (
            "a = {version = '1', markers = \"sys_platform == 'linux'\"}",
            ['a (==1) ; sys_platform == "linux"'],
        ),
        ("a = {version = '1', python = '<3.11'}", ['a (==1) ; python_version < "3.11"']),
        (
            "a = [{version = '1', python = '<3.11'}, {version = '2', python = '>=3.11'}]",
            ['a (==1) ; python_version < "3.11"', 'a (==2) ; python_version >= "3.11"'],
        ),
        # an optional one belongs to an extra, and a group to those who ask for it
        ("a = {version = '1', optional = true}", []),
        ("a = {version = '1', optional = true}\n[tool.poetry.extras]\neval = ['a']", ["a (==1)"]),
        ("a = {version = '1', optional = true}\n[tool.poetry.extras]\nui = ['a']", []),
        (
            "[tool.poetry.group.dev.dependencies]\nb = '1'\n[tool.poetry.group.docs.dependencies]\nc = '1'",
            ["b (==1)"],
        ),
        ("[tool.poetry.dev-dependencies]\nb = '1'", ["b (==1)"]),
        # the newer form
        ("[project]\nname = 'p'\nversion = '1'\ndependencies = ['a>=1']", ["a (>=1)"]),
    ],
)
def test_dependencies(tmp_path: Path, dependency: str, expected: list[str]) -> None:
    (tmp_path / "pyproject.toml").write_text(f"{HEAD}{dependency}\n")
    found = python_needs.poetry_requirements(
        tmp_path, extras=["eval"], groups=["dev", "no-such-group"]
    )
    assert [line.replace(str(tmp_path), "FOLDER") for line in found] == expected


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}a = 'not a version'",
        f"{HEAD}a = 3",
        f"{HEAD}a = {{git = 3}}",
        "[tool.poetry]\n[tool.poetry.dependencies]\na = '1'",  # a package without a name
        "[[[",
    ],
)
def test_what_poetry_does_not_take_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(NotReadable) as caught:
        python_needs.poetry_requirements(tmp_path)
    assert str(caught.value)


versions = st.builds("3.{}".format, st.integers(6, 15))
parts = st.builds("{}{}".format, st.sampled_from(["^", "~", ">=", "<", ">=3.6,<", "<="]), versions)
constraints = st.lists(parts, min_size=1, max_size=2, unique=True).map(" || ".join) | st.just("*")


@given(constraints, st.integers(6, 15), st.integers(0, 3))
def test_a_specifier_means_what_the_constraint_means(
    constraint: str, minor: int, patch: int
) -> None:
    """Where parts are joined by "or", only minor versions are kept apart: that is how Poetry itself
    writes them."""
    version = f"3.{minor}.{0 if '|' in constraint else patch}"
    specifier = python_needs.poetry_specifier(constraint)
    assert SpecifierSet(specifier).contains(version) or not parse_constraint(constraint).allows(
        Version.parse(version)
    )
    if "|" not in constraint:
        assert SpecifierSet(specifier).contains(version) == parse_constraint(constraint).allows(
            Version.parse(version)
        )


def test_locked_versions(tmp_path: Path) -> None:
    (tmp_path / "poetry.lock").write_text(
        """
        package = [
          {name = "one", version = "1.0", markers = "extra == 'eval'"},
          {name = "two", version = "1.0", markers = "python_version < '3.11'"},
          {name = "two", version = "2.0", markers = "python_version >= '3.11'"},
          {name = "three", version = "1.0"},
          {name = "three", version = "2.0", markers = {main = "python_version < '3.11'"}},
          {name = "beside", version = "1.0", source = {type = "directory", url = "beside"}},
          {name = "ours", version = "1.0", source = {type = "legacy", url = "https://example.com"}},
        ]
        """
    )
    assert [*python_needs.poetry_pins(tmp_path)] == [
        "one==1.0",
        "two==1.0 ; python_version < '3.11'",
        "two==2.0 ; python_version >= '3.11'",
        "ours==1.0",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[[[",
        "package = 3",
        "[[package]]\nversion = '1'",
        "[[package]]\nname = 'a'\nversion = '1'\nsource = 'x'",
        "<<<<<<< HEAD",
    ],
)
def test_a_lock_that_says_nothing_of_use_is_an_error_and_never_no_lock(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "poetry.lock").write_text(text)
    with pytest.raises(python_needs.PoetryFailed, match=r"^poetry\.lock: "):
        list(python_needs.poetry_pins(tmp_path))
    (tmp_path / "poetry.lock").unlink()
    assert list(python_needs.poetry_pins(tmp_path)) == []
