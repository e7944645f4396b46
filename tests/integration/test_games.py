"""Ways to game the gate from a pull request: each ends red, or is told at the top of the
comment."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration

BROKEN = (1, 2, 3, 4)
"""Cases that head answers wrongly: four of six, at two runs a side a regression."""


@dataclass(frozen=True, kw_only=True)
class Game:
    """A change beside the broken agent. `code`: of the gate. `said`: what its comment says, before
    the details."""

    play: Callable[[Repository], None]
    base: Callable[[Repository], None] = lambda repo: None
    wrong: tuple[int, ...] = BROKEN
    arguments: tuple[str, ...] = ()
    code: int = 1
    said: str = ""


def rules(**more: Any) -> Callable[[Repository], None]:
    return lambda repo: repo.gate_file(**more)


def easy(repo: Repository) -> None:
    """Twenty more that anybody passes."""
    repo.cases(*range(6), *range(100, 120))


def all_but(*numbers: int) -> Callable[[Repository], None]:
    return lambda repo: repo.cases(*(number for number in range(6) if number not in numbers))


def expects_nonsense(repo: Repository) -> None:
    repo.cases(*range(6), answers=dict.fromkeys(BROKEN, "nothing of the kind"))


def renames_ids(repo: Repository) -> None:
    path = repo.root / "desk.evalset.json"
    path.write_text(path.read_text().replace('"case_', '"other_'))


def criteria(**given: Any) -> Callable[[Repository], None]:
    return lambda repo: repo.write("test_config.json", json.dumps({"criteria": given}))


def second_config(repo: Repository) -> None:
    """One that lies nearer to the evaluation file, which moves with it."""
    repo.write("deep/test_config.json", json.dumps({"criteria": {"response_match_score": 0.0}}))
    repo.git("mv", "desk.evalset.json", "deep/desk.evalset.json")


def commits_results(repo: Repository) -> None:
    """A report folder that says that all passed."""
    repo.write(".gitignore", "*.log\n")
    repo.write("evalgate-report/results.json", "{}")
    repo.write("evalgate-report/journal.jsonl", "{}\n")


def crashes(repo: Repository) -> None:
    """Rather than answering wrongly."""
    path = repo.root / "agent.py"
    path.write_text(
        path.read_text().replace("bad = number in WRONG", "bad = number in WRONG and sys.exit(3)")
    )


def hungry(tokens: int) -> Callable[[Repository], None]:
    def play(repo: Repository) -> None:
        path = repo.root / "agent.py"
        usage = f'usage_metadata={{"total_token_count": {tokens}}}, final=True'
        path.write_text(path.read_text().replace("final=True", usage))

    return play


def twice(repo: Repository) -> None:
    """Two cases of one name: the second is easy."""
    path = repo.root / "desk.evalset.json"
    read = json.loads(path.read_text())
    read["eval_cases"] += [
        {**read["eval_cases"][0], "eval_id": f"case_{number}"} for number in BROKEN
    ]
    path.write_text(json.dumps(read))


def cases_of(
    repo: Repository, change: Callable[[dict[str, Any]], None], only: tuple[int, ...] = BROKEN
) -> None:
    path = repo.root / "desk.evalset.json"
    read = json.loads(path.read_text())
    for number in only:
        change(read["eval_cases"][number])
    path.write_text(json.dumps(read))


def asks_another(repo: Repository) -> None:
    """An easy question under the names of hard ones."""
    easy = json.loads((repo.root / "desk.evalset.json").read_text())["eval_cases"][0][
        "conversation"
    ]
    cases_of(repo, lambda case: case.update(conversation=easy))


def talks_on(repo: Repository) -> None:
    """Thirty easy turns behind the hard one: their mean passes."""
    easy = json.loads((repo.root / "desk.evalset.json").read_text())["eval_cases"][0][
        "conversation"
    ]
    cases_of(repo, lambda case: case["conversation"].extend(easy * 30))


def moves_hard_cases(**file: Any) -> Callable[[Repository], None]:
    """Into a file beside criteria that all pass, or that decides nothing by the `suites` of the
    gate file."""

    def play(repo: Repository) -> None:
        repo.cases(*BROKEN)
        repo.write("soft/hard.evalset.json", (repo.root / "desk.evalset.json").read_text())
        repo.write("soft/test_config.json", json.dumps({"criteria": {"response_match_score": 0.0}}))
        repo.gate_file(**file)
        all_but(*BROKEN)(repo)

    return play


def links(repo: Repository) -> None:
    """The file is a link to another one."""
    all_but(*BROKEN)(repo)
    repo.write("notes/easy.json", (repo.root / "desk.evalset.json").read_text())
    (repo.root / "desk.evalset.json").unlink()
    (repo.root / "desk.evalset.json").symlink_to("notes/easy.json")


def as_if(before: str, after: str) -> Callable[[Repository], None]:
    """The agent does otherwise where it would fail."""

    def play(repo: Repository) -> None:
        path = repo.root / "agent.py"
        path.write_text(path.read_text().replace(before, after))

    return play


RATE_LIMITED = "say(type='failed', session=session, kind='rate_limited', message='429')"


def eats_the_budget(repo: Repository) -> None:
    """Fifty easy cases before those that fail."""
    repo.gate_file(budget="agent_calls=20")
    repo.cases(*range(100, 150), *range(6))


def rubric(text: str) -> Callable[[Repository], None]:
    """Beside a criterion without a judge."""
    asked = {"rubric_id": "kind", "rubric_content": {"text_property": text}}
    judged = {
        "threshold": 1.0,
        "rubrics": [asked],
        "judge_model_options": {"judge_model": "gemini-2.5-flash"},
    }
    return criteria(response_match_score=0.9, rubric_based_final_response_quality_v1=judged)


def hides(repo: Repository) -> None:
    """Another file remains, so that there is something to evaluate."""
    repo.git("mv", "desk.evalset.json", "other.evalset.json")
    all_but(*BROKEN)(repo)
    (repo.root / ".hidden").mkdir()
    repo.git("mv", "other.evalset.json", ".hidden/desk.evalset.json")


def excludes(repo: Repository) -> None:
    """An easy file remains, so that there is something to evaluate."""
    text = json.loads((repo.root / "desk.evalset.json").read_text())
    repo.write("easy.evalset.json", json.dumps({**text, "eval_cases": text["eval_cases"][:1]}))
    repo.gate_file(exclude=["desk*"])


def hides_among_remarks(repo: Repository) -> None:
    """Where nothing is compared, a lower threshold among more remarks than a comment has room
    for."""
    criteria(response_match_score=0.0)(repo)
    cases_of(repo, lambda case: case.update({f"note_{case['eval_id']}": 1}), only=tuple(range(6)))
    for number in range(9):
        text = (repo.root / "desk.evalset.json").read_text().replace("desk", f"desk{number}")
        repo.write(f"desk{number}.evalset.json", text)


def hides_among_rules(repo: Repository) -> None:
    """A lower threshold behind hundreds of entries that count for nothing yet."""
    criteria(response_match_score=0.0)(repo)
    until = f"{datetime.now(UTC).date() + timedelta(days=20)}"
    names = (f"desk.evalset.json:{'z' * 60}{number}" for number in range(300))
    repo.gate_file(quarantine=[{"case": name, "owner": "@me", "until": until} for name in names])


def tokens_below_zero(repo: Repository) -> None:
    repo.gate_file(budget="tokens=3000")
    hungry(-900)(repo)


def no_evaluation_set(repo: Repository) -> None:
    """Its cases stand under another key; another file remains, so that there is something to
    evaluate."""
    path = repo.root / "desk.evalset.json"
    text = path.read_text()
    repo.write(
        "easy.evalset.json",
        json.dumps({**json.loads(text), "eval_cases": json.loads(text)["eval_cases"][:1]}),
    )
    path.write_text(text.replace("eval_cases", "cases_of_old"))


DESCRIBED = """sessions=1, description=[
                {"name": "a%d" % n, "kind": "Agent", "instruction": "## All passed <!-- -->" * 50} for n in range(400)
            ])"""
SPEAKS_AS_USER = """part = {"text": text.replace("question", "answer")}
            say(type="event", session=session, author="user", content={"role": "user", "parts": [part]}, final=True)
            part = """

ONLY = (
    "**evalgate: passes only because this change relaxes the rules:** `response_match_score` `0.90`"
)

GAMES = {
    "a lower threshold among hundreds of quarantined cases": Game(
        play=hides_among_rules,
        said="`response_match_score` `0.90` \N{RIGHTWARDS ARROW} `0.00`",
    ),
    "a lower threshold among many remarks, where nothing is compared": Game(
        base=rules(baseline="none"),
        play=lambda repo: (repo.gate_file(baseline="none"), hides_among_remarks(repo))[0],
        code=0,
        said=ONLY,
    ),
    "it crashes where it would fail, and few need be measured": Game(
        base=rules(**{"min-measured": 0.3}),
        play=crashes,
        wrong=BROKEN,
        code=1,
        arguments=("--min-measured", "0.3", "--runs", "1"),
        said="Worse than the base",
    ),
    "it spends the budget": Game(
        base=lambda repo: (repo.gate_file(budget="tokens=3000"), hungry(100)(repo))[0],
        play=lambda repo: (repo.gate_file(budget="tokens=3000"), hungry(900)(repo))[0],
        code=3,
        wrong=(),
        said="that took the base",
    ),
    "a suite is advisory": Game(
        play=rules(suites=[{"match": ["desk*"], "severity": "advisory"}]),
        said="Worse than the base",
    ),
    "a criterion that does not gate": Game(
        play=rules(compare={"response_match_score": {"gating": False}}),
        said="`gating of response_match_score` `unset` \N{RIGHTWARDS ARROW} `false`",
    ),
    "a drop of everything is tolerated": Game(
        play=rules(**{"max-drop": 1}), said="`max_drop` `0.05` \N{RIGHTWARDS ARROW} `1.00`"
    ),
    "no significance is enough": Game(play=rules(alpha=0.000001), said="`alpha` `0.05`"),
    "only easy cases are selected": Game(play=rules(grep="case_0"), code=2),
    "two cases of one name": Game(play=twice),
    "the file is hidden, few cases remain": Game(play=hides, code=0, said="4 cases deleted"),
    "it runs out of time where it would fail": Game(
        play=lambda repo: repo.write(
            "agent.py",
            (repo.root / "agent.py")
            .read_text()
            .replace(
                "bad = number in WRONG", "bad = number in WRONG and __import__('time').sleep(60)"
            ),
        ),
        base=rules(**{"turn-timeout": 0.5, "min-measured": 0.3}),
        arguments=("--runs", "1", "--turn-timeout", "0.5", "--min-measured", "0.3"),
        wrong=(1, 2, 3),
        code=1,
    ),
    "an easy case for each that fails, under a pass rate": Game(
        base=rules(**{"pass-rate": 0.8}),
        play=easy,
        wrong=(1, 2),
        arguments=("--pass-rate", "0.8", "--fail-on", "threshold"),
        said="Worse than the base",
    ),
    "the same, where reruns confirm": Game(
        base=rules(**{"pass-rate": 0.8, "threshold": "confirmed"}),
        play=easy,
        wrong=(1, 2),
        arguments=("--pass-rate", "0.8", "--threshold", "confirmed", "--fail-on", "threshold"),
        said="2 of 26 cases failed",
    ),
    "hard cases go": Game(play=all_but(*BROKEN), code=0, said="4 cases deleted"),
    "expected answers are what the agent says now": Game(
        play=expects_nonsense, code=0, said="expectations of 4 cases changed"
    ),
    "cases get other ids": Game(play=renames_ids, said="6 cases deleted"),
    "a lower threshold": Game(
        play=criteria(response_match_score=0.0),
        said="`response_match_score` `0.90` \N{RIGHTWARDS ARROW} `0.00`",
    ),
    "another criterion": Game(
        play=criteria(tool_trajectory_avg_score=0.0),
        code=0,
        said=ONLY,
    ),
    "criteria beside a file that moves": Game(
        play=second_config, said="`response_match_score` `0.90` \N{RIGHTWARDS ARROW} `0.00`"
    ),
    "another seed": Game(play=rules(seed=7), said="`evalgate.yml` (+"),
    "fewer runs": Game(base=rules(runs=2), play=rules(runs=1), said="`evalgate.yml` (+"),
    "no regression gate": Game(
        base=rules(**{"fail-on": ["regression"]}),
        play=rules(**{"fail-on": ["not_measured"]}),
        said="Worse than the base",
    ),
    "a lower pass rate": Game(
        play=rules(**{"pass-rate": 0.1}), said="`pass_rate` `1.00` \N{RIGHTWARDS ARROW} `0.10`"
    ),
    "the file is excluded": Game(play=rules(exclude=["desk*"]), code=4),
    "the file is excluded, another remains": Game(play=excludes, said="Worse than the base"),
    "an agent that passes": Game(
        play=lambda repo: repo.gate_file(
            agents=[{"driver": "command", "command": [sys.executable, "other.py"]}],
        ),
        said="`evalgate.yml` (+",
    ),
    "a budget of one run": Game(
        play=rules(budget="agent_calls=1"), code=3, said="`evalgate.yml` (+"
    ),
    "results of its own": Game(play=commits_results),
    "an easier question under the same name": Game(
        play=asks_another, code=0, said="expectations of 4 cases changed"
    ),
    "easy turns behind a hard one": Game(
        play=talks_on, code=0, said="expectations of 4 cases changed"
    ),
    "hard cases under criteria of their own": Game(
        play=moves_hard_cases(), code=0, said="4 cases deleted"
    ),
    "hard cases in an advisory file": Game(
        play=moves_hard_cases(suites=[{"match": ["soft/*"], "severity": "advisory"}]),
        code=0,
        said="4 cases deleted",
    ),
    "the file is a link to another": Game(play=links, code=0, said="4 cases deleted"),
    "names that only look the same": Game(
        play=lambda repo: cases_of(
            repo,
            lambda case: case.update(
                eval_id=case["eval_id"].replace("case", "ca\N{ZERO WIDTH SPACE}se")
            ),
        ),
        said="4 cases deleted",
    ),
    "criteria twice in one file, the second time lower": Game(
        play=lambda repo: repo.write(
            "test_config.json",
            '{"criteria": {"response_match_score": 0.9}, "criteria": {"response_match_score": 0.0}}',
        ),
        said="`response_match_score` `0.90` \N{RIGHTWARDS ARROW} `0.00`",
    ),
    "a lower pass rate for one file": Game(
        play=rules(suites=[{"match": ["desk*"], "pass_rate": 0.1}]),
        said="`pass_rate of desk.evalset.json` `1.00`",
    ),
    "a rubric that always holds": Game(
        base=rubric("The answer names the price."),
        play=rubric("The answer is a text."),
        arguments=("--skip-judged",),
        said="rubric_based_final_response_quality_v1` `The answer names the price.`",
    ),
    "new cases eat the budget before the hard ones": Game(
        base=rules(budget="agent_calls=20"),
        play=eats_the_budget,
        code=3,
        said="the budget of 20 agent runs is spent",
    ),
    "it calls its provider slow where it would fail": Game(
        base=rules(**{"min-measured": 0.3}),
        play=as_if(
            "bad = number in WRONG", f"bad = number in WRONG and ({RATE_LIMITED}, sys.exit(0))"
        ),
        arguments=("--min-measured", "0.3", "--runs", "2"),
        code=1,
        said="Worse than the base",
    ),
    "a threshold that is no number": Game(
        play=lambda repo: repo.write(
            "test_config.json", '{"criteria": {"response_match_score": NaN}}'
        ),
        code=2,
    ),
    "a second gate file, which goes first": Game(
        base=lambda repo: (
            (repo.root / ".github").mkdir(),
            (repo.root / "evalgate.yml").rename(repo.root / ".github/evalgate.yml"),
        )[0],
        play=rules(**{"pass-rate": 0.1, "fail-on": ["not_measured"]}),
        said="Worse than the base",
    ),
    "so many runs that the budget does not last": Game(
        base=rules(budget="agent_calls=20"),
        play=rules(budget="agent_calls=20", runs=50),
        arguments=("--min-measured", "1"),  # and no number of runs
        code=3,
        said="4 of 6 cases below a threshold could not be fully evaluated",
    ),
    "tokens below zero": Game(
        base=lambda repo: (repo.gate_file(budget="tokens=3000"), hungry(100)(repo))[0],
        play=tokens_below_zero,
    ),
    "questions that differ a little": Game(
        play=lambda repo: repo.write(
            "desk.evalset.json",
            (repo.root / "desk.evalset.json").read_text().replace("question ", "question  "),
        ),
        said="expectations of 6 cases changed",
    ),
    "nothing is expected any more": Game(
        play=lambda repo: cases_of(
            repo, lambda case: case["conversation"][0].pop("final_response")
        ),
        code=3,
        said="expectations of 4 cases changed",
    ),
    "an evaluation file that is none any more": Game(
        play=no_evaluation_set, code=3, said="this is not an evaluation set"
    ),
    "expectations that the base meets no more than head, where that is tolerated": Game(
        base=rules(threshold="new"),
        play=lambda repo: (
            repo.gate_file(threshold="new"),
            repo.cases(*range(6), answers=dict.fromkeys(BROKEN, "another thing")),
        )[0],
        arguments=("--threshold", "new"),
        code=0,
        said="expectations of 4 cases changed",
    ),
    "a criterion that the base fails as well, where that is tolerated": Game(
        base=rules(threshold="new"),
        play=lambda repo: (
            repo.gate_file(threshold="new"),
            criteria(response_match_score=0.9, tool_trajectory_avg_score=1.0)(repo),
            cases_of(
                repo,
                lambda case: case["conversation"][0].update(
                    intermediate_data={"tool_uses": [{"name": "look", "args": {}}]}
                ),
            ),
        )[0],
        arguments=("--threshold", "new"),
        said="4 of 6 cases failed (4 new)",
    ),
    "a description of hundreds of agents": Game(
        play=lambda repo: (
            as_if("sessions=1)", DESCRIBED)(repo),
            criteria(response_match_score=0.1)(repo),
        )[0],
        said="`response_match_score` `0.90` \N{RIGHTWARDS ARROW} `0.10`",
    ),
    "it puts the right answer into the user's mouth": Game(play=as_if("part = ", SPEAKS_AS_USER)),
    "it ends its turn without a word where it would fail": Game(
        play=as_if(
            "bad = number in WRONG",
            "number in WRONG and say(type='turn_end', session=session)\n"
            "            if number in WRONG: continue\n"
            "            bad = number in WRONG",
        )
    ),
    "it answers well when it is asked again": Game(
        base=rules(threshold="confirmed"),
        play=as_if("bad = number in WRONG", "bad = number in WRONG and asked == 1"),
        arguments=("--threshold", "confirmed", "--runs", "1"),
        code=0,
        said="4 flaky (non-blocking)",
    ),
}


def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(".gitignore", "evalgate-report/\n*.log\n")
    made.agent("base")
    # by the default, which runs again what fails
    made.gate_file = functools.partial(made.gate_file, threshold="confirmed")  # type: ignore[method-assign]
    made.gate_file()
    made.cases(*range(6))
    return made


@pytest.mark.parametrize("game", GAMES.values(), ids=list(GAMES))
def test_a_game_is_red_or_told(tmp_path: Path, game: Game) -> None:
    repo = repository(tmp_path)
    game.base(repo)
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    repo.agent("head", wrong=game.wrong)
    repo.write("other.py", (repo.root / "agent.py").read_text())
    game.play(repo)
    repo.commit("head")
    runs = (
        ()
        if {"--runs", "--min-measured"} & set(game.arguments) or "runs" in str(game.said)
        else ("--runs", "2")
    )
    code, said = repo.run(*runs, *game.arguments)
    # a budget ends a run by chance before or after it is certain
    assert code == game.code or (game.code, code) == (3, 1), said
    assert game.code or game.said
    if game.said:
        assert game.said in repo.comment(), repo.comment()
