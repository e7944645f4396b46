"""What holds for every agent driver, whichever it is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evalgate import agents
from evalgate.agents import DRIVERS
from evalgate.agents.base import Agent, AgentFailed, AgentSetting, DriverTools
from evalgate.model import Case, CriterionUse, NotEvaluated, TrialKey, TrialView
from evalgate.system.python_env import InstallSetup

REPO = Path(__file__).parents[2]
MINIMAL: dict[str, dict[str, Any]] = {
    "adk": {"path": "agents/none"},
    "python": {"call": "nowhere:answer"},
    "command": {"command": "no-such-program"},
    "http": {"url": "http://127.0.0.1:9"},
    "ces": {"app": "projects/p/locations/us/apps/none"},
    "replay": {"path": "nothing.json"},
}
ALL = pytest.mark.parametrize("name", sorted(DRIVERS))


def minimal(name: str) -> dict[str, Any]:
    framework = getattr(DRIVERS[name], "framework", "")
    return MINIMAL.get("python" if framework else name, {DRIVERS[name].argument: "none"})


def opened(name: str, root: Path) -> Agent:
    driver = DRIVERS[name]
    setting = AgentSetting(
        root=str(root),
        world=InstallSetup(
            environment={
                "PATH": "/nowhere",
                "CES_API_ENDPOINT": "http://127.0.0.1:9",
                "GOOGLE_APPLICATION_CREDENTIALS": "/nowhere",
            },
            cache=str(root / "cache"),
            log=lambda _: None,
        ),
    )
    return driver.open(driver.options.model_validate(minimal(name)), setting)


def test_every_file_with_a_driver_is_in_the_table() -> None:
    folder = Path(inspect.getfile(agents)).parent
    with_driver = {
        path.stem for path in folder.glob("*.py") if "(AgentDriver)" in path.read_text("utf-8")
    }
    rooms = [type(driver).__module__.rpartition(".") for driver in DRIVERS.values()]
    assert (
        with_driver == {name for room, _, name in rooms if room == agents.__name__} <= set(DRIVERS)
    )


def test_every_framework_has_a_worker_and_a_row() -> None:
    folder = REPO / "evalgate/wings/frameworks/worker"
    hosts = {
        path.stem for path in folder.glob("*.py") if "FrameworkHost)" in path.read_text("utf-8")
    }
    with_framework = [driver for driver in DRIVERS.values() if getattr(driver, "framework", "")]
    assert hosts == {Path(driver.host).name for driver in with_framework}
    assert {Path(driver.host).parent for driver in with_framework} == {folder}


def test_nothing_else_knows_the_name_of_a_driver() -> None:
    """The words are used for other things as well: as the names of options, commands, judges and
    modes."""
    compared = re.compile(rf"""driver\W*(==|!=|[=:]|(not )?in)\W*["']({"|".join(DRIVERS)})["']""")
    imported = re.compile(rf"from evalgate\.agents(\.| import .*)\b({'|'.join(DRIVERS)})\b")
    package, table = REPO / "evalgate", REPO / "evalgate/agents/__init__.py"
    texts = {path: path.read_text("utf-8") for path in package.rglob("*.py") if path != table}
    core = {path: text for path, text in texts.items() if "wings" not in path.parts}
    assert [path for path, text in texts.items() if compared.search(text)] == []
    assert [path for path, text in core.items() if imported.search(text)] == []


@ALL
def test_a_driver_is_known_by_its_name_and_has_a_page(name: str) -> None:
    assert DRIVERS[name].name == name
    assert DRIVERS[name].argument in DRIVERS[name].options.model_fields
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
    options.model_validate(minimal(name))
    with pytest.raises(ValidationError):
        options.model_validate(minimal(name) | {"no_such_option": 1})


@ALL
def test_what_a_driver_does_about_tools_is_said_and_explained(name: str) -> None:
    assert isinstance(DRIVERS[name].tools, DriverTools)
    assert DRIVERS[name].runs_metrics is (name not in ("ces", "command", "http", "replay", "echo"))
    assert "(../tools.md)" in (REPO / f"docs/agents/{name}.md").read_text()


@ALL
def test_opening_starts_nothing_and_closing_never_raises(name: str, tmp_path: Path) -> None:
    agent = opened(name, tmp_path)
    assert isinstance(dict(agent.about()), dict)
    agent.close()
    agent.close()


@pytest.mark.integration
@ALL
def test_an_agent_that_is_not_there_fails_each_trial_with_a_reason(
    name: str, tmp_path: Path
) -> None:
    agent = opened(name, tmp_path)
    try:
        for _ in range(2):
            with (
                pytest.raises(AgentFailed) as failed,
                agent.converse(
                    Case(case_id="c", conversation=()), TrialKey(suite="s", case_id="c")
                ),
            ):
                pass
            assert failed.value.failure.message
    finally:
        agent.close()


@pytest.mark.integration
@ALL
def test_a_metric_that_cannot_be_graded_is_no_score_and_no_exception(
    name: str, tmp_path: Path
) -> None:
    agent = opened(name, tmp_path)
    evidence = TrialView(case=Case(case_id="c", conversation=()), actual=(), expected=())
    try:
        grade = agent.run_metric(
            "some.metric", CriterionUse(name="m", threshold=1.0, code="some.metric"), evidence
        )
    finally:
        agent.close()
    assert isinstance(grade, NotEvaluated)
    assert grade.message
