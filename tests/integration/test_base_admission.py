"""The ledger of base runs: how criteria went, and `admission`, before which a case decides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration


def test_a_case_that_has_not_been_reliable_decides_neither_gate(tmp_path: Path) -> None:
    repo = Repository(tmp_path / "repo", tmp_path / "asked.log")
    repo.write(".gitignore", "evalgate-report/\nstore/\n")
    repo.agent("base")
    store = ("--baseline-folder", "store")
    repo.gate_file(policy="base", admission=2, baseline_folder=store[1])
    repo.cases(*range(6))
    repo.commit("base")
    for _ in range(2):
        code, said = repo.run(*store, "--save-baseline", "always", base="")
        assert code == 0, said
    repo.git("checkout", "-qb", "change")
    repo.agent("head", wrong=(1, 2, 3, 4))
    repo.commit("worse")
    assert repo.run(*store, "--runs", "2", "--admission", "2")[0] == 1  # two base runs are on record
    gates = {gate["gate"]: gate["kind"] for gate in repo.results()["verdict"]["gates"]}
    assert gates == {"threshold": "fail", "regression": "fail"}
    summary = (repo.root / "evalgate-report/summary.md").read_text()
    assert "Criteria in the last 2 runs of the base branch" in summary
    (trend,) = [line for line in summary.splitlines() if line.startswith("| `response_match_score` | `\u2588")]
    lowest, highest, last, now = (float(cell) for cell in trend.split("|")[3:7])
    assert lowest == highest == last == 1 > now
    repo.run(*store, "--runs", "2", "--admission", "3")  # nothing has been reliable in three
    gates = {gate["gate"]: gate["kind"] for gate in repo.results()["verdict"]["gates"]}
    assert "fail" not in gates.values()
    assert [case["quarantined"] for case in repo.results()["suites"][0]["cases"]] == [True] * 6
    assert "6 cases are quarantined (`admission`: not yet reliable in 3 base runs): `case_0`" in repo.comment()
    # a ledger that somebody damaged must not make the gate decide nothing
    ledger = repo.root / "store" / "history.json"
    whole = ledger.read_bytes()
    ledger.write_bytes(b"{")
    assert repo.run(*store, "--runs", "2", "--admission", "3")[0] == 1
    assert "history of base runs in the folder" in repo.comment()
    ledger.write_bytes(whole)
    # under `policy: base` a change cannot have itself judged by a ledger of its own, in which nothing is on record
    repo.gate_file(policy="head", admission=2, baseline_folder="mine")
    repo.commit("another store")
    assert repo.run("--runs", "2")[0] == 1
    gates = {gate["gate"]: gate["kind"] for gate in repo.results()["verdict"]["gates"]}
    assert gates == {"threshold": "fail", "regression": "fail"}


def test_a_renamed_file_keeps_its_record_also_where_parts_are_merged(tmp_path: Path) -> None:
    repo = Repository(tmp_path / "repo", tmp_path / "asked.log")
    repo.write(".gitignore", "evalgate-report/\nparts/\nmerged/\n")
    repo.agent("base")
    kept = ("--baseline-folder", str(tmp_path / "store"), "--admission", "2")
    repo.gate_file()
    repo.cases(*range(4))
    repo.commit("base")
    for _ in range(2):
        assert repo.run(*kept, "--save-baseline", "always", base="")[0] == 0
    repo.git("checkout", "-qb", "change")
    repo.git("mv", "desk.evalset.json", "counter.evalset.json")
    repo.agent("head", wrong=(1, 2, 3))
    repo.commit("worse, and moved")
    assert repo.run(*kept)[0] == 1
    assert repo.run(*kept, "--shard", "1/1", "--output", "parts/1")[0] == 0
    code, said = repo.call("merge", "parts", "--output", "merged", *kept)
    assert code == 1, said
