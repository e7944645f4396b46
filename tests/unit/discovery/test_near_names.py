"""Names that are nearly right are told, whatever else is found."""

from __future__ import annotations

import pytest

from evalgate.config.gate_file import GateFile
from evalgate.config.settings import Settings
from evalgate.discovery import discover
from evalgate.errors import NothingToDo

CRITERIA = {"criteria": {"response_match_score": 0.5}}


@pytest.fixture
def near(repo, evalset, few_criteria):
    """Discover a repository with `evals/a.evalset.json`, a config above it, and `files`: what is
    said of names."""

    def run(files, *selections, **rest):
        cases = evalset("a", "one: hi -> hello")
        given = {path: cases if content == "cases" else content for path, content in files.items()}
        root = repo({
            "bot/agent.py": "from google.adk.agents import Agent\nroot_agent = Agent(name='bot')",
            "evals/a.evalset.json": cases, "test_config.json": CRITERIA, **given,
        })  # fmt: skip
        found = discover.discover(Settings(root=root, paths=selections, **rest))
        return [
            (each.place.file, each.message) for each in found.problems if each.code == "near-name"
        ]

    return run


@pytest.mark.parametrize(
    "name",
    [
        "A.EVALSET.JSON",
        "b.evalset.JSON",
        "f.evalset.json.txt",
        "g.Test.JSON",
    ],
)
def test_an_evaluation_file_of_a_nearly_right_name_is_told(near, name):
    ((file, message),) = near({f"evals/{name}": "cases"})
    assert file == f"evals/{name}"
    assert message.startswith(f"`evals/{name}` is not evaluated")


@pytest.mark.parametrize(
    ("files", "selections", "rules"),
    [
        ({"evals/A.EVALSET.JSON": {"sets": 3}}, (), GateFile()),  # holds no cases
        # nothing of what was asked for
        ({"evals/A.EVALSET.JSON": "cases"}, ("evals/a.evalset.json",), GateFile()),
        ({"evals/A.EVALSET.JSON": "cases"}, (), GateFile(exclude=["evals/A*"])),
        ({"evals/A.EVALSET.JSON": "cases", ".gitignore": "*.JSON\n"}, (), GateFile()),
        ({"evals/testConfig.json": {"port": 80}}, (), GateFile()),  # another program's
        ({"other/testconfig.json": CRITERIA}, (), GateFile()),  # near no evaluation file
        ({"evals/testconfig.json": CRITERIA, "evals/test_config.json": CRITERIA}, (), GateFile()),
        ({"testconfig.json": CRITERIA}, (), GateFile()),  # no nearer than the one that counts
        (
            {"evals/testconfig.json": CRITERIA},
            (),
            GateFile.model_validate(
                {"suites": [{"match": ["evals/"], "config": "evals/testconfig.json"}]}
            ),
        ),
    ],
)
def test_what_is_no_slip_is_not_told(near, files, selections, rules):
    assert near(files, *selections, gate_file=rules) == []


@pytest.mark.parametrize(
    "name",
    [
        "Test_Config.json",
        "testconfig.json",
        "test_config.yaml",
        "test_configs.json",
        "test-config.json",
    ],
)
def test_a_config_of_a_nearly_right_name_is_told(near, name):
    ((file, message),) = near({f"evals/{name}": "criteria: {response_match_score: 0.99}"})
    assert file == f"evals/{name}"
    assert message == (
        f"`evals/{name}` is ignored because its name is not `test_config.json`; using `test_config.json` for "
        "evals/a.evalset.json"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("A.EVALSET.JSON", None),
        # ADK's oldest format
        ("test.json", '[{"query": "hi", "expected_tool_use": [], "reference": "hello"}]'),
    ],
)
def test_so_it_is_where_nothing_else_is_found(repo, evalset, few_criteria, name, text):
    root = repo({f"evals/{name}": text or evalset("a", "one: hi -> hello")})
    with pytest.raises(NothingToDo) as caught:
        discover.discover(Settings(root=root))
    assert f"evals/{name} looks like an evaluation set" in caught.value.hint
