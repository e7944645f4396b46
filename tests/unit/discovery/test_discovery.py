"""From a root to its suites: selection, criteria, agents, all together."""

import json

import pytest
from builders import repositories

from evalgate.config import load
from evalgate.config.gate_file import GateFile
from evalgate.config.settings import Settings
from evalgate.discovery import discover as discovery_discover, walk as discovery_walk
from evalgate.errors import NothingToDo, Problem, Severity
from evalgate.model import ConfigOrigin

AGENT = "root_agent = 1\n"


def config(**given):
    return {"criteria": given}


@pytest.fixture
def discover(few_criteria):
    def run(root, *selections, **rest):
        return discovery_discover.discover(Settings(root=root, paths=selections, **rest))

    return run


def keys(found):
    return [suite.key for suite in found.suites]


def codes(found):
    return [problem.code for problem in found.problems]


@pytest.fixture
def three(repo, evalset):
    return repo(
        {
            "bot/agent.py": AGENT,
            "evals/b.evalset.json": evalset("b", "one: hi -> hello", "two: bye -> see you"),
            "evals/a.evalset.json": evalset("a", "one: hi -> hello"),
            "other/c.test.json": evalset("c", "three: what -> that"),
            "other/jest.test.json": {"name": "not ours", "tests": []},
            "other/rows-dataset.json": [{"x": 1}],
            "test_config.json": config(response_match_score=0.5),
        }
    )


def test_suites_come_in_the_order_of_their_paths_and_only_adk_files_count(discover, three):
    found = discover(three)
    assert keys(found) == ["evals/a.evalset.json", "evals/b.evalset.json", "other/c.test.json"]
    assert found.problems == ()


def test_the_order_of_selections_does_not_matter(discover, three):
    found = discover(three, "other", "evals/b.evalset.json:two", "evals/a.evalset.json", "other")
    assert keys(found) == ["evals/a.evalset.json", "evals/b.evalset.json", "other/c.test.json"]
    assert [case.case_id for case in found.suites[1].eval_set.cases] == ["two"]


def test_many_cases_of_a_file_are_selected(discover, repo, evalset):
    """Together their ids are longer than the name of a file may be."""
    ids = [f"case_number_{number}" for number in range(100)]
    root = repo(
        {
            "bot/agent.py": AGENT,
            "a.evalset.json": evalset(
                "a", "odd: hi -> hello", *(f"{each}: x -> y" for each in ids)
            ),
        }
    )
    found = discover(root, f"a.evalset.json:{','.join(ids)}")
    assert [len(suite.eval_set.cases) for suite in found.suites] == [100]
    assert (
        discover(root, f"a.evalset.json:{','.join([*ids, 'nowhere'])}").problems[0].code
        == "unknown-case"
    )


def test_an_absolute_path_within_the_root(discover, three):
    assert keys(discover(three, f"{three}/evals/a.evalset.json:one")) == ["evals/a.evalset.json"]


@pytest.mark.parametrize(
    "absolute", ["{root}", "{root}/", "{link}", "{link}/evals/../", "{root}/."]
)
def test_the_root_itself_and_links_to_it_are_relative_paths(discover, three, tmp_path, absolute):
    (tmp_path / "link").symlink_to(three)
    assert keys(discover(three, absolute.format(root=three, link=tmp_path / "link"))) == keys(
        discover(three)
    )
    assert keys(discover(three, f"{tmp_path}/link/evals/a.evalset.json:one")) == [
        "evals/a.evalset.json"
    ]


@pytest.mark.parametrize(
    "selection", ["..", "../other", "{tmp}", "/", "{tmp}/other:x", "away", "{tmp}/nowhere"]
)
def test_no_folder_out_of_the_root_is_walked(discover, three, tmp_path, selection, monkeypatch):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.evalset.json").write_text("{}")
    (three / "away").symlink_to(tmp_path / "other")
    tree, also = discovery_discover.Tree, []
    monkeypatch.setattr(
        discovery_discover,
        "Tree",
        lambda root, **rest: also.extend(rest.get("also", ())) or tree(root, **rest),
    )
    found = discover(three, selection.format(tmp=tmp_path))
    assert (found.suites, codes(found), also) == ((), ["outside-root"], [])
    assert selection.format(tmp=tmp_path) in found.problems[0].message


@pytest.mark.parametrize("selection", ["", "  ", "\n"])
def test_an_empty_selection_is_told_and_never_everything(discover, three, selection):
    with pytest.raises(NothingToDo) as caught:
        discover(three, selection)
    (problem,) = caught.value.problems
    assert (problem.code, problem.message.startswith("'' matches")) == ("selection-unmatched", True)
    assert keys(discover(three, selection, "evals/a.evalset.json")) == ["evals/a.evalset.json"]


def test_a_selection_that_cannot_be_a_name(discover, three):
    with pytest.raises(NothingToDo) as caught:
        discover(three, "a\0b")
    assert [each.code for each in caught.value.problems] == ["selection-unmatched"]


@pytest.mark.parametrize("selection", ["../outside.evalset.json", "{tmp}/outside.evalset.json"])
def test_a_path_out_of_the_root_is_refused(discover, three, tmp_path, selection):
    (tmp_path / "outside.evalset.json").write_text("{}")
    found = discover(three, selection.format(tmp=tmp_path))
    assert (found.suites, codes(found)) == ((), ["outside-root"])


def test_one_selection_of_two_that_matches_nothing_is_an_error_beside_the_other(discover, three):
    found = discover(three, "evals/a.evalset.json", "evals/x.evalset.json")
    assert (keys(found), codes(found)) == (["evals/a.evalset.json"], ["selection-unmatched"])
    assert found.problems[0].severity is Severity.ERROR


@pytest.mark.parametrize(
    ("selections", "grep", "message", "code"),
    [
        (["nowhere"], "", "no case was selected", "selection-unmatched"),
        (["evals/a.evalset.json:nobody"], "", "no case was selected", "unknown-case"),
        ([], "zebra", "none of 4 cases in 3 evaluation files matches 'zebra'", None),
    ],
)
def test_nothing_left_is_never_green(discover, three, selections, grep, message, code):
    with pytest.raises(NothingToDo, match=message) as caught:
        discover(three, *selections, grep=grep)
    assert [problem.code for problem in caught.value.problems] == ([code] if code else [])


def test_nothing_at_all(discover, repo):
    with pytest.raises(NothingToDo, match="there is no evaluation file yet") as caught:
        discover(repo({"README.md": ""}))
    assert "*.evalset.json" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            [{"id": "one", "input": "hi"}],
            "this list is not an evaluation set: found `id` and `input`. ADK's old",
        ),
        ({"tests": []}, "there is no `eval_cases`; found `tests`."),
        ({"eval_case_results": []}, "found results of a run"),
        ("no JSON", "this is not JSON: expecting value, found `no`."),
    ],
)
def test_a_file_that_has_only_the_name_of_one_is_told_where_nothing_else_is_left(
    discover, repo, content, said
):
    with pytest.raises(NothingToDo, match="there is no evaluation file yet") as caught:
        discover(repo({"evals/a.test.json": content}))
    (line,) = (
        line.strip()
        for line in caught.value.hint.splitlines()
        if line.strip().startswith("evals/a.test.json")
    )
    assert line.startswith("evals/a.test.json has only the name of an evaluation file: ")
    assert said in line


def test_what_git_ignores_is_found_when_it_is_named(discover, repo, evalset):
    root = repo(
        {
            "bot/agent.py": AGENT,
            ".gitignore": "gen/\n",
            "gen/a.evalset.json": evalset("a", "one: hi -> ho"),
        }
    )
    for selection in ("gen/a.evalset.json", "gen", "gen/a.evalset.json:one"):
        assert keys(discover(root, selection)) == ["gen/a.evalset.json"]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_gitignore_has_no_effect_on_committed_files(tmp_path, discover, evalset, is_committed):
    root = repositories.made(tmp_path / "repo")
    files = {
        "bot/agent.py": AGENT,
        "e/a.evalset.json": json.dumps(evalset("a", "one: hi -> ho")),
        "e/test_config.json": json.dumps(config(response_match_score=0.5)),
    }
    rule = {".gitignore": "*.json\n"}
    for part in (files, rule) if is_committed else (rule, files):
        repositories.commit(root, part)
    if not is_committed:
        with pytest.raises(NothingToDo):
            discover(root)
        return
    (suite,) = discover(root).suites
    assert (suite.key, suite.criteria_source.file) == ("e/a.evalset.json", "e/test_config.json")


@pytest.mark.parametrize(
    ("manifest", "agent"),
    [
        ({"agents-cli-manifest.yaml": 'name: x\nagent_directory: "two"\n'}, "two"),
        ({"pyproject.toml": '[tool.agents-cli]\nagent_directory = "two"\n'}, "two"),
        # a folder without an agent says nothing
        ({"agents-cli-manifest.yaml": "agent_directory: app\n"}, None),
    ],
)
def test_the_manifest_names_the_agent(discover, repo, evalset, manifest, agent):
    agents = {"one/agent.py": AGENT, "two/agent.py": AGENT}
    found = discover(repo({**agents, **manifest, "t/a.evalset.json": evalset("a", "x: hi -> ho")}))
    (suite,) = found.suites
    assert suite.agent.options["path"] == (agent or ".")
    assert ("ambiguous-agent" in codes(found)) is (agent is None)


def test_the_manifest_vouches_for_a_folder_whose_agent_is_made_elsewhere(discover, repo, evalset):
    files = {
        "app/__init__.py": "from .graph import app\n",
        "app/graph.py": "from google.adk.apps import App\napp = App(name='app')\n",
        "agents-cli-manifest.yaml": "agent_directory: app\n",
        "t/a.evalset.json": evalset("a", "x: hi -> ho"),
    }
    (suite,) = discover(repo(files)).suites
    assert suite.agent.options["path"] == "app"


def test_a_file_of_another_name_is_read_when_it_is_named(discover, repo, evalset):
    root = repo(
        {
            "bot/agent.py": AGENT,
            "gold.json": evalset("a", "one: hi -> ho"),
            "x.test.json": {"no": "adk"},
        }
    )
    assert keys(discover(root, "gold.json")) == ["gold.json"]
    # named, so that it must say what it is
    assert codes(discover(root, "x.test.json")) == ["not-an-eval-set"]


def test_searching_ids_and_openings(discover, three):
    assert keys(discover(three, grep="^thr")) == ["other/c.test.json"]
    assert keys(discover(three, grep="bye")) == ["evals/b.evalset.json"]


def test_a_file_that_cannot_be_read_is_a_problem_and_no_suite(discover, repo, evalset):
    root = repo(
        {
            "bot/agent.py": AGENT,
            "a.evalset.json": evalset("a", "one: hi -> hello"),
            "broken.evalset.json": '{"eval_cases": [',
            "latin.evalset.json": b'{"eval_set_id": "\xff\xfe"}',
            "empty.evalset.json": b"",
        }
    )
    found = discover(root)
    assert keys(found) == ["a.evalset.json"]
    told = {problem.place.file for problem in found.problems if problem.severity is Severity.ERROR}
    assert {"broken.evalset.json", "empty.evalset.json"} <= told


@pytest.mark.parametrize("name", ["x.test.json", "rows-dataset.json"])
@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b'{"eval_set_id": "x", "eval_cases": [{"eval_id": "caf\xe9"}]}', "not-utf-8"),
        (b'[{"query": "caf\xe9", "expected_tool_use": []}]', "not-utf-8"),
        (b'<<<<<<< HEAD\n{"eval_set_id": "x", "eval_cases": []}', "json-syntax"),
        (b'{"name": "caf\xe9"}', ""),  # somebody else's
        (b"<<<<<<< HEAD\n{}", ""),
    ],
)
def test_a_broken_file_of_a_common_name_is_told_where_its_content_is_adks(
    discover, repo, evalset, name, content, code
):
    found = discover(
        repo(
            {
                "bot/agent.py": AGENT,
                "a.evalset.json": evalset("a", "one: hi -> hello"),
                name: content,
            }
        )
    )
    told = [
        (each.code, each.place.file, each.severity)
        for each in found.problems
        if each.place.file == name
    ]
    assert told == ([(code, name, Severity.ERROR)] if code else [])


def test_a_file_of_a_common_name_that_may_not_be_read_is_warned_of(
    discover, repo, evalset, monkeypatch
):
    root = repo(
        {
            "bot/agent.py": AGENT,
            "a.evalset.json": evalset("a", "one: hi -> hello"),
            "x.test.json": "{}",
        }
    )
    read, forbidden = (
        discovery_walk.read_bytes,
        Problem(severity=Severity.ERROR, code="unreadable-file", message=""),
    )
    monkeypatch.setattr(
        discovery_walk,
        "read_bytes",
        lambda root, path, **rest: forbidden if path == "x.test.json" else read(root, path, **rest),
    )
    (told,) = discover(root).problems[:1]
    assert (told.code, told.severity) == ("unreadable-file", Severity.WARNING)


def test_only_broken_files_are_a_problem_and_not_nothing(discover, repo):
    found = discover(repo({"broken.evalset.json": "{"}))
    assert found.suites == ()
    assert any(problem.severity is Severity.ERROR for problem in found.problems)


# --- criteria -------------------------------------------------------------------------------------


@pytest.fixture
def layered(repo, evalset):
    return repo(
        {
            "bot/agent.py": AGENT,
            "a.evalset.json": evalset("a", "one: hi -> hello"),
            "deep/test_config.json": config(response_match_score=0.1),
            "deep/b.evalset.json": evalset("b", "one: hi -> hello"),
            "deep/er/c.evalset.json": evalset("c", "one: hi -> hello"),
            "deep/er/own/test_config.json": config(response_match_score=0.2),
            "deep/er/own/d.evalset.json": evalset("d", "one: hi -> hello"),
            "configs/strict.json": config(response_match_score=0.9),
        }
    )


def sources(found):
    return {
        suite.key.rpartition("/")[2][0]: (
            suite.criteria_source.origin,
            suite.criteria_source.file,
            [use.threshold for use in suite.criteria if use.name == "response_match_score"],
        )
        for suite in found.suites
    }


BESIDE, ABOVE = ConfigOrigin.BESIDE, ConfigOrigin.ABOVE


def test_the_config_beside_then_above_then_the_defaults(discover, layered):
    found = discover(layered)
    assert sources(found) == {
        "a": (ConfigOrigin.DEFAULTS, "", [0.8]),
        "b": (BESIDE, "deep/test_config.json", [0.1]),
        "c": (ABOVE, "deep/test_config.json", [0.1]),
        "d": (BESIDE, "deep/er/own/test_config.json", [0.2]),
    }
    (problem,) = found.problems
    assert (problem.code, problem.place.file) == ("default-criteria", "a.evalset.json")


def test_the_gate_file_wins_over_what_lies_beside_and_later_rules_over_earlier(discover, layered):
    rules = GateFile.model_validate(
        {
            "suites": [
                {"match": ["deep/**"], "criteria": {"response_match_score": 0.3}},
                {"match": ["*d.evalset.json"], "config": "configs/strict.json"},
                {"match": ["*c.evalset.json"], "pass_rate": 0.5},  # says nothing of criteria
            ]
        }
    )
    found = sources(discover(layered, gate_file=rules))
    assert found["a"] == (ConfigOrigin.DEFAULTS, "", [0.8])
    assert found["b"] == (ConfigOrigin.EMBEDDED, "evalgate.yml", [0.3])
    assert found["c"] == (ConfigOrigin.EMBEDDED, "evalgate.yml", [0.3])
    assert found["d"] == (ConfigOrigin.EXPLICIT, "configs/strict.json", [0.9])


def test_an_explicit_config_wins_over_all(discover, layered, tmp_path):
    rules = GateFile.model_validate(
        {"suites": [{"match": ["**"], "criteria": {"response_match_score": 0.3}}]}
    )
    found = discover(layered, gate_file=rules, criteria="configs/strict.json")
    assert all(
        each == (ConfigOrigin.EXPLICIT, "configs/strict.json", [0.9])
        for each in sources(found).values()
    )
    assert found.problems == ()


def test_an_explicit_config_that_does_not_exist_is_never_the_defaults(discover, layered):
    found = discover(layered, criteria="nowhere.json")
    assert codes(found) == ["unreadable-file"]
    assert all(use.informational for suite in found.suites for use in suite.criteria)


def test_a_config_that_serves_many_is_read_and_told_of_once(discover, repo, evalset):
    files = {f"evals/{n}.evalset.json": evalset(str(n), "one: hi -> hello") for n in range(5)}
    root = repo({**files, "bot/agent.py": AGENT, "test_config.json": config(zebra=0.5)})
    assert codes(discover(root)) == ["unknown-criterion"]


def test_informational_criteria_join_every_suite(discover, layered):
    for suite in discover(layered).suites:
        assert [use.name for use in suite.criteria if use.informational] == ["token_usage_v1"]


# --- agents ---------------------------------------------------------------------------------------


def agents(found):
    return {suite.key: (suite.agent.driver, dict(suite.agent.options)) for suite in found.suites}


def test_a_rule_of_the_gate_file_names_the_agent_and_the_last_one_wins(discover, three):
    rules = GateFile.model_validate(
        {
            "agents": [
                {"driver": "http", "url": "http://localhost:1"},
                {"suites": ["evals/"], "driver": "adk", "path": "elsewhere"},
                # where it is, is still to be found
                {"suites": ["evals/b*"], "driver": "adk", "python": "3.12"},
            ]
        }
    )
    found = discover(three, gate_file=rules)
    assert agents(found) == {
        "evals/a.evalset.json": ("adk", {"path": "elsewhere"}),
        "evals/b.evalset.json": ("adk", {"path": "bot", "python": "3.12"}),
        "other/c.test.json": ("http", {"url": "http://localhost:1"}),
    }
    assert found.suites[0].agent.found_by == "evalgate.yml agents[1]"


MAKES = "from google.adk.agents import Agent\nroot_agent = Agent(name='x')\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"src/desk/main.py": MAKES}, "src/desk/main.py"),
        # who imports one does not make one
        ({"main.py": MAKES, "tests/test_bot.py": "from main import root_agent\n"}, "main.py"),
        # an agent where ADK looks for it comes first
        ({"main.py": MAKES, "bot/agent.py": MAKES}, "bot"),
        # two, and which of them is for its author to say
        ({"one.py": MAKES, "two.py": MAKES}, None),
        # not at the module's own level, or what no Python reads
        ({"main.py": "def make():\n    root_agent = 1\n", "old.py": "print 'root_agent'"}, None),
        ({".gitignore": "build/\n", "build/main.py": MAKES}, None),
    ],
)
def test_an_agent_in_a_file_of_another_name(discover, repo, evalset, files, expected):
    (suite,) = (
        found := discover(repo({**files, "a.evalset.json": evalset("a", "x: hi -> ho")}))
    ).suites
    if expected is None:
        (problem,) = (each for each in found.problems if each.code == "no-agent")
        assert ("one.py and two.py have a `root_agent`" in problem.message) is ("one.py" in files)
        assert ("path: one.py" in problem.hint) is ("one.py" in files)
    else:
        assert suite.agent.options["path"] == expected
        assert "no-agent" not in codes(found)


def test_excluded_files_are_no_suites(discover, three):
    assert keys(discover(three, gate_file=GateFile(exclude=["evals/"]))) == ["other/c.test.json"]


def test_no_code_of_the_repository_runs(discover, repo, evalset, tmp_path):
    trap = tmp_path / "trap"
    code = f"import pathlib\npathlib.Path({str(trap)!r}).touch()\nroot_agent = 1\n"
    root = repo(
        {
            "bot/agent.py": code,
            "bot/__init__.py": code,
            "a.evalset.json": evalset("a", "x: hi -> ho", app="bot"),
        }
    )
    (suite,) = discover(root).suites
    assert suite.agent.options == {"path": "bot"}
    assert suite.agent.found_by == "session_input.app_name of case x"
    assert not trap.exists()


def test_a_suite_without_an_agent_is_kept_so_that_all_else_is_told(discover, repo, evalset):
    found = discover(
        repo({"a.evalset.json": evalset("a", "one: hi -> ho"), "test_config.json": config(zebra=1)})
    )
    assert keys(found) == ["a.evalset.json"]
    assert sorted(codes(found)) == ["no-agent", "unknown-criterion"]


OURS = config(response_match_score=0.3)


@pytest.mark.parametrize(
    ("files", "file", "told"),
    [
        # as agent-starter-pack lays it out
        ({"t/eval/eval_config.json": OURS}, "t/eval/eval_config.json", set()),
        # the nearest folder counts, and in one folder test_config.json, then eval_config.json
        (
            {"t/eval/eval_config.json": OURS, "t/test_config.json": OURS},
            "t/eval/eval_config.json",
            {"criteria-elsewhere"},
        ),
        (
            {"t/eval/eval_config.json": OURS, "t/eval/test_config.json": OURS},
            "t/eval/test_config.json",
            set(),
        ),
        (
            {"t/eval/x.json": OURS, "t/eval/eval_config.json": OURS},
            "t/eval/eval_config.json",
            set(),
        ),
        (
            {"t/eval/x_eval_config.json": OURS, "t/eval/eval_config.json": OURS},
            "t/eval/eval_config.json",
            set(),
        ),
        # a file of any name, where it is alone
        (
            {"t/eval/sets/strict.json": OURS, "t/eval/package.json": {"a": 1}},
            "t/eval/sets/strict.json",
            {"criteria-elsewhere"},
        ),
        ({"t/eval/a.json": OURS, "t/eval/b.json": OURS}, "", {"near-name", "default-criteria"}),
        (
            {"t/eval/mine.json": {"criteria": {"m": 1}, "custom_metrics": {"m": {}}}},
            "t/eval/mine.json",
            set(),
        ),
        # none of ADK's: another tool's criteria, metrics, what git ignores, what stands elsewhere
        ({"t/eval/a.json": {"criteria": {"politeness": 1}}}, "", {"default-criteria"}),
        ({"t/eval/eval_config.json": {"metrics_to_run": ["coherence"]}}, "", {"default-criteria"}),
        ({"t/eval/a.json": OURS, ".gitignore": "a.json"}, "", {"default-criteria"}),
        ({"other/eval_config.json": OURS}, "", {"default-criteria"}),
        # meant for us and wrong: told, and never the defaults
        (
            {"t/eval/eval_config.json": {"criteria": []}},
            "t/eval/eval_config.json",
            {"criteria-not-an-object"},
        ),
        (
            {"t/eval/eval_config.json": '{"criteria": {'},
            "t/eval/eval_config.json",
            {"json-truncated"},
        ),
        (
            {"t/eval/eval_config.json": {"criteria": {}}},
            "t/eval/eval_config.json",
            {"asserts-nothing"},
        ),
    ],
)
def test_criteria_where_people_keep_them(discover, repo, evalset, files, file, told):
    root = repo(
        {
            "bot/agent.py": AGENT,
            "t/eval/sets/x.evalset.json": evalset("x", "one: hi -> ho"),
            **files,
        }
    )
    found = discover(root)
    (suite,) = found.suites
    assert suite.criteria_source.file == file
    assert told <= set(codes(found))
    assert ("criteria-elsewhere" in codes(found)) is (
        file != "" and not file.endswith("test_config.json")
    )


@pytest.mark.parametrize("name", ["goldens.json", "d.eval_set.json", "desk/cases-v2.json"])
def test_a_set_of_any_name_is_taken(discover, repo, evalset, name):
    root = repo({
        "bot/agent.py": AGENT,
        f"evals/{name}": evalset("x", "one: hi -> ho"),
        "evals/results.json": {"eval_set_id": "x", "eval_case_results": []},
        "evals/hidden.json": evalset("y", "one: hi -> ho"),
        ".gitignore": "hidden.json\n",
    })  # fmt: skip
    assert [suite.key for suite in discover(root).suites] == [f"evals/{name}"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("", "file-empty"), (" \n", "file-empty"), ("{", "json-truncated"), ("[", "json-truncated"),
     ('{"eval_set_id": "x", "eval_cases": [{"eval_id"', "json-truncated"),
     ('[{"query": "hi", "ref', "json-truncated")],
)  # fmt: skip
def test_a_test_file_that_is_empty_or_cut_off_is_an_error(discover, repo, evalset, text, code):
    root = repo({
        "bot/agent.py": AGENT, "evals/x.evalset.json": evalset("x", "one: hi -> ho"),
        "evals/a.test.json": text,
    })  # fmt: skip
    found = discover(root)
    assert [
        (each.code, each.severity)
        for each in found.problems
        if each.place.file.endswith("a.test.json")
    ] == [(code, Severity.ERROR)]


# --- agents-cli datasets --------------------------------------------------------------------------

DATASET = {
    "eval_cases": [{"eval_case_id": "one", "prompt": {"role": "user", "parts": [{"text": "hi"}]}}]
}


@pytest.mark.parametrize(
    ("configs", "origin", "file", "told"),
    [
        # its own config has no thresholds: the base decides
        (["tests/eval/eval_config.yaml"], ABOVE, "tests/eval/eval_config.yaml", set()),
        # thresholds beside it win
        (
            ["tests/eval/eval_config.yaml", "tests/eval/datasets/test_config.json"],
            BESIDE,
            "tests/eval/datasets/test_config.json",
            set(),
        ),
        (
            ["tests/eval/eval_config.yaml", "tests/eval/test_config.json"],
            ABOVE,
            "tests/eval/test_config.json",
            set(),
        ),
        ([], ConfigOrigin.DEFAULTS, "", {"default-criteria"}),
    ],
)
def test_a_dataset(discover, repo, configs, origin, file, told):
    content = {".yaml": "metrics_to_run: [coherence]\n", ".json": config(response_match_score=0.5)}
    files = {path: content[path[path.rindex(".") :]] for path in configs}
    root = repo({**files, "app/agent.py": AGENT, "tests/eval/datasets/x-dataset.json": DATASET})
    found = discover(root)
    (suite,) = found.suites
    assert (suite.criteria_source.origin, suite.criteria_source.file) == (origin, file)
    assert told <= set(codes(found))
    assert bool(told & {"asserts-nothing"}) == ("asserts-nothing" in codes(found))


@pytest.mark.parametrize(
    "content", ["metrics:\n- x\n", "criteria:\n  response_match_score: 0.8\n", ""]
)
def test_an_eval_config_that_is_not_agents_clis_is_passed_over(discover, repo, content):
    root = repo(
        {
            "app/agent.py": AGENT,
            "evals/x-dataset.json": DATASET,
            "evals/y-dataset.json": DATASET,
            "evals/eval_config.yaml": content,
            "test_config.json": config(response_match_score=0.5),
        }
    )
    found = discover(root)
    assert [suite.criteria_source.file for suite in found.suites] == ["test_config.json"] * 2
    ((file, message),) = told(found, "foreign-config")
    assert file == "evals/eval_config.yaml"
    assert "not an agents-cli config" in message
    assert not any(problem.severity is Severity.ERROR for problem in found.problems)


def test_criteria_are_not_read_from_agents_clis_config(discover, repo):
    root = repo(
        {
            "app/agent.py": AGENT,
            "x-dataset.json": DATASET,
            "eval_config.yaml": "metrics_to_run: [safety]\ncriteria: {response_match_score: 0.8}\n",
        }
    )
    (problem,) = (each for each in discover(root).problems if each.code == "unused-key")
    assert (problem.place.line, "`threshold`" in problem.hint) == (2, True)


def test_an_empty_config_asserts_nothing(discover, repo):
    root = repo(
        {"app/agent.py": AGENT, "x-dataset.json": DATASET, "eval_config.yaml": "metrics_to_run: []"}
    )
    assert "asserts-nothing" in codes(discover(root))


def test_a_metrics_file_comes_along(discover, repo):
    config = "metrics_to_run: [m]\ncustom_metrics: [{name: m, custom_function_file: m.py}]\n"
    source = "def evaluate(instance): return 1\n"
    root = repo(
        {
            "app/agent.py": AGENT,
            "eval/datasets/any-name.json": DATASET,
            "eval/eval_config.yaml": config,
            "eval/m.py": source,
        }
    )
    (suite,) = discover(root).suites
    (use,) = (use for use in suite.criteria if not use.informational)
    assert (use.code, use.options["source"], use.is_compared) == ("eval/m.py", source, True)


METRIC = (
    "custom_metrics: [{name: own_metric, custom_function: 'def evaluate(instance): return 1'}]\n"
)
CODE = {"code_config": {"name": "app.metrics.own"}}


@pytest.mark.parametrize(
    "files",
    [
        # a rule of evalgate.yml for a metric that agents-cli's config defines
        {
            "x-dataset.json": DATASET,
            "eval_config.yaml": METRIC,
            "evalgate.yml": "suites: [{match: ['**'], criteria: {own_metrik: 0.5}}]",
        },
        # metrics that the same file defines
        {"x-dataset.json": DATASET, "eval_config.yaml": f"metrics_to_run: [own_metrik]\n{METRIC}"},
        {
            "x-dataset.json": DATASET,
            "test_config.json": {
                **config(own_metrik=0.5),
                "custom_metrics": {"own_metric": CODE},
            },
        },
    ],
)
def test_a_misspelled_metric_of_the_repository_is_recognized(repo, files):
    root = repo({"app/agent.py": AGENT, **files})
    settings = load.load_settings({"root": root})
    problems = discovery_discover.discover(settings).problems
    (hint,) = (problem.hint for problem in problems if problem.code == "unknown-criterion")
    assert hint == "Did you mean `own_metric`?"


@pytest.mark.parametrize(
    ("path", "config"),
    [("eval/datasets/x.json", "eval/eval_config.yaml"), ("eval/x.test.json", "")],
)
def test_old_sets_among_datasets_have_their_config(discover, repo, path, config):
    files = {
        "app/agent.py": AGENT,
        path: [{"name": "a", "data": [{"query": "hi", "reference": "ho"}]}],
        "eval/eval_config.yaml": "metrics_to_run: [safety]\n",
    }
    (suite,) = discover(repo(files)).suites
    assert suite.criteria_source.file == config


def test_an_evaluation_set_is_not_served_by_a_dataset_config(discover, repo, evalset):
    root = repo(
        {
            "bot/agent.py": AGENT,
            "a.evalset.json": evalset("a", "x: hi -> ho"),
            "eval_config.yaml": "metrics_to_run: []",
        }
    )
    (suite,) = discover(root).suites
    assert suite.criteria_source.origin is ConfigOrigin.DEFAULTS


# --- what is passed over, and rules that match nothing --------------------------------------------


def told(found, code):
    return [(each.place.file, each.message) for each in found.problems if each.code == code]


def test_a_rule_that_matches_nothing_is_told_whatever_is_selected(discover, three):
    rules = GateFile.model_validate(
        {
            "suites": [
                {"match": ["evals/b.evalset.json"]},
                {"match": ["jest.test.json"], "criteria": {}},
            ],
            "compare": {"no_such": {}},
        }
    )
    idle = "rule-matches-nothing"
    # a file that is called so and is none of ADK's
    assert len(told(discover(three, gate_file=rules), idle)) == 2
    for selected in (
        discover(three, "other/c.test.json", gate_file=rules),
        discover(three, grep="thr", gate_file=rules),
    ):
        assert [
            message
            for _, message in told(selected, idle)
            if "suites[0]" in message or "no_such" in message
        ] == []


@pytest.fixture
def ignoring(repo, evalset):
    same = evalset("a", "one: hi -> hello")
    return repo(
        {
            "bot/agent.py": AGENT,
            ".gitignore": "/secret/\n/build/\n/node_modules/\nenv/\nold.evalset.json\nsub/test_config.json\n",
            "a.evalset.json": same,
            "old.evalset.json": evalset("old", "one: hi -> hello"),
            "secret/deep/s.evalset.json": evalset("s", "one: hi -> hello"),
            "secret/test_config.json": config(response_match_score=0.3),
            "build/lib/a.evalset.json": same,  # made by a build
            "node_modules/x.evalset.json": same,
            "env/pyvenv.cfg": "",
            "env/lib/y.evalset.json": same,
            "secret/.adk/z.evalset.json": same,
            "test_config.json": config(response_match_score=0.5),
            "sub/test_config.json": config(response_match_score=1.0),
            "sub/b.evalset.json": evalset("b", "one: hi -> hello"),
        }
    )


def test_evaluation_files_that_git_ignores_are_told(discover, ignoring):
    ((file, message),) = told(discover(ignoring), "ignored-by-git")
    assert file == "old.evalset.json"
    assert (
        message
        == "git ignores `old.evalset.json` and `secret/deep/s.evalset.json`, so they are not evaluated"
    )


@pytest.mark.parametrize(
    ("selections", "exclude", "files"),
    [
        (("sub",), (), []),  # nothing of what was asked for is left out
        (("a.evalset.json", "secret/deep/s.evalset.json"), (), []),
        (("*.evalset.json",), (), ["old.evalset.json", "secret/deep/s.evalset.json"]),
        ((), ("secret/",), ["old.evalset.json"]),
        ((), ("secret/", "old*"), []),
    ],
)
def test_ignored_files_that_nobody_asked_for_are_not_told(
    discover, ignoring, selections, exclude, files
):
    found = discover(ignoring, *selections, gate_file=GateFile(exclude=list(exclude)))
    message = "".join(message for _, message in told(found, "ignored-by-git"))
    assert [
        name
        for name in ("old.evalset.json", "secret/deep/s.evalset.json", "/a.ev", "x.ev")
        if name in message
    ] == files
    assert told(found, "rule-matches-nothing") == []


def test_the_config_beside_an_ignored_file_that_is_named_counts(discover, repo, evalset):
    root = repo(
        {
            "bot/agent.py": AGENT,
            ".gitignore": "gen/\n",
            "gen/a.evalset.json": evalset("a", "one: hi -> ho"),
            "gen/test_config.json": config(response_match_score=0.3),
        }
    )
    (suite,) = discover(root, "gen/a.evalset.json").suites
    assert (suite.criteria_source.origin, suite.criteria_source.file) == (
        BESIDE,
        "gen/test_config.json",
    )


SCENARIO = {"starting_prompt": "Where is parcel 7?", "conversation_plan": "Ask for the parcel."}
ADKS_ID = "9b308a36"  # by `adk eval_set add_eval_case` of google-adk 2.13
SESSION = {"app_name": "desk", "user_id": "ada", "state": {"parcel": 7}}


def test_scenarios_are_cases_in_their_session(discover, repo):
    files = {
        "desk/conversation_scenarios.json": json.dumps({"scenarios": [SCENARIO]}),
        "desk/session_input.json": json.dumps(SESSION),
    }
    (suite,) = discover(repo({**files, "desk/agent.py": "root_agent = 1"})).suites
    (case,) = suite.eval_set.cases
    assert (suite.key, case.case_id) == ("desk/conversation_scenarios.json", ADKS_ID)
    assert case.scenario.starting_prompt == "Where is parcel 7?"
    assert (case.session.user_id, case.session.state) == ("ada", {"parcel": 7})


def test_scenarios_of_an_evaluation_set_are_run_once(discover, repo):
    case = {"eval_id": ADKS_ID, "conversation_scenario": SCENARIO, "session_input": SESSION}
    files = {
        "desk/agent.py": "root_agent = 1",
        "desk/conversation_scenarios.json": json.dumps({"scenarios": [SCENARIO]}),
        "desk/a.evalset.json": json.dumps({"eval_set_id": "a", "eval_cases": [case]}),
    }
    assert keys(discover(repo(files))) == ["desk/a.evalset.json"]
    other = {**SCENARIO, "conversation_plan": "Complain."}
    files["desk/conversation_scenarios.json"] = json.dumps({"scenarios": [SCENARIO, other]})
    suites = discover(repo(files)).suites
    assert [len(suite.eval_set.cases) for suite in suites] == [1, 1]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"scenarios": [{"starting_prompt": "a", "conversation_plan": "b"}', "json-truncated"),
        ('{"scenarios": [{"starting_prompt": "a"}]}', "missing-key"),
    ],
)
def test_scenarios_that_are_not_valid(discover, repo, text, code):
    files = {"desk/agent.py": "root_agent = 1", "desk/conversation_scenarios.json": text}
    assert code in codes(discover(repo(files)))
