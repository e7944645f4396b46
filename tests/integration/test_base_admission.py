"""`admission`: a case decides neither question before it has been reliable on the base branch."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration


def test_a_case_that_has_not_been_reliable_decides_neither_gate(tmp_path: Path) -> None:
    repo = Repository(tmp_path / "repo", tmp_path / "asked.log")
    repo.write(".gitignore", "evalgate-report/\n")
    repo.agent("base")
    repo.gate_file()
    repo.cases(*range(6))
    repo.commit("base")
    store = ("--baseline-folder", str(tmp_path / "store"))
    code, said = repo.run(*store, "--save-baseline", "always", base="")
    assert code == 0, said
    repo.git("checkout", "-qb", "change")
    repo.agent("head", wrong=(1, 2, 3, 4))
    repo.commit("worse")
    assert repo.run(*store, "--runs", "2", "--admission", "1")[0] == 1  # one base run is on record
    gates = {gate["gate"]: gate["kind"] for gate in repo.results()["verdict"]["gates"]}
    assert gates == {"threshold": "fail", "regression": "fail"}
    repo.run(*store, "--runs", "2", "--admission", "2")  # nothing has been reliable in two
    gates = {gate["gate"]: gate["kind"] for gate in repo.results()["verdict"]["gates"]}
    assert "fail" not in gates.values()
