"""A plan measured by several processes and merged: the same bytes as one run, and honest where a
part is missing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from builders.gated_repository import AGENT, Repository

from evalgate.results import run_parts

pytestmark = pytest.mark.integration

TIMES = {
    "seconds",
    "started_at",
    "measured_at",
    "age_days",
    "duration",
    "model_duration",
    "invocation_duration_v1",
}
PARTS = {"shards", "shard", *("evidence", "failing", "reason")}
"""What a merged run says of its parts: by whose share of alpha their reruns are judged."""


ASKED = {"inputs", "descriptions"}
"""What agents read: those of a part see fewer cases, and the parts run beside each other in one
checkout."""


def made_in(folder: Path) -> Repository:
    made = Repository(folder / "repo", folder / "asked.log")
    made.write(".gitignore", "evalgate-report/\nparts/\nmerged/\n*.json.bak\n")
    made.agent("base", wrong=(1,))
    made.gate_file()
    made.cases(*range(7))
    remark_on(made)
    made.commit("base")
    made.git("checkout", "-qb", "change")
    made.agent("head", wrong=(1, 4))
    made.commit("head")
    return made


def remark_on(made: Repository) -> None:
    """Something in the evaluation file that a run warns of."""
    (file,) = made.root.rglob("*.evalset.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "descripton": "misspelt"}))


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return made_in(tmp_path)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose two halves and whole were measured; not to be changed."""
    made = made_in(tmp_path_factory.mktemp("measured"))
    assert measure_parts(made, 2) == [0, 0]
    assert made.call("run")[0] == 1
    return made.root


@pytest.fixture
def halves(repo: Repository, measured: Path) -> Repository:
    """A repository with both halves in `parts` and the whole run beside them."""
    for name in ("parts", "evalgate-report"):
        shutil.copytree(measured / name, repo.root / name)
    return repo


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("name") == "invocation_duration_v1":
            return {}
        return {
            key: timeless(each) for key, each in value.items() if key not in TIMES | PARTS | ASKED
        }

    return [timeless(each) for each in value] if isinstance(value, list) else value


def read(path: Path) -> Any:
    return timeless(json.loads(path.read_text()))


def without_times(text: str) -> str:
    """A report without how long it took and how it was called."""
    text = re.sub(r"\d+(\.\d+)? ?m?s\b|(time|timestamp)=\"[^\"]*\"", "T", text)
    # a part begins with its share of the purse
    text = re.sub(r"(?i) \(evidence [\d.,]+ : 1\)", "", text)
    text = re.sub(r"(?i)no evidence|evidence [\d.,]+ : 1|[\d.,]+ : 1", "E", text)
    other = ("evalgate run", "evalgate merge", "evalgate report")
    other += ("invocation_duration_v1", "Agent changed")
    return "\n".join(line for line in text.split("\n") if not any(word in line for word in other))


def measure_parts(repo: Repository, of: int, *arguments: str) -> list[int]:
    """All parts at once, each a process of its own."""
    started = [
        repo.start("run", "--shard", f"{index}/{of}", "--output", f"parts/{index}", *arguments)
        for index in range(1, of + 1)
    ]
    return [repo.end(process)[0] for process in started]


def merge(
    repo: Repository, *arguments: str, places: tuple[str, ...] = ("parts",)
) -> tuple[int, str]:
    return repo.call("merge", *places, "--output", "merged", *arguments)


@pytest.mark.parametrize(
    ("base", "of"),
    [("", 3), ("main", 1), ("main", 5)],
    ids=["alone-3", "with a base-1", "with a base-5"],
)
def test_parts_merged_are_one_run(repo: Repository, of: int, base: str) -> None:
    chosen = ("--runs", "2", *(("--base", base) if base else ()))
    whole_code, _ = repo.call("run", *chosen)
    assert measure_parts(repo, of, *chosen) == [0] * of
    code, said = merge(repo)
    assert (code, whole_code) == (1, 1), said
    whole, merged = repo.root / "evalgate-report", repo.root / "merged"
    assert read(merged / "results.json") == read(whole / "results.json")
    names = ["comment.md", "junit.xml", "summary.md", "findings.sarif"]
    for name in names:
        assert without_times((merged / name).read_text()) == without_times(
            (whole / name).read_text()
        ), name
    # looked at once more, the files say what the merge said
    assert repo.call("report", "merged/results.json", "--output", "again")[0] == 1
    again = without_times((repo.root / "again/junit.xml").read_text())
    assert again == without_times((merged / "junit.xml").read_text())
    assert (merged / "base.json").exists() == (whole / "base.json").exists() == bool(base)
    assert "descripton" in (merged / "comment.md").read_text(), "the parts' warnings, once"
    if base:
        assert read(merged / "base.json") == read(whole / "base.json")
    # the whole run's, then the parts'
    asked = [(repo.asked("head") - 14) // 14, (repo.asked("base")) // 28]
    assert asked == [1, 1 if base else 0]


def test_the_order_and_the_place_of_parts_do_not_matter(repo: Repository) -> None:
    measure_parts(repo, 3)
    assert merge(repo)[0] == 1
    first = read(repo.root / "merged/results.json")
    (repo.root / "elsewhere").mkdir()
    for index, folder in ((1, "z"), (2, "a"), (3, "m/n")):
        shutil.copytree(repo.root / f"parts/{index}", repo.root / "elsewhere" / folder)
    places = ("elsewhere/m", "elsewhere/z/results.json", "elsewhere/a")
    assert merge(repo, places=places)[0] == 1
    assert read(repo.root / "merged/results.json") == first


def test_a_missing_part_is_not_measured(repo: Repository) -> None:
    measure_parts(repo, 3, "--base", "main")
    shutil.rmtree(repo.root / "parts/2")
    code, said = merge(repo, "--fail-on", "not_measured")
    assert code == 3, said
    results = json.loads((repo.root / "merged/results.json").read_text())
    cases = results["suites"][0]["cases"]
    assert len(cases) == 7
    lost = [case for case in cases if not case.get("trials")]
    assert lost
    assert {case["verdict"] for case in lost} == {"not_measured"}
    assert "shard 2/3 has no results" in said
    assert "shard 2/3 has no results" in (repo.root / "merged/comment.md").read_text()


def test_a_part_decides_nothing_and_says_so(repo: Repository) -> None:
    code, said = repo.call("run", "--shard", "1/1")
    assert code == 0  # case_1 and case_4 fail
    assert "shard 1/1" in said
    assert "it reports no verdict" in (repo.root / "evalgate-report/summary.md").read_text()
    results = json.loads((repo.root / "evalgate-report/results.json").read_text())
    assert (results["verdict"]["kind"], results["verdict"].get("blocked_by")) == ("fail", None)


def test_a_part_whose_agent_never_ran_is_red(repo: Repository) -> None:
    repo.write("agent.py", "raise SystemExit(9)")
    assert repo.call("run", "--shard", "1/2")[0] == 3


def test_a_part_without_cases_is_no_trouble(repo: Repository) -> None:
    repo.cases(0, 1)
    assert measure_parts(repo, 3) == [0] * 3
    code, said = merge(repo)
    assert code == 1, said
    assert (
        len(json.loads((repo.root / "merged/results.json").read_text())["suites"][0]["cases"]) == 2
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("twice", "is shard 1/2, and so is"),
        ("settings", "a different `seed`"),
        ("schema", "schema_version"),
        ("whole", "is a complete run"),
        ("torn", "is not JSON"),
        ("nothing", "no results.json of a shard"),
        ("nowhere", "does not exist"),
    ],
)
def test_what_does_not_belong_together_is_a_clear_error(
    halves: Repository, change: str, words: str
) -> None:
    repo = halves
    place = repo.root / "parts/2/results.json"
    places: tuple[str, ...] = ("parts",)
    match change:
        case "twice":
            shutil.copytree(repo.root / "parts/1", repo.root / "parts/3")
        case "settings":  # both anew: the fixture's parts are of another commit
            repo.call("run", "--shard", "1/2", "--output", "parts/1")
            repo.call("run", "--shard", "2/2", "--output", "parts/2", "--seed", "9")
        case "schema":
            place.write_text(
                place.read_text().replace('"schema_version":', '"schema_version":9', 1)
            )
        case "whole":
            shutil.copytree(repo.root / "evalgate-report", repo.root / "parts/4")
        case "torn":
            place.write_text(place.read_text()[:-100])
        case "nothing":
            shutil.rmtree(repo.root / "parts")
            (repo.root / "parts").mkdir()
        case _:
            places = ("no-such-folder",)
    code, said = merge(repo, places=places)
    assert code == (3 if change == "nothing" else 2), said
    assert words in said
    assert "Traceback" not in said


def test_durations_of_a_merge_balance_the_next_run(halves: Repository) -> None:
    repo = halves
    merge(repo)
    found = json.loads((repo.root / "merged/durations.json").read_text())
    assert set(found["desk.evalset.json"]) == {f"case_{number}" for number in range(7)}
    slow = {
        "desk.evalset.json": {f"case_{number}": 60.0 if number == 3 else 1.0 for number in range(7)}
    }
    repo.write("durations.json", json.dumps(slow))
    shutil.rmtree(repo.root / "parts")
    assert measure_parts(repo, 2, "--durations", "durations.json") == [0, 0]
    sizes = [
        len(
            json.loads((repo.root / f"parts/{index}/results.json").read_text())["suites"][0][
                "cases"
            ]
        )
        for index in (1, 2)
    ]
    assert sorted(sizes) == [1, 6]
    assert merge(repo)[0] == 1
    assert repo.call("run", "--shard", "1/2", "--durations", "evalgate.yml")[0] == 2


def test_a_budget_is_divided_among_the_parts(repo: Repository) -> None:
    repo.log.unlink(missing_ok=True)
    measure_parts(repo, 2, "--budget", "agent_calls=5")
    assert repo.asked("head") == 5
    code, said = merge(repo, "--fail-on", "inconclusive")
    results = json.loads((repo.root / "merged/results.json").read_text())
    assert "'s share of the budget of 5 agent runs is spent" in results["truncated"], said
    assert code in (0, 3)  # inconclusive, unless what did run fails for certain


def test_new_failures_are_confirmed_in_parts_as_well(repo: Repository) -> None:
    chosen = ("--base", "main", "--threshold", "new")
    measure_parts(repo, 2, *chosen)
    code, said = merge(repo, "--threshold", "new", "--fail-on", "threshold")
    assert code == 1, said
    found = json.loads((repo.root / "merged/results.json").read_text())["comparison"]["cases"]
    origins = {case["case_id"]: case["origin"] for case in found}
    assert origins == {"case_1": "known", "case_4": "new"}


def test_a_merge_gates_by_the_bases_rules_where_one_run_would(repo: Repository) -> None:
    """The base says `policy: both`; head says nothing of it and lets everything pass."""
    repo.git("checkout", "-q", "main")
    repo.gate_file(policy="both")
    repo.commit("rules")
    repo.git("checkout", "-q", "change")
    repo.git("rebase", "-q", "main")
    repo.gate_file(**{"fail-on": ["inconclusive"], "pass-rate": 0.1})
    repo.cases(*range(7), threshold=0.1)
    repo.commit("lets everything pass")
    assert measure_parts(repo, 1, "--base", "main") == [0]
    code, said = merge(repo)
    assert code == 1, said
    merged = json.loads((repo.root / "merged/results.json").read_text())
    assert {gate["gate"]: gate["kind"] for gate in merged["verdict"]["gates"]}[
        "threshold"
    ] == "fail"
    assert merged["edits"]["by_base"]
    subjects = {edit["subject"] for edit in merged["edits"]["edits"]}
    assert {"response_match_score", "test_config.json", "pass_rate", "evalgate.yml"} <= subjects
    shutil.rmtree(repo.root / ".git")  # a job without a checkout
    said = merge(repo)[1]
    assert "could not check whether this change relaxes the base's rules" in said
    assert "Check out the repository in the merge job" in said


def test_parts_that_were_compared_with_nothing_are_merged_by_the_bases_rules(
    repo: Repository,
) -> None:
    repo.git("checkout", "-q", "main")
    repo.gate_file(policy="both")
    repo.commit("rules")
    repo.git("checkout", "-q", "change")
    repo.git("rebase", "-q", "main")
    repo.cases(*range(6), threshold=0.0)
    repo.commit("lets everything pass")
    environment = {"GITHUB_EVENT_NAME": "pull_request"}
    part = ("run", "--shard", "1/1", "--output", "parts/1", "--baseline", "none")
    assert repo.call(*part, environment=environment)[0] == 0
    code, said = repo.call("merge", "parts", "--output", "merged", environment=environment)
    assert code == 1, said
    merged = json.loads((repo.root / "merged/results.json").read_text())
    assert merged["edits"]["by_base"]
    assert sorted(edit["kind"] for edit in merged["edits"]["edits"]) == [
        "case_removed",
        "file",
        "rule",
    ]
    assert "comparison" not in merged


def test_fresh_pairs_of_parts_are_merged(repo: Repository) -> None:
    repo.gate_file(threshold="confirmed")
    repo.agent("head", wrong=(2,), flaky=(5,))
    repo.commit("flaky")
    measure_parts(repo, 2, "--base", "main")
    code, said = merge(repo)
    results = json.loads((repo.root / "merged/results.json").read_text())
    assert code == 1, said
    assert results["verdict"]["evidence"] >= 20, "each part began with a half"


def test_a_new_case_is_new_beside_a_base_that_fails(repo: Repository) -> None:
    """The base fails in every run of the part that has the new case."""
    homes = run_parts.divide(
        [("desk.evalset.json", f"case_{number}") for number in range(8)], of=3, durations={}
    )
    own = [homes["desk.evalset.json", f"case_{number}"] for number in range(8)]
    beside = [number for number in range(7) if own[number] == own[7]]
    repo.git("checkout", "-q", "main")
    repo.write(
        "agent.py",
        AGENT.format(side="base", wrong=set(beside), flaky="set()").replace(
            "bad else", "bad and os._exit(3) else"
        ),
    )
    repo.commit("crashes")
    repo.git("checkout", "-qB", "change")
    repo.agent("head", wrong=(7,))
    repo.cases(*range(8))
    repo.commit("one case more")
    repo.run("--threshold", "confirmed")
    measure_parts(repo, 3, "--base", "main", "--threshold", "confirmed")
    merge(repo)
    merged, whole = (
        {
            case["case_id"]: (case["status"], case.get("origin"))
            for case in json.loads((repo.root / name / "results.json").read_text())["comparison"][
                "cases"
            ]
        }
        for name in ("merged", "evalgate-report")
    )
    assert merged == whole
    assert whole["case_7"][0] == "new"


def test_only_one_part_has_the_base(repo: Repository) -> None:
    measure_parts(repo, 2, "--base", "main")
    (repo.root / "parts/2/base.json").unlink()
    code, said = merge(repo)
    assert "shard 2/2 has no base results" in said
    gates = {
        gate["gate"]: gate["kind"]
        for gate in json.loads((repo.root / "merged/results.json").read_text())["verdict"]["gates"]
    }
    assert gates["regression"] in ("not_measured", "fail")
    assert code == 1


# --- evalgate compare -----------------------------------------------------------------------------


def test_compare_says_what_a_run_with_that_base_says(repo: Repository) -> None:
    repo.call("run", "--base", "main", "--runs", "2")
    whole = json.loads((repo.root / "evalgate-report/results.json").read_text())
    shutil.copytree(repo.root / "evalgate-report", repo.root / "kept")
    code, said = repo.call("compare", "kept/base.json", "kept/results.json", "--output", "merged")
    assert code == 1, said
    assert not (repo.root / "merged/results.json").exists()
    (row,) = [row for row in whole["comparison"]["criteria"] if row["rule"]["gating"]]
    assert f"{row['head']:.2f}" in said
    comment = (repo.root / "merged/comment.md").read_text()
    assert "case_4" in comment
    assert "1 new and 1 pre-existing" in comment


def test_compare_leaves_apart_what_cannot_be_compared_and_tells_what_is_relaxed(
    halves: Repository,
) -> None:
    repo = halves
    (repo.root / "evalgate-report").rename(repo.root / "then")
    repo.cases(1, 2, 3, 4, 5, 6, 9, threshold=0.5, answers={2: "answer 2 of course"})
    repo.call("run", "--output", "now")
    code, said = repo.call("compare", "then/results.json", "now/results.json", "--output", "merged")
    comment = (repo.root / "merged/comment.md").read_text()
    assert code == 1, said
    for words in (
        "case `case_0` deleted",
        "`response_match_score` `0.90` \N{RIGHTWARDS ARROW} `0.50`",
    ):
        assert words in comment
    code, said = repo.call(
        "compare", "then/results.json", "now/results.json", "--policy", "both", "--output", "merged"
    )
    assert code == 1, said


def edited(place: Path, to: Path, **criterion: Any) -> None:
    """Results with something else told of their criterion, of another time than those beside
    them."""
    results = json.loads(place.read_text())
    code = criterion.pop("agents_code", None)
    results["started_at"] = criterion.pop("started_at", results["started_at"])
    for suite in results["suites"]:
        suite["criteria"][0] |= criterion
        suite["agent"]["inputs"] = suite["agent"]["inputs"] if code is None else code
    to.write_text(json.dumps(results))


EARLIER = {"started_at": "2026-01-01T00:00:00+00:00"}


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        ({}, {}, ""),
        ({"prompt_version": "3"}, {"prompt_version": "3"}, ""),
        (
            {"prompt_version": "3"},
            {"prompt_version": "4"},
            "used a different judge prompt on the base",
        ),
        ({}, {"prompt_version": "4"}, "version unknown, now 4"),
        ({"options": {"x": 1}}, {}, "had different options on the base"),
        # a custom metric: the same only where all files are, as its own are among them
        ({"code": "metrics.mine", **EARLIER}, {"code": "metrics.mine"}, ""),
        (
            {"code": "metrics.mine", "agents_code": "0" * 16},
            {"code": "metrics.mine"},
            "may have had different code",
        ),
        (
            {"code": "metrics.mine", "agents_code": ""},
            {"code": "metrics.mine", "agents_code": ""},
            "different code",
        ),
        ({"code": "metrics.mine"}, {"code": "metrics.yours"}, "had different options on the base"),
    ],
)
def test_compare_compares_no_scores_that_were_made_otherwise(
    halves: Repository, then: dict[str, Any], now: dict[str, Any], said: str
) -> None:
    whole, names = halves.root / "evalgate-report/results.json", ("then.json", "now.json")
    for name, told in zip(names, (then, now), strict=True):
        edited(whole, halves.root / name, **told)
    halves.call("compare", *names, "--output", "merged")
    comment = (halves.root / "merged/comment.md").read_text()
    assert ("are not compared: it" in comment) is bool(said)
    assert said in comment
    row = next(line for line in comment.splitlines() if line.startswith("| `response_match_score`"))
    assert ("| - | - |" in row) is bool(said)


def test_compare_takes_the_sides_of_one_run_to_be_scored_by_one_code(repo: Repository) -> None:
    repo.call("run", "--base", "main")
    for name in ("base.json", "results.json"):
        edited(repo.root / "evalgate-report" / name, repo.root / name, code="metrics.mine")
    repo.call("compare", "base.json", "results.json", "--output", "merged")
    assert "are not compared: it" not in (repo.root / "merged/comment.md").read_text()
    edited(repo.root / "base.json", repo.root / "base.json", **EARLIER)
    repo.call("compare", "base.json", "results.json", "--output", "merged")
    assert (
        "may have had different code on the base" in (repo.root / "merged/comment.md").read_text()
    )


def test_compare_refuses_parts_and_nonsense(halves: Repository) -> None:
    repo = halves
    code, said = repo.call("compare", "evalgate-report/results.json", "parts/1/results.json")
    assert (code, "is shard 1/2 of a run" in said) == (2, True), said
    code, said = repo.call("compare", "evalgate.yml", "evalgate-report/results.json")
    assert code == 2, said


def test_what_is_worse_in_all_parts_together_is_not_red_beside_stored_results(
    repo: Repository, tmp_path: Path
) -> None:
    """What nobody can run today is not called worse; where the base can be run, it is."""
    store = ("--baseline-folder", str(tmp_path / "kept"))
    repo.git("checkout", "-q", "main")
    repo.agent("base")
    repo.gate_file(threshold="confirmed")
    repo.cases(*range(8), threshold=0.0)
    repo.commit("lenient")
    assert repo.call("run", *store, "--save-baseline", "always")[0] == 0
    repo.git("checkout", "-qB", "change")
    repo.agent("head", wrong=tuple(range(8)))
    repo.commit("worse")
    assert measure_parts(repo, 2, "--base", "main", "--baseline", "store", *store) == [0, 0]
    code, said = merge(repo, "--base", "main")
    assert code == 0, said
    assert "The base did not run today" in said
    # beside a base of today it is
    assert measure_parts(repo, 2, "--base", "main", "--baseline", "rerun") == [0, 0]
    code, said = merge(repo, "--base", "main")
    assert code == 1, said


def test_the_merge_keeps_what_the_parts_measured(tmp_path: Path, repo: Repository) -> None:
    """For a later run that is divided in another way."""
    repo.reuses = True
    parts = [
        ("run", "--shard", f"{index}/2", "--output", str(tmp_path / f"parts/{index}"))
        for index in (1, 2)
    ]
    assert [repo.call(*part)[0] for part in (*parts, parts[0])] == [0, 0, 0]
    asked = repo.asked("head")
    assert asked > 7, "a part alone keeps nothing"
    assert (
        merge(repo, "--output", str(tmp_path / "merged"), places=(str(tmp_path / "parts"),))[0] == 1
    )
    code, said = repo.call("run")
    assert (code, repo.asked("head")) == (1, asked), said


def test_a_report_of_a_run_says_what_the_run_said(repo: Repository) -> None:
    repo.agent("head", wrong=(1,))
    repo.cases(*range(1, 8))
    repo.commit("a case less, and one more")
    code, _ = repo.run("--threshold", "new")
    run_comment = without_times(repo.comment())
    again, said = repo.call("report", "evalgate-report", "--output", "again", "--threshold", "new")
    assert (code, again) == (0, 0), said
    assert without_times((repo.root / "again/comment.md").read_text()) == run_comment


def test_a_report_of_a_run_says_why_it_had_no_base(repo: Repository) -> None:
    repo.git("checkout", "-q", "main")
    repo.write("evalgate.yml", "nonsense: 1")
    repo.commit("broken")
    repo.git("checkout", "-qB", "change")
    repo.gate_file()
    repo.agent("head")
    repo.commit("head")
    assert repo.run("--fail-on", "inconclusive")[0] == 3
    code, said = repo.call(
        "report", "evalgate-report", "--output", "again", "--fail-on", "inconclusive"
    )
    assert (code, "unknown setting `nonsense`" in said) == (3, True), said
