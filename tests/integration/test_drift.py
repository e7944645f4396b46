"""The provider's model moves: the runs of the base branch see it, pull requests are told, and are
compared with none of the results from before."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from pathlib import Path

import pytest
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration

STORE = ("--baseline-folder", "store", "--runs", "2")
KEPT = (*STORE, "--save-baseline", "always")
TODAY = dt.datetime.now(dt.UTC).date()


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """An agent of a model that the test moves: without any change of the repository, 20 of 30
    answers are wrong."""
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.reuses = True
    made.write(".gitignore", "evalgate-report/\nstore/\n")
    made.gate_file(threshold="new", fail_on=["threshold", "regression"])
    made.cases(*range(30))
    made.agent("base")
    moved = 'bad = number in WRONG or (number < 20 and os.path.exists(os.environ["ASKED_LOG"] + ".moved"))'
    text = (made.root / "agent.py").read_text()
    made.write(
        "agent.py", text.replace("bad = number in WRONG", moved.replace("bad = ", "bad = ", 1), 1)
    )
    made.commit("base")
    return made


def move(repo: Repository) -> None:
    Path(f"{repo.log}.moved").touch()


def age(repo: Repository, *, days: int) -> None:
    """The run that is stored as one of `days` days ago, and the same on each day since."""
    store = repo.root / "store"
    path = store / "history.json"
    history = json.loads(path.read_text())
    (run,) = history["runs"]
    then = [TODAY - dt.timedelta(days=days - number) for number in range(days)]
    history["runs"] = [
        {**run, "number": number, "at": f"{day}T04:00:00+00:00"}
        for number, day in enumerate(then, 1)
    ]
    for case in history["cases"]:
        case["outcomes"] = [[number, *case["outcomes"][0][1:]] for number in range(1, days + 1)]
    path.write_text(json.dumps(history))
    (stored,) = (store / "runs").iterdir()
    read = json.loads(gzip.decompress(stored.read_bytes()))
    read["started_at"] = f"{then[-1]}T04:00:00+00:00"
    stamp = f"{then[-1]:%Y%m%d}T040000Z"
    (store / "runs" / f"{stamp}{stored.name[16:]}").write_bytes(
        gzip.compress(json.dumps(read).encode())
    )
    stored.unlink()
    repo.age(f"{then[-1]}T04:00:00+00:00")


def told(repo: Repository) -> str:
    return repo.comment()


def test_the_model_moved_and_not_the_change(repo: Repository) -> None:
    assert repo.run(*KEPT, base="")[0] == 0
    age(repo, days=10)
    repo.git("checkout", "-qb", "change")
    # else stored results would be head's as well
    repo.write("notes.txt", "of the agent, as far as anybody can tell")
    repo.commit("change")
    move(repo)

    # before anybody knows: what is worse than what is stored is run on the base, which fails today
    # as well
    code, said = repo.run(*STORE)
    assert code == 0, said
    assert {case["origin"] for case in repo.results()["comparison"]["cases"]} == {"known"}
    assert "Not caused by this pull request: the model changed</summary>" not in told(repo)

    repo.git("checkout", "-q", "main")
    repo.git("commit", "-q", "--allow-empty", "-m", "a day later")
    code, said = repo.run(*KEPT, base="")
    seen = f"since {TODAY} the base branch's unchanged agent passes 33% of its runs, 100% before (evidence "
    assert code == 1, said
    assert f"Not caused by this pull request: the model changed: {seen}" in said

    # then main's run of today stands for the base, whatever commit it was of, and nothing is new
    repo.git("checkout", "-q", "change")
    code, said = repo.run(*STORE)
    assert code == 0, said
    assert "Not caused by this pull request: the model changed</summary>" in told(repo)
    assert seen in told(repo)
    assert "(cached results" in repo.comment()
    assert {case["origin"] for case in repo.results()["comparison"]["cases"]} == {"known"}


def test_results_from_before_are_no_unchanged_agents_of_today(repo: Repository) -> None:
    assert repo.run(*KEPT, base="")[0] == 0
    age(repo, days=10)
    repo.git("checkout", "-qb", "change")
    repo.words()
    repo.commit("change")
    move(repo)

    # nobody can know it yet: main's results are this agent's
    code, said = repo.run(*STORE)
    assert (code, repo.asked("base")) == (0, 0), said

    # main itself is always asked anew, and finds it
    repo.git("checkout", "-q", "main")
    repo.git("commit", "-q", "--allow-empty", "-m", "a day later")
    code, said = repo.run(*KEPT, base="")
    assert code == 1, said
    assert repo.asked("base") >= 60
    assert "Not caused by this pull request: the model changed" in said

    # from then on main's results of today are those of the change
    repo.git("checkout", "-q", "change")
    code, said = repo.run(*STORE)
    assert (code, repo.asked("base")) == (0, 0), said
    assert "reused from earlier runs" in said
    assert "Not caused by this pull request: the model changed</summary>" in told(repo)


def test_an_agent_that_was_changed_is_no_drift(repo: Repository) -> None:
    assert repo.run(*KEPT, base="")[0] == 0
    age(repo, days=10)
    repo.agent("base", wrong=(1, 2, 3, 4))
    repo.commit("broken on main")
    code, said = repo.run(*KEPT, base="")
    assert code == 1
    assert "moved" not in said
