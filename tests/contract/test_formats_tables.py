"""Every row of the tables of formats is read through one door, and told on its docs page."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate import formats
from evalgate.errors import Severity
from evalgate.formats import Dialect, FileKind
from evalgate.wings.google_cloud.eval_config import parse_eval_config

PAGE = (Path(__file__).parents[2] / "docs/formats.md").read_text(encoding="utf-8")
READERS = {
    **dict.fromkeys(formats.CASE_FILES, formats.parse_eval_set),
    FileKind.OTHER: formats.parse_criteria,
    FileKind.DATASET_CONFIG: parse_eval_config,
}

SMALLEST = {
    FileKind.EVAL_SET: '{"eval_set_id": "s", "eval_cases": []}',
    FileKind.DATASET: '{"eval_cases": [{"eval_case_id": "c", "prompt": {"role": "user", "parts": [{"text": "x"}]}}]}',
    FileKind.OTHER: '{"criteria": {"response_match_score": 0.8}}',
    FileKind.DATASET_CONFIG: "metrics_to_run: []",
}
NAMES = {
    FileKind.EVAL_SET: "a.evalset.json",
    FileKind.DATASET: "a-dataset.json",
    FileKind.OTHER: "test_config.json",
    FileKind.DATASET_CONFIG: "eval_config.yaml",
}


def test_every_kind_has_a_reader():
    assert READERS.keys() == set(FileKind)


@pytest.mark.parametrize("kind", READERS)
def test_the_smallest_file_of_a_kind(kind):
    assert formats.kind_of(SMALLEST[kind], file=NAMES[kind]) is kind
    problems = READERS[kind](SMALLEST[kind], file=NAMES[kind]).problems
    assert [p.code for p in problems if p.severity is Severity.ERROR] == []


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("text", ["", "\x00", "{", "[[[", "null", '"\\ud800"'])
def test_every_reader_answers_broken_files_with_an_error(kind, text):
    problems = READERS[kind](text, file=NAMES[kind]).problems
    assert [p for p in problems if p.severity is Severity.ERROR]
    assert all(p.place is not None and p.place.file == NAMES[kind] for p in problems)


@pytest.mark.parametrize(
    "dialect", [dialect for dialect in Dialect if dialect is not Dialect.UNKNOWN]
)
def test_every_dialect_is_on_the_page(dialect):
    assert f"| `{dialect.value}` |" in PAGE
