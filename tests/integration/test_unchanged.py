"""Changes that do not touch the agent: nothing is compared with itself, and nobody is blamed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from builders.coin_agent import FAILING, MIXED, coin_agent
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(".gitignore", "evalgate-report/\nkept/\n")
    made.write("README.md", "An agent.\n")
    made.agent("one")
    made.gate_file(threshold="confirmed")
    made.cases(1, 2, 3)
    return made


def on_change(repo: Repository, **files: str) -> None:
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    for name, text in files.items():
        repo.write(name, text)
    if not files:
        repo.words()
    repo.commit("change")


def test_an_agent_that_the_change_does_not_touch_is_run_once_for_both_sides(repo: Repository) -> None:
    on_change(repo)
    code, said = repo.run("--baseline", "rerun")
    assert code == 0, said
    assert repo.asked("one") == 3
    assert "This change does not touch the agent." in repo.comment()
    assert repo.results()["comparison"]["unchanged"] == ["desk.evalset.json"]
    assert [len(case["trials"]) for case in repo.results("base.json")["suites"][0]["cases"]] == [1, 1, 1]


def kept(repo: Repository, tmp_path: Path) -> tuple[str, str]:
    """Main's results in a folder, and the options that name it."""
    store = ("--baseline-folder", str(tmp_path / "kept"))
    repo.commit("base")
    _, said = repo.run(*store, "--save-baseline", "always", "--confirm", base="")
    assert "stored" in said, said
    return store


@pytest.mark.parametrize(
    ("rates", "code"),
    [
        *((MIXED, None) for _ in range(5)),  # flaky cases, some of which fail in main's run
        *((FAILING, 1) for _ in range(5)),  # a case that main itself always fails
    ],
)
def test_words_of_an_evaluation_file_cost_no_call_and_are_as_red_as_main(
    repo: Repository, tmp_path: Path, rates: tuple[float, ...], code: int | None, request: pytest.FixtureRequest
) -> None:
    repo.write("agent.py", coin_agent(request.node.name, rates))
    repo.cases(*range(len(rates)))
    store = kept(repo, tmp_path)
    main = repo.results()["verdict"]["exit_code"]
    on_change(repo)
    found, said = repo.run(*store)
    assert (found, repo.asked("coin")) == (main, 0), said
    assert code in (main, None)
    comment = repo.comment()
    assert "This change does not touch the agent." in comment
    assert "Fix the agent" not in comment
    counts = repo.results()["verdict"]["cases"]
    assert counts.get("failed", 0) == counts.get("pre_existing", 0)  # none new
    if main:
        assert "pre-existing" in comment
        assert "Not caused by this change" in comment


@pytest.mark.parametrize(
    ("before", "after", "step"),
    [
        ((1, 2, 3), {"cases": (1, 2, 3)}, "Not caused by this change"),  # main is red already
        ((1, 2), {"cases": (1, 2, 3)}, "The agent fails cases that this change adds or edits"),
        ((), {"cases": (1, 2, 3)}, "The agent fails cases that this change adds or edits"),  # the first file of all
        ((1, 2, 3), {"cases": (1, 2, 3), "threshold": 0.95}, "The agent fails cases that this change adds or edits"),
        ((1, 3), {"cases": (1, 2, 3)}, "Not caused by this change"),  # what it adds passes
    ],
)
def test_who_has_to_act_where_evaluation_files_alone_change(
    repo: Repository, before: tuple[int, ...], after: dict[str, Any], step: str
) -> None:
    repo.agent("one", wrong=(3,))
    repo.cases(*before)
    if not before:
        (repo.root / "desk.evalset.json").unlink()
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    repo.cases(*after["cases"], threshold=after.get("threshold", 0.9))
    if before == after["cases"] and "threshold" not in after:
        repo.words()
    repo.commit("change")
    code, said = repo.run()
    assert code == 1, said
    comment = repo.comment()
    assert f"> {step}" in comment
    is_edit = before != after["cases"] or "threshold" in after
    told = "adds or edits evaluation files, not the agent" if is_edit else "does not touch the agent"
    assert f"This change {told}." in comment


CAUSED = "The stricter rules of this change cause it (`"


@pytest.mark.parametrize(
    ("before", "after", "wrong", "code", "step"),
    [
        ({"pass_rate": 0.5}, {}, 3, 1, CAUSED + "pass_rate` `0.50` \N{RIGHTWARDS ARROW} `1.00`)"),
        ({"threshold": "new"}, {"threshold": "all"}, 3, 1, CAUSED + "threshold` `new` \N{RIGHTWARDS ARROW} `all`)"),
        ({"pass_rate": 0.9}, {}, 3, 1, "Not caused by this change"),  # red by the base's rules as well
    ],
)
def test_stricter_rules_are_the_cause_where_the_bases_would_pass(
    repo: Repository, before: dict[str, Any], after: dict[str, Any], wrong: int, code: int, step: str
) -> None:
    repo.agent("one", wrong=(wrong,))
    repo.gate_file(**before)
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    repo.gate_file(**after)
    repo.commit("change")
    found, said = repo.run()
    assert found == code, said
    assert f"> {step}" in repo.comment()


def test_a_higher_bar_is_the_cause_also_beside_a_change_of_the_agent(repo: Repository) -> None:
    repo.agent("one", wrong=(3,))
    repo.cases(1, 2, 3, threshold=0.0)
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    repo.agent("two", wrong=(3,))
    repo.cases(1, 2, 3, threshold=0.9)
    repo.commit("change")
    code, said = repo.run()
    assert code == 1, said
    told = f"> {CAUSED}response_match_score` `0.00` \N{RIGHTWARDS ARROW} `0.90`)"
    assert told in repo.comment()
    # so say its results when they are looked at once more, and its parts when they are merged
    assert repo.call("report", "evalgate-report/results.json", "--output", "again")[0] == 1
    assert told in (repo.root / "again/comment.md").read_text()
    for part in ("1/2", "2/2"):
        repo.run("--shard", part, "--output", f"parts/{part[0]}")
    code, said = repo.call("merge", "parts", "--output", "merged")
    assert code == 1, said
    assert told in (repo.root / "merged/comment.md").read_text()


LOWER = '{"criteria": {"response_match_score": 0.5}}'
READER = "import pathlib\nFACTS = pathlib.Path(__file__).with_name({name!r})\n"


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ({}, {"test_config.json": LOWER}, True),  # criteria are no agent
        # an agent may read whatever is committed, whatever it is called
        ({}, {"README.md": "Other words."}, False),
        ({}, {"LICENSE": "Other words."}, False),
        ({}, {"knowledge/security-policy.md": "Other words."}, False),
        ({}, {".github/workflows/x.yml": "name: x"}, False),
        ({}, {".github/prompts/x.md": "Be brief."}, False),
        ({}, {"test_it.py": "FACT = 1"}, False),
        ({}, {"evalgate.yml": None}, False),  # another agent, or none
        ({}, {"notes/facts.csv": "1"}, False),
        ({}, {".prompts/system.md": "Be brief."}, False),
        ({}, {"requirements.txt": "google-adk"}, False),
        # what a .gitignore names and git tracks all the same
        ({".gitignore": "data/\nevalgate-report/\nkept/\n", "data/facts.json": "{}"}, {"data/facts.json": "[]"}, False),
        # an evaluation file that the agent reads, and one that only a test names
        ({"tool.py": READER.format(name="test_config.json")}, {"test_config.json": LOWER}, False),
        ({"test_it.py": READER.format(name="test_config.json")}, {"test_config.json": LOWER}, True),
    ],
)
def test_what_an_agent_may_read_is_part_of_it(
    repo: Repository, before: dict[str, str], after: dict[str, str | None], *, is_same: bool
) -> None:
    for name, text in before.items():
        repo.write(name, text)
    if ".gitignore" in before:
        repo.git("add", "-f", "data")
    change = {name: (repo.root / name).read_text() + "\n " if text is None else text for name, text in after.items()}
    if "evalgate.yml" in after:
        change = {"evalgate.yml": change["evalgate.yml"].replace('"workers": 1', '"turn_timeout": 9')}
    on_change(repo, **change)
    repo.run("--baseline", "rerun")
    assert repo.results()["comparison"].get("unchanged", []) == (["desk.evalset.json"] if is_same else [])


@pytest.mark.parametrize(
    ("change", "options", "calls"),
    [
        ({}, (), 0),
        ({}, ("--reuse-days", "0"), 3),
        ({}, ("--turn-timeout", "9"), 3),  # what is given to the agent is not what it was
        ({}, ("--runs", "2"), 3),  # one more of each case
        ({"env": "LANGUAGE=de"}, (), 3),
        ({"at": "2020-01-01T00:00:00+00:00"}, (), 3),  # the provider may have moved
        ({"surroundings": "0123456789abcdef"}, (), 3),  # of other packages
        ({"code": "0123456789abcdef"}, (), 3),
    ],
)
def test_results_of_main_stand_in_only_where_all_is_the_same(
    repo: Repository, tmp_path: Path, change: dict[str, str], options: tuple[str, ...], calls: int
) -> None:
    store = kept(repo, tmp_path)
    (path,) = (tmp_path / "kept/runs").iterdir()
    results = json.loads(gzip.decompress(path.read_bytes()))
    agent = results["suites"][0]["agent"]
    assert agent["surroundings"]
    agent.update({name: value for name, value in change.items() if name in agent})
    results["started_at"] = change.get("at", results["started_at"])
    path.write_bytes(gzip.compress(json.dumps(results).encode()))
    on_change(repo)
    repo.log.unlink(missing_ok=True)
    name, _, value = change.get("env", "NOTHING=").partition("=")
    code, said = repo.call("run", "--base", "main", *store, *options, environment={name: value})
    assert code == 0, said
    assert repo.asked("one") == calls
    assert "This change does not touch the agent." in repo.comment()


def test_beside_stored_results_a_new_case_alone_is_run_and_counted(repo: Repository, tmp_path: Path) -> None:
    store = kept(repo, tmp_path)
    (path,) = (tmp_path / "kept/runs").iterdir()
    results = json.loads(gzip.decompress(path.read_bytes()))
    for case in results["suites"][0]["cases"]:
        case["trials"][0]["seconds"] = 1000
    path.write_bytes(gzip.compress(json.dumps(results).encode()))
    repo.git("checkout", "-qb", "change")
    repo.cases(1, 2, 3, 4)
    repo.commit("change")
    code, said = repo.run(*store)
    assert (code, repo.asked("one")) == (0, 1), said
    assert repo.results()["suites"][0]["cases"][0]["trials"][0]["seconds"] == 1000
    assert "agent time 0." in repo.comment()
