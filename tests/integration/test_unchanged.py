"""Changes that do not touch the agent: nothing is compared with itself, and nobody is blamed."""

from __future__ import annotations

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


def keep(repo: Repository) -> None:
    """A run of main, whose trials are looked up later."""
    repo.reuses = True
    repo.commit("base")
    code, said = repo.run("--confirm", base="")
    assert code in (0, 1), said


@pytest.mark.parametrize(
    ("rates", "code"),
    [
        *((MIXED, None) for _ in range(5)),  # flaky cases, some of which fail in main's run
        *((FAILING, 1) for _ in range(5)),  # a case that main itself always fails
    ],
)
def test_words_of_an_evaluation_file_cost_no_call_and_are_as_red_as_main(
    repo: Repository, rates: tuple[float, ...], code: int | None, request: pytest.FixtureRequest
) -> None:
    repo.write("agent.py", coin_agent(request.node.name, rates))
    repo.cases(*range(len(rates)))
    keep(repo)
    main = repo.results()["verdict"]["exit_code"]
    on_change(repo)
    found, said = repo.run()
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
        (
            (1, 2, 3),
            {"cases": (1, 2, 3), "threshold": 0.95},
            "The agent fails cases that this change adds or edits",
        ),
        ((1, 3), {"cases": (1, 2, 3)}, "Not caused by this change"),  # what it adds passes
    ],
)
def test_who_has_to_act_where_evaluation_files_alone_change(
    repo: Repository, before: tuple[int, ...], after: dict[str, Any], step: str
) -> None:
    repo.agent("one", wrong=(3,))
    repo.cases(*before)
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
    told = (
        "adds or edits evaluation files, not the agent" if is_edit else "does not touch the agent"
    )
    assert f"This change {told}." in comment


CAUSED = "The edited rules of this change cause it (`"


@pytest.mark.parametrize(
    ("before", "after", "wrong", "code", "step"),
    [
        ({"pass_rate": 0.5}, {}, 3, 1, CAUSED + "pass_rate` `0.50` \N{RIGHTWARDS ARROW} `1.00`)"),
        (
            {"threshold": "new"},
            {"threshold": "all"},
            3,
            1,
            CAUSED + "threshold` `new` \N{RIGHTWARDS ARROW} `all`)",
        ),
        # red by the base's rules as well
        ({"pass_rate": 0.9}, {}, 3, 1, "Not caused by this change"),
    ],
)
def test_stricter_rules_are_the_cause_where_the_bases_would_pass(
    repo: Repository,
    before: dict[str, Any],
    after: dict[str, Any],
    wrong: int,
    code: int,
    step: str,
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
READER = "import pathlib; pathlib.Path({name!r}).read_text()\n"


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ({}, {"test_config.json": LOWER}, True),  # criteria are no agent
        # the agent is another language's: what it opened is seen, and what it looked for in vain is
        # not
        ({}, {"README.md": "Other words."}, True),
        ({}, {"LICENSE": "Other words."}, False),
        ({}, {"evalgate.yml": None}, False),  # what is given to the agent is another
        ({"notes/facts.csv": "1"}, {"notes/facts.csv": "2"}, True),
        # what a .gitignore names and git tracks all the same
        (
            {".gitignore": "data/\nevalgate-report/\n", "data/facts.json": "{}"},
            {"data/facts.json": "[]"},
            True,
        ),
        # an evaluation file that the agent reads
        ({"agent.py": READER.format(name="test_config.json")}, {"test_config.json": LOWER}, False),
    ],
)
def test_an_agent_is_the_same_where_nothing_that_it_read_differs(
    repo: Repository, before: dict[str, str], after: dict[str, str | None], *, is_same: bool
) -> None:
    """Without any earlier run: both sides are run, and then it is known what was read."""
    for name, text in before.items():
        repo.write(name, text + ((repo.root / name).read_text() if name == "agent.py" else ""))
    if ".gitignore" in before:
        repo.git("add", "-f", "data")
    change = {
        name: (repo.root / name).read_text() + "\n " if text is None else text
        for name, text in after.items()
    }
    if "evalgate.yml" in after:
        change = {
            "evalgate.yml": change["evalgate.yml"].replace('"workers": 1', '"turn_timeout": 9')
        }
    on_change(repo, **change)
    repo.run("--baseline", "rerun")
    assert repo.results()["comparison"].get("unchanged", []) == (
        ["desk.evalset.json"] if is_same else []
    )


@pytest.mark.parametrize(
    ("options", "variable", "calls"),
    [
        ((), "", 0),
        # head, and one case of the base: then it is known that both are the same
        (("--reuse-days", "0"), "", 4),
        (("--reuse-days", "0.0000001"), "", 4),  # the provider may have moved
        (("--fresh",), "", 4),
        (("--turn-timeout", "9"), "", 3),  # what is given to the agent is not what it was
        (("--runs", "2"), "", 3),  # one more of each case
        ((), "LANGUAGE=de", 3),
    ],
)
def test_results_of_main_stand_in_only_where_all_is_the_same(
    repo: Repository, options: tuple[str, ...], variable: str, calls: int
) -> None:
    keep(repo)
    on_change(repo)
    repo.log.unlink()
    name, _, value = (variable or "NOTHING=").partition("=")
    code, said = repo.call("run", "--base", "main", *options, environment={name: value})
    assert code == 0, said
    assert repo.asked("one") == calls
    assert "This change does not touch the agent." in repo.comment()


def test_an_agent_that_opens_nothing_of_the_change_runs_on_one_side(repo: Repository) -> None:
    """Without results of earlier runs one case shows what it opens."""
    on_change(repo, **{"README.md": "Another agent.\n"})
    code, said = repo.run()
    assert (code, repo.asked("one")) == (0, 3 + 1), said
    assert repo.results()["comparison"]["unchanged"] == ["desk.evalset.json"]
    assert "This change does not touch the agent: no case of 3 read" in said


def test_an_earlier_run_of_another_agent_says_nothing_of_what_this_one_opens(
    repo: Repository,
) -> None:
    keep(repo)
    repo.agent("two")
    on_change(repo, **{"README.md": "Another agent.\n"})
    code, said = repo.run()
    assert (code, repo.asked("two")) == (0, 3 + 1), said


def test_an_agent_that_opens_the_change_late_runs_on_both_sides(repo: Repository) -> None:
    """The base's runs come after head's, so nothing is staked on them: a new failure is found by
    fresh pairs."""
    agent = (repo.root / "agent.py").read_text()
    late = 'number = int(text.split()[-1])\n            number += number == 3 and "wrong" in open("README.md").read()'
    repo.write("agent.py", agent.replace("number = int(text.split()[-1])", late))
    repo.write("agent.py", (repo.root / "agent.py").read_text().replace("set()", "{4}", 1))
    on_change(repo, **{"README.md": "wrong\n"})
    code, said = repo.run()
    assert code == 1, said
    comparison = repo.results()["comparison"]
    assert comparison.get("unchanged", []) == []
    assert "case_3" in said
    assert "new failure, 0 of" in said
    (suite,) = repo.results("base.json")["suites"]
    trials = [trial for case in suite["cases"] for trial in case["trials"]]
    apart = [trial.get("apart", False) for trial in trials if "purpose" not in trial]
    assert apart == [True] * 3
    assert repo.results()["verdict"]["evidence"] >= 20


def test_beside_earlier_results_a_new_case_alone_is_run_and_counted(repo: Repository) -> None:
    keep(repo)
    seconds = [case["trials"][0]["seconds"] for case in repo.results()["suites"][0]["cases"]]
    repo.git("checkout", "-qb", "change")
    repo.cases(1, 2, 3, 4)
    repo.commit("change")
    code, said = repo.run("--baseline", "rerun")
    assert (code, repo.asked("one")) == (0, 1), said  # for both sides
    counts = [
        len(case.get("trials", ())) for case in repo.results("base.json")["suites"][0]["cases"]
    ]
    assert counts == [1, 1, 1, 0]
    assert [case["trials"][0]["seconds"] for case in repo.results()["suites"][0]["cases"]][
        :3
    ] == seconds
    assert "3 runs of head were reused from earlier runs" in said
