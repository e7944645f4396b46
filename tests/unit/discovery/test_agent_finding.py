"""Which agent's folder belongs to an evaluation file."""

import pytest

from evalgate.config.gate_file import GateFile
from evalgate.discovery.agents import (
    AgentFolders,
    FoundAgents,
    choose_agents,
    find_agent,
)
from evalgate.discovery.walk import Tree
from evalgate.model import EvalSet

AGENT = "root_agent = 1"


def folders(*agents, plain=(), yaml=()):
    files = {folder: frozenset({"agent.py", "__init__.py"}) for folder in agents}
    files |= {folder: frozenset({"__init__.py"}) for folder in plain}
    files |= {folder: frozenset({"root_agent.yaml"}) for folder in yaml}
    return AgentFolders(files=files, read=lambda path: AGENT if path.endswith("agent.py") else "")


@pytest.mark.parametrize(
    ("key", "app_name", "agents", "expected"),
    [
        # by name: nearest first
        ("evals/a.evalset.json", "weather", ["weather", "news"], "weather"),
        ("weather/evals/a.evalset.json", "weather", ["weather", "old/weather"], "weather"),
        (
            "teams/b/evals/a.test.json",
            "weather",
            ["teams/a/weather", "teams/b/weather"],
            "teams/b/weather",
        ),
        ("evals/a.evalset.json", "weather", ["deep/in/here/weather"], "deep/in/here/weather"),
        (
            "evals/a.evalset.json",
            "weather",
            ["src/weather", "src/weather/sub/weather"],
            "src/weather",
        ),
        # several of the name, equally near
        ("evals/a.evalset.json", "weather", ["a/weather", "b/weather"], ("a/weather", "b/weather")),
        # a name that no folder has: the nearest
        ("tests/eval/a.evalset.json", "label", ["app"], "app"),
        # no name: above the file
        ("app/tests/a.test.json", "", ["app", "other"], "app"),
        ("app/sub_agents/x/a.test.json", "", ["app", "app/sub_agents/x"], "app/sub_agents/x"),
        ("a.evalset.json", "", ["."], "."),
        # no name: a child of a folder above
        ("tests/eval/a.evalset.json", "", ["app"], "app"),
        ("team/evals/a.evalset.json", "", ["team/bot", "other"], "team/bot"),
        ("tests/eval/a.evalset.json", "", ["one", "two"], ("one", "two")),
        # no name: the only one anywhere, sub-agents not counted
        (
            "evals/a.evalset.json",
            "",
            ["src/agents/bot", "src/agents/bot/sub/helper"],
            "src/agents/bot",
        ),
        ("evals/a.evalset.json", "", ["x/one", "y/two"], ("x/one", "y/two")),
        ("evals/a.evalset.json", "weather", [], None),
    ],
)
def test_the_agent_of_a_file(key, app_name, agents, expected):
    found = find_agent(
        key, folders=folders(*agents, plain=["evals", "src"]), app_name=app_name, named_by="case_1"
    )
    assert (found.folder or found.folders or None) == expected
    assert (len(found.folders) > 1) == isinstance(expected, tuple)


def test_a_folder_of_the_name_without_an_agent_is_not_it():
    found = find_agent(
        "evals/a.evalset.json",
        folders=folders("real/weather", plain=["weather"]),
        app_name="weather",
    )
    assert found.folder == "real/weather"


def test_an_agent_written_in_yaml_counts():
    found = find_agent("evals/a.evalset.json", folders=folders(yaml=["bot"]))
    assert found.folder == "bot"


def test_it_is_said_how_the_agent_was_found():
    by_name = find_agent(
        "e/a.test.json", folders=folders("x/bot"), app_name="bot", named_by="case_7"
    )
    assert by_name.found_by == "session_input.app_name of case case_7"
    above = find_agent("bot/e/a.test.json", folders=folders("bot"))
    assert above.found_by == "nearest agent above the file"


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        (["bot"], "only agent in the root"),
        # an agent's own parts are none to choose from
        (["bot", "bot/sub/helper"], "only agent in the root"),
        # a collection of agents beside it is: whoever meant one of those sees why it was not taken
        (["bot", "all/one"], "only agent in the root; 1 other deeper"),
        (["bot", "all/one", "all/two", "all/two/sub"], "only agent in the root; 2 others deeper"),
    ],
)
def test_it_is_said_that_there_are_others(agents, said):
    found = find_agent("e/a.test.json", folders=folders(*agents))
    assert found == FoundAgents(folders=("bot",), found_by=said)


def test_each_source_is_read_once():
    reads = []

    def read(path):
        reads.append(path)
        return AGENT

    index = AgentFolders(files={"bot": frozenset({"agent.py"})}, read=read)
    for number in range(5):
        find_agent(f"evals/{number}.test.json", folders=index, app_name="bot")
    assert reads == ["bot/agent.py"]


def evaluates(given):
    return f"async def test_it():\n    await AgentEvaluator.evaluate({given})\n"


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        # beside the file's folder, at the root; the nearest decides
        (
            {
                "eval/test_eval.py": evaluates(
                    'agent_module="new", eval_dataset_file_path_or_dir=HERE'
                )
            },
            "new",
        ),
        ({"test_all.py": evaluates('"old", HERE')}, "old"),
        (
            {
                "eval/test_eval.py": evaluates('"new", HERE'),
                "test_all.py": evaluates('"old", HERE'),
            },
            "new",
        ),
        # the agent's own module, and a module of another name
        ({"eval/test_eval.py": evaluates('"new.agent", HERE')}, "new"),
        ({"eval/test_eval.py": evaluates('"newer", HERE')}, None),
        # both, none in plain text, none at all, no Python
        ({"eval/test_eval.py": evaluates('"new", HERE') + evaluates('"old", HERE')}, None),
        ({"eval/test_eval.py": evaluates("AGENT, HERE")}, None),
        ({"eval/test_eval.py": evaluates("")}, None),
        ({"eval/test_eval.py": 'AgentEvaluator.evaluate("new"'}, None),
        # elsewhere, if there are no nearer ones
        ({"docs/test_eval.py": evaluates('"new", HERE')}, "new"),
        # by a name, and a file that is no agent.py
        ({"eval/test_eval.py": 'AGENT = "new"\n' + evaluates("agent_module=AGENT")}, "new"),
        (
            {
                "eval/test_eval.py": evaluates('"pkg.desk", HERE'),
                "src/pkg/desk.py": AGENT,
            },
            "src/pkg/desk.py",
        ),
    ],
)
def test_of_several_agents_the_one_that_the_tests_evaluate(tmp_path, tests, expected):
    for name, text in {"old/agent.py": AGENT, "new/agent.py": AGENT, **tests}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    key = "eval/data/a.test.json"
    sets = {key: EvalSet(eval_set_id="a", cases=())}
    chosen, problems = choose_agents(sets, gate_file=GateFile(), tree=Tree(tmp_path))
    assert [problem.code for problem in problems] == ([] if expected else ["ambiguous-agent"])
    if expected:
        assert chosen[key].options["path"] == expected
        assert chosen[key].found_by == f"AgentEvaluator in {next(iter(tests))}"


@pytest.mark.parametrize(
    ("files", "expected", "codes"),
    [
        # the only folder is a guess, which the tests' own word corrects: also where their agent is
        # a part of another
        (
            {"bot/agent.py": AGENT, "eval/test_eval.py": evaluates('"src.team.desk", HERE')},
            "src/team/desk",
            [],
        ),
        (
            {"examples/old/agent.py": AGENT, "eval/test_eval.py": evaluates('"team.desk", HERE')},
            "src/team/desk",
            [],
        ),
        ({"bot/agent.py": AGENT}, "bot", []),
        ({"bot/agent.py": AGENT, "eval/test_eval.py": evaluates('"elsewhere", HERE')}, "bot", []),
    ],
)
def test_what_the_tests_evaluate_comes_before_the_only_agent(tmp_path, files, expected, codes):
    deep = (
        {"src/team/agent.py": AGENT, "src/team/desk/agent.py": AGENT} if "src" in expected else {}
    )
    for name, text in {**files, **deep}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    key = "eval/data/a.test.json"
    chosen, problems = choose_agents(
        {key: EvalSet(eval_set_id="a", cases=())}, gate_file=GateFile(), tree=Tree(tmp_path)
    )
    assert chosen[key].options["path"] == expected
    assert [problem.code for problem in problems] == codes


@pytest.mark.parametrize(
    ("agent", "key", "codes"),
    [
        ("examples/bot/agent.py", "evals/a.test.json", ["agent-aside"]),
        ("pkg/tests/fixtures/bot/agent.py", "evals/a.test.json", ["agent-aside"]),
        # the file is an example as well
        ("examples/bot/agent.py", "examples/evals/a.test.json", []),
        ("examples/bot/agent.py", "examples/bot/a.test.json", []),
        ("bot/agent.py", "tests/a.test.json", []),
        # though a case names it
        ("tests/bot/agent.py", "evals/a.test.json", ["agent-aside"]),
    ],
)
def test_an_agent_of_examples_or_tests_is_not_taken_in_silence(tmp_path, agent, key, codes):
    (tmp_path / agent).parent.mkdir(parents=True)
    (tmp_path / agent).write_text(AGENT)
    chosen, problems = choose_agents(
        {key: EvalSet(eval_set_id="a", cases=())}, gate_file=GateFile(), tree=Tree(tmp_path)
    )
    assert chosen[key].options["path"] == agent.removesuffix("/agent.py")
    assert [problem.code for problem in problems] == codes
    assert all("agents:" in problem.hint for problem in problems)


@pytest.mark.parametrize(
    ("source", "holds"),
    [
        ("from . import weather as agent", True),
        ("from .weather import bot as agent", True),
        ("from weather import bot as agent", False),
        ("root_agent: Agent[Ctx] = Agent()", True),
    ],
)
def test_names_that_adk_takes(source, holds):
    index = AgentFolders(files={"bot": frozenset({"__init__.py"})}, read=lambda _: source)
    assert index.holds_agent("bot") is holds
