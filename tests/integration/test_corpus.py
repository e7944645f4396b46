"""Real evaluation files from public repositories: what ADK reads is read, and the rest is read or
refused rightly."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from evalgate import formats
from evalgate.errors import Severity
from evalgate.formats import EvalSetReading, FileKind, recordings
from evalgate.text import plain
from evalgate.wings.google_cloud.eval_config import parse_eval_config

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "../shared/corpus"
INDEX = CORPUS / "INDEX.tsv"
LOADERS = ("adk_2_13_accepts", "adk_old_converter", "adk_cli_loader", "adk_agent_evaluator")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not INDEX.exists(), reason="needs the corpus: public evaluation files beside the repository"
    ),
]

REFUSED = {
    # rubrics by id alone, without a text
    "DaveTownDev__cothesis-curation-agent/eval/gold_set.json": (
        "missing-key",
        "`rubric_content` is missing",
    ),
    # `test_cases` with prose for expectations
    "lesliefdo08__Adaptive-Chef/evaluation/meal_planner.evalset.json": (
        "not-an-eval-set",
        "`version`, `test_cases`",
    ),
    # weights instead of thresholds
    "nbalawat__adk-samples/python/agents/wealth-management/eval/data/test_config.json": (
        "missing-threshold",
        "`threshold` is missing; found `weight`",
    ),
    # a list of workflows; `tests` with `turns`
    "nbalawat__adk-samples/python/agents/wealth-management/eval/data/wealth_management.test.json": (
        "not-an-eval-set",
        "`description`, `workflow_type`",
    ),
    "njraladdin__adk-typescript/tests/integration/fixture/customer_support_ma/customer-support.test.json": (
        "not-an-eval-set",
        "there is no `eval_cases`; found `tests`",
    ),
    # criteria as a list of descriptions
    "qmandev__fivetran-ai-readiness-agent@a0bc5430/tests/eval/eval_config.json": (
        "criteria-not-an-object",
        "expected an object of criteria by name, found a list",
    ),
    "savcha__lawn-concierge/tests/eval/eval_config.json": (
        "criteria-not-an-object",
        "expected an object of criteria by name, found a list",
    ),
    # a list of conversations with keywords
    "savcha__lawn-concierge/tests/eval/evalsets/basic.evalset.json": (
        "not-an-eval-set",
        "`expected_criteria`",
    ),
    # another tool's list of metrics, another tool's report
    "trpc-group__trpc-agent-go/examples/evaluation/callbacks/data/math-eval-app/math-basic.metrics.json": (
        "not-an-eval-set",
        "found `metricName`, `threshold` and `criterion`",
    ),
    "trpc-group__trpc-agent-python/examples/optimization/eval_optimize_loop/sample_output/evaluations/"
    "baseline_train.json": ("not-an-eval-set", "there is no `eval_cases`; found `phase`, `split`"),
}
"""The code, and the cause as the first line says it."""

COMMON_NAMES = {
    file
    for file in REFUSED
    if "evalset" not in file and "config" not in file and "gold_set" not in file
}
"""Files that only somebody who names them would take for evaluation files: discovery passes them
by."""


def rows() -> list[dict[str, str]]:
    if not INDEX.exists():
        return []
    with INDEX.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


RESULTS = (".evalset_result.json", ".evalsetresult.json")
CRITERIA = (
    "test_config.json",
    "test-config.json",
    "eval_config.json",
    "eval-suite/eval/config.json",
)


def text_of(row: dict[str, str]) -> str:
    text = plain.decode((CORPUS / "files" / row["file"]).read_bytes(), file=row["file"])
    assert isinstance(text, str)
    return text


def read(row: dict[str, str]):
    text = text_of(row)
    kind = formats.kind_of(text, file=row["file"])
    if row["file"].endswith(RESULTS):
        return recordings.parse_recordings(text, file=row["file"])
    if kind is FileKind.DATASET_CONFIG:
        return parse_eval_config(text, file=row["file"])
    parse = formats.parse_criteria if row["file"].endswith(CRITERIA) else formats.parse_eval_set
    return parse(text, file=row["file"])


def codes(reading, severity: Severity) -> set[str]:
    return {p.code for p in reading.problems if p.severity is severity}


def adk_reads(row: dict[str, str]) -> bool:
    return any(row[loader] == "yes" for loader in LOADERS)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["file"][-60:])
def test_every_file(row):
    reading = read(row)
    errors = codes(reading, Severity.ERROR)
    code, cause = REFUSED.get(row["file"], (None, ""))
    assert errors == ({code} if code else set())
    told = next(
        (str(p).splitlines()[0] for p in reading.problems if p.severity is Severity.ERROR), ""
    )
    assert cause in told
    assert "Wire" not in "".join(map(str, reading.problems))  # no class of ours
    if isinstance(reading, EvalSetReading) and not errors:
        assert reading.eval_set is not None
        cases = reading.eval_set.cases
        assert len(cases) == int(row["n_cases"])
        assert row["kind"] == "malformed" or sum(
            len(case.conversation or ()) for case in cases
        ) == int(row["n_invocations"])
    elif isinstance(reading, recordings.RecordingReading):
        assert len(reading.recordings) == int(row["n_cases"])
    assert all(p.place is not None and p.place.file == row["file"] for p in reading.problems)


@pytest.mark.parametrize(
    "row", [row for row in rows() if adk_reads(row)], ids=lambda row: row["file"][-60:]
)
def test_what_adk_reads_is_read_without_an_error(row):
    assert row["file"] not in REFUSED
    assert codes(read(row), Severity.ERROR) == set()


@pytest.mark.parametrize(
    "row",
    [
        row
        for row in rows()
        if not adk_reads(row) and row["file"] not in REFUSED and "eval_history" not in row["file"]
    ],
    ids=lambda row: row["file"][-60:],
)
def test_what_adk_rejects_and_we_read_is_told(row):
    reading = read(row)
    is_dataset = formats.kind_of(text_of(row), file=row["file"]) is FileKind.DATASET
    assert (
        is_dataset
        or any("ADK" in p.message or "metric" in p.message for p in reading.problems)
        or ("evalset_result" in row["file"])
    )


def test_common_names_with_other_content_are_none_of_ours():
    passed_by = {
        row["file"]
        for row in rows()
        if formats.kind_of(text_of(row), file=row["file"]) is FileKind.OTHER
        and not row["file"].endswith((*RESULTS, *CRITERIA))
    }
    assert passed_by == COMMON_NAMES


def test_the_table_in_the_docs_counts_right():
    counts: dict[str, Counter[str]] = {}
    for row in rows():
        reading = read(row)
        outcome = "refused" if codes(reading, Severity.ERROR) else "read"
        if outcome == "read" and codes(reading, Severity.WARNING):
            outcome = "warned"
        counts.setdefault(row["kind"], Counter())[outcome] += 1
    page = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    told = {
        found.group(1): tuple(int(cell) for cell in found.groups()[1:])
        for found in re.finditer(r"\| `([\w-]+)`[^|]*\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", page)
    }
    counted = {
        kind: (count.total(), count["read"], count["warned"], count["refused"])
        for kind, count in counts.items()
    }
    assert told == counted
