"""What holds for every agent driver, whichever it is."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evalgate import agents
from evalgate.agents import DRIVERS
from evalgate.agents.base import Agent, AgentFailed, AgentSetting
from evalgate.agents.tools.base import DriverTools
from evalgate.model import Case, CriterionUse, Evidence, NotEvaluated, TrialKey
from evalgate.system.python_env import World

REPO = Path(__file__).parents[2]
MINIMAL: dict[str, dict[str, Any]] = {
    "adk": {"path": "agents/none"},
    "python": {"call": "nowhere:answer"},
    "command": {"command": "no-such-program"},
    "http": {"url": "http://127.0.0.1:9"},
    "replay": {"path": "nothing.json"},
}
ALL = pytest.mark.parametrize("name", sorted(DRIVERS))


def opened(name: str, root: Path) -> Agent:
    driver = DRIVERS[name]
    setting = AgentSetting(
        root=str(root), world=World(environment={"PATH": "/nowhere"}, cache=str(root / "cache"), log=lambda _: None)
    )
    return driver.open(driver.options.model_validate(MINIMAL[name]), setting)


def test_every_file_with_a_driver_is_in_the_table() -> None:
    folder = Path(inspect.getfile(agents)).parent
    with_driver = {path.stem for path in folder.glob("*.py") if "(AgentDriver)" in path.read_text("utf-8")}
    assert with_driver == set(DRIVERS) == {type(driver).__module__.rpartition(".")[2] for driver in DRIVERS.values()}


def test_nothing_else_knows_the_name_of_a_driver() -> None:
    """The words are used for other things as well: as the names of options, commands, judges and modes."""
    compared = re.compile(rf"""driver\W*(==|!=|[=:]|(not )?in)\W*["']({"|".join(DRIVERS)})["']""")
    imported = re.compile(rf"from evalgate\.agents(\.| import .*)\b({'|'.join(DRIVERS)})\b")
    package, table = REPO / "evalgate", REPO / "evalgate/agents/__init__.py"
    texts = {path: path.read_text("utf-8") for path in package.rglob("*.py") if path != table}
    assert [path for path, text in texts.items() if compared.search(text) or imported.search(text)] == []


@ALL
def test_a_driver_is_known_by_its_name_and_has_a_page(name: str) -> None:
    assert DRIVERS[name].name == name
    assert DRIVERS[name].argument in DRIVERS[name].options.model_fields
    assert set(DRIVERS[name].identity) <= set(DRIVERS[name].options.model_fields)
    page = REPO / f"docs/agents/{name}.md"
    assert page.exists()
    text = page.read_text()
    for option in DRIVERS[name].options.model_fields:
        assert f"`{option}`" in text, f"{page.name} does not explain {option}"


@ALL
def test_options_are_explained_and_unknown_ones_refused(name: str) -> None:
    options = DRIVERS[name].options
    assert options.model_config.get("extra") == "forbid"
    assert all(field.description for field in options.model_fields.values())
    options.model_validate(MINIMAL[name])
    with pytest.raises(ValidationError):
        options.model_validate(MINIMAL[name] | {"no_such_option": 1})


@ALL
def test_what_a_driver_does_about_tools_is_said_and_explained(name: str) -> None:
    assert isinstance(DRIVERS[name].tools, DriverTools)
    assert DRIVERS[name].runs_metrics is (name in ("adk", "python"))
    assert f"[{name}](agents/{name}.md" in (REPO / "docs/tools.md").read_text()


@ALL
def test_opening_starts_nothing_and_closing_never_raises(name: str, tmp_path: Path) -> None:
    agent = opened(name, tmp_path)
    assert isinstance(dict(agent.about()), dict)
    agent.close()
    agent.close()


@pytest.mark.integration
@ALL
def test_an_agent_that_is_not_there_fails_each_trial_with_a_reason(name: str, tmp_path: Path) -> None:
    agent = opened(name, tmp_path)
    try:
        for _ in range(2):
            with (
                pytest.raises(AgentFailed) as failed,
                agent.converse(Case(case_id="c", conversation=()), TrialKey(suite="s", case_id="c")),
            ):
                pass
            assert failed.value.failure.message
    finally:
        agent.close()


@pytest.mark.integration
@ALL
def test_a_metric_that_cannot_be_graded_is_no_score_and_no_exception(name: str, tmp_path: Path) -> None:
    agent = opened(name, tmp_path)
    evidence = Evidence(case=Case(case_id="c", conversation=()), actual=(), expected=())
    try:
        grade = agent.run_metric("some.metric", CriterionUse(name="m", threshold=1.0, code="some.metric"), evidence)
    finally:
        agent.close()
    assert isinstance(grade, NotEvaluated)
    assert grade.message


NEW_DRIVER = '''"""The driver `echo`: says what the user says."""

import contextlib
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict, Field

from evalgate.agents.base import Agent, AgentDriver, AgentSetting
from evalgate.model import Case, Content, CriterionUse, Evidence, Grade, Invocation, NotEvaluated, Reason, TrialKey


class EchoOptions(BaseModel):
    """How it answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefix: str = Field(default="", description="What comes first.")


class EchoAgent:
    """See base.Agent."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    @contextlib.contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator["EchoAgent"]:
        yield self

    def send(self, user_content: Content) -> Invocation:
        said = "".join(getattr(part, "text", "") for part in user_content.parts)
        part = type(user_content.parts[0])(text=self._prefix + said)
        return Invocation(user_content=user_content, final_response=Content(parts=(part,), role="model"), events=())

    def finish(self) -> None:
        return None

    def run_metric(self, code: str, use: CriterionUse, evidence: Evidence) -> Grade:
        return NotEvaluated(reason=Reason.NOT_APPLICABLE, message="no Python")

    def about(self) -> Mapping[str, str]:
        return {}

    def close(self) -> None:
        pass


class EchoDriver(AgentDriver):
    """An echo."""

    name = "echo"
    options = EchoOptions
    argument = "prefix"
    identity = ("prefix",)

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        assert isinstance(options, EchoOptions)
        return EchoAgent(options.prefix)
'''

PAGE = "# echo\n\nSays what the user says, behind `prefix`.\n"


def _evaluation(said: str, expected: str) -> str:
    parts = [{"parts": [{"text": text}]} for text in (said, expected)]
    turn = {"user_content": parts[0], "final_response": parts[1], "intermediate_data": {"tool_uses": []}}
    return json.dumps({"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [turn]}]})


@pytest.mark.integration
def test_a_new_driver_is_a_file_a_row_and_a_page(tmp_path: Path) -> None:
    """The recipe of CONTRIBUTING, walked in a copy of the package."""
    tree = tmp_path / "tree"
    shutil.copytree(REPO / "evalgate", tree / "evalgate", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "docs/agents").mkdir(parents=True)
    (tree / "evalgate/agents/echo.py").write_text(NEW_DRIVER)
    table = tree / "evalgate/agents/__init__.py"
    rows = table.read_text().replace("import adk, command, http,", "import adk, command, echo, http,")
    table.write_text(
        rows.replace("        http.HttpDriver(),\n", "        http.HttpDriver(),\n        echo.EchoDriver(),\n")
    )
    (tree / "docs/agents/echo.md").write_text(PAGE)
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "test_config.json").write_text('{"criteria": {"response_match_score": 1.0}}')
    (repository / "a.evalset.json").write_text(_evaluation("good morning", "so good morning"))

    def gate(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "evalgate", *arguments, "--root", str(repository)]
        return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=120, check=False)

    good = gate("run", "--agent", "echo:so ", "--output", str(tmp_path / "good"))
    assert good.returncode == 0, good.stdout + good.stderr
    bad = gate("run", "--agent", "echo:not ", "--output", str(tmp_path / "bad"))
    assert bad.returncode == 1, bad.stdout + bad.stderr
    assert "echo so" in gate("list", "--agent", "echo:so").stdout
    (repository / "evalgate.yml").write_text("agents: [{driver: echoo}]")
    assert "Did you mean `echo`?" in gate("validate").stderr + gate("validate").stdout
