"""Two files of results: a file of cases that was renamed between them is compared under its new
name."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from builders import build, comparing, sides

from evalgate.config import load
from evalgate.errors import ConfigError
from evalgate.gate import prepare, stored_results
from evalgate.model import (
    Case,
    CaseStatus,
    ConversationScenario,
    EvalSet,
    Report,
    Run,
    Transcript,
    TrialKey,
)
from evalgate.reports import turns, view
from evalgate.results import file
from evalgate.results.file import Stored, StoredOutcomes
from evalgate.results.labels import CaseLabel

OLD, NEW = "desk.evalset.json", "help.evalset.json"


def cases(run: Run, *references: str) -> Run:
    """The run with these cases; a reference is what a case expects, the questions are always the
    same."""
    (suite,) = run.suites
    made = tuple(
        Case(
            case_id=f"c{number}", conversation=(build.turn(f"question {number}", answer=reference),)
        )
        for number, reference in enumerate(references)
    )
    eval_set = dataclasses.replace(suite.eval_set, cases=made)
    prints = {(suite.key, case.case_id): f"stored {case.conversation}" for case in made}
    return dataclasses.replace(
        run, suites=(dataclasses.replace(suite, eval_set=eval_set),), fingerprints=prints
    )


def compared(base: Run, head: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    read = {
        name: Stored(run=run, outcomes=StoredOutcomes({}, {}), version="1", criteria={})
        for name, run in {"base": base, "head": head}.items()
    }
    monkeypatch.setattr(file, "read_results", lambda path, of: read[path.name])
    choice = load.load_settings({"root": str(tmp_path)})
    context = prepare.make_context(choice, environ={})
    return stored_results.compare(choice, context, base=Path("base"), head=Path("head"))


def test_a_renamed_file_is_compared_under_its_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = cases(sides.run([["PP", "PP", "PP", "PP"]], suite=OLD), "a", "b", "c", "d")
    new = cases(sides.run([["FF", "FF", "FF", "PP"]], suite=NEW), "a", "b", "c", "another")
    gated = compared(old, new, tmp_path, monkeypatch)
    comparison = gated.comparison
    assert comparison is not None
    assert not comparison.problem
    assert [(case.suite, case.case_id, case.status) for case in comparison.cases] == [
        *((NEW, f"c{number}", CaseStatus.PAIRED) for number in range(3)),
        (NEW, "c3", CaseStatus.CHANGED),
    ]
    assert gated.exit_code != 0


def test_the_conversations_of_a_renamed_file_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ConversationScenario(starting_prompt="Hello.", conversation_plan="Ask for a refund.")
    scenario = Case(case_id="c0", conversation=None, scenario=plan)

    def side(key: str, answer: str) -> Run:
        run = cases(sides.run([["P"]], suite=key), "a")
        suite = dataclasses.replace(
            run.suites[0], eval_set=EvalSet(eval_set_id="s", cases=(scenario,))
        )
        said = Transcript(invocations=(build.turn("Hello.", answer=answer),))
        at = TrialKey(suite=key, case_id="c0")
        return dataclasses.replace(run, suites=(suite,), transcripts={at: said}.get)

    report = compared(side(OLD, "Hi."), side(NEW, "Go away."), tmp_path, monkeypatch)
    (shown,) = view.view_of(report).cases
    assert "diverge in turn 1" in turns.conversation_of(shown).divergence


def test_a_file_that_asks_other_things_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = cases(sides.run([["PP", "PP"]], suite=OLD), "a", "b")
    new = sides.run([["FF", "PP"]], suite=NEW)  # its cases ask nothing that the old ones asked
    comparison = compared(old, new, tmp_path, monkeypatch).comparison
    assert comparison is not None
    assert {(case.suite, case.status) for case in comparison.cases} == {
        (OLD, CaseStatus.REMOVED),
        (NEW, CaseStatus.NEW),
    }


@pytest.mark.parametrize(("bad", "side"), [("base", "the base"), ("head", "the head")])
def test_a_file_that_is_no_results_is_told_of_its_side(bad: str, side: str, tmp_path: Path) -> None:
    run = file.render_results(build.report("pass"), outcomes=StoredOutcomes({}, {}))
    for name in ("base", "head"):
        (tmp_path / name).write_text(
            '{"eval_set_id": "x", "eval_cases": []}' if name == bad else "".join(run)
        )
    choice = load.load_settings({"root": str(tmp_path)})
    with pytest.raises(ConfigError) as caught:
        stored_results.compare(
            choice,
            prepare.make_context(choice, environ={}),
            base=tmp_path / "base",
            head=tmp_path / "head",
        )
    assert caught.value.message == f"{side} does not fit results.json: `schema_version` is missing"
    assert caught.value.where is not None
    assert caught.value.where.file == str(tmp_path / bad)
    assert "evalgate run" in caught.value.hint


def test_a_stored_case_has_the_origin_of_its_run(tmp_path: Path) -> None:
    key = (build.SUITE, "case_1")
    again = {key: [build.done_of("pass")] * 8}
    report = comparing.report("fail pass", "pass pass", fresh=(again, again))
    path = tmp_path / "results.json"
    path.write_text("".join(file.render_results(report, outcomes=StoredOutcomes({}, {}))))
    case = stored_results.of_file(path)[key]
    assert case.label is CaseLabel.FLAKY
    assert case.failure_origin == "flaky"
