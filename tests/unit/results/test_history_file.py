"""history.json: written, read back, and refused where it is not ours."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given, strategies as st

from evalgate.model.trial import MOST
from evalgate.results import history as results_history
from evalgate.results.history import CaseHistory, PastOutcome, PastRun, PastRuns, Unreadable

CASES = st.builds(
    lambda suite, case_id, counts: CaseHistory(
        suite=suite,
        case_id=case_id,
        question="q",
        fingerprint="f",
        outcomes=(PastOutcome(number=1, passes=counts[0], measured=counts[1], runs=counts[2]),),
    ),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.tuples(*[st.integers(0, 9)] * 3).map(sorted),
)
RUNS = st.builds(
    lambda cases, mean: PastRuns(
        runs=(PastRun(number=1, commit="c" * 40, at="2026-01-02T03:04:05Z", means={"m": mean}),),
        cases=tuple(cases),
    ),
    st.lists(CASES, max_size=4),
    st.floats(-MOST, MOST),
)


SCHEMA = jsonschema.Draft202012Validator(results_history.schema())


@given(st.lists(RUNS, max_size=4))
def test_what_is_written_is_read_and_fits_the_schema(runs: list[PastRuns]) -> None:
    history = PastRuns()
    for run in runs:
        history = results_history.update(history, run)
    text = results_history.render_history(history)
    assert results_history.parse_history(text) == history
    SCHEMA.validate(json.loads(text))


def test_the_schema_is_one() -> None:
    assert jsonschema.Draft202012Validator(SCHEMA.META_SCHEMA).is_valid(SCHEMA.schema)


def test_a_name_that_is_no_text_can_be_written() -> None:
    case = CaseHistory(
        suite="s",
        case_id="a\ud800",
        fingerprint="f",
        outcomes=(PastOutcome(number=1, passes=1, measured=1, runs=1),),
    )
    history = PastRuns(runs=(PastRun(number=1, commit="c", at=""),), cases=(case,))
    assert (
        results_history.parse_history(results_history.render_history(history)).cases[0].case_id
        == "a?"
    )


def history_of(runs: str) -> bytes:
    return f'{{"schema_version":3,"runs":[{runs}],"cases":[]}}'.encode()


def history_with(**case: object) -> bytes:
    whole = {"suite": "s", "case_id": "c", "fingerprint": "f", "outcomes": [[1, 1, 1, 1]]} | case
    runs = [{"number": 1, "commit": "c", "at": ""}]
    return json.dumps({"schema_version": 3, "runs": runs, "cases": [whole]}).encode()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "EOF"),
        (b"[]", "object"),
        (b"\xff\xfe", "Invalid JSON"),
        (b'{"runs": []}', "schema_version"),
        (history_with(outcomes=[[1, 2, 1, 1]]), "more repeats passed than were measured"),
        (history_with(outcomes=[[1, 1, 2, 1]]), "more were measured than requested"),
        (history_with(outcomes=[[2, 1, 1, 1], [1, 1, 1, 1]]), "not in order"),
        (history_with(outcomes=[[1, -1, 1, 1]]), "greater than or equal to 0"),
        # no run was ever asked for so often
        (history_with(outcomes=[[1, 1, 1, 10**30]]), "less than or equal to"),
        (history_with(outcomes=[]), "at least 1"),
        (b'{"schema_version":2,"runs":[],"cases":[]}', "written by an earlier version"),
        (b'{"schema_version":1,"runs":[],"cases":[]}', "schema_version"),  # there never was one
        (history_with(case_id=5), "string"),
        (history_with(later="x"), "later"),
        (
            b'{"schema_version":3,"runs":[{"number":2,"commit":"","at":""},{"number":2,"commit":"","at":""}],"cases":[]}',
            "not in order",
        ),
        (
            b'{"schema_version":3,"runs":[{"number":2,"commit":"","at":"","means":{"m":1e999}}],"cases":[]}',
            "less than",
        ),
        (
            b'{"schema_version":3,"runs":[{"number":2,"commit":"","at":"","means":{"m":-1e308}}],"cases":[]}',
            "greater",
        ),  # no score is
    ],
)
def test_what_is_no_history_is_refused(text: bytes, complaint: str) -> None:
    with pytest.raises(Unreadable, match=complaint) as refused:
        results_history.parse_history(text)
    assert not refused.value.newer


@pytest.mark.parametrize(
    "text", [b'{"schema_version":4,"runs":[],"cases":[]}', b'{"schema_version":7,"other":1}']
)
def test_a_later_version_is_told_apart(text: bytes) -> None:
    with pytest.raises(Unreadable, match="later version") as refused:
        results_history.parse_history(text)
    assert refused.value.newer
