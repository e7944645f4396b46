"""action.yml, the settings and the pages about them say the same; the linters of GitHub's files are
content."""

import ast
import functools
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from evalgate import config
from evalgate.config import Door, settings
from evalgate.config.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
ACTION_PAGE = (ROOT / "docs" / "action.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
WORKFLOWS = sorted(
    [*(ROOT / ".github/workflows").glob("*.yml"), *(ROOT / "examples/workflows").glob("*.yml")]
)
LINTED = (
    ".github/dependabot.yml",
    ".github/setup/action.yml",
    "action.yml",
    "gate/action.yml",
    *map(str, WORKFLOWS),
)


@functools.cache
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DOCUMENTS = generator().documents()


@pytest.mark.parametrize("path", sorted(DOCUMENTS), ids=lambda path: path.name)
def test_what_make_docs_writes_is_there(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == DOCUMENTS[path], "run `make docs`"


def table_under(heading: str, page: str) -> dict[str, str]:
    """First column without backticks -> the rest of the row."""
    _, _, rest = page.partition(f"<!-- {heading} -->")
    section, _, _ = rest.partition(f"<!-- /{heading} -->")
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.MULTILINE)
    return dict(rows)


def test_inputs_are_the_settings_that_a_workflow_can_give() -> None:
    taken = [
        settings.input_name(name) for name in config.names_with(settings.Settings, Door.ACTION)
    ]
    assert list(ACTION["inputs"]) == [*taken, *generator().SECRETS]
    in_workflows = [
        name for name, row in table_under("settings", PAGE).items() if row.split(" | ")[2] == "yes"
    ]
    assert in_workflows == taken
    assert [name for name in generator().SECRETS if f"`{name}`" not in ACTION_PAGE] == []


def test_inputs_fit_a_screen() -> None:
    assert len(ACTION["inputs"]) <= 27
    summaries = {
        name: (field.description or "").partition("\n")[0]
        for name, field in Settings.model_fields.items()
    }
    assert [
        name for name in config.names_with(Settings, Door.ACTION) if len(summaries[name]) > 80
    ] == []


def test_every_setting_stands_in_the_settings_page() -> None:
    assert list(table_under("settings", PAGE)) == [
        settings.input_name(name) for name in settings.NAMES
    ]


def test_no_setting_has_a_default_so_that_evalgate_yml_can_speak() -> None:
    inputs = ACTION["inputs"].items()
    assert [name for name, row in inputs if "default" in row] == ["github-token"]
    assert [name for name, row in inputs if row["required"]] == []


def test_the_token_is_the_jobs_own_and_nothing_that_a_file_or_a_command_line_could_hold() -> None:
    assert ACTION["inputs"]["github-token"]["default"] == "${{ github.token }}"
    assert "github_token" not in settings.NAMES


def test_defaults_of_the_page_are_the_real_ones() -> None:
    for name, row in table_under("settings", PAGE).items():
        given = row.split(" | ")[0].strip("`")
        model = Settings.model_validate({name.replace("-", "_"): given} if given else {})
        assert getattr(model, name.replace("-", "_")) == getattr(
            Settings(), name.replace("-", "_")
        ), name


def test_outputs_of_the_page_are_those_of_action_yml() -> None:
    section = ACTION_PAGE.partition("<!-- outputs -->")[2].partition("<!-- /outputs -->")[0]
    cells = re.findall(r"^\| (`.*?`) \| ", section, re.MULTILINE)
    # the files of reports share a row
    names = re.findall(r"`([^`]+)`", " ".join(cells))
    assert sorted(names) == sorted(ACTION["outputs"])


def test_descriptions_fit_the_marketplace() -> None:
    assert len(ACTION["description"]) <= 125
    assert ACTION["runs"] == {"using": "docker", "image": "Dockerfile"}


@pytest.mark.integration
@pytest.mark.parametrize(
    "command",
    [
        (
            "check-jsonschema",
            "--builtin-schema",
            "vendor.github-actions",
            "action.yml",
            "gate/action.yml",
        ),
        ("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS)),
        ("check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml"),
        ("actionlint", *map(str, WORKFLOWS)),
        ("zizmor", "--offline", "--no-progress", "--config=.github/zizmor.yml", *LINTED),
        ("hadolint", "Dockerfile"),
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_linters_are_content(command: tuple[str, ...]) -> None:
    program = Path(sys.executable).with_name(command[0])
    if not program.exists():
        pytest.skip(f"{command[0]} is not installed: make check installs it")
    done = subprocess.run(
        [program, *command[1:]], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_by_commit_and_ask_for_no_more_than_they_need(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {}, "permissions stand at each job"
    used = re.findall(r"uses: *(\S+)", path.read_text(encoding="utf-8"))
    ours = {"OWNER/evalgate/gate@v1", "./", "./gate", "./.github/setup"}
    assert [
        each for each in used if each not in ours and not re.search(r"@[0-9a-f]{40}$", each)
    ] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_give_inputs_that_there_are(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    given = [
        step.get("with", {})
        for step in steps
        if step.get("uses") in ("OWNER/evalgate/gate@v1", "./", "./gate")
    ]
    assert given or path.name in ("accept.yml", "ci.yml", "nightly.yml", "release.yml")
    for inputs in given:
        assert set(inputs) <= set(ACTION["inputs"])
        plain = {
            name.replace("-", "_"): value
            for name, value in inputs.items()
            if "${{" not in str(value)
        }
        Settings.model_validate({name: str(value) for name, value in plain.items()})


def tracked_text() -> list[tuple[Path, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    names = [Path(name) for name in listed.split("\0") if name]
    pages = [
        name
        for name in names
        if name.suffix in {".md", ".yml", ".yaml", ".toml", ".txt", ".py", ".html", ""}
    ]
    return [
        (name, (ROOT / name).read_text(encoding="utf-8", errors="replace"))
        for name in pages
        if (ROOT / name).is_file() and name != Path(__file__).relative_to(ROOT)
    ]


FOREIGN = re.compile(r"(pip3?|uvx?|pipx)( [-\w]+)* +['\"]?evalgate(?!-action)\b(?!/)")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pip install evalgate", True),
        ("python -m pip install -U 'evalgate==1'", True),
        ("uvx evalgate run", True),
        ("uv tool install evalgate[all]", True),
        ("pip install evalgate-action", False),  # ours
        ("pip install . && evalgate run", False),  # the command, after an install of ours
    ],
)
def test_the_name_of_another_project_is_recognised(line: str, *, expected: bool) -> None:
    assert bool(FOREIGN.search(line)) is expected


def test_nobody_is_sent_to_another_projects_package() -> None:
    found = [f"{name}: {hit[0]}" for name, text in tracked_text() for hit in FOREIGN.finditer(text)]
    assert found == []


def test_the_lock_of_the_image_holds_hashes_and_no_addresses() -> None:
    for name in ("requirements.lock", "requirements-build.lock"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "://" not in text
        assert "--index" not in text
        for entry in re.split(r"\n(?=\w)", text.split("\n", 2)[2]):
            assert "--hash=sha256:" in entry, entry


def test_every_stage_names_its_base_by_digest() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    bases = set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE))
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.13-slim@sha256:[0-9a-f]{64}", bases.pop())


def test_the_lock_of_the_image_covers_every_dependency() -> None:
    declared = re.search(
        r"^dependencies = \[(.*?)^\]",
        (ROOT / "pyproject.toml").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    assert declared is not None
    wanted = {
        re.sub(r"[\[<>=~!].*", "", name).lower().replace("_", "-")
        for name in re.findall(r'"([^"]+)"', declared[1])
    }
    locked = set(
        re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )
    assert wanted | {"uv"} <= locked, "run `make lock`"


OUTSIDE = {
    # an extra: no step serves an assistant
    "evalgate.wings.assistant.server": "evalgate.wings.assistant.cli",
    "evalgate.wings.ui.app": "evalgate.wings.ui.cli",  # an extra: no step serves a browser
    "evalgate.wings.pytest.plugin": None,  # pytest loads it, where pytest is
}
"""What the action never runs, and who alone may import it."""
SERVING = "evalgate.system.loopback"
"""What only the servers of wings call; it imports the extra where it is called."""


def test_everything_that_we_import_is_in_the_image() -> None:
    locked = set(
        re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )
    distributions = importlib.metadata.packages_distributions()
    missing: dict[str, str] = {}
    importers: set[tuple[str, str]] = set()
    for path in sorted((ROOT / "evalgate").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if "worker" in module.split("."):
            continue  # runs in the agent's environment
        names = imported(path)
        importers |= {(name, module) for name in names & OUTSIDE.keys()}
        assert SERVING not in names or module.startswith("evalgate.wings.")
        for name in names if module not in {*OUTSIDE, SERVING} else ():
            owners = {
                owner.lower().replace("_", "-")
                for owner in distributions.get(name.split(".")[0], [])
            }
            if (
                name.split(".")[0] not in sys.stdlib_module_names | {"evalgate"}
                and not owners & locked
            ):
                missing[name] = str(path.relative_to(ROOT))
    assert missing == {}, "add it to pyproject.toml and run `make lock`"
    assert importers == {
        (name, importer) for name, importer in OUTSIDE.items() if importer is not None
    }


def imported(path: Path) -> set[str]:
    """The modules that a file names in its imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            room = ".".join(path.relative_to(ROOT).parts[: -node.level]) if node.level else ""
            module = ".".join(filter(None, (room, node.module)))
            names |= {module, *(f"{module}.{each.name}" for each in node.names)}
    return names
