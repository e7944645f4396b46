"""The sentences of reports: every value that may occur has words, and all words are in
templates."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import pytest
from builders import template_words
from builders.scenarios import DOWN, MADE

from evalgate import reports
from evalgate.model import (
    AgentFailure,
    CaseStatus,
    Change,
    EditKind,
    FailureKind,
    FailureOrigin,
    GateCause,
    GateKind,
    Reason,
    VerdictKind,
)
from evalgate.reports import causes, sarif
from evalgate.reports.phrases import phrase
from evalgate.results import labels
from evalgate.results.labels import CaseLabel

COUNTED = {*labels.FAILURES, CaseLabel.FIXED, CaseLabel.FLAKY} - {CaseLabel.FAILED}
ROWS: dict[str, Iterable[enum.Enum | str]] = {
    "kind_word": VerdictKind,
    "kind_ending": VerdictKind,
    "label_word": CaseLabel,
    "failure_label": {*labels.FAILURES, CaseLabel.FLAKY, CaseLabel.LISTED} - {CaseLabel.FAILED},
    "change_word": Change,
    "reason_words": Reason,
    "question": GateKind,
    "finding_title": sarif.RULES,
    "finding_text": sarif.RULES,
    "finding_label": sarif.RULES,
}
"""Tables of words, with all values that they may get."""
STRANGERS = (
    "no number came back",
    "the judge gave no reply",
    "2 of 3 runs passed",
    "1 of 2 cases passes in some runs and fails in others; 3 runs cannot tell.",
    f"all 5 samples failed: {DOWN}",
    "the base's agent did not run: ModuleNotFoundError: No module named 'flights'",
    "the base cannot start",
    "the base has no agent for any of these suites",
    "the stored results are 30 days old, more than 14: run the base branch again",
)
"""What scenarios write as a criterion of another package, a provider or an agent says it."""


@pytest.mark.parametrize("name", ROWS)
def test_every_value_has_words_of_its_own(name: str) -> None:
    values = list(ROWS[name])
    phrases = [phrase(name, value) for value in values]
    assert all(phrases)
    assert len(set(phrases)) == len(values)


def test_values_beside_others_have_words_too() -> None:
    assert all(phrase("label_count", label, 2).startswith("2 ") for label in COUNTED)
    assert set(causes.STATUSES) == set(CaseLabel)
    assert set(labels.OF_ORIGIN) == set(FailureOrigin)
    assert all(phrase("unpaired_case", status) for status in (CaseStatus.NEW, CaseStatus.CHANGED))
    assert all(phrase("edit", kind, "x", "y", "z") for kind in EditKind)
    failures = [AgentFailure(kind=kind, message="broke") for kind in FailureKind]
    assert len({phrase("agent_cause", failure, "") for failure in failures}) == len(failures)


def test_every_cause_of_the_regression_gate_is_a_sentence() -> None:
    names = template_words.sentences()
    assert {cause.value for cause in GateCause} <= set(names)
    assert sorted(set(names)) == sorted(names)  # of two with one name, one is never used


# escaped letters are no words
@pytest.mark.parametrize("scenario", [name for name in MADE if "hostile" not in name])
def test_every_word_of_a_report_is_a_templates_or_the_results_own(scenario: str) -> None:
    """Templates are read with all their words in full-width letters: Latin ones that are left stand
    in Python, or are names and texts of the results, or what the criterion of a package says."""
    with template_words.marked():
        report = MADE[scenario]()
        texts = [reports.RENDERERS[name].render(report) for name in ("comment", "summary")]
        texts.append(reports.render_terminal(report))
    words = template_words.latin("\n".join(texts))
    texts = [*template_words.data_of(report), *template_words.data_of(STRANGERS)]
    data = " ".join(texts).lower()  # of which a report may show a piece
    assert {word for word in words - template_words.UNITS if word not in data} == set()
