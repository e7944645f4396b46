"""Agents that are named and are not there, told before anything runs."""

import pytest

from evalgate.config import load
from evalgate.discovery import agents
from evalgate.discovery.walk import Tree
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
    return list(agents.problems([use, use], tree=Tree(root), places=places))


@pytest.mark.parametrize(
    ("driver", "options", "message", "hint"),
    [
        (
            "adk",
            {"path": "agents/wether"},
            "no agent at `agents/wether`: not a",
            "Did you mean `agents/weather`?",
        ),
        ("adk", {"path": "wether"}, "no agent at `wether`", "Did you mean `agents/weather`?"),
        (
            "adk",
            {"path": "zzz"},
            "no agent at `zzz`",
            "Agents of the repository: `agents/weather` and `agents/yaml`.",
        ),
        ("adk", {"path": "../two"}, "no agent at `../two`", "Agents of"),
        (
            "adk",
            {"path": "agents.wether"},
            "no agent at `agents.wether`",
            "Did you mean `agents/weather`?",
        ),
        (
            "adk",
            {"path": "evals"},
            "the folder has neither a Python file nor a root_agent.yaml",
            "Agents of",
        ),
        ("adk", {"path": "a\0b"}, "no agent at", ""),
        ("replay", {"path": "nope.json"}, "no recordings at `nope.json`", ""),
        (
            "replay",
            {"path": "recorded/on.json"},
            "no recordings at",
            "Did you mean `recorded/one.json`?",
        ),
        ("replay", {"path": "recorded/*.jsonl"}, "no recordings at", ""),
        ("command", {"cwd": "nowhere"}, "does not exist: `nowhere`", ""),
        (
            "python",
            {"call": "singel:f"},
            "no module `singel` in the checkout",
            "Did you mean `single`?",
        ),
        (
            "python",
            {"call": "nosuch:f"},
            "no module `nosuch`",
            "installed in the agent's environment",
        ),
    ],
)
def test_an_agent_that_is_not_there(root, driver, options, message, hint):
    (problem,) = told(root, driver, **options)
    assert (problem.code, message in problem.message, hint in problem.hint) == (
        "agent-missing",
        True,
        True,
    )
    assert problem.severity is (Severity.WARNING if driver == "python" else Severity.ERROR)


@pytest.mark.parametrize(
    ("driver", "options"),
    [
        ("adk", {"path": "agents/weather"}),
        ("adk", {"path": "./agents/weather/"}),
        ("adk", {"path": "agents/weather/agent.py"}),
        ("adk", {"path": "agents.weather"}),
        ("adk", {"path": "agents.weather.agent"}),
        ("adk", {"path": "agents/yaml"}),
        ("adk", {"path": "agents/package"}),
        ("adk", {}),
        ("python", {"call": "single:f"}),
        ("python", {"call": "made.main:f"}),  # below src/, which the environment knows
        ("python", {"call": "weather.agent:f", "path": "agents"}),
        ("python", {"call": "agents.weather.agent:f"}),
        ("python", {"call": "not a call"}),  # told with the options
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
