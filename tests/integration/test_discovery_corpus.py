"""Discovery and the linter over real evaluation files of public repositories."""

import csv
import json
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from evalgate.config.settings import Settings
from evalgate.discovery import discover, lint as discovery_lint, walk
from evalgate.errors import Severity

pytestmark = pytest.mark.integration

CORPUS = Path(__file__).parents[2] / "../shared/corpus"
FILES = CORPUS / "files"
EVALSET_KINDS = {"evalset-new-snake", "evalset-new-camel", "old-list"}

if not FILES.is_dir():
    pytest.skip(
        "needs the corpus: public evaluation files beside the repository", allow_module_level=True
    )


def rows():
    with (CORPUS / "INDEX.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def lint(found):
    return discovery_lint.lint(found.suites)


@pytest.fixture(scope="module")
def whole():
    return discover.discover(Settings(root=FILES.resolve()))


def test_every_evaluation_set_is_found_or_explained(whole):
    expected = {
        row["file"]
        for row in rows()
        if row["kind"] in EVALSET_KINDS
        and row["file"].endswith(walk.EVALUATION_ENDINGS)
        and "/.adk/" not in row["file"]
    }
    assert len(expected) > 80
    explained = {
        problem.place.file for problem in whole.problems if problem.severity is Severity.ERROR
    }
    found = {suite.key for suite in whole.suites}
    assert expected - found - explained == set()


def test_those_under_other_names_are_found_by_naming_them():
    others = [
        row["file"]
        for row in rows()
        if row["kind"] in EVALSET_KINDS and not row["file"].endswith(walk.EVALUATION_ENDINGS)
    ]
    assert others
    found = discover.discover(Settings(root=FILES.resolve(), paths=others))
    explained = {problem.place.file for problem in found.problems if problem.place}
    assert set(others) - {suite.key for suite in found.suites} - explained == set()


def test_each_repository_alone_is_read_without_a_crash():
    for folder in sorted(FILES.iterdir()):
        if any(path.name.endswith(walk.EVALUATION_ENDINGS) for path in folder.rglob("*.json")):
            found = discover.discover(Settings(root=folder.resolve()))
            for problem in (*found.problems, *lint(found)):
                assert str(problem)


ISSUES = {
    # what INDEX.tsv says of a file that ADK accepts -> the code that we raise
    "case keys accepted but unused": {"unused-key"},
    "top-level keys silently ignored": {"unknown-key", "unused-key"},
    "zero cases": {"no-cases"},
    "unknown config keys silently ignored": {"unknown-key"},
    "config accepted with EMPTY criteria": {"asserts-nothing"},
    "fails later": {"unknown-criterion"},
}
COMMENT_ONLY = "_comment"  # a key that says of itself that it is no content


def codes_of_sets(whole):
    codes = defaultdict(set)
    for problem in (*whole.problems, *lint(whole)):
        if problem.place:
            codes[problem.place.file].add(problem.code)
    return codes


def codes_of_config(file, tmp_path):
    """What is said of a config that lies beside a sound evaluation set."""
    turn = {
        "user_content": {"parts": [{"text": "hi"}]},
        "final_response": {"parts": [{"text": "hello"}]},
    }
    case = {"eval_id": "a", "conversation": [turn]}
    (tmp_path / "x.evalset.json").write_text(json.dumps({"eval_set_id": "x", "eval_cases": [case]}))
    shutil.copyfile(FILES / file, tmp_path / "test_config.json")
    found = discover.discover(Settings(root=tmp_path))
    return {
        problem.code
        for problem in found.problems
        if problem.place and problem.place.file == "test_config.json"
    }


def test_what_adk_passes_over_in_silence_is_told(whole, tmp_path):
    by_set = codes_of_sets(whole)
    table = []
    for row in rows():
        for issue in filter(None, row["silent_issues"].split("; ")):
            kind = next((each for each in ISSUES if issue.startswith(each)), None)
            if kind is None or issue.endswith(COMMENT_ONLY):
                continue
            codes = (
                codes_of_config(row["file"], tmp_path)
                if row["kind"] == "test_config"
                else by_set[row["file"]]
            )
            if row["kind"] != "test_config" and not row["file"].endswith(walk.EVALUATION_ENDINGS):
                continue
            table.append((kind, row["file"], sorted(codes & ISSUES[kind])))
    for kind, file, codes in table:
        print(f"{kind:40} {','.join(codes) or '-':24} {file}")
    missed = [(kind, file) for kind, file, codes in table if not codes]
    assert missed == []
    assert {kind for kind, _, _ in table} == set(ISSUES) - {"top-level keys silently ignored"}
