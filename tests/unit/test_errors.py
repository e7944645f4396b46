"""What one error says of many problems."""

from __future__ import annotations

import pytest

from evalgate.errors import ConfigError, Problem, Severity

WHERE = "in the configuration or the evaluation files"


@pytest.mark.parametrize(
    ("severities", "message"),
    [
        (["error"], f"1 problem {WHERE}"),
        (["error", "warning", "notice", "error"], f"2 problems {WHERE}"),
        # nothing but warnings: they stop a strict run alone
        (["warning", "notice"], f"1 warning {WHERE}, treated as errors (`strict`)"),
        (["warning"] * 3, f"3 warnings {WHERE}, treated as errors (`strict`)"),
    ],
)
def test_problems_are_counted_by_what_stops_the_run(severities: list[str], message: str) -> None:
    problems = [Problem(severity=Severity(each), code="x", message="m") for each in severities]
    error = ConfigError.collected(problems)
    assert error.message == message
    assert error.problems == tuple(problems)
    shown = [each for each in problems if each.severity is Severity.ERROR] or problems
    assert error.__notes__ == [str(each) for each in shown]  # what a traceback adds
