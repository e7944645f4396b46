"""Parts of a plan joined: the same bytes as one run, and clear words where parts are missing,
doubled or strangers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from builders import build, sides
from hypothesis import given, settings, strategies as st

from evalgate.comparison import verdict as comparison_verdict
from evalgate.errors import ConfigError, Place
from evalgate.model import (
    BaseOrigin,
    BaseSource,
    CaseComparison,
    CaseStatus,
    Comparison,
    Display,
    EditKind,
    Edits,
    GateEdit,
    JudgeUse,
    PlanPart,
    Policy,
    Report,
    Run,
    TrialKey,
    VerdictKind,
)
from evalgate.results import file, run_parts

ROWS = [["PF", "FF", "PP", "P!", "PP", "F."]]


class Kept:
    """Outcomes that say which trial they are of."""

    def find_json(self, key: TrialKey) -> dict[str, Any]:
        turn = {"user_content": {"parts": [{"text": f"{key.case_id} {key.repeat}"}]}}
        return {"kind": "transcript", "invocations": [turn]}

    def agents(self) -> dict[str, Any]:
        return {}


def text_of(run: Run, *, kept: Any = None, comparison: Comparison | None = None) -> str:
    policy = Policy()
    verdict = comparison_verdict.decide(run, policy, comparison=None)
    report = Report(
        run=run,
        verdict=verdict,
        policy=policy,
        display=Display(version="1"),
        comparison=comparison,
    )
    return "".join(file.render_results(report, outcomes=kept or Kept()))


def part_of(run: Run, index: int, of: int, **changes: Any) -> Run:
    part = run_parts.plan(
        run.suites, index=index, of=of, durations={}, settings=changes.pop("settings", ())
    )
    own = run_parts.suites_of(run.suites, part)
    has = {(suite.key, case.case_id) for suite in own for case in suite.eval_set.cases}
    trials = tuple(trial for trial in run.trials if trial.key.case in has)
    return dataclasses.replace(run, **{"suites": own, "trials": trials, "part": part, **changes})


def read(texts: Iterable[str], folder: Path) -> list[file.Stored]:
    found = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.json"
        path.write_text(text)
        found.append(file.read_results(path, shown_as=path.name))
    return found


def whole() -> Run:
    run = sides.run(ROWS)
    (suite,) = run.suites
    cases = tuple(
        dataclasses.replace(case, conversation=(build.turn(case.case_id, answer="yes"),))
        for case in suite.eval_set.cases
    )
    suite = dataclasses.replace(suite, eval_set=dataclasses.replace(suite.eval_set, cases=cases))
    return dataclasses.replace(
        run, suites=(suite,), commit="c" * 40, started_at="2026-01-01T00:00:00+00:00"
    )


@given(of=st.integers(1, 7), data=st.data())
@settings(max_examples=25, deadline=None)
def test_parts_in_any_order_give_the_bytes_of_one_run(
    of: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = whole()
    texts = data.draw(
        st.permutations([text_of(part_of(run, index, of)) for index in range(1, of + 1)])
    )
    joined = run_parts.join(run_parts.parts_of(read(texts, tmp_path_factory.mktemp("parts"))))
    assert joined.problems == ()
    # but for which part ran each case, which is read again as it was written
    known = read([text_of(joined.run, kept=joined.outcomes)], tmp_path_factory.mktemp("again"))[
        0
    ].run
    homes = run_parts.plan(run.suites, index=1, of=of, durations={}).homes
    assert known.part == (PlanPart(of=of, homes=homes) if of > 1 else None)
    again = text_of(dataclasses.replace(joined.run, part=None), kept=joined.outcomes)
    straight = read([text_of(run)], tmp_path_factory.mktemp("whole"))[0]
    assert again == text_of(straight.run, kept=straight.outcomes)


def test_the_cases_of_a_missing_part_are_not_measured(tmp_path: Path) -> None:
    run = dataclasses.replace(whole(), trials=whole().trials)
    joined = run_parts.join(
        run_parts.parts_of(read([text_of(part_of(run, index, 3)) for index in (1, 3)], tmp_path))
    )
    assert [problem.code for problem in joined.problems] == ["shard-missing"]
    assert "shard 2/3 has no results: 2 cases not measured" in joined.problems[0].message
    verdict = comparison_verdict.decide(joined.run, Policy(), comparison=None)
    lost = {
        key[1]
        for key, home in run_parts.plan(run.suites, index=1, of=3, durations={}).homes.items()
        if home == 2
    }
    never = {
        case.case_id
        for suite in verdict.suites
        for case in suite.cases
        if case.reason == "never ran"
    }
    assert lost <= never
    only_passing = dataclasses.replace(
        joined.run,
        trials=tuple(trial for trial in joined.run.trials if trial.key.case_id in ("c2", "c4")),
    )
    assert (
        comparison_verdict.decide(only_passing, Policy(), comparison=None).kind
        is VerdictKind.NOT_MEASURED
    )
    assert {case.case_id for case in joined.run.suites[0].eval_set.cases} == {
        f"c{number}" for number in range(6)
    }


Change = Callable[[dict[str, Any]], None]


def change_commit(raw: dict[str, Any]) -> None:
    raw["commit"] = "d" * 40


def change_version(raw: dict[str, Any]) -> None:
    raw["evalgate"] = "2"


def change_seed(raw: dict[str, Any]) -> None:
    raw["seed"] = 9


def change_root(raw: dict[str, Any]) -> None:
    raw["root"] = "services/shop"


def change_runs(raw: dict[str, Any]) -> None:
    raw["repeats"] = 9


def change_compat(raw: dict[str, Any]) -> None:
    raw["adk_compat"] = True


def change_count(raw: dict[str, Any]) -> None:
    raw["shard"]["of"] = 3


def take_index(raw: dict[str, Any]) -> None:
    raw["shard"]["index"] = 7


def change_plan_case(raw: dict[str, Any]) -> None:
    raw["shard"]["fingerprint"] = "x"
    raw["shard"]["plan"][0]["cases"][0]["fingerprint"] = "y"


def change_threshold(raw: dict[str, Any]) -> None:
    raw["shard"]["fingerprint"] = "x"
    raw["shard"]["plan"][0]["criteria"][0]["threshold"] = 0.1


def change_settings(raw: dict[str, Any]) -> None:
    raw["shard"]["fingerprint"] = "x"


def lose_a_case(raw: dict[str, Any]) -> None:
    del raw["suites"][0]["cases"][0]


def take_a_case(raw: dict[str, Any]) -> None:
    mine = {case["case_id"] for case in raw["suites"][0]["cases"]}
    planned = next(case for case in raw["shard"]["plan"][0]["cases"] if case["case_id"] not in mine)
    raw["suites"][0]["cases"].append(
        {**raw["suites"][0]["cases"][0], "case_id": planned["case_id"], "trials": []}
    )


def be_whole(raw: dict[str, Any]) -> None:
    del raw["shard"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (change_commit, r"different commits \(cccccccccccc and dddddddddddd\)"),
        (change_version, "different versions of evalgate"),
        (change_seed, "a different `seed`"),
        (
            change_root,
            r"different folders of the repository \(the repository root and services/shop\)",
        ),
        (change_runs, "different `runs`"),
        (change_compat, "with and without `adk-compat`"),
        (change_count, "different numbers of shards"),
        (take_index, "an invalid shard 7/2"),
        (change_plan_case, "differ in cases, criteria"),
        (change_threshold, "differ in cases, criteria"),
        (change_settings, "differ in cases, criteria"),
        (lose_a_case, "which must not contain"),
        (take_a_case, "which must not contain"),
        (be_whole, "is a complete run"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(
    change: Change, words: str, tmp_path: Path
) -> None:
    first, second = (json.loads(text_of(part_of(whole(), index, 2, root=""))) for index in (1, 2))
    change(second)
    with pytest.raises(ConfigError, match=words):
        run_parts.parts_of(read([json.dumps(first), json.dumps(second)], tmp_path))


def test_the_folder_of_the_parts_is_kept_where_one_knows_it(tmp_path: Path) -> None:
    texts = [
        text_of(part_of(whole(), index, 2, root=root))
        for index, root in ((1, None), (2, "services/shop"))
    ]
    assert "root" not in json.loads(texts[0])
    joined = run_parts.join(run_parts.parts_of(read(texts, tmp_path)))
    assert joined.run.root == "services/shop"


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [(False, False, False), (False, True, True), (True, None, True), (False, None, None)],
)
def test_parts_of_changed_files_are_together_of_changed_files(
    first: bool | None, second: bool | None, together: bool | None, tmp_path: Path
) -> None:
    texts = [
        text_of(part_of(whole(), index, 2, dirty=dirty))
        for index, dirty in ((1, first), (2, second))
    ]
    assert run_parts.join(run_parts.parts_of(read(texts, tmp_path))).run.dirty is together


def test_a_part_that_is_there_twice_is_refused_and_both_places_are_named(tmp_path: Path) -> None:
    text = text_of(part_of(whole(), 1, 2))
    with pytest.raises(ConfigError, match=r"shard 1/2, and so is 0\.json") as caught:
        run_parts.parts_of(read([text, text], tmp_path))
    assert str(caught.value.where) == "1.json"


def test_a_division_by_other_durations_is_told_as_such(tmp_path: Path) -> None:
    run = whole()
    one, two = part_of(run, 1, 2), part_of(run, 2, 2)
    assert two.part is not None
    swapped = {key: 3 - home for key, home in two.part.homes.items()}
    part = dataclasses.replace(two.part, homes=swapped, fingerprint="other", index=2)
    other = dataclasses.replace(one, part=part)
    with pytest.raises(ConfigError, match=r"differ in .*`durations`"):
        run_parts.parts_of(read([text_of(one), text_of(other)], tmp_path))


def test_what_judging_took_is_added_up(tmp_path: Path) -> None:
    use = JudgeUse(criterion="m", model="g", calls=2, cost_usd=0.25, failures={"server": 1})
    unpriced = dataclasses.replace(use, cost_usd=None, unpriced=2, failures={"timeout": 2})
    texts = [
        text_of(part_of(whole(), 1, 2, judges=(use,))),
        text_of(part_of(whole(), 2, 2, judges=(unpriced,))),
    ]
    (together,) = run_parts.join(run_parts.parts_of(read(texts, tmp_path))).run.judges
    assert (together.calls, together.cost_usd, together.unpriced) == (4, 0.25, 2)
    assert together.failures == {"server": 1, "timeout": 2}


def test_surroundings_that_differ_are_told(tmp_path: Path) -> None:
    texts = [text_of(part_of(whole(), index, 2)) for index in (1, 2)]
    raw = json.loads(texts[1])
    raw["suites"][0]["agent"]["about"] = {"python": "3.13"}
    first = json.loads(texts[0])
    first["suites"][0]["agent"]["about"] = {"python": "3.12"}
    joined = run_parts.join(
        run_parts.parts_of(read([json.dumps(first), json.dumps(raw)], tmp_path))
    )
    assert [problem.code for problem in joined.problems] == ["shards-differ"]


def case(case_id: str, status: CaseStatus) -> CaseComparison:
    return CaseComparison(suite="s", case_id=case_id, status=status, head=None, base=None)


def told(**more: Any) -> Comparison:
    origin = {
        "source": BaseSource.RERUN,
        "commit": "b" * 40,
        "reused": 1,
        "run": 2,
        **more.pop("origin", {}),
    }
    return Comparison(origin=BaseOrigin(**origin), **more)


def test_what_parts_tell_of_the_base_is_joined() -> None:
    one = told(
        cases=(
            case("mine", CaseStatus.REMOVED),
            case("gone", CaseStatus.REMOVED),
            case("new", CaseStatus.NEW),
        ),
    )
    two = told(
        origin={"source": BaseSource.STORE, "distance": 3, "age_days": 2.0, "notes": ("stale",)},
    )
    joined = run_parts.join_comparisons([one, two], planned=[("s", "mine"), ("s", "new")])
    assert joined is not None
    assert {each.case_id: each.status for each in joined.cases} == {
        "gone": CaseStatus.REMOVED,
        "new": CaseStatus.NEW,
    }
    assert (joined.origin.source, joined.origin.reused, joined.origin.run) == (
        BaseSource.MIXED,
        2,
        4,
    )
    assert (joined.origin.distance, joined.origin.age_days, joined.origin.notes) == (
        3,
        2.0,
        ("stale",),
    )


def test_a_problem_of_the_base_is_one_only_where_every_part_has_it() -> None:
    broken = told(problem="it does not start", no_agent=True, base_failed=True)
    every = run_parts.join_comparisons([broken, broken], planned=[])
    some = run_parts.join_comparisons([broken, told()], planned=[])
    assert every is not None
    assert some is not None
    assert (every.problem, every.no_agent, every.base_failed) == ("it does not start", True, True)
    assert (some.problem, some.no_agent, some.base_failed) == ("", False, False)
    assert run_parts.join_comparisons([], planned=[]) is None


def test_different_bases_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="compared with different commits: aaaaaaaaaaaa and bbbbbbbbbbbb"
    ):
        run_parts.join_comparisons([told(), told(origin={"commit": "a" * 40})], planned=[])


def written(comparison: Comparison, folder: Path) -> Path:
    report = dataclasses.replace(build.report("pass"), comparison=comparison)
    path = folder / "results.json"
    path.write_text("".join(file.render_results(report, outcomes=Kept())))
    return path


def test_what_is_told_of_the_base_survives_results_json(tmp_path: Path) -> None:
    comparison = told(
        cases=(case("a", CaseStatus.NEW), case("b", CaseStatus.PAIRED)),
        problem="p",
        no_agent=True,
        base_failed=True,
    )
    assert file.read_results(written(comparison, tmp_path)).comparison == comparison


def test_what_a_change_edits_survives_results_json_and_is_joined(tmp_path: Path) -> None:
    place = Place(file="evalgate.yml", line=2)
    one, two = (
        GateEdit(kind=kind, subject="a", lines=("-a", "+b"), place=place)
        for kind in (EditKind.RULE, EditKind.FILE)
    )
    told = [Edits(edits=(one,)), Edits(edits=(one, two), decide=True, by_base=True, unasked=("x",))]
    texts = []
    for number, edits in enumerate(told, start=1):
        run = part_of(whole(), number, 2)
        verdict = comparison_verdict.decide(run, Policy(), comparison=None)
        report = Report(
            run=run,
            verdict=verdict,
            policy=Policy(),
            display=Display(version="1"),
            edits=edits,
        )
        texts.append("".join(file.render_results(report, outcomes=Kept())))
    found = read(texts, tmp_path)
    assert [part.edits for part in found] == told
    assert run_parts.join(run_parts.parts_of(found)).edits == Edits(edits=(one, two))
