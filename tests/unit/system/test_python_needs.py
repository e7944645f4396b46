"""What an agent's folder says that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate.system import python_env, python_needs
from evalgate.system.python_needs import NeedKind

PROJECT = '[project]\nname = "p"\nversion = "0"\n'
POETRY = "[tool.poetry]\n[tool.poetry.dependencies]\npython = '^3.10'\n"
DECLARING = PROJECT + 'dependencies = ["y"]\n'
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
        (
            {"uv.lock": "", "pyproject.toml": DECLARING, "requirements.txt": "x"},
            NeedKind.LOCK,
            "",
        ),
        ({"pyproject.toml": PROJECT, "requirements.txt": "x"}, NeedKind.PROJECT, ""),
        # what declares nothing locks nothing
        ({"uv.lock": "", "pyproject.toml": PROJECT, "requirements.txt": "x"}, NeedKind.PROJECT, ""),
        ({"pyproject.toml": POETRY, "requirements.txt": "x"}, NeedKind.PROJECT, ""),
        # a pyproject.toml without [project] holds settings of tools
        (
            {"agents/a/pyproject.toml": "[tool.ruff]", "agents/requirements.txt": "x"},
            NeedKind.REQUIREMENTS,
            "agents",
        ),
        # a lock without a project is nobody's
        ({"uv.lock": "", "requirements.txt": "x"}, NeedKind.REQUIREMENTS, ""),
        # a member of a workspace follows the workspace's lock
        (
            {"agents/a/pyproject.toml": PROJECT, "uv.lock": "", "pyproject.toml": WORKSPACE},
            NeedKind.LOCK,
            "agents/a",
        ),
        # but a project below another project that is no workspace does not
        (
            {"agents/a/pyproject.toml": PROJECT, "uv.lock": "", "pyproject.toml": PROJECT},
            NeedKind.PROJECT,
            "agents/a",
        ),
        # Poetry's own tables, also beside [project], unless uv has locked it
        ({"agents/a/pyproject.toml": POETRY, "requirements.txt": "x"}, NeedKind.POETRY, "agents/a"),
        (
            {"pyproject.toml": PROJECT + "[tool.poetry.group.dev.dependencies]\npytest = '*'"},
            NeedKind.POETRY,
            "",
        ),
        (
            {"pyproject.toml": PROJECT + "[tool.poetry.group.dev.dependencies]", "uv.lock": ""},
            NeedKind.LOCK,
            "",
        ),
        (
            {"pyproject.toml": "[tool.poetry]\npackages = []", "requirements.txt": "x"},
            NeedKind.REQUIREMENTS,
            "",
        ),
        # setuptools, where it says what to install
        ({"setup.py": "setup(install_requires=[])"}, NeedKind.SETUP, ""),
        ({"setup.py": "setup()", "setup.cfg": "install_requires =\n  x"}, NeedKind.SETUP, ""),
        (
            {"pyproject.toml": "[build-system]", "setup.cfg": "install_requires =\n  x"},
            NeedKind.SETUP,
            "",
        ),
        ({"setup.cfg": "install_requires =\n  x"}, None, ""),
        ({"setup.py": "setup()"}, None, ""),
        (
            {"setup.py": "setup(install_requires=[])", "requirements.txt": "x"},
            NeedKind.REQUIREMENTS,
            "",
        ),
        # what is not as it should be is no table
        ({"pyproject.toml": "tool = 1\nproject = 2\ndependency-groups = 3"}, NeedKind.PROJECT, ""),
        # a broken pyproject.toml is the installer's to explain
        ({"agents/a/pyproject.toml": "[[["}, NeedKind.PROJECT, "agents/a"),
    ],
)
def test_which_file_is_followed(
    tmp_path: Path, files: dict[str, str], kind: NeedKind | None, chosen: str
) -> None:
    agent = tmp_path / "agents" / "a"
    agent.mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = python_needs.nearest_needs(agent, tmp_path)
    assert (found.kind if found else None) == kind
    if found is not None:
        assert Path(found.folder) == tmp_path / chosen


@pytest.mark.parametrize(
    ("project", "files", "further_files"),
    [
        # both count, and the second may be left out
        (DECLARING, ["pyproject.toml", "requirements.txt"], ["requirements.txt"]),
        (PROJECT, ["pyproject.toml", "requirements.txt"], ["requirements.txt"]),
        # uv reads no pyproject.toml without [project]
        (POETRY, ["requirements.txt"], []),
        # Poetry's lock decides
        (POETRY + "x = '*'\n", ["pyproject.toml"], []),
    ],
)
def test_requirements_beside_a_project(
    tmp_path: Path, project: str, files: list[str], further_files: list[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text(project)
    (tmp_path / "requirements.txt").write_text("wanted")
    needs = python_needs.nearest_needs(tmp_path, tmp_path)
    assert needs is not None
    assert [Path(file).name for file in needs.files] == files
    assert [Path(file).name for file in needs.further_files] == further_files
    assert ("wanted" in needs.text) == ("requirements.txt" in files)


def test_files_above_the_checkout_are_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("x")
    (tmp_path / "checkout").mkdir()
    assert python_needs.nearest_needs(tmp_path / "checkout", tmp_path / "checkout") is None


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
def test_local_packages_belong_to_one_checkout(
    tmp_path: Path, line: str, depends_on_the_place: bool
) -> None:
    texts = []
    for name in ("base", "head"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "requirements.txt").write_text(line)
        found = python_needs.nearest_needs(tmp_path / name, tmp_path / name)
        assert found is not None
        texts.append(found.text)
    assert (texts[0] != texts[1]) == depends_on_the_place


LIB = {"lib/pyproject.toml": "[project]\nname='lib'\n", "lib/lib/answer.py": "right"}


@pytest.mark.parametrize(
    ("files", "change", "counts"),
    [
        ({"requirements.txt": "./lib"}, "lib/lib/answer.py", True),
        ({"requirements.txt": "lib/[fast] ; python_version > '3'"}, "lib/lib/answer.py", True),
        ({"requirements.txt": "lib @ file:./lib"}, "lib/lib/answer.py", True),
        ({"requirements.txt": "lib @ file:///${PROJECT_ROOT}/lib"}, "lib/lib/answer.py", True),
        (
            {"requirements.txt": "-r deps/all.txt", "deps/all.txt": "../lib"},
            "lib/lib/answer.py",
            True,
        ),
        ({"requirements.txt": "./wheels/x.whl", "wheels/x.whl": "1"}, "wheels/x.whl", True),
        ({"requirements.txt": "."}, "lib/lib/answer.py", True),  # whatever lies below
        # what is used in place is what it is; how it is built, and what there is to be found,
        # counts
        ({"requirements.txt": "-e ./lib"}, "lib/lib/answer.py", False),
        ({"requirements.txt": "-e ./lib"}, "lib/pyproject.toml", True),
        ({"requirements.txt": "--editable=lib"}, "lib/lib/another.py", True),
        # a table of uv, of Poetry, a lock
        (
            {"pyproject.toml": "[project]\nname='x'\n[tool.uv.sources]\nlib = { path = 'lib' }\n"},
            "lib/lib/answer.py",
            True,
        ),
        (
            {"pyproject.toml": "[tool.poetry.dependencies]\nlib = { path = 'lib' }\n"},
            "lib/lib/answer.py",
            True,
        ),
        (
            {
                "pyproject.toml": "[project]\nname='x'\n",
                "uv.lock": "[[package]]\nsource = { directory = 'lib' }\n",
            },
            "lib/lib/answer.py",
            True,
        ),
        # and what it needs itself
        (
            {
                "requirements.txt": "./lib",
                "lib/requirements.txt": "../deep",
                "deep/deep.py": "right",
            },
            "deep/deep.py",
            True,
        ),
        ({"requirements.txt": "./lib"}, "other/answer.py", False),
        ({"requirements.txt": "./lib"}, "lib/lib/__pycache__/answer.pyc", False),
        (
            {"requirements.txt": ".", "evalgate-report/.gitignore": "*\n"},
            "evalgate-report/results.json",
            False,
        ),
        ({"requirements.txt": "-e .", ".venv/pyvenv.cfg": ""}, ".venv/lib/x.py", False),
        ({"requirements.txt": "google-adk"}, "lib/lib/answer.py", False),
    ],
)
def test_what_is_in_local_packages_counts(
    tmp_path: Path, files: dict[str, str], change: str, counts: bool
) -> None:
    for name, text in {**LIB, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = python_needs.nearest_needs(tmp_path, tmp_path)
    (tmp_path / change).parent.mkdir(parents=True, exist_ok=True)
    with (tmp_path / change).open("a") as file:
        file.write("# totally wrong\n")
    after = python_needs.nearest_needs(tmp_path, tmp_path)
    assert before is not None
    assert after is not None
    assert (before.text != after.text) is counts
    assert after.is_local is (files.get("requirements.txt") != "google-adk")


MONOREPO = {
    "pyproject.toml": "[tool.uv.workspace]\nmembers = ['agents/*', 'libs/*']\n",
    "agents/desk/pyproject.toml": "[project]\nname='desk'\ndependencies=['Shared_Words>=1', 'idna']\n",
    "libs/words/pyproject.toml": "[project]\nname='shared-words'\ndependencies=['deep', 'desk']\n",
    "libs/words/src/words.py": "",
    "libs/deep/pyproject.toml": "[project]\nname='deep'\n",
    "libs/other/pyproject.toml": "[project]\nname='other'\n",
}
MEMBERS = ["agents/desk", "libs/words/src", "libs/words", "libs/deep"]


@pytest.mark.parametrize(
    ("files", "folders"),
    [
        ({}, MEMBERS),  # also what a member needs, and nothing else
        ({"uv.lock": ""}, MEMBERS),
        ({"pyproject.toml": "[project]\nname='top'\n"}, MEMBERS[:1]),  # no workspace
        ({"pyproject.toml": "[tool.uv.workspace]\nmembers = 3\n"}, MEMBERS[:1]),
        ({"pyproject.toml": "[tool.uv.workspace]\nmembers = ['/']\n"}, MEMBERS[:1]),
        ({"pyproject.toml": "[tool.uv.workspace]\nexclude = []\n"}, MEMBERS[:1]),
        ({"libs/words/pyproject.toml": "[project\n"}, MEMBERS[:1]),  # half written
        ({"agents/desk/pyproject.toml": "[project]\nname='desk'\ndependencies = 3\n"}, MEMBERS[:1]),
        # extras and groups are installed too
        (
            {
                "agents/desk/pyproject.toml": "[project]\nname='desk'\n"
                "[project.optional-dependencies]\neval = ['shared-words']\n"
            },
            MEMBERS,
        ),
        (
            {
                "agents/desk/pyproject.toml": "[project]\nname='desk'\n"
                "[dependency-groups]\ndev = ['shared-words', {include-group = 'x'}]\n"
            },
            MEMBERS,
        ),
        (
            {
                "agents/desk/pyproject.toml": "[project]\nname='desk'\ndependencies=['shared-words']\n"
                "[dependency-groups]\ndev = ['shared-words']\n"
            },
            MEMBERS,  # each once
        ),
    ],
)
def test_members_of_a_workspace_are_imported_where_they_are(
    tmp_path: Path, files: dict[str, str], folders: list[str]
) -> None:
    for name, text in {**MONOREPO, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    needs = python_needs.nearest_needs(tmp_path / "agents/desk", tmp_path)
    assert needs is not None
    roots = [Path(root).relative_to(tmp_path).as_posix() for root in needs.import_roots]
    assert roots == folders
    # an installer without a lock links to them, and each checkout has its own
    assert needs.is_local is (len(folders) > 1 and "uv.lock" not in files)


def test_included_files_count_even_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r b.txt\n")
    (tmp_path / "b.txt").write_text("--requirement=requirements.txt\n-c c.txt\n")
    (tmp_path / "c.txt").write_text("numpy<2\n")
    found = python_needs.nearest_needs(tmp_path, tmp_path)
    assert found is not None
    assert "numpy<2" in found.text


def test_named_requirements_are_files_or_specifiers(tmp_path: Path) -> None:
    (tmp_path / "dev.txt").write_text("a\n")
    found = python_needs.listed_needs(["dev.txt", "google-adk>=2", "missing.txt"], tmp_path)
    assert [Path(file).name for file in found.files] == ["dev.txt", "missing.txt"]
    assert found.specifiers == ("google-adk>=2",)
    assert str(found) == "dev.txt, missing.txt, google-adk>=2"


@pytest.mark.parametrize(
    ("text", "extras", "groups"),
    [
        (PROJECT, (), ()),
        # what evaluations are run with, and nothing else
        (
            PROJECT
            + "[project.optional-dependencies]\neval = []\nlint = []\n[dependency-groups]\ndev = []\ndocs = []",
            ("eval",),
            ("dev",),
        ),
        # the ways in which uv has groups by default
        (PROJECT + "[tool.uv]\ndev-dependencies = []", (), ("dev",)),
        (
            PROJECT + "[dependency-groups]\na = []\nb = []\n[tool.uv]\ndefault-groups = ['a', 'c']",
            (),
            ("a",),
        ),
        (
            PROJECT + "[dependency-groups]\na = []\nb = []\n[tool.uv]\ndefault-groups = 'all'",
            (),
            ("a", "b"),
        ),
        # Poetry's, old and new
        (
            POETRY
            + "[tool.poetry.dev-dependencies]\nx = '*'\n[tool.poetry.extras]\nevaluation = []",
            ("evaluation",),
            ("dev",),
        ),
        (
            POETRY + "[tool.poetry.group.eval.dependencies]\nx = '*'\n[tool.poetry.group.lint]",
            (),
            ("eval",),
        ),
        # what is not as it should be
        (PROJECT + "optional-dependencies = 3\n[tool.uv]\ndefault-groups = 3", (), ()),
    ],
)
def test_which_extras_and_groups_are_installed(
    tmp_path: Path, text: str, extras: tuple[str, ...], groups: tuple[str, ...]
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    found = python_needs.nearest_needs(tmp_path, tmp_path)
    assert found is not None
    assert (found.extras, found.groups) == (extras, groups)


REQUIRES = PROJECT + 'requires-python = ">=3.10,<3.13"\n'


@pytest.mark.parametrize(
    ("files", "rules"),
    [
        ({"pyproject.toml": PROJECT}, []),
        (
            {"pyproject.toml": REQUIRES},
            ['>=3.10,<3.13 `requires-python = ">=3.10,<3.13"` (pyproject.toml)'],
        ),
        # a lock that says the same, and one that says more
        (
            {"pyproject.toml": REQUIRES, "uv.lock": 'requires-python = ">=3.10, <3.13"\n'},
            [">=3.10,<3.13"],
        ),
        (
            {"pyproject.toml": REQUIRES, "uv.lock": 'version = 1\nrequires-python = "==3.12.*"\n'},
            [">=3.10,<3.13", '==3.12.* `requires-python = "==3.12.*"` (uv.lock)'],
        ),
        # Poetry's own words
        ({"pyproject.toml": POETRY}, ['>=3.10,<4.0 `python = "^3.10"` (pyproject.toml)']),
        ({"pyproject.toml": POETRY.replace("'^3.10'", "'*'")}, [""]),
        ({"pyproject.toml": POETRY.replace("'^3.10'", "'what?'")}, ["what? "]),
        (
            {"pyproject.toml": POETRY, "poetry.lock": '[metadata]\npython-versions = "~3.11"\n'},
            [">=3.10,<4.0", '>=3.11,<3.12 `python-versions = "~3.11"` (poetry.lock)'],
        ),
        # setuptools
        (
            {"setup.py": "setup(install_requires=[], python_requires='>=3.9',)"},
            [">=3.9 `python_requires"],
        ),
        (
            {"setup.py": "install_requires", "setup.cfg": "python_requires = >=3.9  # so far\n"},
            [">=3.9 "],
        ),
        # the nearest pin, as pyenv and uv write it
        (
            {"agents/a/.python-version": "3.12\n", ".python-version": "3.11"},
            ["==3.12.* `3.12` (agents/a/.python-version)"],
        ),
        (
            {".python-version": "# ours\ncpython-3.11.4\n3.10\n"},
            ["==3.11.4 `cpython-3.11.4` (.python-version)"],
        ),
        ({".python-version": "my-environment\n"}, [" `my-environment` (.python-version)"]),
        ({".python-version": ""}, []),
        # the project of the requirements counts, not one above them
        ({"agents/a/requirements.txt": "x", "pyproject.toml": REQUIRES}, []),
        (
            {
                "agents/a/requirements.txt": "x",
                "agents/a/pyproject.toml": "[tool.poetry.dependencies]\npython='3.11.2'",
            },
            ["==3.11.2"],
        ),
    ],
)
def test_which_python_a_project_asks_for(
    tmp_path: Path, files: dict[str, str], rules: list[str]
) -> None:
    agent = tmp_path / "agents" / "a"
    agent.mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    needs = python_needs.nearest_needs(agent, tmp_path)
    found = python_needs.python_rules(agent, tmp_path, needs)
    assert len(found) == len(rules), found
    for rule, expected in zip(found, rules, strict=True):
        assert f"{rule.specifier} {rule.source}".startswith(expected)


@pytest.mark.parametrize(
    ("text", "specifier"),
    [
        # a package's own rule, in uv's lines
        ("cause: Because the current Python version (3.11.7) does not satisfy\n  Python>=3.12,<4 and numpy==9 depends on",
         ">=3.12,<4"),
        ("cause: Because dawn==1.0 requires Python >=3.13 and only dawn==1.0 is available", ">=3.13"),
        # wheels for certain versions only
        ("but we only found wheels for `flow` (v2.12.0) with the following Python ABI tags: `cp38`, `cp39`, `cp311`",
         ">=3.8,<3.12"),
        # other failures say nothing of Python
        ("Because flow was not found in the package registry and you require flow, we can conclude", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_the_python_that_packages_need(text: str, specifier: str) -> None:
    assert python_needs.packages_python(text) == specifier


def test_a_day_is_an_option_of_uv_and_a_project_keeps_its_import_roots(tmp_path: Path) -> None:
    (tmp_path / "bot" / "src").mkdir(parents=True)
    (tmp_path / "bot" / "pyproject.toml").write_text(PROJECT)
    day = "--exclude-newer=2025-06-30"
    needs = python_needs.listed_needs(["bot/pyproject.toml", "ddgs", day], tmp_path)
    assert needs.specifiers == ("ddgs", day)
    assert needs.import_roots == (str(tmp_path / "bot" / "src"), str(tmp_path / "bot"))
    world = python_env.InstallSetup(environment={}, cache="")
    command = python_env._command(needs, tmp_path, world, complete=True)
    assert command[command.index("--") + 1 :] == ["ddgs"]
    assert day in command[: command.index("--")]
    assert day in needs.text  # another day is another environment


def test_an_override_is_a_file_for_uv(tmp_path: Path) -> None:
    needs = python_needs.listed_needs(["ddgs", "--override=av"], tmp_path)
    world = python_env.InstallSetup(environment={}, cache="")
    command = python_env._command(needs, tmp_path, world, complete=True)
    assert command[command.index("--") + 1 :] == ["ddgs"]
    assert Path(command[command.index("--override") + 1]).read_text() == "av\n"
