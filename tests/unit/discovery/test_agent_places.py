"""Agents that are named and are not there, told before anything runs."""

import pytest

from evalgate.config import load
from evalgate.discovery import agents
from evalgate.errors import Severity
from evalgate.model import AgentUse

NAMED = "evalgate.yml agents[0]"


@pytest.fixture
def root(repo):
    return repo(
        {
            "agents/weather/agent.py": "root_agent = 1\n",
            "agents/yaml/root_agent.yaml": "",
            "agents/package/agent/__init__.py": "",
            "evals/a.evalset.json": "{}",
            "single.py": "",
            "src/made/main.py": "",
            "recorded/one.json": "{}",
        }
    )


def told(root, driver, found_by=NAMED, places=None, **options):
    use = AgentUse(driver=driver, options=options, found_by=found_by)
    return list(agents.problems([use, use], root=root, places=places))


@pytest.mark.parametrize(
    ("driver", "options", "message", "hint"),
    [
        ("adk", {"path": "agents/wether"}, "no agent at `agents/wether`: neither", ""),
        ("adk", {"path": "agents.weather"}, "no agent at `agents.weather`: neither", ""),
        ("adk", {"path": "../two"}, "no agent at `../two`", ""),
        (
            "adk",
            {"path": "evals"},
            "the folder has neither a Python file nor a root_agent.yaml",
            "",
        ),
        ("adk", {"path": "a\0b"}, "no agent at", ""),
        ("replay", {"path": "nope.json"}, "no recordings at `nope.json`", ""),
        ("replay", {"path": "recorded/*.jsonl"}, "no recordings at", ""),
        ("command", {"cwd": "nowhere"}, "does not exist: `nowhere`", ""),
    ],
)
def test_an_agent_that_is_not_there(root, driver, options, message, hint):
    (problem,) = told(root, driver, **options)
    assert (problem.code, message in problem.message) == ("agent-missing", True)
    assert problem.hint.startswith(hint)
    assert bool(problem.hint) == bool(hint)
    assert problem.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("driver", "options"),
    [
        ("adk", {"path": "agents/weather"}),
        ("adk", {"path": "./agents/weather/"}),
        ("adk", {"path": "agents/weather/agent.py"}),
        ("adk", {"path": "agents/yaml"}),
        ("adk", {"path": "agents/package"}),
        ("adk", {}),
        ("python", {"call": "nosuch:f"}),  # it may be installed
        ("command", {"command": ["x"]}),
        ("command", {"command": ["x"], "cwd": "agents"}),
        ("replay", {}),
        ("replay", {"path": "recorded"}),
        ("replay", {"path": "recorded/*.json"}),
        ("http", {"url": "http://x"}),
        ("nothing", {}),
    ],
)
def test_an_agent_that_may_be_there(root, driver, options):
    assert told(root, driver, **options) == []


def test_an_agent_that_nobody_named_is_not_looked_for(root):
    assert told(root, "adk", found_by="nothing found", path="gone") == []


def test_the_line_of_evalgate_yml(root):
    places = load.parse_gate_file(
        "agents:\n- driver: adk\n  path: gone\n", file="evalgate.yml"
    ).places
    (problem,) = told(root, "adk", path="gone", places=places)
    assert (problem.place.file, problem.place.line) == ("evalgate.yml", 3)
