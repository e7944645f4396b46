"""CES evaluations at the terminal: shown, checked, compared, and never green because they are not
run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from evalgate.cli import cli
from evalgate.wings.assistant.eval_cases import EvalCases
from evalgate.wings.ces.edit import Refused
from evalgate.wings.ces.read import Kind
from evalgate.wings.ces.resources import Resources

DATA = Path(__file__).parents[3] / "data/ces"
CASES = "s.evalset.json"
TURNS = [{"user_content": {"role": "user", "parts": [{"text": "bye"}]}}]
GOLDEN = "evaluations/golden_library_renewal/golden_library_renewal.json"
SET = {
    "eval_set_id": "s",
    "eval_cases": [
        {
            "eval_id": "c",
            "conversation": [{"user_content": {"role": "user", "parts": [{"text": "hi"}]}}],
        }
    ],
}


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path in DATA.glob("[egs]*.json"):
        folder = "evaluationExpectations" if path.stem.startswith("expectation") else "evaluations"
        (tmp_path / folder / path.stem).mkdir(parents=True)
        shutil.copy(path, tmp_path / folder / path.stem)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def called(*args: str) -> Result:
    return CliRunner().invoke(cli, args, catch_exceptions=False)


def test_list_shows_what_is_there(app: Path) -> None:
    done = called("list")
    assert done.exit_code == 0
    assert "    - renew_loan_happy_path (golden, 3 turns, P0, loans)" in done.output
    assert "    - lost_card_scenario (scenario, P1, cards)" in done.output
    assert "    - one_question_at_a_time (expectation, style)" in done.output
    assert f"{GOLDEN}\n  CES       evaluation (no agent)\n" in done.output


def test_list_shows_each_file_once(app: Path) -> None:
    (app / "evalgate.yml").write_text(
        "agents: [{driver: command, command: ./agent}]\njudge: {replay: said.jsonl}\n"
    )
    lines = called("list").output.splitlines()
    assert lines.count(GOLDEN) == 1
    assert "  CES       evaluation (no agent)" not in lines
    assert "  CES       expectation (not run)" in lines


def test_judges_without_credentials_are_one_error_for_each_file(app: Path) -> None:
    (app / "evalgate.yml").write_text("agents: [{driver: command, command: ./agent}]\n")
    told = [
        line for line in called("validate").output.splitlines() if "credentials-missing" in line
    ]
    assert len(told) == 2
    assert (
        "`ces_semantic_similarity`, `ces_hallucination` and `ces_evaluation_expectations` can never"
        in told[0] + told[1]
    )


def test_validate_counts_and_tells(app: Path) -> None:
    done = called("validate")
    assert (done.exit_code, done.output) == (
        0,
        "0 suites, 0 cases, 2 CES evaluations: 0 errors, 0 warnings\n",
    )
    (app / GOLDEN).write_text((app / GOLDEN).read_text().replace("comparisonType", "comparisonTyp"))
    done = called("validate")
    assert done.exit_code == 2
    assert (
        f"{GOLDEN}:15:13 (golden.turns[0].steps[2].expectation.comparisonTyp): error: unknown key"
        in done.output
    )
    # a selection is of these files; what they refer to may be elsewhere
    assert called("validate", "evaluations/scenario_lost_card").exit_code == 0
    assert called("validate", "evaluations").exit_code == 2
    done = called("validate", "evaluations/scenario_lost_car")
    assert done.exit_code == 4
    assert "Did you mean `evaluations/scenario_lost_card/scenario_lost_card.json`?" in done.output


@pytest.mark.parametrize("selection", [(), ("evaluations",), (GOLDEN,)])
def test_without_an_agent_ces_evaluations_are_not_a_pass(
    app: Path, selection: tuple[str, ...]
) -> None:
    done = called("run", *selection)
    assert done.exit_code == 2
    assert "no agent" in done.output


def test_beside_adk_evaluation_sets_the_run_tells_of_them(app: Path) -> None:
    (app / "a.evalset.json").write_text(json.dumps(SET))
    for command in ("list", "validate"):
        done = called(command)
        assert "a.evalset.json" in done.output
        assert "no agent is known for 2 CES evaluations" in done.output
    # an error of theirs stops `validate`, also where nothing but the folder tells what the file is
    (app / GOLDEN).write_text("{")
    assert f"{GOLDEN}:1:2: error: the file ends too early" in called("validate").output
    done = called("list", "a.evalset.json")
    assert "CES" not in done.output


def test_excluded_and_ignored_files_are_none(app: Path) -> None:
    (app / "evalgate.yml").write_text("exclude: [evaluations/**]\n")
    assert "0 CES evaluations" in called("validate").output
    (app / "evalgate.yml").unlink()
    (app / ".gitignore").write_text("evaluations/\n")
    assert "renew_loan_happy_path" not in called("list").output


DIFF_FAULTS = [
    ("missing.json", "missing.json: the file does not exist"),
    ("empty", "no CES file in empty"),
]


@pytest.mark.parametrize(("new", "said"), DIFF_FAULTS)
def test_what_cannot_be_compared(app: Path, new: str, said: str) -> None:
    (app / "empty").mkdir()
    done = called("diff", "evaluations", new)
    assert done.exit_code == 2
    assert said in done.output


def test_diff_marks_what_relaxes(app: Path) -> None:
    shutil.copytree(app / "evaluations", app / "new")
    path = app / "new/golden_library_renewal/golden_library_renewal.json"
    raw = json.loads(path.read_text())
    raw["description"] = "else"
    raw["golden"]["turns"][2]["turnLevelMetricsThresholdsOverride"][
        "semanticSimilaritySuccessThreshold"
    ] = 1
    path.write_text(json.dumps(raw))
    done = called("diff", "evaluations", "new")
    assert done.exit_code == 0
    assert "semanticSimilaritySuccessThreshold: 2 -> 1 (may relax)" in done.output
    assert "2 differences, 2 that may relax" in done.output
    (app / "evaluations/app.json").write_text('{"evaluationSettings": {}}')
    (app / "new/app.yaml").write_text(
        "evaluationSettings:\n  goldenEvaluationToolCallBehaviour: FAKE\n"
    )
    told = 'evaluationSettings.goldenEvaluationToolCallBehaviour: (not set) -> "FAKE" (may relax)'
    assert told in called("diff", "evaluations", "new").output
    path.unlink()
    assert (
        "evaluation renew_loan_happy_path: removed (may relax)"
        in called("diff", "evaluations", "new").output
    )
    assert called("diff", "evaluations", "evaluations", "--exit-code").exit_code == 0


def test_what_an_assistant_may_not_do_alone_a_person_accepts(app: Path) -> None:
    """At the terminal, as it was shown; other changes of the same file stay."""
    (app / CASES).write_text(json.dumps(SET, indent=2) + "\n")
    resources = Resources(app, no_relaxing=True)
    name = "projects/local/locations/local/apps/library-desk/evaluations/lost-card-scenario"
    for call in (
        lambda: resources.update(Kind.EVALUATION, {"name": name, "tags": ["P1"]}),
        lambda: EvalCases(resources).update(CASES, "c", {"conversation": TURNS}),
    ):
        with pytest.raises(Refused) as told:
            call()
    assert "`evalgate ces accept s.evalset.json:c`" in told.value.message
    shown = called("ces", "accept").output
    for expected in (
        "lost-card-scenario: tags[1]: it is removed",
        "s.evalset.json:c: ",
        '"text": "bye"',
    ):
        assert expected in shown
    scenario = app / "evaluations/scenario_lost_card/scenario_lost_card.json"
    scenario.write_text(scenario.read_text().replace('"maxTurns": 12', '"maxTurns": 13'))
    before = scenario.read_text()
    assert called("ces", "accept", "lost-card-scenario").output == "accepted lost-card-scenario\n"
    assert json.loads(scenario.read_text())["tags"] == ["P1"]
    assert [line for line in scenario.read_text().splitlines() if '"tags"' not in line] == [
        line for line in before.splitlines() if '"tags"' not in line
    ]
    # nobody looks at it: a pull request may have brought it along, under the name of a case
    assert called("accept", f"{CASES}:c", "--yes").exit_code != 0
    assert '"text": "bye"' not in (app / CASES).read_text()
    called("ces", "accept", f"{CASES}:c")
    assert '"text": "bye"' in (app / CASES).read_text()
    assert called("ces", "accept").output == ""
    with pytest.raises(Refused):
        resources.update(Kind.EVALUATION, {"name": name, "tags": []})
    rejected = called("ces", "accept", "lost-card-scenario", "--reject")
    assert rejected.output == "rejected lost-card-scenario\n"
    assert json.loads(scenario.read_text())["tags"] == ["P1"]
    assert called("ces", "accept").output == ""
    assert called("ces", "accept", "c").exit_code == 2
